"""The parts of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from validation.paper import words
from validation.paper.hypotheses import GOOD, MARGIN, POOR, Hypothesis, compare, hypotheses
from validation.paper.original import EVERY
from validation.paper.repetition import FRESH
from validation.paper.settings import (
    CODE,
    EP,
    FLAT,
    GAM,
    GLM_PROBABILITY,
    GLM_RANDOM,
    IBPLS,
    INFORMATIVE,
    LEAST,
    LIKELIHOOD,
    MARGINAL,
    ORIGINAL,
    PPP,
    PROBABILITY,
    RANDOM,
    SETTINGS,
    STRENGTH,
    TRADITIONAL,
    VARIANCE,
    WEAK,
    Setting,
)
from validation.paper.summary import ALONG, FINAL, ORACLE, ORACLE_FRESH, STOPPED, SUPERVISED, Summary, of, pooled, weak
from validation.paper.tables import POPULATION, SHIFT, WIGGLY
from validation.paper.words import Column, accuracy, by_setting, difference, marked
from validation.study.intervals import LEVEL
from validation.study.markdown import bullets, table
from validation.study.splits import TEST_SHARE

BAYESIAN = (EP, PPP, LIKELIHOOD, VARIANCE, PROBABILITY, RANDOM)


def protocol() -> str:
    """What was done, and where it departs from the paper."""
    return f"""Remade by `python -m validation.paper`. Section 4 of Rodemann et al. (UAI 2023) and its supplement, by their
protocol: of n rows, drawn anew in every repetition, a share of {TEST_SHARE} is for testing, and of the rest a share of 0.8 or
0.9 is unlabeled (splits without a labeled row of each class are drawn again); a run adds one pseudo-labeled row a round, with
the label that the model predicts, until the pool is empty. Where this study departs from the paper:

- The model is Bayesian throughout: a logistic regression with intercept on features standardised over the table, coefficients
  Normal(0, {WEAK.sd:g}²) unless a prior is named. With few labels the classes are mostly separated and the maximum of the
  likelihood, on which the paper's criteria rest, does not exist. "Likelihood" (max-max, Theorem 3) is therefore taken at the
  mode with the prior; `uBPLS` and `reference`, which have no prior, are run only where the labeled rows are not separated.
- "PPP" is the pseudo posterior predictive by expectation propagation, the most exact of the package's fast approximations;
  Laplace's, which is the paper's (Eq. 6), is beside it.
- All methods are compared on equal terms: the accuracies are those of the models that hold 0 to m pseudo-labels. The authors'
  code took the model before adding the row for some methods and after adding it for others.
- Simulated rows come from a population of {POPULATION}, and models are judged on {FRESH} further rows of it, which measures the
  same accuracy with less noise than n/2 test rows; the oracle sees the test rows only, as in the paper. "{CODE}" is the
  design of the authors' script (q = 60 features, of which the first acts), "supplement" the one that the paper describes (all
  features act); the list of the supplement's 20 pairs (n, q) was not at hand, and those of the grid are our choice.
- `original` emulates the authors' code: R's `glm` on raw features (at most 25 steps, dependent columns dropped, separated fits
  as they end), PPP with a determinant that underflows, ties to the first row. Its rivals by `glm` are beside it.
- GAM: cubic splines of every feature with a fixed penalty on roughness, as normal coefficients whose sd is {WIGGLY:g} of the
  straight part's; "curved effects" has sinusoidal effects of 3 features. No script of the authors for it was found."""


def reached(summaries: Sequence[Summary]) -> str:
    """How much of the study is there."""
    wanted = {each.key: each.repetitions for each in SETTINGS}
    done = sum(min(each.repetitions, wanted.get(each.setting.key, each.repetitions)) for each in summaries)
    fewest = min(each.repetitions for each in summaries)
    short = sum(each.repetitions < LEAST for each in summaries)
    rest = f" {short} settings have fewer than {LEAST} yet." if short else ""
    return (
        f"R is the number of repetitions, at least {fewest} here.{rest} Of the {sum(wanted.values())} repetitions of {len(wanted)} "
        f"settings that `--full` aims at, {done} are in these tables; the command goes on from there."
    )


