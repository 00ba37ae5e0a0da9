"""The study as figures: curves of the main settings, those of the original code, and where PPP gains on the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D

from validation.paper.report.wording import NAMES
from validation.paper.settings import (
    EP,
    GLM_PROBABILITY,
    GLM_RANDOM,
    GLM_SUPERVISED,
    GLM_VARIANCE,
    GRID,
    LIKELIHOOD,
    ORIGINAL,
    PROBABILITY,
    RANDOM,
    REAL,
    SUPERVISED,
    TABLE_1,
    TWENTY,
    VARIANCE,
)
from validation.paper.summary import ALONG, FINAL, Summary, of
from validation.study.figures import BLUE, FONT, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION, band
from validation.study.intervals import Interval


@dataclass(frozen=True)
class Family:
    """Methods of one kind of model with their colours and lines, the first of which is compared with some of the others."""

    lines: Mapping[str, tuple[str, Any]]
    first: str
    rivals: tuple[str, ...]
    supervised: str


BAYESIAN = Family(
    {
        EP: (BLUE, "-"),
        LIKELIHOOD: (ORANGE, (0, (5, 2))),
        VARIANCE: (PURPLE, (0, (1, 1))),
        PROBABILITY: (VERMILION, (0, (4, 2))),
        RANDOM: (GREEN, (0, (6, 2, 1, 2))),
    },
    EP,
    (PROBABILITY, RANDOM),
    SUPERVISED,
)
BY_GLM = Family(
    {
        ORIGINAL: (SKY, "-"),
        GLM_VARIANCE: (PURPLE, (0, (1, 1))),
        GLM_PROBABILITY: (VERMILION, (0, (4, 2))),
        GLM_RANDOM: (GREEN, (0, (6, 2, 1, 2))),
    },
    ORIGINAL,
    (GLM_PROBABILITY, GLM_RANDOM),
    GLM_SUPERVISED,
)
SPAN = 6.0
RIVALS = (RANDOM, PROBABILITY)
WHEN = {ALONG: "along", FINAL: "final"}
#: The settings of the main tables: the weak prior in all of them.
REGION = (*TABLE_1, *TWENTY, *GRID, *REAL)
COLUMNS, WIDTH, ROW = 3, 13.0, 4.6
COLOURS, EXTENT, SIZE = "PuOr", 5.0, 16


def figures(summaries: Mapping[str, Summary], folder: Path) -> dict[str, str]:
    """Draw those for which there are results; their names by what they show."""
    main = of(summaries, (*TABLE_1, *REAL))
    shown: dict[str, tuple[Callable[[Sequence[Summary]], Figure], list[Summary]]] = {
        "curves": (partial(_all_curves, BAYESIAN), main),
        "original": (partial(_all_curves, BY_GLM), [each for each in main if each.has(*BY_GLM.lines)]),
        "region": (_region, of(summaries, REGION)),
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


def _all_curves(family: Family, summaries: Sequence[Summary]) -> Figure:
    rows = -(-len(summaries) // COLUMNS)
    figure = plt.figure(figsize=(WIDTH, ROW * rows + 1.2), layout="constrained")
    panels = np.atleast_1d(figure.subfigures(rows, COLUMNS)).ravel()
    for panel, summary in zip(panels, summaries, strict=False):
        _curves(family, panel, summary)
    lines = [Line2D([], [], color=colour, linestyle=style, linewidth=2.5) for colour, style in family.lines.values()]
    plain = {method: name.replace("`", "") for method, name in NAMES.items()}
    against = " and minus ".join(plain[rival] for rival in family.rivals)
    figure.legend(
        [*lines, Line2D([], [], color=GREY, linestyle=":", linewidth=2)],
        [*(plain[method] for method in family.lines), plain[family.supervised]],
        loc="outside upper center",
        ncols=3,
        frameon=False,
        title=f"accuracy; below, {plain[family.first]} minus {against}, with 95% intervals",
    )
    return figure


def _curves(family: Family, panel: SubFigure, summary: Summary) -> None:
    """Mean accuracies, and paired differences of the first method to others."""
    accuracy, difference = panel.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    for method, (colour, style) in family.lines.items():
        if summary.has(method):
            accuracy.plot(summary.points, summary.curve(method).mean(axis=0), color=colour, linestyle=style, linewidth=2.5)
    accuracy.axhline(summary.mean(family.supervised), color=GREY, linestyle=":", linewidth=2)
    low, high = accuracy.get_ylim()
    beyond = max(0.0, SPAN - (high - low)) / 2
    accuracy.set_ylim(low - beyond, min(high + beyond, 100.5))
    for rival in family.rivals:
        gaps = summary.curve(family.first) - summary.curve(rival)
        band(difference, summary.points, Interval.of(gaps), *family.lines[rival])
    difference.axhline(0, color=GREY, linewidth=1)
    limit = max(2.0, *np.abs(difference.get_ylim()))
    difference.set_ylim(-min(limit, 15), min(limit, 15))
    accuracy.set_title(f"{summary.setting.title} (R = {summary.runs(family.first)})", fontsize="small")
    accuracy.set_ylabel("%")
    difference.set(xlabel="pool labeled (%)", ylabel="points")
    panel.align_ylabels()
    for axes in (accuracy, difference):
        axes.grid(alpha=0.3)


def _region(summaries: Sequence[Summary]) -> Figure:
    """A disc a setting: the paper's proxies of how hard it is, and in colour PPP's advantage with the ends of its interval."""
    figure, rows = plt.subplots(2, len(RIVALS), figsize=(WIDTH, 12.5), layout="constrained", sharex=True, sharey=True)
    norm = Normalize(-EXTENT, EXTENT)

    def to_colour(points: float) -> Any:
        return colormaps[COLOURS](norm(points))

    for row, (measure, when) in zip(rows, WHEN.items(), strict=True):
        for axes, rival in zip(row, RIVALS, strict=True):
            for summary in summaries:
                _disc(axes, summary, summary.difference(EP, rival, measure), to_colour)
            axes.set(xscale="log", title=f"PPP − {NAMES[rival]}, {when}")
            axes.xaxis.set_major_formatter("{x:g}")
            axes.grid(alpha=0.3)
        row[0].set_ylabel("supervised accuracy (%)")
    for axes in rows[-1]:
        axes.set_xlabel("q / n")
    figure.colorbar(
        ScalarMappable(norm, COLOURS), ax=rows, label="points", extend="both", shrink=0.6, aspect=40, location="bottom"
    )
    shared: dict[str, Any] = {"color": "none", "markersize": SIZE, "marker": "o", "fillstyle": "left"}
    marks = [
        Line2D([], [], markerfacecolor=to_colour(low), markerfacecoloralt=to_colour(high), **_edge(low * high > 0), **shared)
        for low, high in ((-3, 2), (1, 4))
    ]
    names = ["inner disc: mean; left and right: ends of the 95% interval", "ringed in black: the interval is without 0"]
    figure.legend(marks, names, loc="outside upper center", ncols=1, frameon=False)
    return figure


def _disc(axes: Axes, summary: Summary, gap: Interval, to_colour: Callable[[float], Any]) -> None:
    """The mean inside, and around it the ends of the interval, each in its colour."""
    place = [summary.features / summary.setting.n], [summary.mean(SUPERVISED)]
    low, mean, high = (to_colour(float(value)) for value in (gap.low, gap.mean, gap.high))
    shared: dict[str, Any] = {"marker": "o", "linestyle": "none"}
    halves = {"fillstyle": "left", "markerfacecolor": low, "markerfacecoloralt": high}
    axes.plot(*place, markersize=SIZE, zorder=2 + abs(gap.sign), **halves, **shared, **_edge(gap.sign != 0))
    axes.plot(*place, markersize=SIZE / 2, markerfacecolor=mean, markeredgecolor=GREY, zorder=2 + abs(gap.sign), **shared)


def _edge(excludes_zero: bool) -> dict[str, Any]:
    return {"markeredgecolor": "black" if excludes_zero else GREY, "markeredgewidth": 2 if excludes_zero else 0.8}
