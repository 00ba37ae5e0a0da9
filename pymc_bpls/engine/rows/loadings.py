"""The design of linear predictors in the coordinates of a row space, kept for the rows in use while the space grows."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np

from pymc_bpls.engine.rows.design import Design
from pymc_bpls.engine.rows.row_space import RowSpace


@dataclass
class Loadings:
    """C (rows, p, d) and A P⁻¹ A' (rows, p, p) of the rows that a design keeps, for one basis while it grows."""

    design: Design
    space: RowSpace
    lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        p = self.design.matrix.shape[1]
        self.matrix = np.empty((0, p, self.space.dimension))
        self.spread, self.offset = np.empty((0, p, p)), np.empty((0, p))

    def __reduce__(self) -> Any:
        """Without its rows, as their design."""
        return Loadings, (self.design, self.space)

    def take(self, positions: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """C in the first d coordinates, A P⁻¹ A' and the predictors where all coordinates are 0, of these rows."""
        self.design.keep(positions)
        with self.lock:
            self._extend()
            place = self.design.place[positions]
            return self.matrix[place, :, :d], self.spread[place], self.offset[place]

    def _extend(self) -> None:
        """To all rows and all coordinates that there are by now."""
        (kept, _, d), space, design = self.matrix.shape, self.space, self.design
        if d < space.dimension:
            self.matrix = np.concatenate([self.matrix, space.loadings(design.matrix[:kept], d)], axis=2)
        if kept < len(design.matrix):
            new, offset = design.matrix[kept:], design.offset[kept:]
            self.matrix = np.concatenate([self.matrix, space.loadings(new)])
            self.spread = np.concatenate([self.spread, space.spread(new)])
            self.offset = np.concatenate([self.offset, space.offset(new, offset)])
