"""A density in its linear predictors: η_j = A_j θ + b_j with few entries, ℓ_j = g(η_j).

With w_j the weights, G_j and W_j the gradient and Hessian of g at η_j,

    ∇ Σ w_j ℓ_j = Σ w_j A_j' G_j,   ∇² Σ w_j ℓ_j = Σ w_j A_j' W_j A_j:

JAX gives g and its derivatives, elementwise, and BLAS and LAPACK do the rest for a whole chunk of candidates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pymc_bpls.compute.compiler import Compiler, in_pieces
from pymc_bpls.model.affine_maps import Predictors
from pymc_bpls.model.density import Density
from pymc_bpls.model.table import Labeled

_ROWS_AT_ONCE = 1024
_FEWEST_AT_ONCE, _MOST_AT_ONCE = 512, 2**14
_SPREADS = (1.0, 1.0, 10.0, 100.0)


class Derivatives(NamedTuple):
    """Of g at some η: value (…,), gradient (…, p) and Hessian (…, p, p)."""

    value: np.ndarray
    slopes: np.ndarray
    bends: np.ndarray


@dataclass(frozen=True)
class Block:
    """Rows with their classes, weights and design, as the derivatives take them."""

    matrix: np.ndarray
    offset: np.ndarray
    weights: np.ndarray
    codes: np.ndarray
    inputs: tuple[np.ndarray, ...]

    @property
    def flat(self) -> np.ndarray:
        """A as one matrix (n · p, q)."""
        return self.matrix.reshape(-1, self.matrix.shape[-1])

    def eta(self, theta: np.ndarray) -> np.ndarray:
        """Each row's η (n, p) at its own θ (n, q)."""
        return (self.matrix @ theta[:, :, None])[:, :, 0] + self.offset

    def of(self, rows: np.ndarray) -> Block:
        """Some of its rows."""
        inputs = tuple(values[rows] for values in self.inputs)
        return Block(self.matrix[rows], self.offset[rows], self.weights[rows], self.codes[rows], inputs)


