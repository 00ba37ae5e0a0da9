"""The study as figures: curves of the main settings, those of the original code, and where PPP gains on the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D

from validation.paper.settings import (
    EP,
    GLM_PROBABILITY,
    GLM_RANDOM,
    GLM_VARIANCE,
    GRID,
    LIKELIHOOD,
    ORIGINAL,
    PROBABILITY,
    RANDOM,
    REAL,
    STRENGTH,
    TABLE_1,
    VARIANCE,
)
from validation.paper.summary import ALONG, FINAL, GLM_SUPERVISED, SUPERVISED, Summary, of, weak
from validation.paper.wording import NAMES
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
RIVALS = (SUPERVISED, RANDOM, PROBABILITY)
WHEN = {FINAL: "with all pseudo-labels", ALONG: "averaged along the run"}
COLUMNS, WIDTH, ROW = 3, 13.0, 4.6
COLOURS, EXTENT = "PuOr", 5.0
MARKERS = {2.5: "o", 0.5: "s", 1.0: "D", 10.0: "^"}


def figures(summaries: Mapping[str, Summary], folder: Path) -> dict[str, str]:
    """Draw those for which there are results; their names by what they show."""
    main = of(summaries, (*TABLE_1, *REAL))
    shown: dict[str, tuple[Callable[[Sequence[Summary]], Figure], list[Summary]]] = {
        "curves": (partial(_all_curves, BAYESIAN), main),
        "original": (partial(_all_curves, BY_GLM), [each for each in main if each.has(*BY_GLM.lines)]),
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
    accuracy.set_title(f"{summary.setting.title} (R = {summary.repetitions})", fontsize="small")
    accuracy.set_ylabel("%")
    difference.set(xlabel="pool labeled (%)", ylabel="points")
    panel.align_ylabels()
    for axes in (accuracy, difference):
        axes.grid(alpha=0.3)


def _region(summaries: Sequence[Summary]) -> Figure:
    """A dot a setting: how hard it is, and in colour what PPP gains there, at the end and along the run."""
    figure, rows = plt.subplots(2, len(RIVALS), figsize=(WIDTH, 10.6), layout="constrained", sharex=True, sharey=True)
    norm = TwoSlopeNorm(0, -EXTENT, EXTENT)
    for row, (measure, when) in zip(rows, WHEN.items(), strict=True):
        for axes, rival in zip(row, RIVALS, strict=True):
            dots = _dots(axes, summaries, rival, measure, norm)
            axes.set(xscale="log", title=f"PPP − {NAMES[rival]}")
            axes.xaxis.set_major_formatter("{x:g}")
            axes.grid(alpha=0.3)
        row[0].set_ylabel("supervised accuracy (%)")
        figure.colorbar(dots, ax=row, label=f"points, {when}", extend="both", shrink=0.9)
    for axes in rows[-1]:
        axes.set_xlabel("labels per parameter")
    kinds = [*((f"prior sd {sd:g}", marker, 1) for sd, marker in sorted(MARKERS.items())), ("interval without 0", "o", 3)]
    shared: dict[str, Any] = {"color": "none", "markerfacecolor": "white", "markeredgecolor": GREY, "markersize": 11}
    marks = [Line2D([], [], marker=marker, markeredgewidth=width, **shared) for _, marker, width in kinds]
    title = "one symbol per setting, larger for a larger pool"
    figure.legend(marks, [name for name, _, _ in kinds], loc="outside lower center", ncols=5, frameon=False, title=title)
    return figure


def _dots(axes: Axes, summaries: Sequence[Summary], rival: str, measure: str, norm: TwoSlopeNorm) -> Any:
    for summary in summaries:
        gap = summary.difference(EP, rival, measure)
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
