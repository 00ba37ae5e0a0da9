"""What the stored repetitions of a setting say: means over repetitions with 95% intervals, differences paired by repetition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pymc_bpls.montecarlo.pareto import GOOD_K
from validation.simplified.rounds import CRITERIA, FULL, SIMPLIFIED
from validation.simplified.settings import Setting
from validation.study.intervals import LEVEL, Interval
from validation.study.store import Record


@dataclass(frozen=True)
class Regret:
    """Mean exact log PPP lost a round, with the part of its standard error that is Monte Carlo error."""

    interval: Interval
    monte_carlo: float


@dataclass(frozen=True)
class Summary:
    """The finished repetitions of a setting, by number."""

    setting: Setting
    records: Mapping[int, Record]

    @property
    def repetitions(self) -> int:
        """How many there are."""
        return len(self.records)

    @cached_property
    def accuracy(self) -> dict[str, np.ndarray]:
        """Test accuracy in percent, shape (repetition, number of pseudo-labels)."""
        n_test = self.setting.sizes[0]
        return {name: 100 * np.array([each["right"][name] for each in self.records.values()]) / n_test for name in CRITERIA}

    @property
    def supervised(self) -> np.ndarray:
        """Test accuracy without pseudo-labels, which is the same in both runs."""
        return self.accuracy[FULL][:, 0]

    def final(self, criterion: str) -> np.ndarray:
        """Test accuracy with all pseudo-labels."""
        return self.accuracy[criterion][:, -1]

    def along(self, criterion: str) -> np.ndarray:
        """Test accuracy averaged over the run, from the first pseudo-label to the last."""
        return self.accuracy[criterion][:, 1:].mean(axis=1)

    @property
    def curve_difference(self) -> np.ndarray:
        """Full minus simplified, in percentage points."""
        return self.accuracy[FULL] - self.accuracy[SIMPLIFIED]

    @property
    def final_difference(self) -> Interval:
        """Full minus simplified, with all pseudo-labels."""
        return Interval.of(self.final(FULL) - self.final(SIMPLIFIED))

    @property
    def along_difference(self) -> Interval:
        """Full minus simplified, averaged over the run."""
        return Interval.of(self.along(FULL) - self.along(SIMPLIFIED))

    @property
    def along_distance(self) -> np.ndarray:
        """How far accuracies are apart, averaged over the run, by repetition."""
        return np.abs(self.curve_difference[:, 1:]).mean(axis=1)

    @property
    def alike(self) -> int:
        """In how many repetitions both runs end with the same test accuracy."""
        return int((self.final(FULL) == self.final(SIMPLIFIED)).sum())

    def gain(self, criterion: str, level: float = LEVEL) -> Interval:
        """Over the supervised model, with all pseudo-labels."""
        return Interval.of(self.final(criterion) - self.supervised, level)

    def gain_along(self, criterion: str, level: float = LEVEL) -> Interval:
        """Over the supervised model, averaged over the run."""
        return Interval.of(self.along(criterion) - self.supervised, level)

    def true_labels(self, criterion: str) -> Interval:
        """Percentage of pseudo-labels that are true."""
        added = self.setting.sizes[2]
        return Interval.of(100 * np.array([each["true_labels"][criterion] for each in self.records.values()]) / added)

    @property
    def differ(self) -> Interval:
        """Percentage of rounds in which the criteria choose differently at the same D."""
        return Interval.of(np.array([100 * np.mean(each["differ"]) for each in self.records.values()]))

    @property
    def lost(self) -> int:
        """How many refits had no mode."""
        return sum(each["lost"] for each in self.records.values())

    @cached_property
    def _measured(self) -> list[list[Record]]:
        return [each["regret"] for each in self.records.values()]

    @cached_property
    def _trusted(self) -> list[list[Record]]:
        good = ([each for each in run if (each["pareto_k"] or 0.0) <= GOOD_K] for run in self._measured)
        return [run for run in good if run]

    @property
    def measured(self) -> int:
        """In how many rounds regret was measured."""
        return sum(map(len, self._measured))

    @property
    def excluded(self) -> int:
        """How many of them have importance weights that cannot be trusted."""
        return self.measured - sum(map(len, self._trusted))

    def regret(self, of: str, level: float = LEVEL) -> Regret | None:
        """Of one criterion's choices, or the "difference": the simplified one's minus the full one's, without maximum."""
        if not self._trusted:
            return None
        runs = [np.array([each[of] for each in run]) for run in self._trusted]
        errors = np.array([np.sqrt(np.square(run[:, 1]).sum()) / len(run) for run in runs])
        means = np.array([run[:, 0].mean() for run in runs])
        return Regret(Interval.of(means, level), float(np.sqrt((errors**2).sum()) / len(runs)))
