"""Agreement with the exact ranking along a run."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from pymc_bpls.audit.along import AuditAlong
from pymc_bpls.audit.report import Audit
from pymc_bpls.errors import CriterionError
from pymc_bpls.plots.panels import (
    COLOURS,
    GREY,
    LEAST_SPAN,
    MARKERS,
    STANDARD_ERRORS,
    legend_above,
    panels,
    span_at_least,
    tidy,
)

_ABOVE_ONE = 1.01  # τ is at most 1, and a marker there is drawn whole
_LEAST_ROWS = 4.0  # that the axis of rows spans, also where there is one round


def plot_agreement(along: AuditAlong, *, axes: Any = None) -> np.ndarray:
    """Agreement with the exact ranking, and the run's regret, as D grows.

    Parameters
    ----------
    along : AuditAlong
    axes : array_like of two matplotlib Axes, optional

    Returns
    -------
    numpy.ndarray of matplotlib Axes, shape (2,)
        Bars are 95% Monte Carlo intervals of τ, and ± 2 standard errors of the regret. Rounds with a reference that is not
        reliable are open. Points of one round are drawn beside each other. The axis of τ has the range of its bars, of a
        tenth at least, and that of regret spans a tenth of a nat at least.

    See Also
    --------
    BPLS.audit_along : what is drawn.
    """
    if not isinstance(along, AuditAlong):
        other = " Draw it by plot_audit." if isinstance(along, Audit) else " Give what audit_along() returned."
        raise CriterionError(f"along= is of type {type(along).__name__} and not an audit along a run.{other}")
    rounds = along.rounds
    grid = panels(1, 2, (10.4, 4.2), axes).ravel()
    n = rounds["n_labeled"].to_numpy()
    shift = 0.03 * max(1.0, float(np.min(np.diff(n))) if len(n) > 1 else 1.0)
    names = rounds["criterion"].to_numpy().tolist()
    for place, name in enumerate(names):
        held = rounds.sel(criterion=name)
        tau = held["tau"].to_numpy()
        bars = np.abs(np.stack([tau - held["tau_low"].to_numpy(), held["tau_high"].to_numpy() - tau]))
        grid[0].errorbar(
            n + shift * (place - (len(names) - 1) / 2),
            tau,
            bars,
            fmt=MARKERS[place % len(MARKERS)] + "-",
            color=COLOURS[place % len(COLOURS)],
            label=name,
            linewidth=1.3,
            markersize=5,
        )
    span_at_least(grid[0], LEAST_SPAN)
    low, high = grid[0].get_ylim()
    grid[0].set_ylim(low - max(0.0, high - _ABOVE_ONE), min(high, _ABOVE_ONE))
    grid[0].set_ylabel("Kendall's τ with the exact ranking")
    reliable = rounds["reliable"].to_numpy() == 1
    regret, error = rounds["run_regret"].to_numpy(), rounds["run_regret_mcse"].to_numpy()
    grid[1].errorbar(n, regret, STANDARD_ERRORS * error, fmt="none", ecolor="black", linewidth=1.3)
    for some, face, label in ((reliable, "black", "reliable reference"), (~reliable, "white", "reference not reliable")):
        if some.any():
            grid[1].plot(n[some], regret[some], "o", color="black", markerfacecolor=face, label=label)
    grid[1].axhline(0, color=GREY, linewidth=1)
    grid[1].set_ylabel("log PPP lost by the run's choice (nats)")
    lowest = min(0.0, float((regret - STANDARD_ERRORS * error).min()))
    highest = max(grid[1].get_ylim()[1], lowest + LEAST_SPAN)
    grid[1].set_ylim(lowest - 0.04 * (highest - lowest), highest)
    for panel in grid:
        panel.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        span_at_least(panel, _LEAST_ROWS, "x")
        legend_above(panel, 4)
        panel.set_xlabel("rows in D")
        tidy(panel)
    return grid
