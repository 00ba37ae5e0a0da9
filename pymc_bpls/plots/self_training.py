"""What a self-training run did, panel by panel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from pymc_bpls.errors import CriterionError
from pymc_bpls.plots.panels import (
    BLUE,
    COLOURS,
    FONT,
    GREY,
    LEAST_SPAN,
    VERMILION,
    class_colours,
    legend_above,
    panels_in_pairs,
    span_at_least,
    tidy,
    unit_of,
)
from pymc_bpls.scoring.settings import source_of_error
from pymc_bpls.selftraining.run_tables import RunTables, read_tables
from pymc_bpls.selftraining.saved_run import is_run

_BAND, _MARGIN = 0.2, 0.03
_SIZE = (3.8, 2.7)
_STYLES = ("-", "--", "-.", ":")


def plot_self_training(run: xr.DataTree, *, axes: Any = None) -> np.ndarray:
    """What a run did: how the models predict, which scores were chosen and how clearly, and the classes that were added.

    Parameters
    ----------
    run : xarray.DataTree
        What `BPLS.self_train` or `resume` returned.
    axes : array_like of matplotlib Axes, optional
        As many as there are panels, in the order below.

    Returns
    -------
    numpy.ndarray of matplotlib Axes
        Accuracy on the test rows, with the supervised model's as a dashed line and a band of ± 1 standard error of the paired
        difference from it; the log score of the test rows, and of rows that a stop rule held out; scores of the chosen rows;
        their gaps to the best candidate that was left, and where class sums or draws tell it, the error of such a gap, within
        which it is a tie (beyond it only `audit_along` can tell); pseudo-labels of each class, with dotted lines where the
        labeled rows' shares would have led. Axes of scores, which have no error bar, span a tenth of a nat at least; that of
        log scores shows a guess where it is near. Panels for which the run has nothing (no test rows, no pseudo-labels) are
        left out.

    Raises
    ------
    ValueError
        `axes` are not as many as the panels.
    CriterionError
        `run` is no run, or is not as `self_train` left it.

    See Also
    --------
    BPLS.self_train : what is drawn.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_bpls as bpls
    >>> X = np.column_stack([np.ones(24), np.linspace(-2, 2, 24)])
    >>> y = np.where(np.arange(24) % 2, -1, X[:, 1] + np.tile([0.9, -0.9], 12) > 0)
    >>> with pm.Model() as model:
    ...     label = pm.Bernoulli("label", logit_p=X @ pm.Normal("b", 0, 2.5, shape=2), observed=y)
    >>> run = bpls.BPLS(model).self_train("probability", rounds=5, progressbar=False)
    >>> [panel.get_ylabel() for panel in bpls.plot_self_training(run)][0]
    'score of the chosen row\\n("probability", probability)'
    """
    if not is_run(run):
        raise CriterionError(f"A {type(run).__name__} is no run. Give one that self_train or resume returned.")
    tables = read_tables(run)
    drawn, last = _panels_of(tables), tables.history.sizes["step"]
    grid = panels_in_pairs(len(drawn), _SIZE, axes)
    for panel, draw in zip(grid, drawn, strict=True):
        draw(panel, tables)
        panel.set_xlim(-_MARGIN * max(last, 1), (1 + _MARGIN) * max(last, 1))
        panel.set_xlabel("pseudo-labels added", fontsize=FONT)
        panel.yaxis.label.set_fontsize(FONT)
        panel.tick_params(labelsize=FONT - 1.5)
        panel.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        tidy(panel)
    return grid


def _panels_of(run: RunTables) -> Sequence[Callable[[Axes, RunTables], None]]:
    """What there is to draw."""
    curve, steps = run.curve, run.history.sizes["step"]
    gaps = steps and np.isfinite(run.history["gap"].to_numpy()).any()
    every = (
        ("accuracy" in curve, _accuracy),
        ("log_score" in curve or "held_out_log_score" in curve, _log_scores),
        (steps, _scores),
        (gaps, _gaps),
        (steps, _classes),
    )
    return [draw for there, draw in every if there] or [_nothing]


def _accuracy(panel: Axes, run: RunTables) -> None:
    curve, t = run.curve, run.n_test
    x, accuracy = curve["n_pseudo"].to_numpy(), curve["accuracy"].to_numpy()
    won, lost = (curve[name].to_numpy() / t for name in ("won", "lost"))
    error = np.sqrt(np.maximum(won + lost - (won - lost) ** 2, 0) / max(t - 1, 1))
    panel.fill_between(x, accuracy - error, accuracy + error, color=BLUE, alpha=_BAND, linewidth=0, label="± 1 s.e.")
    _line(panel, x, accuracy, BLUE, "self-training")
    panel.axhline(accuracy[0], color="black", linestyle=(0, (5, 2)), linewidth=1.5, label="supervised")
    span_at_least(panel, LEAST_SPAN)
    low, high = panel.get_ylim()
    panel.set_ylim(max(low, -0.01), min(high, 1.01))
    panel.set_ylabel(f"accuracy on {t} test rows\n(share right)")
    legend_above(panel, 3)


def _log_scores(panel: Axes, run: RunTables) -> None:
    curve = run.curve
    x = curve["n_pseudo"].to_numpy()
    kinds = (("log_score", f"{run.n_test} test rows"), ("held_out_log_score", f"{run.n_held_out} rows set aside"))
    for place, (name, what) in enumerate(kinds):
        if name not in curve:
            continue
        values, colour = curve[name].to_numpy(), COLOURS[place]
        _line(panel, x, values, colour, what, _STYLES[place])
        panel.axhline(values[0], color=colour if place else "black", linestyle=(0, (5, 2)), linewidth=1.2)
    guess = -np.log(len(run.classes))
    span_at_least(panel, LEAST_SPAN)
    low, high = panel.get_ylim()
    if low - (high - low) < guess < high + (high - low):  # a guess is shown where it takes half of the panel at most
        panel.axhline(guess, color=GREY, linestyle=":", linewidth=1.2, label="a guess")
    panel.set_ylim(top=min(panel.get_ylim()[1], 0))
    panel.set_ylabel("mean log score\n(nats a row)")
    legend_above(panel, 2)


def _scores(panel: Axes, run: RunTables) -> None:
    history, criterion = run.history, run.criterion
    _line(panel, history["step"].to_numpy(), history["score"].to_numpy(), BLUE, None)
    _not_enlarged(panel, criterion)
    panel.set_ylabel(f'score of the chosen row\n("{criterion}", {unit_of(criterion)})')


def _gaps(panel: Axes, run: RunTables) -> None:
    history, criterion = run.history, run.criterion
    x, gap = history["step"].to_numpy(), history["gap"].to_numpy()
    panel.vlines(x, 0, gap, color=VERMILION, linewidth=1.2)
    panel.plot(x, gap, "o", color=VERMILION, markersize=3.5)
    if "own_error" in history:
        error, by = history["own_error"].to_numpy(), source_of_error(criterion, run.approximation)
        panel.fill_between(x, 0, error, step="mid", color=GREY, alpha=_BAND, linewidth=0, label=f"known ties, by {by}")
        legend_above(panel, 1)
    panel.axhline(0, color=GREY, linewidth=1)
    _not_enlarged(panel, criterion, lowest=0.0)
    panel.set_ylabel(f"gap to the next best row\n({unit_of(criterion)})")


def _not_enlarged(panel: Axes, criterion: str, lowest: float | None = None) -> None:
    """Scores have no error bar: where their unit has a meaning, small differences stay small; the axis begins at `lowest`."""
    unit = unit_of(criterion)
    if unit in ("nats", "probability"):
        span_at_least(panel, LEAST_SPAN)
    low, high = panel.get_ylim()
    margin = 0.04 * (high - low)
    if lowest is not None:
        panel.set_ylim(lowest - margin, lowest - margin + (high - low))
    elif unit == "probability" and high > 1 + margin:
        panel.set_ylim(low - (high - 1 - margin), 1 + margin)


def _classes(panel: Axes, run: RunTables) -> None:
    added = run.history["pseudo_label"].to_numpy()
    x = np.r_[np.arange(len(added) + 1), (1 + _MARGIN) * len(added)]  # the last step has a tread, too
    for place, (name, colour) in enumerate(zip(run.classes, class_colours(run.classes), strict=True)):
        share, count = (run.labels == name).mean(), np.cumsum(added == name)
        count = np.r_[0, count, count[-1]]
        panel.step(
            x,
            count,
            where="post",
            color=colour,
            linestyle=_STYLES[place // len(COLOURS) % len(_STYLES)],
            linewidth=1.8,
            label=f"{name}: {count[-1]} ({count[-1] / len(added):.0%}; labeled {share:.0%})",
        )
        panel.plot(x[:-1], share * x[:-1], color=colour, linestyle=":", linewidth=1.2)
    panel.set_ylabel("pseudo-labels of a class\n(dotted: labeled share)")
    panel.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    legend_above(panel, 3)


def _nothing(panel: Axes, run: RunTables) -> None:
    panel.text(0.5, 0.5, f"no pseudo-label was added:\n{run.stop_reason}", ha="center", transform=panel.transAxes)
    panel.set_yticks([])


def _line(panel: Axes, x: np.ndarray, y: np.ndarray, colour: str, label: str | None, style: str = "-") -> None:
    """A line, with markers as long as they can be told apart."""
    marker = "o" if len(x) <= 40 else ""
    panel.plot(x, y, color=colour, linestyle=style, marker=marker, markersize=3.5, linewidth=1.6, label=label)
