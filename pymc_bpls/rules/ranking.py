"""Ranks in which scores that are equal but for rounding are tied, and the agreement of two rankings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy

#: Scores that are nearer to each other than this are tied.
TIED = 1e-10
_BEST = 10


def best_first(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the finite values from the largest to the smallest, the first among ties first, and their rank from 0, the
    same for ties.

    Examples
    --------
    >>> from pymc_bpls.rules.ranking import best_first
    >>> order, rank = best_first(np.array([1.0, 3.0, np.nan, 1.0 + 1e-12]))
    >>> order.tolist(), rank.tolist()
    ([1, 0, 3], [0, 1, 1])
    """
    usable = np.flatnonzero(np.isfinite(values))
    order = usable[np.argsort(-values[usable], kind="stable")]
    rank = np.concatenate([[0], np.cumsum(-np.diff(values[order]) > TIED)]) if len(order) else np.empty(0, int)
    return order[np.lexsort((order, rank))], rank


def smallest_lead(values: np.ndarray) -> float:
    """The smallest difference between neighbours among the best ten that are not tied; infinite where there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bpls.rules.ranking import smallest_lead
    >>> smallest_lead(np.array([1.0, 3.0, np.nan, 1.0 + 1e-12, 2.5]))
    0.5
    """
    best = np.sort(values[np.isfinite(values)])[-_BEST:]
    leads = np.diff(best)
    return float(leads[leads > TIED].min(initial=np.inf))


def tied_with_best(values: np.ndarray) -> np.ndarray:
    """Which classes of each row have its largest value but for rounding, shape (m, K); NaN is never among them.

    Examples
    --------
    >>> from pymc_bpls.rules.ranking import tied_with_best
    >>> tied_with_best(np.array([[-2.0, -2.0], [1.0, np.nan]])).tolist()
    [[True, True], [True, False]]
    """
    best = np.where(np.isnan(values), -np.inf, values).max(axis=1, keepdims=True)
    return values >= best - TIED * np.maximum(1.0, np.abs(best))


def best_classes(values: np.ndarray, preference: np.ndarray) -> np.ndarray:
    """The class of each row with the largest value (m, K), and of classes that are tied the one with the largest preference.

    Examples
    --------
    >>> from pymc_bpls.rules.ranking import best_classes
    >>> best_classes(np.array([[-2.0, -2.0], [1.0, 0.0]]), np.array([[-1.2, -0.4], [-1.2, -0.4]]))
    array([1, 0])
    """
    among = np.maximum(preference, np.finfo(float).min)
    return np.where(tied_with_best(values), among, -np.inf).argmax(axis=1)


def ranks(values: np.ndarray) -> np.ndarray:
    """The rank of each value, larger for larger values, the same for ties; values are finite."""
    order, rank = best_first(values)
    result = np.empty(len(values), dtype=int)
    result[order] = -rank
    return result


def kendall(first: np.ndarray, second: np.ndarray) -> float:
    """Kendall's τ_b of two arrays of ranks, NaN where one of them is constant."""
    return _defined(scipy.stats.kendalltau, first, second)


def spearman(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's ρ of two arrays of ranks, NaN where one of them is constant."""
    return _defined(scipy.stats.spearmanr, first, second)


def _defined(statistic: Callable[..., Any], first: np.ndarray, second: np.ndarray) -> float:
    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return float("nan")
    return float(statistic(first, second)[0])
