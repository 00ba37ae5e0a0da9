"""Rows whose labels are integrated out: Σ_u w_u g_u(θ) with g_u = log Σ_y exp ℓ_u(y; θ), and its derivatives.

Sums over many rows are taken block by block, so that neither values nor derivatives of all rows at all θ are ever held at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pymc_bpls.compute.chunks import map_rows, piece_length
from pymc_bpls.compute.compiler import Compiler, Kernel
from pymc_bpls.engine.newton import kernels
from pymc_bpls.engine.newton.batched_newton import Function, with_derivatives
from pymc_bpls.model.data.table import Unlabeled
from pymc_bpls.model.density import Density
from pymc_bpls.model.structure import Structure

_FEWEST, _MOST = 8, 1024
_THETAS_AT_ONCE = 64


@dataclass(frozen=True)
class MarginalRows:
    """Σ_u w_u g_u of some rows of a table; `apart` takes Hessians column by column."""

    density: Density
    compiler: Compiler
    rows: Unlabeled
    apart: bool = False

    def derivatives(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Its value, gradient (q,) and curvature, minus the Hessian, (q, q) at θ (q,)."""
        value, gradient, curvature = self.sums(marginal_derivatives, theta, apart=self.apart)
        return float(value), gradient, curvature

    def values(self, theta: np.ndarray) -> np.ndarray:
        """Its value at each θ of (S, q): shape (S,)."""
        return self.sums(marginal_values, theta)

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


def weighted_marginal(structure: Structure, weights: jax.Array, rows: Any) -> Function:
    """Σ_u w_u g_u as a function of θ with its derivatives; for kernels, none itself."""
    return with_derivatives(lambda theta: weights @ structure.log_marginal(theta, rows))


def marginal_derivatives(
    structure: Structure, weights: jax.Array, rows: Any, theta: jax.Array, *, apart: bool
) -> tuple[jax.Array, ...]:
    """Log-likelihood of rows without labels, gradient and Hessian."""
    function = weighted_marginal(structure, weights, rows)
    curvature = -kernels.hessian_by_columns(function, theta) if apart else function.curvature(theta)
    return function.value(theta), function.gradient(theta), curvature


def marginal_values(structure: Structure, weights: jax.Array, rows: Any, theta: jax.Array) -> jax.Array:
    """Log-likelihood of rows without labels over draws."""
    function = weighted_marginal(structure, weights, rows)
    return jnp.asarray(jax.lax.map(function.value, theta, batch_size=_THETAS_AT_ONCE))
