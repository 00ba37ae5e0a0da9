"""The paper's hypotheses as paired comparisons with verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from validation.paper.settings import (
    EP,
    GAM,
    GLM_PROBABILITY,
    GLM_RANDOM,
    GLM_VARIANCE,
    INFORMATIVE,
    LIKELIHOOD,
    ORIGINAL,
    PROBABILITY,
    RANDOM,
    TABLE_1,
    VARIANCE,
)
from validation.paper.summary import ALONG, FINAL, ORACLE, SUPERVISED, Summary, of, pooled
from validation.study.intervals import LEVEL, Interval

MARGIN = 1.0
POOR, GOOD = 75.0, 85.0
RIVALS = (LIKELIHOOD, VARIANCE, PROBABILITY)
SUPPORTED, NOT, UNDECIDED = "supported", "not supported", "undecided"


class Comparison(NamedTuple):
    """A difference of two methods, in percentage points, averaged over settings; `width` is widened for the hypothesis."""

    first: str
    second: str
    measure: str
    settings: int
    interval: Interval
    width: Interval


@dataclass(frozen=True)
class Hypothesis:
    """What the paper expects, the comparisons that it was turned into, and others beside them, with random selection first."""

    name: str
    expected: str
    where: str
    comparisons: Sequence[Comparison]
    verdict: str
    beside: Sequence[Comparison]


def hard(each: Summary) -> bool:
    """Fewer labels than parameters, and a poor supervised model."""
    return each.labels_a_parameter < 1 and each.mean(SUPERVISED) < POOR


def easy(each: Summary) -> bool:
    """As many labels as parameters or more, and a good supervised model."""
    return each.labels_a_parameter >= 1 and each.mean(SUPERVISED) >= GOOD


def compare(summaries: Sequence[Summary], pairs: Sequence[tuple[str, str]], measure: str) -> list[Comparison]:
    """Each pair of methods over the settings that have both; intervals are widened for the number of pairs (Bonferroni)."""
    level = 1 - (1 - LEVEL) / max(len(pairs), 1)
    found = []
    for first, second in pairs:
        held = [each for each in summaries if each.has(first, second)]
        if held:
            interval, width = (pooled(held, first, second, measure, at) for at in (LEVEL, level))
            found.append(Comparison(first, second, measure, len(held), interval, width))
    return found


def all_above(found: Sequence[Comparison]) -> str:
    """Whether the first method of every pair is better: not if one is better by less than the margin, whatever the rest."""
    if found and all(each.width.low > 0 for each in found):
        return SUPPORTED
    return NOT if any(each.width.high < MARGIN for each in found) else UNDECIDED


def some_above(found: Sequence[Comparison]) -> str:
    """Whether the first method of some pair is better: not if all are better by less than the margin."""
    if any(each.width.low > 0 for each in found):
        return SUPPORTED
    return NOT if found and all(each.width.high < MARGIN for each in found) else UNDECIDED


def all_small(found: Sequence[Comparison]) -> str:
    """Whether no first method of a pair is better by the margin or more."""
    if found and all(each.width.high < MARGIN for each in found):
        return SUPPORTED
    return NOT if any(each.width.low > MARGIN for each in found) else UNDECIDED


def hypotheses(summaries: Mapping[str, Summary], main: Sequence[Summary]) -> list[Hypothesis]:
    """All of them; `main` are the settings of Table 1, of the grid and of the data sets."""
    hard_ones, easy_ones = [each for each in main if hard(each)], [each for each in main if easy(each)]
    truth = [each for each in of(summaries, (*INFORMATIVE, *GAM)) if each.setting.prior.centre == "truth"]
    over_rivals = [(EP, rival) for rival in RIVALS]
    return [
        _judged(
            "H1a",
            "With many features for the labels and a poor initial model, PPP with an uninformative prior beats traditional "
            "selection.",
            f"fewer labels than parameters, supervised accuracy below {POOR:g}%",
            all_above,
            hard_ones,
            over_rivals,
        ),
        _judged(
            "H1b",
            "With few features for the labels and a good initial model, PPP is beaten by traditional selection.",
            f"at least as many labels as parameters, supervised accuracy of {GOOD:g}% or more",
            some_above,
            easy_ones,
            [(rival, EP) for rival in RIVALS],
        ),
        _judged(
            "H2a",
            "Selection by the likelihood (max-max), which confirms the initial model most, hardly improves on it.",
            "all settings of the main tables with the likelihood",
            all_small,
            main,
            [(LIKELIHOOD, SUPERVISED)],
            others=[(method, SUPERVISED) for method in (EP, VARIANCE, PROBABILITY, RANDOM)],
        ),
        _judged(
            "H2b",
            "PPP improves more along the run than likelihood, predictive variance and probability score.",
            "all settings of the main tables",
            all_above,
            main,
            over_rivals,
            measure=ALONG,
        ),
        _judged(
            "H3",
            "With an informative prior PPP beats traditional selection whatever the data.",
            "GLM and GAM with priors around the data-generating coefficients, which all methods have",
            all_above,
            truth,
            [(EP, VARIANCE), (EP, PROBABILITY)],
        ),
        _judged(
            "Table 1",
            "With 60 features and n = 60, PPP has the best accuracy of all methods.",
            "the authors' design; by the oracle's stop, as in the paper",
            all_above,
            of(summaries, TABLE_1[:1]),
            [*over_rivals, (EP, SUPERVISED)],
            measure=ORACLE,
            others=[(ORIGINAL, rival) for rival in (GLM_RANDOM, GLM_VARIANCE, GLM_PROBABILITY)],
        ),
    ]


def _judged(
    name: str,
    expected: str,
    where: str,
    judge: Callable[[Sequence[Comparison]], str],
    summaries: Sequence[Summary],
    pairs: Sequence[tuple[str, str]],
    *,
    measure: str = FINAL,
    others: Sequence[tuple[str, str]] = (),
) -> Hypothesis:
    methods = dict.fromkeys(method for pair in pairs for method in pair if method != SUPERVISED)
    beside = compare(summaries, [*((method, RANDOM) for method in methods), *others], measure)
    found = compare(summaries, pairs, measure)
    return Hypothesis(name, expected, where, found, judge(found), beside)
