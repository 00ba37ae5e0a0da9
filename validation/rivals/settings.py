"""The tables that rivals are compared on: the paper's, and five populations whose classes make the features."""

from __future__ import annotations

from dataclasses import dataclass

from validation.rivals.designs import DESIGNS
from validation.study.splits import Sizes

CODE, SUPPLEMENT = "code", "supplement"
REPETITIONS, FRESH = 30, 1000
#: A class-conditional model of more features takes minutes a split.
MOST_FEATURES = 12


@dataclass(frozen=True)
class Setting:
    """`n` rows of a data set, half of them test rows; or training rows of a population, judged on `FRESH` further rows."""

    source: str
    n: int
    features: int
    unlabeled: float = 0.8

    @property
    def simulated(self) -> bool:
        """Whether it is a population."""
        return self.source in (CODE, SUPPLEMENT, *DESIGNS)

    @property
    def sizes(self) -> Sizes:
        """How many rows are for testing, labeled and candidates."""
        sizes = Sizes.of(self.n, self.unlabeled)
        return sizes._replace(test=FRESH) if self.simulated else sizes

    @property
    def class_conditional(self) -> bool:
        """Whether the class-conditional model is run."""
        return self.features <= MOST_FEATURES

    @property
    def key(self) -> str:
        """Names its file of results."""
        return f"{self.source}-q{self.features}-n{self.n}-u{100 * self.unlabeled:.0f}"

    @property
    def name(self) -> str:
        """Names its table to a reader."""
        return {"eeg": "EEG"}.get(self.source, self.source.replace("_", " "))

    @property
    def title(self) -> str:
        """Names it to a reader."""
        return f"{self.name}, q = {self.features} ({self.sizes.labeled} + {self.sizes.candidates})"

    @property
    def work(self) -> int:
        """What the time of a repetition is roughly proportional to."""
        return self.sizes.candidates


MADE_BY_CLASSES = tuple(Setting(name, 200, 4, 0.9) for name in DESIGNS)
SIMULATED = (Setting(SUPPLEMENT, 100, 10), Setting(CODE, 100, 60))
REAL = (
    Setting("cars", 32, 2),
    Setting("banknote", 200, 6),
    Setting("mushrooms", 200, 3),
    Setting("abalone", 200, 6),
    Setting("breast_cancer", 200, 30),
    Setting("eeg", 182, 12),
    Setting("sonar", 208, 60),
    Setting("ionosphere", 350, 33),
)
SETTINGS = (*MADE_BY_CLASSES, *SIMULATED, *REAL)
QUICK = (MADE_BY_CLASSES[0], REAL[0])
