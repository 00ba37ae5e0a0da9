"""A density in its linear predictors: η_j = A_j θ + b_j with few entries, ℓ_j = g(η_j).

With w_j the weights, G_j and W_j the gradient and Hessian of g at η_j,

    ∇ Σ w_j ℓ_j = Σ w_j A_j' G_j,   ∇² Σ w_j ℓ_j = Σ w_j A_j' W_j A_j:

JAX gives g and its derivatives, elementwise, and BLAS and LAPACK do the rest for a whole chunk of candidates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pymc_bpls.compute.chunks import map_rows
from pymc_bpls.compute.compiler import Compiler, Kernel
from pymc_bpls.compute.threads import IN_TURN
from pymc_bpls.engine import kernels
from pymc_bpls.engine.design import Design
from pymc_bpls.engine.gaussian_priors import GaussianPrior, find_gaussian_prior
from pymc_bpls.model.affine_maps import AffineMap
from pymc_bpls.model.density import Density
from pymc_bpls.model.table import Labeled

_ROWS_AT_ONCE = 1024
_DESIGN_BYTES = 2**28
# pieces of these lengths alone, whatever number of rows or of θ there is, so that few functions are compiled
_FEW_ROWS, _MANY_ROWS = 2**9, 2**11
_PRIORS, _ENTRIES = 2**6, 2**16


class RowDerivatives(NamedTuple):
    """Of g at some η: value (…,), gradient (…, p) and Hessian (…, p, p)."""

    value: np.ndarray
    gradient: np.ndarray
    hessian: np.ndarray


@dataclass(frozen=True)
class Block:
    """Rows with their classes, weights and design, as the derivatives take them.

    In the coordinates of a row space, `residual` is R (n, p, p) of each row: its predictors are `matrix` u + R e + `offset`,
    e standard normal and of that row alone. In the parameters themselves there is none.
    """

    matrix: np.ndarray
    offset: np.ndarray
    weights: np.ndarray
    codes: np.ndarray
    inputs: tuple[np.ndarray, ...]
    residual: np.ndarray | None = None

    @property
    def flat(self) -> np.ndarray:
        """A as one matrix (n · p, q)."""
        return self.matrix.reshape(-1, self.matrix.shape[-1])

    def eta(self, theta: np.ndarray) -> np.ndarray:
        """Each row's η (n, p) at its own θ (n, q)."""
        return (self.matrix @ theta[:, :, None])[:, :, 0] + self.offset

    def take(self, rows: np.ndarray) -> Block:
        """Some of its rows."""
        inputs = tuple(values[rows] for values in self.inputs)
        residual = None if self.residual is None else self.residual[rows]
        return Block(self.matrix[rows], self.offset[rows], self.weights[rows], self.codes[rows], inputs, residual)


