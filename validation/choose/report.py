"""The report: how often a choice did harm, what there was to gain and was gained, and settings of the study of the paper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from pymc_bpls.choosing.bound import FEWEST
from pymc_bpls.choosing.pipelines import SUPERVISED
from pymc_bpls.choosing.sentences import LOSS_IN_WORDS
from validation.choose import rare
from validation.choose.cases import (
    ALPHA,
    FOLDS,
    GROUPS,
    NULL,
    OF_PAPER,
    OF_POWER,
    PAPER,
    PARTS,
    POOLED,
    POWER,
    REPEATS,
    REPETITIONS,
    SIZE,
    Case,
)
from validation.choose.rare_report import say_rare, upper_bound
from validation.choose.repetition import AT_ONCE, BETTING, BOUND, LOSS_OF, LOSS_OF_POWER, OF_PART, ROUNDS
from validation.choose.tables import FRESH, PREDICTOR
from validation.paper.runs.repetition import FRESH as FRESH_OF_PAPER
from validation.paper.settings import Setting
from validation.paper.store import protocol as paper_protocol
from validation.study.intervals import LEVEL, Interval
from validation.study.markdown import table
from validation.study.ratios import DRAWS, SEED, Ratio
from validation.study.store import Record, Store

#: The share of the gate's gain that the bound is required to reach.
REQUIRED = 0.5
Records = Mapping[Case, Mapping[int, Record]]


def write(store: Store[Case], path: Path) -> Path | None:
    """Write the report from what is stored, if anything is."""
    held = {part: {case: store.read(case) for case, _ in cases} for part, cases in PARTS.items()}
    found = {part: {case: records for case, records in of_part.items() if records} for part, of_part in held.items()}
    published = Store(store.folder.parent / "paper", paper_protocol)
    of_rare = Store(store.folder, rare.protocol)
    rare_cells = {cell: records for cell in rare.CELLS if (records := of_rare.read(cell))}
    if not any(found.values()) and not rare_cells:
        return None
    sections = [
        "# Choosing by labeled rows",
        "`python -m validation.choose rare null size paper power pooled` computes what is missing in "
        "`validation/results/choose`, and writes this. "
        "A choice is between the supervised model, logistic regression under Normal(0, 2.5), and others; "
        f"{FOLDS[SIZE]} folds if nothing else is said, alpha = {ALPHA:g}. "
        f"Differences are in points of accuracy; ± is half of a {LEVEL:.0%} t interval over repetitions. "
        f'In all parts but the first, models have `predictor="{PREDICTOR}"`.',
        say_rare(rare_cells),
        _size(found[SIZE] | found[POOLED]),
        _null(found[NULL]),
        _power(found[POWER]),
        _paper(found[PAPER], published),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(filter(None, sections)) + "\n", encoding="utf-8")
    return path


def left_for_worse(record: Record, rule: str) -> bool:
    """Whether a rule left the supervised model for one with a larger loss, of the rule's own kind, on the rows that judge."""
    chosen, judged, loss = record[rule]["chosen"], record["judged"], LOSS_OF[rule]
    return chosen != SUPERVISED and judged[chosen][loss] > judged[SUPERVISED][loss]


def gain(record: Record, name: str) -> float:
    """Accuracy of a pipeline above that of the supervised model, on the rows that judge."""
    return float(record["judged"][SUPERVISED]["zero_one"] - record["judged"][name]["zero_one"])


def _size(found: Records) -> str:
    """How often each rule left the supervised model, and for a worse one."""
    if not found:
        return ""
    rows, bounds = [], []
    for case, by_number in found.items():
        records = list(by_number.values())
        for rule in (BOUND, BETTING):
            n = len(records)
            left = sum(record[rule]["chosen"] != SUPERVISED for record in records)
            worse = sum(left_for_worse(record, rule) for record in records)
            bounds.append(upper_bound(worse, n))
            shares = [f"{left / n:.0%}", f"{worse / n:.0%}", f"{bounds[-1]:.1%}"]
            rows.append([case.source, ", ".join(OF_PART[case.part]), f"{rule}, {LOSS_OF[rule]}", f"{n}", *shares])
    below = sum(each < ALPHA for each in bounds)
    untested = all(case.part != POOLED for case in found)
    return "\n\n".join(
        [
            "## Harm",
            f"40 labels, a pool of 40 rows; what was chosen is judged on {FRESH:,} fresh rows, or on all other rows of data. "
            f"The probability of leaving the supervised model for one that is worse there has to be {ALPHA:.0%} at most; "
            "worse is what has a larger mean loss there, by the loss that the rule itself judged by (third column). Shown are "
            "the shares of repetitions in which a rule left it, and in which it left it for a worse one, and what the "
            "probability of the latter is below with 95% confidence in each row (Clopper and Pearson, one-sided). "
            f"{REPETITIONS} repetitions are wanted.",
            table(["data", "other pipelines", "rule, loss", "repetitions", "left", "left for a worse one", "below"], rows),
            f"In {below} of {len(bounds)} rows that is below {ALPHA:.0%}."
            + (" Whether integrating the pool's labels out does harm (`pooled`) was not tested." if untested else ""),
        ]
    )


