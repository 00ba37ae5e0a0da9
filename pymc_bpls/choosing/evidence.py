"""What losses of rows that were set aside say for each pipeline: by a lower bound, or by bets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from pymc_bpls.choosing.betting import labels_to_see, log_wealth
from pymc_bpls.choosing.bound import lower_bound

BOUND, BETTING = "bound", "betting"
POINT = 0.01


@dataclass(frozen=True)
class Judged:
    """One fold: by pipeline the losses of its rows, in their order, and which are predicted right, or why it was refused.

    `unit` says which rows belong together, `n_train` how many labels were told.
    """

    rows: np.ndarray
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


def by_bound(differences: list[np.ndarray], ratio: float, n: int, alpha: float, n_pipelines: int) -> Evidence:
    """From differences of each fold's rows; `ratio` is n_test/n_train, n the number of labels."""
    found = lower_bound(differences, ratio, alpha, n_pipelines)
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
    name: str,
    supervised: str,
    guarantee: str,
    *,
    largest: float | None,
    n: int,
    alpha: float,
    n_pipelines: int,
) -> Evidence | None:
    """The evidence for a pipeline against the supervised model, None where it was refused in a fold."""
    if any(name in fold.refused for fold in judged):
        return None
    differences = [fold.differences(name, supervised) for fold in judged]
    if guarantee == BOUND:
        ratio = float(np.mean([len(fold.rows) / fold.n_train for fold in judged]))
        return by_bound(differences, ratio, n, alpha, n_pipelines)
    assert largest is not None
    repeats = dict.fromkeys(fold.repeat for fold in judged)
    places = {repeat: [place for place, fold in enumerate(judged) if fold.repeat == repeat] for repeat in repeats}
    orders = [np.concatenate([of_units(differences[place], judged[place].unit) for place in some]) for some in places.values()]
    return by_betting(orders, largest, n, alpha, n_pipelines)


def passes(evidence: Evidence, guarantee: str, alpha: float, n_pipelines: int) -> bool:
    """Whether a pipeline is proven better: a bound above 0, or E ≥ |C|/α."""
    return evidence.proof > 0 if guarantee == BOUND else evidence.proof >= n_pipelines / alpha
