"""What is repeated: where a choice could do harm, where bets can win nothing, where there is a gain, the paper's study."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from validation.choose.tables import DISTANCE, FEATURES, FRESH, GAUSSIAN, LOGISTIC, NOISE, OF_REAL
from validation.paper import settings as paper

SIZE, POOLED, NULL, POWER, PAPER = "size", "pooled", "null", "power", "paper"
ALPHA = 0.1
REPETITIONS, OF_POWER, OF_PAPER = 100, 40, 15
#: Folds by part, and how often rows are dealt to them; bets are on one order of rows.
FOLDS = {SIZE: 5, POOLED: 5, NULL: 5, POWER: 10, PAPER: 5}
REPEATS = {SIZE: 1, POOLED: 1, NULL: 1, POWER: 2, PAPER: 1}


@dataclass(frozen=True)
class Case:
    """One part of the study on one table."""

    part: str
    source: str
    n_labeled: int = 40
    n_pool: int = 40
    features: int = FEATURES
    setting: paper.Setting | None = None

    @property
    def key(self) -> str:
        """Names its file of results."""
        return f"{self.part}-{self.source}" if self.setting is None else f"{self.part}-{self.setting.key}"

    @property
    def title(self) -> str:
        """Names it to a reader."""
        return f"{self.part}: {self.source if self.setting is None else self.setting.title}"

    @property
    def work(self) -> int:
        """What the time of a repetition is roughly proportional to."""
        if self.setting is not None:
            return self.setting.sizes.candidates * (self.setting.features or paper.FEATURES.get(self.source, 1)) // 40 + 10
        return {SIZE: 10, POOLED: 20, NULL: 5, POWER: 80}[self.part]


SIZES = (
    Case(SIZE, LOGISTIC),
    Case(SIZE, NOISE),
    Case(SIZE, "ionosphere", features=OF_REAL),
    Case(SIZE, "sonar", features=OF_REAL),
)
POOLS = tuple(replace(case, part=POOLED) for case in SIZES)
NULLS = (Case(NULL, NOISE),)
POWERS = (Case(POWER, GAUSSIAN, n_pool=160, features=10),)
GROUPS = {"the authors' design": paper.TABLE_1, "the (n, q) grid": (*paper.GRID, *paper.SMALLEST), "real data": paper.REAL}
PAPERS = tuple(Case(PAPER, each.source, setting=each) for held in GROUPS.values() for each in held)
#: Cases by part, with their numbers of repetitions.
PARTS = {
    NULL: [(case, REPETITIONS) for case in NULLS],
    SIZE: [(case, REPETITIONS) for case in SIZES],
    PAPER: [(case, OF_PAPER) for case in PAPERS],
    POWER: [(case, OF_POWER) for case in POWERS],
    POOLED: [(case, REPETITIONS) for case in POOLS],
}


def protocol(case: Case) -> dict[str, Any]:
    """What all repetitions of a case have in common."""
    common = {"alpha": ALPHA, "folds": FOLDS[case.part], "repeats": REPEATS[case.part]}
    if case.setting is not None:
        return common | case.setting.sizes._asdict()
    if case.source == GAUSSIAN:
        common |= {"distance": DISTANCE}
    return common | {"labeled": case.n_labeled, "pool": case.n_pool, "features": case.features, "fresh": FRESH}
