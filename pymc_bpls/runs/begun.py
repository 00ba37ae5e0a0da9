"""Runs that are ready to go, and the tree that comes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from pymc_bpls.compute.work import working
from pymc_bpls.model.density import Parameters
from pymc_bpls.runs.trainee import Trainee
from pymc_bpls.scoring.settings import Settings
from pymc_bpls.selftraining.ending import Ending
from pymc_bpls.selftraining.replicates import gather, go_through, mixture_of
from pymc_bpls.selftraining.run import Run
from pymc_bpls.selftraining.saved_run import RunSettings, write_run


@dataclass(frozen=True)
class Begun:
    """One run, or the replicates of one (`replicated`), and how they are made."""

    trainee: Trainee
    runs: Sequence[Run]
    made_by: RunSettings
    replicated: bool

    @property
    def candidates(self) -> np.ndarray:
        """Positions of the candidates in memory."""
        return self.runs[0].candidates

    @property
    def settings(self) -> Settings:
        """How they score."""
        return self.runs[0].settings

    def noting(self, **notes: Any) -> Begun:
        """The same with more attrs."""
        return replace(self, made_by=replace(self.made_by, notes={**self.made_by.notes, **notes}))

    def go(self, progressbar: bool) -> xr.DataTree:
        """Let them go until each has a reason to stop; what `self_train` returns."""
        words = f"self-training, {len(self.runs)} replicates" if self.replicated else "self-training"
        with working(words, progressbar, sum(run.most for run in self.runs)) as tell:
            endings = go_through(self.runs, tell)
            mixture = mixture_of(self.runs, self._parameters(self.runs[0])) if self.replicated else None
        trees = [self._written(run, ending) for run, ending in zip(self.runs, endings, strict=True)]
        return gather(trees, mixture) if self.replicated else trees[0]

    def _written(self, run: Run, ending: Ending) -> xr.DataTree:
        saved = run.saved(self.made_by, ending, self.trainee.members)
        return write_run(saved, self.trainee.problem, self._parameters(run))

    def _parameters(self, run: Run) -> Parameters:
        return self.trainee.parameters_of(run.history)
