"""Rows of a partition as arrays of the model's containers, and what is refused of them: by partition and row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_bpls.errors import RowError
from pymc_bpls.lazy.parts import Part
from pymc_bpls.model.data.missing import as_numbers
from pymc_bpls.model.data.named_axes import NamedAxes

_SHOWN = 5


@dataclass(frozen=True)
class Container:
    """A data container of the model: its dtype, the shape of one row, and its names."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    axes: NamedAxes

    @property
    def name(self) -> str:
        """The container's."""
        return self.axes.name

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names of a row's columns."""
        return self.axes.columns


@dataclass(frozen=True)
class Group:
    """An index that points at one of `size` levels; `name` and `levels` are for words."""

    name: str
    size: int
    levels: str


def read_rows(part: Part, containers: Sequence[Container]) -> dict[str, np.ndarray]:
    """The rows of a partition, checked, in the dtypes of the containers.

    Raises
    ------
    RowError
        A value is missing, infinite, no number, or a fraction where the model has whole numbers; or the partition has another
        number of rows or columns than it said.
    """
    held = part.read()
    return {container.name: _checked(part, container, held[container.name]) for container in containers}


def _checked(part: Part, container: Container, rows: Any) -> np.ndarray:
    array = as_numbers(rows)
    shape = (part.n, *container.shape)
    if array.shape != shape:
        raise RowError(
            f'Partition {part.number} of the pool has "{container.name}" of shape {array.shape}, and {shape} was said. '
            "Give a pool whose rows do not change."
        )
    if array.dtype.kind not in "biuf":
        raise RowError(
            f'Partition {part.number} of the pool has "{container.name}" of type {array.dtype}. Convert its columns to numbers.'
        )
    if array.dtype.kind == "f":
        _refuse(part, container, ~np.isfinite(array), "is not finite", "Impute these values or drop the rows")
        if container.dtype.kind in "biu":
            _refuse(part, container, array != np.round(array), "holds fractions", "The model has whole numbers there: round")
    return array.astype(container.dtype, copy=False)


def _refuse(part: Part, container: Container, bad: np.ndarray, what: str, instead: str) -> None:
    if not bad.any():
        return
    rows = np.flatnonzero(bad.reshape(len(bad), -1).any(axis=1))
    where = f"{_places(part, rows)}"
    if bad.ndim == 2:
        columns = np.flatnonzero(bad.any(axis=0))[:_SHOWN]
        where += f", columns {[int(i) if container.columns is None else container.columns[i] for i in columns]}"
    raise RowError(f'Partition {part.number} of the pool: "{container.name}" {what} in {where}. {instead}.')


def _places(part: Part, rows: np.ndarray) -> str:
    more = f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
    return f"rows {rows[:_SHOWN].tolist()}{more} (of the pool: {(part.first + rows[:_SHOWN]).tolist()})"


def check_groups(part: Part, start: int, groups: Sequence[Group], indices: Sequence[np.ndarray]) -> None:
    """Refuse an index that points at no level, in rows from place `start` of the partition on.

    Raises
    ------
    RowError
        With the partition, the rows and the levels that there are.
    """
    for group, values in zip(groups, indices, strict=True):
        outside = (values < 0) | (values >= group.size)
        if outside.any():
            strange = np.unique(values[outside])[:_SHOWN].tolist()
            rows = start + np.flatnonzero(outside.reshape(len(outside), -1).any(axis=1))
            raise RowError(
                f"Partition {part.number} of the pool: {group.name} holds {strange} in {_places(part, rows)}, outside its "
                f"{group.size} levels ({group.levels}). Give such a group a level of its own, or leave these rows out."
            )


def check_leaves(part: Part, start: int, leaves: Mapping[int, np.ndarray]) -> None:
    """Refuse rows from which the model computes what is not finite."""
    for number, values in leaves.items():
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            rows = start + np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
            raise RowError(
                f"Partition {part.number} of the pool: what the model computes of the data (array {number}, of shape "
                f"{values.shape}) is not finite in {_places(part, rows)}. Drop these rows, or change the transformation."
            )
