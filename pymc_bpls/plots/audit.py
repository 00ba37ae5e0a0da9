"""Figures of scores and audits. Data in, matplotlib Axes out; no global style is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.ticker import MaxNLocator

from pymc_bpls.audit.along import AuditAlong
from pymc_bpls.audit.report import Audit
from pymc_bpls.errors import CriterionError
from pymc_bpls.plots.panels import COLOURS, legend_above, panels, tidy, unit_of
from pymc_bpls.text.numbers import plus_minus, with_interval

_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_MOST_SHOWN = 3
_ERRORS = 2.0
_GREY = "0.45"


def plot_audit(audit: Audit, *, criteria: Sequence[str] | None = None, axes: Any = None) -> np.ndarray:
    """Approximate against exact log PPP, a column a criterion, with the difference below.

    Parameters
    ----------
    audit : Audit
    criteria : sequence of str, optional
        Criteria whose scores are log probabilities; the first three of them by default.
    axes : array_like of matplotlib Axes, shape (2, len(criteria)), optional

    Returns
    -------
    numpy.ndarray of matplotlib Axes, shape (2, len(criteria))
        Bars are ± 2 Monte Carlo standard errors. Open circles are flagged candidates, the triangle is the criterion's choice,
        the square the exact best. Scores without an absolute value are shifted to the mean of the exact ones.
    """
    errors = audit.agreement.get("max_centred", xr.DataArray([], dims="criterion", coords={"criterion": []}))
    comparable = [str(name) for name, error in errors.to_series().items() if np.isfinite(error)]
    chosen = comparable[:_MOST_SHOWN] if criteria is None else list(criteria)
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
    grid[0, 0].legend(fontsize=9, frameon=False, loc="upper left")
    for row, label in enumerate(("approximate log PPP (nats)", "approximate − exact")):
        grid[row, 0].set_ylabel(label)
    return grid


def _column(pair: np.ndarray, audit: Audit, name: str) -> None:
    """One criterion: its values and its errors against the exact values."""
    found = audit.candidates.sel(criterion=name)
    exact, mcse, error, spread = (
        found[key].to_numpy().ravel()
        for key in ("log_ppp" if "log_ppp" in found else "log_predictive", "mcse", "error", "error_mcse")
    )
    flagged = found["flags"].to_numpy().ravel() != ""
    agreement = audit.agreement.sel(criterion=name)
    choice, best = _place(found, agreement), int(np.nanargmax(exact))
    above, below = pair
    ends = [np.nanmin(exact), np.nanmax(exact)]
    above.plot(ends, ends, color=_GREY, linewidth=1, label="exact")
    below.axhline(0, color=_GREY, linewidth=1)
    for panel, values in ((above, exact + error), (below, error)):
        across = _ERRORS * mcse if panel is above else None
        panel.errorbar(exact, values, _ERRORS * spread, across, fmt="none", ecolor=COLOURS[0], alpha=0.35, linewidth=1)
        for some, face, label in ((~flagged, COLOURS[0], "candidate"), (flagged, "white", "flagged candidate")):
            if some.any():
                panel.plot(
                    exact[some], values[some], "o", markersize=5, color=COLOURS[0], markerfacecolor=face, label=label, zorder=3
                )
        panel.plot(exact[best], values[best], "s", markersize=10, color="black", fillstyle="none", label="exact best", zorder=4)
        panel.plot(exact[choice], values[choice], "^", markersize=8, color=COLOURS[1], label="its choice", zorder=5, alpha=0.9)
        tidy(panel)
    tau = with_interval(*(float(agreement[key]) for key in ("tau", "tau_low", "tau_high")))
    regret = plus_minus(float(agreement["regret"]), float(agreement["regret_mcse"]))
    above.set_title(f"{name}: regret {regret}\nτ = {tau}", fontsize=11)
    below.set_xlabel(f"exact log PPP (nats), {len(exact)} candidates")


def _place(found: xr.Dataset, agreement: xr.Dataset) -> int:
    """Where the criterion's choice is among the pairs."""
    candidates, label = found["candidate"].to_numpy(), agreement["choice_label"].to_numpy()
    row = int(np.flatnonzero(candidates == int(agreement["choice"]))[0])
    if "label" not in found.dims:
        return row
    return row * found.sizes["label"] + int(np.flatnonzero(found["label"].to_numpy() == label)[0])


