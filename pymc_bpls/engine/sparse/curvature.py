"""The curvature at a mode as what is not zero of it, and the Gaussian with that curvature."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from pymc_bpls.compute.memory import ask_memory
from pymc_bpls.engine.sparse.elimination import Elimination, Factor

_VECTORS_AT_ONCE = 256


@dataclass(frozen=True)
class SparseCurvature:
    """H of q parameters by its `values` (S + 1,) in the slots of an elimination."""

    order: Elimination
    values: np.ndarray

    @cached_property
    def factor(self) -> Factor:
        """Its factor."""
        return self.order.factor(self.values[:, None])

    @property
    def diagonal(self) -> np.ndarray:
        """The diagonal of H (q,)."""
        every = np.arange(self.order.q)
        return self.values[self.order.slots(every, every)]

    @property
    def matrix(self) -> np.ndarray:
        """H (q, q)."""
        q = self.order.q
        ask_memory(f"A matrix over {q:,} parameters", 2 * 8 * q * q)
        return self.order.matrix(self.values).toarray()

    def times(self, vector: np.ndarray) -> np.ndarray:
        """H times a vector (q,)."""
        return self.order.times(self.values, vector[:, None])[:, 0]

    def solve(self, vector: np.ndarray) -> np.ndarray:
        """H⁻¹ times a vector (q,)."""
        return self.factor.solve(vector[:, None])[:, 0]

    @property
    def condition_number(self) -> float:
        """Of H scaled to a unit diagonal, by Lanczos' method."""
        q, scale = self.order.q, 1 / np.sqrt(self.diagonal)
        H = self.order.matrix(self.values)

        def times(vector: np.ndarray) -> np.ndarray:
            return scale * (H @ (scale * np.ravel(vector)))

        def solved(vector: np.ndarray) -> np.ndarray:
            return (self.factor.solve((np.ravel(vector) / scale)[:, None]) / scale[:, None])[:, 0]

        start = np.random.default_rng(0).normal(size=q)
        ends = (
            eigsh(LinearOperator((q, q), each), k=1, v0=start, tol=1e-3, return_eigenvectors=False)[0]
            for each in (times, solved)
        )
        return float(np.prod(list(ends)))


@dataclass(frozen=True)
class SparseGaussian:
    """N(θ̃, H⁻¹), θ̃ being `point` (q,), of which variances, draws and distances are known without H⁻¹."""

    point: np.ndarray
    curvature: SparseCurvature

    @property
    def hessian(self) -> np.ndarray:
        """H (q, q), which is made when it is asked for."""
        return self.curvature.matrix

    @property
    def sd(self) -> np.ndarray:
        """Standard deviation of each entry of θ (q,)."""
        order, every = self.curvature.order, np.arange(len(self.point))
        return np.sqrt(self.curvature.factor.inverse()[order.slots(every, every), 0])

    def variances_along(self, vectors: np.ndarray) -> np.ndarray:
        """v'H⁻¹v of each of the vectors v (V, q)."""
        pieces = np.array_split(vectors, max(1, -(-len(vectors) // _VECTORS_AT_ONCE)))
        return np.concatenate([(piece.T * self.curvature.factor.solve(piece.T)).sum(axis=0) for piece in pieces])

    def distances(self, theta: np.ndarray) -> np.ndarray:
        """(θ − θ̃)'H(θ − θ̃) of each θ (S, q)."""
        move = (theta - self.point).T
        return (move * self.curvature.order.times(self.curvature.values, move)).sum(axis=0)

    def draws(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draws of θ (count, q)."""
        return self.point + self.curvature.factor.whiten_back(rng.normal(size=(len(self.point), count))).T
