"""How the report names methods, priors and numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from validation.paper.hypotheses import Comparison
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


def marked(interval: Interval) -> str:
    """An interval in bold where it excludes 0."""
    text = interval.text("{:+.1f}")
    return f"**{text}**" if interval.sign else text


def compared(found: Comparison) -> str:
    """A comparison in words."""
    what = "" if found.measure == FINAL else f", {found.measure}"
    return f"{NAMES[found.first]} − {NAMES[found.second]}{what}: {marked(found.interval)}, over {counted(found.settings)}"


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
    return f" ({'; '.join(each.setting.title for each in summaries)})" if summaries else ""