def verdicts(summaries: Mapping[str, Summary], main: Sequence[Summary]) -> list[str]:
    """The hypotheses."""
    found = hypotheses(dict(summaries), main)
    rows = [
        [
            each.name,
            each.expected,
            f"{each.where} ({max((one.settings for one in each.comparisons), default=0)} settings)",
            "<br>".join(words.compared(one) for one in each.comparisons) or words.NONE,
            "<br>".join(words.compared(one) for one in each.beside) or words.NONE,
            f"**{each.verdict}**",
        ]
        for each in found
    ]
    header = ["", "the paper expects", "where", "what came out (points)", "against random", "verdict"]
    return ["## Verdict", bullets(_sentences(found, main)), table(header, rows), _RULES]


_RULES = f"""The hypotheses are in our words, from what is known of the paper; the wording of H2 was not at hand, and H2b is what
we took it for. Differences are final accuracies, with all pseudo-labels, unless it says along (the mean over the run), averaged
over settings and paired by repetition, with {LEVEL:.0%} intervals. A verdict takes intervals widened for the number of its
comparisons (Bonferroni). That one method beats several is supported where every interval is above 0, and not supported where one
ends below {MARGIN:g} point: then its advantage over that rival is less than {MARGIN:g} point, if there is any. Anything else is
undecided."""


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
        sentences.append(f"PPP over all {len(main)} settings of the main tables, {when}, minus {listed} points.")
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
        accuracy(ORIGINAL),
        difference(ORIGINAL, GLM_RANDOM),
        difference(ORIGINAL, GLM_PROBABILITY),
        difference(GLM_RANDOM, GLM_PROBABILITY),
    )
    return ["## What the original PPP was", _explained(held), by_setting(columns, held), _ORIGINAL]


_ORIGINAL = f"""Final accuracies. All candidates are valued in every {EVERY}th round. Rows are offered in random order, so that taking the
first one is random selection, and "random by `glm`" offers the same rows in the same order: where every value is +Inf both are
the same run. The round from which on the first row is always taken is a median over repetitions."""


def _explained(held: Sequence[Summary]) -> str:
    random = [each for each in held if each.original["infinite"] >= 99]
    mostly = [each for each in held if each.original["first"] >= 90]
    paired = [each for each in held if each.has(ORIGINAL, GLM_PROBABILITY)]
    sentences = [
        f"In {len(random)} of {len(held)} settings at least 99% of the original PPP's values are +Inf, and in {len(mostly)} it takes "
        f"the first row in at least 90% of rounds{_named(mostly)}. There it is random selection.",
    ]
    measures = ((FINAL, "with all pseudo-labels"), (ORACLE, "by the oracle's stop"))
    for measure, when in measures:
        own, chance = (pooled(paired, first, GLM_PROBABILITY, measure) for first in (ORIGINAL, GLM_RANDOM))
        gap = pooled(paired, ORIGINAL, GLM_RANDOM, measure)
        sentences.append(
            f"Over the {len(paired)} settings with both, {when}, the original PPP minus the probability score by the same `glm` is "
            f"{marked(own)} points, and random selection minus the probability score {marked(chance)}; between the original PPP "
            f"and random selection lie {marked(gap)}."
        )
    return bullets(sentences)


def _named(summaries: Sequence[Summary]) -> str:
    return f" ({'; '.join(each.setting.title for each in summaries)})" if summaries else ""


