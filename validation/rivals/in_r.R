# glm on labeled rows, and mclust's semi-supervised classification with and without candidates, on splits: Rscript in_r.R FOLDER METHOD...
#
# FOLDER/splits.csv has the columns repetition, role (0 labeled, 1 candidate, 2 test), class and the features; writes
# FOLDER/probabilities.csv: repetition, method, seconds, and the probability of class 1 of each test row.

suppressMessages(library(mclust))

arguments <- commandArgs(trailingOnly = TRUE)
folder <- arguments[1]
splits <- read.csv(file.path(folder, "splits.csv"))

by_glm <- function(X, y, role) {
  train <- data.frame(y = y, X)[role == 0, ]
  fit <- suppressWarnings(glm(y ~ ., data = train, family = binomial))
  suppressWarnings(predict(fit, data.frame(X)[role == 2, , drop = FALSE], type = "response"))
}

by_mclust <- function(train) function(X, y, role) {
  train <- role %in% train
  class <- ifelse(role == 0, y, NA)[train]
  fit <- MclustSSC(X[train, , drop = FALSE], class = class, verbose = FALSE)
  predict(fit, newdata = X[role == 2, , drop = FALSE])$z[, "1"]
}

methods <- list(glm = by_glm, mclust = by_mclust(0:1), mclust_alone = by_mclust(0))[arguments[-1]]
written <- list()
for (repetition in unique(splits$repetition)) {
  rows <- splits[splits$repetition == repetition, ]
  X <- as.matrix(rows[, -(1:3), drop = FALSE])
  for (name in names(methods)) {
    seconds <- system.time(p <- tryCatch(methods[[name]](X, rows$class, rows$role), error = function(e) NULL))["user.self"]
    if (!is.null(p) && all(is.finite(p))) {
      written[[length(written) + 1]] <- c(repetition, name, seconds, format(as.numeric(p), digits = 8, trim = TRUE))
    }
  }
}
write.table(do.call(rbind, written), file.path(folder, "probabilities.csv"), sep = ",", quote = FALSE, row.names = FALSE, col.names = FALSE)
