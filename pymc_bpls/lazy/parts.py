"""A partition of a pool: its place among all rows, and how to read it. It travels to the worker that scores it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Part(ABC):
    """Partition `number` of a pool, whose `n` rows come after `first` others."""

    number: int
    first: int
    n: int

    @abstractmethod
    def read(self) -> Mapping[str, Any]:
        """Its rows by the name of the model's data container, as arrays or frames."""


@dataclass(frozen=True)
class HeldPart(Part):
    """Rows in memory."""

    rows: Mapping[str, Any]

    def read(self) -> Mapping[str, Any]:
        """What it holds."""
        return self.rows


@dataclass(frozen=True)
class GraphPart(Part):
    """Rows that Dask reads: the tasks of this partition alone, and the `keys` of their results by container.

    Of a frame `columns` are taken, one by its name or several in order.
    """

    graph: Mapping[Any, Any]
    keys: Mapping[str, Any]
    columns: Mapping[str, Any]

    def read(self) -> Mapping[str, Any]:
        """By Dask's own scheduler for one thread: a worker may not wait for other workers."""
        from dask.core import get

        wanted = list(dict.fromkeys(self.keys.values()))
        values = dict(zip(wanted, get(dict(self.graph), wanted), strict=True))
        rows = {name: values[key] for name, key in self.keys.items()}
        return {name: held[self.columns[name]] if name in self.columns else held for name, held in rows.items()}
