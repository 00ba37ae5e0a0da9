"""Tables of the study: labels by cell or group, with one candidate each, and one cell without a label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MOST_LABELS = 4


@dataclass(frozen=True)
class Table:
    """How many labels of class 1 and of class 0 each cell has: `counts` (G, 2)."""

    counts: np.ndarray

    @classmethod
    def drawn(cls, cells: int, seed: int) -> Table:
        """One to four labels a cell, all of one class in half of the cells; the last cell has none."""
        rng = np.random.default_rng(seed)
        sizes, pure = rng.integers(1, MOST_LABELS + 1, cells), rng.random(cells) < 0.5
        ones = np.where(pure, sizes * rng.integers(0, 2, cells), rng.binomial(sizes, 0.5))
        return cls(np.vstack([np.column_stack([ones, sizes - ones]), [0, 0]]))

    @property
    def cell(self) -> np.ndarray:
        """Of every row (n,): labeled rows first, then a candidate of each cell."""
        return np.concatenate([np.repeat(np.arange(len(self.counts)), self.counts.sum(axis=1)), np.arange(len(self.counts))])

    @property
    def labels(self) -> np.ndarray:
        """Of every row (n,), −1 of candidates."""
        labeled = [np.repeat([1, 0], counts) for counts in self.counts]
        return np.concatenate([*labeled, np.full(len(self.counts), -1)])
