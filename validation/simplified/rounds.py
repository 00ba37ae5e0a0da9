"""Self-training in which one set of refits a round serves both criteria, and no D is scored twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pymc_bpls.approximations.predictions.predictive import Predictive
from pymc_bpls.engine.engine import Engine
from pymc_bpls.engine.modes.mode import Mode
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.rules.ranking import best_first
from validation.study.laplace import expand
from validation.study.splits import Split

FULL, SIMPLIFIED = CRITERIA = ("ppp", "ibpls")


class Choices(NamedTuple):
    """From one scoring: what each criterion adds, a place in the pool; all pseudo-labels; how many refits had no mode;
    and where the next round's refits may start.
    """

    best: dict[str, int]
    codes: np.ndarray
    lost: int
    start: np.ndarray

    @property
    def differ(self) -> bool:
        """Whether the criteria disagree."""
        return self.best[FULL] != self.best[SIMPLIFIED]


class Round(NamedTuple):
    """D, the pool, the model fitted to D, and how many test rows it predicts right; the choices unless the pool is empty."""

    labeled: Labeled
    candidates: np.ndarray
    mode: Mode
    right: int
    choices: Choices | None


def choose(engine: Engine, labeled: Labeled, mode: Mode, candidates: np.ndarray, start: np.ndarray) -> Choices:
    """What both criteria would add: they expand at the same modes, so that the refits for one serve the other."""
    codes = predict(engine, mode, candidates)
    values = expand(engine, labeled, candidates, codes, start)
    scores = {FULL: values.ppp, SIMPLIFIED: values.ibpls}
    best = {name: int(best_first(score)[0][0]) for name, score in scores.items()}
    return Choices(best, codes, int(np.isnan(values.ppp).sum()), values.start)


def predict(engine: Engine, mode: Mode, rows: np.ndarray) -> np.ndarray:
    """The most probable class of each row; both have labeled rows."""
    return Predictive(engine).log_probabilities(mode.theta, rows).argmax(axis=1)


@dataclass
class SelfTraining:
    """Runs on one split. Runs whose D is the same set of rows and labels share the round, whatever order they came in."""

    engine: Engine
    split: Split
    _rounds: dict[frozenset[tuple[int, int]], Round] = field(default_factory=dict)

    def run(self, criterion: str) -> Iterator[Round]:
        """The rounds of one criterion, until the pool is empty."""
        labeled, candidates = self.split.labeled, self.split.candidates
        last: Round | None = None
        while True:
            key = frozenset(zip(labeled.positions.tolist(), labeled.codes.tolist(), strict=True))
            if key not in self._rounds:
                self._rounds[key] = self._round(labeled, candidates, last)
            last = self._rounds[key]
            yield last
            if last.choices is None:
                return
            best = last.choices.best[criterion]
            labeled = labeled.with_rows(candidates[[best]], last.choices.codes[[best]], 1.0)
            candidates = np.delete(candidates, best)

    def _round(self, labeled: Labeled, candidates: np.ndarray, last: Round | None) -> Round:
        before = None if last is None or last.choices is None else (last.mode.theta, last.choices.start)
        mode = self.engine.fit(labeled, before[0] if before else None)
        test = self.split.test
        right = int((predict(self.engine, mode, test.positions) == test.codes).sum())
        start = before[1] if before else mode.theta
        choices = choose(self.engine, labeled, mode, candidates, start) if len(candidates) else None
        return Round(labeled, candidates, mode, right, choices)
