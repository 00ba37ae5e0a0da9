"""What the stored repetitions of a setting say: measures of every rival, and differences paired by repetition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from validation.rivals.settings import Setting
from validation.study.intervals import LEVEL, Interval
from validation.study.store import Record

FEWEST = 2


@dataclass(frozen=True)
class Summary:
    """The finished repetitions of a setting, by number: of each the rivals that were run, with their measures."""

    setting: Setting
    records: Mapping[int, Record]

    @property
    def repetitions(self) -> int:
        """How many there are."""
        return len(self.records)

    def values(self, method: str, measure: str) -> dict[int, float]:
        """By the number of the repetition, where the method was run and this measured."""
        return {number: each[method][measure] for number, each in self.records.items() if measure in each.get(method, {})}

    def count(self, *methods: str) -> int:
        """How many repetitions have all of these."""
        return sum(set(methods) <= set(each) for each in self.records.values())

    def has(self, *methods: str) -> bool:
        """Whether enough repetitions for an interval have all of these."""
        return self.count(*methods) >= FEWEST

    def mean(self, method: str, measure: str) -> float:
        """Over repetitions."""
        return float(np.mean(list(self.values(method, measure).values())))

    def gaps(self, first: str, second: str, measure: str) -> dict[int, float]:
        """The first method minus the second, in the repetitions that have both."""
        one, other = (self.values(method, measure) for method in (first, second))
        return {number: one[number] - other[number] for number in one if number in other}

    def difference(self, first: str, second: str, measure: str, level: float = LEVEL) -> Interval:
        """Their mean with its interval."""
        return Interval.of(np.array(list(self.gaps(first, second, measure).values())), level)


def merged(setting: Setting, parts: Sequence[Mapping[int, Record]]) -> Summary:
    """The rivals of all parts, in the repetitions that the first part has."""
    first, *others = parts
    records = {}
    for number, record in first.items():
        records[number] = dict(record)
        for part in others:
            records[number] |= part.get(number, {})
    return Summary(setting, records)


def pooled(summaries: Sequence[Summary], first: str, second: str, measure: str) -> Interval:
    """Of the mean over settings, which count alike, in each repetition that all of them have.

    Settings of equal size share classes, noise and labeled rows in a repetition, so that their differences depend on each
    other; repetitions do not.
    """
    held = [each.gaps(first, second, measure) for each in summaries]
    shared = sorted(set.intersection(*(set(each) for each in held)))
    return Interval.of(np.array([np.mean([each[number] for each in held]) for number in shared]))
