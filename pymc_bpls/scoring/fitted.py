"""The fit on D, from which candidates are predicted and scored: of one model, or of the members of a set."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np

from pymc_bpls.approximations.by_name import APPROXIMATIONS
from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.approximations.predictions.predictive import Predictive
from pymc_bpls.engine.engine import Engine
from pymc_bpls.engine.modes.mode import Mode
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.scoring.settings import LAPLACE

#: Where the next round's fits start from: the mode that refits share, or the Gaussians by k.
Warm = np.ndarray | dict[int, Gaussian] | None


class Fitted(Protocol):
    """A fit on D = `labeled`; `mode` is that of the model that predicts."""

    @property
    def labeled(self) -> Labeled:
        """D."""
        ...

    @property
    def mode(self) -> Mode:
        """The mode of the log-posterior, or the centre of an approximation."""
        ...

    @property
    def has_mode(self) -> bool:
        """Whether a mode was found, of a set one of any member."""
        ...

    def beside(self, other: Any) -> tuple[ModelFit, ModelFit]:
        """The fit of the model that predicts, and the fit of the same model in another one."""
        ...

    def for_scores_by(self, approximation: str | None, warm: Warm = None) -> Self:
        """The same for scores by an approximation, which predictions share; None where the criterion has none of its own.

        Its q starts from that of an earlier round.
        """
        ...

    def ahead(self, warm: Warm) -> Warm:
        """What the next round may start from: `warm`, of its scores, and q."""
        ...


@dataclass(frozen=True)
class ModelFit:
    """The fit of one model, with the predictions of the engine that serves D.

    `approximation` is that of the criterion that scores, where it has one; `known` are the q_k ≈ p_k that were fitted, by name
    and k, and `refused` the names of those for k = 1 that did not settle. They start from `begin`, an earlier round's.
    """

    labeled: Labeled
    mode: Mode
    predictive: Predictive
    approximation: str | None = None
    begin: Gaussian | None = None
    known: dict[tuple[str, int], Gaussian] = field(default_factory=dict, repr=False, compare=False)
    refused: set[str] = field(default_factory=set, repr=False, compare=False)

    @property
    def engine(self) -> Engine:
        """The engine that serves D."""
        return self.predictive.engine

    @property
    def has_mode(self) -> bool:
        """Whether the log-posterior has a mode that could be verified."""
        return not self.mode.is_centre

    def beside(self, other: ModelFit) -> tuple[ModelFit, ModelFit]:
        """This one and the other."""
        return self, other

    def for_scores_by(self, approximation: str | None, warm: Warm = None) -> ModelFit:
        """With what is known."""
        begin = warm.get(1) if isinstance(warm, dict) else None
        return replace(self, approximation=approximation, begin=begin)

    def ahead(self, warm: Warm) -> Warm:
        """With the q that predictions average over, where it was found step by step."""
        found = [q for (name, k), q in self.known.items() if k == 1 and name != LAPLACE and self.approximation in (None, name)]
        return warm if isinstance(warm, np.ndarray) or not found else {**(warm or {}), 1: found[0]}

    def gaussian(self, approximation: str) -> Gaussian:
        """q ≈ p(θ | D), fitted once: Laplace's at the mode, or another approximation by its name."""
        if (approximation, 1) not in self.known:
            self.known[approximation, 1] = (
                Gaussian.at_mode(self.mode)
                if approximation == LAPLACE
                else APPROXIMATIONS[approximation].fit(self.engine, self.labeled, 1, self.mode, self.begin)
            )
        return self.known[approximation, 1]

    @property
    def bytes(self) -> int:
        """About how much memory its matrices take."""
        return 8 * len(self.mode.point) ** 2 * (1 + 3 * len(self.known))


@dataclass(frozen=True)
class SetFit:
    """The members' fits, and which of them predicts."""

    members: tuple[ModelFit, ...]
    predicts: int

    @property
    def labeled(self) -> Labeled:
        """D, which all members share."""
        return self.members[0].labeled

    @property
    def mode(self) -> Mode:
        """That of the member that predicts."""
        return self.members[self.predicts].mode

    @property
    def has_mode(self) -> bool:
        """Whether any member's log-posterior has one."""
        return any(member.has_mode for member in self.members)

    def for_scores_by(self, approximation: str | None, warm: Warm = None) -> SetFit:
        """Of each member, which start anew in every round."""
        return replace(self, members=tuple(member.for_scores_by(approximation) for member in self.members))

    def ahead(self, warm: Warm) -> Warm:
        """As it is."""
        return warm

    def beside(self, other: SetFit) -> tuple[ModelFit, ModelFit]:
        """The fits of the member that predicts here, in both."""
        return self.members[self.predicts], other.members[self.predicts]
