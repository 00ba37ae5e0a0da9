"""The study as two figures: curves of the main settings, and where PPP gains on the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D

from validation.paper.settings import EP, GRID, LIKELIHOOD, ORIGINAL, PROBABILITY, RANDOM, REAL, STRENGTH, TABLE_1, VARIANCE
from validation.paper.summary import SUPERVISED, Summary, of, weak
from validation.paper.words import NAMES
from validation.study.figures import BLUE, FONT, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION, band
from validation.study.intervals import Interval

LINES: dict[str, tuple[str, Any]] = {
    EP: (BLUE, "-"),
    LIKELIHOOD: (ORANGE, (0, (5, 2))),
    VARIANCE: (PURPLE, (0, (1, 1))),
    PROBABILITY: (VERMILION, (0, (4, 2))),
    RANDOM: (GREEN, (0, (6, 2, 1, 2))),
    ORIGINAL: (SKY, (0, (2, 1))),
}
DIFFERENCES = (PROBABILITY, RANDOM)
RIVALS = (SUPERVISED, RANDOM, PROBABILITY)
COLUMNS, WIDTH, ROW = 3, 13.0, 4.6
COLOURS, EXTENT = "PuOr", 10.0
MARKERS = {2.5: "o", 0.5: "s", 1.0: "D", 10.0: "^"}


def figures(summaries: Mapping[str, Summary], folder: Path) -> dict[str, str]:
    """Draw those for which there are results; their names by what they show."""
    shown: dict[str, tuple[Callable[[Sequence[Summary]], Figure], list[Summary]]] = {
        "curves": (_all_curves, of(summaries, (*TABLE_1, *REAL))),
        "region": (_region, weak(of(summaries, (*TABLE_1, *REAL, *GRID, *STRENGTH)))),
    }
    addresses = {}
    folder.mkdir(parents=True, exist_ok=True)
    for name, (draw, held) in shown.items():
        if not held:
            continue
        with plt.rc_context(FONT):
            figure = draw(held)
            addresses[name] = f"paper_{name}.png"
            figure.savefig(folder / addresses[name], dpi=100)
            plt.close(figure)
    return addresses


def _all_curves(summaries: Sequence[Summary]) -> Figure:
    rows = -(-len(summaries) // COLUMNS)
    figure = plt.figure(figsize=(WIDTH, ROW * rows + 1.2), layout="constrained")
    panels = np.atleast_1d(figure.subfigures(rows, COLUMNS)).ravel()
    for panel, summary in zip(panels, summaries, strict=False):
        _curves(panel, summary)
    lines = [Line2D([], [], color=colour, linestyle=style, linewidth=2.5) for colour, style in LINES.values()]
    figure.legend(
        [*lines, Line2D([], [], color=GREY, linestyle=":", linewidth=2)],
        [*(NAMES[method] for method in LINES), "supervised"],
        loc="outside upper center",
        ncols=4,
        frameon=False,
        title="accuracy; below, PPP minus probability and minus random, with 95% intervals",
    )
    return figure


def _curves(panel: SubFigure, summary: Summary) -> None:
    """Mean accuracies, and paired differences of PPP to two others."""
    accuracy, difference = panel.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    for method, (colour, style) in LINES.items():
        if summary.has(method):
            accuracy.plot(summary.points, summary.curve(method).mean(axis=0), color=colour, linestyle=style, linewidth=2.5)
    accuracy.axhline(summary.mean(SUPERVISED), color=GREY, linestyle=":", linewidth=2)
    for rival in DIFFERENCES:
        gaps = summary.curve(EP) - summary.curve(rival)
        band(difference, summary.points, Interval.of(gaps), *LINES[rival])
    difference.axhline(0, color=GREY, linewidth=1)
    limit = max(2.0, *np.abs(difference.get_ylim()))
    difference.set_ylim(-min(limit, 15), min(limit, 15))
    accuracy.set(title=f"{summary.setting.title} (R = {summary.repetitions})", ylabel="%")
    difference.set(xlabel="pool labeled (%)", ylabel="points")
    panel.align_ylabels()
    for axes in (accuracy, difference):
        axes.grid(alpha=0.3)


def _region(summaries: Sequence[Summary]) -> Figure:
    """A dot a setting: how hard it is, and in colour what PPP gains there."""
    figure, panels = plt.subplots(1, len(RIVALS), figsize=(WIDTH, 6.4), layout="constrained", sharey=True)
    norm = TwoSlopeNorm(0, -EXTENT, EXTENT)
    for axes, rival in zip(panels, RIVALS, strict=True):
        dots = _dots(axes, summaries, rival, norm)
        axes.set(xscale="log", xlabel="labels a parameter", title=f"PPP − {NAMES[rival]}")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("supervised accuracy (%)")
    figure.colorbar(dots, ax=panels, label="points, with all pseudo-labels", extend="both", shrink=0.9)
    kinds = [*((f"prior sd {sd:g}", marker, 1) for sd, marker in sorted(MARKERS.items())), ("interval without 0", "o", 3)]
    shared: dict[str, Any] = {"color": "none", "markerfacecolor": "white", "markeredgecolor": GREY, "markersize": 11}
    marks = [Line2D([], [], marker=marker, markeredgewidth=width, **shared) for _, marker, width in kinds]
    title = "a symbol a setting, larger for a larger pool"
    figure.legend(marks, [name for name, _, _ in kinds], loc="outside lower center", ncols=5, frameon=False, title=title)
    return figure


def _dots(axes: Axes, summaries: Sequence[Summary], rival: str, norm: TwoSlopeNorm) -> Any:
    for summary in summaries:
        gap = summary.difference(EP, rival)
        dots = axes.scatter(
            summary.labels_a_parameter,
            summary.mean(SUPERVISED),
            c=[float(gap.mean)],
            s=4 * summary.setting.sizes.candidates**0.8 + 40,
            marker=MARKERS[summary.setting.prior.sd],
            norm=norm,
            cmap=COLOURS,
            edgecolors=GREY,
            linewidths=3 if gap.sign else 1,
        )
    return dots