def _null(found: Records) -> str:
    """The mean e-value where no pipeline is better."""
    if not found:
        return ""
    rows = []
    for by_number in found.values():
        records = list(by_number.values())
        for name in records[0][BETTING]["proof"]:
            values = np.array([record[BETTING]["proof"][name] for record in records])
            found_mean = Interval.of(values)
            mean = f"{found_mean.mean:.3f} ± {found_mean.half:.3f}"
            rows.append([name, f"{len(values)}", mean, f"{values.max():.2f}"])
    return "\n\n".join(
        [
            "## Bets with nothing to win",
            "Labels are coins, and the supervised model says so (coefficients ~ Normal(0, 0.0001)), so that no other "
            "model predicts better, whatever rows were seen. E-values then have means of 1 at most. `free` is the same "
            "regression with coefficients ~ Normal(0, 2.5), trained on the labels alone; `ppp` is its self-training by PPP, "
            f"{AT_ONCE} rows a round, to the end of the pool.",
            table(["pipeline", "repetitions", "mean e-value", "largest"], rows),
        ]
    )


def _power(found: Records) -> str:
    """What is gained where there is something to gain."""
    parts = []
    for case, by_number in found.items():
        records, rows = list(by_number.values()), []
        n = len(records)
        ways = {
            "chosen by the bound": [record[BOUND]["chosen"] for record in records],
            "left at one standard error": [_gate(record) for record in records],
        }
        for way, chosen in ways.items():
            gains = [gain(record, name) for record, name in zip(records, chosen, strict=True)]
            rows.append([way, _interval(gains), f"{sum(name != SUPERVISED for name in chosen)}"])
        rows += [[f"always {name}", _interval([gain(each, name) for each in records]), f"{n}"] for name in OF_PART[POWER]]
        rows.append(
            ["the best of all, unknown", _interval([max(0, *(gain(r, o) for o in OF_PART[POWER])) for r in records]), ""]
        )
        parts.append(
            f"Two Gaussian classes, {case.features} features, {case.n_labeled} labels, a pool of {case.n_pool}, "
            f"{FOLDS[POWER]} folds dealt {REPEATS[POWER]} times; {n} of {OF_POWER} repetitions. Beside the bound stands a gate "
            "that asks for less proof, a difference of one standard error. Both judge by "
            f"{LOSS_IN_WORDS[LOSS_OF_POWER]}, and no other loss was tried.\n\n"
            + table(["", "accuracy − supervised", "times not supervised"], rows)
            + "\n\n"
            + _gained(records, ways)
        )
    return "\n\n".join(["## What there is to gain", *parts]) if parts else ""


def _gained(records: Sequence[Record], ways: Mapping[str, Sequence[str]]) -> str:
    """How much of the gate's gain the bound reaches, and what of the largest gain is the pool's."""
    bound, gate = (
        np.array([gain(record, name) for record, name in zip(records, chosen, strict=True)]) for chosen in ways.values()
    )
    share = Ratio.of(bound, gate)
    other, pooled = OF_PART[POWER]
    of_pool = [gain(record, pooled) - gain(record, other) for record in records]
    return (
        f"The bound is required to reach half of the gate's gain; it reaches {share.value:.0%}, with a {LEVEL:.0%} interval "
        f"from {share.low:.0%} to {share.high:.0%} (quantiles of {DRAWS:,} bootstrap samples of the repetitions, both gains of "
        f"a repetition together, seed {SEED}), so that half is {_proven(share)}. Always {other} gains by "
        f"another model alone; what the pool adds to that, {pooled} − {other}, is {_interval(of_pool)}."
    )


def _proven(share: Ratio) -> str:
    if share.low > REQUIRED:
        return "proven"
    return "not reached" if share.high < REQUIRED else "not proven"


def _gate(record: Record) -> str:
    """The pipeline that is best by more than one standard error of independent rows, which is less proof."""
    errors = record[BOUND]["in_errors"]
    best = max(errors, key=errors.__getitem__)
    return str(best) if errors[best] > 1 else SUPERVISED


