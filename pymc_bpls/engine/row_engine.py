"""What is evaluated of rows at given parameters, without a fit: their predictors and their log-likelihoods."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_bpls.compute.chunks import map_rows
from pymc_bpls.compute.compiler import Compiler, Kernel
from pymc_bpls.compute.travel import OfFields
from pymc_bpls.engine.newton import kernels
from pymc_bpls.engine.rows.affine_rows import AffineRows
from pymc_bpls.engine.rows.hierarchy import Hierarchy, find_hierarchy

if TYPE_CHECKING:
    from pymc_bpls.model.density import Density

_ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class RowEngine(OfFields):
    """Rows of one table under one model: those of a declared table, or of a partition of a pool.

    Parameters
    ----------
    density : Density
        The model's log-density on its table.
    compiler : Compiler
        Runs what is compiled, and keeps the record of it.
    affine : bool, default True
        Whether linear predictors are made use of where rows have them; without it, all derivatives are taken in θ.
    conditional : bool, default False
        Whether a candidate brings p(y | x, θ) = exp(ℓ_i − g_i) to the density, with g_i = log Σ_y exp ℓ_i(y), in place of its
        whole likelihood. In a model of y given x they are the same.
    """

    density: Density
    compiler: Compiler
    affine: bool = True
    conditional: bool = False

    def _run(self, kernel: Kernel, *arrays: Any, **static: Any) -> Any:
        return self.compiler(kernel, self.density.structure, *arrays, **static)

    @cached_property
    def affine_rows(self) -> AffineRows | None:
        """The density in its linear predictors, where rows have few."""
        if not self.affine or self.density.structure.affine_map is None:
            return None
        return AffineRows(self.density, self.compiler)

    @cached_property
    def hierarchy(self) -> Hierarchy | None:
        """The density as one whose rows have one linear predictor and a Gaussian prior once a few parameters are fixed."""
        usable = self.affine and not self.conditional
        return find_hierarchy(self.density, self.compiler) if usable else None

    def log_lik(self, theta: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """ℓ_j(θ) of every class for rows of the table, at θ (q,): shape (rows, K)."""
        return self.map_positions(kernels.log_lik_classes, positions, theta)

    def map_positions(
        self, kernel: Kernel, positions: np.ndarray, *arrays: Any, codes: np.ndarray | None = None, **static: Any
    ) -> np.ndarray:
        """`kernel(structure, *arrays, rows)`, or with the rows' `codes` before `rows`, for rows of the table in pieces."""
        if not len(positions):  # the shape is that for any row
            codes = None if codes is None else np.zeros(1, dtype=int)
            return self.map_positions(kernel, np.zeros(1, dtype=int), *arrays, codes=codes, **static)[:0]

        def some(rows: np.ndarray) -> np.ndarray:
            coded = () if codes is None else (codes[rows],)
            return self._run(kernel, *arrays, *coded, self.density.take(positions[rows]), **static)

        size = min(_ROWS_AT_ONCE, 1 << (len(self.density.data[0]) - 1).bit_length())
        return map_rows(some, len(positions), (size, size))
