"""The selection criteria, as a table.

A Laplace criterion is a row: which terms it adds up, and at which maximum they are taken. With k ∈ {1, 2} and ℓ_D, ℓ_i,
log π the log-likelihood of D, that of the candidate, and the log prior density,

    θ̃_i = argmax k ℓ_D + ℓ_i (+ log π),   H_i = −∇² of the same at θ̃_i.

Equations and theorems are those of Rodemann et al. [1]_.

With p_k(θ) ∝ p(D | θ)^k π(θ) and Z_k its normalising constant, two of the criteria approximate a probability that is also known
otherwise, by EP, VI and Monte Carlo,

    log PPP_i = log Z_2 − log Z_1 + log E_{p_2}[p(ŷ_i | x_i, θ)],      log p(D ∪ i) = log Z_1 + log E_{p_1}[p(ŷ_i | x_i, θ)],

and `"predictive"` is log E_{p_1}[p(ŷ_i | x_i, θ)] itself: `k` says which p_k, `absolute` what the value is called.

In class-conditional models, p(y) p(x | y), the candidate's ℓ_i is log p(ŷ_i | x_i, θ) as well, which is ℓ_i − g_i with
g_i = log Σ_y exp ℓ_i(y), unless its whole likelihood is asked for; ℓ_D has the features of D in it.

References
----------
.. [1] Rodemann, J., Goschenhofer, J., Dorigatti, E., Nagler, T. and Augustin, T. (2023). Approximately Bayes-optimal
   pseudo-label selection. Proceedings of the 39th Conference on Uncertainty in Artificial Intelligence, PMLR 216, 1762-1773.
   https://doi.org/10.48550/arXiv.2302.08883
.. [2] Houlsby, N., Huszár, F., Ghahramani, Z. and Lengyel, M. (2011). Bayesian active learning for classification and
   preference learning. https://doi.org/10.48550/arXiv.1112.5745
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np
import xarray as xr

from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.approximations.gaussians.mixture import Mixture
from pymc_bpls.approximations.predictions.predictive import Predictive
from pymc_bpls.approximations.predictions.replicates import Averages, standard_error
from pymc_bpls.engine.modes.mode import Mode
from pymc_bpls.errors import CriterionError

TERMS = ("log_lik_labeled", "log_lik_pseudo", "log_prior", "log_det")
#: What the absolute value of a criterion in which D counts k times is called: log PPP_i and log p(D ∪ i).
ABSOLUTE = {1: "log_evidence", 2: "log_ppp"}


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
    absolute : str or None
        What the value is called that the score approximates up to a constant, where EP, VI and Monte Carlo approximate it too.

    See Also
    --------
    FitCriterion : a criterion that needs the fit on D alone.

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
    absolute: str | None = None

    def __post_init__(self) -> None:
        if self.k not in (1, 2):
            raise CriterionError(f'Criterion "{self.name}" has k={self.k}. Use k=1 (p(D, i)) or k=2 (p(D, i | D)).')


@dataclass(frozen=True)
class FittedView:
    """What a `FitCriterion` sees: the fit on D and the pairs (row, class) to score.

    Attributes
    ----------
    predictive : Predictive
        Predictions for rows of the table: `log_probabilities(theta, rows)`, `log_odds_gradient(theta, rows, codes)`, and
        averaged over a Gaussian `log_mean_lik(q, rows)`.
    mode : Mode
        `theta` (q,) and `hessian` (q, q) of the fit on D.
    positions, codes : ndarray of int, shape (pairs,)
        The row and the class of each pair.
    rng : numpy.random.Generator
        The run's random numbers.
    """

    predictive: Predictive
    mode: Mode
    positions: np.ndarray
    codes: np.ndarray
    rng: np.random.Generator

    @property
    def log_probabilities(self) -> np.ndarray:
        """log p(y | x_i, θ̂) of every class of each pair's row, shape (pairs, K)."""
        return self.predictive.log_probabilities_at(self.mode, self.positions)

    @cached_property
    def mean_lik(self) -> Averages:
        """log E[p(y | x_i, θ)] of each pair over Laplace's approximation, with its error."""
        return self.predictive.mean_lik_of(Gaussian.at_mode(self.mode), self.positions, self.codes)

    @cached_property
    def mean_probabilities(self) -> Averages:
        """The same of every class of each pair's row, normalised."""
        return self.predictive.mean_lik(Gaussian.at_mode(self.mode), self.positions, normalised=True)

    @cached_property
    def mean_surprise(self) -> Averages:
        """log E[−p log p] of every class of each pair's row, over Laplace's approximation."""
        return self.predictive.mean_surprise(Gaussian.at_mode(self.mode), self.positions)

    def at_own_class(self, by_class: np.ndarray) -> np.ndarray:
        """Values (pairs, K) at each pair's own class, shape (pairs,)."""
        return by_class[np.arange(len(self.codes)), self.codes]


