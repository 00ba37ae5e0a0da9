"""The comparison of rivals as Markdown, every number from the stored repetitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pymc_bpls.choosing.bound import FEWEST as LABELS_OF_A_BOUND
from validation.rivals.comparisons import (
    ENOUGH,
    NAMES,
    OF_OTHERS,
    OWN,
    SCALES,
    Found,
    compared,
    of_method,
    of_sign,
)
from validation.rivals.headline import bar, headline, sureness_minus_accuracy
from validation.rivals.measures import ACCURACY, BINS, COVERAGE, ECE, LEAST, LEVEL, LOG_SCORE, SIZE, SURENESS
from validation.rivals.methods import AT_ONCE, CHOICE, FOLDS, NEAREST, NOTHING, PRIOR_SD, SUPERVISED, could_choose
from validation.rivals.settings import FRESH, MADE_BY_CLASSES, MOST_FEATURES, REAL, REPETITIONS, SETTINGS, SIMULATED, Setting
from validation.rivals.summary import Summary, pooled
from validation.study.intervals import LEVEL as OF_INTERVALS
from validation.study.intervals import Interval
from validation.study.markdown import bullets, table

NONE, BY_RULE = "–", "by rule"
UNCORRECTED = (
    f"Intervals of {OF_INTERVALS:.0%} for each cell by itself; bold ones exclude 0, without correction for their number."
)

ABOUT = f"""\
Made by `python -m validation.rivals`, which computes what is missing in `validation/results/rivals/`. What unlabeled rows are
worth, by self-training with PPP, the criterion by which this package picks rows, and by other ways to use them: each method
minus its own model on the labels alone.

- Tables: five populations in which the class comes first and makes {MADE_BY_CLASSES[0].features} features (normal,
  separated by 3 or by 1.5 standard deviations; one class 2.5 times as wide; multivariate t with 2 degrees of freedom;
  features that are correlated by 0.8 within a class), with 10 labels and 90 candidates; the paper's two simulations of
  labels given features; and its data sets by its protocol (of so many rows as the setting has, drawn anew in every
  repetition, half are for testing and 80% of the others unlabeled). Splits are drawn again until both classes are labeled. In
  brackets of a title: labels + candidates. Simulated tables are drawn anew in every repetition, coefficients of "supplement"
  and scales of "code" too, and judged on {FRESH} further rows. Features are standardised over labeled rows and candidates,
  for models on the labels alone as well: these have the pool's means and scales.
