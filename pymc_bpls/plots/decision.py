"""The decision map: which class a model gives to rows of two features, and which rows a run added in what order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize, to_rgb
from matplotlib.patheffects import withStroke

from pymc_bpls.errors import CriterionError, LabelError, RowError
from pymc_bpls.model.data.table import Labeled, by_container
from pymc_bpls.plots.panels import FONT, MARKERS, class_colours, legend_above, panels, tidy
from pymc_bpls.scoring.fitted import Fitted
from pymc_bpls.scoring.scorer import Scorer
from pymc_bpls.selector import PseudoLabelSelector
from pymc_bpls.trained.result import read_trained

_NUMBERED = 12
_LETTERS = (0.07, 0.045)  # room that a number takes, as shares of the axes
_PALEST, _DARKEST = 0.15, 0.75  # of a class that is hardly predicted, and of the colour bar's grey
_MAP = 0.5  # how strong the map's colours are beside those of rows


def plot_decision(
    pls: PseudoLabelSelector,
    x: Any,
    y: Any,
    *,
    run: xr.DataTree | None = None,
    label: Any = None,
    grid: tuple[Any, Any, Mapping[str, Any]] | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Rows by two features, coloured by their predicted class; a map of it where the model can predict new rows.

    Parameters
    ----------
    pls : BPLS
    x, y : array_like, shape (rows of the table,)
        The features, in their own units. The name of a Series or DataArray becomes the label of its axis.
    run : xarray.DataTree, optional
        A run of `pls`, whose last model predicts and whose pseudo-labels are shown in the order of their selection; by default
        the model of the labeled rows.
    label : optional
        A class whose probability is shown. By default colours tell the predicted class and pale with its probability; of two
        classes that is the probability of the second.
    grid : tuple, optional
        (gx, gy, rows): values (c,) and (r,) of the two features, and new rows for the model's `pm.Data` containers, as for
        `pool`, one for each point of `np.meshgrid(gx, gy)` in its order (r · c rows). Without it only the table's rows are
        drawn, which works for any model.
    axes : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
        Labeled rows are large, a shape for each class; pseudo-labeled rows are white inside, with the place in the order for
        some of them; candidates are small circles, held-out rows dots. Classes have the colours of `plot_self_training`. Lines
        of the map are where the predicted class changes, or where that of `label=` has probability ½.

    Raises
    ------
    RowError, LabelError
        The features are not one number a row, `grid` has another number of rows, or `label` is no class.
    CriterionError
        `pls` is no `BPLS` or `ModelSet`, or the run is none of it.

    See Also
    --------
    plot_self_training : the run by its curves.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_bpls as bpls
    >>> X = np.column_stack([np.linspace(-2, 2, 24), np.tile([0.3, -1.2, 0.8, 0.1], 6)])
    >>> y = np.where(np.arange(24) % 2, -1, X[:, 0] + np.tile([0.9, -0.9], 12) > 0)
    >>> with pm.Model() as model:
    ...     data = pm.Data("X", X)
    ...     label = pm.Bernoulli("label", logit_p=data @ pm.Normal("b", 0, 2.5, shape=2), observed=y)
    >>> side = np.linspace(-2, 2, 15)
    >>> points = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    >>> panel = bpls.plot_decision(bpls.BPLS(model), X[:, 0], X[:, 1], grid=(side, side, {"X": points}))
    >>> panel.get_xlabel()
    'x'
    """
    if not isinstance(pls, PseudoLabelSelector):
        raise CriterionError(f"pls= is a {type(pls).__name__}. Give the BPLS or ModelSet whose rows are to be drawn.")
    problem, trained = pls.scorer.problem, read_trained(run, pls.scorer.problem)
    scorer = trained.predicting(pls.scorer)
    names, n = problem.classes.names, len(problem.table.codes)
    points = np.column_stack([_feature(values, n, name) for values, name in ((x, "x"), (y, "y"))])
    shading = _shading(label, names.tolist())
    D, added = trained.labeled, int((trained.rounds > 0).sum())
    fit = scorer.fit(D, trained.start, centre_of="vi").for_scores_by(trained.averaged_by(scorer))
    panel = panels(1, 1, (6.4, 5.0), axes)[0, 0]
    if grid is not None:
        _map(panel, scorer, fit, shading, grid)
    p = np.exp(scorer.log_probabilities(fit, np.arange(n)))
    _without_label(panel, points, p, np.setdiff1d(np.arange(n), D.positions), problem.table.candidates, shading)
    _with_label(panel, points, D, len(D) - added, names.tolist())
    bar = panel.figure.colorbar(ScalarMappable(Normalize(shading.low, 1), shading.scale), ax=panel)
    bar.set_label(shading.said, fontsize=FONT)
    panel.set_xlabel(str(getattr(x, "name", None) or "x"), fontsize=FONT)
    panel.set_ylabel(str(getattr(y, "name", None) or "y"), fontsize=FONT)
    legend_above(panel, 2)
    tidy(panel)
    return panel


