"""What the report says of rare classes: how often a choice left the supervised model where no pipeline is better."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy import stats

from pymc_bpls.choosing.bound import COMMON, FEWEST_OF_CLASS
from pymc_bpls.choosing.losses import LOSSES
from validation.choose.cases import ALPHA
from validation.choose.fast import IN_WORDS, OF_TRUTH
from validation.choose.rare import FOLDS, LOSSES_OF, POOL, REPEATS, REPETITIONS, TABLES, Cell
from validation.study.markdown import table
from validation.study.store import Record

#: By how much more than alpha the upper limit of an error's probability may be.
ADMITTED = 1.2
Found = Mapping[Cell, Mapping[int, Record]]


def upper_bound(count: int, n: int) -> float:
    """What a probability is below, with 95% confidence, after `count` of n (Clopper and Pearson, one-sided)."""
    return float(stats.beta.ppf(0.95, count + 1, n - count)) if count < n else 1.0


def total(records: Mapping[int, Record], guarantee: str, loss: str, what: str) -> int:
    """A count over all repetitions of a cell."""
    return sum(record[guarantee][loss][what] for record in records.values())


def say_rare(found: Found) -> str:
    """By cell, guarantee and loss how often the supervised model was left, and what the probability of that is below."""
    if not found:
        return ""
    rules = [(guarantee, loss) for guarantee, losses in LOSSES_OF.items() for loss in losses]
    limits = {
        (cell, *rule): upper_bound(total(records, *rule, "left"), TABLES * len(records))
        for cell, records in found.items()
        for rule in rules
    }
    rows = [_row(cell, records, rules, limits) for cell, records in found.items()]
    fewest = TABLES * min(map(len, found.values()))
    held = sum(limit <= ADMITTED * ALPHA for limit in limits.values())
    worst = max(limits, key=limits.__getitem__)
    return "\n\n".join(
        [
            "## Rare classes",
            f"Tables of {', '.join(map(str, sorted({cell.n_labeled for cell in found})))} labels and a pool of {POOL} rows, in "
            "which a class has a share of 1 to 10% in expectation. Their coefficients are drawn from the supervised model's "
            f"own prior, normal with standard deviations {', '.join(f'{sd:g}' for sd in OF_TRUTH)} (intercept, slopes), and it "
            "predicts by an average over its posterior (Laplace's Gaussian). Such averages are Bayes's predictions: no other "
            "pipeline has a smaller expected loss, and any leaving is an error of the guarantee. Fits are a fast program's; "
            f"folds, bounds, bets and the choice are the package's, {FOLDS} folds dealt {REPEATS} times (bets: once), alpha = "
            f"{ALPHA:g}. Pipelines, of "
            f"which three are the first three: {IN_WORDS}.",
            f"{TABLES * REPETITIONS:,} tables a cell are wanted; the cell with the fewest has {fewest:,}. Cells show the share "
            "of tables in which the supervised model was left and, in brackets, what its probability is below with 95% "
            "confidence (Clopper and Pearson, one-sided). A bound is the share of tables that have one: it takes "
            f"{FEWEST_OF_CLASS} labels of each class, and below {COMMON} the worst loss of the class is added twice.",
            table(
                ["class share", "labels", "pipelines", "a bound", *(f"{guarantee}, {loss}" for guarantee, loss in rules)], rows
            ),
            f"The limit has to be {ADMITTED * ALPHA:.0%} at most; it is in {held} of {len(limits)} cells. The largest is "
            f"{limits[worst]:.1%} ({worst[0].title}; {worst[1]}, {worst[2]}). {_say_given_a_bound(found)} {_say_gains(found)}",
        ]
    )


def _row(
    cell: Cell,
    records: Mapping[int, Record],
    rules: Sequence[tuple[str, str]],
    limits: Mapping[tuple[Cell, str, str], float],
) -> list[str]:
    n = TABLES * len(records)
    bounded = total(records, "bound", "log", "judged") / n
    shown = [f"{total(records, *rule, 'left') / n:.1%} ({limits[cell, *rule]:.1%})" for rule in rules]
    return [f"{cell.share:.0%}", f"{cell.n_labeled}", f"{cell.n_pipelines}", f"{bounded:.0%}", *shown]


def _say_given_a_bound(found: Found) -> str:
    """Of tables that have a bound, in which share of all cells together the supervised model was left."""

    def of(what: Callable[[str], str]) -> str:
        return "; ".join(what(loss) for loss in LOSSES_OF["bound"])

    judged, left, worse = (
        {loss: sum(total(records, "bound", loss, what) for records in found.values()) for loss in LOSSES_OF["bound"]}
        for what in ("judged", "left", "left_for_worse")
    )
    shares = of(lambda loss: f"{loss}: {left[loss] / max(judged[loss], 1):.1%}, {worse[loss] / max(judged[loss], 1):.1%}")
    return (
        f"Of the {judged['log']:,} tables of all cells that have a bound, these shares were left, and for a pipeline that is "
        f"worse in its table: {shares}."
    )


def _say_gains(found: Found) -> str:
    """By how much Laplace's averages are not Bayes's."""
    largest = max(
        float(np.mean([record["gain"][loss] for record in records.values()], axis=0).max())
        for records in found.values()
        for loss in LOSSES
    )
    return (
        f"By the error of Laplace's Gaussian a pipeline's mean loss is lower than the supervised model's by {largest:.1g} at "
        "most, in any cell; leaving for such a one counts as an error too."
    )
