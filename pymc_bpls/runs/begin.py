"""How runs begin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_bpls.compute.executors import Executor
from pymc_bpls.lazy.run import check_run
from pymc_bpls.rules.label_rules import LabelRule
from pymc_bpls.runs.begun import Begun
from pymc_bpls.runs.trainee import Trainee
from pymc_bpls.scoring.criteria import Criterion, FitCriterion
from pymc_bpls.scoring.engines import refuse_weight
from pymc_bpls.scoring.scorer import settled
from pymc_bpls.scoring.settings import AUTO, find_settings, read_name
from pymc_bpls.selftraining.history import History
from pymc_bpls.selftraining.planning import read_plan, read_test
from pymc_bpls.selftraining.replicates import begin_replicates, check_drawing
from pymc_bpls.selftraining.run import Run
from pymc_bpls.selftraining.saved_run import RunSettings
from pymc_bpls.selftraining.stop_rules import Stop


def begin(
    trainee: Trainee,
    criterion: str | Criterion | FitCriterion,
    *,
    approximation: str,
    expansion: str,
    labels: str | LabelRule,
    candidate: str,
    rounds: int | None,
    batch_size: int,
    stop: Stop | list[Stop] | None,
    class_balance: Any,
    pseudo_weight: float | Callable[[float], float],
    replicates: int | None,
    test: Any,
    executor: Executor | None,
    random_seed: int | np.random.Generator | None,
) -> Begun:
    """The runs that `self_train` is asked for; parameters are its own."""
    criterion, approximation, expansion = read_name(criterion, approximation, expansion)
    asked = find_settings(criterion, approximation, expansion, labels, random_seed).for_run()
    problem, base = trainee.problem, trainee.scorer.with_factor(candidate)
    refuse_weight(problem.density, problem.name, pseudo_weight)
    scorer, test_set = read_test(test, base)
    how: dict[str, Any] = {"rounds": rounds, "batch_size": batch_size, "stop": stop}
    how |= {"class_balance": class_balance, "pseudo_weight": pseudo_weight, "test": test_set}
    plan = read_plan(problem, asked.rng, **how)
    check_drawing(asked.rule, replicates, batch_size)
    if trainee.lazy is not None:
        check_run(settled(scorer, asked, problem.labeled), plan, replicates)
    table = problem.table if test_set is None else problem.table.without(test_set.positions)
    start = problem.labeled if plan.held_out is None else problem.labeled.without(plan.held_out.positions)
    settings = settled(scorer, asked, start)
    run = trainee.over_pool(Run(scorer, settings, plan, start, table.candidates, History()), base, test, executor)
    made_by = RunSettings(
        criterion=settings.criterion.name,
        approximation=settings.scored_by,
        expansion=expansion,
        labels=settings.rule.name,
        batch_size=int(batch_size),
        pseudo_weight=None if callable(pseudo_weight) else float(pseudo_weight),
        class_balance=None if plan.balance is None else plan.balance.shares,
        model_rule=trainee.model_rule,
        candidate=candidate,
        automatic=asked.approximation == AUTO,
        predictor=scorer.predictor_name,
    )
    runs = [run] if replicates is None else begin_replicates(run, replicates)
    return Begun(trainee, runs, made_by, replicates is not None)
