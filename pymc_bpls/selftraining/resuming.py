"""What a run does not keep, and is given again to go on: objects of the user's own, new rows, stop rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pymc_bpls.approximations.by_name import APPROXIMATIONS
from pymc_bpls.errors import CriterionError
from pymc_bpls.model.data.labels import as_labels
from pymc_bpls.model.problem import Problem
from pymc_bpls.rules.label_rules import LabelRule, find_rule
from pymc_bpls.scoring.criteria import CRITERIA, Criterion, FitCriterion
from pymc_bpls.scoring.predictors import FUNCTION
from pymc_bpls.scoring.scorer import Scorer, settled
from pymc_bpls.scoring.settings import AUTO, LAPLACE, Settings, find_settings
from pymc_bpls.selftraining.class_balance import ClassBalance
from pymc_bpls.selftraining.held_out import HeldOut
from pymc_bpls.selftraining.planning import Plan, read_test, split_test
from pymc_bpls.selftraining.run import Run
from pymc_bpls.selftraining.saved_run import SavedRun, generator_at
from pymc_bpls.selftraining.stop_rules import Stop, holds_rows_out, name_of, named_rows, read_rules


@dataclass(frozen=True)
class Again:
    """What `resume` is given: how many rounds more, and what the run did not keep."""

    criterion: Criterion | FitCriterion | None = None
    labels: LabelRule | None = None
    pseudo_weight: Callable[[float], float] | None = None
    rounds: int | None = None
    stop: Stop | list[Stop] | None = None
    test: Any = None


def go_on(saved: SavedRun, scorer: Scorer, again: Again, random_seed: Any) -> Run:
    """The run where it ended, by a scorer with the factor that its candidates bring.

    Raises
    ------
    CriterionError
        What the run did not keep is not given again, or is another one.
    """
    settings = _settings_again(saved, scorer, again, random_seed)
    left = np.setdiff1d(scorer.problem.table.candidates, saved.labeled.positions)
    scorer, plan = _plan_again(saved, scorer, again)
    if plan.test is not None:
        left = np.setdiff1d(left, plan.test.positions)
    return Run(scorer, settings, plan, saved.labeled, left, saved.history, warm=saved.warm, theta=saved.theta)


def _settings_again(saved: SavedRun, scorer: Scorer, again: Again, random_seed: Any) -> Settings:
    """How it scored in its last round; random numbers go on where they were, unless there is a seed."""
    made_by, steps = saved.settings, saved.history.steps
    criterion = criterion_again(made_by.criterion, again.criterion)
    rule = label_rule_again(made_by.labels, again.labels)
    own = not made_by.automatic and made_by.approximation in (LAPLACE, *APPROXIMATIONS)
    approximation = made_by.approximation if own else AUTO
    asked = find_settings(criterion, approximation, made_by.expansion, rule, random_seed).for_run()
    settings = settled(scorer, asked, saved.first(0))
    if steps:
        settings = settings.from_here(steps[-1].get("approximation", settings.approximation))
    return settings if random_seed is not None else replace(settings, rng=generator_at(saved.random_state))


def _plan_again(saved: SavedRun, scorer: Scorer, again: Again) -> tuple[Scorer, Plan]:
    """Its plan with the rules that are given, and the scorer that can predict its test rows."""
    made_by, problem = saved.settings, scorer.problem
    scorer, test = read_test(held_out_again(saved.test, again.test, problem), scorer)
    rules = read_rules(again.stop)
    check_rows_held_out(rules, saved.held_out, problem)
    balance = None if made_by.class_balance is None else ClassBalance(made_by.class_balance)
    weight = weight_again(made_by.pseudo_weight, again.pseudo_weight)
    return scorer, Plan(again.rounds, made_by.batch_size, rules, balance, weight, test, saved.held_out)


def criterion_again(name: str, given: str | Criterion | FitCriterion | None) -> str | Criterion | FitCriterion:
    """The criterion of a run that goes on: the object that is given, or the package's own of that name.

    Raises
    ------
    CriterionError
        It is not given and is none of the package's, or another one is given.
    """
    if given is not None:
        _check_name(getattr(given, "name", given), name, "criterion=", "run=")
        return given
    if name not in CRITERIA:
        raise CriterionError(f'run= holds criterion="{name}", one of your own. Give it again in criterion=.')
    return name


def label_rule_again(name: str, given: str | LabelRule | None, what: str = "run=") -> LabelRule:
    """The label rule of a run or of exact values: the object that is given, or the package's own of that name.

    Raises
    ------
    CriterionError
        It is not given and is none of the package's, or another one is given.
    """
    if given is not None:
        rule = find_rule(given)
        _check_name(rule.name, name, "labels=", what)
        return rule
    try:
        return find_rule(name)
    except CriterionError:
        raise CriterionError(f'{what} holds labels="{name}", a rule of your own. Give it again in labels=.') from None


def _check_name(given: Any, name: str, argument: str, what: str) -> None:
    if given != name:
        raise CriterionError(f'{argument} is "{given}", and {what} holds "{name}". Give that one, or leave it out.')


def weight_again(kept: float | None, given: Callable[[float], float] | None) -> float | Callable[[float], float]:
    """The weight of pseudo-labels: what the run kept, or the function that is given again.

    Raises
    ------
    CriterionError
        The function is not given, or another weight than the run's.
    """
    if kept is not None:
        if given is not None and given != kept:
            raise CriterionError(f"pseudo_weight= is {given!r}, and run= holds {kept:g}. Give that one, or leave it out.")
        return kept
    if given is None:
        raise CriterionError(
            "The run weighted pseudo-labels by a function, which is not kept. Give it again in pseudo_weight=."
        )
    if not callable(given):
        raise CriterionError(f"pseudo_weight= is {given!r}, and run= weighted by a function. Give that function again.")
    return given


def predicting_as(scorer: Scorer, predictor: str) -> Scorer:
    """The scorer with the predictor of a run.

    Raises
    ------
    CriterionError
        That was a function, and the scorer has none.
    """
    if FUNCTION in predictor and scorer.predictor_name != predictor:
        raise CriterionError(
            "The run was predicted by a function of your own, which is not kept. Give it again in predictor= of BPLS."
        )
    return scorer.with_predictor(predictor)


def check_model_rule(had: str | None, rule: str | None) -> None:
    """Refuse to go on by another model rule than that of the run, where it says one."""
    if had is not None and rule != had:
        raise CriterionError(
            f"The run selected by {had}, and this set selects by {rule}. Go on with a ModelSet of the same members and rule."
        )


def held_out_again(had: HeldOut | None, test: Any, problem: Problem) -> Any:
    """The test set of a run that goes on: rows of the table as they were, new rows as they are given again.

    Raises
    ------
    CriterionError
        New rows are not given, or others than the run had.
    """
    if had is None:
        if test is not None:
            raise CriterionError("test= is given, and the run began without test rows. Leave it out, or start again with it.")
        return None
    labels = [problem.classes.own[code] for code in had.codes] if problem.classes.own else had.codes
    if test is None:
        if had.positions.max() >= problem.source.n_rows:
            raise CriterionError("The run had new rows as test rows, which are not kept. Give them again in test=.")
        return had.positions, labels
    again = as_labels(split_test(test)[1])
    if again is None or problem.classes.find(again).tolist() != had.codes.tolist():
        raise CriterionError(f"test= has other labels than the {len(labels)} test rows of the run. Give the same rows again.")
    return test


def check_rows_held_out(rules: Sequence[Stop], had: HeldOut | None, problem: Problem) -> None:
    """Refuse a rule that holds labeled rows out where the run holds none, or others.

    The run's rows stand where the rule draws its own. Whether it does is seen by the generator that it is handed.

    Raises
    ------
    CriterionError
        A rule is new to the run, or names other rows.
    """
    for rule in filter(holds_rows_out, rules):
        rng = np.random.default_rng(0)
        before = rng.bit_generator.state
        rows = named_rows(rule, problem, rng)
        if had is None and rows.size:
            raise CriterionError(
                f"stop= holds {name_of(rule)}, and the run set no labeled rows aside. Start it again with {name_of(rule)}."
            )
        drawn = rng.bit_generator.state != before
        if had is not None and not drawn and rows.tolist() != had.positions.tolist():
            raise CriterionError(
                f"{name_of(rule)} names other rows than {had.positions.tolist()}, which the run set aside. Name the same."
            )
