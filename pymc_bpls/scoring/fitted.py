"""The fit on D, from which candidates are predicted and scored: of one model, or of the members of a set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from pymc_bpls.approximations.by_name import APPROXIMATIONS
from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.approximations.predictions.predictive import Predictive
from pymc_bpls.engine.engine import Engine
from pymc_bpls.engine.modes.mode import Mode
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.scoring.settings import LAPLACE


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


@dataclass(frozen=True)
class ModelFit:
    """The fit of one model, with the predictions of the engine that serves D."""

    labeled: Labeled
    mode: Mode
    predictive: Predictive

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

    def gaussian(self, approximation: str) -> Gaussian:
        """q ≈ p(θ | D): Laplace's at the mode, or another approximation by its name."""
        if approximation == LAPLACE:
            return Gaussian.at_mode(self.mode)
        return APPROXIMATIONS[approximation].fit(self.engine, self.labeled, 1, self.mode, None)


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

    def beside(self, other: SetFit) -> tuple[ModelFit, ModelFit]:
        """The fits of the member that predicts here, in both."""
        return self.members[self.predicts], other.members[self.predicts]
