"""The decision map: which class a model gives to rows of two features, and which rows a run added in what order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patheffects import withStroke

from pymc_bpls.errors import LabelError, RowError
from pymc_bpls.model.table import Labeled
from pymc_bpls.plots.panels import BLUE, COLOURS, FONT, MARKERS, VERMILION, legend_above, panels, tidy
from pymc_bpls.scoring.fitted import Fitted
from pymc_bpls.selector import PseudoLabelSelector
from pymc_bpls.selftraining.saved_run import read_run

_LEVELS = np.linspace(0, 1, 11)
_NUMBERED = 12
_LETTERS = (0.07, 0.045)  # room that a number takes, as shares of the axes
_TWO_SIDES = LinearSegmentedColormap.from_list("orange to blue", [VERMILION, "0.95", BLUE])


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
    """Rows by two features, coloured by the probability of a class; a map of it where the model can predict new rows.

    Parameters
    ----------
    pls : BPLS
    x, y : array_like, shape (rows of the table,)
        The features, in their own units. The name of a Series or DataArray becomes the label of its axis.
    run : xarray.DataTree, optional
        A run of `pls`, whose last model predicts and whose pseudo-labels are shown in the order of their selection; by default
        the model of the labeled rows.
    label : optional
        The class whose probability is shown, the last one by default.
    grid : tuple, optional
        (gx, gy, rows): values (c,) and (r,) of the two features, and new rows for the model's `pm.Data` containers, as for
        `pool`, one for each point of `np.meshgrid(gx, gy)` in its order (r · c rows). Without it only the table's rows are
        drawn, which works for any model.
    axes : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
        Labeled rows are large, a shape for each class; pseudo-labeled rows are white inside, with the place in the order for
        some of them; candidates are small circles, held-out rows dots. The line of the map is where the class has
        probability ½.

    Raises
    ------
    RowError, LabelError
        The features are not one number a row, `grid` has another number of rows, or `label` is no class.
    CriterionError
        The run is none of `pls`.

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
    problem, scorer = pls.scorer.problem, pls.scorer
    names, n = problem.classes.names, len(problem.table.codes)
    points = np.column_stack([_feature(values, n, name) for values, name in ((x, "x"), (y, "y"))])
    code = _code(label, names.tolist())
    D, added, start = _rows_of(pls, run)
    fit = scorer.fit(D, start, centre_of="vi")
    panel = panels(1, 1, (6.4, 5.0), axes)[0, 0]
    if grid is not None:
        _map(panel, pls, fit, code, grid)
    p = np.exp(scorer.log_probabilities(fit, np.arange(n))[:, code])
    drawn = _without_label(panel, points, p, np.setdiff1d(np.arange(n), D.positions), problem.table.candidates)
    _with_label(panel, points, D, len(D) - added, code, names.tolist())
    bar = panel.figure.colorbar(drawn, ax=panel)
    bar.set_label(f"probability of class {names[code]}", fontsize=FONT)
    panel.set_xlabel(str(getattr(x, "name", None) or "x"), fontsize=FONT)
    panel.set_ylabel(str(getattr(y, "name", None) or "y"), fontsize=FONT)
    legend_above(panel, 2)
    tidy(panel)
    return panel


def _rows_of(pls: PseudoLabelSelector, run: xr.DataTree | None) -> tuple[Labeled, int, np.ndarray | None]:
    """D, how many of its last rows are pseudo-labeled, and where to look for its mode."""
    if run is None:
        return pls.labeled, 0, None
    saved = read_run(run, pls.scorer.problem)
    return saved.labeled, saved.n_added, saved.theta


def _feature(values: Any, n: int, name: str) -> np.ndarray:
    array = np.asarray(values)
    if array.shape != (n,) or array.dtype.kind not in "biuf":
        raise RowError(
            f"{name}= is of shape {array.shape} and type {array.dtype}, and the table has {n} rows. Give a number for each row."
        )
    return array.astype(float)


def _code(label: Any, names: list[Any]) -> int:
    if label is None:
        return len(names) - 1
    if label not in names:
        raise LabelError(f"label={label!r} is none of the classes {names}. Give one of them.")
    return names.index(label)


def _map(panel: Axes, pls: PseudoLabelSelector, fit: Fitted, code: int, grid: tuple[Any, Any, Mapping[str, Any]]) -> None:
    """Probabilities of new rows on a grid of the two features, and the line where they are ½."""
    gx, gy = (np.asarray(values, dtype=float) for values in grid[:2])
    scorer, positions = pls.scorer.with_rows(grid[2])
    if len(positions) != gx.size * gy.size:
        raise RowError(
            f"grid= has {len(positions)} new rows for {gx.size} by {gy.size} points. Give a row for each point of "
            "np.meshgrid(gx, gy)."
        )
    p = np.exp(scorer.log_probabilities(fit, positions)[:, code]).reshape(gy.size, gx.size)
    panel.contourf(gx, gy, p, _LEVELS, cmap=_TWO_SIDES, alpha=0.6, antialiased=False)
    panel.contour(gx, gy, p, [0.5], colors="black", linewidths=1.3)


def _without_label(panel: Axes, points: np.ndarray, p: np.ndarray, rows: np.ndarray, candidates: np.ndarray) -> Any:
    """Candidates and held-out rows, coloured by p; returns what a colour bar needs."""
    rows = rows[np.isfinite(p[rows])]
    are = np.isin(rows, candidates)
    for some, size, width, name in ((rows[~are], 9, 0.0, "held-out row"), (rows[are], 26, 0.7, "candidate")):
        drawn = panel.scatter(
            points[some, 0],
            points[some, 1],
            s=size,
            c=p[some],
            cmap=_TWO_SIDES,
            vmin=0,
            vmax=1,
            edgecolors="0.25",
            linewidths=width,
            label=f"{name} ({len(some)})" if len(some) else None,
        )
    return drawn


def _with_label(panel: Axes, points: np.ndarray, D: Labeled, n_labeled: int, code: int, names: list[Any]) -> None:
    """Labeled rows, filled, and pseudo-labeled rows, white inside and with some of their places in the order."""
    others = [each for each in range(len(names)) if each != code]
    colours = dict(zip([code, *others], [*COLOURS] * len(names), strict=False))
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
