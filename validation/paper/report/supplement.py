"""The report's parts on the supplement's settings, on where PPP is worth it, and on priors against models without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from validation.paper.hypotheses import GOOD, POOR, RIVALS_BY_GLM, easy, hard
from validation.paper.report import wording
from validation.paper.report.wording import Column, accuracy, bold, by_setting, difference, position
from validation.paper.settings import EP, GLM_PROBABILITY, GLM_SUPERVISED, PROBABILITY, RANDOM, SUPERVISED, Setting
from validation.paper.summary import ALONG, FINAL, ORACLE, Summary, pooled
from validation.paper.verdicts import MARGIN
from validation.paper.winners import DESIGNS, Match, counted, leads, printed_for
from validation.study.intervals import Interval
from validation.study.markdown import bullets, table

DESIGN = {"text": "by the text's design (all features act)", "code": "by the code's design (one of 60 features acts)"}
WHEN = {ORACLE: "by the oracle's stop", FINAL: "with all pseudo-labels"}


def winners_in_short(matched: Mapping[str, Sequence[tuple[Match, Match]]]) -> list[str]:
    """How many of the printed winners the intervals speak for and against."""
    sentences = []
    for name, held in matched.items():
        if held:
            parts = [f"{WHEN[each[0].measure]} {_counts([one.word for one in each])}" for each in zip(*held, strict=True)]
            ends = [end for _, end in held]
            among = [end.among_selectors for end in ends if end.among_selectors]
            sentences.append(
                f"Of the winners that the supplement prints, {DESIGN[name]}: {'; '.join(parts)}. Without the supervised model, "
                f"which has our prior, the methods that select rows have, with all pseudo-labels: {_counts(among)}."
            )
    return sentences


def _counts(words: Sequence[str | None]) -> str:
    return ", ".join(f"{word} in {number}" for word, number in counted(words).items()) + f" of {len(words)}"


def winners(matched: Mapping[str, Sequence[tuple[Match, Match]]]) -> list[str]:
    """Setting by setting."""
    if not any(matched.values()):
        return []
    parts = ["## The winners of the supplement's twenty settings", wording.ABOUT_WINNERS]
    for name, held in matched.items():
        if not held:
            continue
        header = ["setting", "R"]
        for when in (ORACLE, FINAL):
            header += [f"{when}: the paper's", "here, by the mean", "printed winner − best other", "verdict"]
        header.append("among selectors")
        rows = [
            [
                one.summary.setting.title,
                str(one.summary.repetitions),
                *_cells(one),
                *_cells(end),
                end.among_selectors or wording.NONE,
            ]
            for one, end in held
        ]
        rows += [_waiting(each) for each in DESIGNS[name] if each.key not in {one.summary.setting.key for one, _ in held}]
        parts += [f"{DESIGN[name].capitalize()}: {'; '.join(map(_leads, zip(*held, strict=True)))}.", table(header, rows)]
    return parts


def _leads(found: Sequence[Match]) -> str:
    counts = leads(found)
    return (
        f"{WHEN[found[0].measure]} a lead of {MARGIN:g} point between PPP and the probability score, whichever is ahead, is "
        f"shown in {counts.shown}, excluded in {counts.excluded} and open in {counts.open} of {counts.settings} settings, by "
        "intervals corrected for the table"
    )


def _waiting(setting: Setting) -> list[str]:
    """A setting with too few repetitions, or none."""
    cells = [[_methods(printed), *[wording.NONE] * 2, "too few repetitions yet"] for printed in printed_for(setting)]
    return [setting.title, wording.NONE, *cells[0], *cells[1], wording.NONE]


def _methods(names: Sequence[str]) -> str:
    return " / ".join(wording.NAMES[name] for name in names)


def _cells(found: Match) -> list[str]:
    lead = f"{bold(found.ahead)} ({wording.NAMES[found.printed[0]]} − {wording.NAMES[found.rival]})"
    return [_methods(found.printed), wording.NAMES[found.best], lead, found.word]


def where(main: Sequence[Summary]) -> list[str]:
    """PPP's advantage by the paper's proxies, and the sentence for practitioners."""
    regions = {
        f"hard: fewer labels than parameters, supervised accuracy below {POOR:g}%": [each for each in main if hard(each)],
        "between": [each for each in main if not hard(each) and not easy(each)],
        f"easy: more labels than parameters, supervised accuracy of {GOOD:g}% or more": [each for each in main if easy(each)],
    }
    regions = {name: held for name, held in regions.items() if held}
    if not regions:
        return []
    columns = [(rival, measure) for measure in (ALONG, FINAL) for rival in (RANDOM, PROBABILITY, SUPERVISED)]
    rows = [[name, str(len(held)), *(bold(pooled(held, EP, *column)) for column in columns)] for name, held in regions.items()]
    header = ["settings that are", "number", *(f"PPP − {wording.NAMES[rival]}, {measure}" for rival, measure in columns)]
    return ["## Where PPP is worth it", _for_practitioners(regions), table(header, rows)]


def _for_practitioners(regions: Mapping[str, Sequence[Summary]]) -> str:
    """What to do, as far as the intervals carry it."""
    sentences = [_against_no_labels(regions, measure) for measure in (ALONG, FINAL)]
    by_rival = {
        measure: [
            _over_regions(rival, {name: pooled(held, EP, rival, measure) for name, held in regions.items()})
            for rival in (RANDOM, PROBABILITY)
        ]
        for measure in (ALONG, FINAL)
    }
    return (
        f"For practitioners: PPP is {'; '.join(sentences)}. Among ways to select, it is along the run "
        f"{'; '.join(by_rival[ALONG])}. With all pseudo-labels it is {'; '.join(by_rival[FINAL])}. Intervals are not "
        "corrected, and the thresholds between the kinds of settings are ours."
    )


def _against_no_labels(regions: Mapping[str, Sequence[Summary]], measure: str) -> str:
    """In which regions pseudo-labels cost or gain accuracy against none."""
    gaps = {name: pooled(held, EP, SUPERVISED, measure) for name, held in regions.items()}
    said = [
        f"{position(gap, wording.LONG[SUPERVISED])} in {_settings(name)} ({_kinds(regions[name])})"
        for name, gap in gaps.items()
    ]
    when = "with all pseudo-labels" if measure == FINAL else "averaged along the run"
    return f"{when} {', '.join(said)}"


def _kinds(held: Sequence[Summary]) -> str:
    """How many settings are simulated, how many real."""
    simulated = sum(each.simulated for each in held)
    parts = [f"{number} {kind}" for number, kind in ((simulated, "simulated"), (len(held) - simulated, "real")) if number]
    return ", ".join(parts)


def _over_regions(rival: str, found: Mapping[str, Interval]) -> str:
    if not any(gap.sign for gap in found.values()):
        return f"not to be told from {wording.LONG[rival]} on average of any kind"
    return ", ".join(f"{position(gap, wording.LONG[rival])} in {_settings(name)}" for name, gap in found.items())


def _settings(name: str) -> str:
    return {"hard": "hard settings", "between": "settings between", "easy": "easy settings"}[name.split(":")[0]]


def informed_in_short(held: Sequence[Summary]) -> list[str]:
    """What a prior around the truth gains before any row is selected, and after."""
    if not held:
        return []
    by_prior, by_training, advantage, of_rival = (
        pooled(held, *pair)
        for pair in ((SUPERVISED, GLM_SUPERVISED), (EP, SUPERVISED), (EP, GLM_SUPERVISED), (GLM_PROBABILITY, GLM_SUPERVISED))
    )
    by_sd = {sd: [each for each in held if each.setting.prior.sd == sd] for sd in {each.setting.prior.sd for each in held}}
    trained = [f"{bold(pooled(these, EP, SUPERVISED))} at sd {sd:g}" for sd, these in sorted(by_sd.items())]
    return [
        f"With a prior around the truth, PPP is {position(advantage, 'the supervised model without one')}: the prior gains "
        f"{bold(by_prior)} before any pseudo-label, and self-training by PPP then {bold(by_training)} ({', '.join(trained)}). "
        f"Self-training by the probability score without a prior gains {bold(of_rival)}."
    ]


def informed(held: Sequence[Summary]) -> list[str]:
    """What a prior around the truth is worth against models without one, selection apart and with it."""
    if not held:
        return []
    prior: Column = ("prior", lambda each: wording.prior_in_words(each.setting.prior))
    columns: tuple[Column, ...] = (
        prior,
        accuracy(SUPERVISED),
        accuracy(GLM_SUPERVISED),
        accuracy(EP),
        difference(SUPERVISED, GLM_SUPERVISED),
        difference(EP, SUPERVISED),
        *(difference(EP, rival) for rival in RIVALS_BY_GLM),
    )
    advantage, by_prior, by_training = (
        pooled(held, *pair) for pair in ((EP, GLM_SUPERVISED), (SUPERVISED, GLM_SUPERVISED), (EP, SUPERVISED))
    )
    # other priors have the same splits
    splits = {
        (at.source, at.features, at.n, at.unlabeled, number): record["separated"]
        for at, records in ((each.setting, each.records) for each in held)
        for number, record in records.items()
    }
    separated, every = sum(splits.values()), len(splits)
    said = bullets(
        [
            f"With all pseudo-labels, PPP with the prior is {position(advantage, 'the supervised model without one')}. Of "
            f"this, the prior without any pseudo-label makes {bold(by_prior)}, and self-training by PPP {bold(by_training)}.",
            f"The labeled rows are separated in {separated} of {every} splits, where every likelihood by `glm` is 1 up to "
            "rounding, so that the likelihood cannot choose.",
        ]
    )
    return ["## Informative priors against models without one", said, by_setting(columns, held), wording.ABOUT_WITHOUT_PRIOR]