def plot_scores(scores: xr.Dataset | Mapping[str, xr.Dataset], *, top: int = 15, axes: Any = None) -> np.ndarray:
    """The best candidates and how far their scores are below the best, several criteria beside each other.

    Parameters
    ----------
    scores : xarray.Dataset, or mapping of a name to one
        What `BPLS.score` returned; the order is that of the first. Scores should be on one scale, as log probabilities are.
    top : int, default 15
        How many candidates to show.
    axes : matplotlib Axes, optional
        Two of them where the first scores have a `class_sum_error`.

    Returns
    -------
    numpy.ndarray of matplotlib Axes, shape (1 or 2,)
    """
    several = {str(scores.attrs.get("criterion", "score")): scores} if isinstance(scores, xr.Dataset) else dict(scores)
    if not several or not all(isinstance(each, xr.Dataset) and "score" in each for each in several.values()):
        raise CriterionError("scores= holds no scores. Give what score() returned, or a mapping from names to that.")
    first = next(iter(several.values()))
    best = _by_candidate(first)
    order = best.argsort(kind="stable")[::-1][: min(top, int(np.isfinite(best).sum()))]
    order = order[np.isfinite(best[order])]
    with_sums = "class_sum_error" in first
    grid = panels(1, 1 + with_sums, (6.4 + 2.6 * with_sums, 1.4 + 0.3 * len(order)), axes, sharey="row").ravel()
    ranks = np.arange(len(order))
    for place, (name, each) in enumerate(several.items()):
        values = _by_candidate(each)
        grid[0].plot(
            values[order] - np.nanmax(values),
            ranks,
            _MARKERS[place % len(_MARKERS)],
            color=COLOURS[place % len(COLOURS)],
            label=name,
            markersize=7,
            alpha=0.85,
        )
    names, labels = _index(first), first["pseudo_label"].to_numpy()
    grid[0].set_yticks(ranks, [f"{names[i]}: {labels[i]}" for i in order])
    grid[0].invert_yaxis()
    grid[0].set_xlabel(f"score − the best one ({unit_of(str(first.attrs.get('criterion')))})")
    grid[0].set_ylabel(f"candidate: pseudo-label, {len(order)} best of {len(best)}")
    legend_above(grid[0], 3)
    if with_sums:
        grid[1].barh(ranks, first["class_sum_error"].to_numpy()[order], color=COLOURS[2], height=0.6)
        grid[1].axvline(0, color=_GREY, linewidth=1)
        grid[1].set_xlabel("class-sum error (nats)")
    for panel in grid:
        panel.xaxis.set_major_locator(MaxNLocator(nbins=5))
        tidy(panel)
    return grid


def _by_candidate(scores: xr.Dataset) -> np.ndarray:
    """Each candidate's best score (m,)."""
    values = scores["score"]
    return values.max("label").to_numpy() if "label" in values.dims else values.to_numpy()


def _index(scores: xr.Dataset) -> list[Any]:
    """The user's own names of the candidates."""
    others = [name for name, coord in scores.coords.items() if coord.dims == ("candidate",) and name != "candidate"]
    return scores[others[0] if others else "candidate"].to_numpy().tolist()


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
        reliable are open.
    """
    rounds = along.rounds
    grid = panels(1, 2, (10.4, 4.2), axes).ravel()
    n = rounds["n_labeled"].to_numpy()
    shift = 0.06 * max(1.0, float(np.min(np.diff(n))) if len(n) > 1 else 1.0)
    names = rounds["criterion"].to_numpy().tolist()
    for place, name in enumerate(names):
        of = rounds.sel(criterion=name)
        tau = of["tau"].to_numpy()
        bars = np.abs(np.stack([tau - of["tau_low"].to_numpy(), of["tau_high"].to_numpy() - tau]))
        grid[0].errorbar(
            n + shift * (place - (len(names) - 1) / 2),
            tau,
            bars,
            fmt=_MARKERS[place % len(_MARKERS)] + "-",
            color=COLOURS[place % len(COLOURS)],
            label=name,
            linewidth=1.3,
            markersize=5,
        )
    grid[0].set_ylabel("Kendall's τ with the exact ranking")
    reliable = rounds["reliable"].to_numpy() == 1
    regret, error = rounds["run_regret"].to_numpy(), rounds["run_regret_mcse"].to_numpy()
    grid[1].errorbar(n, regret, _ERRORS * error, fmt="none", ecolor="black", linewidth=1.3)
    for some, face, label in ((reliable, "black", "reliable reference"), (~reliable, "white", "reference not reliable")):
        if some.any():
            grid[1].plot(n[some], regret[some], "o", color="black", markerfacecolor=face, label=label)
    grid[1].axhline(0, color=_GREY, linewidth=1)
    grid[1].set_ylabel("log PPP lost by the run's choice (nats)")
    for panel in grid:
        legend_above(panel, 4)
        panel.set_xlabel("rows in D")
        tidy(panel)
    return grid
