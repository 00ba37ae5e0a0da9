"""How to score, as named by the user: the criterion, its approximation and expansion, and the label rule."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pymc_bpls.approximations.automatic import EP, LAPLACE
from pymc_bpls.approximations.by_name import APPROXIMATIONS
from pymc_bpls.errors import CriterionError
from pymc_bpls.rules.label_rules import LabelRule, find_rule
from pymc_bpls.scoring.criteria import CRITERIA, MEANS, Criterion, FitCriterion, find_criterion, is_approximated
from pymc_bpls.scoring.criteria import LAPLACE as BY_REFITS

AUTO = "auto"
#: What results say in place of an approximation, of criteria that have none.
_OF_NO_APPROXIMATION = {"probability": "mode", "random": "none"}


@dataclass(frozen=True)
class Settings:
    """How to score: the criterion, whether it expands with the prior, the label rule, and by which approximation.

    `otherwise` are approximations that stand in, in turn, where that does not settle: none unless the user left the choice to
    the package. Without `absolute`, scores without refits are left without the constant that all candidates share. Scores that
    are `told` come with how far differences are off, where a few refits tell that, and a warning of classes that cannot be.
    Where the log-posterior has a kink, and so no mode to verify, the centre of the approximation `centre_of` will do.
    `automatic` ones are by what the package chose.
    """

    criterion: Criterion | FitCriterion
    with_prior: bool
    rule: LabelRule
    rng: np.random.Generator
    approximation: str = LAPLACE
    centre_of: str | None = None
    absolute: bool = True
    told: bool = False
    otherwise: tuple[str, ...] = ()
    automatic: bool = False

    @property
    def by_laplace(self) -> bool:
        """Whether the criterion is taken by Laplace's method, at the mode or with a refit of every candidate."""
        return self.approximation == LAPLACE

    @property
    def averages_by(self) -> str | None:
        """The approximation that predictions share with the scores; None where the criterion has none."""
        return self.approximation if is_approximated(self.criterion) and self.approximation != AUTO else None

    @property
    def asked_to_average_by(self) -> str | None:
        """The same of a run that is over; None where the package took Laplace's method, for its refits."""
        return None if self.automatic and self.by_laplace else self.averages_by

    @property
    def scored_by(self) -> str:
        """The approximation as results name it, "mode" of the criterion at the mode, and "none" of one that has none."""
        return _OF_NO_APPROXIMATION.get(self.criterion.name, self.approximation)

    @property
    def may_refit(self) -> bool:
        """Whether every candidate has a refit of its own, or would have where the first approximation does not settle."""
        return isinstance(self.criterion, Criterion) and LAPLACE in (self.approximation, *self.otherwise)

    def by(self, order: Sequence[str]) -> Settings:
        """By the first of these approximations, the others standing in for it.

        EP has a centre where priors have kinks. A model that EP does not admit and that has no mode is refused: the user did
        not ask for what may hide it.
        """
        centre_of = EP if order[0] == EP else None
        return replace(self, approximation=order[0], otherwise=tuple(order[1:]), centre_of=centre_of, automatic=True)

    def for_run(self) -> Settings:
        """Without the constant that scores without refits share: no choice depends on it, and it takes a fit of its own."""
        return replace(self, absolute=False)

    def from_here(self, approximation: str) -> Settings:
        """By the one of those that stand in which was taken, and no more by those before it: they did not settle."""
        if approximation not in self.otherwise:
            return self
        rest = self.otherwise[self.otherwise.index(approximation) + 1 :]
        return replace(self, approximation=approximation, otherwise=rest)


def read_name(criterion: Any, approximation: str = LAPLACE, expansion: str = "map") -> tuple[Any, str, str]:
    """A criterion with its approximation and expansion, which a name such as "ppp[ep]" or "ibpls[mle]" holds itself.

    Raises
    ------
    CriterionError
        The name and `approximation=` ask for two of them.

    Examples
    --------
    >>> from pymc_bpls.scoring.settings import read_name
    >>> read_name("ppp[ep]", "auto"), read_name("ibpls[mle]", "auto")
    (('ppp', 'ep', 'map'), ('ibpls', 'laplace', 'mle'))
    """
    found = re.fullmatch(r"(\w+)\[(\w+)\]", criterion) if isinstance(criterion, str) else None
    if found is None or found[2] == "map":
        return criterion if found is None else found[1], approximation, expansion
    asked = (LAPLACE, "mle") if found[2] == "mle" else (found[2], "map")
    if approximation not in (AUTO, asked[0]) or expansion not in ("map", asked[1]):
        raise CriterionError(
            f'"{criterion}" asks for another way than approximation="{approximation}" and expansion="{expansion}". '
            "Leave these out."
        )
    return found[1], *asked


def find_settings(
    criterion: str | Criterion | FitCriterion,
    approximation: str = LAPLACE,
    expansion: str = "map",
    labels: str | LabelRule = "predicted",
    random_seed: Any = None,
) -> Settings:
    """How to score, as named by the user.

    Raises
    ------
    CriterionError
        A name is unknown, or the combination is not defined.
    """
    if approximation not in (AUTO, LAPLACE, *APPROXIMATIONS):
        known = ", ".join(f'"{name}"' for name in (AUTO, LAPLACE, *APPROXIMATIONS))
        raise CriterionError(f'approximation="{approximation}" is unknown. Use one of {known}.')
    chosen, with_prior = find_criterion(criterion, expansion)
    averaged = chosen is CRITERIA.get(chosen.name) and chosen.name in MEANS
    if approximation == AUTO and (expansion != "map" or not averaged):
        approximation = LAPLACE
    if approximation != LAPLACE and not averaged:
        raise CriterionError(
            f'criterion="{chosen.name}" needs approximation="laplace". '
            f'With approximation="{approximation}" use one of {", ".join(map(repr, MEANS))}.'
        )
    if approximation != LAPLACE and expansion != "map":
        raise CriterionError(f'expansion="{expansion}" is for approximation="laplace". Leave it out.')
    centre_of = None if approximation in (AUTO, LAPLACE) else approximation
    return Settings(chosen, with_prior, find_rule(labels), np.random.default_rng(random_seed), approximation, centre_of)


def source_of_error(criterion: str, approximation: str) -> str:
    """What tells `own_error` of scores, in words; neither is the whole error of a score."""
    return "class sums" if approximation == LAPLACE and criterion in BY_REFITS else "its draws"
