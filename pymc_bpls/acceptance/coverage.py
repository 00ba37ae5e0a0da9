"""Whether labeled rows cover the pool: rows of a class that no label has look unlike all of them.

A row is as typical as the log density that a class-conditional model gives its features, or under any other model as it is near
to a labeled row. Labeled rows are judged without themselves; candidates that are less typical than the k-th least typical of n
labeled rows are outside.

How many are outside by chance depends on how rows are judged. Where a model has seen neither labeled rows nor candidates,
candidates rank among exchangeable labeled rows at random, and beta-binomially many of m are outside, (m; k, n + 1 − k) [1]_.
Where labeled rows judge each other, their ranks depend on each other: all of them may lie in pairs while a whole cluster has
none. Random exchanges of labeled rows and candidates then say how often as many are outside [2]_; once enough of them have, no
more are made [3]_. That holds in finite samples, whatever the rows are.

References
----------
.. [1] Bates, S., Candès, E., Lei, L., Romano, Y. and Sesia, M. (2023). Testing for outliers with conformal p-values. Annals of
   Statistics 51, 149-178. https://doi.org/10.1214/22-AOS2244
.. [2] Hemerik, J. and Goeman, J. (2018). Exact testing with random permutations. TEST 27, 811-825.
   https://doi.org/10.1007/s11749-017-0571-1
.. [3] Besag, J. and Clifford, P. (1991). Sequential Monte Carlo p-values. Biometrika 78, 301-304.
   https://doi.org/10.1093/biomet/78.2.301
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist
from scipy.stats import betabinom

from pymc_bpls.model.problem import Problem

_RARE, _SIZE = 0.05, 0.01
_AT_ONCE = 4096
#: Exchanges of labeled rows and candidates: a thousand, or as many as two of them may look so at the size of the test.
_EXCHANGES, _AS_RARE = 1000, 2
#: Rows that are exchanged, at random where there are more, and of these labeled ones: two thousand exchanges take a second.
_MOST, _MOST_LABELED = 2000, 200
NEAREST = "the distance to the nearest of them"


@dataclass(frozen=True)
class Coverage:
    """Which candidates (m,) are covered: all of them, unless more are outside than chance admits (`p_value` up to `size`)."""

    covered: np.ndarray
    p_value: float
    judged_by: str
    size: float = _SIZE

    @property
    def share(self) -> float:
        """Of candidates that are not covered."""
        return float((~self.covered).mean()) if len(self.covered) else 0.0


def find_coverage(of_labeled: np.ndarray, of_candidates: np.ndarray, judged_by: str, size: float = _SIZE) -> Coverage:
    """From how typical labeled rows (n,) and candidates (m,) are to those who saw neither; `size` is that of the test.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bpls.acceptance.coverage import find_coverage
    >>> labeled = np.linspace(0, 1, 30)
    >>> find_coverage(labeled, np.r_[np.full(6, -5.0), np.linspace(0.1, 1, 14)], "density").share
    0.3
    """
    n, m, k = len(of_labeled), len(of_candidates), _place(len(of_labeled))
    outside = of_candidates < np.sort(of_labeled)[k - 1]
    return _coverage(outside, float(betabinom.sf(outside.sum() - 1, m, k, n + 1 - k)), judged_by, size)


def coverage_by_distance(problem: Problem, labeled: np.ndarray, candidates: np.ndarray, size: float = _SIZE) -> Coverage | None:
    """By the distances of rows to the nearest (other) labeled row, in the predictors over their standard deviations.

    Predictors are the model's real-valued inputs; None where it has none.
    """
    X = _predictors(problem, np.r_[labeled, candidates])
    if X is None:
        return None
    known, others = X[: len(labeled)], X[len(labeled) :]
    threshold = np.sort(_nearest_other(known))[-_place(len(known))]
    pieces = [others[i : i + _AT_ONCE] for i in range(0, max(len(others), 1), _AT_ONCE)]
    outside = np.concatenate([cdist(some, known).min(axis=1) for some in pieces]) > threshold
    return _coverage(outside, chance_by_exchanges(known, others, size) if outside.any() else 1.0, NEAREST, size)


def coverage_by_both(coverage: Coverage, problem: Problem, labeled: np.ndarray, candidates: np.ndarray) -> Coverage:
    """Coverage by a model that saw the labeled rows: an alarm only where distances, of any numbers, give one too.

    The chance of both is at most that of the exact one.
    """
    if coverage.covered.all():
        return coverage
    X = _predictors(problem, np.r_[labeled, candidates], "fiub")
    exact = 1.0 if X is None else chance_by_exchanges(X[: len(labeled)], X[len(labeled) :], coverage.size)
    return _coverage(~coverage.covered, max(exact, coverage.p_value), coverage.judged_by, coverage.size)


def chance_by_exchanges(known: np.ndarray, others: np.ndarray, size: float) -> float:
    """p-value of as many `others` (m, d) as there are farther from `known` rows (n, d) than these are from each other.

    No more exchanges are made once the test of this `size` cannot reject.
    """
    rng = np.random.default_rng(0)
    known = _some(known, _MOST_LABELED, rng)
    X = np.concatenate([known, _some(others, _MOST - len(known), rng)])
    between = cdist(X, X)
    np.fill_diagonal(between, np.inf)
    count = max(_EXCHANGES, round(_AS_RARE / size))
    found, enough, reached = _n_outside(between, np.arange(len(known))), round(size * count), 0
    for made in range(1, count):
        reached += _n_outside(between, rng.permutation(len(X))[: len(known)]) >= found
        if reached == enough:
            return reached / made
    return (reached + 1) / count


def _n_outside(between: np.ndarray, labeled: np.ndarray) -> int:
    """Rows that are farther from these `labeled` ones than the k-th farthest of them is from the others."""
    distances = between[labeled].min(axis=0)
    own = distances[labeled]
    place = len(labeled) - _place(len(labeled))
    threshold = np.partition(own, place)[place]
    return int((distances > threshold).sum() - (own > threshold).sum())


def _coverage(outside: np.ndarray, p_value: float, judged_by: str, size: float) -> Coverage:
    return Coverage(~outside if p_value <= size else np.ones(len(outside), dtype=bool), p_value, judged_by, size)


def _place(n: int) -> int:
    """k: which of n labeled rows, the least typical first, candidates are compared with."""
    return max(1, int(_RARE * (n + 1)))


def _nearest_other(X: np.ndarray) -> np.ndarray:
    between = cdist(X, X)
    np.fill_diagonal(between, np.inf)
    return np.asarray(between.min(axis=1))


def _some(X: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """At most so many of the rows, at random."""
    return X if len(X) <= most else X[rng.choice(len(X), most, replace=False)]


def _predictors(problem: Problem, rows: np.ndarray, kinds: str = "f") -> np.ndarray | None:
    """The model's inputs of these `kinds` of numbers at some rows, over their standard deviations; None where it has none."""
    inputs = [values[rows].reshape(len(rows), -1) for values in problem.density.data[1:] if values.dtype.kind in kinds]
    if not inputs:
        return None
    X = np.concatenate(inputs, axis=1).astype(float)
    with np.errstate(over="ignore", invalid="ignore"):  # far-away rows, which have messages of their own
        scale = X.std(axis=0)
        return np.asarray(X[:, scale > 0] / scale[scale > 0]) if (scale > 0).any() else None
