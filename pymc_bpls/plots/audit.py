"""Approximate against exact values of an audit's candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from pymc_bpls.audit.along import AuditAlong
from pymc_bpls.audit.report import Audit
from pymc_bpls.errors import CriterionError
from pymc_bpls.plots.panels import BLUE, GREY, STANDARD_ERRORS, VERMILION, panels, span_at_least, tidy
from pymc_bpls.text.numbers import plus_minus, with_interval

_MOST_SHOWN = 3
_NOTHING = 1e-9
_LEAST_SHARE = 0.2  # of the range of log PPP that the axis of errors spans, which would enlarge small ones otherwise


def plot_audit(audit: Audit, *, criteria: Sequence[str] | None = None, axes: Any = None) -> np.ndarray:
    """Approximate against exact log PPP, a column a criterion, with the difference below, without what all candidates share.

    Parameters
    ----------
    audit : Audit
    criteria : sequence of str, optional
        Criteria whose scores are log probabilities; the first three of them by default.
    axes : array_like of matplotlib Axes, shape (2, len(criteria)), optional

    Returns
    -------
    numpy.ndarray of matplotlib Axes, shape (2, len(criteria))
        Scores are shifted to the mean of the exact values, since an error that all candidates share moves no choice; how large
        it is, is said. Bars are ± 2 Monte Carlo standard errors of the exact values, likewise without the constant that they
        share. Open circles are flagged candidates, the triangle is the criterion's choice, the square the exact best. The axis
        of errors spans a fifth of the range of log PPP at least.

    See Also
    --------
    BPLS.audit : what is drawn.
    """
    if not isinstance(audit, Audit):
        other = " Draw it by plot_agreement." if isinstance(audit, AuditAlong) else " Give what audit() returned."
        raise CriterionError(f"audit= is of type {type(audit).__name__} and not the audit of one D.{other}")
    errors = audit.agreement.get("max_centred", xr.DataArray([], dims="criterion", coords={"criterion": []}))
    comparable = [str(name) for name, error in errors.to_series().items() if np.isfinite(error)]
    if not isinstance(criteria, Sequence | None):
        raise CriterionError(f"criteria= is a {type(criteria).__name__}. Give names of criteria of the audit.")
    given = [criteria] if isinstance(criteria, str) else criteria
    chosen = comparable[:_MOST_SHOWN] if given is None else list(given)
    unknown = [name for name in chosen if name not in comparable]
    if unknown or not chosen:
        raise CriterionError(
            f"criteria= names {unknown}, which have no errors of log PPP in this audit. Use one of {comparable}."
            if comparable
            else "No criterion of this audit has scores that are log probabilities, so that nothing is drawn. Audit ppp too."
        )
    grid = panels(2, len(chosen), (4.4 * len(chosen), 6.4), axes, sharex="col", height_ratios=[2, 1])
    for column, name in enumerate(chosen):
        _column(grid[:, column], audit, name)
    limits = np.array([panel.get_ylim() for panel in grid[1]])
    for panel in grid[1]:
        panel.set_ylim(limits[:, 0].min(), limits[:, 1].max())
        span_at_least(panel, _LEAST_SHARE * float(audit.agreement.attrs["range"]))
    grid[0, 0].legend(fontsize=9, frameon=False, loc="upper left")
    for row, label in enumerate(("approximate log PPP, shifted (nats)", "error, centred (nats)")):
        grid[row, 0].set_ylabel(label)
    return grid


def _column(pair: np.ndarray, audit: Audit, name: str) -> None:
    """One criterion: its values and its errors against the exact values."""
    found = audit.candidates.sel(criterion=name)
    exact, error, spread = (
        found[key].to_numpy().ravel()
        for key in ("log_ppp" if "log_ppp" in found else "log_predictive", "centred", "centred_mcse")
    )
    shared = float((found["error"] - found["centred"]).mean())
    flagged = found["flags"].to_numpy().ravel() != ""
    agreement = audit.agreement.sel(criterion=name)
    choice, best = _place(found, agreement), int(np.nanargmax(exact))
    above, below = pair
    ends = [np.nanmin(exact), np.nanmax(exact)]
    above.plot(ends, ends, color=GREY, linewidth=1, label="exact")
    below.axhline(0, color=GREY, linewidth=1)
    for panel, values in ((above, exact + error), (below, error)):
        bars = {"xerr" if panel is above else "yerr": STANDARD_ERRORS * spread}
        panel.errorbar(exact, values, **bars, fmt="none", ecolor=BLUE, alpha=0.35, linewidth=1)
        for some, face, label in ((~flagged, BLUE, "candidate"), (flagged, "white", "flagged candidate")):
            if some.any():
                panel.plot(
                    exact[some], values[some], "o", markersize=5, color=BLUE, markerfacecolor=face, label=label, zorder=3
                )
        panel.plot(exact[best], values[best], "s", markersize=10, color="black", fillstyle="none", label="exact best", zorder=4)
        panel.plot(exact[choice], values[choice], "^", markersize=8, color=VERMILION, label="its choice", zorder=5, alpha=0.9)
        tidy(panel)
    tau = with_interval(*(float(agreement[key]) for key in ("tau", "tau_low", "tau_high")))
    regret = plus_minus(float(agreement["regret"]), float(agreement["regret_mcse"]))
    above.set_title(f"{name}: regret {regret}\nτ = {tau}", fontsize=11)
    if abs(shared) > _NOTHING:
        said = f"shared by all, left out: {shared:+.2g}".replace("-", "−")
        below.set_title(said, loc="right", fontsize=9, color=GREY)
    below.set_xlabel(f"exact log PPP (nats), {len(exact)} candidates")


def _place(found: xr.Dataset, agreement: xr.Dataset) -> int:
    """Where the criterion's choice is among the pairs."""
    candidates, label = found["candidate"].to_numpy(), agreement["choice_label"].to_numpy()
    row = int(np.flatnonzero(candidates == int(agreement["choice"]))[0])
    if "label" not in found.dims:
        return row
    return row * found.sizes["label"] + int(np.flatnonzero(found["label"].to_numpy() == label)[0])
