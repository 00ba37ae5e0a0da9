"""What an audit along a run says: a sentence for each question that it answers."""

from __future__ import annotations

import numpy as np
import scipy
import xarray as xr

from pymc_bpls.audit.uses import kinds_of_use, say_usable
from pymc_bpls.text.numbers import plus_minus

_FEWEST_FOR_SLOPE = 3
#: By which D grows, at least, where a slope is said: below it the slope's unit, log n, is much more than the rows span.
_LEAST_GROWTH = 2.0
_NORMAL = 1.96
#: Of the compared: below it a round's reference is not called reliable.
_LEAST_UNFLAGGED = 0.5
#: Instead of `say_ends`, where there is nothing to compare with.
INTERRUPTED = "Interrupted before exact selection was run, so that the last models are not compared."


COLUMNS = (
    "The columns: labeled, the rows of D; regret of the run, the exact log PPP that its own choice lost; tau, how well the "
    "ranking by a criterion agrees with the exact one (Kendall's; 1: it is the same)."
)


def say_reliability(along: xr.Dataset, reasons: list[str]) -> str:
    """Is the reference to be trusted?"""
    n, bad = along.sizes["step"], int((along["reliable"] == 0).sum())
    if bad:
        return f"Not reliable: the reference is doubtful in {bad} of {n} audited rounds ({reasons[0]})."
    where = "the audited round" if n == 1 else f"all {n} audited rounds"
    flagged = int((along["n_unflagged"] < _LEAST_UNFLAGGED * along["n_compared"]).any("criterion").sum())
    if flagged:
        return (
            f"The reference has no fault of its own in {where}; in {flagged} of {n} most candidates are flagged, whose exact "
            "values are doubtful or nearer to each other than their errors."
        )
    return f"The reference is reliable in {where}."


def say_growth(along: xr.Dataset) -> str:
    """Does Laplace's ppp get better as D grows?"""
    by_laplace = [name for name in ("ppp", "ppp[laplace]") if name in along["criterion"]]
    if not by_laplace:
        return "Laplace's ppp was not audited, so that its growth with D is unknown."
    of_ppp, n = along.sel(criterion=by_laplace[0]), along["n_labeled"].to_numpy()
    error, spread = of_ppp["max_centred"].to_numpy(), of_ppp["max_centred_mcse"].to_numpy()
    if len(n) < _FEWEST_FOR_SLOPE or not (error > 0).all():
        return "Too few rounds were audited to say whether Laplace's ppp gets better as D grows."
    fit = scipy.stats.linregress(np.log(n), np.log(error))
    told = abs(fit.slope) > scipy.stats.t.ppf(0.975, len(n) - 2) * fit.stderr
    apart = abs(error[-1] - error[0]) > _NORMAL * np.hypot(spread[-1], spread[0])
    change = ("falls" if fit.slope < 0 else "grows") if told and apart else "does not change clearly"
    growth, slope = n[-1] / n[0], plus_minus(float(fit.slope), float(fit.stderr))
    small = f". D grows by a factor of {growth:.2g}, which is too little for a slope"
    return (
        f"As D grows from {n[0]} to {n[-1]} rows the largest error of Laplace's ppp {change}: from "
        f"{plus_minus(error[0], spread[0])} to {plus_minus(error[-1], spread[-1])}"
        f"{small if growth < _LEAST_GROWTH else f', slope {slope} in log-log'}."
    )


def say_regret(along: xr.Dataset, n_rounds: int) -> str:
    """Does regret add up?"""
    regret, error = along["run_regret"].to_numpy(), along["run_regret_mcse"].to_numpy()
    total = plus_minus(float(regret.sum()), float(np.sqrt((error**2).sum())))
    same = int((regret <= 2 * error).sum())
    rest = n_rounds - len(regret)
    unknown = f" The other {rest} {'was' if rest == 1 else 'were'} not audited." if rest > 0 else ""
    return (
        f"In the {len(regret)} audited rounds of {n_rounds} the run's own choices lose {total} of log PPP together; {same} of "
        f"{len(regret)} choices are the exact best candidate or not told from it.{unknown}"
    )


def say_usable_along(along: xr.Dataset) -> str:
    """Which criteria can be used, by the reference of each round that is reliable?"""
    rounds = [along.isel(step=place) for place in np.flatnonzero(along["reliable"].to_numpy() == 1)]
    if not rounds:
        return "No audited round has a reliable reference, so that no criterion is judged."
    usable: dict[str, int] = dict.fromkeys(along["criterion"].to_numpy().tolist(), 0)
    for each in rounds:
        scored = each.sel(criterion=each["regret"].notnull())
        kinds, _ = kinds_of_use(scored, float(each["scale"]))
        for name, kind in zip(scored["criterion"].to_numpy().tolist(), kinds, strict=True):
            usable[name] += kind is say_usable
    counts = ", ".join(f"{name} in {count}" for name, count in usable.items())
    return f"Of {len(rounds)} rounds with a reliable reference, those where a criterion's choice and values are good: {counts}."


def say_ends(final: xr.Dataset) -> str:
    """Would exact selection have ended with another model?"""
    added, same = int(final["n_added"]), int(final["n_same_added"])
    rows, different = int(final["n_rows"]), int(final["n_predicted_differently"])
    kind = "test rows" if "run_accuracy" in final else "rows of the pool"
    text = (
        f"Exact selection adds {same} of the run's {added} pseudo-labels; its last model predicts {different} of {rows} {kind} "
    )
    if "run_accuracy" not in final:
        return f"{text}differently."
    return f"{text}differently (accuracy {float(final['exact_accuracy']):.3f} against {float(final['run_accuracy']):.3f})."
