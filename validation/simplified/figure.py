"""The study as a figure: curves of every setting, and below them how often choices differ and what they lose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D

from validation.simplified.rounds import CRITERIA, FULL, SIMPLIFIED
from validation.simplified.summary import Summary
from validation.study.figures import BLUE, FONT, GREEN, GREY, VERMILION, band, dots
from validation.study.intervals import Interval

COLOURS = {FULL: BLUE, SIMPLIFIED: VERMILION}
STYLES: dict[str, Any] = {FULL: "-", SIMPLIFIED: (0, (4, 2))}
MARKERS = {FULL: "o", SIMPLIFIED: "s"}
COLUMNS, WIDTH, ROW = 3, 13.0, 4.4


def draw(summaries: Sequence[Summary], path: Path) -> None:
    """Draw and save."""
    columns = min(COLUMNS, len(summaries))
    rows = -(-len(summaries) // columns)
    below = 1.6 + 0.42 * len(summaries)
    with plt.rc_context(FONT):
        figure = plt.figure(figsize=(WIDTH, ROW * rows + below), layout="constrained")
        above, comparison = np.asarray(figure.subfigures(2, 1, height_ratios=[ROW * rows, below])).ravel()
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
    x = np.arange(summary.setting.sizes.candidates + 1)
    for criterion in CRITERIA:
        band(accuracy, x, Interval.of(summary.accuracy[criterion]), COLOURS[criterion], STYLES[criterion])
    accuracy.axhline(summary.supervised.mean(), color=GREY, linestyle=":", linewidth=2)
    band(difference, x, Interval.of(summary.curve_difference), GREEN, "-")
    difference.axhline(0, color=GREY, linewidth=1)
    # intervals of few repetitions are wider than the scale
    accuracy.set_ylim(*np.clip(accuracy.get_ylim(), -1, 101))
    accuracy.set_title(f"{summary.setting.title} ({summary.repetitions} rep.)", fontsize="medium")
    accuracy.set_ylabel("accuracy (%)")
    difference.set(xlabel="pseudo-labels", ylabel="diff.")
    panel.align_ylabels()
    for axes in (accuracy, difference):
        axes.grid(alpha=0.3)


def _choices(panel: SubFigure, summaries: Sequence[Summary]) -> None:
    """How often the criteria differ, and the regret of each, a row a setting."""
    differ, regret = panel.subplots(1, 2, sharey=True)
    places = np.arange(len(summaries))
    dots(differ, [each.differ for each in summaries], places, GREEN, "D")
    for criterion, shift in zip(CRITERIA, (-0.14, 0.14), strict=True):
        found = [(place + shift, lost.interval) for place, each in enumerate(summaries) if (lost := each.regret(criterion))]
        heights, intervals = [height for height, _ in found], [interval for _, interval in found]
        dots(regret, intervals, np.array(heights), COLOURS[criterion], MARKERS[criterion])
    differ.set(yticks=places, yticklabels=[each.setting.title for each in summaries], ylim=(len(summaries) - 0.5, -0.5))
    differ.set(xlabel="rounds in which choices differ (%)")
    regret.set(xlabel="exact log PPP lost a round (nats)")
    for axes in (differ, regret):
        axes.grid(axis="x", alpha=0.3)


def _legend(figure: Figure) -> None:
    lines = [
        *(Line2D([], [], color=COLOURS[c], linestyle=STYLES[c], marker=MARKERS[c], linewidth=2) for c in CRITERIA),
        Line2D([], [], color=GREEN, linewidth=2),
        Line2D([], [], color=GREY, linestyle=":", linewidth=2),
    ]
    labels = [f"{FULL} (full)", f"{SIMPLIFIED} (simplified)", f"{FULL} − {SIMPLIFIED}", "supervised"]
    figure.legend(lines, labels, loc="outside upper center", ncols=4, frameon=False, title="means with 95% intervals")