@dataclass(frozen=True)
class GaussianPrior:
    """log π(θ) = value + slope'(θ − θ₀) − ½ (θ − θ₀)' precision (θ − θ₀): normal, flat, or a sum of such terms."""

    start: np.ndarray
    value: float
    slope: np.ndarray
    precision: np.ndarray

    def at(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log π (sets,) and its gradient (sets, q) at θ (sets, q)."""
        move = theta - self.start
        bend = move @ self.precision
        return self.value + move @ self.slope - 0.5 * (move * bend).sum(axis=1), self.slope - bend


@dataclass(frozen=True)
class Structured:
    """A density whose rows have linear predictors."""

    density: Density
    compiler: Compiler

    @property
    def predictors(self) -> Predictors:
        """The rows' linear predictors."""
        assert self.density.predictors is not None
        return self.density.predictors

    @cached_property
    def design(self) -> tuple[np.ndarray, np.ndarray]:
        """A_j = ∂η_j/∂θ (N, p, q) and b_j = η_j(0) (N, p), for all rows of the table."""
        predictors = self.predictors
        start = self.density.start

        def affine(theta: jax.Array, rows: Any) -> tuple[jax.Array, jax.Array]:
            def of_row(row: Any) -> tuple[jax.Array, jax.Array]:
                one = tuple(values[None] for values in row)
                matrix = jax.jacrev(predictors.eta)(theta, *one)
                return matrix, predictors.eta(theta, *one) - matrix @ theta

            return jax.vmap(of_row)(rows)

        n = len(self.density.data[0])
        size = min(_ROWS_AT_ONCE, 1 << (max(n, 2) - 1).bit_length())
        matrix, offset = np.empty((n, predictors.size, len(start))), np.empty((n, predictors.size))
        for first in range(0, n, size):
            rows = np.arange(first, min(first + size, n))
            part = self.compiler("linear predictors", affine, start, self.density.take(np.resize(rows, size)))
            matrix[rows], offset[rows] = part[0][: len(rows)], part[1][: len(rows)]
        return matrix, offset

    def block(self, positions: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Block:
        """Rows of the table."""
        predictors = self.predictors
        matrix, offset = self.design
        inputs = tuple(self.density.data[i][positions] for i in predictors.inputs)
        return Block(matrix[positions], offset[positions], weights, codes, inputs)

    def labeled_block(self, labeled: Labeled, k: float = 1.0) -> Block:
        """D, its weights times k."""
        return self.block(labeled.positions, labeled.codes, k * labeled.weights)

    @cached_property
    def _of_rows(self) -> Callable[..., Any]:
        """g, its gradient and Hessian for many rows."""
        return jax.vmap(lambda *row: (self.of_row(*row), jax.jacfwd(self.of_row)(*row), self._bend(*row)))

    @cached_property
    def _slopes_of_rows(self) -> Callable[..., Any]:
        return jax.vmap(jax.jacfwd(self.of_row))

    @cached_property
    def _log_lik_of_rows(self) -> Callable[..., Any]:
        return jax.vmap(self.of_row)

    @cached_property
    def _bend(self) -> Callable[..., Any]:
        return jax.jacfwd(jax.jacfwd(self.of_row))

    def of_row(self, eta: jax.Array, code: jax.Array, *inputs: jax.Array) -> jax.Array:
        """g of one row."""
        predictors = self.predictors
        label = jnp.asarray(self.density.class_values)[code][None]
        return predictors.log_lik(eta, label, *(values[None] for values in inputs))

    def log_lik_of_rows(self, eta: np.ndarray, codes: np.ndarray, inputs: tuple[np.ndarray, ...]) -> np.ndarray:
        """g at η (rows, p), shape (rows,)."""
        return self._in_pieces("values", self._log_lik_of_rows, eta, codes, *inputs)

    def derivatives_of_rows(self, eta: np.ndarray, codes: np.ndarray, inputs: tuple[np.ndarray, ...]) -> Derivatives:
        """g and its derivatives at η (rows, p)."""
        return Derivatives(*self._in_pieces("derivatives", self._of_rows, eta, codes, *inputs))

    def slopes_of_rows(self, eta: np.ndarray, codes: np.ndarray, inputs: tuple[np.ndarray, ...]) -> np.ndarray:
        """The gradient of g alone, (rows, p)."""
        return self._in_pieces("slopes", self._slopes_of_rows, eta, codes, *inputs)

    def _in_pieces(self, name: str, function: Callable[..., Any], *arrays: np.ndarray) -> Any:
        return in_pieces(self.compiler, name, function, arrays, _FEWEST_AT_ONCE, _MOST_AT_ONCE)

    def log_prior(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log π (sets,) and its gradient (sets, q) at θ (sets, q)."""
        if self.gaussian_prior is not None:
            return self.gaussian_prior.at(theta)
        return self.compiler("log prior", self._prior_and_gradient, theta)

    @cached_property
    def _prior_and_gradient(self) -> Callable[..., Any]:
        return jax.vmap(jax.value_and_grad(self.density.prior))

    @cached_property
    def _prior_hessian(self) -> Callable[..., Any]:
        return jax.vmap(jax.hessian(self.density.prior))

    def prior_precision(self, theta: np.ndarray) -> np.ndarray:
        """−∇² log π at θ (sets, q): shape (sets, q, q), or (q, q) under Gaussian priors, where it is the same for all θ."""
        if self.gaussian_prior is not None:
            return self.gaussian_prior.precision
        return -self.compiler("prior Hessian", self._prior_hessian, theta)

    @cached_property
    def gaussian_prior(self) -> GaussianPrior | None:
        """The prior, where value, gradient and Hessian are those of one quadratic function at points near and far."""
        start = self.density.start
        draws = np.random.default_rng(0).normal(size=(len(_SPREADS), len(start)))
        points = np.vstack([start, start + np.array(_SPREADS)[:, None] * draws])
        hessians = self.compiler("prior Hessian", self._prior_hessian, points)
        values, slopes = self.compiler("log prior", self._prior_and_gradient, points)
        found = GaussianPrior(start, float(values[0]), slopes[0], -hessians[0])
        pairs = ((hessians, -found.precision), *zip((values, slopes), found.at(points), strict=True))
        with np.errstate(invalid="ignore"):
            same = all(np.allclose(a, b, rtol=1e-11, atol=1e-13) for a, b in pairs)
        return found if same else None

    def derivatives(self, block: Block, prior: bool) -> Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray]]:
        """Value, gradient and curvature of Σ w_j ℓ_j (+ log π) as `laplace.find_mode` takes them."""
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


@dataclass(frozen=True)
class Point:
    """S, its gradient and what its curvature is made of, at one θ for each candidate."""

    theta: np.ndarray
    value: np.ndarray
    gradient: np.ndarray
    log_lik: np.ndarray
    labeled: Derivatives
    pseudo: Derivatives | None
    log_prior: np.ndarray


@dataclass(frozen=True)
class Objective:
    """S_i(θ) = Σ_D w_j ℓ_j + ℓ_i (+ log π) for a chunk of candidates i at once, or without any candidate."""

    model: Structured
    labeled: Block
    pairs: Block | None
    prior: bool

    def of(self, sets: np.ndarray) -> Objective:
        """For some of the candidates."""
        assert self.pairs is not None
        return replace(self, pairs=self.pairs.of(sets))

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
        rows = self.model.derivatives_of_rows(*self._rows(theta))
        split = sets * len(block.codes)
        labeled = Derivatives(*(array[:split].reshape(sets, -1, *array.shape[1:]) for array in rows))
        pseudo = None if self.pairs is None else Derivatives(*(array[split:] for array in rows))
        log_lik = labeled.value @ block.weights
        value = log_lik if pseudo is None else log_lik + pseudo.value
        value = value + log_prior if self.prior else value
        gradient = self._gradient(theta, rows.slopes, prior_gradient)
        return Point(theta, value, gradient, log_lik, labeled, pseudo, log_prior)

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Gradient (sets, q) alone."""
        return self._gradient(theta, self.model.slopes_of_rows(*self._rows(theta)), self.model.log_prior(theta)[1])

    def precision(self, point: Point) -> np.ndarray:
        """What the prior adds to the curvature at each of the point's sets: (q, q), or (sets, q, q)."""
        if self.prior:
            return self.model.prior_precision(point.theta)
        return np.zeros((point.theta.shape[1],) * 2)

    def curvature(self, point: Point, sets: slice, precision: np.ndarray) -> np.ndarray:
        """−∇²S at some of the point's sets, shape (len(sets), q, q), with the `precision` of the whole point."""
        block = self.labeled
        n, p, q = block.matrix.shape
        weighted = -block.weights[:, None, None] * point.labeled.bends[sets]
        m = len(weighted)
        if p == 1:
            scaled = block.flat.T * weighted.reshape(m, 1, n)
            total = (scaled.reshape(m * q, n) @ block.flat).reshape(m, q, q)
        else:
            total = block.flat.T @ np.matmul(weighted, block.matrix).reshape(m, n * p, q)
        if self.pairs is not None and point.pseudo is not None:
            matrix = self.pairs.matrix[sets]
            total -= matrix.transpose(0, 2, 1) @ (point.pseudo.bends[sets] @ matrix)
        return total + (precision if precision.ndim == 2 else precision[sets])
