# The maximum likelihood of tests/test_marginalize.py's irises by mclust, which is no dependency of this package.
#
#     Rscript tests/data/modes_by_mclust.R
#
# Rows are the 150 irises that come with R, by length and width of the sepal; eight of each species are labeled.
# Kept values: mclust 6.0.0 with R 4.2.2. Read from its source, it computes this:
# * The EM algorithm maximises the log-likelihood in which a labeled row counts log(share) + log(density) of its class and an
#   unlabeled row the log of their sum over the classes. Its fixed points are those of maximum likelihood with both.
# * Mixing proportions are free, and all rows are in them: the labeled ones too, as drawn from the same population.
# * In the first M step an unlabeled row is in all classes alike. The labeled rows keep their class throughout.
# * It stops when a step adds no more than the tolerance to the log-likelihood. `MclustSSC` keeps the argument `control` in its
#   result without handing it on: its tolerance is 1e-5 whatever one says, and its parameters are 5e-4 away from the maximum.
#   `MclustSSC.fit`, which it calls, takes `control`. With 1e-10, as here, they are up to 2e-6 away (with 1e-13: 3e-8).

library(mclust)

features <- as.matrix(iris[c("Sepal.Length", "Sepal.Width")])
labels <- as.integer(iris$Species) - 1
labels[-c(1:8, 51:58, 101:108)] <- NA

# EEE: one covariance matrix for all classes; VVV: one for each
mode_of <- function(model) {
  fit <- mclust:::MclustSSC.fit(features, labels, modelName = model, control = emControl(tol = 1e-10))
  parameters <- fit$parameters
  covariance <- aperm(parameters$variance$sigma, c(3, 1, 2))
  list(share = parameters$pro, mean = t(parameters$mean), covariance = covariance, log_lik = fit$loglik)
}

json <- function(x) {
  if (is.list(x)) return(paste0("{\n", paste0('"', names(x), '": ', sapply(x, json), collapse = ",\n"), "\n}"))
  if (!is.null(dim(x))) return(paste0("[", paste(apply(x, 1, json), collapse = ", "), "]"))
  short <- sprintf("%.15g", x)
  paste0("[", paste(ifelse(as.numeric(short) == x, short, sprintf("%.17g", x)), collapse = ", "), "]")
}

labels_kept <- ifelse(is.na(labels), -1, labels)
kept <- list(features = unname(features), labels = labels_kept, EEE = mode_of("EEE"), VVV = mode_of("VVV"))
writeLines(json(kept), "tests/data/modes_by_mclust.json")
