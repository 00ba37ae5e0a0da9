"""The report's tables: methods against each other, by setting and over settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from validation.paper.report import wording
from validation.paper.report.wording import Column, accuracy, bold, by_setting, difference
from validation.paper.settings import (
    BAYESIAN,
    EP,
    FLAT,
    GAM,
    GLM,
    GLM_PROBABILITY,
    GLM_RANDOM,
    GLM_SUPERVISED,
    GLM_VARIANCE,
    IBPLS,
    INFORMATIVE,
    LIKELIHOOD,
    MARGINAL,
    ORIGINAL,
    PPP,
    PROBABILITY,
    RANDOM,
    SETTINGS,
    STRENGTH,
    SUPERVISED,
    TRADITIONAL,
    WEAK,
)
from validation.paper.summary import (
    ALONG,
    FINAL,
    LOG_GAIN,
    ORACLE,
    ORACLE_FRESH,
    STOPPED,
    TRUE,
    Summary,
    average,
    of,
    pooled,
    weak,
)
from validation.paper.verdicts import compare
from validation.study.intervals import LEVEL
from validation.study.markdown import bullets, table


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
        methods = (ORIGINAL, GLM_RANDOM, GLM_VARIANCE, GLM_PROBABILITY)
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


_PRIOR: Column = ("prior", lambda each: wording.prior_in_words(each.setting.prior))


def strength(summaries: Mapping[str, Summary]) -> list[str]:
    """Prior strength as a factor."""
    where = {(each.source, each.features, each.unlabeled) for each in STRENGTH}
    these = [each for each in SETTINGS if (each.source, each.features, each.unlabeled) in where]
    held = sorted(weak(of(summaries, these)), key=lambda each: (each.setting.n, each.setting.prior.sd))
    if not held:
        return []
    columns = (
        ("labels per parameter", lambda each: f"{each.labels_a_parameter:.2f}"),
        accuracy(SUPERVISED),
        accuracy(EP),
        *(difference(EP, rival) for rival in (SUPERVISED, PROBABILITY, RANDOM)),
        *((f"{name}, along", cell) for name, cell in (difference(EP, rival, ALONG) for rival in (PROBABILITY, RANDOM))),
    )
    first: Column = ("setting", lambda each: f"{each.setting.title}, sd {each.setting.prior.sd:g}")
    return [
        "## Prior strength, from informative to nearly flat",
        _pooled_by_sd(held, (SUPERVISED, RANDOM, PROBABILITY)),
        by_setting(columns, held, first),
    ]


def _pooled_by_sd(summaries: Sequence[Summary], rivals: Sequence[str]) -> str:
    """What PPP gains under each strength of the prior, over the tables that have all strengths."""
    by_sd: dict[float, list[Summary]] = {}
    for each in summaries:
        by_sd.setdefault(each.setting.prior.sd, []).append(each)
    common = set.intersection(*({_table(each) for each in held} for held in by_sd.values()))
    by_sd = {sd: these for sd, held in by_sd.items() if (these := [each for each in held if _table(each) in common])}
    rows = [
        [
            f"{sd:g}",
            str(len(held)),
            *(bold(pooled(held, EP, rival, how)) for how in (FINAL, ALONG) for rival in rivals),
        ]
        for sd, held in sorted(by_sd.items())
    ]
    names = [f"PPP − {wording.NAMES[rival]}{when}" for when in ("", ", along") for rival in rivals]
    return table(["sd", "settings", *names], rows)


def _table(each: Summary) -> tuple[str, str, int]:
    return each.setting.source, each.setting.basis, each.setting.n


def region(main: Sequence[Summary]) -> list[str]:
    """Where PPP gains, in wording."""
    sentences = [_counted(main, rival, measure) for measure in (FINAL, ALONG) for rival in (SUPERVISED, RANDOM, PROBABILITY)]
    return ["## Where selection by PPP gains, or avoids a loss", bullets(sentences)] if main else []


def _counted(main: Sequence[Summary], rival: str, measure: str) -> str:
    found = [(each, each.difference(EP, rival, measure)) for each in main if each.repetitions > 1]
    better, worse = ([each for each, gap in found if gap.sign == sign] for sign in (1, -1))
    chance = len(found) * (1 - LEVEL) / 2
    when = "With all pseudo-labels" if measure == FINAL else "Averaged along the run"
    return (
        f"{when}, against {wording.NAMES[rival]}: PPP is better in {len(better)} of {len(found)} settings of the main "
        f"tables{wording.titles(better)} and worse in {len(worse)}{wording.titles(worse)}; {chance:.1f} in each direction "
        "would be expected by chance if no method differed anywhere."
    )


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
            *((f"{name}, this prior − the weak one", _cost(method, summaries)) for method, name in _OF_A_PRIOR.items()),
        )
        parts += [f"## Informative and wrong priors: {name}", by_setting(columns, held)]
    if parts:
        parts += [_by_strength_around_the_truth(summaries), wording.ABOUT_PRIORS]
    return parts


def _by_strength_around_the_truth(summaries: Mapping[str, Summary]) -> str:
    """What PPP gains with each strength of a prior around the truth, GLM and GAM together."""
    held = [each for each in of(summaries, (*INFORMATIVE, *GAM)) if each.setting.prior.centre == "truth"]
    by_sd = _pooled_by_sd(held, (SUPERVISED, *TRADITIONAL))
    return f"By the sd of a prior around the truth, GLM and GAM together:\n\n{by_sd}"


_OF_A_PRIOR = {SUPERVISED: "supervised", EP: "PPP"}


def _cost(method: str, summaries: Mapping[str, Summary]) -> Callable[[Summary], str]:
    """A method with the setting's prior minus the same with the weak prior."""

    def cell(each: Summary) -> str:
        other = summaries.get(replace(each.setting, prior=WEAK).key)
        return wording.NONE if other is None or each.setting.prior == WEAK else bold(each.against(other, method))

    return cell


