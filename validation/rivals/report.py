"""The comparison of rivals as Markdown, every number from the stored repetitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from validation.rivals.in_r import GLM, MCLUST
from validation.rivals.measures import ACCURACY, BINS, COVERAGE, ECE, LEAST, LEVEL, LOG_SCORE, SECONDS, SIZE
from validation.rivals.methods import (
    AT_ONCE,
    CHOICE,
    CONDITIONAL,
    FOLDS,
    LITTLE,
    NO_GAIN,
    PPP,
    PRIOR_SD,
    SELF_TRAINING,
    SPREADING,
    SUPERVISED,
    WHOLE,
)
from validation.rivals.settings import FRESH, MADE_BY_CLASSES, MOST_FEATURES, REAL, REPETITIONS, SETTINGS, SIMULATED, Setting
from validation.rivals.summary import Summary, pooled
from validation.study.intervals import LEVEL as OF_INTERVALS
from validation.study.intervals import Interval
from validation.study.markdown import bullets, table

NAMES = {
    SUPERVISED: "supervised",
    GLM: "R's `glm`",
    PPP: "PPP to the end",
    NO_GAIN: "PPP with `NoGain`",
    CHOICE: "`choose`",
    SELF_TRAINING: "`SelfTrainingClassifier`",
    SPREADING: "`LabelSpreading`",
    CONDITIONAL: "class-conditional",
    LITTLE: "labels integrated out, λ = 0.1",
    WHOLE: "labels integrated out, λ = 1",
    MCLUST: "mclust",
}
#: What uses unlabeled rows, and the model on the labels alone that it is compared with.
BASELINES = {
    PPP: SUPERVISED,
    NO_GAIN: SUPERVISED,
    CHOICE: SUPERVISED,
    SELF_TRAINING: SUPERVISED,
    SPREADING: SUPERVISED,
    LITTLE: CONDITIONAL,
    WHOLE: CONDITIONAL,
    MCLUST: SUPERVISED,
}
#: Settings with fewer repetitions are in the tables by setting alone.
FEWEST = 5
POINTS, NATS = (100.0, "{:+.1f}"), (1.0, "{:+.3f}")
SCALES = {ACCURACY: POINTS, LOG_SCORE: NATS, ECE: POINTS}
NONE = "–"

ABOUT = f"""\
Made by `python -m validation.rivals`, which computes what is missing in `validation/results/rivals/`. What self-training by
PPP is worth beside other ways to use unlabeled rows.

- Tables: five populations in which the class comes first and makes {MADE_BY_CLASSES[0].features} features (normal,
  separated by 3 or by 1.5 standard deviations; one class 2.5 times as wide; multivariate t with 2 degrees of freedom;
  features that are correlated by 0.8 within a class), with 10 labels and 90 candidates; the paper's two simulations of
  labels given features; and its data sets by its protocol (half of the rows for testing, 80% of the others unlabeled). In
  brackets of a title: labels + candidates. Simulated tables are drawn anew in every repetition and judged on {FRESH}
  further rows. Features are standardised over the rows that a method sees.
- "Supervised", and PPP (by the package's default approximation): a logistic regression, coefficients Normal(0,
  {PRIOR_SD:g}²). `choose` takes of the supervised model, PPP ({AT_ONCE} rows at once) and labels integrated out at λ = 1
  what labeled rows prove better (bound, {FOLDS} folds). `NoGain` sets aside a fifth of the labels to find the number of
  rounds; the run with so many then has all labels. Where a fifth of the labels is less than a row, it refuses.
- "Class-conditional": features are independent normals within a class, with means and scales of their own; on the labels
  alone, and with the pool's labels integrated out by Laplace's method (`BPLS.marginalize`) at two weights λ. It is run on
  tables of up to {MOST_FEATURES} features.
- scikit-learn's `SelfTrainingClassifier` with the same penalty and its default threshold, and `LabelSpreading` with 7
  neighbours. R's `glm` on the labels alone, and mclust's `MclustSSC`, which chooses among its models of covariances by BIC,
  on tables of up to {MOST_FEATURES} features too.
