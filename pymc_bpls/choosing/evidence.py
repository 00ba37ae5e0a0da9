"""What losses of rows that were set aside say for each pipeline: by a lower bound, or by bets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pymc_bpls.choosing.betting import labels_to_see, log_wealth
from pymc_bpls.choosing.bound import Bound, Dealt, lower_bounds

BOUND, BETTING = "bound", "betting"
POINT = 0.01


@dataclass(frozen=True)
class Judged:
    """One fold: by pipeline the losses of its rows, in their order, and which are predicted right, or why it was refused.

    `codes` are the rows' true classes, `unit` says which rows belong together, and `n_train` how many labels were told.
    """

    rows: np.ndarray
    codes: np.ndarray
    unit: np.ndarray
    repeat: int
    n_train: int
    losses: dict[str, np.ndarray]
    right: dict[str, np.ndarray]
    refused: dict[str, str]

    def differences(self, name: str, supervised: str) -> np.ndarray:
        """How much less a pipeline loses than the supervised model, by row: NaN where both lose ∞."""
        with np.errstate(invalid="ignore"):
            return self.losses[supervised] - self.losses[name]


@dataclass(frozen=True)
class Evidence:
    """Of one pipeline: mean difference of losses, its standard error, and its `proof`, a lower bound or an e-value.

    Where the pipeline loses ∞ the difference is −∞, where the supervised model does ∞, and where both do NaN: none has a bound.
    `labels` is about how many it would take to see a difference of 0.01; `log_wealth` holds log E along each order of rows.
    """

    difference: float
    error: float
    proof: float
    labels: float
    log_wealth: tuple[np.ndarray, ...] = ()


def by_bound(found: Bound, n: int) -> Evidence:
    """From the lower bound of a mean difference; n is the number of labels."""
    return Evidence(found.mean, found.error, found.lower, found.labels_to_see(POINT, n))


def by_betting(orders: list[np.ndarray], largest: float, n: int, alpha: float, n_pipelines: int) -> Evidence:
    """From differences of the units of each order, that differ by `largest` at most; E is the mean over orders."""
    wealth = tuple(log_wealth(d / largest) for d in orders)
    together = np.concatenate(orders)
    e_value = float(np.mean([np.exp(each[-1]) for each in wealth]))
    predicted = len(together) / len(orders)
    needed = labels_to_see(POINT / largest, together / largest, n_pipelines / alpha) * n / predicted
    error = float(np.std(together, ddof=1) / np.sqrt(predicted)) if len(together) > 1 else np.nan
    return Evidence(float(together.mean()), error, e_value, needed, wealth)


def of_units(d: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Means of differences over rows that belong together, in the order in which these come."""
    codes, names = pd.factorize(unit)
    return np.bincount(codes, d) / np.bincount(codes, minlength=len(names))


def judge(
    judged: list[Judged],
    names: Sequence[str],
    supervised: str,
    guarantee: str,
    *,
    largest: float | None,
    n: int,
    n_classes: int,
    alpha: float,
) -> dict[str, Evidence]:
    """The evidence for each pipeline against the supervised model; those that were refused in a fold have none.

    All pipelines that were given count in the correction for their number, refused ones too: what refuses one in a fold are
    labels that are judged in others, so that leaving it out would choose what to test by the labels that test it.
    """
    whole = [name for name in names if not any(name in fold.refused for fold in judged)]
    if not whole:
        return {}
    if guarantee == BOUND:
        differences = np.array([np.concatenate([fold.differences(name, supervised) for fold in judged]) for name in whole])
        bounds = lower_bounds(differences, _dealt(judged, n_classes), alpha * len(whole) / len(names))
        return {name: by_bound(each, n) for name, each in zip(whole, bounds, strict=True)}
    assert largest is not None
    return {name: by_betting(_in_orders(judged, name, supervised), largest, n, alpha, len(names)) for name in whole}


def _dealt(judged: list[Judged], n_classes: int) -> Dealt:
    sizes = [len(fold.rows) for fold in judged]
    return Dealt(
        unit=np.concatenate([fold.unit for fold in judged]),
        fold=np.repeat(np.arange(len(judged)), sizes),
        repeat=np.repeat([fold.repeat for fold in judged], sizes),
        code=np.concatenate([fold.codes for fold in judged]),
        n_classes=n_classes,
        ratio=float(np.mean([len(fold.rows) / fold.n_train for fold in judged])),
    )


def _in_orders(judged: list[Judged], name: str, supervised: str) -> list[np.ndarray]:
    """Differences of units, in each order of rows."""
    repeats = dict.fromkeys(fold.repeat for fold in judged)
    return [
        np.concatenate([of_units(fold.differences(name, supervised), fold.unit) for fold in judged if fold.repeat == repeat])
        for repeat in repeats
    ]


def best_proven(evidence: Mapping[str, Evidence], guarantee: str, alpha: float, n_pipelines: int) -> str | None:
    """The pipeline with the best proof that it is better, a bound above 0 or E ≥ |C|/α; None where none has one."""
    proven = [name for name, found in evidence.items() if _passes(found, guarantee, alpha, n_pipelines)]
    return max(proven, key=lambda name: (evidence[name].proof, evidence[name].difference, name), default=None)


def _passes(evidence: Evidence, guarantee: str, alpha: float, n_pipelines: int) -> bool:
    return evidence.proof > 0 if guarantee == BOUND else evidence.proof >= n_pipelines / alpha
