"""The demo's figure: accuracy on held-out rows along self-training, by prior and criterion."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from pymc_bpls.plots.panels import (
    BLUE,
    GREEN,
    LEAST_SPAN,
    LIGHT_GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    YELLOW,
    span_at_least,
    tidy,
)

# line styles tell the criteria apart as well
_STYLES: dict[str, tuple[str, str]] = {
    "ppp": (BLUE, "-"),
    "ibpls": (SKY, "--"),
    "marginal_likelihood": (GREEN, "-."),
    "probability": (VERMILION, "-"),
    "variance": (PURPLE, "--"),
    "predictive": (ORANGE, "-."),
    "random": (LIGHT_GREY, "-"),
}
_OTHER = (YELLOW, ":")
_FONT = 13
_BAND = 0.12


def plot_accuracy(results: xr.Dataset) -> Figure:
    """Accuracy on held-out rows along self-training, one panel a prior.

    Parameters
    ----------
    results : xarray.Dataset
        `accuracy` over prior, criterion, split and n_pseudo, and `scale` over prior; attrs `dataset`, `n_labeled`,
        `n_unlabeled` and `n_held_out`.

    Returns
    -------
    matplotlib.figure.Figure
        Curves are means over splits; the dashed line is the supervised model. A band is one standard error of the paired
        difference from it: how much the splits themselves differ is not in it.
    """
    priors = results["prior"].to_numpy().tolist()
    figure = Figure(figsize=(4.6 * len(priors), 5.6), layout="constrained")
    axes = figure.subplots(1, len(priors), sharey=True, squeeze=False)[0]
    handles: dict[str, Line2D] = {}
    for panel, prior in zip(axes, priors, strict=True):
        handles = _panel(panel, results.sel(prior=prior))
        panel.set_title(f"{prior.capitalize()} prior: Normal(0, {float(results['scale'].sel(prior=prior)):g})", fontsize=_FONT)
        panel.set_xlabel(f"pseudo-labels (pool of {results.attrs['n_unlabeled']} rows)", fontsize=_FONT)
    if results.sizes["split"] == 1:
        span_at_least(axes[0], 2 * LEAST_SPAN)
    n_splits, attrs = results.sizes["split"], results.attrs
    axes[0].set_ylabel(f"accuracy on {attrs['n_held_out']} held-out rows\n(share right)", fontsize=_FONT)
    figure.suptitle(
        f"{attrs['dataset'].capitalize()}, n = {attrs['n_labeled']} labeled, mean of {n_splits} "
        f"split{'s' if n_splits > 1 else ''}\nband: ± 1 standard error of the paired difference from supervised",
        fontsize=_FONT,
    )
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, fontsize=_FONT - 1, frameon=False)
    return figure


def _panel(panel: Axes, held: xr.Dataset) -> dict[str, Line2D]:
    """Draw one prior's curves; returns the line of each by its name."""
    x = np.arange(held.sizes["n_pseudo"])
    start = float(held["accuracy"].isel(n_pseudo=0, criterion=0).mean())
    handles = {"supervised": panel.axhline(start, color="black", linestyle=(0, (5, 2)), linewidth=1.8, zorder=3)}
    for criterion in held["criterion"].to_numpy().tolist():
        colour, style = _STYLES.get(criterion, _OTHER)
        accuracy = held["accuracy"].sel(criterion=criterion).transpose("split", "n_pseudo").to_numpy()
        mean = accuracy.mean(axis=0)
        if len(accuracy) > 1:
            error = (accuracy - accuracy[:, :1]).std(axis=0, ddof=1) / np.sqrt(len(accuracy))
            panel.fill_between(x, mean - error, mean + error, color=colour, alpha=_BAND, linewidth=0)
        [handles[criterion]] = panel.plot(x, mean, color=colour, linestyle=style, linewidth=2.2)
    panel.tick_params(labelsize=_FONT - 1)
    tidy(panel, lines="y")
    panel.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    panel.margins(x=0.02)
    return handles
