"""Bridge sampling: the ratio of two normalising constants from draws of both densities.

With unnormalised densities q_1, q_2 and l = log(q_2/q_1), the optimal bridge of Meng and Wong (1996) solves

    r = Z_2/Z_1 = E_1[ e^l / (s_2 e^l + s_1 r) ] / E_2[ 1 / (s_2 e^l + s_1 r) ],   s_i ∝ effective sample sizes.

The density ratio of the posterior under the doubled likelihood to the ordinary one is the likelihood of D, l = ℓ_D, so that
log Z_2 − log Z_1 needs no proposal. A single constant takes a normalised proposal for q_1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from scipy.special import logsumexp

from pymc_bpls.montecarlo.diagnostics import effective_size

_MOST_STEPS = 1000
_TOLERANCE = 1e-12
_FEWEST_DEGREES = 8


@dataclass(frozen=True)
class LogRatio:
    """log Z_2 − log Z_1, and its Monte Carlo standard error.

    Its error is the mean of `influence` (S,), which the draws of p_2 have on it in their order, and one that does not depend on
    these draws, with standard error `rest`. Without `influence` all of it is such.
    """

    value: float
    error: float
    influence: np.ndarray | None = None
    rest: float = 0.0

    def deviations(self, batches: np.ndarray) -> tuple[np.ndarray, float]:
        """What batches (batches, length) of these draws do to it, scaled to its error, and the error of the rest."""
        if self.influence is None:
            return np.zeros(len(batches)), self.error
        means = self.influence[batches].mean(axis=1)
        size, n = np.sqrt(max(self.error**2 - self.rest**2, 0.0)), len(means)
        spread = np.sqrt((means**2).sum() / (n * (n - 1)))
        return means * (size / spread if spread > 0 else 0.0), self.rest


def bridge(at_first: np.ndarray, at_second: np.ndarray) -> LogRatio:
    """log(Z_2/Z_1) from l = log(q_2/q_1) at draws of p_1 and of p_2, both of shape (chain, draw).

    l = −∞ at a draw of p_1 that q_2 excludes.

    The error is that of Frühwirth-Schnatter (2004), with the effective sample size of each average's own terms.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bpls.montecarlo.bridge import bridge
    >>> rng = np.random.default_rng(0)
    >>> first, second = rng.normal(0, 1, (4, 2000)), rng.normal(0, 2, (4, 2000))
    >>> log_ratio = lambda x: -0.5 * (x / 2) ** 2 + 0.5 * x**2
    >>> ratio = bridge(log_ratio(first), log_ratio(second))
    >>> bool(abs(ratio.value - np.log(2)) < 4 * ratio.error)
    True
    """
    sizes = np.array([_effective(_from_least(at_first)), _effective(at_second)])
    log_s1, log_s2 = np.log(sizes / sizes.sum())
    first, second = at_first.ravel(), at_second.ravel()
    log_r = 0.5 * (float(np.median(first)) + float(np.median(second)))
    for _ in range(_MOST_STEPS):
        upper, lower = _terms(first, second, log_s1, log_s2, log_r)
        new = _log_mean(upper) - _log_mean(lower)
        if abs(new - log_r) <= _TOLERANCE * (1 + abs(new)):
            break
        log_r = new
    upper, lower = _terms(first, second, log_s1, log_s2, log_r)
    rest, own = _relative_variance(upper.reshape(at_first.shape)), _relative_variance(lower.reshape(at_second.shape))
    terms = np.exp(lower - lower.max())
    return LogRatio(float(log_r), float(np.sqrt(rest + own)), 1 - terms / terms.mean(), float(np.sqrt(rest)))


def _terms(first: np.ndarray, second: np.ndarray, log_s1: float, log_s2: float, log_r: float) -> tuple[np.ndarray, np.ndarray]:
    """Logs of the terms of both averages."""
    return (
        first - np.logaddexp(log_s2 + first, log_s1 + log_r),
        -np.logaddexp(log_s2 + second, log_s1 + log_r),
    )


def _log_mean(log_terms: np.ndarray) -> float:
    return float(logsumexp(log_terms) - np.log(log_terms.size))


def _from_least(log_ratios: np.ndarray) -> np.ndarray:
    """Excluded draws at the least of the others': effective sample sizes are of finite numbers, and only weigh the bridge."""
    return np.maximum(log_ratios, log_ratios[np.isfinite(log_ratios)].min())


def _effective(draws: np.ndarray) -> float:
    """Effective sample size for the mean, at most the number of draws times its logarithm, as ArviZ has it."""
    if np.ptp(draws) == 0:
        return float(draws.size)
    return float(effective_size(draws, "mean")[0])


def _relative_variance(log_terms: np.ndarray) -> float:
    """Var(mean)/mean² of exp(log_terms), shape (chain, draw)."""
    terms = np.exp(log_terms - log_terms.max())
    return float(terms.var() / terms.mean() ** 2 / _effective(terms))


def degrees_of_freedom(q: int) -> int:
    """Degrees of freedom: heavier tails than the normal's, though with radii that in q dimensions still overlap."""
    return max(_FEWEST_DEGREES, 2 * q)


@dataclass(frozen=True)
class Proposal:
    """A multivariate t distribution with the moments of draws, for the constant of a single density."""

    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def fitted(cls, draws: np.ndarray) -> Proposal:
        """To draws (n, q)."""
        covariance = np.atleast_2d(np.cov(draws, rowvar=False))
        degrees = degrees_of_freedom(draws.shape[1])
        return cls(draws.mean(axis=0), covariance * (degrees - 2) / degrees)

    @cached_property
    def sd(self) -> np.ndarray:
        """Square roots of the diagonal of the scale (q,): parameters may differ by many orders of magnitude."""
        return np.sqrt(np.diag(self.scale))

    def _standard(self, rng: np.random.Generator | None = None) -> Any:
        correlations = self.scale / np.outer(self.sd, self.sd)
        return scipy.stats.multivariate_t(
            np.zeros(len(self.mean)), correlations, df=degrees_of_freedom(len(self.mean)), seed=rng
        )

    def draws(self, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
        """Independent draws, shape (*shape, q)."""
        standard = self._standard(rng).rvs(int(np.prod(shape)))
        return self.mean + self.sd * np.reshape(standard, (*shape, len(self.mean)))

    def log_density(self, draws: np.ndarray) -> np.ndarray:
        """Normalised log density at draws (..., q)."""
        log_density = self._standard().logpdf((draws - self.mean) / self.sd) - np.log(self.sd).sum()
        return np.asarray(log_density).reshape(draws.shape[:-1])
