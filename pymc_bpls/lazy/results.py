"""Scores of a lazy pool as a user sees them: the best rows, the statistics of all, and warnings."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from pymc_bpls.errors import warn
from pymc_bpls.lazy.best import Best
from pymc_bpls.lazy.pool import LazyPool
from pymc_bpls.lazy.statistics import Statistics
from pymc_bpls.rules.ranking import best_first
from pymc_bpls.scoring.results import DESCRIPTIONS
from pymc_bpls.scoring.settings import Settings


def best_dataset(best: Best, pool: LazyPool, settings: Settings, names: np.ndarray) -> xr.Dataset:
    """The best pairs over `candidate`, ties in the order of rows."""
    order, _ = best_first(best.scores)
    rows, absolute = best.rows[order], settings.criterion.absolute
    variables = {"score": best.scores[order], "pseudo_label": names[best.codes[order]]}
    if absolute is not None and pool.problem.proper and settings.absolute:
        variables[absolute] = variables["score"]
    return xr.Dataset(
        {name: ("candidate", values, {"description": DESCRIPTIONS[name]}) for name, values in variables.items()},
        coords={
            "candidate": pool.first_candidate + rows,
            "partition": ("candidate", np.searchsorted(pool.partitions.first, rows, side="right") - 1),
            "pool_row": ("candidate", rows),
        },
    )


def with_statistics(dataset: xr.Dataset, statistics: Statistics, names: np.ndarray, attrs: dict[str, Any]) -> xr.Dataset:
    """With the number of rows by pseudo-label, and the histogram of all scores."""
    histogram = statistics.histogram
    edges = histogram.edges if len(histogram.counts) else np.zeros(1)
    return (
        dataset.assign(
            rows_by_label=("class", statistics.labels, {"description": "rows of the pool by pseudo-label"}),
            histogram=("bin", histogram.counts, {"description": "scores of the pool in bins, by their left edges"}),
        )
        .assign_coords({"class": names, "bin": edges[:-1], "bin_end": ("bin", edges[1:])})
        .assign_attrs(attrs)
    )


def counts(statistics: Statistics, pool: LazyPool) -> dict[str, Any]:
    """As attrs: how many rows there are, without a score and with −∞, and the first of them by position."""
    attrs = {"n_rows": statistics.n, "n_lost": statistics.lost, "n_impossible": statistics.impossible}
    firsts = {"first_lost": statistics.first_lost, "first_impossible": statistics.first_impossible}
    return attrs | {name: pool.first_candidate + row for name, row in firsts.items() if row >= 0}


def warn_of_lost(statistics: Statistics, pool: LazyPool) -> None:
    """Warn of rows that have no score, or a class that cannot be."""
    if statistics.lost:
        warn(
            f"{statistics.lost} of {statistics.n} candidates have no finite score (the first: row "
            f"{pool.first_candidate + statistics.first_lost}). They are never selected; look for far-away values in these rows."
        )
    if statistics.impossible:
        warn(
            f"{statistics.impossible} of {statistics.n} candidates have a class with probability 0 under the model (the first: "
            f"row {pool.first_candidate + statistics.first_impossible}). With it their score is -inf: they are never selected."
        )
