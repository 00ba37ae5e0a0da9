"""k-hat: the shape of the generalised Pareto distribution that the largest terms of an average follow.

An average is trustworthy where its terms have a variance, k < ½; up to 0.7 its error is of use (Vehtari et al. 2024).
The fit is that of Zhang and Stephens (2009), for the terms of many averages at once.
"""

from __future__ import annotations

import numpy as np

#: Above it an average and its error are not to be believed.
GOOD_K = 0.7
_FINITE_VARIANCE = 0.5
_EQUAL = 1e-9
_PRIOR_WEIGHT, _PRIOR_K = 10, 0.5


def tail_size(n: int) -> int:
    """How many of n terms are taken for the tail."""
    return int(min(0.2 * n, 3 * np.sqrt(n)))


def tail_ks(log_terms: np.ndarray) -> np.ndarray:
    """k-hat of averages from logarithms of their `tail_size` + 1 largest terms, the largest first: (averages, size + 1).

    0 where these are all equal or where there are fewer than five of them.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bpls.montecarlo.pareto import tail_ks, tail_size
    >>> terms = np.random.default_rng(0).pareto(2, size=100_000)
    >>> largest = np.sort(np.log(terms))[::-1][: tail_size(100_000) + 1]
    >>> bool(abs(tail_ks(largest[None])[0] - 0.5) < 0.1)
    True
    """
    n = log_terms.shape[1] - 1
    top = log_terms[:, :1]
    with np.errstate(invalid="ignore"):
        varied = np.isfinite(top[:, 0]) & ~(top[:, 0] - log_terms[:, -1] <= _EQUAL)
    k = np.zeros(len(log_terms))
    if n < 5 or not varied.any():
        return k
    relative = np.exp(log_terms[varied] - top[varied])
    excess = relative[:, :-1] - relative[:, -1:]
    k[varied] = _shape(np.maximum(excess[:, ::-1], np.finfo(float).tiny))
    return k


def _shape(excess: np.ndarray) -> np.ndarray:
    """k of exceedances (averages, n) in rising order, pulled to ½ as by ten of them."""
    n = excess.shape[1]
    points = 30 + int(np.sqrt(n))
    quartile = excess[:, [int(n / 4 + 0.5) - 1]]
    b = (1 - np.sqrt(points / (np.arange(1, points + 1) - 0.5))) / (3 * quartile) + 1 / excess[:, [-1]]
    k = np.stack([np.log1p(-b[:, [j]] * excess).mean(axis=1) for j in range(points)], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        profile = n * (np.log(-(b / k)) - k - 1)
    profile = np.where(np.isfinite(profile), profile, -np.inf)
    weights = np.exp(profile - profile.max(axis=1, keepdims=True))
    best = (b * weights).sum(axis=1, keepdims=True) / weights.sum(axis=1, keepdims=True)
    shape = np.log1p(-best * excess).mean(axis=1)
    return (n * shape + _PRIOR_WEIGHT * _PRIOR_K) / (n + _PRIOR_WEIGHT)


def has_variance(k: float, n: int) -> bool:
    """Whether the k of n terms is below ½ beyond the error of k-hat, (1 + k)/√tail: a sample may miss the tail that it has."""
    return k + 2 * (1 + k) / np.sqrt(tail_size(n)) <= _FINITE_VARIANCE
