"""S and its derivatives where rows have linear predictors η_j = A_j θ + b_j, for a whole chunk of candidates at once.

With w_j the weights, G_j and W_j the gradient and Hessian of g at η_j,

    ∇ Σ w_j ℓ_j = Σ w_j A_j' G_j,   ∇² Σ w_j ℓ_j = Σ w_j A_j' W_j A_j:

JAX gives g and its derivatives, elementwise, and BLAS and LAPACK do the rest. The coordinates are θ or those of D's rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pymc_bpls.engine.rows.affine_rows import Block, RowDerivatives
from pymc_bpls.engine.rows.reduced_rows import Coordinates


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

    model: Coordinates
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


def derivatives(
    model: Coordinates, labeled: Block, prior: bool
) -> Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray]]:
    """Value, gradient and curvature of Σ w_j ℓ_j (+ log π) as `find_mode` takes them."""
    objective = Objective(model, labeled, None, prior)

    def at(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        point = objective.at(theta[None])
        curvature = objective.curvature(point, slice(0, 1), objective.precision(point))[0]
        return float(point.value[0]), point.gradient[0], curvature

    return at
