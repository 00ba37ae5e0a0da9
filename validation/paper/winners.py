"""The winners that the supplement prints for its twenty settings, beside what comes out here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from validation.paper.settings import CORE, EP, PROBABILITY, RANDOM, SUPERVISED, TABLE_1, TWENTY, WINNERS, Setting
from validation.paper.summary import FINAL, ORACLE, Summary, of
from validation.paper.verdicts import MARGIN
from validation.study.intervals import LEVEL, Interval

AGREES, CONTRADICTS, CANNOT_TELL = "agrees", "contradicts", "cannot tell"
#: The settings as the paper's text describes them, and those with 60 features as its code made them.
DESIGNS = {"text": TWENTY, "code": TABLE_1}
#: Random selection is in no table of the paper.
CANDIDATES = (*(method for method in CORE if method != RANDOM), SUPERVISED)


class Match(NamedTuple):
    """A setting and a measure, the winners that the paper prints, the word for them, the best method here by its mean, and
    how far the first winner is ahead of the rival that is nearest to it or furthest ahead; and the word among the methods that
    select rows, none where the paper prints the supervised model.
    """

    summary: Summary
    measure: str
    printed: tuple[str, ...]
    word: str
    best: str
    rival: str
    ahead: Interval
    among_selectors: str | None


def judge(printed: Sequence[str], gaps: Mapping[tuple[str, str], tuple[Interval, Interval]]) -> str:
    """What intervals say of printed winners: of each winner minus each other method, at the level of the table and at that
    level corrected for the number of rivals too; and of two winners' difference.

    It agrees where every winner is above every other method, each at the table's level, since all have to hold at once; two
    printed winners must not differ by the margin. It contradicts where some other method is above a winner, or one winner above
    another by more than the margin, at the corrected level. Otherwise it cannot tell.
    """
    against = {pair: gap for pair, gap in gaps.items() if not set(pair) <= set(printed)}
    between = [wide for pair, (_, wide) in gaps.items() if set(pair) <= set(printed)]
    if any(wide.high < 0 for _, wide in against.values()) or any(_beyond(wide) for wide in between):
        return CONTRADICTS
    alike = all(abs(float(wide.mean)) + float(wide.half) < MARGIN for wide in between)
    return AGREES if alike and all(each.low > 0 for each, _ in against.values()) else CANNOT_TELL


def _beyond(wide: Interval) -> bool:
    return bool(wide.low > MARGIN or wide.high < -MARGIN)


def match(summary: Summary, measure: str, printed: tuple[str, ...], settings: int) -> Match:
    """A setting's word, in a table of so many settings, for whose number intervals are corrected (Bonferroni)."""
    # by the oracle no method is below the supervised model on the same rows
    selectors = [method for method in CANDIDATES if method != SUPERVISED]
    methods = selectors if measure == ORACLE else list(CANDIDATES)
    rivals = [method for method in methods if method not in printed]
    rival = max(rivals, key=lambda method: summary.mean(method, measure))
    return Match(
        summary,
        measure,
        printed,
        _word(summary, measure, printed, methods, settings),
        max(methods, key=lambda method: summary.mean(method, measure)),
        rival,
        summary.difference(printed[0], rival, measure),
        None if SUPERVISED in printed else _word(summary, measure, printed, selectors, settings),
    )


def _word(summary: Summary, measure: str, printed: tuple[str, ...], methods: Sequence[str], settings: int) -> str:
    level = 1 - (1 - LEVEL) / settings
    rivals = [method for method in methods if method not in printed]
    pairs = [*((winner, rival) for winner in printed for rival in rivals), *combinations(printed, 2)]
    corrected = 1 - (1 - level) / len(pairs)
    return judge(
        printed,
        {(a, b): (summary.difference(a, b, measure, level), summary.difference(a, b, measure, corrected)) for a, b in pairs},
    )


def matches(summaries: Mapping[str, Summary]) -> dict[str, list[tuple[Match, Match]]]:
    """By design, each setting that there is: by the oracle and at the end."""
    return {name: [_both(each) for each in of(summaries, settings)] for name, settings in DESIGNS.items()}


def _both(each: Summary) -> tuple[Match, Match]:
    by_oracle, at_the_end = printed_for(each.setting)
    return match(each, ORACLE, by_oracle, len(WINNERS)), match(each, FINAL, at_the_end, len(WINNERS))


def printed_for(setting: Setting) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The winners that the paper prints for a setting: by the oracle and at the end."""
    assert setting.features is not None
    return WINNERS[setting.n, setting.features]


def counted(words: Sequence[str | None]) -> dict[str, int]:
    """How many settings have which word."""
    return {word: words.count(word) for word in (AGREES, CONTRADICTS, CANNOT_TELL)}


class Leads(NamedTuple):
    """In how many settings one of two methods is shown to be ahead by the margin, in how many neither can be."""

    shown: int
    excluded: int
    settings: int

    @property
    def open(self) -> int:
        """In how many it stays open."""
        return self.settings - self.shown - self.excluded


def leads(found: Sequence[Match]) -> Leads:
    """Of PPP and the probability score over each other, by intervals that are corrected for the table's settings."""
    level = 1 - (1 - LEVEL) / len(WINNERS)
    gaps = [each.summary.difference(EP, PROBABILITY, each.measure, level) for each in found]
    excluded = sum(abs(float(gap.mean)) + float(gap.half) < MARGIN for gap in gaps)
    return Leads(sum(map(_beyond, gaps)), excluded, len(gaps))
