"""S_i(θ) = Σ_D w_j ℓ_j + ℓ_i [+ log π] where rows have linear predictors η_j = A_j θ + b_j, for many candidates i at once.

With w_j the weights, G_j and W_j the gradient and Hessian of g at η_j,

    ∇ Σ w_j ℓ_j = Σ w_j A_j' G_j,   ∇² Σ w_j ℓ_j = Σ w_j A_j' W_j A_j:

JAX gives g and its derivatives, elementwise, and BLAS and LAPACK do the rest. The coordinates are θ, those of D's rows, or what
rows touch of θ: then curvatures are kept as what is not zero of them (`sparse.objective`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import scipy.linalg

from pymc_bpls.compute.threads import one_thread_each, side_by_side
from pymc_bpls.engine.newton.curvature import Curvature, Matrix
from pymc_bpls.engine.newton.verification import well_conditioned
from pymc_bpls.engine.rows.affine_rows import Block, RowDerivatives
from pymc_bpls.engine.rows.reduced_rows import Coordinates

_FACTORED_FLOATS = 2**17
_FEWEST_CHORDS, _CHORDS_A_COORDINATE = 10, 0.125


@dataclass(frozen=True)
class RowPoint:
    """S (sets,), its gradient (sets, q) and what its curvature is made of, at one θ for each candidate."""

    theta: np.ndarray
    value: np.ndarray
    gradient: np.ndarray
    log_lik: np.ndarray
    labeled: RowDerivatives
    pseudo: RowDerivatives | None
    log_prior: np.ndarray

    @property
    def finite(self) -> np.ndarray:
        """Of each candidate, whether S is (sets,)."""
        return np.isfinite(self.value)

    def take(self, sets: np.ndarray) -> RowPoint:
        """Of some of the candidates."""
        pseudo = None if self.pseudo is None else _some(self.pseudo, sets)
        theta, value, gradient, log_lik = (each[sets] for each in (self.theta, self.value, self.gradient, self.log_lik))
        return RowPoint(theta, value, gradient, log_lik, _some(self.labeled, sets), pseudo, self.log_prior[sets])


def _some(derivatives: RowDerivatives, sets: np.ndarray) -> RowDerivatives:
    return RowDerivatives(*(each[sets] for each in derivatives))


class Factors(Protocol):
    """Of −∇²S of some candidates, and which of them are positive definite and well conditioned."""

    @property
    def log_det(self) -> np.ndarray:
        """log det H_i (sets,)."""

    @property
    def definite(self) -> np.ndarray:
        """Which are so (sets,)."""

    def solve(self, vectors: np.ndarray) -> np.ndarray:
        """H_i⁻¹ times a vector of each candidate (sets, q)."""

    def take(self, sets: np.ndarray) -> Factors:
        """Of some of the candidates."""


@dataclass(frozen=True, kw_only=True)
class RowObjective(ABC):
    """S_i for a chunk of candidates i at once, one each set, or without any candidate."""

    model: Any
    labeled: Any
    pairs: Any = None
    prior: bool = True

    #: Which coordinates of where candidates come to are kept.
    kept: ClassVar[slice] = slice(None)

    def take(self, sets: np.ndarray) -> Self:
        """For some of the candidates."""
        return self if self.pairs is None else self.beside(self.pairs.take(sets))

    def beside(self, pairs: Any) -> Self:
        """With other candidates."""
        return replace(self, pairs=pairs)

    @property
    @abstractmethod
    def chords(self) -> int:
        """How many chord steps a curvature of one's own is worth."""

    @abstractmethod
    def factors(self, point: RowPoint) -> Factors:
        """Of −∇²S at a point."""

    @abstractmethod
    def curvature(self, point: RowPoint) -> Curvature:
        """−∇²S at the point of a single set."""

    def _rows(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
        """η of D's rows at each θ and of each candidate at its own, below each other, with classes and inputs."""
        block, pairs, sets = self.labeled, self.pairs, len(theta)
        eta = block.every_eta(theta).reshape(-1, block.offset.shape[1])
        codes = np.tile(block.codes, sets)
        inputs = tuple(np.tile(values, (sets, *(1,) * (values.ndim - 1))) for values in block.inputs)
        if pairs is None:
            return eta, codes, inputs
        together = tuple(np.concatenate(both) for both in zip(inputs, pairs.inputs, strict=True))
        return np.concatenate([eta, pairs.eta(theta)]), np.concatenate([codes, pairs.codes]), together

    def _gradient(self, slopes: np.ndarray, of_prior: np.ndarray) -> np.ndarray:
        """From the gradients of g in the order of `_rows`, and that of log π."""
        block, sets = self.labeled, len(of_prior)
        rows = sets * len(block.codes)
        total = block.back(slopes[:rows].reshape(sets, *block.offset.shape) * block.weights[:, None])
        if self.pairs is not None:
            total += self.pairs.own_back(slopes[rows:])
        return total + of_prior if self.prior else total

    def at(self, theta: np.ndarray) -> RowPoint:
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
        return RowPoint(theta, value, self._gradient(rows.gradient, prior_gradient), log_lik, labeled, pseudo, log_prior)

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Gradient (sets, q) alone."""
        return self._gradient(self.model.gradient_at(*self._rows(theta)), self.model.log_prior(theta)[1])


@dataclass(frozen=True)
class DenseFactors:
    """Cholesky factors (sets, q, q) of the curvatures, NaN where these are not positive definite."""

    lower: np.ndarray
    definite: np.ndarray

    @property
    def log_det(self) -> np.ndarray:
        """log det H_i (sets,)."""
        return np.asarray(2 * np.log(np.diagonal(self.lower, axis1=1, axis2=2)).sum(axis=1))

    def solve(self, vectors: np.ndarray) -> np.ndarray:
        """H_i⁻¹ times a vector of each candidate (sets, q)."""
        solved = np.empty_like(vectors)
        for i, (lower, vector) in enumerate(zip(self.lower, vectors, strict=True)):
            solved[i] = scipy.linalg.lapack.dpotrs(lower.T, vector, lower=0)[0]
        return solved

    def take(self, sets: np.ndarray) -> DenseFactors:
        """Of some of the candidates."""
        return DenseFactors(self.lower[sets], self.definite[sets])


@dataclass(frozen=True, kw_only=True)
class DenseObjective(RowObjective):
    """With curvatures as matrices; `model` is in θ or in the coordinates of D's rows, `labeled` and `pairs` are `Block`s."""

    model: Coordinates
    labeled: Block
    pairs: Block | None = None

    @property
    def chords(self) -> int:
        """A curvature costs d / 8 chords or more."""
        return max(_FEWEST_CHORDS, int(_CHORDS_A_COORDINATE * self.model.dimension))

    def factors(self, point: RowPoint) -> DenseFactors:
        """Of −∇²S at a point, some candidates at a time."""
        sets, q = point.theta.shape
        size = max(1, _FACTORED_FLOATS // (q * max(q, self.labeled.flat.shape[0])))
        pieces = [slice(first, first + size) for first in range(0, sets, size)]
        precision = self._precision(point)
        with one_thread_each(len(pieces)):
            parts = side_by_side(lambda piece: _factor(self._curvatures(point, piece, precision)), pieces)
            lower, definite = zip(*parts, strict=True)
        return DenseFactors(np.concatenate(lower), np.concatenate(definite))

    def curvature(self, point: RowPoint) -> Matrix:
        """−∇²S at the point of a single set."""
        return Matrix(self._curvatures(point, slice(0, 1), self._precision(point))[0])

    def _precision(self, point: RowPoint) -> np.ndarray:
        """What the prior adds to the curvature at each of the point's sets: (q, q), or (sets, q, q)."""
        if self.prior:
            return self.model.prior_precision(point.theta)
        return np.zeros((point.theta.shape[1],) * 2)

    def _curvatures(self, point: RowPoint, sets: slice, precision: np.ndarray) -> np.ndarray:
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


def _factor(curvature: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    try:
        factor = np.linalg.cholesky(curvature)
    except np.linalg.LinAlgError:
        factor = np.stack([Matrix(matrix).lower for matrix in curvature])
    return factor, well_conditioned(np.diagonal(factor, axis1=1, axis2=2), np.diagonal(curvature, axis1=1, axis2=2))


def derivatives(
    model: Coordinates, labeled: Block, prior: bool
) -> Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray]]:
    """Value, gradient and curvature of Σ w_j ℓ_j (+ log π) at one θ (q,)."""
    objective = DenseObjective(model=model, labeled=labeled, prior=prior)

    def at(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        point = objective.at(theta[None])
        return float(point.value[0]), point.gradient[0], objective.curvature(point).matrix

    return at
