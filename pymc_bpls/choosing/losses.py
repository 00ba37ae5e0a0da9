"""What a prediction costs: losses of class probabilities by name, with the most that they can differ by, and their unit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from pymc_bpls.errors import CriterionError
from pymc_bpls.model.data.missing import as_numbers

#: Takes class probabilities (rows, K) and true codes (rows,), and gives the loss of each row.
RowLoss = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Loss:
    """A loss of each row; `largest` is the most that two rows' losses differ by, None where nothing bounds it.

    `point` says in words what a difference of 0.01 is.
    """

    name: str
    of_rows: RowLoss
    largest: float | None
    point: str


def log_loss(p: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """−log p of the true class."""
    with np.errstate(divide="ignore"):
        return -np.log(p[np.arange(len(codes)), codes])


def brier(p: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Σ_k (p_k − 1{k true})², in [0, 2]."""
    return ((p - np.eye(p.shape[1])[codes]) ** 2).sum(axis=1)


def zero_one(p: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """1 where the most probable class, the first among equals, is not the true one."""
    return (p.argmax(axis=1) != codes).astype(float)


LOSSES = {
    "log": Loss("log", log_loss, None, "0.01 nats of log loss"),
    "brier": Loss("brier", brier, 2.0, "0.01 of Brier's loss"),
    "zero_one": Loss("zero_one", zero_one, 1.0, "one point of accuracy"),
}


def find_loss(loss: Any, classes: np.ndarray, *, bounded: bool) -> Loss:
    """A loss by name, or a function of a DataArray (row, class) of probabilities and the true classes; `bounded` where bets are
    placed on it.

    Raises
    ------
    CriterionError
        It is unknown, or has no bound.
    """
    if callable(loss):
        found = Loss(getattr(loss, "__name__", type(loss).__name__), _by_user(loss, classes), None, "0.01 of the loss")
    elif isinstance(loss, str) and loss in LOSSES:
        found = LOSSES[loss]
    else:
        raise CriterionError(f"loss={loss!r} is unknown. Use {', '.join(map(repr, LOSSES))} or a function.")
    if bounded and found.largest is None:
        raise CriterionError(
            f'loss="{found.name}" has no bound, and bets need one. Use loss="brier" or "zero_one", or guarantee="bound".'
        )
    return found


def _by_user(loss: Callable[[xr.DataArray, np.ndarray], Any], classes: np.ndarray) -> RowLoss:
    def of_rows(p: np.ndarray, codes: np.ndarray) -> np.ndarray:
        values = as_numbers(loss(xr.DataArray(p, dims=("row", "class"), coords={"class": classes}), classes[codes]))
        if values.dtype.kind not in "biuf":
            raise CriterionError(f"loss= returned values of type {values.dtype}. Return one number a row.")
        if values.shape != codes.shape:
            raise CriterionError(f"loss= returned shape {values.shape} for {len(codes)} rows. Return one value a row.")
        return values.astype(float)

    return of_rows
