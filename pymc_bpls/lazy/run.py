"""Self-training over a lazy pool: a pass a round, whose best rows are fetched and joined to D."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pymc_bpls.compute.executors import Executor
from pymc_bpls.errors import CriterionError
from pymc_bpls.lazy.joined import JoinedRows
from pymc_bpls.lazy.pool import LazyPool
from pymc_bpls.lazy.scoring import Scored, refuse_refits, score_lazily, without_refits
from pymc_bpls.model.data.table import by_container
from pymc_bpls.rules.ranking import best_first
from pymc_bpls.scoring.results import Scores
from pymc_bpls.scoring.settings import Settings
from pymc_bpls.selftraining.ending import Ending
from pymc_bpls.selftraining.planning import Plan, split_test
from pymc_bpls.selftraining.run import Run
from pymc_bpls.selftraining.saved_run import RunMembers, RunSettings, SavedRun


@dataclass
class LazyRun(Run):
    """A run whose candidates are the rows of a pool; `candidates` are those that the last pass chose, by their places."""

    joined: JoinedRows = field(kw_only=True)
    executor: Executor | None = field(default=None, kw_only=True)

    @property
    def n_left(self) -> int:
        """Rows of the pool that are not in D."""
        return self.joined.pool.partitions.n_rows - len(self.joined.numbers)

    def _round(self) -> int:
        """A pass, whose best rows are fetched; the rest is that of any run."""
        assert self.fit is not None
        size = self.plan.batch_size
        top = (size + 1) * (len(self.scorer.problem.classes) if self.settings.rule.name == "all" else 1)
        pool, before = self.joined.pool, (self.joined, self.scorer)
        fit: Any = self.fit
        scored = score_lazily(
            pool, self.joined.base, self.settings, fit, top=top, left_out=self.joined.numbers, executor=self.executor
        )
        self._advance()
        numbers, scores = self._shortlist(scored)
        chosen = numbers[:size]
        if not len(chosen):
            return 0
        joined = self.joined.join(chosen, pool.rows(chosen, self.executor))
        places = pool.first_candidate + joined.n_test + len(self.joined.numbers) + np.arange(len(numbers))
        scores = replace(scores, candidates=places)
        self.joined, self.scorer, self.candidates = joined, joined.scorer, places
        self.select = lambda *_: (scores, self.warm)
        try:
            return super()._round()
        except BaseException:
            self.joined, self.scorer = before
            raise

    def _advance(self) -> None:
        """Past the random numbers that the rows got, one a pair."""
        if self.settings.criterion.name == "random":
            several = len(self.scorer.problem.classes) if self.settings.rule.name == "all" else 1
            bits: Any = self.settings.rng.bit_generator
            bits.advance(self.n_left * several)

    def _shortlist(self, scored: Scored) -> tuple[np.ndarray, Scores]:
        """Numbers of the best rows, the best first, and their scores in that order."""
        best = scored.best
        order, _ = best_first(best.scores)
        rows, codes, values = best.rows[order], best.codes[order], best.scores[order]
        numbers, first, place = np.unique(rows, return_index=True, return_inverse=True)
        rank = np.argsort(first)
        numbers, place, chosen = numbers[rank], np.argsort(rank)[place], codes[np.sort(first)]
        if self.settings.rule.name != "all":
            variable: Any = (("candidate",), values)
            of = chosen
        else:
            table = np.full((len(numbers), len(self.scorer.problem.classes)), np.nan)
            table[place, codes] = values
            variable, of = (("candidate", "label"), table), np.tile(np.arange(table.shape[1]), (len(numbers), 1))
        return numbers, Scores({"score": variable}, scored.attrs, candidates=numbers, codes=of, chosen=chosen)

    def _position_of(self, place: int) -> int:
        """As results number it."""
        return int(self.joined.positions(np.array([place]))[0])

    def saved(self, settings: RunSettings, ending: Ending, members: RunMembers | None) -> SavedRun:
        """As a run of a table that has all rows of the pool."""
        saved = super().saved(settings, ending, members)
        test = saved.test
        if test is not None:
            test = replace(test, positions=self.joined.positions(test.positions))
        labeled = replace(saved.labeled, positions=self.joined.positions(saved.labeled.positions))
        return replace(saved, labeled=labeled, test=test)


def check_run(settings: Settings, plan: Plan, replicates: int | None) -> None:
    """Refuse what a run over a lazy pool cannot be.

    Raises
    ------
    CriterionError
        A refit of every row, a balance of classes, or replicates.
    """
    refuse_refits(without_refits(settings))
    if plan.balance is not None:
        raise CriterionError("class_balance= needs the best of each class, which a lazy pool does not keep. Leave it out.")
    if replicates is not None:
        raise CriterionError("replicates= would pass over a lazy pool for each of them. Start several runs by random_seed=.")


def begin_run(run: Run, pool: LazyPool, base: Any, test: Any, executor: Executor | None) -> LazyRun:
    """A run over a lazy pool, or one that goes on: its pseudo-labeled rows are fetched again. `test` is as in `self_train`."""
    rows = None if test is None else by_container(split_test(test)[0], base.problem.model, "test")
    joined = JoinedRows.begin(pool, base, rows if isinstance(rows, Mapping) else None)
    added = np.array([step["candidate"] for step in run.history.steps], dtype=np.int64) - pool.first_candidate
    if len(added):
        joined = joined.join(added, pool.rows(added, executor))
    return LazyRun(
        joined.scorer,
        without_refits(run.settings),
        run.plan,
        joined.labeled(run.labeled),
        np.empty(0, dtype=np.int64),
        run.history,
        warm=joined.warm(run.warm),
        theta=run.theta,
        joined=joined,
        executor=executor,
    )