class FitScore(Protocol):
    """Scores (pairs,) from the fit on D alone."""

    def __call__(self, view: FittedView) -> np.ndarray: ...


@dataclass(frozen=True)
class FitCriterion:
    """A criterion that needs the fit on D alone.

    Attributes
    ----------
    name : str
    score : callable
        From a `FittedView` to the scores (pairs,), larger is better.
    log_p : callable or None
        Makes a log probability of a score that is a probability, so that label rules can combine classes by it.
    k : {1, 2} or None
        Of the p_k whose mean of p(ŷ_i | x_i, θ) the score is the logarithm of, where EP and VI approximate it too.
    error : callable or None
        From a `FittedView` to the standard errors (pairs,) of scores that are averages over draws, 0 where a rule is exact.

    See Also
    --------
    Criterion : a criterion that refits every candidate.

    Examples
    --------
    How much more probable the pseudo-label is than the class after it:

    >>> import numpy as np, pymc as pm, pymc_bpls as bpls
    >>> def margin(view):
    ...     second, first = np.sort(np.exp(view.log_probabilities), axis=1)[:, -2:].T
    ...     return first - second
    >>> with pm.Model() as model:
    ...     slope = pm.Normal("slope", 0, 1)
    ...     x = np.array([-2.0, -1.0, 1.0, 2.0, 0.3, 3.0])
    ...     label = pm.Bernoulli("label", logit_p=slope * x, observed=[0, 0, 1, 1, -1, -1])
    >>> bpls.BPLS(model).score(bpls.FitCriterion("margin", margin)).score.values.round(2)
    array([0.15, 0.91])
    """

    name: str
    score: FitScore
    log_p: Callable[[np.ndarray], np.ndarray] | None = None
    k: int | None = None
    error: FitScore | None = None

    #: It has no constant, and so no absolute value beside the score.
    absolute: ClassVar[None] = None


def _probability(view: FittedView) -> np.ndarray:
    return np.exp(view.at_own_class(view.log_probabilities))


def _variance(view: FittedView) -> np.ndarray:
    """−d'H⁻¹d, with d = ∇[log p_ŷ − log(1 − p_ŷ)]: minus the delta-method variance of the log odds."""
    d = view.predictive.log_odds_gradient(view.mode.theta, view.positions, view.codes)
    usable, variance = np.isfinite(d).all(axis=1), np.full(len(d), np.nan)
    variance[usable] = view.mode.gaussian.variances_along(d[usable])
    variance[~usable & (view.at_own_class(view.log_probabilities) == 0)] = 0.0  # no other class can be
    return -variance


def _predictive(view: FittedView) -> np.ndarray:
    return view.mean_lik.log_mean


def _entropy(view: FittedView) -> np.ndarray:
    return _minus_entropy(view.mean_probabilities.log_mean)


def _entropy_error(view: FittedView) -> np.ndarray:
    return standard_error(_minus_entropy(view.mean_probabilities.log_means))


