"""What all figures share: colours, panels, and their finish. No global style is changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import hsv_to_rgb
from matplotlib.figure import Figure

from pymc_bpls.scoring.criteria import CRITERIA

# Okabe and Ito's palette, which the colour-blind can tell apart
BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, YELLOW = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#E69F00",
    "#CC79A7",
    "#56B4E9",
    "#F0E442",
)
LIGHT_GREY = "#7F7F7F"
#: In the order in which series take them.
COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, LIGHT_GREY)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
#: Of lines of reference.
GREY = "0.45"
FONT = 11
#: How many a bar reaches to each side.
STANDARD_ERRORS = 2.0
#: A span of nats, or of probability, below which differences without an error bar are not drawn large.
LEAST_SPAN = 0.1
_UNITS = {"probability": "probability", "variance": "log odds squared", "random": "uniform number"}


def class_colours(classes: Sequence[Any] | np.ndarray) -> list[Any]:
    """A colour for each class, in the order of the classes of the model: the same in every figure, and no two alike."""
    if len(classes) <= len(COLOURS):
        return [*COLOURS[: len(classes)]]
    return [hsv_to_rgb((place / len(classes), 0.85, 0.75 if place % 2 else 0.5)) for place in range(len(classes))]


def span_at_least(panel: Axes, span: float, axis: Literal["x", "y"] = "y") -> None:
    """Widen an axis about its middle, so that it does not enlarge differences that have no error bar."""
    low, high = panel.get_ylim() if axis == "y" else panel.get_xlim()
    if abs(high - low) >= span:
        return
    middle, half = (low + high) / 2, np.copysign(span / 2, high - low)
    (panel.set_ylim if axis == "y" else panel.set_xlim)(middle - half, middle + half)


def panels(rows: int, columns: int, size: tuple[float, float], axes: Any = None, **options: Any) -> np.ndarray:
    """`axes` as an array (rows, columns), or panels of a new figure of that size in inches."""
    if axes is not None:
        return _as_many(axes, rows * columns, f"{rows} by {columns}").reshape(rows, columns)
    return np.asarray(_figure(size).subplots(rows, columns, squeeze=False, **options))


def panels_in_pairs(count: int, size: tuple[float, float], axes: Any = None) -> np.ndarray:
    """`axes` as an array (count,), or panels of that size on a new figure, two a row, the last one as wide as its row."""
    if axes is not None:
        return _as_many(axes, count, str(count))
    rows, columns = -(-count // 2), min(count, 2)
    figure = _figure((size[0] * columns, size[1] * rows))
    cells = figure.add_gridspec(rows, columns)
    places = [cells[place // columns, place % columns] for place in range(count)]
    if count > 1 and count % 2:
        places[-1] = cells[rows - 1, :]
    return np.array([figure.add_subplot(place) for place in places], dtype=object)


def _as_many(axes: Any, count: int, needed: str) -> np.ndarray:
    """The axes that a caller gave, shape (count,)."""
    given = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    strange = [each for each in given if not isinstance(each, Axes)]
    if strange:
        raise TypeError(
            f"axes= holds a {type(strange[0]).__name__}, which is no Axes of Matplotlib. "
            "Give what plt.subplots() returns as its second value, or leave it out."
        )
    if given.size != count:
        raise ValueError(f"axes= holds {given.size} panels and the figure needs {needed}. Give as many.")
    return given


def _figure(size: tuple[float, float]) -> Figure:
    """A new figure of pyplot's, which notebooks show by themselves."""
    import matplotlib.pyplot as plt

    return plt.figure(figsize=size, layout="constrained")


def tidy(panel: Axes, lines: Literal["both", "x", "y"] = "both") -> None:
    """A light grid and no box."""
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(axis=lines, color="0.92", linewidth=0.8)
    panel.set_axisbelow(True)


def legend_above(panel: Axes, columns: int) -> None:
    """A legend above the panel, where it hides nothing; its rows are in the order of the series, which fill columns."""
    handles, labels = panel.get_legend_handles_labels()
    columns = max(1, min(columns, len(labels)))
    order = [place for column in range(columns) for place in range(column, len(labels), columns)]
    panel.legend(
        [handles[place] for place in order],
        [labels[place] for place in order],
        fontsize=9,
        frameon=False,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=columns,
        columnspacing=1.0,
        handlelength=1.6,
        handletextpad=0.5,
    )


def unit_of(criterion: str) -> str:
    """The unit of a criterion's scores."""
    return _UNITS.get(criterion, "nats" if criterion in CRITERIA else "its own unit")