@dataclass(frozen=True)
class AffineRows:
    """A density whose rows have linear predictors, in its parameters θ (q,).

    `ReducedRows` are the same in the coordinates of the rows of D.
    """

    density: Density
    compiler: Compiler

    #: What the log integral of a density, and log det of a Hessian, are in θ beyond what they are in these coordinates.
    log_volume: ClassVar[float] = 0.0
    log_det_prior: ClassVar[float] = 0.0

    @property
    def dimension(self) -> int:
        """Of the coordinates: q."""
        return self.density.dimension

    def theta(self, points: np.ndarray) -> np.ndarray:
        """θ (S, q) at coordinates (S, q): the same."""
        return points

    def _run(self, kernel: Kernel, *arrays: Any) -> Any:
        return self.compiler(kernel, self.density.structure, *arrays)

    @property
    def map(self) -> AffineMap:
        """From θ and a row to the row's linear predictors."""
        assert self.density.structure.affine_map is not None
        return self.density.structure.affine_map

    @cached_property
    def design(self) -> Design:
        """A_j = ∂η_j/∂θ (p, q) and b_j = η_j(0) (p,) of the rows in use."""
        n, p, q = len(self.density.data[0]), self.map.size, self.density.dimension
        some_rows = 1 << (max(1, _DESIGN_BYTES // (8 * p * q)).bit_length() - 1)
        size = min(_ROWS_AT_ONCE, some_rows, 1 << (max(n, 2) - 1).bit_length())

        def make(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            def some(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
                return self._run(kernels.design, self.density.start, self.density.take(positions[rows]))

            return map_rows(some, len(positions), (size, size), IN_TURN)

        return Design.empty(make, n, p, q)

    def keep(self, positions: np.ndarray) -> None:
        """Make the design of these rows at once, of which `block` then takes some."""
        self.design.keep(positions)

    def block(self, positions: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Block:
        """Rows of the table."""
        matrix, offset = self.design.take(positions)
        inputs = tuple(self.density.data[i][positions] for i in self.map.inputs)
        return Block(matrix, offset, weights, codes, inputs)

    def labeled_block(self, labeled: Labeled, k: float = 1.0) -> Block:
        """D, its weights times k."""
        return self.block(labeled.positions, labeled.codes, k * labeled.weights)

    def log_lik_at(self, eta: np.ndarray, codes: np.ndarray, inputs: tuple[np.ndarray, ...]) -> np.ndarray:
        """g at η (rows, p), shape (rows,)."""
        return self._map_rows(kernels.log_lik_at, eta, codes, *inputs)

    def derivatives_at(self, eta: np.ndarray, codes: np.ndarray, inputs: tuple[np.ndarray, ...]) -> RowDerivatives:
        """g and its derivatives at η (rows, p)."""
        return RowDerivatives(*self._map_rows(kernels.derivatives_at, eta, codes, *inputs))

    def gradient_at(self, eta: np.ndarray, codes: np.ndarray, inputs: tuple[np.ndarray, ...]) -> np.ndarray:
        """The gradient of g alone, (rows, p)."""
        return self._map_rows(kernels.gradient_at, eta, codes, *inputs)

    def _map_rows(self, kernel: Kernel, *arrays: np.ndarray) -> Any:
        return self._in_pieces(kernel, _FEW_ROWS if len(arrays[0]) <= _FEW_ROWS else _MANY_ROWS, *arrays)

    def _in_pieces(self, kernel: Kernel, size: int, *arrays: np.ndarray) -> Any:
        return map_rows(lambda rows: self._run(kernel, *(array[rows] for array in arrays)), len(arrays[0]), (size, size))

    def log_prior(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log π (sets,) and its gradient (sets, q) at θ (sets, q)."""
        if self.gaussian_prior is not None:
            return self.gaussian_prior.at(theta)
        return self._of_priors(kernels.log_prior_and_gradient, theta)

    def prior_precision(self, theta: np.ndarray) -> np.ndarray:
        """−∇² log π at θ (sets, q): shape (sets, q, q), or (q, q) under Gaussian priors, where it is the same for all θ."""
        if self.gaussian_prior is not None:
            return self.gaussian_prior.precision
        return -self._of_priors(kernels.log_prior_hessian, theta)

    def _of_priors(self, kernel: Kernel, theta: np.ndarray) -> Any:
        return self._in_pieces(kernel, _power_of_two(_ENTRIES // theta.shape[1] ** 2, _PRIORS), theta)

    @cached_property
    def gaussian_prior(self) -> GaussianPrior | None:
        """The prior, where it is one quadratic function."""
        density = self.density

        def value_and_gradient(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return self._of_priors(kernels.log_prior_and_gradient, theta)

        def products(theta: np.ndarray, vectors: np.ndarray) -> np.ndarray:
            size = _power_of_two(_ENTRIES // len(theta), _PRIORS)
            return map_rows(
                lambda rows: self._run(kernels.log_prior_products, theta, vectors[rows]), len(vectors), (size, size)
            )

        return find_gaussian_prior(density.start, density.parameters.sizes, value_and_gradient, products)

    def derivatives(self, block: Block, prior: bool) -> Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray]]:
        """Value, gradient and curvature of Σ w_j ℓ_j (+ log π) as `find_mode` takes them."""
        objective = Objective(self, block, None, prior)

        def at(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
            point = objective.at(theta[None])
            return (
                float(point.value[0]),
                point.gradient[0],
                objective.curvature(point, slice(0, 1), objective.precision(point))[0],
            )

        return at

    def terms(self, theta: np.ndarray, labeled: Labeled, pair: Block) -> tuple[float, float, float]:
        """ℓ_D, ℓ_i and log π at θ."""
        point = Objective(self, self.labeled_block(labeled), pair, True).at(theta[None])
        assert point.pseudo is not None
        return float(point.log_lik[0]), float(point.pseudo.value[0]), float(point.log_prior[0])


def _power_of_two(wanted: int, most: int) -> int:
    """The largest power of two that is neither more than `wanted`, but at least 1, nor more than `most`."""
    return 1 << (max(1, min(wanted, most)).bit_length() - 1)


@dataclass(frozen=True)
class Point:
    """S, its gradient and what its curvature is made of, at one θ for each candidate."""

    theta: np.ndarray
    value: np.ndarray
    gradient: np.ndarray
    log_lik: np.ndarray
    labeled: RowDerivatives
    pseudo: RowDerivatives | None
    log_prior: np.ndarray


@dataclass(frozen=True)
class Objective:
    """S_i(θ) = Σ_D w_j ℓ_j + ℓ_i (+ log π) for a chunk of candidates i at once, or without any candidate."""

    model: AffineRows
    labeled: Block
    pairs: Block | None
    prior: bool

    def take(self, sets: np.ndarray) -> Objective:
        """For some of the candidates."""
        assert self.pairs is not None
        return replace(self, pairs=self.pairs.take(sets))

    def _rows(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
        """η of D's rows at each θ and of each candidate at its own, below each other, with classes and inputs."""
        block, pairs, sets = self.labeled, self.pairs, len(theta)
        eta = (theta @ block.flat.T + block.offset.ravel()).reshape(-1, block.offset.shape[1])
        codes = np.tile(block.codes, sets)
        inputs = tuple(np.tile(values, (sets, *(1,) * (values.ndim - 1))) for values in block.inputs)
        if pairs is None:
            return eta, codes, inputs
        together = tuple(np.concatenate(both) for both in zip(inputs, pairs.inputs, strict=True))
        return np.concatenate([eta, pairs.eta(theta)]), np.concatenate([codes, pairs.codes]), together

    def _gradient(self, theta: np.ndarray, slopes: np.ndarray, prior: np.ndarray) -> np.ndarray:
        """From the gradients of g in the order of `_rows`, and that of log π."""
        block, sets = self.labeled, len(theta)
        rows = sets * len(block.codes)
        weighted = slopes[:rows].reshape(sets, *block.offset.shape) * block.weights[:, None]
        total = weighted.reshape(sets, -1) @ block.flat
        if self.pairs is not None:
            total += (slopes[rows:, None, :] @ self.pairs.matrix)[:, 0]
        return total + prior if self.prior else total

    def at(self, theta: np.ndarray) -> Point:
        """Value, gradient and derivatives at θ (sets, q)."""
        block, sets = self.labeled, len(theta)
        log_prior, prior_gradient = self.model.log_prior(theta)
        rows = self.model.derivatives_at(*self._rows(theta))
        split = sets * len(block.codes)
        labeled = RowDerivatives(*(array[:split].reshape(sets, -1, *array.shape[1:]) for array in rows))
        pseudo = None if self.pairs is None else RowDerivatives(*(array[split:] for array in rows))
        log_lik = labeled.value @ block.weights
        value = log_lik if pseudo is None else log_lik + pseudo.value
        value = value + log_prior if self.prior else value
        gradient = self._gradient(theta, rows.gradient, prior_gradient)
        return Point(theta, value, gradient, log_lik, labeled, pseudo, log_prior)

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Gradient (sets, q) alone."""
        return self._gradient(theta, self.model.gradient_at(*self._rows(theta)), self.model.log_prior(theta)[1])

    def precision(self, point: Point) -> np.ndarray:
        """What the prior adds to the curvature at each of the point's sets: (q, q), or (sets, q, q)."""
        if self.prior:
            return self.model.prior_precision(point.theta)
        return np.zeros((point.theta.shape[1],) * 2)

    def curvature(self, point: Point, sets: slice, precision: np.ndarray) -> np.ndarray:
        """−∇²S at some of the point's sets, shape (len(sets), q, q), with the `precision` of the whole point."""
        block = self.labeled
        n, p, q = block.matrix.shape
        weighted = -block.weights[:, None, None] * point.labeled.hessian[sets]
        m = len(weighted)
        if p == 1:
            scaled = block.flat.T * weighted.reshape(m, 1, n)
            total = (scaled.reshape(m * q, n) @ block.flat).reshape(m, q, q)
        else:
            total = block.flat.T @ np.matmul(weighted, block.matrix).reshape(m, n * p, q)
        if self.pairs is not None and point.pseudo is not None:
            matrix = self.pairs.matrix[sets]
            total -= matrix.transpose(0, 2, 1) @ (point.pseudo.hessian[sets] @ matrix)
        return total + (precision if precision.ndim == 2 else precision[sets])
