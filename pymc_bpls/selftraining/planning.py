"""How a run is to go, as the user says it: rounds, stop rules, balance, weights, test rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pymc_bpls.arguments import ARGUMENTS, check, require
from pymc_bpls.errors import LabelError, RowError
from pymc_bpls.model.data.index import RowNames
from pymc_bpls.model.data.table import by_container
from pymc_bpls.model.problem import Problem
from pymc_bpls.scoring.scorer import Scorer
from pymc_bpls.selftraining.class_balance import ClassBalance, read_balance
from pymc_bpls.selftraining.held_out import HeldOut
from pymc_bpls.selftraining.stop_rules import Stop, read_rules, rows_to_hold_out
from pymc_bpls.selftraining.train import Train


@dataclass(frozen=True)
class Plan:
    """How a run goes, apart from how it scores."""

    rounds: int | None
    batch_size: int
    stop: Sequence[Stop]
    balance: ClassBalance | None
    pseudo_weight: float | Callable[[float], float]
    test: HeldOut | None
    held_out: HeldOut | None = None

    def __post_init__(self) -> None:
        check(rounds=self.rounds, batch_size=self.batch_size)
        if not callable(self.pseudo_weight):
            check(pseudo_weight=self.pseudo_weight)

    def weight(self, score: float) -> float:
        """Of a row that was chosen by this score."""
        if not callable(self.pseudo_weight):
            return float(self.pseudo_weight)
        weight = self.pseudo_weight(score)
        admits, _ = ARGUMENTS["pseudo_weight"]
        require(
            weight,
            admits,
            f"pseudo_weight= gave {{value!r}} for the score {score:.4g}, which is not a positive number. Use 1 for a full row.",
        )
        return float(weight)


def read_plan(problem: Problem, rng: np.random.Generator, train: Train, test: HeldOut | None) -> Plan:
    """The plan of a run; a stop rule that draws rows to hold out draws by `rng`."""
    rules, balance = read_rules(train.stop), read_balance(train.class_balance, problem)
    held_out = rows_to_hold_out(rules, problem, rng)
    return Plan(train.rounds, train.batch_size, rules, balance, train.pseudo_weight, test, held_out)


def split_test(test: Any) -> tuple[Any, Any]:
    """`test=` as rows and their labels."""
    try:
        rows, labels = test
    except (TypeError, ValueError):
        raise LabelError("test= is not a pair. Give (rows of the table, labels) or (new rows, labels).") from None
    return rows, labels


def read_test(test: Any, scorer: Scorer) -> tuple[Scorer, HeldOut | None]:
    """The test set of a run, and the scorer that can predict it: `test` is (rows of the table, labels), by position, a
    mask or names of the index, or (new rows, labels)."""
    if test is None:
        return scorer, None
    rows, labels = split_test(test)
    rows = by_container(rows, scorer.problem.model, "test")
    problem, names, index = scorer.problem, None, None
    if isinstance(rows, Mapping):
        scorer, positions = scorer.with_rows(rows, "test")
        frames = [each for each in rows.values() if isinstance(each, pd.DataFrame | pd.Series)]
        index = frames[-1].index if frames else None
        names = None if index is None else RowNames(index)
    else:
        positions = problem.positions(rows, "test=")
        known = np.intersect1d(positions, problem.table.labeled)
        if known.size:
            raise RowError(
                f"test= names {problem.words.some(known)}, which are labeled, so that the model has seen them. "
                "Test on rows that carry -1 in the model."
            )
        strange = positions[~problem.has_finite_data(positions)]
        if strange.size:
            raise RowError(
                f"test= names {problem.words.some(strange)}, whose data is not finite. Impute it, or leave the rows out."
            )
        index = problem.table.index[positions] if problem.table.named else None
    if not len(positions):
        raise RowError("test= names no row. Give rows and the class of each, or leave it out.")
    return scorer, HeldOut(positions, problem.encode(labels, len(positions), index), names)
