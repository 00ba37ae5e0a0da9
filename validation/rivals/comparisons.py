"""What is compared with what: every method that uses unlabeled rows with its own model on the labels alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from validation.rivals.in_r import GLM, MCLUST, MCLUST_ALONE
from validation.rivals.measures import ACCURACY, ECE, LOG_SCORE
from validation.rivals.methods import (
    CHOICE,
    CONDITIONAL,
    LITTLE,
    NEIGHBOURS,
    NO_GAIN,
    PPP,
    REGRESSION,
    SELF_TRAINING,
    SPREADING,
    SUPERVISED,
    WHOLE,
    could_choose,
)
from validation.rivals.summary import Summary
from validation.study.intervals import LEVEL, Interval

NAMES = {
    SUPERVISED: "supervised",
    PPP: "PPP to the end",
    NO_GAIN: "PPP with `NoGain`",
    CHOICE: "`choose`",
    REGRESSION: "`LogisticRegression` alone",
    SELF_TRAINING: "`SelfTrainingClassifier`",
    NEIGHBOURS: "`LabelSpreading` alone",
    SPREADING: "`LabelSpreading`",
    CONDITIONAL: "class-conditional",
    LITTLE: "labels integrated out, λ = 0.1",
    WHOLE: "labels integrated out, λ = 1",
    MCLUST_ALONE: "mclust alone",
    MCLUST: "mclust",
    GLM: "R's `glm`",
}
#: What uses unlabeled rows, and the same model on the labels alone.
OWN = {
    PPP: SUPERVISED,
    NO_GAIN: SUPERVISED,
    CHOICE: SUPERVISED,
    SELF_TRAINING: REGRESSION,
    SPREADING: NEIGHBOURS,
    LITTLE: CONDITIONAL,
    WHOLE: CONDITIONAL,
    MCLUST: MCLUST_ALONE,
}
#: Those whose own model is another one.
OF_OTHERS = {method: SUPERVISED for method, own in OWN.items() if own != SUPERVISED}
#: Repetitions that a comparison needs.
ENOUGH = 5


class Scale(NamedTuple):
    """How a measure's differences are written."""

    factor: float
    form: str
    unit: str

    def text(self, gap: Interval) -> str:
        """With the interval."""
        return Interval(self.factor * gap.mean, self.factor * gap.half, self.factor * gap.error).text(self.form)


POINTS, NATS = Scale(100.0, "{:+.1f}", "points"), Scale(1.0, "{:+.3f}", "nats")
SCALES = {ACCURACY: POINTS, LOG_SCORE: NATS, ECE: POINTS}


class Found(NamedTuple):
    """A method minus a model on the labels alone, on a setting."""

    method: str
    against: str
    summary: Summary
    gap: Interval


def compared(summaries: Sequence[Summary], baselines: Mapping[str, str], measure: str) -> list[Found]:
    """Every method minus its baseline on every setting where both are enough, at a level corrected for their number."""
    pairs = [
        (method, own, each)
        for method, own in baselines.items()
        for each in summaries
        if (method != CHOICE or could_choose(each.setting)) and each.count(method, own) >= ENOUGH
    ]
    level = corrected(len(pairs))
    return [Found(method, own, each, each.difference(method, own, measure, level)) for method, own, each in pairs]


def corrected(comparisons: int) -> float:
    """The level of each interval at which all of so many hold together (Bonferroni)."""
    return 1 - (1 - LEVEL) / max(comparisons, 1)


def of_sign(found: Sequence[Found], sign: int) -> list[Found]:
    """Those whose interval is above 0, or below, the largest first."""
    return sorted((each for each in found if each.gap.sign == sign), key=lambda each: -abs(float(each.gap.mean)))


def of_method(found: Sequence[Found], method: str) -> list[Found]:
    """Those of a method."""
    return [each for each in found if each.method == method]
