"""Paired comparisons over settings, and what they say of a claim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from validation.paper.summary import ALONG, FINAL, ORACLE, Summary, pooled
from validation.study.intervals import LEVEL, Interval

MARGIN = 1.0
SUPPORTED, NOT, UNDECIDED = "supported", "not supported", "undecided"


class Comparison(NamedTuple):
    """A difference of two methods, in percentage points, averaged over settings; `wide` is corrected for the claim's number of
    comparisons (Bonferroni). In `above` and `below` of the settings the interval of the setting alone excludes 0. The first
    method can be `room` points above the second one at most.
    """

    first: str
    second: str
    measure: str
    settings: int
    interval: Interval
    wide: Interval
    above: int = 0
    below: int = 0
    room: float = np.inf


class Verdict(NamedTuple):
    """A word, the comparisons that speak against the claim, and those that leave no room for the margin, whatever came out."""

    word: str
    against: tuple[Comparison, ...] = ()
    crowded: tuple[Comparison, ...] = ()


Judge = Callable[[Sequence[Comparison]], Verdict]


def compare(summaries: Sequence[Summary], pairs: Sequence[tuple[str, str]], measure: str) -> list[Comparison]:
    """Each pair of methods over the settings that have both."""
    level = 1 - (1 - LEVEL) / max(len(pairs), 1)
    found = []
    for first, second in pairs:
        held = [each for each in summaries if each.compares(first, second, measure)]
        if held:
            interval, wide = (pooled(held, first, second, measure, at) for at in (LEVEL, level))
            signs = [each.difference(first, second, measure).sign for each in held]
            found.append(
                Comparison(
                    first,
                    second,
                    measure,
                    len(held),
                    interval,
                    wide,
                    signs.count(1),
                    signs.count(-1),
                    _room(held, second, measure),
                )
            )
    return found


def _room(summaries: Sequence[Summary], second: str, measure: str) -> float:
    """Up to an accuracy of 100%."""
    if measure not in (FINAL, ALONG, ORACLE):
        return np.inf
    return 100 - float(np.mean([each.mean(second, measure) for each in summaries]))


def all_above(found: Sequence[Comparison]) -> Verdict:
    """Whether the first method of every pair is better: not if one is better by less than the margin where it has the room to
    be, whatever the rest.

    All have to hold at once, so that each is tested at the full level (an intersection-union test); that one of them fails may
    happen by chance, so that this is corrected for their number.
    """
    crowded = tuple(each for each in found if each.room < MARGIN)
    against = tuple(each for each in found if each.wide.high < MARGIN and each not in crowded)
    if against:
        return Verdict(NOT, against, crowded)
    return Verdict(SUPPORTED if found and all(each.interval.low > 0 for each in found) else UNDECIDED, (), crowded)


def nearest(found: Sequence[Comparison]) -> Verdict:
    """Whether the first method of every pair is ahead, by however little: not if one is behind."""
    against = tuple(each for each in found if each.wide.high < 0)
    if against:
        return Verdict(NOT, against)
    return Verdict(SUPPORTED if found and all(each.interval.low > 0 for each in found) else UNDECIDED)


def some_above(found: Sequence[Comparison]) -> Verdict:
    """Whether the first method of some pair is better: not if all are better by less than the margin."""
    if any(each.wide.low > 0 for each in found):
        return Verdict(SUPPORTED)
    crowded = tuple(each for each in found if each.room < MARGIN)
    none = found and not crowded and all(each.interval.high < MARGIN for each in found)
    return Verdict(NOT, tuple(found)) if none else Verdict(UNDECIDED, (), crowded)


def all_small(found: Sequence[Comparison]) -> Verdict:
    """Whether no first method of a pair is better by the margin or more."""
    against = tuple(each for each in found if each.wide.low > MARGIN)
    if against:
        return Verdict(NOT, against)
    return Verdict(SUPPORTED if found and all(each.interval.high < MARGIN for each in found) else UNDECIDED)