def main(summaries: Sequence[Summary]) -> str:
    """Accuracies and paired differences: final, along the run, and by the oracle."""
    glm = [each for each in summaries if each.has(ORIGINAL)]
    parts = [
        "Accuracy with all pseudo-labels (%):",
        by_setting((accuracy(SUPERVISED), *map(accuracy, BAYESIAN)), summaries),
        "PPP minus the others (points), with all pseudo-labels:",
        by_setting(tuple(difference(EP, rival) for rival in (SUPERVISED, LIKELIHOOD, *TRADITIONAL)), summaries),
        "PPP minus the others (points), averaged along the run:",
        by_setting(tuple(difference(EP, rival, ALONG) for rival in (LIKELIHOOD, *TRADITIONAL)), summaries),
    ]
    if glm:
        methods = (ORIGINAL, GLM_RANDOM, "glm_variance", GLM_PROBABILITY)
        parts += [
            "As the original code had it, by `glm` on raw features: accuracy with all pseudo-labels, then by the oracle (%):",
            by_setting(
                (*map(accuracy, methods), *((f"{n}, oracle", c) for n, c in (accuracy(m, ORACLE) for m in methods))), glm
            ),
        ]
    return "\n\n".join(parts)


def grid(summaries: Sequence[Summary]) -> str:
    """The grid in one table."""
    columns = (
        accuracy(SUPERVISED),
        accuracy(EP),
        *(difference(EP, rival) for rival in (SUPERVISED, LIKELIHOOD, *TRADITIONAL)),
        (f"{difference(EP, RANDOM)[0]}, along", difference(EP, RANDOM, ALONG)[1]),
    )
    return "Accuracy and differences with all pseudo-labels.\n\n" + by_setting(columns, summaries)


def share(summaries: Sequence[Summary]) -> str:
    """With fewer labels."""
    columns = (accuracy(SUPERVISED), accuracy(EP), *(difference(EP, rival) for rival in (SUPERVISED, PROBABILITY, RANDOM)))
    return by_setting(columns, summaries)


_PRIOR: Column = ("prior", lambda each: words.prior(each.setting.prior))


def strength(summaries: Mapping[str, Summary]) -> list[str]:
    """Prior strength as a factor."""
    centred = weak(of(summaries, (*STRENGTH, *_of_grid())))
    held = sorted(centred, key=lambda each: (each.setting.n, each.setting.prior.sd))
    if not held:
        return []
    columns = (
        ("labels a parameter", lambda each: f"{each.labels_a_parameter:.2f}"),
        accuracy(SUPERVISED),
        accuracy(EP),
        *(difference(EP, rival) for rival in (SUPERVISED, PROBABILITY, RANDOM)),
        *((f"{name}, along", cell) for name, cell in (difference(EP, rival, ALONG) for rival in (PROBABILITY, RANDOM))),
    )
    first: Column = ("setting", lambda each: f"{each.setting.title}, sd {each.setting.prior.sd:g}")
    return ["## Prior strength, from informative to nearly flat", by_setting(columns, held, first)]


def _of_grid() -> list[Setting]:
    """The settings of the study of prior strength that the grid holds."""
    where = {(each.source, each.features) for each in STRENGTH}
    return [each for each in SETTINGS if (each.source, each.features) in where and each.prior.centre == "zero"]


def region(main: Sequence[Summary]) -> list[str]:
    """Where PPP gains, in words."""
    sentences = []
    for rival in (SUPERVISED, RANDOM, PROBABILITY):
        found = [(each, each.difference(EP, rival)) for each in main if each.repetitions > 1]
        better, worse = ([each for each, gap in found if gap.sign == sign] for sign in (1, -1))
        sentences.append(
            f"Against {words.NAMES[rival]}, PPP is better in {len(better)} of {len(found)} settings of the main tables{_named(better)} "
            f"and worse in {len(worse)}{_named(worse)}; by chance alone about {len(found) * (1 - LEVEL) / 2:.1f} either way are "
            "expected."
        )
    return ["## Where selection by PPP gains, or avoids a loss", bullets(sentences)] if main else []


