"""What came out: how much of the study is there, the main comparisons in sentences, the verdicts, what the original PPP was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from validation.paper.hypotheses import Hypothesis
from validation.paper.report import supplement, wording
from validation.paper.report.wording import Column, accuracy, bold, by_setting, difference, join_parts, position
from validation.paper.settings import (
    EP,
    GLM,
    GLM_PROBABILITY,
    GLM_RANDOM,
    GLM_SUPERVISED,
    GLM_VARIANCE,
    LEAST,
    ORIGINAL,
    PPP,
    PROBABILITY,
    RANDOM,
    SETTINGS,
    SUPERVISED,
)
from validation.paper.summary import ALONG, FINAL, ORACLE, ORACLE_FRESH, Summary, pooled
from validation.paper.winners import Match
from validation.study.markdown import bullets, table

FEW = 30
MEASURES = (FINAL, ALONG, ORACLE)


def progress(summaries: Sequence[Summary]) -> str:
    """How much of the study is there."""
    wanted = {each.key: each.wanted for each in SETTINGS}
    done = sum(min(each.repetitions, wanted.get(each.setting.key, each.repetitions)) for each in summaries)
    fewest, most = (pick(each.repetitions for each in summaries) for pick in (min, max))
    short = sum(each.repetitions < LEAST for each in summaries)
    rest = f" {short} settings have fewer than {LEAST} yet." if short else ""
    goal = sum(wanted.values())
    missing = f" (`--full` aims at {goal}, and goes on from there)" if done < goal else " (all that `--full` aims at)"
    return (
        f"R is the number of repetitions, from {fewest} to {most} here.{rest} In these tables are {done} repetitions{missing} "
        f"of {len(summaries)} settings. {sum(each.broken for each in summaries)} runs ended early and are left out."
    )


def in_short(
    groups: Mapping[str, Sequence[Summary]],
    found: Sequence[Hypothesis],
    matched: Mapping[str, Sequence[tuple[Match, Match]]],
    with_and_without_prior: Sequence[Summary],
) -> list[str]:
    """The main comparisons in sentences, and by group of settings in a table."""
    main = [each for held in groups.values() for each in held]

    def against(rivals: Sequence[str], measure: str) -> str:
        return join_parts([position(pooled(main, EP, rival, measure), wording.LONG[rival]) for rival in rivals])

    sentences = [
        f"With all pseudo-labels, PPP (by EP) is {against((SUPERVISED, RANDOM, PROBABILITY), FINAL)}. {_by_kind(main, FINAL)}",
        f"Averaged along the run, PPP is {against((SUPERVISED, RANDOM, PROBABILITY), ALONG)}. {_by_kind(main, ALONG)}",
        f"By the oracle's stop, which the paper reports beside the end, no method is below the supervised model, whatever it "
        f"selects. PPP is "
        f"{against((SUPERVISED, RANDOM, PROBABILITY), ORACLE)}.",
        *_oracle([each for each in main if each.simulated]),
        *_published(main),
        *supplement.informed_in_short(with_and_without_prior),
        f"Of the paper's hypotheses and findings, {_by_verdict(found)}.",
        *_changing(found),
        *supplement.winners_in_short(matched),
    ]
    columns = [
        *((first, second, FINAL) for first, second in ((EP, SUPERVISED), (RANDOM, SUPERVISED))),
        *((EP, rival, measure) for measure in MEASURES for rival in (RANDOM, PROBABILITY)),
    ]
    names = [
        f"{wording.NAMES[first]} − {wording.NAMES[second]}{'' if measure == FINAL else f', {measure}'}"
        for first, second, measure in columns
    ]
    rows = [
        [name, str(len(held)), *(bold(pooled(held, *column)) for column in columns)]
        for name, held in {"all of these": main, **groups}.items()
        if held
    ]
    return ["## In short", bullets(sentences), table(["accuracy in points", "settings", *names], rows)]


def _oracle(simulated: Sequence[Summary]) -> list[str]:
    if not simulated:
        return []
    gained, real = (pooled(simulated, EP, SUPERVISED, measure) for measure in (ORACLE, ORACLE_FRESH))
    by_glm = [each for each in simulated if each.has(*GLM)]
    held = [f"{wording.NAMES[one]} {bold(pooled(by_glm, one, GLM_SUPERVISED, ORACLE_FRESH))}" for one in GLM if by_glm]
    ours = bold(pooled(by_glm, EP, SUPERVISED, ORACLE_FRESH)) if by_glm else ""
    others = (
        f" In the {len(by_glm)} of these that have models without a prior it is {ours} for PPP and, over their own supervised "
        f"model, for {', '.join(held)}."
    )
    return [
        f"How much of the oracle's gain is real: in the simulations it credits PPP with {bold(gained)} points over the "
        f"supervised model, and on fresh rows the same models gain {bold(real)}.{others if held else ''}"
    ]


def _by_kind(main: Sequence[Summary], measure: str) -> str:
    """In how many settings PPP is above and below the supervised model, simulated ones and real data apart."""
    kinds = {
        "in simulations": [each for each in main if each.simulated],
        "on real data": [each for each in main if not each.simulated],
    }
    said = "; ".join(
        f"{name} it is {_signs(held, EP, SUPERVISED, measure)} of {len(held)}, on average "
        f"{bold(pooled(held, EP, SUPERVISED, measure))}"
        for name, held in kinds.items()
        if held
    )
    return f"{said[0].upper()}{said[1:]}."


def _published(main: Sequence[Summary]) -> list[str]:
    """What the authors' code gains on its own kind of model, and where that is random selection."""
    held = [each for each in main if each.has(ORIGINAL, GLM_RANDOM)]
    if not held:
        return []
    same = [each for each in held if not np.nansum(np.abs(list(each.gaps(ORIGINAL, GLM_RANDOM, ALONG).values())))]
    others = [each for each in held if each not in same]
    gained = [f"{wording.NAMES[one]} {bold(pooled(held, one, GLM_SUPERVISED))}" for one in GLM if one != GLM_VARIANCE]
    prior = pooled(held, SUPERVISED, GLM_SUPERVISED)
    by_prior = sorted(held, key=_above_glm)
    ends = [f"{_above_glm(each):+.1f} ({each.setting.title})" for each in (by_prior[0], by_prior[-1])]
    along, by_oracle = (_signs(others, ORIGINAL, GLM_RANDOM, measure, named=True) for measure in (ALONG, ORACLE))
    return [
        f"The published code's PPP, emulated, is the same run as random selection by the same `glm` in {len(same)} of "
        f"{len(held)} settings{wording.titles(same)}. In the others it is, along the run, {along}; by the oracle's stop, "
        f"{by_oracle}.",
        f"What runs to the end gain without a prior, over their own supervised model: {', '.join(gained)} on average of these "
        f"{len(held)} settings. The original PPP is {_signs(held, ORIGINAL, GLM_SUPERVISED, FINAL)}.",
        f"Without any pseudo-label, the Bayesian model, on standardised features, is {position(prior, '`glm` on raw ones')}, "
        f"on average of these {len(held)} settings: from {ends[0]} to {ends[1]}.",
    ]