- Predictions of Bayesian models are averaged over a Gaussian approximation of the posterior. "Calibration error" is the
  expected one over {BINS} bins of the probability of the predicted class; it is above 0 by chance alone on few test rows. A
  {LEVEL:.0%} class set is the smallest set of classes with so much probability, and "coverage" how often it holds the true
  one. In log scores, a probability below {LEAST:g} counts as {LEAST:g}. Seconds are of the processor, on a machine that was
  busy with other work.
- Intervals are {OF_INTERVALS:.0%} t intervals, paired by repetition; bold ones exclude 0. Those that the sentences rest on
  are widened for the number of comparisons (Bonferroni). Repetitions on a real table share its rows: they speak of splits
  of this table. Settings with fewer than {FEWEST} repetitions yet are in the tables by setting alone."""


class Found(NamedTuple):
    """A method against its baseline on a setting."""

    method: str
    summary: Summary
    gap: Interval


def write(summaries: Sequence[Summary], path: Path) -> None:
    """Write the report."""
    counted = [each for each in summaries if each.repetitions >= FEWEST] or summaries
    kinds = {"classes make the features": MADE_BY_CLASSES, "features make the labels": SIMULATED, "data are real": REAL}
    groups = {name: held for name, settings in kinds.items() if (held := _of(counted, settings))}
    parts = [
        "# Rivals: other ways to use unlabeled rows",
        ABOUT,
        _progress(summaries),
        "## In short",
        bullets([*headline(counted), *_by_group(groups)]),
        "## Against a model on the labels alone",
        "Means over the settings of a kind: accuracy in points, log score in nats, calibration error in points (less is good).",
        _pooled(groups),
        "## Accuracy by setting",
        "Supervised in percent; the others minus supervised, in points.",
        _differences(summaries, ACCURACY),
        "## Log score by setting",
        "Supervised in nats; the others minus supervised.",
        _differences(summaries, LOG_SCORE),
        "## Calibration error by setting (%)",
        _means(summaries, lambda each, name: f"{100 * each.mean(name, ECE):.1f}"),
        f"## Coverage of {LEVEL:.0%} class sets (%), and how many classes are in them",
        _means(summaries, lambda each, name: f"{100 * each.mean(name, COVERAGE):.0f} ({each.mean(name, SIZE):.2f})"),
        "## Seconds",
        _seconds(summaries),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _of(summaries: Sequence[Summary], settings: Sequence[Setting]) -> list[Summary]:
    return [each for each in summaries if each.setting in settings]


def _progress(summaries: Sequence[Summary]) -> str:
    fewest, most = (pick(each.repetitions for each in summaries) for pick in (min, max))
    done = sum(min(each.repetitions, REPETITIONS) for each in summaries)
    rest = "" if done == REPETITIONS * len(SETTINGS) else f" of the {REPETITIONS * len(SETTINGS)} that the command aims at"
    waiting = [name for method, name in NAMES.items() if not any(each.has(method) for each in summaries)]
    missing = f" Not run yet: {', '.join(waiting)}." if waiting else ""
    return (
        f"R is the number of repetitions, from {fewest} to {most}; {done} in all, of {len(summaries)} settings{rest}.{missing}"
    )


def headline(summaries: Sequence[Summary]) -> list[str]:
    """Where unlabeled rows help or harm, by accuracy and by log score, after correction for all comparisons of a measure."""
    return [_say(measure, compared(summaries, measure)) for measure in (ACCURACY, LOG_SCORE)]


def compared(summaries: Sequence[Summary], measure: str) -> list[Found]:
    """Every method against its baseline on every setting that has both, at a level corrected for their number."""
    pairs = [(method, own, each) for method, own in BASELINES.items() for each in summaries if each.has(method, own)]
    level = 1 - (1 - OF_INTERVALS) / max(len(pairs), 1)
    return [Found(method, each, each.difference(method, own, measure, level)) for method, own, each in pairs]


def _say(measure: str, found: Sequence[Found]) -> str:
    scale, form = SCALES[measure]
    unit = "points" if scale == POINTS[0] else "nats"

    def listed(sign: int) -> str:
        held = sorted((each for each in found if each.gap.sign == sign), key=lambda each: -abs(float(each.gap.mean)))
        if not held:
            return "none"
        said = [
            f"{NAMES[each.method]} on {each.summary.setting.name} ({form.format(scale * float(each.gap.mean))})"
            for each in held
        ]
        return f"{len(held)}: {'; '.join(said)}"

    return (
        f"By {measure}, in {unit}, of {len(found)} comparisons of a method that uses unlabeled rows with a model on the "
        f"labels alone, gains beyond chance: {listed(1)}. Losses beyond chance: {listed(-1)}."
    )


def _by_group(groups: Mapping[str, Sequence[Summary]]) -> list[str]:
    """The method with the highest mean accuracy of those that all settings of a kind have."""
    sentences = []
    for name, held in groups.items():
        common = [method for method in NAMES if held and all(each.has(method) for each in held)]
        if len(common) < 2:
            continue
        best, second = sorted(common, key=lambda method: -np.mean([each.mean(method, ACCURACY) for each in held]))[:2]
        over = SUPERVISED if best != SUPERVISED else second
        gap = pooled(held, best, over, ACCURACY)
        scaled = Interval(100 * gap.mean, 100 * gap.half, 100 * gap.error)
        sentences.append(
            f"Where {name}, the highest mean accuracy of the methods that all of these {len(held)} tables have is that of "
            f"{NAMES[best]}: {scaled.text('{:+.1f}')} points against {NAMES[over]}; being chosen for its mean flatters it."
        )
    return sentences


def _pooled(groups: Mapping[str, Sequence[Summary]]) -> str:
    header = ["method", "against", *(f"{measure}: {name}" for name in groups for measure in SCALES)]
    rows = []
    for method, own in BASELINES.items():
        cells = []
        for held in groups.values():
            both = [each for each in held if each.has(method, own)]
            cells += [_cell(pooled(both, method, own, measure), measure) if both else NONE for measure in SCALES]
        if set(cells) != {NONE}:
            rows.append([NAMES[method], NAMES[own], *cells])
    return table(header, rows)


def _cell(gap: Interval, measure: str) -> str:
    scale, form = SCALES[measure]
    text = Interval(scale * gap.mean, scale * gap.half, scale * gap.error).text(form)
    return f"**{text}**" if gap.sign else text


def _differences(summaries: Sequence[Summary], measure: str) -> str:
    scale, form = SCALES[measure]
    methods = [method for method in NAMES if method != SUPERVISED and any(each.has(method) for each in summaries)]
    plain = form.replace("+", "")
    rows = [
        [
            each.setting.title,
            str(each.repetitions),
            plain.format(scale * each.mean(SUPERVISED, measure)),
            *(_cell(each.difference(name, SUPERVISED, measure), measure) if each.has(name) else NONE for name in methods),
        ]
        for each in summaries
    ]
    return table(["setting", "R", NAMES[SUPERVISED], *(NAMES[name] for name in methods)], rows)


def _means(summaries: Sequence[Summary], cell: Callable[[Summary, str], str]) -> str:
    methods = [method for method in NAMES if any(each.has(method) for each in summaries)]
    rows = [
        [each.setting.title, str(each.repetitions), *(cell(each, name) if each.has(name) else NONE for name in methods)]
        for each in summaries
    ]
    return table(["setting", "R", *(NAMES[name] for name in methods)], rows)


def _seconds(summaries: Sequence[Summary]) -> str:
    rows = []
    for method, name in NAMES.items():
        medians = [np.median(list(each.values(method, SECONDS).values())) for each in summaries if each.has(method)]
        if medians:
            rows.append([name, str(len(medians)), *(f"{pick(medians):.2g}" for pick in (min, np.median, max))])
    return table(["method", "settings", "least median", "median of medians", "greatest median"], rows)
