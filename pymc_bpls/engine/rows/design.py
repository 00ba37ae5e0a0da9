"""The design of linear predictors, η_j = A_j θ + b_j: made for the rows that are in use, when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np

from pymc_bpls.compute.memory import ask_memory


@dataclass
class Design:
    """A_j (p, q) and b_j (p,) of rows of a table.

    `make` gives them for row positions. `place` (n,) is where each row is kept, −1 where it is not.
    """

    make: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    place: np.ndarray
    matrix: np.ndarray
    offset: np.ndarray
    lock: Lock = field(default_factory=Lock)

    def __reduce__(self) -> Any:
        """Without its rows, which come to another process as blocks."""
        _, p, q = self.matrix.shape
        return Design.empty, (_no_rows, 0, p, q)

    @classmethod
    def empty(cls, make: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]], n: int, p: int, q: int) -> Design:
        """Of a table of n rows with p predictors in q parameters; no row is kept yet."""
        return cls(make, np.full(n, -1), np.empty((0, p, q)), np.empty((0, p)))

    def keep(self, positions: np.ndarray) -> None:
        """Make what is not there yet, all at once.

        Raises
        ------
        SizeError
            It would take more memory than there is.
        """
        with self.lock:
            new = np.unique(positions[self.place[positions] < 0])
            if not new.size:
                return
            kept, p, q = self.matrix.shape
            rows = f"The design of {kept + len(new):,} rows with {p} linear predictor{'s' * (p > 1)} in {q:,} parameters"
            ask_memory(rows, 8 * p * q * (kept + 2 * len(new)))
            matrix, offset = self.make(new)
            self.matrix = np.concatenate([self.matrix, matrix]) if kept else matrix
            self.offset = np.concatenate([self.offset, offset]) if kept else offset
            place = self.place.copy()
            place[new] = kept + np.arange(len(new))
            self.place = place  # last, so that whoever reads it beside this finds all that it names

    def take(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A (rows, p, q) and b (rows, p) of these rows."""
        self.keep(positions)
        place = self.place[positions]
        return self.matrix[place], self.offset[place]


def _no_rows(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    raise LookupError("Rows of a table stay in the process that holds it.")
