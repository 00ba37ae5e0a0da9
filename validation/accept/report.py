"""The report on accepted labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from validation.accept.splits import LEVELS, WAYS, Setting

Records = Mapping[Setting, Mapping[int, dict[str, Any]]]


def share_wrong(records: Mapping[int, dict[str, Any]], way: str, level: float) -> np.ndarray:
    """The share of wrong labels among the accepted ones of each split, 0 where none is accepted."""
    taken, wrong = np.array([record[f"{way} {level:g}"] for record in records.values()]).T
    return np.asarray(wrong / np.maximum(taken, 1))


def standard_error(values: np.ndarray) -> float:
    """Of a mean over splits."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def report(found: Records) -> str:
    """Realised shares beside their bounds, and how many labels are accepted."""
    n = max(len(records) for records in found.values())
    lines = [
        "# Labels with a guarantee",
        "",
        "`python -m validation.accept` computes what is missing in `validation/results/accept/`, and writes this.",
        "",
        f"`accept` on {n} random splits of each bundled data set: a logistic model, coefficients ~ N(0, 1) of standardised "
        "features; all rows without a label are candidates. The realised share of wrong labels among the accepted ones, 0 "
        "where none is, with its standard error; the share of candidates that is accepted; the share wrong if all are taken.",
        "",
        "| data | labels | way | alpha | wrong among the accepted | accepted | wrong among all |",
        "|---|---|---|---|---|---|---|",
    ]
    over = []
    for setting, records in found.items():
        m = np.array([record["candidates"] for record in records.values()])
        for way in WAYS:
            everything = np.array([record[f"{way} wrong"] for record in records.values()]) / m
            for level in LEVELS:
                share, error = share_wrong(records, way, level), standard_error(share_wrong(records, way, level))
                taken = np.array([record[f"{way} {level:g}"][0] for record in records.values()]) / m
                if share.mean() > level + 2 * error:
                    over.append(f"{setting.name} by {way} at {level:g}")
                lines.append(
                    f"| {setting.name} | {setting.n_labeled} | {way} | {level:g} | {share.mean():.3f} ± {error:.3f} | "
                    f"{taken.mean():.0%} | {everything.mean():.3f} |"
                )
    said = (
        "No realised share is above its bound by more than two standard errors."
        if not over
        else f"Above the bound by more than two standard errors: {', '.join(over)}."
    )
    return "\n".join([*lines, "", said, ""])