def stopping(summaries: Sequence[Summary]) -> list[str]:
    """What the oracle hides, over the settings with fresh rows."""
    held = [each for each in summaries if each.simulated]
    if not held:
        return []
    rows = []
    for kind in ((EP, LIKELIHOOD, *TRADITIONAL), GLM):
        these = [each for each in held if each.has(*kind)]
        for method in kind if these else ():
            cells = [_over_supervised(these, method, measure) for measure in (ORACLE, ORACLE_FRESH, STOPPED, FINAL)]
            rows.append([wording.NAMES[method], str(len(these)), *cells])
    header = [
        "method",
        "settings",
        "oracle, by its own test rows",
        "the same model on fresh rows",
        "stop by the labeled rows",
        "final",
    ]
    return ["## What oracle stopping hides", table(header, rows), wording.ABOUT_STOPPING]


def _over_supervised(summaries: Sequence[Summary], method: str, measure: str) -> str:
    if method not in GLM:
        return bold(pooled(summaries, method, SUPERVISED, measure))
    return wording.NONE if measure == STOPPED else bold(pooled(summaries, method, GLM_SUPERVISED, measure))


def labels(summaries: Sequence[Summary]) -> list[str]:
    """What pseudo-labels are worth by method."""
    held = [each for each in summaries if each.has(*BAYESIAN)]
    if not held:
        return []
    rows = []
    for method in BAYESIAN:
        true, gain = average(held, method, TRUE), average(held, method, LOG_GAIN)
        accuracies = [bold(pooled(held, method, SUPERVISED, measure)) for measure in (FINAL, ALONG)]
        rows.append([wording.NAMES[method], str(len(held)), true.text("{:.1f}"), *accuracies, bold(gain, "{:+.2f}")])
    header = [
        "method",
        "settings",
        "true pseudo-labels (%)",
        "accuracy gained",
        "accuracy gained, along",
        "log score gained (nats)",
    ]
    return ["## What the pseudo-labels are worth", table(header, rows), wording.ABOUT_LABELS]


def approximations(summaries: Sequence[Summary]) -> list[str]:
    """PPP by EP against its approximations and relatives."""
    pairs = [(EP, PPP), (PPP, IBPLS), (PPP, MARGINAL), *((EP, name) for name in FLAT)]
    found = [one for measure in (FINAL, ALONG) for one in compare(summaries, pairs, measure)]
    sentences = [f"{wording.comparison_in_words(one)}." for one in found]
    return ["## Approximations of PPP against each other", bullets(sentences)] if found else []
