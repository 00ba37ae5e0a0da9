"""The report on accepted labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from validation.accept.splits import LEVELS, WAYS, Setting
from validation.study.intervals import LEVEL
from validation.study.markdown import table

Records = Mapping[Setting, Mapping[int, dict[str, Any]]]


def share_wrong(records: Mapping[int, dict[str, Any]], way: str, level: float) -> np.ndarray:
    """The share of wrong labels among the accepted ones of each split, 0 where none is accepted."""
    taken, wrong = np.array([record[f"{way} {level:g}"] for record in records.values()]).T
    return np.asarray(wrong / np.maximum(taken, 1))


def standard_error(values: np.ndarray) -> float:
    """Of a mean over splits."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


@dataclass(frozen=True)
class Row:
    """By one way and level: shares of wrong labels by split, and how many of the candidates are accepted."""

    setting: Setting
    way: str
    level: float
    share: np.ndarray
    accepted: np.ndarray
    everything: float

    @classmethod
    def of(cls, setting: Setting, records: Mapping[int, dict[str, Any]], way: str, level: float) -> Row:
        """From the stored splits."""
        m = np.array([record["candidates"] for record in records.values()])
        taken = np.array([record[f"{way} {level:g}"][0] for record in records.values()])
        wrong = np.array([record[f"{way} wrong"] for record in records.values()])
        return cls(setting, way, level, share_wrong(records, way, level), taken / m, float((wrong / m).mean()))

    @property
    def any(self) -> np.ndarray:
        """Of each split, whether any label is accepted."""
        return self.accepted > 0

    @property
    def could_fail(self) -> bool:
        """Whether there is anything to bound: labels are accepted, and too many are wrong where all are taken."""
        return bool(self.any.any()) and self.everything > self.level

    @property
    def errors_below(self) -> float:
        """How many standard errors the mean share is below alpha."""
        return float((self.level - self.share.mean()) / standard_error(self.share))

    @property
    def is_below(self) -> bool:
        """Whether splits prove the expected share to be below alpha, by a one-sided t test."""
        return self.errors_below > stats.t.ppf(LEVEL, len(self.share) - 1)

    @property
    def name(self) -> str:
        """In a sentence."""
        return f"{self.setting.name} by {self.way}"

    def cells(self) -> list[str]:
        """Of the table."""
        of_any = f"{self.share[self.any].mean():.3f} ({self.any.mean():.0%})" if self.any.any() else "none is"
        return [
            self.setting.name,
            f"{self.setting.n_labeled}",
            self.way,
            f"{self.level:g}",
            f"{self.share.mean():.3f} ± {standard_error(self.share):.3f}",
            of_any,
            f"{(self.share > self.level).mean():.0%}",
            f"{self.accepted.mean():.0%}",
            f"{self.everything:.3f}",
        ]


HEADER = (
    "data",
    "labels",
    "way",
    "alpha",
    "wrong among the accepted",
    "wrong where any is accepted (splits)",
    "splits above alpha",
    "accepted",
    "wrong among all",
)


def report(found: Records) -> str:
    """Realised shares beside their bounds, and how many labels are accepted."""
    n = max(len(records) for records in found.values())
    rows = [Row.of(setting, records, way, level) for setting, records in found.items() for way in WAYS for level in LEVELS]
    parts = [
        "# Labels with a guarantee",
        "`python -m validation.accept` computes what is missing in `validation/results/accept/`, and writes this.",
        f"`accept` on {n} random splits of each bundled data set: a logistic model, coefficients ~ N(0, 1) of standardised "
        "features; all rows without a label are candidates. Alpha bounds the expected share of wrong labels among the accepted "
        "ones, 0 where none is: the mean over splits, shown with its standard error. It bounds neither the share of a single "
        "split nor the mean over the splits in which any label is accepted. That mean is shown beside it, with how many splits "
        "these are; then the splits whose share is above alpha, the share of candidates that is accepted, and the share wrong "
        "if all are taken.",
        table(HEADER, [row.cells() for row in rows]),
        _say(rows),
    ]
    return "\n\n".join(parts) + "\n"


def _say(rows: Sequence[Row]) -> str:
    """Which means are below alpha, and how near those come that need not be."""
    above = [f"{row.name} at {row.level:g}" for row in rows if row.share.mean() > row.level]
    said = (
        f"Of {len(rows)} means over all splits, these are above alpha: {', '.join(above)}."
        if above
        else f"All {len(rows)} means over all splits are below alpha."
    )
    empty = [row for row in rows if not row.any.any()]
    easy = [row for row in rows if row.any.any() and not row.could_fail]
    hard = [row for row in rows if row.could_fail]
    if not hard:
        return said
    nearest = max(hard, key=lambda row: row.share.mean() / row.level)
    unproven = [f"{row.name} at {row.level:g}" for row in hard if not row.is_below]
    open_ = f" all but {', '.join(unproven)}, where it is not proven" if unproven else " all"
    return (
        f"{said} That means little for {len(empty)} of them, where no label is ever accepted, and for {len(easy)}, where a "
        f"smaller share than alpha is wrong even if all are taken. Of the {len(hard)} others the nearest is "
        f"{nearest.share.mean():.3f} ± {standard_error(nearest.share):.3f} at {nearest.level:g} ({nearest.name}), "
        f"{nearest.errors_below:.1f} standard errors below. By a one-sided t test over splits, at {LEVEL:.0%} each and "
        f"uncorrected, the expected share over splits of the table is below alpha in{open_}. Splits give labeled rows and "
        "candidates that are exchangeable; then the bound by `split` holds in finite samples, whatever such a test says. The "
        "one by `leave-one-out` is approximate, and only these figures speak for it."
    )
