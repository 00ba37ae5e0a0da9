"""How runs go on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import xarray as xr

from pymc_bpls.compute.executors import Executor
from pymc_bpls.runs.begun import Begun
from pymc_bpls.runs.trainee import Trainee
from pymc_bpls.selftraining.replicates import replicates_of
from pymc_bpls.selftraining.resuming import Again, check_model_rule, go_on, predicting_as
from pymc_bpls.selftraining.run import Run
from pymc_bpls.selftraining.saved_run import REPLICATES, RunSettings, read_run

Seed = int | np.random.Generator | None


def resume(trainee: Trainee, tree: xr.DataTree, again: Again, executor: Executor | None, random_seed: Seed) -> Begun:
    """A run that goes on, or the replicates of one, each with a stream of `random_seed`, where there is one."""
    if not isinstance(tree, xr.DataTree) or REPLICATES not in tree:
        run, made_by = _go_on(trainee, tree, again, executor, random_seed)
        return Begun(trainee, [run], made_by, replicated=False)
    parts = replicates_of(tree)
    seeds = [None] * len(parts) if random_seed is None else np.random.default_rng(random_seed).spawn(len(parts))
    begun = [_go_on(trainee, part, again, executor, seed) for part, seed in zip(parts, seeds, strict=True)]
    return Begun(trainee, [run for run, _ in begun], begun[0][1], replicated=True)


def _go_on(
    trainee: Trainee, tree: xr.DataTree, again: Again, executor: Executor | None, random_seed: Seed
) -> tuple[Run, RunSettings]:
    """One run, and how it is made."""
    saved = read_run(tree, trainee.problem)
    check_model_rule(saved.settings.model_rule, trainee.model_rule)
    base = predicting_as(trainee.scorer.with_factor(saved.settings.candidate), saved.settings.predictor)
    run = go_on(saved, base, again, random_seed)
    return trainee.over_pool(run, base, again.test, executor), replace(saved.settings, model_rule=trainee.model_rule)
