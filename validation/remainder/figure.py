"""The figure of the remainder's order: how fast what a criterion drops, and how far it is from exact, shrink with n."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from validation.study.figures import BLUE, GREEN, ORANGE

# The dropped term and ibpls − exact nearly coincide, so that the one below is wider.
_QUANTITIES: dict[str, tuple[str, str, float]] = {
    "dropped": ("dropped term", ORANGE, 5.5),
    "ibpls_minus_exact": ("ibpls − exact", BLUE, 1.8),
    "ppp_minus_exact": ("ppp − exact", GREEN, 1.8),
}
_EXPANSIONS: dict[str, tuple[str, Any, str]] = {"map": ("at the MAP", "-", "o"), "mle": ("at the MLE", "--", "^")}
_FONT = 14
_BAND = 0.2
_GREY = "0.35"


def plot_remainder(data: xr.Dataset) -> np.ndarray:
    """Spread over candidates against the number of labeled rows, on log axes, one panel a model.

    Parameters
    ----------
    data : xarray.Dataset
        `spread` over (model, expansion, quantity, replicate, n): standard deviations over candidates, NaN where there is
        none; `slope` and `slope_error` over (model, expansion, quantity): the slope of log spread in log n and its standard
        error. Of `quantity`, "dropped" (the term that Eq. 7 drops from Eq. 6), "ibpls_minus_exact" and "ppp_minus_exact" are
        drawn; `expansion` is "map" or "mle", `n` the numbers of labeled rows.

    Returns
    -------
    numpy.ndarray of matplotlib Axes, shape (models,)
        Lines are geometric means over replicates, bands ± 1 standard error of their logarithms. Dotted
        lines fall like 1/n and 1/n². Legends lie below the panels.
    """
    models = data["model"].to_numpy().tolist()
    panels = _panels(len(models))
    for panel, model in zip(panels, models, strict=True):
        _panel(panel, data.sel(model=model))
        panel.set_title(str(model), fontsize=_FONT)
    return panels


def _panels(count: int) -> np.ndarray:
    """As many panels in two columns on a new figure."""
    columns = min(count, 2)
    rows = -(-count // columns)
    figure = plt.figure(figsize=(5.8 * columns, 5.6 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for spare in grid[count:]:
        spare.remove()
    return grid[:count]


def _panel(panel: Axes, data: xr.Dataset) -> None:
    """One model: its series, lines of reference, and the legend with the slopes."""
    n = data["n"].to_numpy()
    panel.set(xscale="log", yscale="log")
    handles: list[Line2D] = []
    labels: list[str] = []
    means: list[np.ndarray] = []
    columns = 0
    for expansion in (name for name in _EXPANSIONS if name in data["expansion"]):
        drawn = _series(panel, data.sel(expansion=expansion))
        if not drawn:
            continue
        header, style, marker = _EXPANSIONS[expansion]
        # the legend is a table: a column an expansion, quantities named in the first
        labels += [f"{header}: slope", *(slope if columns else f"{line.get_label()} {slope}" for line, slope in drawn)]
        handles += [Line2D([], [], color=_GREY, linestyle=style, marker=marker), *(line for line, _ in drawn)]
        columns += 1
        means += [np.asarray(line.get_ydata(), dtype=float) for line, _ in drawn]
    if means:
        _references(panel, n, np.array(means))
    panel.set_xticks(n, [str(value) for value in n])
    panel.minorticks_off()
    panel.set_xlabel("labeled rows n", fontsize=_FONT)
    panel.set_ylabel("sd over candidates (nats)", fontsize=_FONT)
    panel.tick_params(labelsize=_FONT - 2)
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(color="0.9", linewidth=0.8)
    panel.set_axisbelow(True)
    panel.legend(
        handles,
        labels,
        ncols=max(columns, 1),
        loc="upper center",
        bbox_to_anchor=(0.5, -0.17),
        fontsize=_FONT - 2,
        frameon=False,
        columnspacing=1.2,
        handlelength=2.2,
    )


def _series(panel: Axes, data: xr.Dataset) -> list[tuple[Line2D, str]]:
    """The lines of one model and expansion with their slopes in words; what was not measured is left out."""
    n = data["n"].to_numpy()
    _, style, marker = _EXPANSIONS[str(data["expansion"].item())]
    drawn = []
    for quantity in (name for name in _QUANTITIES if name in data["quantity"]):
        label, colour, width = _QUANTITIES[quantity]
        found = data.sel(quantity=quantity)
        logs = xr.apply_ufunc(np.log, found["spread"].transpose("replicate", "n"))
        count = logs.notnull().sum("replicate")
        if not count.any():
            continue
        mean = logs.mean("replicate").to_numpy()
        error = (logs.std("replicate") / np.sqrt((count - 1).where(count > 1))).fillna(0).to_numpy()
        panel.fill_between(n, np.exp(mean - error), np.exp(mean + error), color=colour, alpha=_BAND, linewidth=0)
        line = panel.plot(
            n,
            np.exp(mean),
            color=colour,
            linestyle=style,
            linewidth=width,
            marker=marker,
            markersize=4 + 1.2 * width,
            label=label,
        )[0]
        drawn.append((line, f"{found['slope'].item():.2f} ± {found['slope_error'].item():.2f}".replace("-", "−")))
    return drawn


def _references(panel: Axes, n: np.ndarray, means: np.ndarray) -> None:
    """Dotted lines that fall like 1/n, above all curves, and like 1/n², below them."""
    for power, bound, factor, side in ((1, np.nanmax, 3.0, "bottom"), (2, np.nanmin, 1 / 3, "top")):
        line = factor * bound(means * n**power) / n.astype(float) ** power
        panel.plot(n, line, color=_GREY, linestyle=":", linewidth=1.5, zorder=1)
        middle = len(n) // 2
        panel.annotate(
            rf"$n^{{-{power}}}$",
            (n[middle], line[middle]),
            xytext=(0, 4 if side == "bottom" else -4),
            textcoords="offset points",
            ha="left" if side == "bottom" else "right",
            va=side,
            color=_GREY,
            fontsize=_FONT,
        )