def _signs(summaries: Sequence[Summary], first: str, second: str, measure: str, *, named: bool = False) -> str:
    """In how many settings the first method is above and below the second, by the interval of the setting alone."""
    found = [(each, each.difference(first, second, measure).sign) for each in summaries]
    above, below = ([each for each, sign in found if sign == wanted] for wanted in (1, -1))
    names = [wording.titles(held) if named else "" for held in (above, below)]
    return f"above {wording.LONG[second]} in {len(above)}{names[0]} and below it in {len(below)}{names[1]}"


def _by_verdict(found: Sequence[Hypothesis]) -> str:
    names: dict[str, list[str]] = {}
    for each in found:
        names.setdefault(each.verdict.word, []).append(each.name)
    return "; ".join(f"{word}: {', '.join(held)}" for word, held in names.items())


def _changing(found: Sequence[Hypothesis]) -> list[str]:
    """Verdicts that are other ones by another measure, or by Laplace's approximation in the settings that have it."""
    changes = []
    for each in found:
        by_measure = {measure: (each.verdict, each.by(EP, measure)) for measure in MEASURES}
        approximation = {"by Laplace": tuple(each.by(method, each.measure, EP, PPP) for method in (EP, PPP))}
        parts = {name: (each.verdict, there) for name, there in each.by_part.items()}
        other = [
            f"{name}: {there.word}"
            for name, (here, there) in {**by_measure, **approximation, **parts}.items()
            if here and there and here.word != there.word
        ]
        changes += [f"{each.name} ({', '.join(other)})"] if other else []
    return (
        [f"Other verdicts by another measure, approximation or part of the settings: {'; '.join(changes)}."] if changes else []
    )


def verdicts(found: Sequence[Hypothesis]) -> list[str]:
    """The hypotheses, and whether other measures and Laplace's PPP would have changed their verdicts."""
    return ["## Verdict", wording.ABOUT_VERDICTS, *map(_hypothesis, found), _otherwise(found), wording.ABOUT_OTHER_VERDICTS]


