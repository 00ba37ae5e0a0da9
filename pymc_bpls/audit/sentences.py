"""What an audit says: one plain sentence a criterion, one for each comparison, and one for the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from pymc_bpls.audit.uses import NEGLIGIBLE, of_scale, say_range, say_spread, say_uses
from pymc_bpls.rules.ranking import TIED
from pymc_bpls.scoring.predictors import MAP
from pymc_bpls.text.numbers import percent, plus_minus, with_interval

#: Of the flagged: above it a reference is not called reliable, and the verdict says what it can tell.
_MOST_FLAGGED = 0.5
#: Up to this share of pseudo-labels may have a class that exact values prefer, and nothing is said.
_FEW_LABELS = 0.05
#: The probability from which a choice is called the exact best, and from which that is called certain.
_LIKELY, _CERTAIN = 0.5, 0.995
#: What values that a user gives are called.
GIVEN = "values given by the user"
#: The column of a table that leaves out flagged candidates.
UNFLAGGED = "tau without flags"


@dataclass(frozen=True)
class Words:
    """What a reference's best, values and ranking are called, and what shares of its scale are shares of."""

    best: str = "the exact best"
    value: str = "exact value"
    ranking: str = "the exact ranking"
    of_scale: str = "of the range over the pool"


EXACT = Words()
#: Of a reference that is not to be trusted.
DOUBTFUL = Words("the best by this reference", "value by this reference", "the ranking by this reference")


def words_for(reasons: Sequence[str], range_: float, scale: float) -> Words:
    """Words that claim no more than a reference with such `reasons` against it allows."""
    words = DOUBTFUL if reasons else EXACT
    return words if scale == range_ else replace(words, of_scale=of_scale(range_, scale))


def say_criterion(label: str, found: dict[str, Any], name_of_choice: str, words: Words = EXACT) -> str:
    """What a criterion's choice costs, how far off it is, and whether it is more than a tie within its own error."""
    tied = f", the first of {found['n_tied']} that it scores alike" if found["n_tied"] > 1 else ""
    return f"{label} {_choice(found, name_of_choice + tied, words)}; {_error(found, words)}{_tie(found)}."


def _tie(found: dict[str, Any]) -> str:
    """How many pairs lie nearer to the choice than differences of the criterion's scores are off."""
    others = found.get("n_within_own_error", np.nan)
    if np.isnan(others) or not others:
        return ""
    gap, error = f"{abs(found['lead']):.2g}", f"{found['own_error']:.2g}"
    lead = f"{gap} ahead" if found["lead"] >= 0 else f"{gap} behind the next by its own log PPP"
    lead = "level with the next" if abs(found["lead"]) <= TIED else lead
    nearer = "1 other is" if others == 1 else f"{others} others are"
    return f"; its choice is {lead}, and {nearer} within {error} of it, as much as its differences are usually off: a tie"


def _choice(found: dict[str, Any], name: str, words: Words) -> str:
    sure = found["prob_best"]
    if found["top_1"] and sure >= _LIKELY:
        return f"picks {name}, {words.best}" + (f" (probability {sure:.2f})" if sure < _CERTAIN else "")
    if found["top_1"]:
        return f"picks {name}, whose {words.value} is the largest, but not surely (it is the best with probability {sure:.2f})"
    lost = plus_minus(found["regret"], found["regret_mcse"])
    if not found["regret_proven"]:
        return f"picks {name}, which cannot be told from {words.best} (it loses {lost} of log PPP)"
    return f"picks {name} and loses {lost} of log PPP"


def _error(found: dict[str, Any], words: Words) -> str:
    if "max_error" not in found:
        tau = with_interval(found["tau"], found["tau_low"], found["tau_high"])
        return f"its scores count by their order alone, and Kendall's tau with {words.ranking} is {tau}"
    shared = ""
    if found["max_error"] != found["max_centred"]:
        shared = f" (with what all candidates share, {plus_minus(found['max_error'], found['max_error_mcse'])})"
    if found["max_centred"] <= TIED:
        return f"its log PPP, centred, is that of the reference to rounding{shared}"
    size = plus_minus(found["max_centred"], found["max_centred_mcse"])
    share = "" if np.isnan(found["max_centred_share"]) else f", {percent(found['max_centred_share'])} {words.of_scale}"
    noise = "" if found["max_centred_proven"] else ", no more than the reference's own error explains"
    return f"its log PPP, centred, is off by {size} at most{share}{noise}{shared}"


def say_verdict(
    agreement: xr.Dataset,
    reasons: list[str],
    flags: Sequence[Sequence[str]],
    unit: str,
    source: str,
    told_apart: float,
    n_doubtful: int = 0,
    left_out: Sequence[str] = (),
) -> str:
    """Whether the reference is to be trusted, what each criterion is good for, and which values are flagged.

    `told_apart` is the share of differences between two pairs that exceed their Monte Carlo error, `n_doubtful` the number of
    pairs whose exact value is not to be trusted; criteria that are `left_out` have their reasons elsewhere.
    """
    flagged = _say_flags(flags, unit, n_doubtful) + _say_missing(left_out)
    if reasons:
        return f"Not reliable: {'; '.join(reasons)}. What is called exact below is no more than this reference.{flagged}"
    range_, scale = (float(agreement.attrs[name]) for name in ("range", "scale"))
    lead = _say_reference(source, sum(bool(notes) for notes in flags) > _MOST_FLAGGED * len(flags), told_apart, unit)
    if range_ <= TIED:
        return f"{lead} All {unit} have the same exact value, so that there is nothing to choose.{flagged}"
    if range_ <= NEGLIGIBLE:
        return (
            f"{lead} {say_range(range_)}, less than the {NEGLIGIBLE:g} that matter: any choice is as good as another.{flagged}"
        )
    return f"{lead} {say_spread(range_, scale)} {say_uses(agreement, scale, of_scale(range_, scale))}{flagged}"