@dataclass(frozen=True)
class Shading:
    """How class probabilities p (…, K) become colours: `scale` is that of a colour bar from `low` to 1, which says `said`.

    With `code` it is of that class; without, of whichever class is predicted, in the colour of that class.
    """

    colours: list[Any]
    code: int | None
    scale: Colormap
    said: str

    @property
    def low(self) -> float:
        """The probability without any colour: that of a guess, below which none is predicted."""
        return 0.0 if self.code is not None else 1 / len(self.colours)

    def colour(self, p: np.ndarray) -> np.ndarray:
        """Colours (…, 3)."""
        if self.code is not None:
            return np.asarray(self.scale(p[..., self.code]))[..., :3]
        strength = (p.max(axis=-1, keepdims=True) - self.low) / (1 - self.low)
        pale = _PALEST + (1 - _PALEST) * strength
        return 1 - pale * (1 - np.array([to_rgb(colour) for colour in self.colours])[p.argmax(axis=-1)])

    def of_points(self, p: np.ndarray) -> dict[str, Any]:
        """The same as arguments of `scatter`, for p (rows, K)."""
        if self.code is None:
            return {"c": self.colour(p)}
        return {"c": p[:, self.code], "cmap": self.scale, "vmin": self.low, "vmax": 1}

    def borders(self, p: np.ndarray) -> list[np.ndarray]:
        """Values (…) that are 0 on each border."""
        if self.code is not None:
            return [p[..., self.code] - 0.5]
        return [p[..., each] - np.delete(p, each, axis=-1).max(axis=-1) for each in range(p.shape[-1])]


def _shading(label: Any, names: list[Any]) -> Shading:
    if label is not None and label not in names:
        raise LabelError(f"label={label!r} is none of the classes {names}. Give one of them.")
    colours = class_colours(names)
    if label is None and len(names) > 2:
        scale = LinearSegmentedColormap.from_list("pale to dark", [str(1 - _PALEST * _DARKEST), str(1 - _DARKEST)])
        return Shading(colours, None, scale, "probability of the predicted class")
    code = len(names) - 1 if label is None else names.index(label)
    other = colours[1 - code] if len(names) == 2 else "0.35"
    scale = LinearSegmentedColormap.from_list("from the others to the class", [other, "0.95", colours[code]])
    return Shading(colours, code, scale, f"probability of class {names[code]}")


def _feature(values: Any, n: int, name: str) -> np.ndarray:
    array = np.asarray(values)
    if array.shape != (n,) or array.dtype.kind not in "biuf":
        raise RowError(
            f"{name}= is of shape {array.shape} and type {array.dtype}, and the table has {n} rows. Give a number for each row."
        )
    return array.astype(float)


