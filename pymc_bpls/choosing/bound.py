"""A lower bound of a mean difference that is known from folds, whose training sets overlap (Nadeau and Bengio, 2003).

With d_j the mean difference of losses in fold j of J in all, d̄ their mean, s² their variance, n_test/n_train the ratio of rows
that a fold tests and trains on, and |C| pipelines that compete,

    d̄ − t_{J−1, 1−α/|C|} √((1/J + n_test/n_train) s²)

is below the expected difference with probability 1 − α for all pipelines together. Folds that share rows are not independent:
n_test/n_train stands for their correlation, and the bound is approximate. Folds that are stratified by class are alike where
differences hang on the class, and s² then says nothing of other rows; it is taken as at least what it would be if rows were
dealt at random, their own variance over n_test.

References
----------
.. [1] Nadeau, C. and Bengio, Y. (2003). Inference for the generalization error. Machine Learning 52, 239-281.
   https://doi.org/10.1023/A:1024068626366
.. [2] Bouckaert, R. R. and Frank, E. (2004). Evaluating the replicability of significance tests for comparing learning
   algorithms. PAKDD 2004, 3-12. https://doi.org/10.1007/978-3-540-24775-3_3
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class Bound:
    """A mean difference, its standard error, and what it is above with the level that was asked for."""

    mean: float
    error: float
    lower: float

    def labels_to_see(self, difference: float, n: int) -> float:
        """How many labels it would take, there being n, for the bound of such a difference to reach 0.

        With as many folds, s² falls with the number of rows a fold, and so the bound's distance from the mean like 1/√n.
        """
        return n * ((self.mean - self.lower) / difference) ** 2


def lower_bound(differences: Sequence[np.ndarray], test_ratio: float, alpha: float, n_pipelines: int) -> Bound:
    """The bound from differences of each fold's rows; of one fold, or where a difference is infinite, there is none, −∞."""
    J, of_rows = len(differences), np.concatenate(differences)
    with np.errstate(invalid="ignore"):
        of_folds = np.array([d.mean() for d in differences])
        mean = float(of_folds.mean())
    if J < 2 or not np.isfinite(mean):
        return Bound(mean, np.nan, -np.inf)
    dealt_at_random = of_rows.var(ddof=1) * J / len(of_rows) if len(of_rows) > J else 0.0
    error = float(np.sqrt((1 / J + test_ratio) * max(of_folds.var(ddof=1), dealt_at_random)))
    return Bound(mean, error, mean - float(stats.t.ppf(1 - alpha / n_pipelines, J - 1)) * error)
