"""What the numbers say, in plain sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from validation.simplified.rounds import CRITERIA, FULL, SIMPLIFIED
from validation.simplified.summary import Summary
from validation.study.intervals import LEVEL, Interval, corrected

BETTER = {
    1: f"`{FULL}` is better than `{SIMPLIFIED}`",
    0: f"`{FULL}` and `{SIMPLIFIED}` cannot be told apart",
    -1: f"`{SIMPLIFIED}` is better than `{FULL}`",
}
GAINS = {1: "improves over", 0: "cannot be told from", -1: "is worse than"}


def of_setting(each: Summary) -> str:
    """Which criterion is better, and whether either is of use."""
    along = each.along_difference
    gains = " and ".join(
        f"`{name}` {GAINS[each.gain(name).sign]} the supervised model ({each.gain(name).text()})" for name in CRITERIA
    )
    return (
        f"{each.setting.title} ({each.repetitions} repetitions): by final accuracy {_in_the_end(each)}, "
        f"along the run {BETTER[along.sign]} ({along.text()}). In the end {gains}."
    )


def _in_the_end(each: Summary) -> str:
    """Which criterion ends better, if they ever end apart."""
    if each.alike == each.repetitions:
        return f"`{FULL}` and `{SIMPLIFIED}` are the same in all {each.repetitions}"
    ends = each.final_difference
    return f"{BETTER[ends.sign]} ({ends.text()} points)"


def overall(summaries: Sequence[Summary]) -> list[str]:
    """All settings together."""
    return [
        _difference("By final accuracy", [each.final_difference for each in summaries]),
        _difference("By accuracy averaged along the run", [each.along_difference for each in summaries]),
        *_regret(summaries),
        *(_gain(name, summaries) for name in CRITERIA),
    ]


def vanishing(summaries: Sequence[Summary]) -> list[str]:
    """Supplement F's finding, by tables with several numbers of rows: do the criteria differ less with more of them?"""
    by_table: dict[tuple[str, int | None], list[Summary]] = {}
    for each in summaries:
        by_table.setdefault((each.setting.source, each.setting.first), []).append(each)
    sizes = [sorted(held, key=lambda each: each.setting.n) for held in by_table.values() if len(held) > 1]
    return [_vanishing(held[0], held[-1]) for held in sizes]


def _vanishing(least: Summary, most: Summary) -> str:
    fewer, more = (each.along_distance for each in (least, most))
    change = Interval.of_groups([more, -fewer], [1, 1])
    gap = Interval(2 * change.mean, 2 * change.half, 2 * change.error)
    (few_tested, _, few_rounds), (many_tested, _, many_rounds) = (each.setting.sizes for each in (least, most))
    return (
        f"We cannot say from {least.setting.source} whether differences vanish as n grows: the absolute distance between the "
        f"two, averaged along the run, is {fewer.mean():.2f} points with n = {least.setting.n} and {more.mean():.2f} with n = "
        f"{most.setting.n}, a change of {gap.text()}. It is not the same quantity in both: runs have {few_rounds} and "
        f"{many_rounds} rounds, and are judged on {few_tested} and {many_tested} test rows."
    )


def _difference(how: str, held: Sequence[Interval]) -> str:
    largest = max(held, key=lambda each: abs(float(each.mean)))
    return (
        f"{how}, `{FULL}` is better in {_signs(held, 1)} of {len(held)} settings, `{SIMPLIFIED}` in {_signs(held, -1)}, and "
        f"in {_signs(held, 0)} they cannot be told apart, at {LEVEL:.0%} each, uncorrected. The "
        f"largest mean difference is {largest.text()} points{_reach(held)}."
    )


def _reach(held: Sequence[Interval]) -> str:
    """What "cannot be told apart" leaves open."""
    ends = [max(abs(float(each.low)), abs(float(each.high))) for each in held if np.isfinite(each.half)]
    return f", and no interval reaches beyond {max(ends):.2f} points" if ends else ""


def _regret(summaries: Sequence[Summary]) -> list[str]:
    held = _regrets(summaries, LEVEL)
    if not held:
        return []
    shares = [float(each.differ.mean) for each in summaries]
    after = _regrets(summaries, corrected(len(held)))
    return [
        f"At the same D they choose differently in {min(shares):.0f} to {max(shares):.0f}% of rounds, by setting. "
        f"`{SIMPLIFIED}`'s choices lose more exact log PPP than `{FULL}`'s in {_signs(held, 1)} of {len(held)} settings"
        f"{_by(held, 1)}, less in {_signs(held, -1)}{_by(held, -1)}, and in {_signs(held, 0)} they cannot be told apart, at "
        f"{LEVEL:.0%} each, uncorrected; {_after_correction(len(held))} they lose more in {_signs(after, 1)} and less in "
        f"{_signs(after, -1)}."
    ]


def _regrets(summaries: Sequence[Summary], level: float) -> list[Interval]:
    """What the simplified criterion's choices lose more, where it was measured."""
    found = (each.regret("difference", level) for each in summaries)
    return [each.interval for each in found if each is not None]


def _after_correction(n: int) -> str:
    return f"after Bonferroni's correction for {n} settings"


def _by(held: Sequence[Interval], sign: int) -> str:
    """By how much, in the settings whose difference has that sign."""
    means = [abs(float(each.mean)) for each in held if each.sign == sign]
    return f", by {min(means):.4f} to {max(means):.4f} nats a round" if means else ""


def _gain(name: str, summaries: Sequence[Summary]) -> str:
    n = len(summaries)
    (ends, along), (ends_after, along_after) = (
        ([each.gain(name, level) for each in summaries], [each.gain_along(name, level) for each in summaries])
        for level in (LEVEL, corrected(n))
    )
    return (
        f"`{name}` improves over the supervised model in {_signs(ends, 1)} of {n} settings in the end "
        f"({_signs(along, 1)} along the run) and is worse in {_signs(ends, -1)} ({_signs(along, -1)}), at {LEVEL:.0%} each, "
        f"uncorrected; {_after_correction(n)} it improves in {_signs(ends_after, 1)} ({_signs(along_after, 1)}) and is worse "
        f"in {_signs(ends_after, -1)} ({_signs(along_after, -1)})."
    )


def _signs(intervals: Sequence[Interval], sign: int) -> int:
    return sum(each.sign == sign for each in intervals)
