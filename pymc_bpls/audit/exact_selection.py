"""The same run with exact selection, and how far its last model is from the run's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from pymc_bpls.audit.track import Track
from pymc_bpls.montecarlo.references import Method
from pymc_bpls.scoring.fitted import Fitted, Warm
from pymc_bpls.scoring.results import Pairs, Scores, Values, finished
from pymc_bpls.scoring.scorer import Scorer, fit_on, label_options
from pymc_bpls.scoring.settings import Settings
from pymc_bpls.selftraining.history import History
from pymc_bpls.selftraining.run import Run


@dataclass(frozen=True)
class ExactSelection:
    """Scores by exact PPP, up to a constant, from draws of p_2 by `method`."""

    method: Method

    def __call__(
        self, scorer: Scorer, settings: Settings, fit: Fitted, candidates: np.ndarray, warm: Warm
    ) -> tuple[Scores, Warm]:
        """As `score_pool`."""
        options = label_options(scorer, settings.rule, fit, candidates)
        exact = scorer.exact_values(fit.labeled, 2, self.method, options)
        score = Pairs.of(candidates, exact.codes).variable(exact.averages.log_mean)
        return finished(scorer.problem, Values({"score": score}), replace(options, codes=exact.codes)), warm


def exact_run(track: Track, method: Method, tell: Callable[[int], None]) -> Run:
    """The same run, from the same start, with exact selection."""
    rounds = track.run.history.steps[-1]["round"] - track.run.history.steps[0]["round"] + 1
    plan = replace(track.plan, rounds=rounds, stop=[])
    run = Run(track.scorer, track.settings, plan, track.start, track.pool, History(), select=ExactSelection(method))
    run.go(tell)
    return run


def compare_ends(track: Track, exact: Run) -> xr.Dataset:
    """How far the run's last model and that of exact selection differ, on the test rows or else on the pool."""
    scorer, test = track.scorer, track.plan.test
    rows = track.pool if test is None else test.positions
    ends = (track.run.labeled, exact.labeled)
    predicted = [scorer.log_probabilities(fit_on(scorer, track.settings, end), rows).argmax(axis=1) for end in ends]
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
