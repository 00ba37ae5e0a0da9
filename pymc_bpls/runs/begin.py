"""How runs begin."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_bpls.compute.executors import Executor
from pymc_bpls.lazy.run import check_run
from pymc_bpls.runs.begun import Begun
from pymc_bpls.runs.trainee import Trainee
from pymc_bpls.scoring.engines import refuse_weight
from pymc_bpls.scoring.scorer import settled
from pymc_bpls.scoring.settings import AUTO, find_settings, read_name
from pymc_bpls.selftraining.history import History
from pymc_bpls.selftraining.planning import read_plan, read_test
from pymc_bpls.selftraining.replicates import begin_replicates, check_drawing
from pymc_bpls.selftraining.run import Run
from pymc_bpls.selftraining.saved_run import RunSettings
from pymc_bpls.selftraining.train import Train

Seed = int | np.random.Generator | None


def begin(trainee: Trainee, train: Train, *, test: Any, executor: Executor | None, random_seed: Seed) -> Begun:
    """The runs that `self_train` is asked for; parameters are its own."""
    criterion, approximation, expansion = read_name(train.criterion, train.approximation, train.expansion)
    asked = find_settings(criterion, approximation, expansion, train.labels, random_seed).for_run()
    problem, base = trainee.problem, trainee.scorer.with_factor(train.candidate)
    refuse_weight(problem.density, problem.name, train.pseudo_weight)
    scorer, test_set = read_test(test, base)
    plan = read_plan(problem, asked.rng, train, test_set)
    check_drawing(asked.rule, train.replicates, train.batch_size)
    if trainee.lazy is not None:
        check_run(settled(scorer, asked, problem.labeled), plan, train.replicates)
    table = problem.table if test_set is None else problem.table.without(test_set.positions)
    start = problem.labeled if plan.held_out is None else problem.labeled.without(plan.held_out.positions)
    settings = settled(scorer, asked, start)
    run = trainee.over_pool(Run(scorer, settings, plan, start, table.candidates, History()), base, test, executor)
    made_by = RunSettings(
        criterion=settings.criterion.name,
        approximation=settings.scored_by,
        expansion=expansion,
        labels=settings.rule.name,
        batch_size=int(plan.batch_size),
        pseudo_weight=None if callable(plan.pseudo_weight) else float(plan.pseudo_weight),
        class_balance=None if plan.balance is None else plan.balance.shares,
        model_rule=trainee.model_rule,
        candidate=train.candidate,
        automatic=asked.approximation == AUTO,
        predictor=scorer.predictor_name,
    )
    runs = [run] if train.replicates is None else begin_replicates(run, train.replicates)
    return Begun(trainee, runs, made_by, train.replicates is not None)
