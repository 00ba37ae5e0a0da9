"""What runs train."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pymc_bpls.compute.executors import Executor
from pymc_bpls.lazy.pool import LazyPool
from pymc_bpls.lazy.run import begin_run
from pymc_bpls.model.density import Parameters
from pymc_bpls.model.problem import Problem
from pymc_bpls.scoring.scorer import Scorer, refits_by
from pymc_bpls.selftraining.history import History
from pymc_bpls.selftraining.run import Run
from pymc_bpls.selftraining.saved_run import RunMembers


@dataclass(frozen=True)
class Trainee:
    """A model on its table, or a set of them, with its lazy pool where there is one.

    `parameters_of` are those of the model that predicts at the end of a history. Of a set, `model_rule` is what results call
    the rule by which it selects, and `members` are its models as a run tells of them.
    """

    scorer: Scorer
    parameters_of: Callable[[History], Parameters]
    lazy: LazyPool | None = None
    model_rule: str | None = None
    members: RunMembers | None = None

    @property
    def problem(self) -> Problem:
        """The declared model."""
        return self.scorer.problem

    def over_pool(self, run: Run, base: Scorer, test: Any, executor: Executor | None) -> Run:
        """The run with an executor for its refits, or for its passes over a lazy pool.

        `base` is the run's scorer without the new rows of `test`, which is as in `self_train`.
        """
        if self.lazy is not None:
            return begin_run(run, self.lazy, base, test, executor)
        return replace(run, scorer=refits_by(run.scorer, executor, run.settings))
