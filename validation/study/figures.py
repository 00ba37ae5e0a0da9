"""What the studies' figures share: a size of letters that survives half width, and intervals as bands and dots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from validation.study.intervals import Interval

FONT: dict[Any, Any] = {"font.size": 15, "axes.titlesize": 16, "axes.labelsize": 15, "legend.fontsize": 15}
# Okabe and Ito's, told apart by the colour-blind
BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9"
GREY = "#444444"


def band(axes: Axes, x: np.ndarray, interval: Interval, colour: str, style: Any) -> None:
    """A curve of means with their intervals."""
    axes.plot(x, interval.mean, color=colour, linestyle=style, linewidth=2)
    axes.fill_between(x, interval.low, interval.high, color=colour, alpha=0.18, linewidth=0)


def dots(axes: Axes, intervals: Sequence[Interval], places: np.ndarray, colour: str, marker: str) -> None:
    """Means with their intervals, lying."""
    means = [float(each.mean) for each in intervals]
    halves = [float(np.nan_to_num(each.half)) for each in intervals]
    axes.errorbar(
        means, places, xerr=halves, color=colour, marker=marker, linestyle="none", markersize=8, capsize=3, linewidth=2
    )
