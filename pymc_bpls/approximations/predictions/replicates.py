"""Averages over z ~ N(0, I) that know their error: by eight independent scramblings of a Sobol sequence and its mirror image.

Each scrambling alone gives an unbiased estimate, so that the spread of these replicates says how far their mean is off. Draws
are added row by row, until the error is below what ranks rows or there are as many as they may cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from scipy.special import logsumexp, ndtri

REPLICATES = 8
DRAWS_AT_ONCE = 128
_ERROR = 2e-4


@dataclass(frozen=True)
class Averages:
    """log of a mean by each replicate, shape (replicates, …), with equal weights; a rule that is exact has a single one."""

    log_means: np.ndarray

    @property
    def log_mean(self) -> np.ndarray:
        """log of the mean over all replicates."""
        with np.errstate(invalid="ignore"):
            return np.asarray(logsumexp(self.log_means, axis=0)) - np.log(len(self.log_means))

    @property
    def error(self) -> np.ndarray:
        """Standard error of `log_mean`."""
        return standard_error(self.log_means)


def standard_error(replicates: np.ndarray) -> np.ndarray:
    """Of the mean of replicates over the first axis; 0 where all are equal."""
    if len(replicates) == 1:
        return np.zeros(replicates.shape[1:])
    with np.errstate(invalid="ignore"):
        error = replicates.std(axis=0, ddof=1) / np.sqrt(len(replicates))
    return np.where((replicates == replicates[0]).all(axis=0), 0.0, error)


def average(
    log_mean_at: Callable[[np.ndarray, np.ndarray], np.ndarray],
    error_of: Callable[[np.ndarray, np.ndarray], np.ndarray],
    dimension: int,
    n: int,
    most: int,
) -> Averages:
    """log means of n rows, shape (replicates, n, …), by at most so many draws.

    Parameters
    ----------
    log_mean_at : callable
        From draws (replicates, draws, dimension) and row numbers (rows,) to log means over each replicate's draws, shape
        (rows, replicates, …).
    error_of : callable
        From log means (replicates, rows, …) and row numbers to the errors (rows,) that more draws are to reduce to 2e-4.
    dimension, n, most : int
    """
    sequences = [scipy.stats.qmc.Sobol(dimension, rng=np.random.default_rng(seed)) for seed in range(REPLICATES)]
    rows, log_means = np.arange(n), np.empty(0)
    steps = max(1, most // (REPLICATES * DRAWS_AT_ONCE))
    for step in range(1, steps + 1):
        points = np.stack([ndtri(sequence.random(DRAWS_AT_ONCE // 2)) for sequence in sequences])
        more = np.moveaxis(log_mean_at(np.concatenate([points, -points], axis=1), rows), 1, 0)
        if step == 1:
            log_means = more.copy()
        else:
            with np.errstate(invalid="ignore"):
                log_means[:, rows] = np.logaddexp(log_means[:, rows] + np.log(step - 1), more) - np.log(step)
        if step & (step - 1) == 0:
            rows = rows[error_of(log_means[:, rows], rows) > _ERROR]
        if not len(rows):
            break
    return Averages(log_means)
