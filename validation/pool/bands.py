"""Where the distribution function of uniform ranks stays, everywhere at once (Säilynoja et al. 2022).

Kolmogorov's band is as wide everywhere, and sees little of ranks that gather at both ends. This one is a binomial's interval at
each rank, all of the same probability, and so narrow at the ends.

References
----------
.. [1] Säilynoja, T., Bürkner, P.-C. and Vehtari, A. (2022). Graphical test for discrete uniformity and its applications in
   goodness-of-fit evaluation and multiple sample comparison. Statistics and Computing 32, 32.
   https://doi.org/10.1007/s11222-022-10090-6
"""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

from validation.pool.calibration import KEPT

LEVEL = 0.99
PLACES = np.arange(1, KEPT + 2) / (KEPT + 1)
_CURVES = 20_000


def curves(ranks: np.ndarray) -> np.ndarray:
    """Shares of simulations (simulations, q) with a rank up to each, less those of uniform ranks: (q, ranks)."""
    return (ranks.T[:, :, None] <= np.arange(KEPT + 1)).mean(axis=1) - PLACES


def band(n: int) -> tuple[np.ndarray, np.ndarray]:
    """The lower and upper limit (ranks,) of curves of n simulations: so many of uniform ranks stay within as `LEVEL` says."""
    counts, inner = np.arange(n + 1)[:, None], PLACES[:-1]
    # the probability of a count at a rank that is as far out as this one, on either side
    p = 2 * np.minimum(binom.cdf(counts, n, inner), binom.sf(counts - 1, n, inner))
    uniform = np.random.default_rng(0).multinomial(n, np.full(KEPT + 1, 1 / (KEPT + 1)), size=_CURVES).cumsum(axis=1)[:, :-1]
    least = np.quantile(p[uniform, np.arange(KEPT)].min(axis=1), 1 - LEVEL)
    inside = p > least
    low, high = inside.argmax(axis=0), n - inside[::-1].argmax(axis=0)
    return np.r_[low / n - inner, 0.0], np.r_[high / n - inner, 0.0]


def leave(ranks: np.ndarray) -> int:
    """How many of the curves leave the band."""
    low, high = band(len(ranks))
    found = curves(ranks)
    # a limit and a curve that meet differ by rounding
    return int(((found < low - 1e-9) | (found > high + 1e-9)).any(axis=1).sum())