def _minus_entropy(log_p: np.ndarray) -> np.ndarray:
    return (np.exp(log_p) * np.where(np.isneginf(log_p), 0.0, log_p)).sum(axis=-1)


def mutual_information(predictive: Predictive, q: Gaussian | Mixture, positions: np.ndarray) -> np.ndarray:
    """H(E_q p) − E_q H(p) of rows, (rows,) in nats: what a row's label would tell of θ [2]_."""
    log_p = predictive.log_mean_lik(q, positions, normalised=True)
    return _information(log_p, predictive.mean_surprise(q, positions).log_mean)


def _bald(view: FittedView) -> np.ndarray:
    return _information(view.mean_probabilities.log_mean, view.mean_surprise.log_mean)


def _bald_error(view: FittedView) -> np.ndarray:
    return standard_error(_information(view.mean_probabilities.log_means, view.mean_surprise.log_means))


def _information(log_p: np.ndarray, log_surprise: np.ndarray) -> np.ndarray:
    return -_minus_entropy(log_p) - np.exp(log_surprise).sum(axis=-1)


def _random(view: FittedView) -> np.ndarray:
    return view.rng.random(len(view.positions))


LAPLACE: dict[str, Criterion] = {
    criterion.name: criterion
    for criterion in (
        # Eq. 6, from Theorem 2
        Criterion(
            "ppp",
            lambda t: 2 * t.log_lik_labeled + t.log_lik_pseudo + t.log_prior - 0.5 * t.log_det,
            absolute=ABSOLUTE[2],
        ),
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
            absolute=ABSOLUTE[1],
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
        FitCriterion("predictive", _predictive, log_p=np.asarray, k=1, error=lambda view: view.mean_lik.error),
        FitCriterion("entropy", _entropy, error=_entropy_error),
        FitCriterion("bald", _bald, error=_bald_error),
        FitCriterion("random", _random),
    )
}

CRITERIA: dict[str, Criterion | FitCriterion] = {**LAPLACE, **FITTED}
_OF_NO_APPROXIMATION = ("probability", "random")
#: Criteria whose absolute value is known otherwise too, and those whose mean of p(ŷ | x, θ) is.
WITH_ABSOLUTE = tuple(name for name, criterion in CRITERIA.items() if criterion.absolute)
MEANS = (*WITH_ABSOLUTE, *(name for name, criterion in FITTED.items() if criterion.k))


def is_approximated(criterion: Criterion | FitCriterion) -> bool:
    """Whether it is taken by an approximation of the posterior: not at the mode, at random, or by a function of the user's."""
    if isinstance(criterion, Criterion):
        return True
    return criterion is FITTED.get(criterion.name) and criterion.name not in _OF_NO_APPROXIMATION


def find_criterion(criterion: str | Criterion | FitCriterion, expansion: str) -> tuple[Criterion | FitCriterion, bool]:
    """The criterion, and whether log π is part of what its point of expansion maximises.

    `expansion="mle"` takes θ̃_i = argmax ℓ̃ without the prior and H_i from ℓ̃ alone, log π(θ̃_i) being a factor, as the
    paper does for Eq. 6 and Eq. 7.
    """
    if expansion not in ("map", "mle"):
        raise CriterionError(f'expansion="{expansion}" is unknown. Use "map" or "mle".')
    chosen = CRITERIA.get(criterion) if isinstance(criterion, str) else criterion
    if not isinstance(chosen, Criterion | FitCriterion):
        raise CriterionError(
            f'criterion="{criterion}" is unknown. Use one of {", ".join(map(repr, CRITERIA))}, or a Criterion.'
        )
    if expansion == "map":
        return chosen, isinstance(chosen, FitCriterion) or chosen.prior
    if isinstance(chosen, FitCriterion) or (chosen.prior and chosen.k == 1):
        raise CriterionError(f'expansion="mle" is not defined for "{chosen.name}". Use it with "ppp" or "ibpls".')
    return chosen, False
