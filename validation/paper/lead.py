"""How the report begins: how much of the study is there, what came out in short, and the verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from validation.paper import prose, words
from validation.paper.hypotheses import Hypothesis
from validation.paper.settings import EP, GLM_RANDOM, LEAST, ORIGINAL, PPP, PROBABILITY, RANDOM, SETTINGS
from validation.paper.summary import ALONG, FINAL, ORACLE, SUPERVISED, Summary, pooled
from validation.paper.words import marked, stands
from validation.study.markdown import bullets, table

FEW = 5
MEASURES = (FINAL, ALONG, ORACLE)


def reached(summaries: Sequence[Summary]) -> str:
    """How much of the study is there."""
    wanted = {each.key: each.repetitions for each in SETTINGS}
    done = sum(min(each.repetitions, wanted.get(each.setting.key, each.repetitions)) for each in summaries)
    fewest, most = (pick(each.repetitions for each in summaries) for pick in (min, max))
    short = sum(each.repetitions < LEAST for each in summaries)
    rest = f" {short} settings have fewer than {LEAST} yet." if short else ""
    return (
        f"R is the number of repetitions, from {fewest} to {most} here.{rest} `--full` aims at {sum(wanted.values())} "
        f"repetitions of {len(wanted)} settings, of which {done} are in these tables; the command goes on from there. "
        f"{sum(each.broken for each in summaries)} runs ended early and are left out."
    )


def in_short(groups: Mapping[str, Sequence[Summary]], found: Sequence[Hypothesis]) -> list[str]:
    """The main comparisons in sentences, and by group of settings in a table."""
    main = [each for held in groups.values() for each in held]
    supervised, random, probability = (pooled(main, EP, rival) for rival in (SUPERVISED, RANDOM, PROBABILITY))
    random_along, probability_along = (pooled(main, EP, rival, ALONG) for rival in (RANDOM, PROBABILITY))
    sentences = [
        f"With all pseudo-labels, PPP is {stands(supervised, 'the supervised model')}, {stands(random, 'random selection')}, "
        f"and {stands(probability, 'the probability score')}.",
        f"Averaged along the run, PPP is {stands(random_along, 'random selection')}, and "
        f"{stands(probability_along, 'the probability score')}.",
        *_published(main),
        f"Of the paper's hypotheses, as they are read here, {_by_verdict(found)}.",
        *_changing(found),
    ]
    columns = [
        *((first, second, FINAL) for first, second in ((EP, SUPERVISED), (RANDOM, SUPERVISED))),
        *((EP, rival, measure) for measure in (FINAL, ALONG) for rival in (RANDOM, PROBABILITY)),
    ]
    names = [
        f"{words.NAMES[first]} − {words.NAMES[second]}{'' if measure == FINAL else f', {measure}'}"
        for first, second, measure in columns
    ]
    rows = [
        [name, str(len(held)), *(marked(pooled(held, *column)) for column in columns)]
        for name, held in {"all of these": main, **groups}.items()
        if held
    ]
    return ["## In short", bullets(sentences), table(["accuracy in points", "settings", *names], rows)]


def _published(main: Sequence[Summary]) -> list[str]:
    held = [each for each in main if each.has(ORIGINAL, GLM_RANDOM)]
    if not held:
        return []
    gap = pooled(held, ORIGINAL, GLM_RANDOM, ORACLE)
    return [f"The published code's PPP, emulated, is by the oracle's stop {stands(gap, 'random selection by the same `glm`')}."]


def _by_verdict(found: Sequence[Hypothesis]) -> str:
    names: dict[str, list[str]] = {}
    for each in found:
        names.setdefault(each.verdict.word, []).append(each.name)
    return "; ".join(f"{word}: {', '.join(held)}" for word, held in names.items())


def _changing(found: Sequence[Hypothesis]) -> list[str]:
    """Verdicts that are other ones by another measure or by Laplace's approximation."""
    changes = []
    for each in found:
        others = {measure: each.by(EP, measure) for measure in MEASURES} | {"by Laplace": each.by(PPP, each.measure, EP, PPP)}
        other = {name: verdict.word for name, verdict in others.items() if verdict and verdict.word != each.verdict.word}
        changes += [f"{each.name} ({', '.join(f'{name}: {word}' for name, word in other.items())})"] if other else []
    return [f"Other verdicts by another measure or approximation: {'; '.join(changes)}."] if changes else []


def verdicts(found: Sequence[Hypothesis]) -> list[str]:
    """The hypotheses, and whether other measures and Laplace's PPP would have changed their verdicts."""
    rows = [
        [
            each.name,
            each.expected,
            each.where + (words.named(each.summaries) if len(each.summaries) <= FEW else ""),
            "<br>".join(words.compared(one) for one in each.comparisons) or words.NONE,
            "<br>".join(words.compared(one) for one in each.beside) or words.NONE,
            words.judged(each.verdict),
        ]
        for each in found
    ]
    header = ["", "the paper expects", "where", "what came out: PPP is by EP (points)", "beside it", "verdict"]
    return ["## Verdict", table(header, rows), prose.VERDICTS, _otherwise(found), prose.OTHERWISE]


def _otherwise(found: Sequence[Hypothesis]) -> str:
    rows = []
    for each in found:
        by_measure = {measure: words.brief(each.by(EP, measure)) for measure in MEASURES}
        by_measure[each.measure] = f"**{by_measure[each.measure]}**"
        rows.append(
            [each.name, *by_measure.values(), *(words.brief(each.by(method, each.measure, EP, PPP)) for method in (EP, PPP))]
        )
    return table(["", *MEASURES, "where Laplace's PPP was run, by EP", "and by Laplace"], rows)
