"""Whether labeled rows cover the pool: rows of a class that no label has look unlike all of them.

A row is as typical as the log density that a class-conditional model gives its features, or under any other model as it is near
to a labeled row. Labeled rows are judged without themselves, so that exchangeable candidates rank among them at random: of m
candidates, beta-binomially many are less typical than the k-th least typical of n labeled rows, (m; k, n + 1 − k) [1]_.

References
----------
.. [1] Bates, S., Candès, E., Lei, L., Romano, Y. and Sesia, M. (2023). Testing for outliers with conformal p-values. Annals of
   Statistics 51, 149-178. https://doi.org/10.1214/22-AOS2244
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist
from scipy.stats import betabinom

from pymc_bpls.model.problem import Problem

_RARE, _SIZE = 0.05, 0.01
_AT_ONCE = 4096
NEAREST = "the distance to the nearest of them"


@dataclass(frozen=True)
class Coverage:
    """Which candidates (m,) are covered: all of them, unless more are untypical than chance admits (`p_value` below `size`)."""

    covered: np.ndarray
    p_value: float
    judged_by: str
    size: float = _SIZE

    @property
    def share(self) -> float:
        """Of candidates that are not covered."""
        return float((~self.covered).mean()) if len(self.covered) else 0.0


def find_coverage(of_labeled: np.ndarray, of_candidates: np.ndarray, judged_by: str, size: float = _SIZE) -> Coverage:
    """From how typical labeled rows (n,), each without itself, and candidates (m,) are; `size` is that of the test.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bpls.acceptance.coverage import find_coverage
    >>> labeled = np.linspace(0, 1, 30)
    >>> find_coverage(labeled, np.r_[np.full(6, -5.0), np.linspace(0.1, 1, 14)], "density").share
    0.3
    """
    n, m = len(of_labeled), len(of_candidates)
    k = max(1, int(_RARE * (n + 1)))
    outside = of_candidates < np.sort(of_labeled)[k - 1]
    p_value = float(betabinom.sf(outside.sum() - 1, m, k, n + 1 - k))
    return Coverage(~outside if p_value < size else np.ones(m, dtype=bool), p_value, judged_by, size)


def nearness(problem: Problem, labeled: np.ndarray, candidates: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Minus the distance of rows to the nearest (other) labeled row, in the predictors over their standard deviations.

    Predictors are the model's real-valued inputs; None where it has none.
    """
    rows = np.r_[labeled, candidates]
    inputs = [values[rows].reshape(len(rows), -1) for values in problem.density.data if values.dtype.kind == "f"]
    if not inputs:
        return None
    X = np.concatenate(inputs, axis=1)
    with np.errstate(over="ignore", invalid="ignore"):  # far-away rows, which have messages of their own
        scale = X.std(axis=0)
        X = X[:, scale > 0] / scale[scale > 0]
    known, others = X[: len(labeled)], X[len(labeled) :]
    between = cdist(known, known)
    np.fill_diagonal(between, np.inf)
    pieces = [others[i : i + _AT_ONCE] for i in range(0, max(len(others), 1), _AT_ONCE)]
    return -between.min(axis=1), -np.concatenate([cdist(some, known).min(axis=1) for some in pieces])