def _paper(found: Records, published: Store[Setting]) -> str:
    """Settings of the study of the paper: with the choice, and to the end of the pool by PPP, as published."""
    if not found:
        return ""
    rows = []
    could = {case: each for case, each in found.items() if _labels(case) >= FEWEST}
    groups = {
        "all of these": found,
        f"{FEWEST} labels or more": could,
        **{f"of them {name}": _within(could, held) for name, held in GROUPS.items()},
        f"fewer than {FEWEST} labels": {case: each for case, each in found.items() if case not in could},
    }
    for name, some in groups.items():
        if not some:
            continue
        chosen = [[gain(record, record[BOUND]["chosen"]) for record in each.values()] for each in some.values()]
        ppp = [_by_paper(case.setting, published, each) for case, each in some.items() if case.setting is not None]
        times = f"{sum(map(_left, some.values()))} of {sum(map(len, some.values()))}"
        rows.append([name, f"{len(some)}", times, _pooled(chosen), _signs(chosen), _pooled(ppp), _signs(ppp)])
    most = max(could or found, key=lambda case: _left(found[case]))
    few = [_labels(case) for case in found if case not in could]
    return "\n\n".join(
        [
            "## Settings of our study of the paper",
            f"{len(found)} settings of [our study of the paper](paper.md), on its splits, {OF_PAPER} repetitions of each "
            "wanted: the choice between the supervised model and self-training by PPP and by probability to the end of the "
            f"pool, a {ROUNDS}th of the pool a round (rounded down, one row at least), by the bound of the log loss; beside it "
            "PPP to the end whatever labels say, a row a round, as that study has it in the same repetitions. Judged on fresh "
            "rows of simulations, on test rows of data.",
            *(
                [
                    f"With fewer than {FEWEST} labels there is no bound, and the supervised model is kept by rule: these "
                    f"{len(few)} settings, with {min(few)} to {max(few)} labels, say nothing of what labels prove."
                ]
                if few
                else []
            ),
            table(
                [
                    "settings",
                    "number",
                    "times not supervised",
                    "choose − supervised",
                    "settings up, down",
                    "PPP − supervised",
                    "settings up, down",
                ],
                rows,
            ),
            "Each difference is the mean over settings of their means over repetitions. Settings are taken as fixed, and "
            "repetitions as independent, although those on one table share its rows: ± is half of a t interval over "
            "repetitions with Welch's and Satterthwaite's degrees of freedom, and says nothing of other settings. Such a mean "
            "hides what differs between settings: up and down are the numbers of settings whose own means are above and below "
            "0, be it by chance.",
            f"The setting that was left most often is {_titled(most)}: {_left(found[most])} of {len(found[most])} times.",
        ]
    )


def _labels(case: Case) -> int:
    assert case.setting is not None
    return case.setting.sizes.labeled


def _titled(case: Case) -> str:
    assert case.setting is not None
    return case.setting.title


def _within(found: Records, held: Iterable[Setting]) -> Records:
    keys = {setting.key for setting in held}
    return {case: each for case, each in found.items() if case.setting is not None and case.setting.key in keys}


def _left(records: Mapping[int, Record]) -> int:
    """In how many repetitions the bound left the supervised model."""
    return sum(record[BOUND]["chosen"] != SUPERVISED for record in records.values())


def _by_paper(setting: Setting, published: Store[Setting], numbers: Iterable[int]) -> list[float]:
    """What PPP to the end of the pool gained over the supervised model, in some repetitions of the paper's study."""
    runs = {number: record["runs"]["ppp_ep"] for number, record in published.read(setting).items() if number in set(numbers)}
    rows, of = ("fresh", FRESH_OF_PAPER) if setting.features else ("right", setting.sizes.test)
    return [(run[rows][-1] - run[rows][0]) / of for run in runs.values()]


def _interval(values: Sequence[float]) -> str:
    """Of repetitions, in points."""
    return _points(Interval.of(np.asarray(values)))


def _pooled(values: Sequence[Sequence[float]]) -> str:
    """The mean over settings of their means, with an interval over repetitions."""
    return _points(Interval.of_groups([np.asarray(each) for each in values], np.ones(len(values)).tolist()))


def _points(found: Interval) -> str:
    return f"{100 * found.mean:+.2f} ± {100 * found.half:.2f}"


def _signs(values: Sequence[Sequence[float]]) -> str:
    """In how many settings the mean is above 0, and below."""
    signs = [np.sign(round(float(np.sum(each)), 9)) for each in values]  # sums of shares are 0 up to rounding
    return f"{signs.count(1)}, {signs.count(-1)}"
