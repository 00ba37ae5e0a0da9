"""Where unlabeled rows help or harm, by which method and by how much, after correction for all comparisons of a measure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from validation.rivals.comparisons import (
    ENOUGH,
    NAMES,
    OF_OTHERS,
    OWN,
    POINTS,
    SCALES,
    Found,
    Scale,
    compared,
    corrected,
    of_method,
    of_sign,
)
from validation.rivals.designs import INDEPENDENT_NORMAL
from validation.rivals.measures import ACCURACY, LOG_SCORE, SURENESS
from validation.rivals.methods import CHOICE, CONDITIONAL, PPP, REGRESSION, SUPERVISED, WHOLE
from validation.rivals.settings import MADE_BY_CLASSES, REAL
from validation.rivals.summary import Summary, pooled
from validation.study.intervals import LEVEL, Interval

#: Those that the headline is about.
BOTH = (ACCURACY, LOG_SCORE)
Families = dict[str, list[Found]]


def bar(summaries: Sequence[Summary]) -> str:
    """What is beyond chance, and in how many comparisons."""
    own, others = (max(len(compared(summaries, baselines, ACCURACY)), 1) for baselines in (OWN, OF_OTHERS))
    return (
        f"Each method is compared with its own model on the labels alone (`choose` with supervised, though it may take a "
        f"class-conditional model): {own} comparisons of a measure, each of a method on a table. Beyond chance is a difference "
        f"whose t interval of the level {corrected(own):.3%} excludes 0: {LEVEL:.0%} after Bonferroni's "
        f"correction for {own} comparisons. Measures are corrected apart, and so are {others} comparisons "
        f"with supervised of the methods whose own model is another one (level {corrected(others):.3%}). So high a level leans "
        'on the means being normal. "None" is none beyond chance, which is not none at all. In brackets are the tables, from '
        "the largest difference to the smallest, with the intervals of the first and of the last at the corrected level. "
        "Differences that passed such a bar are larger than they would be in new repetitions, on average."
    )


def headline(summaries: Sequence[Summary]) -> list[str]:
    """A few sentences, of the settings with enough repetitions."""
    own, others = ({measure: compared(summaries, each, measure) for measure in BOTH} for each in (OWN, OF_OTHERS))
    if not own[ACCURACY]:
        return [f"No method has been compared in {ENOUGH} repetitions yet."]
    return [
        *_to_remember(own),
        *(_better_than_both(own, others, measure) for measure in BOTH),
        *(_of_method(method, own) for method in OWN if of_method(own[ACCURACY], method)),
        *_where_the_model_is_right(summaries, own, others),
        *_own_models(summaries),
        *_sureness(summaries, own[LOG_SCORE]),
    ]


def _to_remember(own: Families) -> list[str]:
    """A regression that labels the pool itself, and labels integrated out of a model of how features arise."""
    trained, integrated = ({measure: of_method(own[measure], method) for measure in BOTH} for method in (PPP, WHOLE))
    sentences = []
    if trained[ACCURACY]:
        sentences.append(
            f"To remember, of differences beyond chance after the correction: a regression that labels the whole pool itself "
            f"({NAMES[PPP]}) against the same on the labels alone, on {_tables(trained[ACCURACY])}: "
            f"{_gains_and_losses(trained)}."
        )
    if integrated[ACCURACY]:
        right, wrong = (
            {
                measure: [each for each in found if (each.summary.setting.source in INDEPENDENT_NORMAL) == is_right]
                for measure, found in integrated.items()
            }
            for is_right in (True, False)
        )
        sentences.append(
            f"The pool's labels integrated out of a class-conditional model (λ = 1), against the same model without the pool: "
            f"on {_tables(right[ACCURACY], 'simulated ')} where that model is right, {_gains_and_losses(right)}; on the "
            f"{len(wrong[ACCURACY])} others, {_gains_and_losses(wrong)}."
        )
    return [" ".join(sentences)] if sentences else []


def _gains_and_losses(families: Families) -> str:
    """Beyond chance."""
    return " and ".join(
        f"{measure} is higher on {_number(of_sign(found, 1))} and lower on {_number(of_sign(found, -1))}"
        for measure, found in families.items()
    )


def _better_than_both(own: Families, others: Families, measure: str) -> str:
    """Gains over the own model that are gains over the supervised one too."""
    gains = {(each.method, each.summary.setting) for each in of_sign(others[measure], 1)}
    held = [
        each for each in of_sign(own[measure], 1) if each.against == SUPERVISED or (each.method, each.summary.setting) in gains
    ]
    by_method = [
        f"{NAMES[method]} ({_names([each.summary for each in found])})" for method in OWN if (found := of_method(held, method))
    ]
    tables = {each.summary.setting: each.summary for each in held}
    real = [each for setting, each in tables.items() if setting in REAL]
    of_these = f", of which {len(real)} real ({_names(real)})" if real else ", none of them real"
    return (
        f"A method is higher by {measure}, beyond chance, than its own model and than supervised too in {len(held)} of "
        f"{len(own[measure])} comparisons"
        + (f", on {_tables(list(tables))}{of_these}: {'; '.join(by_method)}." if by_method else ".")
    )


def _of_method(method: str, own: Families) -> str:
    held = {measure: of_method(own[measure], method) for measure in BOTH}
    said = (
        f"by {measure} gains on {listed(of_sign(found, 1), SCALES[measure])}, "
        f"losses on {listed(of_sign(found, -1), SCALES[measure])}"
        for measure, found in held.items()
    )
    fewest = min(each.summary.count(method, OWN[method]) for each in held[ACCURACY])
    so_far = "" if fewest == max(each.summary.repetitions for each in held[ACCURACY]) else f", by {fewest} repetitions or more"
    by_rule = " (on the others it keeps supervised by rule)" if method == CHOICE else ""
    where = f"{_tables(held[ACCURACY])}{by_rule}{so_far}"
    other_model = _of_another_model(of_sign(held[LOG_SCORE], 1)) if method == CHOICE else ""
    return f"**{NAMES[method]}** against {NAMES[OWN[method]]}, on {where}: {'; '.join(said)}.{other_model}"


def _of_another_model(gains: Sequence[Found]) -> str:
    """What the class-conditional model has without the pool, on tables where the choice may have taken it."""
    held = [each.summary for each in gains if each.summary.count(CONDITIONAL, SUPERVISED) >= ENOUGH]
    if not held:
        return ""
    scale = SCALES[LOG_SCORE]
    said = "; ".join(
        f"on {each.setting.name} by {scale.text(each.difference(CONDITIONAL, SUPERVISED, LOG_SCORE))} {scale.unit}"
        for each in held
    )
    return (
        " The class-conditional model, which it may take with the pool's labels integrated out, is above supervised without "
        f"the pool too: {said} ({LEVEL:.0%} interval)."
    )


def listed(found: Sequence[Found], scale: Scale) -> str:
    """How many, on which tables, and the intervals of the first and the last."""
    if not found:
        return "none"
    ends = found if len(found) == 1 else [found[0], found[-1]]
    sizes = " to ".join(scale.text(each.gap) for each in ends)
    return f"{len(found)} ({_names([each.summary for each in found])}: {sizes} {scale.unit})"


def _tables(held: Sequence[object], kind: str = "") -> str:
    return f"{len(held)} {kind}table{'' if len(held) == 1 else 's'}"


def _names(summaries: Sequence[Summary]) -> str:
    return ", ".join(each.setting.name for each in summaries)


def _where_the_model_is_right(summaries: Sequence[Summary], own: Families, others: Families) -> list[str]:
    """Labels integrated out where the class-conditional model is right, where it is wrong by design, and on real tables."""
    held = [each for each in summaries if each.count(WHOLE, CONDITIONAL, SUPERVISED) >= ENOUGH]
    designs, real = ([each for each in held if each.setting in settings] for settings in (MADE_BY_CLASSES, REAL))
    right = [each for each in designs if each.setting.source in INDEPENDENT_NORMAL]
    wrong = [each for each in designs if each not in right]
    sentences = []
    if right:
        sentences.append(
            f"Where the class-conditional model is right but for its priors ({_names(right)}), of {NAMES[WHOLE]}, against "
            f"class-conditional {_counted(own, right)}; against supervised {_counted(others, right)}."
        )
    if wrong:
        sentences.append(
            f"Where its features are wrong by design ({_names(wrong)}), against class-conditional {_counted(own, wrong)}."
        )
    if real:
        means = " and ".join(
            f"{SCALES[measure].text(pooled(real, WHOLE, CONDITIONAL, measure))} {SCALES[measure].unit} by {measure}"
            for measure in BOTH
        )
        sentences.append(
            f"Its mean difference from class-conditional over {len(real)} real tables is {means} ({LEVEL:.0%} intervals)."
        )
    return [" ".join(sentences)] if sentences else []


def _counted(families: Families, held: Sequence[Summary]) -> str:
    """Of labels integrated out on some tables."""
    of_these = {
        measure: [each for each in of_method(found, WHOLE) if each.summary in held] for measure, found in families.items()
    }
    return _gains_and_losses(of_these)


def _number(found: Sequence[Found]) -> str:
    return str(len(found) or "none")


def _own_models(summaries: Sequence[Summary]) -> list[str]:
    """How good they are, on the settings that have all of them."""
    names = list(dict.fromkeys(OWN.values()))
    common = [each for each in summaries if each.count(*names) >= ENOUGH]
    if not common:
        return []
    means = ", ".join(f"{NAMES[name]} {_mean(common, name)}" for name in names)
    return [
        f"A gain over a poor model is little worth. Mean accuracy of the own models over {len(common)} tables that have all of "
        f"them, in brackets on how many of these it is above and below that of supervised: {means}."
    ]


def _mean(summaries: Sequence[Summary], name: str) -> str:
    """Over tables, and how many of them are above and below the supervised model."""
    mean = f"{100 * np.mean([each.mean(name, ACCURACY) for each in summaries]):.1f}%"
    if name == SUPERVISED:
        return mean
    signs = [np.sign(each.mean(name, ACCURACY) - each.mean(SUPERVISED, ACCURACY)) for each in summaries]
    return f"{mean} ({signs.count(1)}, {signs.count(-1)})"


def _sureness(summaries: Sequence[Summary], found: Sequence[Found]) -> list[str]:
    """Whether the supervised model is as sure as right, and what becoming surer is worth without the pool."""
    known = [each for each in summaries if len(each.values(SUPERVISED, SURENESS)) >= ENOUGH]
    if not known:
        return []
    level = corrected(len(known))
    excess = [Found(SUPERVISED, SUPERVISED, each, sureness_minus_accuracy(each, SUPERVISED, level)) for each in known]
    less, more = of_sign(excess, -1), of_sign(excess, 1)
    sharper = of_sign(compared(known, {REGRESSION: SUPERVISED}, LOG_SCORE), 1)
    gaining = {each.summary.setting: each.summary for each in of_sign(found, 1) if each.against == SUPERVISED}
    not_sure, without = (sum(each.summary.setting in gaining for each in some) for some in (less, sharper))
    return [
        "Calibration: by the mean probability of the predicted class minus accuracy, supervised is less sure than right on "
        f"{listed(less, POINTS)} and surer than right on {listed(more, POINTS)}, of {_tables(known)} and corrected for so "
        "many. Where a model is not sure enough, to become surer can raise its log score, whatever the pool says. "
        f"{NAMES[REGRESSION]}, which has the same penalty but for the intercept and is not averaged over its posterior, has a "
        f"higher log score than supervised, without any unlabeled row, on {listed(sharper, SCALES[LOG_SCORE])}, corrected "
        "likewise. Tables on which PPP to the end, `NoGain` or `choose` has a higher log score than supervised: "
        f"{len(gaining)} ({_names(list(gaining.values())) or 'none'}). On {not_sure} of them supervised is less sure than "
        f"right, and on {without} {NAMES[REGRESSION]} has a higher one too."
    ]


def sureness_minus_accuracy(summary: Summary, method: str, level: float = LEVEL) -> Interval:
    """The mean probability of the predicted class minus the share that is right."""
    sure, right = summary.values(method, SURENESS), summary.values(method, ACCURACY)
    return Interval.of(np.array([sure[number] - right[number] for number in sure]), level)
