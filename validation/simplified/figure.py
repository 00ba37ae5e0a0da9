"""The study as a figure: curves of every setting, and below them how often choices differ and what they lose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D

from validation.simplified.rounds import CRITERIA, FULL, SIMPLIFIED
from validation.simplified.summary import Interval, Summary

# Okabe and Ito's, told apart by the colour-blind
COLOURS = {FULL: "#0072B2", SIMPLIFIED: "#D55E00"}
STYLES: dict[str, Any] = {FULL: "-", SIMPLIFIED: (0, (4, 2))}
MARKERS = {FULL: "o", SIMPLIFIED: "s"}
DIFFERENCE, SUPERVISED = "#009E73", "#444444"
COLUMNS, WIDTH, ROW = 3, 13.0, 4.4
FONT: dict[Any, Any] = {"font.size": 15, "axes.titlesize": 16, "axes.labelsize": 15, "legend.fontsize": 15}


def draw(summaries: Sequence[Summary], path: Path) -> None:
    """Draw and save."""
    columns = min(COLUMNS, len(summaries))
    rows = -(-len(summaries) // columns)
    below = 1.6 + 0.42 * len(summaries)
    with plt.rc_context(FONT):
        figure = plt.figure(figsize=(WIDTH, ROW * rows + below), layout="constrained")
        above, comparison = figure.subfigures(2, 1, height_ratios=[ROW * rows, below])
        panels = np.atleast_1d(above.subfigures(rows, columns)).ravel()
        for panel, summary in zip(panels, summaries, strict=False):
            _curves(panel, summary)
        _choices(comparison, summaries)
        _legend(figure)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=100)
        plt.close(figure)


def _curves(panel: SubFigure, summary: Summary) -> None:
    """Test accuracy of both runs, and their paired difference."""
    accuracy, difference = panel.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    for criterion in CRITERIA:
        _band(accuracy, Interval.of(summary.accuracy[criterion]), COLOURS[criterion], STYLES[criterion])
    accuracy.axhline(summary.supervised.mean(), color=SUPERVISED, linestyle=":", linewidth=2)
    _band(difference, Interval.of(summary.curve_difference), DIFFERENCE, "-")
    difference.axhline(0, color=SUPERVISED, linewidth=1)
    # intervals of few repetitions are wider than the scale
    accuracy.set_ylim(*np.clip(accuracy.get_ylim(), -1, 101))
    accuracy.set(title=f"{summary.setting.title} ({summary.repetitions} rep.)", ylabel="accuracy (%)")
    difference.set(xlabel="pseudo-labels", ylabel="diff.")
    panel.align_ylabels()
    for axes in (accuracy, difference):
        axes.grid(alpha=0.3)


def _band(axes: Axes, interval: Interval, colour: str, style: Any) -> None:
    x = np.arange(len(interval.mean))
    axes.plot(x, interval.mean, color=colour, linestyle=style, linewidth=2)
    axes.fill_between(x, interval.low, interval.high, color=colour, alpha=0.18, linewidth=0)


def _choices(panel: SubFigure, summaries: Sequence[Summary]) -> None:
    """How often the criteria differ, and the regret of each, a row a setting."""
    differ, regret = panel.subplots(1, 2, sharey=True)
    places = np.arange(len(summaries))
    _dots(differ, [each.differ for each in summaries], places, DIFFERENCE, "D")
    for criterion, shift in zip(CRITERIA, (-0.14, 0.14), strict=True):
        found = [(place + shift, lost.interval) for place, each in enumerate(summaries) if (lost := each.regret(criterion))]
        heights, intervals = [height for height, _ in found], [interval for _, interval in found]
        _dots(regret, intervals, np.array(heights), COLOURS[criterion], MARKERS[criterion])
    differ.set(yticks=places, yticklabels=[each.setting.title for each in summaries], ylim=(len(summaries) - 0.5, -0.5))
    differ.set(xlabel="rounds in which choices differ (%)")
    regret.set(xlabel="exact log PPP lost a round (nats)")
    for axes in (differ, regret):
        axes.grid(axis="x", alpha=0.3)


def _dots(axes: Axes, intervals: Sequence[Interval], places: np.ndarray, colour: str, marker: str) -> None:
    means = [float(each.mean) for each in intervals]
    halves = [float(np.nan_to_num(each.half)) for each in intervals]
    axes.errorbar(
        means, places, xerr=halves, color=colour, marker=marker, linestyle="none", markersize=8, capsize=3, linewidth=2
    )


def _legend(figure: Figure) -> None:
    lines = [
        *(Line2D([], [], color=COLOURS[c], linestyle=STYLES[c], marker=MARKERS[c], linewidth=2) for c in CRITERIA),
        Line2D([], [], color=DIFFERENCE, linewidth=2),
        Line2D([], [], color=SUPERVISED, linestyle=":", linewidth=2),
    ]
    labels = [f"{FULL} (full)", f"{SIMPLIFIED} (simplified)", f"{FULL} − {SIMPLIFIED}", "supervised"]
    figure.legend(lines, labels, loc="outside upper center", ncols=4, frameon=False, title="means with 95% intervals")
