"""How the report begins: how much of the study is there, what came out in short, and the verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from validation.paper import prose, words
from validation.paper.hypotheses import Hypothesis
from validation.paper.settings import EP, GLM_RANDOM, LEAST, ORIGINAL, PPP, PROBABILITY, RANDOM, SETTINGS
from validation.paper.summary import ALONG, FINAL, GLM_SUPERVISED, ORACLE, ORACLE_FRESH, SUPERVISED, Summary, pooled
from validation.paper.words import listed, marked, stands
from validation.study.markdown import bullets, table

FEW = 20
MEASURES = (FINAL, ALONG, ORACLE)


def reached(summaries: Sequence[Summary]) -> str:
    """How much of the study is there."""
    wanted = {each.key: each.repetitions for each in SETTINGS}
    done = sum(min(each.repetitions, wanted.get(each.setting.key, each.repetitions)) for each in summaries)
    fewest, most = (pick(each.repetitions for each in summaries) for pick in (min, max))
    short = sum(each.repetitions < LEAST for each in summaries)
    rest = f" {short} settings have fewer than {LEAST} yet." if short else ""
    goal = sum(wanted.values())
    missing = (
        f" of the {goal} that `--full` aims at, and it goes on from there" if done < goal else ", all that `--full` aims at"
    )
    return (
        f"R is the number of repetitions, from {fewest} to {most} here.{rest} In these tables are {done} repetitions of "
        f"{len(summaries)} settings{missing}. {sum(each.broken for each in summaries)} runs ended early and are left out."
    )


def in_short(groups: Mapping[str, Sequence[Summary]], found: Sequence[Hypothesis]) -> list[str]:
    """The main comparisons in sentences, and by group of settings in a table."""
    main = [each for held in groups.values() for each in held]

    def against(rivals: Sequence[str], measure: str) -> str:
        return listed([stands(pooled(main, EP, rival, measure), words.LONG[rival]) for rival in rivals])

    sentences = [
        f"With all pseudo-labels, PPP (by EP) is {against((SUPERVISED, RANDOM, PROBABILITY), FINAL)}.",
        f"Averaged along the run, PPP is {against((RANDOM, PROBABILITY), ALONG)}.",
        f"By the oracle's stop, the paper's measure, PPP is {against((SUPERVISED, RANDOM, PROBABILITY), ORACLE)}.",
        *_oracle([each for each in main if each.simulated]),
        *_published(main),
        f"Of the paper's hypotheses, as they are read here, {_by_verdict(found)}.",
        *_changing(found),
    ]
    columns = [
        *((first, second, FINAL) for first, second in ((EP, SUPERVISED), (RANDOM, SUPERVISED))),
        *((EP, rival, measure) for measure in MEASURES for rival in (RANDOM, PROBABILITY)),
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


def _oracle(simulated: Sequence[Summary]) -> list[str]:
    if not simulated:
        return []
    gained, real = (pooled(simulated, EP, SUPERVISED, measure) for measure in (ORACLE, ORACLE_FRESH))
    return [
        f"How much of the oracle's gain is real: in the simulations it credits PPP with {marked(gained)} points over the "
        f"supervised model, and on fresh rows the same models gain {marked(real)}."
    ]


def _published(main: Sequence[Summary]) -> list[str]:
    held = [each for each in main if each.has(ORIGINAL, GLM_RANDOM)]
    if not held:
        return []
    gap, prior = pooled(held, ORIGINAL, GLM_RANDOM, ORACLE), pooled(held, SUPERVISED, GLM_SUPERVISED)
    return [
        f"The published code's PPP, emulated, is by the oracle's stop {stands(gap, 'random selection by the same `glm`')}.",
        f"Without any pseudo-label, the Bayesian model is {stands(prior, '`glm` on the same labeled rows')}.",
    ]


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
        other = [
            f"{name}: {there.word}"
            for name, (here, there) in {**by_measure, **approximation}.items()
            if here and there and here.word != there.word
        ]
        changes += [f"{each.name} ({', '.join(other)})"] if other else []
    return [f"Other verdicts by another measure or approximation: {'; '.join(changes)}."] if changes else []


def verdicts(found: Sequence[Hypothesis]) -> list[str]:
    """The hypotheses, and whether other measures and Laplace's PPP would have changed their verdicts."""
    return ["## Verdict", prose.VERDICTS, *map(_told, found), _otherwise(found), prose.OTHERWISE]


def _told(each: Hypothesis) -> str:
    settings = words.named(each.summaries) if len(each.summaries) <= FEW else ""
    parts = {
        "Where": f"{each.where}{settings}.",
        "Compared": "; ".join(words.compared(one) for one in each.comparisons) or words.NONE,
        "Beside it": "; ".join(words.compared(one) for one in each.beside) or words.NONE,
        **{name: "; ".join(words.compared(one) for one in held) for name, held in each.apart.items() if held},
    }
    return f"**{each.name}. {each.expected}** {words.judged(each.verdict)}\n\n" + bullets(
        [f"{name}: {text}" for name, text in parts.items()]
    )


def _otherwise(found: Sequence[Hypothesis]) -> str:
    rows = []
    for each in found:
        by_measure = {measure: words.brief(each.by(EP, measure)) for measure in MEASURES}
        by_measure[each.measure] = f"**{by_measure[each.measure]}**"
        approximations = (words.brief(each.by(method, each.measure, EP, PPP)) for method in (EP, PPP))
        rows.append([each.name, *by_measure.values(), *approximations])
    return table(["", *MEASURES, "where Laplace's PPP was run, by EP", "and by Laplace"], rows)