def _say_reference(source: str, mostly_flagged: bool, told_apart: float, unit: str) -> str:
    """Whether the reference is to be trusted, and for which differences where most of its values are flagged."""
    which = f"which of two {unit} is the better one for {percent(told_apart)} of all pairs; most {unit} are flagged."
    if source == GIVEN:
        return f"The exact values are given, and were not checked{f'; they tell {which}' if mostly_flagged else '.'}"
    return f"The exact reference ({source}) tells {which}" if mostly_flagged else f"The exact reference is reliable ({source})."


def _say_missing(left_out: Sequence[str]) -> str:
    """Which criteria the verdict does not judge."""
    return f" Left out, for the reason at the end: {', '.join(left_out)}." if left_out else ""


def _say_flags(flags: Sequence[Sequence[str]], unit: str, n_doubtful: int) -> str:
    """How many are flagged, why, and which of them count against no criterion."""
    notes = [note for of_pair in flags for note in of_pair]
    if not notes:
        return ""
    counts = "; ".join(f"{notes.count(note)}: {note}" for note in dict.fromkeys(notes))
    apart = "" if not n_doubtful else f" The {n_doubtful} whose exact value is doubtful count against no criterion here."
    return f" {sum(bool(of_pair) for of_pair in flags)} of {len(flags)} {unit} are flagged ({counts}).{apart}"


def say_labels(n_other: int, n: int, predictor: Any) -> str:
    """How many of n pseudo-labels are no classes that exact values prefer, and what predicts or scores others."""
    if n_other <= _FEW_LABELS * n:
        return ""
    mode = '; at the mode they are predicted so, and predictor="auto" of BPLS averages over the posterior instead'
    return (
        f" Another class has a larger exact log PPP than the pseudo-label of {n_other} of {n} candidates "
        f"({percent(n_other / n)}), which criteria are compared on all the same{mode if predictor == MAP else ''}. "
        'labels="all" scores every class.'
    )


def say_columns(columns: Sequence[str], top: int) -> str:
    """What the columns of the table are."""
    flags = "; tau without flags, the same without flagged candidates" if UNFLAGGED in columns else ""
    return (
        "The columns: regret, the exact log PPP that its choice loses; P(best), the probability that its choice is the exact "
        f"best; Kendall's tau, how well its ranking agrees with the exact one{flags}; best {top}, the share of its best {top} "
        f"among the exact best {top}; error, the largest of its log PPP; centred, the largest but for what all candidates "
        "share; its own k-hat, above 0.7 where its Gaussian is too far from the posterior to sample from: the verdict "
        "goes by losses and errors, not by it."
    )


def say_nothing_compared(refused: dict[str, str]) -> str:
    """No criterion could be scored."""
    return f"Nothing is compared: none of {', '.join(refused)} is defined here."


def say_left_out(refused: dict[str, str]) -> list[str]:
    """What was left out, a line for each reason."""
    labels: dict[str, list[str]] = {}
    for label, why in refused.items():
        labels.setdefault(why, []).append(label)
    return [f"Left out: {', '.join(names)}. {why}" for why, names in labels.items()]


def say_simplified(simplified: xr.Dataset) -> str:
    """What Eq. 7 changes against Eq. 6."""
    changed, expansion = bool(simplified["choice_changes"]), str(simplified["expansion"].to_numpy())
    change, error = float(simplified["lost"]), float(simplified["lost_mcse"])
    cost = f"{'gains' if change < 0 else 'loses'} {plus_minus(abs(change), error)}"
    spread, tau = float(simplified["dropped_sd"]), float(simplified["tau"])
    return (
        f"Simplified against full ({expansion}): the dropped term has standard deviation {spread:.3g} over the candidates, "
        f"tau of the two rankings is {with_interval(tau, tau, tau)}, "
        + (f"and the choice changes, which {cost} of log PPP." if changed else "and the choice is the same.")
    )


def say_diagnostic(name: str, rho: float, low: float, high: float) -> str:
    """How well a diagnostic that needs no reference tells where Laplace's ppp is off."""
    what = {"class_sum_error": "The class-sum error", "pareto_k": "k-hat"}[name]
    if np.isnan(rho):
        return f"{what} is the same for all candidates and says nothing about single ones."
    if high < 0:
        return f"{what} is smaller where Laplace's ppp misjudges more (Spearman's rho {with_interval(rho, low, high)})."
    how = "tells" if low > 0.6 else "hints at" if low > 0.3 else "tells little about" if low > 0 else "does not tell"
    return f"{what} {how} which candidates Laplace's ppp misjudges (Spearman's rho {with_interval(rho, low, high)})."
