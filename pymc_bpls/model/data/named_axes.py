"""Rows are matched with a data container by name: the columns of a frame; the dims and the coordinates of an xarray array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bpls.errors import RowError

if TYPE_CHECKING:
    import pymc as pm

_SHOWN = 5


@dataclass(frozen=True)
class NamedAxes:
    """A data container's `name`, its `dims`, rows first, and the `labels` along each dim but the rows; None where unnamed."""

    name: str
    dims: tuple[str | None, ...]
    labels: tuple[tuple[Any, ...] | None, ...]

    @classmethod
    def of(cls, model: pm.Model, name: str, ndim: int) -> NamedAxes:
        """By the model's dims and coords."""
        dims = tuple(model.named_vars_to_dims.get(name) or (None,) * ndim)
        coords = [model.coords.get(dim) for dim in dims[1:]]
        return cls(name, dims, tuple(None if labels is None else tuple(labels) for labels in coords))

    @property
    def columns(self) -> tuple[Any, ...] | None:
        """The names of a row's columns."""
        return self.labels[0] if self.labels else None

    def transpose(self, rows: xr.DataArray) -> xr.DataArray:
        """An array with the rows first: dims that are the model's in their places, others in their order in the places left."""
        if rows.ndim != len(self.dims):
            return rows
        others = iter([dim for dim in rows.dims if dim not in self.dims])
        return rows.transpose(*(dim if dim in rows.dims else next(others) for dim in self.dims))

    def match(self, rows: Any, called: str = "pool") -> Any:
        """Rows in the container's order of dims and labels, as a frame or an xarray array names them; others as they are.

        Messages call what the rows are given in `called`.

        Raises
        ------
        RowError
            Columns or coordinates are not the model's.
        """
        if isinstance(rows, pd.DataFrame):
            return rows if self.columns is None else rows.iloc[:, self._places(rows.columns, self.columns, called)]
        if not isinstance(rows, xr.DataArray):
            return rows
        rows = self.transpose(rows)
        for dim, labels in zip(rows.dims[1:], self.labels, strict=False):
            if labels is not None and dim in rows.coords:
                index = rows.coords[dim].to_index()
                if tuple(index) != labels:
                    rows = rows.isel({dim: self._places(index, labels, called)})
        return rows

    def _places(self, given: pd.Index, labels: Sequence[Any], called: str) -> np.ndarray:
        """Where each of the container's labels is among those `given`."""
        names, wanted = list(given), set(labels)
        held = set(names)
        wrong = {
            "lacks": [label for label in labels if label not in held],
            "has unknown": [label for label in names if label not in wanted],
            "repeats": list(given[given.duplicated()]),
        }
        if any(wrong.values()):
            what = " and ".join(f"{verb} {_some(those)}" for verb, those in wrong.items() if those)
            raise RowError(f'{called}["{self.name}"] {what}. Give the columns {_some(labels)}.')
        place = {label: i for i, label in enumerate(names)}
        return np.array([place[label] for label in labels], dtype=int)


def _some(labels: Sequence[Any]) -> str:
    more = f" and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else ""
    return ", ".join(f'"{label}"' for label in labels[:_SHOWN]) + more
