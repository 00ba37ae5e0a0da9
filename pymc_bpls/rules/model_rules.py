"""Model rules: one value of each pseudo-sample from its absolute log PPP under every member of a set (Supplement E).

A rule is linear in the members' log PPP once it has decided which of them count: value = Σ_m w_m log PPP_m + c. The weights w
also carry Monte Carlo errors from members to the value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pymc_bpls.arguments import number, require


class Members(NamedTuple):
    """What a rule may know of the members: dim θ (M,), and log π at the MLE of D (M,), where the rule asks for it."""

    dimension: np.ndarray
    log_prior_at_mle: np.ndarray | None = None


class Decision(NamedTuple):
    """Weights (M, ...) of the members' values, a constant (...), and which member decides (...), −1 where all do."""

    weights: np.ndarray
    constant: np.ndarray
    member: np.ndarray

    def value(self, values: np.ndarray) -> np.ndarray:
        """Σ_m w_m v_m + c; a member without weight does not count, whatever its value."""
        return np.where(self.weights != 0, self.weights * values, 0.0).sum(axis=0) + self.constant


class ModelRule(ABC):
    """How the values of a set's members become one: base class of rules for `ModelSet`.

    See Also
    --------
    GammaMaximin, LeastFavorable, SumRule, Penalised : the rules of Supplement E.

    Examples
    --------
    The mean of log PPP over the members:

    >>> import numpy as np, pymc as pm, pymc_bpls as bpls
    >>> class Mean(bpls.ModelRule):
    ...     name = "mean"
    ...     def decide(self, values, members):
    ...         nobody = np.full(values.shape[1:], -1)
    ...         return bpls.Decision(np.full(values.shape, 1 / len(values)), np.zeros(values.shape[1:]), nobody)
    >>> with pm.Model() as model:
    ...     slope = pm.Normal("slope", 0, 1)
    ...     x = np.array([-2.0, -1.0, 1.0, 2.0, 0.3, 3.0])
    ...     label = pm.Bernoulli("label", logit_p=slope * x, observed=[0, 0, 1, 1, -1, -1])
    >>> scores = bpls.ModelSet(bpls.prior_set(model, "slope", scale=[0.5, 2]), Mean()).score()
    >>> bool(np.allclose(scores.score, scores.log_ppp_member.mean("member")))
    True
    """

    #: Whether the rule asks for log π at the maximum of the likelihood of D.
    at_mle = False

    @property
    def name(self) -> str:
        """What results call the rule: how it is made, or its class where it does not say."""
        return f"{type(self).__name__}()" if type(self).__repr__ is object.__repr__ else repr(self)

    @abstractmethod
    def decide(self, values: np.ndarray, members: Members) -> Decision:
        """From log PPP (M, ...) of the members."""


@dataclass(frozen=True)
class GammaMaximin(ModelRule):
    """Robust PPP: the smallest PPP over the members, so that a pseudo-sample is chosen that no listed prior finds implausible.

    It is the lower bound over the *listed* priors, and over their mixtures: PPP is a ratio Z_2/Z_1, which is attained at a
    vertex. A grid of scales says nothing about the scales between its points.

    See Also
    --------
    LeastFavorable : the supplement's shortcut.
    prior_set : makes the priors.

    References
    ----------
    .. [1] Berger, J. O. (1985). Statistical Decision Theory and Bayesian Analysis, section 4.7. Springer.
       https://doi.org/10.1007/978-1-4757-4286-2

    Examples
    --------
    >>> from pymc_bpls import GammaMaximin
    >>> GammaMaximin().name
    'GammaMaximin()'
    """

    def decide(self, values: np.ndarray, members: Members) -> Decision:
        """The member with the smallest value."""
        return _one(np.argmin(values, axis=0), values)


@dataclass(frozen=True)
class LeastFavorable(ModelRule):
    """The supplement's shortcut to `GammaMaximin`: PPP under the prior whose density is lowest at the MLE of D.

    It is not Γ-maximin: it picks one prior for all pseudo-samples, often not the one with the smallest PPP, and depends on the
    parametrisation, which is the unconstrained one here. Results hold `gamma_maximin` beside it, and in attrs how far the two
    disagree. It takes members that differ in their priors only, and labeled rows that have a maximum likelihood estimate.

    See Also
    --------
    GammaMaximin : what it is a shortcut to.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_bpls as bpls
    >>> with pm.Model() as model:
    ...     slope = pm.Normal("slope", 0, 1)
    ...     x = np.array([-2.0, -1.0, 1.0, 2.0, 0.3, 3.0])
    ...     label = pm.Bernoulli("label", logit_p=slope * x, observed=[0, 1, 0, 1, -1, -1])
    >>> shortcut = bpls.ModelSet(bpls.prior_set(model, "slope", scale=[0.5, 2]), bpls.LeastFavorable())
    >>> shortcut.score().attrs["disagreement"]
    'Another prior than the chosen one has the smallest PPP for 1 of 2 pseudo-samples; Γ-maximin would choose the same one.'
    """

    at_mle = True

    def decide(self, values: np.ndarray, members: Members) -> Decision:
        """The member whose prior is lowest at the estimate."""
        assert members.log_prior_at_mle is not None
        return _one(np.full(values.shape[1:], np.argmin(members.log_prior_at_mle)), values)


@dataclass(frozen=True)
class SumRule(ModelRule):
    """Multi-model PPP: the sum of log PPP over the members.

    See Also
    --------
    Penalised : the best member instead of all.

    Examples
    --------
    >>> from pymc_bpls import SumRule
    >>> SumRule().name
    'SumRule()'
    """

    def decide(self, values: np.ndarray, members: Members) -> Decision:
        """All members alike."""
        return Decision(np.ones(values.shape), np.zeros(values.shape[1:]), np.full(values.shape[1:], -1))


@dataclass(frozen=True)
class Penalised(ModelRule):
    """Bivariate selection of a pseudo-sample and a model: the largest log PPP − weight · dim θ over the members.

    dim θ is counted from the smallest member's, which changes no choice and leaves the value of a set of one model as it is.

    Parameters
    ----------
    weight : float
        What a parameter costs, in units of log PPP; 0 or more.

    Raises
    ------
    CriterionError
        `weight` is negative or no number.

    See Also
    --------
    SumRule : all members instead of the best.

    Examples
    --------
    >>> from pymc_bpls import Penalised
    >>> Penalised(0.5).name
    'Penalised(weight=0.5)'
    """

    weight: float

    def __post_init__(self) -> None:
        refusal = "Penalised({value!r}) is no price of a parameter. Give a number, 0 or more."
        require(self.weight, number(lambda value: value >= 0), refusal)

    def decide(self, values: np.ndarray, members: Members) -> Decision:
        """The member with the largest penalised value."""
        price = self.weight * (members.dimension - members.dimension.min())
        price = price.reshape(-1, *(1,) * (values.ndim - 1))
        decision = _one(np.argmax(values - price, axis=0), values)
        return decision._replace(constant=-np.take_along_axis(price + 0 * values, decision.member[None], axis=0)[0])


def _one(member: np.ndarray, values: np.ndarray) -> Decision:
    """One member decides."""
    weights = (np.arange(len(values)).reshape(-1, *(1,) * member.ndim) == member).astype(float)
    return Decision(weights, np.zeros(member.shape), member)