- Supervised: a logistic regression on the labels alone, coefficients Normal(0, {PRIOR_SD:g}²). PPP to the end: the same model
  after self-training by PPP (by the package's default approximation) until the pool is empty.
- PPP with `NoGain`: a fifth of the labels is set aside to find the number of rounds; the run with so many rounds then has all
  labels. Where a fifth of the labels is less than a row, it refuses.
- `choose` leaves supervised only for what its bound on labeled rows calls better ({FOLDS} folds): PPP to the end, {AT_ONCE}
  rows at once, or, on tables that have the class-conditional model, its labels integrated out at λ = 1. With fewer than
  {LABELS_OF_A_BOUND} labels there is no bound, and it keeps supervised by rule: it is run and compared on the other tables
  only.
- Class-conditional: features are independent normals within a class, with means and scales of their own; on the labels
  alone (λ = {NOTHING:g}), and with the pool's labels integrated out (`BPLS.marginalize`) at two weights λ. It is run on tables
  of up to {MOST_FEATURES} features.
- scikit-learn's `SelfTrainingClassifier` of a `LogisticRegression` with the same penalty, but for the intercept, which has
  none, and the default threshold; alone: this `LogisticRegression`. `LabelSpreading` with {NEAREST} neighbours; alone: the same
  on the labeled rows, with {NEAREST} neighbours or as many as there are labels. Where no label reaches a test row it refuses.
- R's mclust (`MclustSSC`) chooses among its models of covariances by BIC; alone: `MclustSSC` without the candidates. It is run
  on tables of up to {MOST_FEATURES} features. R's `glm` has the labels alone and no penalty.
- Supervised and PPP predict averaged over the Gaussian of expectation propagation, and class-conditional models averaged over
  weighted draws, with the pool or without, since another approximation may shift a log score by more than the pool does.
- "Calibration error" is the expected one over {BINS} bins of the probability of the predicted class; it is above 0 by chance
  alone on few test rows. A {LEVEL:.0%} class set is the smallest set of classes with so much probability or more, and
  "coverage" how often it holds the true one: {LEVEL:.0%} or more if probabilities are right. In log scores, a probability
  below {LEAST:g} counts as {LEAST:g}.
- Intervals are t intervals over repetitions, of differences that are paired by repetition. A comparison is made where both
  methods have {ENOUGH} repetitions. Tables are fixed: intervals speak of further draws by these designs and of further splits
  of these data sets, and nothing is inferred for other tables. Tables of equal size share the classes, noise and
  positions of their labeled rows by repetition, so that they depend on each other; Bonferroni's correction and the
  interval of a mean over tables allow for that. A repetition in which a method refuses or fails is left out for it, so that it
  is judged where it works."""


def write(summaries: Sequence[Summary], path: Path) -> None:
    """Write the report."""
    kinds = {"classes make the features": MADE_BY_CLASSES, "features make the labels": SIMULATED, "data are real": REAL}
    groups = {name: held for name, settings in kinds.items() if (held := _of(summaries, settings))}
    parts = [
        "# Rivals: other ways to use unlabeled rows",
        ABOUT,
        _progress(summaries),
        "## In short",
        bar(summaries),
        bullets(headline(summaries)),
        "On how many tables a method gains (+) and loses (−) beyond chance:",
        _counts(summaries),
        "## Means over the tables of a kind, against the own model",
        "In each repetition that all of these tables have, the mean over them, which counts them alike; its interval is over "
        f"repetitions. {UNCORRECTED} In brackets: over how many tables, and on how many of them the difference is above 0 (up) "
        "and below (down) after the correction, since signs cancel in a mean. Of calibration error, less is good.",
        *(part for measure in SCALES for part in (f"### {_titled(measure)}", _means_of_kinds(groups, summaries, measure))),
        "## Beyond chance",
        "Every difference by accuracy or log score that is beyond chance, with its interval of the corrected level.",
        _beyond_chance(summaries),
        *(
            part
            for measure in (ACCURACY, LOG_SCORE)
            for part in (f"## {_titled(measure)}: method minus its own model", UNCORRECTED, _minus_own(summaries, measure))
        ),
        *(
            part
            for measure in (ACCURACY, LOG_SCORE)
            for part in (
                f"## {_titled(measure)}: method minus supervised",
                f"In the column of supervised, its own value. {UNCORRECTED}",
                _minus_supervised(summaries, measure),
            )
        ),
        "## Calibration error (%)",
        _means(summaries, lambda each, method: f"{100 * each.mean(method, ECE):.1f}"),
        "## How sure models are on the labels alone",
        "The mean probability of the predicted class minus accuracy, in points: below 0, a model is less sure than right. "
        f"{UNCORRECTED}",
        _sureness(summaries),
        f"## Coverage of {LEVEL:.0%} class sets (%), and how many classes are in them",
        _means(summaries, lambda each, method: f"{100 * each.mean(method, COVERAGE):.0f} ({each.mean(method, SIZE):.2f})"),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _of(summaries: Sequence[Summary], settings: Sequence[Setting]) -> list[Summary]:
    return [each for each in summaries if each.setting in settings]


def _titled(measure: str) -> str:
    unit = SCALES[measure].unit
    return f"{measure[0].upper()}{measure[1:]} ({unit})"


def _progress(summaries: Sequence[Summary]) -> str:
    fewest, most = (pick(each.repetitions for each in summaries) for pick in (min, max))
    done, whole = sum(each.repetitions for each in summaries), REPETITIONS * len(SETTINGS)
    rest = "" if done == whole else f", of {whole} that the command aims at"
    absent = [name for method, name in NAMES.items() if not any(each.has(method) for each in summaries)]
    missing = f" Not run yet: {', '.join(absent)}." if absent else ""
    few = [each.setting.name for each in summaries if each.repetitions < ENOUGH]
    left_out = f" With fewer than {ENOUGH} repetitions, and so not compared: {', '.join(few)}." if few else ""
    how_many = str(most) if fewest == most else f"from {fewest} to {most}"
    return (
        f"R is the number of repetitions, {how_many}, with that of methods that have fewer in brackets. In all there are "
        f"{done} of {len(summaries)} tables{rest}.{missing}{left_out}"
    )


def _repetitions(summary: Summary) -> str:
    counts = {method: summary.count(method) for method in NAMES if summary.has(method) and _is_run(method, summary)}
    fewer = [f"{NAMES[method]}: {count}" for method, count in counts.items() if count < summary.repetitions]
    return str(summary.repetitions) + (f" ({', '.join(fewer)})" if fewer else "")


def _is_run(method: str, summary: Summary) -> bool:
    return method != CHOICE or could_choose(summary.setting)


def _counts(summaries: Sequence[Summary]) -> str:
    own = {measure: compared(summaries, OWN, measure) for measure in (ACCURACY, LOG_SCORE)}
    others = {measure: compared(summaries, OF_OTHERS, measure) for measure in (ACCURACY, LOG_SCORE)}
    rows = []
    for method, baseline in OWN.items():
        cells = [_signs(of_method(held[measure], method)) for held in (own, others) for measure in own]
        tables = len(of_method(own[ACCURACY], method))
        if tables:
            rows.append([NAMES[method], NAMES[baseline], str(tables), *cells])
    header = [
        "method",
        "own model",
        "tables",
        "accuracy",
        "log score",
        "accuracy against supervised",
        "log score against supervised",
    ]
    return table(header, rows)


def _signs(found: Sequence[Found]) -> str:
    return f"+{len(of_sign(found, 1))} −{len(of_sign(found, -1))}" if found else NONE


def _means_of_kinds(groups: Mapping[str, Sequence[Summary]], summaries: Sequence[Summary], measure: str) -> str:
    found = compared(summaries, OWN, measure)
    rows = []
    for method, own in OWN.items():
        cells = []
        for held in groups.values():
            of_kind = [each for each in of_method(found, method) if each.summary in held]
            cells.append(_mean_of_kind(of_kind, measure) if of_kind else NONE)
        if set(cells) != {NONE}:
            rows.append([NAMES[method], NAMES[own], *cells])
    return table(["method", "own model", *groups], rows)


def _mean_of_kind(found: Sequence[Found], measure: str) -> str:
    gap = pooled([each.summary for each in found], found[0].method, found[0].against, measure)
    return f"{_cell(gap, measure)} ({len(found)}; {len(of_sign(found, 1))} up, {len(of_sign(found, -1))} down)"


def _cell(gap: Interval, measure: str) -> str:
    text = SCALES[measure].text(gap)
    return f"**{text}**" if gap.sign else text


def _beyond_chance(summaries: Sequence[Summary]) -> str:
    rows = [
        [
            NAMES[each.method],
            NAMES[each.against],
            each.summary.setting.name,
            measure,
            f"{SCALES[measure].text(each.gap)} {SCALES[measure].unit}",
        ]
        for baselines in (OWN, OF_OTHERS)
        for measure in (ACCURACY, LOG_SCORE)
        for found in [compared(summaries, baselines, measure)]
        for method in baselines
        for sign in (1, -1)
        for each in of_sign(of_method(found, method), sign)
    ]
    return table(["method", "against", "table", "measure", "difference"], rows)


def _minus_own(summaries: Sequence[Summary], measure: str) -> str:
    methods = [method for method, own in OWN.items() if any(each.has(method, own) for each in summaries)]
    rows = [
        [each.setting.title, _repetitions(each), *(_difference(each, method, OWN[method], measure) for method in methods)]
        for each in summaries
    ]
    return table(["table", "R", *(f"{NAMES[method]} − {NAMES[OWN[method]]}" for method in methods)], rows)


def _minus_supervised(summaries: Sequence[Summary], measure: str) -> str:
    scale = SCALES[measure]
    methods = [method for method in NAMES if method != SUPERVISED and any(each.has(method) for each in summaries)]
    rows = [
        [
            each.setting.title,
            _repetitions(each),
            scale.form.replace("+", "").format(scale.factor * each.mean(SUPERVISED, measure)),
            *(_difference(each, method, SUPERVISED, measure) for method in methods),
        ]
        for each in summaries
    ]
    return table(["table", "R", NAMES[SUPERVISED], *(NAMES[method] for method in methods)], rows)


def _difference(summary: Summary, method: str, against: str, measure: str) -> str:
    if not _is_run(method, summary):
        return BY_RULE
    return _cell(summary.difference(method, against, measure), measure) if summary.has(method, against) else NONE


def _means(summaries: Sequence[Summary], cell: Callable[[Summary, str], str]) -> str:
    methods = [method for method in NAMES if any(each.has(method) for each in summaries)]

    def of(summary: Summary, method: str) -> str:
        if not _is_run(method, summary):
            return BY_RULE
        return cell(summary, method) if summary.has(method) else NONE

    rows = [[each.setting.title, _repetitions(each), *(of(each, method) for method in methods)] for each in summaries]
    return table(["table", "R", *(NAMES[name] for name in methods)], rows)


def _sureness(summaries: Sequence[Summary]) -> str:
    methods = [method for method in NAMES if any(each.values(method, SURENESS) for each in summaries)]
    rows = [
        [
            each.setting.title,
            *(
                _cell(sureness_minus_accuracy(each, method), ACCURACY) if each.values(method, SURENESS) else NONE
                for method in methods
            ),
        ]
        for each in summaries
    ]
    return table(["table", *(NAMES[method] for method in methods)], rows)
