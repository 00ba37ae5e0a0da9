"""A run of self-training as an audit walks along it: D and the candidates left at every step, and how the run went."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from pymc_bpls.errors import CriterionError
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.rules.label_rules import LabelRule
from pymc_bpls.scoring.scorer import Scorer
from pymc_bpls.scoring.settings import AUTO, Settings, find_settings
from pymc_bpls.selftraining.class_balance import ClassBalance
from pymc_bpls.selftraining.planning import Plan
from pymc_bpls.selftraining.resuming import label_rule_again, predicting_as
from pymc_bpls.selftraining.saved_run import SavedRun, read_run


@dataclass(frozen=True)
class Track:
    """A run that is over, with the scorer and the plan by which exact selection does it again."""

    scorer: Scorer
    settings: Settings
    plan: Plan
    pool: np.ndarray
    run: SavedRun

    @property
    def start(self) -> Labeled:
        """D without pseudo-labels."""
        return self.run.first(0)

    @property
    def n_rounds(self) -> int:
        """How many rounds the run did."""
        return int(self.run.history.steps[-1]["round"])

    def at(self, step: int) -> tuple[Labeled, np.ndarray]:
        """D and the candidates left with `step` pseudo-labels."""
        D = self.run.first(step)
        return D, np.setdiff1d(self.pool, D.positions)

    def rounds(self, every: int) -> list[int]:
        """The steps at which every so many rounds began, and the last one, as long as there was something to choose between."""
        numbers = np.array([step["round"] for step in self.run.history.steps], dtype=int)
        begun = np.flatnonzero(np.r_[True, np.diff(numbers) > 0]) if len(numbers) else np.empty(0, int)
        with_choice = begun[len(self.pool) - begun > 1]
        steps = list(dict.fromkeys([*with_choice[::every].tolist(), *with_choice[-1:].tolist()]))
        if not steps:
            raise CriterionError("run= has no round with a choice to audit. Give a run that added pseudo-labels.")
        return steps


def read_track(run: xr.DataTree, scorer: Scorer, labels: LabelRule | None = None, random_seed: int | None = None) -> Track:
    """A run as `self_train` returned it; where a function weighted its pseudo-labels, exact selection takes their mean weight.

    Where labels are drawn, exact selection draws its own by `random_seed`.

    Raises
    ------
    CriterionError
        It is none of this model's table, or its label rule is one of the user's own and is not given.
    """
    problem, saved = scorer.problem, read_run(run, scorer.problem)
    made_by, test = saved.settings, saved.test
    scorer = predicting_as(scorer.with_factor(made_by.candidate), made_by.predictor)
    rule = label_rule_again(made_by.labels, labels)
    asked = find_settings("ppp", made_by.averaged_by or AUTO, labels=rule, random_seed=random_seed)
    settings = replace(asked, centre_of="vi")
    inside = test is not None and len(test.positions) > 0 and test.positions.max() < problem.source.n_rows
    balance = None if made_by.class_balance is None else ClassBalance(made_by.class_balance)
    weights = saved.labeled.weights[len(saved.first(0)) :]
    weight = made_by.pseudo_weight
    if weight is None:
        weight = float(weights.mean()) if len(weights) else 1.0
    plan = Plan(None, made_by.batch_size, [], balance, weight, test if inside else None)
    pool = problem.table.candidates if test is None else np.setdiff1d(problem.table.candidates, test.positions)
    return Track(scorer, settings, plan, pool, saved)
