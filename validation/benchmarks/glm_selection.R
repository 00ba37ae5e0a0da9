# One round and a whole run of the paper's algorithm, restated: glm() on D and each candidate, log det of its information.
# Usage: Rscript glm_selection.R FILE N_LABELED ROUNDS; FILE has a header, the class in the first column.
# Prints the seconds of the first round and of all rounds that were run.
arguments <- commandArgs(trailingOnly = TRUE)
table <- read.csv(arguments[1])
n <- as.integer(arguments[2])
rounds <- as.integer(arguments[3])
labeled <- table[seq_len(n), ]
pool <- table[-seq_len(n), ]
suppressWarnings({
  started <- proc.time()[["elapsed"]]
  for (round in seq_len(rounds)) {
    fit <- glm(y ~ ., data = labeled, family = binomial)
    pool$y <- as.integer(predict(fit, pool, type = "response") > 0.5)
    scores <- vapply(seq_len(nrow(pool)), function(i) {
      refit <- glm(y ~ ., data = rbind(labeled, pool[i, ]), family = binomial)
      information <- solve(vcov(refit)[!is.na(coef(refit)), !is.na(coef(refit)), drop = FALSE])
      as.numeric(logLik(refit)) - 0.5 * log(det(information))
    }, numeric(1))
    best <- which.max(scores)
    labeled <- rbind(labeled, pool[best, ])
    pool <- pool[-best, , drop = FALSE]
    if (round == 1) first <- proc.time()[["elapsed"]] - started
    if (nrow(pool) == 0) break
  }
  cat(first, proc.time()[["elapsed"]] - started, round, "\n")
})
