"""The selection criteria, as a table.

A Laplace criterion is a row: which terms it adds up, and at which maximum they are taken. With k ∈ {1, 2} and ℓ_D, ℓ_i,
log π the log-likelihood of D, that of the candidate, and the log prior density,

    θ̃_i = argmax k ℓ_D + ℓ_i (+ log π),   H_i = −∇² of the same at θ̃_i.

Equations and theorems are those of Rodemann et al., "Approximately Bayes-Optimal Pseudo Label Selection", UAI 2023.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.linalg
import xarray as xr

from pymc_bpls.approximations.gaussian import Gaussian
from pymc_bpls.approximations.predictive import Predictive
from pymc_bpls.engine.mode import Mode
from pymc_bpls.errors import CriterionError

TERMS = ("log_lik_labeled", "log_lik_pseudo", "log_prior", "log_det")


@dataclass(frozen=True)
class Criterion:
    """A criterion that refits every candidate.

    Attributes
    ----------
    name : str
    combine : callable
        From a Dataset of the terms `log_lik_labeled` (ℓ_D), `log_lik_pseudo` (ℓ_i), `log_prior` (log π) and `log_det`
        (log det H_i) at θ̃_i to the score, larger is better.
    k : {1, 2}
        How often D counts in what θ̃_i maximises.
    prior : bool
        Whether log π is part of what θ̃_i maximises.
    terms : tuple of str
        The terms that the criterion has, and results show.

    Examples
    --------
    >>> from pymc_bpls import Criterion
    >>> quarter = Criterion(
    ...     "quarter", lambda t: t.log_lik_labeled + t.log_lik_pseudo - 0.25 * t.log_det, k=1, prior=False
    ... )
    >>> quarter.k
    1
    """

    name: str
    combine: Callable[[xr.Dataset], xr.DataArray]
    k: int = 2
    prior: bool = True
    terms: tuple[str, ...] = TERMS

    def __post_init__(self) -> None:
        if self.k not in (1, 2):
            raise CriterionError(f'Criterion "{self.name}" has k={self.k}. Use k=1 (p(D, i)) or k=2 (p(D, i | D)).')


@dataclass(frozen=True)
class FittedView:
    """What a criterion without refits sees: the fit on D and the pairs (row, class) to score."""

    predictive: Predictive
    mode: Mode
    positions: np.ndarray
    codes: np.ndarray
    rng: np.random.Generator

    def of_pairs(self, by_class: np.ndarray) -> np.ndarray:
        """Values (pairs, K) at each pair's own class."""
        return by_class[np.arange(len(self.codes)), self.codes]


class FitScore(Protocol):
    """Scores (pairs,) from the fit on D alone."""

    def __call__(self, view: FittedView) -> np.ndarray: ...


@dataclass(frozen=True)
class FitCriterion:
    """A criterion that needs the fit on D alone, larger is better; `log_p` makes a log probability of a score that is one."""

    name: str
    score: FitScore
    log_p: Callable[[np.ndarray], np.ndarray] | None = None


def _probability(view: FittedView) -> np.ndarray:
    return np.exp(view.of_pairs(view.predictive.log_probabilities(view.mode.theta, view.positions)))


def _variance(view: FittedView) -> np.ndarray:
    """−d'H⁻¹d, with d = ∇[log p_ŷ − log(1 − p_ŷ)]: minus the delta-method variance of the log odds."""
    d = view.predictive.log_odds_gradient(view.mode.theta, view.positions, view.codes)
    factor = scipy.linalg.cho_factor(view.mode.hessian, lower=True)
    usable, variance = np.isfinite(d).all(axis=1), np.full(len(d), np.nan)
    variance[usable] = np.einsum("ij,ji->i", d[usable], scipy.linalg.cho_solve(factor, d[usable].T))
    return -variance


def _predictive(view: FittedView) -> np.ndarray:
    return view.predictive.log_mean_lik_of(Gaussian.at_mode(view.mode), view.positions, view.codes)


def _entropy(view: FittedView) -> np.ndarray:
    log_p = view.predictive.log_mean_lik(Gaussian.at_mode(view.mode), view.positions, normalised=True)
    return (np.exp(log_p) * np.where(np.isneginf(log_p), 0.0, log_p)).sum(axis=1)


def _random(view: FittedView) -> np.ndarray:
    return view.rng.random(len(view.positions))


LAPLACE: dict[str, Criterion] = {
    criterion.name: criterion
    for criterion in (
        # Eq. 6, from Theorem 2
        Criterion("ppp", lambda t: 2 * t.log_lik_labeled + t.log_lik_pseudo + t.log_prior - 0.5 * t.log_det),
        # Eq. 7
        Criterion("ibpls", lambda t: t.log_lik_labeled + t.log_lik_pseudo + t.log_prior - 0.5 * t.log_det),
        # Eq. 8
        Criterion(
            "ubpls",
            lambda t: t.log_lik_labeled + t.log_lik_pseudo - 0.5 * t.log_det,
            prior=False,
            terms=("log_lik_labeled", "log_lik_pseudo", "log_det"),
        ),
        # Theorem 1
        Criterion(
            "marginal_likelihood",
            lambda t: t.log_lik_labeled + t.log_lik_pseudo + t.log_prior - 0.5 * t.log_det,
            k=1,
        ),
        # what the authors' code computes
        Criterion(
            "reference",
            lambda t: t.log_lik_labeled + t.log_lik_pseudo - 0.5 * t.log_det,
            k=1,
            prior=False,
            terms=("log_lik_labeled", "log_lik_pseudo", "log_det"),
        ),
        # Theorem 3
        Criterion(
            "likelihood",
            lambda t: t.log_lik_labeled + t.log_lik_pseudo,
            k=1,
            prior=False,
            terms=("log_lik_labeled", "log_lik_pseudo"),
        ),
    )
}

FITTED: dict[str, FitCriterion] = {
    criterion.name: criterion
    for criterion in (
        FitCriterion("probability", _probability, log_p=np.log),
        FitCriterion("variance", _variance),
        FitCriterion("predictive", _predictive, log_p=np.asarray),
        FitCriterion("entropy", _entropy),
        FitCriterion("random", _random),
    )
}

CRITERIA: dict[str, Criterion | FitCriterion] = {**LAPLACE, **FITTED}


def find_criterion(criterion: str | Criterion | FitCriterion, expansion: str) -> tuple[Criterion | FitCriterion, bool]:
    """The criterion, and whether log π is part of what its point of expansion maximises.

    `expansion="mle"` takes θ̃_i = argmax ℓ̃ without the prior and H_i from ℓ̃ alone, log π(θ̃_i) being a factor, as the
    paper does for Eq. 6 and Eq. 7.
    """
    if expansion not in ("map", "mle"):
        raise CriterionError(f'expansion="{expansion}" is unknown. Use "map" or "mle".')
    if isinstance(criterion, str) and criterion not in CRITERIA:
        raise CriterionError(
            f'criterion="{criterion}" is unknown. Use one of {", ".join(map(repr, CRITERIA))}, or a Criterion.'
        )
    found = CRITERIA[criterion] if isinstance(criterion, str) else criterion
    if expansion == "map":
        return found, isinstance(found, FitCriterion) or found.prior
    if isinstance(found, FitCriterion) or (found.prior and found.k == 1):
        raise CriterionError(f'expansion="mle" is not defined for "{found.name}". Use it with "ppp" or "ibpls".')
    return found, False