def _hypothesis(each: Hypothesis) -> str:
    settings = wording.titles(each.summaries) if len(each.summaries) <= FEW else ""
    parts = {
        "Where": f"{each.where}{settings}.",
        "Compared": "; ".join(wording.comparison_in_words(one, widened=True) for one in each.comparisons) or wording.NONE,
        "Beside it": "; ".join(wording.comparison_in_words(one) for one in each.beside) or wording.NONE,
        **{f"Of these, {name}": "; ".join(map(wording.comparison_in_words, held)) for name, held in each.apart.items() if held},
    }
    return f"**{each.name}. {each.expected}** {wording.verdict_in_words(each.verdict)}\n\n" + bullets(
        [f"{name}: {text}" for name, text in parts.items()]
    )


def _otherwise(found: Sequence[Hypothesis]) -> str:
    rows = []
    for each in found:
        by_measure = {measure: wording.verdict_in_brief(each.by(EP, measure)) for measure in MEASURES}
        by_measure[each.measure] = f"**{by_measure[each.measure]}**"
        approximations = (wording.verdict_in_brief(each.by(method, each.measure, EP, PPP)) for method in (EP, PPP))
        rows.append([each.name, *by_measure.values(), *approximations])
    return table(["", *MEASURES, "where Laplace's PPP was run, by EP", "and by Laplace"], rows)


ALL, MOST = 99.0, 50.0


def original_ppp(summaries: Sequence[Summary]) -> list[str]:
    """What the original code's PPP was, and how much of its advantage is that of random selection."""
    held = [each for each in summaries if each.has(ORIGINAL)]
    if not held:
        return []
    counts: tuple[Column, ...] = (
        ("with it", lambda each: str(each.runs(ORIGINAL))),
        ("separated", lambda each: f"{each.separated} of {each.repetitions}"),
        ("rounds valued", lambda each: f"{each.rounds_valued} of {each.setting.sizes.candidates}"),
        ("values", lambda each: f"{each.original['values']:.0f}"),
        ("+Inf (%)", lambda each: f"{each.original['infinite']:.1f}"),
        ("failed (%)", lambda each: f"{each.original['failed']:.1f}"),
        ("first row (% of rounds)", lambda each: f"{each.original['first']:.1f}"),
        ("by chance", lambda each: f"{each.first_by_chance:.1f}"),
        ("always from round", lambda each: f"{each.original['since']:.0f} of {each.setting.sizes.candidates}"),
    )
    accuracies = (
        accuracy(SUPERVISED),
        accuracy(GLM_SUPERVISED),
        accuracy(ORIGINAL),
        difference(ORIGINAL, GLM_RANDOM),
        difference(ORIGINAL, GLM_PROBABILITY),
        difference(GLM_RANDOM, GLM_PROBABILITY),
    )
    return [
        "## What the original PPP was",
        _original_in_short(held),
        _advantage_in_parts(held),
        by_setting(counts, held),
        by_setting(accuracies, held),
        wording.ABOUT_ORIGINAL,
    ]


def _original_in_short(held: Sequence[Summary]) -> str:
    mostly = [each for each in held if each.original["infinite"] >= MOST]
    first = [each for each in held if each.original["first"] >= ALL]
    return bullets(
        [
            f"In {len(mostly)} of {len(held)} settings at least {MOST:g}% of the original PPP's values are +Inf"
            f"{wording.titles(mostly)}.",
            f"In {len(first)} the first row is taken in at least {ALL:g}% of rounds{wording.titles(first)}: there it "
            "all but is random selection.",
        ]
    )


def _above_glm(each: Summary) -> float:
    return float(each.difference(SUPERVISED, GLM_SUPERVISED).mean)


def _advantage_in_parts(held: Sequence[Summary]) -> str:
    """Its advantage over each rival as that of random selection and the criterion's own."""
    mostly = [each for each in held if each.original["infinite"] >= MOST]
    others = [each for each in held if each not in mostly]
    rows = []
    for name, these in ((f"+Inf in {MOST:g}% or more", mostly), ("the others", others), ("all", held)):
        for rival in (GLM_PROBABILITY, GLM_VARIANCE, GLM_SUPERVISED):
            common = [each for each in these if each.has(ORIGINAL, GLM_RANDOM, rival)]
            pairs = ((ORIGINAL, rival), (GLM_RANDOM, rival), (ORIGINAL, GLM_RANDOM))
            cells = [bold(pooled(common, *pair, how)) for how in (ORACLE, FINAL) for pair in pairs] if common else []
            rows.append([name, wording.NAMES[rival], str(len(common)), *(cells or [wording.NONE] * 6)])
    parts = ("its advantage", "= random selection's", "+ the criterion's")
    return table(
        ["values", "original PPP against", "settings", *(f"{part}, {how}" for how in (ORACLE, FINAL) for part in parts)], rows
    )
