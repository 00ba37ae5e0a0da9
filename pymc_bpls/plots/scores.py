"""The best candidates by the scores of several criteria."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.ticker import MaxNLocator

from pymc_bpls.errors import CriterionError
from pymc_bpls.plots.panels import COLOURS, GREEN, GREY, MARKERS, legend_above, panels, tidy, unit_of


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

    See Also
    --------
    BPLS.score : what is drawn.
    """
    several = {str(scores.attrs.get("criterion", "score")): scores} if isinstance(scores, xr.Dataset) else dict(scores)
    if not several or not all(isinstance(each, xr.Dataset) and "score" in each for each in several.values()):
        raise CriterionError("scores= holds no scores. Give what score() returned, or a mapping from names to that.")
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
    names, labels = _index(first), first["pseudo_label"].to_numpy()
    grid[0].set_yticks(ranks, [f"{names[i]}: {labels[i]}" for i in order])
    grid[0].invert_yaxis()
    grid[0].set_xlabel(f"score − the best one ({unit_of(str(first.attrs.get('criterion')))})")
    grid[0].set_ylabel(f"candidate: pseudo-label, {len(order)} best of {len(best)}")
    legend_above(grid[0], 3)
    if with_sums:
        grid[1].barh(ranks, first["class_sum_error"].to_numpy()[order], color=GREEN, height=0.6)
        grid[1].axvline(0, color=GREY, linewidth=1)
        grid[1].set_xlabel("class-sum error (nats)")
    for panel in grid:
        panel.xaxis.set_major_locator(MaxNLocator(nbins=5))
        tidy(panel)
    return grid


def _by_candidate(scores: xr.Dataset) -> np.ndarray:
    """Each candidate's best score (m,)."""
    values = scores["score"]
    return values.max("label").to_numpy() if "label" in values.dims else values.to_numpy()


def _index(scores: xr.Dataset) -> list[Any]:
    """The user's own names of the candidates."""
    others = [name for name, coord in scores.coords.items() if coord.dims == ("candidate",) and name != "candidate"]
    return scores[others[0] if others else "candidate"].to_numpy().tolist()
