"""Rows whose labels are integrated out: Σ_u w_u g_u(θ) with g_u = log Σ_y exp ℓ_u(y; θ), and its derivatives.

Sums over many rows are taken block by block, so that neither values nor derivatives of all rows at all θ are ever held at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from pymc_bpls.compute.chunks import map_rows, piece_length
from pymc_bpls.compute.compiler import Compiler, Kernel
from pymc_bpls.engine.newton.marginals import marginal_derivatives, marginal_values
from pymc_bpls.model.data.table import Unlabeled
from pymc_bpls.model.density import Density

_FEWEST, _MOST = 8, 1024


class Marginal(ABC):
    """Σ_u w_u g_u of some rows, wherever they are."""

    @property
    @abstractmethod
    def apart(self) -> bool:
        """Whether Hessians are taken column by column."""

    @abstractmethod
    def __len__(self) -> int:
        """How many rows."""

    @abstractmethod
    def under(self, density: Density) -> Marginal:
        """The same rows under another density."""

    @abstractmethod
    def sums(self, kernel: Kernel, *arrays: Any, **static: Any) -> Any:
        """`kernel(structure, weights, rows, *arrays, **static)`, added up over blocks of rows."""

    def derivatives(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Its value, gradient (q,) and curvature, minus the Hessian, (q, q) at θ (q,)."""
        value, gradient, curvature = self.sums(marginal_derivatives, theta, apart=self.apart)
        return float(value), gradient, curvature

    def values(self, theta: np.ndarray) -> np.ndarray:
        """Its value at each θ of (S, q): shape (S,)."""
        return self.sums(marginal_values, theta)


@dataclass(frozen=True)
class MarginalRows(Marginal):
    """That of some rows of a table; `by_columns` is how Hessians are taken."""

    density: Density
    compiler: Compiler
    rows: Unlabeled
    by_columns: bool = False

    @property
    def apart(self) -> bool:
        """As they are."""
        return self.by_columns

    def __len__(self) -> int:
        return len(self.rows)

    def under(self, density: Density) -> MarginalRows:
        """With its functions and row inputs."""
        return replace(self, density=density)

    def sums(self, kernel: Kernel, *arrays: Any, **static: Any) -> Any:
        """`kernel(structure, weights, rows, *arrays, **static)` of one block of rows after the other, added up."""
        return jax.tree.map(lambda values: values.sum(axis=0), self.by_block(kernel, *arrays, **static))

    def by_block(self, kernel: Kernel, *arrays: Any, **static: Any) -> Any:
        """The same of each block, one below the other; the last block is filled up with rows of weight 0."""
        n = len(self.rows)
        length = piece_length(n, (_FEWEST, _MOST))
        padded = np.arange(-(-max(n, 1) // length) * length).reshape(-1, length)
        positions, weights = self.rows.positions[padded % n], np.where(padded < n, self.rows.weights[padded % n], 0.0)

        def some(blocks: np.ndarray) -> Any:
            parts = [
                self.compiler(
                    kernel, self.density.structure, weights[block], self.density.take(positions[block]), *arrays, **static
                )
                for block in blocks
            ]
            return jax.tree.map(lambda *values: np.stack(values), *parts)

        return map_rows(some, len(padded), (1, 1))
