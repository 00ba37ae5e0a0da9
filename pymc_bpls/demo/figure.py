"""The demo's figure: a panel for each question."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pymc_bpls.audit.report import Audit
from pymc_bpls.demo.questions import BY_EP, BY_LAPLACE, SAFE, TO_THE_END, PoolAnswer, changes, n_kept
from pymc_bpls.demo.setting import Setting
from pymc_bpls.demo.words import WAYS
from pymc_bpls.plots.panels import BLUE, GREEN, GREY, STANDARD_ERRORS, VERMILION, tidy

_FONT = 13
_SIZE = (13.0, 4.9)
_BAND = 0.2
_MARKS = {BY_LAPLACE: (VERMILION, "o", "white"), BY_EP: (BLUE, "o", BLUE)}


def draw(setting: Setting, pool: PoolAnswer, audit: Audit, outcomes: xr.Dataset) -> Figure:
    """What the pool can tell, how far scores are off, and what became of accuracy."""
    figure = Figure(figsize=_SIZE, layout="constrained")
    panels = figure.subplots(1, 3, width_ratios=[0.85, 1.1, 1.1])
    invented = float(changes(outcomes, TO_THE_END, "invented_information")[:, -1].mean())
    _draw_pool(panels[0], pool, invented)
    _draw_scores(panels[1], audit)
    _draw_runs(panels[2], setting, outcomes)
    for panel in panels:
        panel.tick_params(labelsize=_FONT - 1)
        panel.title.set_fontsize(_FONT)
        panel.xaxis.label.set_fontsize(_FONT)
        panel.yaxis.label.set_fontsize(_FONT)
    return figure


def _draw_pool(panel: Axes, pool: PoolAnswer, invented: float) -> None:
    """Bars in nats, the words above each."""
    bars = {
        "regression: the pool can tell": (pool.regression.nats, BLUE),
        "regression: a run to the end invents": (invented, VERMILION),
        "model of features: the pool\ncan tell, if that model is right": (pool.class_conditional.nats, GREEN),
    }
    for place, (words, (nats, colour)) in enumerate(bars.items()):
        panel.barh(-place, nats, color=colour, height=0.32)
        panel.annotate(words, (0, 0.2 - place), fontsize=_FONT - 1, va="bottom")
        panel.annotate(f"{nats:.2g}", (nats, -place), (5, 0), textcoords="offset points", va="center", fontsize=_FONT)
    panel.set_yticks([])
    panel.set_ylim(0.35 - len(bars), 0.75)
    panel.set_xlim(0, 1.15 * max(nats for nats, _ in bars.values()))
    panel.set_xlabel("information (nats)")
    panel.set_title("1. What can the pool tell?")
    tidy(panel, lines="x")


def _draw_scores(panel: Axes, audit: Audit) -> None:
    """Errors of either approximation against exact values, without what all candidates share."""
    exact = audit.candidates["log_ppp"].to_numpy()
    x = exact - np.nanmax(exact)
    panel.axhline(0, color=GREY, linewidth=1.2)
    for name, (colour, marker, face) in _MARKS.items():
        found, agreement = audit.candidates.sel(criterion=name), audit.agreement.sel(criterion=name)
        centred = found["centred"].to_numpy()
        label = f"{WAYS[name]}: τ = {float(agreement['tau']):.2f}, k-hat {float(agreement['pareto_k']):.1f}"
        panel.plot(x, centred, marker, color=colour, markerfacecolor=face, markersize=5, label=label)
        choice = found["candidate"].to_numpy() == int(agreement["choice"])
        lost = np.format_float_positional(float(agreement["regret"]), precision=2, fractional=False, trim="-")
        own = f"its choice: loses {lost} nats"
        panel.plot(x[choice], centred[choice], "^", color=colour, markeredgecolor="black", markersize=11, zorder=4, label=own)
    panel.xaxis.set_major_locator(MaxNLocator(nbins=4))
    panel.set_xlabel("exact log PPP below the best (nats)")
    panel.set_ylabel("approximate − exact, centred (nats)")
    panel.set_title("2. Are the scores right?")
    _legend_below(panel, 0.55)
    tidy(panel)


def _draw_runs(panel: Axes, setting: Setting, outcomes: xr.Dataset) -> None:
    """Accuracy on held-out rows against the supervised model along a run, and of the safe choice."""
    x, n = outcomes["n_pseudo"].to_numpy(), outcomes.sizes["split"]
    band = ", mean ± 2 SE" if n > 1 else ""
    legend = {TO_THE_END: f"{TO_THE_END}{band}", SAFE: f"{SAFE}: supervised in {n_kept(outcomes)} of {n}"}
    for way, colour in ((TO_THE_END, VERMILION), (SAFE, BLUE)):
        points = 100 * changes(outcomes, way, "accuracy")
        if way == TO_THE_END:
            lines = panel.plot(x, points.T, color="0.75", linewidth=0.8)
            lines[0].set_label("each split")
        mean = points.mean(axis=0)
        if n > 1:
            error = STANDARD_ERRORS * points.std(axis=0, ddof=1) / np.sqrt(n)
            panel.fill_between(x, mean - error, mean + error, color=colour, alpha=_BAND, linewidth=0)
        panel.plot(x, mean, color=colour, linewidth=2.6, label=legend[way])
    panel.set_xlabel(f"pseudo-labels (pool of {setting.n_unlabeled} rows)")
    panel.set_ylabel("held-out accuracy − supervised (points)")
    panel.set_title(f"3. Does a run help? ({n} split{'s' if n > 1 else ''})")
    panel.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    _legend_below(panel, 0.4)
    tidy(panel)


def _legend_below(panel: Axes, share: float) -> None:
    """A legend in the lower left corner, with room for it below what is drawn: a share of its height."""
    low, high = panel.get_ylim()
    panel.set_ylim(low - share * (high - low), high)
    panel.legend(fontsize=_FONT - 1.5, frameon=False, loc="lower left", handletextpad=0.5, labelspacing=0.3)
