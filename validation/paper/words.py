"""How the report names methods, priors and numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from validation.paper.settings import (
    EP,
    GLM_PROBABILITY,
    GLM_RANDOM,
    GLM_VARIANCE,
    IBPLS,
    LIKELIHOOD,
    MARGINAL,
    ORIGINAL,
    PPP,
    PROBABILITY,
    RANDOM,
    REFERENCE,
    UBPLS,
    VARIANCE,
    Prior,
)
from validation.paper.summary import FINAL, GLM_SUPERVISED, SUPERVISED, Summary
from validation.paper.verdicts import MARGIN, Comparison, Verdict
from validation.study.intervals import Interval
from validation.study.markdown import table

NAMES = {
    EP: "PPP",
    PPP: "PPP (Laplace)",
    IBPLS: "iBPLS",
    MARGINAL: "marginal likelihood",
    LIKELIHOOD: "likelihood",
    VARIANCE: "variance",
    PROBABILITY: "probability",
    RANDOM: "random",
    UBPLS: "uBPLS",
    REFERENCE: "`reference`",
    ORIGINAL: "original PPP",
    GLM_RANDOM: "random by `glm`",
    GLM_VARIANCE: "variance by `glm`",
    GLM_PROBABILITY: "probability by `glm`",
    SUPERVISED: "supervised",
    GLM_SUPERVISED: "supervised by `glm`",
}
#: In a sentence.
LONG = {SUPERVISED: "the supervised model", RANDOM: "random selection", PROBABILITY: "the probability score"}
CENTRES = {
    "zero": "around 0",
    "truth": "around the truth",
    "flipped": "around the truth with wrong signs",
    "shifted": "around the truth shifted by 1",
}

Column = tuple[str, Callable[[Summary], str]]
NONE = "–"


def prior(given: Prior) -> str:
    """A prior in words."""
    return f"{CENTRES[given.centre]}, sd {given.sd:g}"


def accuracy(method: str, measure: str = FINAL) -> Column:
    """A column of mean accuracies."""
    return NAMES[method], lambda each: f"{each.mean(method, measure):.1f}" if each.has(method) else NONE


def difference(first: str, second: str, measure: str = FINAL) -> Column:
    """A column of paired differences."""
    name = f"{NAMES[first]} − {NAMES[second]}"
    return name, lambda each: marked(each.difference(first, second, measure)) if each.has(first, second) else NONE


def listed(parts: Sequence[str]) -> str:
    """Parts of a sentence."""
    return f"{', '.join(parts[:-1])}, and {parts[-1]}"


def marked(interval: Interval, form: str = "{:+.1f}") -> str:
    """An interval in bold where it excludes 0."""
    text = interval.text(form)
    return f"**{text}**" if interval.sign else text


def compared(found: Comparison) -> str:
    """A comparison in words."""
    what = "" if found.measure == FINAL else f", {found.measure}"
    return f"{NAMES[found.first]} − {NAMES[found.second]}{what}: {marked(found.interval)}, over {counted(found.settings)}"


def judged(verdict: Verdict) -> str:
    """A verdict, and what speaks against the claim."""
    against = [_against(each) for each in verdict.against]
    return f"{verdict.word.capitalize()}: {'; '.join(against)}." if against else f"{verdict.word.capitalize()}."


def _against(found: Comparison) -> str:
    first, second = NAMES[found.first], NAMES[found.second]
    if found.wide.high < 0:
        return f"{first} is below {second}"
    if found.wide.low > MARGIN:
        return f"{first} is more than {MARGIN:g} point above {second}"
    return f"{first} is less than {MARGIN:g} point above {second}, if at all"


def brief(verdict: Verdict | None) -> str:
    """A verdict, and the methods that PPP was compared with where it speaks against the claim."""
    if verdict is None:
        return NONE
    rivals = [NAMES[each.second if each.first in (EP, PPP) else each.first] for each in verdict.against]
    return f"{verdict.word} ({', '.join(rivals)})" if rivals else verdict.word


def stands(interval: Interval, than: str) -> str:
    """Where something stands to something else."""
    if interval.sign == 0:
        return f"not to be told from {than} ({interval.text('{:+.1f}')})"
    low, high = sorted((abs(float(interval.low)), abs(float(interval.high))))
    side = "above" if interval.sign > 0 else "below"
    return f"**{abs(float(interval.mean)):.1f} [{low:.1f}, {high:.1f}] points {side}** {than}"


def counted(settings: int) -> str:
    """How many settings."""
    return f"{settings} setting{'' if settings == 1 else 's'}"


def by_setting(columns: Sequence[Column], summaries: Sequence[Summary], first: Column | None = None) -> str:
    """A table with a row for each setting, which says how many repetitions it rests on."""
    every: list[Column] = [
        first or ("setting", lambda each: each.setting.title),
        ("R", lambda each: str(each.repetitions)),
        *columns,
    ]
    return table([name for name, _ in every], [[cell(each) for _, cell in every] for each in summaries])


def named(summaries: Sequence[Summary]) -> str:
    """Settings in brackets, if there are any."""
    return f" ({'; '.join(dict.fromkeys(each.setting.title for each in summaries))})" if summaries else ""
