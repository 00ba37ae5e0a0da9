"""The same run with exact selection, and how far its last model is from the run's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from pymc_bpls.audit.track import Track
from pymc_bpls.engine.mode import Mode
from pymc_bpls.model.table import Labeled
from pymc_bpls.montecarlo.averages import average_options
from pymc_bpls.scoring.exact import Method
from pymc_bpls.scoring.scorer import Pairs, Scorer, Settings, Warm
from pymc_bpls.selftraining.history import History
from pymc_bpls.selftraining.run import Run


@dataclass(frozen=True)
class ExactScorer(Scorer):
    """Scores by log E[p(ŷ | x, θ)] over draws of p_2, so that a run selects as the exact criterion does."""

    method: Method

    @classmethod
    def like(cls, scorer: Scorer, method: Method) -> ExactScorer:
        """Of the same problem."""
        return cls(**{field.name: getattr(scorer, field.name) for field in fields(Scorer)}, method=method)

    def score(
        self, settings: Settings, labeled: Labeled, mode: Mode, candidates: np.ndarray, warm: Warm = None
    ) -> tuple[xr.Dataset, Warm]:
        """Exact scores of `candidates`, up to a constant."""
        options = self.options(settings.rule, labeled, mode, candidates)
        averages, codes = average_options(self.engine, self.method(self, labeled, 2).draws, options)
        score = Pairs.of(candidates, codes).variable(averages.log_mean)
        return self._finished(xr.Dataset({"score": score}), replace(options, codes=codes)), warm


def exact_run(track: Track, method: Method, tell: Callable[[int], None]) -> Run:
    """The same run, from the same start, with exact selection."""
    rounds = track.run.history.steps[-1]["round"] - track.run.history.steps[0]["round"] + 1
    plan = replace(track.plan, rounds=rounds, stop=[])
    run = Run(
        track.scorer.through(partial(ExactScorer.like, method=method)), track.settings, plan, track.start, track.pool, History()
    )
    run.go(tell)
    return run


def compare_ends(track: Track, exact: Run) -> xr.Dataset:
    """How far the run's last model and that of exact selection differ, on the test rows or else on the pool."""
    scorer, test = track.scorer, track.plan.test
    rows = track.pool if test is None else test.positions
    ends = (track.run.labeled, exact.labeled)
    predicted = [scorer.log_probabilities(scorer.base(track.settings, end), rows).argmax(axis=1) for end in ends]
    added = [set(zip(end.positions.tolist(), end.codes.tolist(), strict=True)) for end in ends]
    start = set(zip(track.start.positions.tolist(), track.start.codes.tolist(), strict=True))
    values: dict[str, Any] = {
        "n_added": len(added[0] - start),
        "n_same_added": len((added[0] & added[1]) - start),
        "n_rows": len(rows),
        "n_predicted_differently": int((predicted[0] != predicted[1]).sum()),
    }
    if test is not None:
        for name, codes in zip(("run_accuracy", "exact_accuracy"), predicted, strict=True):
            values[name] = float((codes == test.codes).mean())
    return xr.Dataset(values)