def informative(summaries: Mapping[str, Summary]) -> list[str]:
    """Priors around the truth and wrong ones."""
    parts = []
    for name, settings in (("a GLM", INFORMATIVE), ("a GAM", GAM)):
        held = of(summaries, settings)
        if not held:
            continue
        columns: tuple[Column, ...] = (
            _PRIOR,
            accuracy(SUPERVISED),
            accuracy(EP),
            *(difference(EP, rival) for rival in (SUPERVISED, *TRADITIONAL)),
            ("PPP − PPP with the weak prior", lambda each: _cost(each, summaries)),
        )
        parts += [f"## Informative and wrong priors: {name}", by_setting(columns, held)]
    if parts:
        parts.append(_PRIORS)
    return parts


_PRIORS = f"""All methods have the prior in question. "Shifted" adds {SHIFT:g} to every coefficient. The last column is what a prior gains or
costs, selection apart: the final accuracy of PPP with it minus that with the weak one (around 0, sd {WEAK.sd:g}), on the same
splits. For a GAM the truth is the nearest spline's."""


def _cost(each: Summary, summaries: Mapping[str, Summary]) -> str:
    """PPP with the setting's prior minus PPP with the weak prior."""
    other = summaries.get(replace(each.setting, prior=WEAK).key)
    if other is None or each.setting.prior == WEAK:
        return words.NONE
    return marked(each.against(other, EP))


def stopping(summaries: Sequence[Summary]) -> list[str]:
    """What the oracle hides, over the settings with fresh rows."""
    held = [each for each in summaries if each.simulated]
    if not held:
        return []
    rows = []
    for method in (EP, LIKELIHOOD, *TRADITIONAL):
        these = [each for each in held if each.has(method)]
        cells = [_over_supervised(these, method, measure) for measure in (ORACLE, ORACLE_FRESH, STOPPED, FINAL)]
        rows.append([words.NAMES[method], str(len(these)), *cells])
    header = [
        "method",
        "settings",
        "oracle, by its own test rows",
        "the same model on fresh rows",
        "stop by the labeled rows",
        "final",
    ]
    return ["## What oracle stopping hides", table(header, rows), _STOPPING]


def _over_supervised(summaries: Sequence[Summary], method: str, measure: str) -> str:
    return marked(pooled(summaries, method, SUPERVISED, measure))


_STOPPING = """Gain over the supervised model in points, over the simulated settings of the main tables. The oracle stops where
most test rows are right and is credited with these rows; among so many models on so few rows the best is partly the luckiest, and the
same model on fresh rows shows how much of its gain is real. A stop that anyone can use is the one at the best approximate leave-one-out
log score on the labeled rows."""


def approximations(summaries: Sequence[Summary]) -> list[str]:
    """PPP by EP against its approximations and relatives."""
    pairs = [(EP, PPP), (PPP, IBPLS), (PPP, MARGINAL), *((EP, name) for name in FLAT)]
    found = [one for measure in (FINAL, ALONG) for one in compare(summaries, pairs, measure)]
    return (
        ["## Approximations of PPP against each other", bullets([f"{words.compared(one)}." for one in found])] if found else []
    )


READING = f"""- Intervals are {LEVEL:.0%} t intervals over repetitions, of differences paired by repetition, in percentage points; bold ones exclude 0.
  None but those of the verdicts is corrected for their number: of twenty such intervals one excludes 0 by chance.
- Repetitions on one real table share rows: intervals speak of splits of that table, not of new data. Differences over several
  settings are averaged in every repetition first, since settings share the seeds of their repetitions.
- "Hard" settings, of H1a, have fewer labels than parameters and a supervised accuracy below {POOR:g}%; "easy" ones, of H1b, at least as
  many labels as parameters and {GOOD:g}% or more. What lies between speaks for neither.
- With all pseudo-labels every run holds the same rows, and methods differ only by the labels that rows got on the way."""
