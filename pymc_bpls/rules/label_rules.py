"""Label rules: which classes a candidate is scored with, and whether these compete or combine.

Classes combine on the scale of PPP itself, log Σ_y w_y PPP(i, y), not on logarithms (Supplement E). For exact PPP the sum over
classes is the same for every candidate, Z_2/Z_1, where candidates are scored by p(y | x, θ). With two classes a Hurwicz rule
with α > ½ therefore ranks candidates as their larger PPP does, α = ½ ties all, and α < ½ picks the one whose class is least
certain.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from pymc_bpls.arguments import number, require
from pymc_bpls.errors import CriterionError


class Weighing(NamedTuple):
    """How the classes of each candidate combine: log weights (m, K), and the pseudo-label that it would get, codes (m,)."""

    log_weights: np.ndarray
    codes: np.ndarray

    def combined(self, log_values: np.ndarray) -> np.ndarray:
        """log Σ_y w_y exp(log_values), shape (m,)."""
        return np.asarray(logsumexp(self.log_weights + log_values, axis=1))


class LabelRule(ABC):
    """Which classes a candidate is scored with: base class of rules for `labels=`.

    `resume` and `audit_along` need a rule of one's own again in `labels=`.

    See Also
    --------
    CombiningRule : a rule under which the classes of a candidate combine to one value.

    Examples
    --------
    Each candidate with its least probable class:

    >>> import numpy as np, pymc as pm, pymc_bpls as bpls
    >>> class Contrary(bpls.LabelRule):
    ...     name = "contrary"
    ...     def codes(self, log_probabilities, present):
    ...         return np.where(present, log_probabilities, np.inf).argmin(axis=1)
    >>> with pm.Model() as model:
    ...     slope = pm.Normal("slope", 0, 1)
    ...     x = np.array([-2.0, -1.0, 1.0, 2.0, 0.3, 3.0])
    ...     label = pm.Bernoulli("label", logit_p=slope * x, observed=[0, 0, 1, 1, -1, -1])
    >>> bpls.BPLS(model).score(labels=Contrary()).pseudo_label.values
    array([0, 0])
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """What results call the rule."""

    @abstractmethod
    def codes(self, log_probabilities: np.ndarray, present: np.ndarray) -> np.ndarray:
        """Classes to score: (m,) for one class a candidate, (m, K) for every class.

        `log_probabilities` is (m, K); `present` (K,) says which classes have a labeled row.
        """