def _map(panel: Axes, scorer: Scorer, fit: Fitted, shading: Shading, grid: tuple[Any, Any, Mapping[str, Any]]) -> None:
    """Colours of new rows on a grid of the two features, and the lines where the prediction changes."""
    try:
        xs, ys, rows = grid
        gx, gy = (np.asarray(values, dtype=float) for values in (xs, ys))
    except (TypeError, ValueError):
        raise RowError("grid= is no triple of two features and new rows. Give (gx, gy, rows), rows as for pool=.") from None
    if not isinstance(rows, Mapping | pd.DataFrame):
        raise RowError(f"grid= has new rows of type {type(rows).__name__}. Give a mapping as for pool=.")
    scorer, positions = scorer.with_rows(by_container(rows, scorer.problem.model, "grid"), "grid")
    if len(positions) != gx.size * gy.size:
        raise RowError(
            f"grid= has {len(positions)} new rows for {gx.size} by {gy.size} points. Give a row for each point of "
            "np.meshgrid(gx, gy)."
        )
    p = np.exp(scorer.log_probabilities(fit, positions)).reshape(gy.size, gx.size, -1)
    panel.pcolormesh(gx, gy, 1 - _MAP * (1 - shading.colour(p)), shading="nearest", rasterized=True)
    for values in shading.borders(p):
        if values.min() < 0 < values.max():
            panel.contour(gx, gy, values, [0], colors="black", linewidths=1.3)


def _without_label(
    panel: Axes, points: np.ndarray, p: np.ndarray, rows: np.ndarray, candidates: np.ndarray, shading: Shading
) -> None:
    """Candidates and held-out rows, in the colours of their probabilities (rows, K)."""
    rows = rows[np.isfinite(p[rows]).all(axis=1)]
    are = np.isin(rows, candidates)
    for some, size, width, name in ((rows[~are], 9, 0.0, "held-out row"), (rows[are], 26, 0.7, "candidate")):
        if len(some):
            panel.scatter(
                points[some, 0],
                points[some, 1],
                s=size,
                **shading.of_points(p[some]),
                edgecolors="0.25",
                linewidths=width,
                label=f"{name} ({len(some)})",
            )


def _with_label(panel: Axes, points: np.ndarray, D: Labeled, n_labeled: int, names: list[Any]) -> None:
    """Labeled rows, filled, and pseudo-labeled rows, white inside and with some of their places in the order."""
    colours = class_colours(names)
    pseudo = np.arange(len(D)) >= n_labeled
    for kind, some in (("labeled", ~pseudo), ("pseudo-labeled", pseudo)):
        for each in np.unique(D.codes[some]).tolist():
            rows = D.positions[some & (D.codes == each)]
            panel.plot(
                points[rows, 0],
                points[rows, 1],
                MARKERS[each % len(MARKERS)],
                color=colours[each],
                markerfacecolor=colours[each] if kind == "labeled" else "white",
                markeredgecolor="black" if kind == "labeled" else colours[each],
                markeredgewidth=0.9 if kind == "labeled" else 1.6,
                markersize=7.5,
                label=f"{kind} {names[each]} ({len(rows)})",
            )
    added = points[D.positions[n_labeled:]]
    for place in _numbered(added, np.ptp([panel.get_xlim(), panel.get_ylim()], axis=1)):
        panel.annotate(
            str(place + 1),
            (added[place, 0], added[place, 1]),
            xytext=(4, 4),
            textcoords="offset points",
            fontsize=8.5,
            path_effects=[withStroke(linewidth=2, foreground="white")],
            zorder=6,
        )


def _numbered(added: np.ndarray, extent: np.ndarray) -> list[int]:
    """Which of the pseudo-labeled rows carry their number: the first, the last, and some between that are not too near."""
    total, kept = len(added), list[int]()
    places = np.linspace(0, total - 1, min(total, _NUMBERED)).round().astype(int).tolist()
    for place in dict.fromkeys([*places[:1], *places[-1:], *places]):
        apart = np.abs(added[kept] - added[place]) / extent
        if (apart > _LETTERS).any(axis=1).all():
            kept.append(place)
    return kept
