"""Ranks in which scores that are equal but for rounding are tied, and the agreement of two rankings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import kendalltau, spearmanr

#: Scores that are nearer to each other than this are tied.
TIED = 1e-10


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


def ranks(values: np.ndarray) -> np.ndarray:
    """The rank of each value, larger for larger values, the same for ties; values are finite."""
    order, rank = best_first(values)
    result = np.empty(len(values), dtype=int)
    result[order] = -rank
    return result


def kendall(first: np.ndarray, second: np.ndarray) -> float:
    """Kendall's τ_b of two arrays of ranks, NaN where one of them is constant."""
    return _defined(kendalltau, first, second)


def spearman(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's ρ of two arrays of ranks, NaN where one of them is constant."""
    return _defined(spearmanr, first, second)


def _defined(statistic: Callable[..., Any], first: np.ndarray, second: np.ndarray) -> float:
    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return float("nan")
    return float(statistic(first, second)[0])
