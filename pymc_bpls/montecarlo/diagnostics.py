"""Diagnostics of draws (chain, draw, …) by ArviZ, which is imported when the first of them is asked for."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np


@cache
def _array_stats() -> Any:
    return import_module("arviz_stats.base").array_stats


def effective_size(draws: np.ndarray, method: str, tails: tuple[float, float] | None = None) -> np.ndarray:
    """Effective sample size of each entry."""
    return np.atleast_1d(_array_stats().ess(draws, chain_axis=0, draw_axis=1, method=method, prob=tails))


def r_hat(draws: np.ndarray) -> np.ndarray:
    """R-hat of each entry."""
    return np.atleast_1d(_array_stats().rhat(draws, chain_axis=0, draw_axis=1))


def pareto_smoothed(log_weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Pareto-smoothed log weights (draw,), and k-hat."""
    smoothed, pareto_k = _array_stats().psislw(-log_weights)
    return np.asarray(smoothed), float(pareto_k)
