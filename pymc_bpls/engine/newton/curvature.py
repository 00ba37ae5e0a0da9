"""A curvature H = −∇²S at one point as a matrix, and the Gaussian N(θ̃, H⁻¹) of any curvature.

`Curvature` is what Newton's method, refits and Gaussians ask of H, however it is kept: as a matrix here, or as what is not zero
of it (`sparse.curvature`). Vectors are rows, (R, q).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np
import scipy.linalg

from pymc_bpls.engine.newton.verification import well_conditioned

_VECTORS_AT_ONCE = 256


class Curvature(Protocol):
    """H (q, q) in whatever form."""

    words: ClassVar[str]

    @property
    def matrix(self) -> np.ndarray:
        """H (q, q)."""

    @property
    def is_finite(self) -> bool:
        """Whether all of it is."""

    @property
    def definite(self) -> bool:
        """Whether H is positive definite and well conditioned."""

    @property
    def log_det(self) -> float:
        """log det H, where it is definite."""

    @property
    def inverse_diagonal(self) -> np.ndarray:
        """The diagonal of H⁻¹ (q,)."""

    @property
    def condition_number(self) -> float:
        """Of H scaled to a unit diagonal."""

    def times(self, vectors: np.ndarray) -> np.ndarray:
        """H times vectors (R, q), or one (q,)."""

    def solve(self, vectors: np.ndarray) -> np.ndarray:
        """H⁻¹ times vectors (R, q), or one (q,)."""

    def solver(self) -> Callable[[np.ndarray], np.ndarray]:
        """`solve` for vectors (R, q), time and again."""

    def spread(self, normal: np.ndarray) -> np.ndarray:
        """Vectors (R, q) with covariance H⁻¹ from standard normal ones."""

    def uphill(self, gradient: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where H is not definite, a direction (q,) in which S grows, and those (q, d) in which H is flat."""


@dataclass(frozen=True)
class Matrix:
    """H as a matrix (q, q)."""

    matrix: np.ndarray

    words: ClassVar[str] = "parameters"

    @property
    def is_finite(self) -> bool:
        """Whether all of it is."""
        return bool(np.isfinite(self.matrix).all())

    @cached_property
    def lower(self) -> np.ndarray:
        """The Cholesky factor (q, q), NaN where H is not positive definite."""
        try:
            return np.asarray(scipy.linalg.cholesky(self.matrix, lower=True, check_finite=False))
        except np.linalg.LinAlgError:
            return np.full_like(self.matrix, np.nan)

    @cached_property
    def definite(self) -> bool:
        """Whether H is positive definite, and no parameter a combination of others."""
        return bool(well_conditioned(np.diag(self.lower), np.diag(self.matrix)))

    @property
    def log_det(self) -> float:
        """log det H, where it is definite."""
        return float(2 * np.log(np.diag(self.lower)).sum())

    @property
    def inverse_diagonal(self) -> np.ndarray:
        """The diagonal of H⁻¹ (q,)."""
        root = scipy.linalg.solve_triangular(self.lower, np.eye(len(self.matrix)), lower=True)
        return np.asarray((root**2).sum(axis=0))

    @property
    def condition_number(self) -> float:
        """Of H scaled to a unit diagonal."""
        values, _, _ = _scaled_eigen(self.matrix)
        return float(values[-1] / values[0])

    def times(self, vectors: np.ndarray) -> np.ndarray:
        """H times vectors (R, q), or one (q,)."""
        return vectors @ self.matrix

    def solve(self, vectors: np.ndarray) -> np.ndarray:
        """H⁻¹ times vectors (R, q), or one (q,)."""
        return np.asarray(scipy.linalg.cho_solve((self.lower, True), vectors.T, check_finite=False).T)

    def solver(self) -> Callable[[np.ndarray], np.ndarray]:
        """`solve` for vectors (R, q), time and again: by the inverse."""
        inverse = self.solve(np.eye(len(self.matrix)))
        return lambda vectors: vectors @ inverse

    def spread(self, normal: np.ndarray) -> np.ndarray:
        """Vectors (R, q) with covariance H⁻¹ from standard normal ones."""
        return np.asarray(scipy.linalg.solve_triangular(self.lower, normal.T, lower=True, trans="T").T)

    def uphill(self, gradient: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """|H|⁻¹ g, and the directions (q, d) in which H is flat."""
        values, vectors, scale = _scaled_eigen(self.matrix)
        floor = 1e-8 * max(np.abs(values).max(), 1e-300)
        direction = scale * (vectors @ ((vectors.T @ (scale * gradient)) / np.maximum(np.abs(values), floor)))
        return direction, scale[:, None] * vectors[:, np.abs(values) <= 1e-9 * np.abs(values).max()]


def _scaled_eigen(hessian: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Eigenvalues and vectors of H scaled to a unit diagonal, and the scale."""
    diagonal = np.abs(np.diag(hessian))
    scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = np.linalg.eigh(hessian * np.outer(scale, scale))
    return values, vectors, scale


@dataclass(frozen=True)
class LocalGaussian:
    """N(θ̃, H⁻¹), θ̃ being `point` (q,), of which variances, draws and distances are known without H⁻¹."""

    point: np.ndarray
    curvature: Curvature

    @property
    def hessian(self) -> np.ndarray:
        """H (q, q), which is made when it is asked for."""
        return self.curvature.matrix

    @property
    def sd(self) -> np.ndarray:
        """Standard deviation of each entry of θ (q,)."""
        return np.sqrt(self.curvature.inverse_diagonal)

    def variances_along(self, vectors: np.ndarray) -> np.ndarray:
        """v'H⁻¹v of each of the vectors v (V, q)."""
        pieces = np.array_split(vectors, max(1, -(-len(vectors) // _VECTORS_AT_ONCE)))
        return np.concatenate([(piece * self.curvature.solve(piece)).sum(axis=1) for piece in pieces])

    def distances(self, theta: np.ndarray) -> np.ndarray:
        """(θ − θ̃)'H(θ − θ̃) of each θ (S, q)."""
        move = theta - self.point
        return (move * self.curvature.times(move)).sum(axis=1)

    def draws(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draws of θ (count, q)."""
        return self.point + self.curvature.spread(rng.normal(size=(count, len(self.point))))