class DrawingRule(LabelRule):
    """A rule under which a row is chosen by the class that `codes` gives it, from D alone, and gets a label that is drawn.

    See Also
    --------
    BPLS.self_train : `labels="sampled"` draws from the posterior predictive.

    Examples
    --------
    Labels as a forgetful expert gives them:

    >>> import numpy as np, pymc as pm, pymc_bpls as bpls
    >>> class Forgetful(bpls.DrawingRule):
    ...     name = "forgetful"
    ...     def codes(self, log_probabilities, present):
    ...         return np.where(present, log_probabilities, -np.inf).argmax(axis=1)
    ...     def draw(self, log_probabilities, rng):
    ...         certain = log_probabilities.argmax(axis=1)
    ...         return np.where(rng.random(len(certain)) < 0.1, rng.integers(2, size=len(certain)), certain)
    >>> with pm.Model() as model:
    ...     slope = pm.Normal("slope", 0, 1)
    ...     x = np.array([-2.0, -1.0, 1.0, 2.0, 0.3, 3.0])
    ...     label = pm.Bernoulli("label", logit_p=slope * x, observed=[0, 0, 1, 1, -1, -1])
    >>> run = bpls.BPLS(model).self_train(labels=Forgetful(), random_seed=0, progressbar=False)
    >>> run["history"].pseudo_label.values
    array([1, 0])
    """

    @abstractmethod
    def draw(self, log_probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Classes (m,) of rows whose posterior predictive is `log_probabilities` (m, K), by the run's random numbers."""


class CombiningRule(LabelRule):
    """A rule under which the classes of a candidate combine to one value, log Σ_y w_y PPP(i, y).

    See Also
    --------
    Hurwicz : weights of the largest and the smallest class.
    """

    def codes(self, log_probabilities: np.ndarray, present: np.ndarray) -> np.ndarray:
        """All classes for each candidate."""
        return _every_class(log_probabilities)

    @abstractmethod
    def weigh(self, log_values: np.ndarray, log_probabilities: np.ndarray, present: np.ndarray) -> Weighing:
        """Weights of the classes, whose criteria are `log_values` (m, K)."""


@dataclass(frozen=True)
class Predicted(LabelRule):
    """Each candidate with its predicted class (Algorithm 1), never one without a labeled row."""

    name: str = "predicted"

    def codes(self, log_probabilities: np.ndarray, present: np.ndarray) -> np.ndarray:
        """The most probable class of each candidate, the first among equals."""
        return _preference(log_probabilities, present).argmax(axis=1)


@dataclass(frozen=True)
class Sampled(DrawingRule):
    """Rows are chosen as with their predicted class, and get one that is drawn from the posterior predictive, any class.

    One after the other, such labels leave the posterior of a model of y given x as it is, on average over replicates [1]_.

    References
    ----------
    .. [1] Fong, E., Holmes, C. and Walker, S. G. (2023). Martingale posterior distributions. JRSS B 85, 1357-1391.
       https://doi.org/10.1093/jrsssb/qkad005
    """

    name: str = "sampled"

    def codes(self, log_probabilities: np.ndarray, present: np.ndarray) -> np.ndarray:
        """The predicted class."""
        return Predicted().codes(log_probabilities, present)

    def draw(self, log_probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """By the inverse of the cumulative probabilities."""
        below = np.exp(log_probabilities).cumsum(axis=1)
        return np.asarray((below < rng.random((len(below), 1)) * below[:, -1:]).sum(axis=1))


@dataclass(frozen=True)
class AllClasses(LabelRule):
    """Every class of every candidate competes (BPLS without predictions, Supplement E)."""

    name: str = "all"

    def codes(self, log_probabilities: np.ndarray, present: np.ndarray) -> np.ndarray:
        """All classes for each candidate."""
        return _every_class(log_probabilities)


@dataclass(frozen=True)
class Expected(CombiningRule):
    """The mean of PPP over a candidate's classes, weighted by predicted probabilities; the label is the predicted one."""

    name: str = "expected"

    def weigh(self, log_values: np.ndarray, log_probabilities: np.ndarray, present: np.ndarray) -> Weighing:
        """log p(y | x_i, θ̂), or that of another predictor."""
        return Weighing(log_probabilities, Predicted().codes(log_probabilities, present))


@dataclass(frozen=True)
class Hurwicz(CombiningRule):
    """Fantasy PPP (Supplement E): α · max + (1 − α) · min of PPP over the classes of a candidate.

    The pseudo-label is the class with the largest PPP, so that `Hurwicz(1)` selects what `labels="all"` selects. With two
    classes α below ½ picks the row whose class is least certain, and ½ says nothing: exact values are all tied.

    Parameters
    ----------
    alpha : float
        Optimism, between 0 and 1.

    Raises
    ------
    CriterionError
        `alpha` is not between 0 and 1.

    See Also
    --------
    LabelRule : rules of one's own.

    References
    ----------
    .. [1] Rodemann, J., Goschenhofer, J., Dorigatti, E., Nagler, T. and Augustin, T. (2023). Approximately Bayes-optimal
       pseudo-label selection. UAI 2023, PMLR 216, 1762-1773. https://doi.org/10.48550/arXiv.2302.08883

    Examples
    --------
    >>> from pymc_bpls import Hurwicz
    >>> Hurwicz(0.75).name
    'Hurwicz(0.75)'
    """

    alpha: float

    def __post_init__(self) -> None:
        refusal = "Hurwicz({value!r}) has no degree of optimism. Give a number from 0 (min) to 1 (max)."
        require(self.alpha, number(lambda value: 0 <= value <= 1), refusal)

    @property
    def name(self) -> str:
        """With α, from which `find_rule` makes it again."""
        return f"Hurwicz({float(self.alpha)!r})"

    def weigh(self, log_values: np.ndarray, log_probabilities: np.ndarray, present: np.ndarray) -> Weighing:
        """α at the largest value, 1 − α at the smallest."""
        rows = np.arange(len(log_values))
        best, worst = np.where(np.isfinite(log_values), log_values, -np.inf).argmax(axis=1), log_values.argmin(axis=1)
        weights = np.zeros(log_values.shape)
        weights[rows, best] = self.alpha
        weights[rows, worst] += 1 - self.alpha
        with np.errstate(divide="ignore"):
            return Weighing(np.log(weights), best)


@dataclass(frozen=True)
class Options:
    """The classes that candidates may get by a rule: codes (m,), or (m, K), which compete, or combine by `weigh`.

    `preference` (m, K) are predicted log probabilities, −∞ for classes without a labeled row: of classes that a criterion rates
    alike the one that is predicted is taken.
    """

    rule: LabelRule
    candidates: np.ndarray
    codes: np.ndarray
    preference: np.ndarray
    weigh: Callable[[np.ndarray], Weighing] | None = None

    @property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and codes of all pairs (pairs,), a candidate's classes after each other."""
        return np.repeat(self.candidates, self.codes.size // max(len(self.candidates), 1)), self.codes.ravel()

    def of(self, codes: np.ndarray) -> Options:
        """With other classes, unless they combine."""
        return self if self.weigh is not None else replace(self, codes=codes)


def read_options(rule: LabelRule, candidates: np.ndarray, log_probabilities: np.ndarray, present: np.ndarray) -> Options:
    """The options that a rule leaves, for predictions `log_probabilities` (m, K)."""
    codes, preference = rule.codes(log_probabilities, present), _preference(log_probabilities, present)
    if not isinstance(rule, CombiningRule):
        return Options(rule, candidates, codes, preference)
    return Options(rule, candidates, codes, preference, lambda log_values: rule.weigh(log_values, log_probabilities, present))


RULES: dict[str, LabelRule] = {rule.name: rule for rule in (Predicted(), AllClasses(), Expected(), Sampled())}


_A_RULE = "a rule by which candidates get their classes"


def find_rule(labels: str | LabelRule) -> LabelRule:
    """A rule by its name, or as given."""
    if isinstance(labels, LabelRule):
        return labels
    hurwicz = re.fullmatch(r"Hurwicz\((\d+\.?\d*(?:e-?\d+)?)\)", labels) if isinstance(labels, str) else None
    if hurwicz:
        return Hurwicz(float(hurwicz[1]))
    if not isinstance(labels, str) or labels not in RULES:
        known = ", ".join(map(repr, RULES))
        what = f'"{labels}" is unknown' if isinstance(labels, str) else f" is a {type(labels).__name__}, and not {_A_RULE}"
        raise CriterionError(f"labels={what}. Use one of {known}, or Hurwicz(alpha).")
    return RULES[labels]


def _preference(log_probabilities: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Log probabilities, −∞ for classes without a labeled row, and above that for every other class."""
    known = np.nan_to_num(log_probabilities, nan=-np.inf, neginf=-np.inf)
    return np.where(present, np.maximum(known, np.finfo(float).min), -np.inf)


def _every_class(log_probabilities: np.ndarray) -> np.ndarray:
    return np.broadcast_to(np.arange(log_probabilities.shape[1]), log_probabilities.shape).copy()
