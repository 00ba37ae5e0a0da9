"""The report's verdicts, and what the original PPP was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from validation.paper import prose, words
from validation.paper.hypotheses import Hypothesis, compare, hypotheses
from validation.paper.settings import (
    EP,
    GLM_PROBABILITY,
    GLM_RANDOM,
    GLM_VARIANCE,
    LEAST,
    LIKELIHOOD,
    ORIGINAL,
    PROBABILITY,
    RANDOM,
    SETTINGS,
    VARIANCE,
)
from validation.paper.summary import (
    ALONG,
    FINAL,
    GLM_SUPERVISED,
    ORACLE,
    SUPERVISED,
    Summary,
    pooled,
)
from validation.paper.words import Column, accuracy, by_setting, difference, marked
from validation.study.markdown import bullets, table


def reached(summaries: Sequence[Summary]) -> str:
    """How much of the study is there."""
    wanted = {each.key: each.repetitions for each in SETTINGS}
    done = sum(min(each.repetitions, wanted.get(each.setting.key, each.repetitions)) for each in summaries)
    fewest = min(each.repetitions for each in summaries)
    short = sum(each.repetitions < LEAST for each in summaries)
    rest = f" {short} settings have fewer than {LEAST} yet." if short else ""
    return (
        f"R is the number of repetitions, at least {fewest} here.{rest} `--full` aims at {sum(wanted.values())} repetitions of "
        f"{len(wanted)} settings, of which {done} are in these tables; the command goes on from there. "
        f"{sum(each.broken for each in summaries)} runs ended early and are left out."
    )


def verdicts(summaries: Mapping[str, Summary], main: Sequence[Summary]) -> list[str]:
    """The hypotheses."""
    found = hypotheses(summaries, main)
    rows = [
        [
            each.name,
            each.expected,
            each.where,
            "<br>".join(words.compared(one) for one in each.comparisons) or words.NONE,
            "<br>".join(words.compared(one) for one in each.beside) or words.NONE,
            f"**{each.verdict}**",
        ]
        for each in found
    ]
    header = ["", "the paper expects", "where", "what came out: PPP is by EP (points)", "beside it", "verdict"]
    return ["## Verdict", bullets(_sentences(found, main)), table(header, rows), prose.VERDICTS]


def _sentences(found: Sequence[Hypothesis], main: Sequence[Summary]) -> list[str]:
    by_verdict: dict[str, list[str]] = {}
    for each in found:
        by_verdict.setdefault(each.verdict, []).append(each.name)
    said = "; ".join(f"{verdict}: {', '.join(names)}" for verdict, names in by_verdict.items())
    sentences = [f"Of the paper's hypotheses, {said}."]
    for rivals, measure in (((SUPERVISED, RANDOM, PROBABILITY, LIKELIHOOD, VARIANCE), FINAL), ((RANDOM, PROBABILITY), ALONG)):
        pairs = [(EP, rival) for rival in rivals]
        listed = ", ".join(f"{words.NAMES[one.second]} {marked(one.interval)}" for one in compare(main, pairs, measure))
        when = "with all pseudo-labels" if measure == FINAL else "averaged along the run"
        sentences.append(f"Over the settings of the main tables, {when}, PPP minus {listed} points.")
    return sentences


def explained(summaries: Sequence[Summary]) -> list[str]:
    """What the original code's PPP was."""
    held = [each for each in summaries if each.has(ORIGINAL)]
    if not held:
        return []
    columns: tuple[Column, ...] = (
        ("separated", lambda each: f"{each.separated} of {each.repetitions}"),
        ("values", lambda each: f"{each.original['values']:.0f}"),
        ("+Inf (%)", lambda each: f"{each.original['infinite']:.1f}"),
        ("failed (%)", lambda each: f"{each.original['failed']:.1f}"),
        ("first row (% of rounds)", lambda each: f"{each.original['first']:.1f}"),
        ("always from round", lambda each: f"{each.original['since']:.0f}"),
        accuracy(GLM_SUPERVISED),
        accuracy(ORIGINAL),
        difference(ORIGINAL, GLM_RANDOM),
        difference(ORIGINAL, GLM_PROBABILITY),
        difference(GLM_RANDOM, GLM_PROBABILITY),
    )
    return ["## What the original PPP was", _explained(held), _split(held), by_setting(columns, held), prose.ORIGINAL]


def _explained(held: Sequence[Summary]) -> str:
    random = [each for each in held if each.original["infinite"] >= 99]
    mostly = [each for each in held if each.original["first"] >= 90]
    sentences = [
        f"In {len(random)} of {len(held)} settings at least 99% of the original PPP's values are +Inf{words.named(random)}; in "
        f"{len(mostly)} it takes the first row in at least 90% of rounds{words.named(mostly)}. There it is random selection.",
    ]
    for measure, when in ((ORACLE, "By the oracle's stop, the paper's measure,"), (FINAL, "With all pseudo-labels")):
        whole, by_chance, chosen = (
            pooled(held, *pair, measure)
            for pair in ((ORIGINAL, GLM_SUPERVISED), (GLM_RANDOM, GLM_SUPERVISED), (ORIGINAL, GLM_RANDOM))
        )
        sentences.append(
            f"{when} the original PPP gains {marked(whole)} points on its supervised model, random selection by the same `glm` "
            f"{marked(by_chance)}: what the criterion adds is {marked(chosen)}."
        )
    prior = pooled(held, SUPERVISED, GLM_SUPERVISED)
    sentences.append(
        f"The prior alone, without any pseudo-label, is worth {marked(prior)} points over `glm` on the same labeled rows."
    )
    return bullets(sentences)


def _split(held: Sequence[Summary]) -> str:
    """The original PPP's advantage over each rival as that of random selection and the criterion's own."""
    rows = []
    for rival in (GLM_PROBABILITY, GLM_VARIANCE, GLM_SUPERVISED):
        these = [each for each in held if each.has(ORIGINAL, GLM_RANDOM, rival)]
        for measure in (ORACLE, FINAL):
            parts = ((ORIGINAL, rival), (GLM_RANDOM, rival), (ORIGINAL, GLM_RANDOM))
            cells = [marked(pooled(these, *pair, measure)) for pair in parts]
            rows.append([words.NAMES[rival], measure, words.counted(len(these)), *cells])
    return table(
        ["original PPP against", "measure", "over", "its advantage", "of it random selection's", "the criterion's"], rows
    )
