"""Self-training in which one set of refits a round serves both criteria, and no D is scored twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pymc_bpls.model.table import Labeled
from pymc_bpls.rules.label_rules import find_rule
from pymc_bpls.scoring.criteria import LAPLACE, TERMS
from pymc_bpls.scoring.fitted import Fitted
from pymc_bpls.scoring.results import rank_pairs
from pymc_bpls.scoring.scorer import Scorer, Warm, score_pool
from pymc_bpls.scoring.settings import Settings
from validation.study.splits import Split

FULL, SIMPLIFIED = CRITERIA = ("ppp", "ibpls")
_SCORING = Settings(LAPLACE[FULL], True, find_rule("predicted"), np.random.default_rng(0))


class Choices(NamedTuple):
    """From one scoring: what each criterion adds, a place in the pool; all pseudo-labels; how many refits had no mode."""

    best: dict[str, int]
    codes: np.ndarray
    lost: int
    warm: Warm

    @property
    def differ(self) -> bool:
        """Whether the criteria disagree."""
        return self.best[FULL] != self.best[SIMPLIFIED]


class Round(NamedTuple):
    """D, the pool, the model fitted to D, and how many test rows it predicts right; the choices unless the pool is empty."""

    labeled: Labeled
    candidates: np.ndarray
    fit: Fitted
    right: int
    choices: Choices | None


def choose(scorer: Scorer, fit: Fitted, candidates: np.ndarray, warm: Warm = None) -> Choices:
    """What both criteria would add: they expand at the same modes, so that the refits for one serve the other."""
    scores, warm = score_pool(scorer, _SCORING, fit, candidates, warm)
    usable = np.isfinite(scores["score"].to_numpy())
    # without coords, which xarray would align in every sum
    terms = scores[list(TERMS)].drop_vars(list(scores.coords))
    best = {name: int(rank_pairs(LAPLACE[name].combine(terms).where(usable))[0][0, 0]) for name in CRITERIA}
    return Choices(best, scorer.problem.codes(scores["pseudo_label"].to_numpy()), int((~usable).sum()), warm)


@dataclass
class SelfTraining:
    """Runs on one split. Runs whose D is the same set of rows and labels share the round, whatever order they came in."""

    scorer: Scorer
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
        start, warm = (None, None) if last is None or last.choices is None else (last.fit.mode.theta, last.choices.warm)
        fit = self.scorer.fit(labeled, start)
        right = int(self.split.test.evaluate(self.scorer, fit)[0].sum())
        choices = choose(self.scorer, fit, candidates, warm) if len(candidates) else None
        return Round(labeled, candidates, fit, right, choices)
