"""What a choice says of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pymc_bpls.choosing import bound
from pymc_bpls.choosing.evidence import BETTING, Evidence
from pymc_bpls.choosing.folds import Units
from pymc_bpls.choosing.losses import Loss
from pymc_bpls.scoring.predictors import AT_THE_MODE
from pymc_bpls.text.numbers import percent

#: What a loss is called; a function goes by its own name.
LOSS_IN_WORDS = {"log": "log loss", "brier": "Brier's loss", "zero_one": "share of errors"}
_MANY = 1e7


def say_choice(
    chosen: str | None,
    evidence: Mapping[str, Evidence],
    loss: Loss,
    guarantee: str,
    alpha: float,
    n: int,
    n_pipelines: int,
    few: str,
) -> str:
    """Which pipeline to use, by which proof; without one, how far from it labels are. `chosen` is None for the supervised.

    `few` says which labels are too few for a bound, and is empty where they are not.
    """
    if chosen is not None:
        return f'Use "{chosen}": {_say_proof(evidence[chosen], loss, guarantee, alpha, n_pipelines)}.'
    kept = "Use the supervised model"
    if not evidence:
        return f"{kept}: no other pipeline went through every fold."
    finite = {name: each for name, each in evidence.items() if np.isfinite(each.difference)}
    if not finite:
        return f"{kept}: {n} labels prove no other pipeline better, since infinite losses have no bound."
    if all(each.difference == 0 and each.error == 0 for each in evidence.values()):
        return f"{kept}: every other pipeline predicts the {n} labeled rows as it does."
    nearest = max(finite, key=lambda name: (evidence[name].proof, evidence[name].difference, name))
    near = evidence[nearest]
    if few:
        return f'{kept}: {few}. The best on rows that were set aside is "{nearest}" ({_say_difference(near, loss)}).'
    return (
        f'{kept}: {n} labels prove no other pipeline better. Nearest to a proof is "{nearest}" ({_say_difference(near, loss)}; '
        f"{_say_short(near, guarantee, alpha, n_pipelines)}). {_say_labels(near.labels, n, loss)}"
    )


def say_too_few(units: Units) -> str:
    """Which labels, or groups of rows, are fewer than a bound takes; empty where none are."""
    what = "labels" if len(units) == len(units.rows) else "groups with labels"
    if len(units) < bound.FEWEST:
        return f"a proof takes {bound.FEWEST} {what} at least, and there are {len(units)}"
    counts = units.by_class
    if counts.min() < bound.FEWEST_OF_CLASS:
        rarest = counts.argmin()
        return (
            f"a proof takes {bound.FEWEST_OF_CLASS} {what} of each class at least, and class {units.names[rarest]} has "
            f"{counts[rarest]}"
        )
    return ""


def say_columns(guarantee: str, threshold: float, alpha: float) -> str:
    """What the columns of a choice's table are."""
    proof = (
        f"e_value, what bets on the pipeline came to: {threshold:.3g} or more is a proof"
        if guarantee == BETTING
        else f"bound, what the difference exceeds with confidence {percent(1 - alpha)}: above 0 it is a proof"
    )
    return f"The columns: difference, the supervised model's loss less the pipeline's; {proof}."


def say_predictions(how: Mapping[str, str]) -> str:
    """How each pipeline was predicted, and where runs are predicted at the mode what averages instead."""
    ways: dict[str, list[str]] = {}
    for name, words in how.items():
        ways.setdefault(words, []).append(name)
    said = "; ".join(f"{words} ({', '.join(names)})" if len(ways) > 1 else words for words, names in ways.items())
    cure = '; predictor="auto" of BPLS averages over the posterior instead.' if AT_THE_MODE in ways else "."
    return f"Predictions are {said}{cure}"


def say_undealt(reason: str) -> str:
    """That no row can be set aside."""
    return f"Use the supervised model: no labeled rows can be set aside to judge others, since {reason}. Label more rows."


def say_interrupted(done: int, planned: int) -> str:
    """After how many folds Ctrl-C came."""
    return f"Interrupted after {done} of {planned} folds, which decided."


def say_infinite(names: Sequence[str], loss: Loss) -> list[str]:
    """Which pipelines lose ∞."""
    if not names:
        return []
    quoted = ", ".join(f'"{name}"' for name in names)
    why = ", since a true class had probability 0" if loss.name == "log" else ""
    return [
        f"The {LOSS_IN_WORDS.get(loss.name, loss.name)} of {quoted} is infinite in some rows{why}, "
        'and a difference from it has no bound. loss="brier" compares them.'
    ]


def say_refused(refused: Mapping[str, str]) -> list[str]:
    """Which pipelines were not judged."""
    return [f'"{name}" was refused in a fold: {reason}' for name, reason in refused.items()]


def _say_proof(evidence: Evidence, loss: Loss, guarantee: str, alpha: float, n_pipelines: int) -> str:
    many = "" if n_pipelines == 1 else f", for all {n_pipelines} pipelines together"
    if guarantee == BETTING:
        return (
            f"bets that it predicts better than the supervised model came to an e-value of {evidence.proof:.3g}, above "
            f"{n_pipelines / alpha:.3g}; were it never better, that had probability {percent(alpha)} at most{many}"
        )
    return (
        f"{_say_difference(evidence, loss)} on rows that were set aside, by more than {evidence.proof:.2g} with confidence "
        f"{percent(1 - alpha)}{many}"
    )


def _say_difference(evidence: Evidence, loss: Loss) -> str:
    """By how much a pipeline loses less."""
    way = "lowered" if evidence.difference > 0 else "raised"
    return f"{LOSS_IN_WORDS.get(loss.name, loss.name)} {way} by {abs(evidence.difference):.2g}"


def _say_short(evidence: Evidence, guarantee: str, alpha: float, n_pipelines: int) -> str:
    if guarantee == BETTING:
        return f"its e-value is {evidence.proof:.2g}, and {n_pipelines / alpha:.3g} would be a proof"
    if not np.isfinite(evidence.proof):
        return f"one fold, or fewer than {bound.FEWEST_OF_CLASS} labels of a class in the folds that are done, have no bound"
    return f"with confidence {percent(1 - alpha)} the gain is above {evidence.proof:.2g}, and above 0 would be a proof"


def _say_labels(labels: float, n: int, loss: Loss) -> str:
    """How many labels would tell, where n do not."""
    if 0 < labels <= n:
        return f"A difference of {loss.point} would have been seen."
    if not np.isfinite(labels) or labels <= 0:
        return f"How many labels would show a difference of {loss.point} cannot be said from so few rows."
    about = f"more than {_MANY:,.0f}" if labels > _MANY else f"about {_two_digits(labels):,}"
    return f"To see a difference of {loss.point} it would take {about} labels."


def _two_digits(value: float) -> int:
    size = 10 ** max(0, int(np.floor(np.log10(value))) - 1)
    return max(1, round(value / size) * size)
