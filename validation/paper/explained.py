"""What the original code's PPP was, and how much of its advantage is that of random selection."""

from __future__ import annotations

from collections.abc import Sequence

from validation.paper import prose, words
from validation.paper.settings import GLM_PROBABILITY, GLM_RANDOM, GLM_VARIANCE, ORIGINAL
from validation.paper.summary import FINAL, GLM_SUPERVISED, ORACLE, SUPERVISED, Summary, pooled
from validation.paper.words import Column, accuracy, by_setting, difference, marked
from validation.study.markdown import bullets, table

ALL, MOST = 99.0, 50.0


def explained(summaries: Sequence[Summary]) -> list[str]:
    """The section."""
    held = [each for each in summaries if each.has(ORIGINAL)]
    if not held:
        return []
    counts: tuple[Column, ...] = (
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
        _sentences(held),
        _split(held),
        by_setting(counts, held),
        by_setting(accuracies, held),
        prose.ORIGINAL,
    ]


def _sentences(held: Sequence[Summary]) -> str:
    infinite = [each for each in held if each.original["infinite"] >= ALL]
    mostly = [each for each in held if each.original["infinite"] >= MOST]
    by_gap = sorted(held, key=_above_glm)
    ends = [f"{_above_glm(each):+.1f} ({each.setting.title})" for each in (by_gap[0], by_gap[-1])]
    return bullets(
        [
            f"In {len(mostly)} of {len(held)} settings at least {MOST:g}% of the original PPP's values are +Inf"
            f"{words.named(mostly)}, in {len(infinite)} at least {ALL:g}%{words.named(infinite)}: there it is random "
            "selection.",
            f"Without any pseudo-label the Bayesian model is {marked(pooled(held, SUPERVISED, GLM_SUPERVISED))} points above "
            f"`glm` on the same labeled rows: from {ends[0]} to {ends[1]}.",
        ]
    )


def _above_glm(each: Summary) -> float:
    return each.mean(SUPERVISED) - each.mean(GLM_SUPERVISED)


def _split(held: Sequence[Summary]) -> str:
    """Its advantage over each rival as that of random selection and the criterion's own."""
    mostly = [each for each in held if each.original["infinite"] >= MOST]
    others = [each for each in held if each not in mostly]
    rows = []
    for name, these in ((f"+Inf in {MOST:g}% or more", mostly), ("the others", others), ("all", held)):
        for rival in (GLM_PROBABILITY, GLM_VARIANCE, GLM_SUPERVISED):
            common = [each for each in these if each.has(ORIGINAL, GLM_RANDOM, rival)]
            pairs = ((ORIGINAL, rival), (GLM_RANDOM, rival), (ORIGINAL, GLM_RANDOM))
            cells = [marked(pooled(common, *pair, how)) for how in (ORACLE, FINAL) for pair in pairs] if common else []
            rows.append([name, words.NAMES[rival], str(len(common)), *(cells or [words.NONE] * 6)])
    parts = ("its advantage", "= random selection's", "+ the criterion's")
    return table(
        ["values", "original PPP against", "settings", *(f"{part}, {how}" for how in (ORACLE, FINAL) for part in parts)], rows
    )
