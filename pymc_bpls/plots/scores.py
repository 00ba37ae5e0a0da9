"""The best candidates by the scores of several criteria."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.ticker import MaxNLocator

from pymc_bpls.arguments import check
from pymc_bpls.errors import CriterionError
from pymc_bpls.model.data.index import read_index
from pymc_bpls.plots.panels import (
    COLOURS,
    GREEN,
    GREY,
    LEAST_SPAN,
    MARKERS,
    legend_above,
    panels,
    span_at_least,
    tidy,
    unit_of,
)
from pymc_bpls.scoring.results import own_error
from pymc_bpls.scoring.settings import source_of_error


def plot_scores(scores: xr.Dataset | Mapping[str, xr.Dataset], *, top: int = 15, axes: Any = None) -> np.ndarray:
    """The best candidates and how far their scores are below the best, several criteria beside each other.

    Parameters
    ----------
    scores : xarray.Dataset, or mapping of a name to one
        What `BPLS.score` returned; the order is that of the first. Scores should be on one scale, as log probabilities are.
    top : int, default 15
        How many candidates to show.
    axes : matplotlib Axes, optional
        Two of them where the first scores have a `class_sum_error`.

    Returns
    -------
    numpy.ndarray of matplotlib Axes, shape (1 or 2,)
        Scores have no error bar, so that their axis spans a tenth of a nat at least. The band holds what is known
        to be tied with the first scores' best, by class sums or by draws. That is not the whole error, which `audit` measures.

    See Also
    --------
    BPLS.score : what is drawn.
    """
    check(top=top)
    several = _read(scores)
    first = next(iter(several.values()))
    best = _by_candidate(first)
    order = best.argsort(kind="stable")[::-1][: min(top, int(np.isfinite(best).sum()))]
    order = order[np.isfinite(best[order])]
    with_sums = "class_sum_error" in first
    grid = panels(1, 1 + with_sums, (6.4 + 2.6 * with_sums, 1.4 + 0.3 * len(order)), axes, sharey="row").ravel()
    ranks = np.arange(len(order))
    for place, (name, each) in enumerate(several.items()):
        values = _by_candidate(each)
        grid[0].plot(
            values[order] - np.nanmax(values),
            ranks,
            MARKERS[place % len(MARKERS)],
            color=COLOURS[place % len(COLOURS)],
            label=name,
            markersize=7,
            alpha=0.85,
        )
    error = own_error(first)
    if error is not None:
        by = source_of_error(str(first.attrs.get("criterion")), str(first.attrs.get("approximation")))
        grid[0].axvspan(-error, 0, color=GREY, alpha=0.15, linewidth=0, label=f"known ties of {next(iter(several))}, by {by}")
    names, labels = read_index(first), first["pseudo_label"].to_numpy()
    if unit_of(str(first.attrs.get("criterion"))) in ("nats", "probability"):
        low, high = grid[0].get_xlim()
        grid[0].set_xlim(min(low, -LEAST_SPAN), max(high, 0.04 * LEAST_SPAN))
    grid[0].set_yticks(ranks, [f"{names[i]}: {labels[i]}" for i in order])
    grid[0].invert_yaxis()
    grid[0].set_xlabel(f"score − the best one ({unit_of(str(first.attrs.get('criterion')))})")
    grid[0].set_ylabel(f"candidate: pseudo-label, {len(order)} best of {len(best)}")
    legend_above(grid[0], 3)
    if with_sums:
        grid[1].barh(ranks, first["class_sum_error"].to_numpy()[order], color=GREEN, height=0.6)
        grid[1].axvline(0, color=GREY, linewidth=1)
        span_at_least(grid[1], LEAST_SPAN, "x")
        grid[1].set_xlabel("class-sum error (nats)")
    for panel in grid:
        panel.xaxis.set_major_locator(MaxNLocator(nbins=5))
        tidy(panel)
    return grid


def _read(scores: Any) -> dict[str, xr.Dataset]:
    """Scores by the names of their criteria."""
    if not isinstance(scores, xr.Dataset | Mapping) or isinstance(scores, xr.DataTree):
        raise CriterionError(f"scores= is a {type(scores).__name__}. Give what score() returned, or a mapping to that.")
    several = {str(scores.attrs.get("criterion", "score")): scores} if isinstance(scores, xr.Dataset) else dict(scores)
    if not several or not all(isinstance(each, xr.Dataset) and "score" in each for each in several.values()):
        raise CriterionError("scores= holds no scores. Give what score() returned, or a mapping from names to that.")
    return several


def _by_candidate(scores: xr.Dataset) -> np.ndarray:
    """Each candidate's best score (m,)."""
    values = scores["score"]
    return values.max("label").to_numpy() if "label" in values.dims else values.to_numpy()
