"""Scores of all candidates of a table in memory, as a Dataset."""

from __future__ import annotations

from typing import Any

import xarray as xr

from pymc_bpls.compute.executors import Executor
from pymc_bpls.scoring.scorer import Scorer, fit_on, refits_by, score_pool
from pymc_bpls.scoring.settings import Settings


def scores_of_candidates(
    scorer: Scorer, settings: Settings, *, chunk_bytes: int | None, executor: Executor | None
) -> tuple[xr.Dataset, Any]:
    """Scores over `candidate`, and the fit on D that they are by; parameters are those of `BPLS.score`.

    Without a candidate the Dataset is empty, with the variables that it would have.
    """
    scorer = refits_by(scorer, executor, settings)
    if chunk_bytes is not None:
        scorer = scorer.with_memory(chunk_bytes)
    labeled, candidates = scorer.problem.labeled, scorer.problem.table.candidates
    fit = fit_on(scorer, settings, labeled)
    found, _ = score_pool(scorer, settings, fit, candidates if len(candidates) else labeled.positions[:1])
    return found.dataset(scorer.problem).isel(candidate=slice(len(candidates))), fit
