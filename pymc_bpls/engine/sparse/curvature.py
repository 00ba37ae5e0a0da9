"""The curvature at a point as what is not zero of it (`newton.curvature` has it as a matrix)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from pymc_bpls.compute.memory import ask_memory
from pymc_bpls.engine.newton.verification import well_explained
from pymc_bpls.engine.sparse.elimination import Elimination, Factor

#: Of the largest entry of the diagonal, what is added to all of it until H is positive definite.
_SHIFTS = (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e4)


@dataclass(frozen=True)
class SparseCurvature:
    """H of q parameters by its `values` (S + 1,) in the slots of an elimination."""

    order: Elimination
    values: np.ndarray

    words: ClassVar[str] = "sparse parameters"

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

    @property
    def is_finite(self) -> bool:
        """Whether all of it is."""
        return bool(np.isfinite(self.values).all())

    @property
    def definite(self) -> bool:
        """Whether H is positive definite, and no parameter a combination of others."""
        return bool(well_explained(self.factor.shares)[0])

    @property
    def log_det(self) -> float:
        """log det H, where it is definite."""
        return float(self.factor.log_det[0])

    @property
    def inverse_diagonal(self) -> np.ndarray:
        """The diagonal of H⁻¹ (q,)."""
        every = np.arange(self.order.q)
        return self.factor.inverse()[self.order.slots(every, every), 0]

    def times(self, vectors: np.ndarray) -> np.ndarray:
        """H times vectors (R, q), or one (q,)."""
        return self.order.times(self.values, vectors.T).T

    def solve(self, vectors: np.ndarray) -> np.ndarray:
        """H⁻¹ times vectors (R, q), or one (q,)."""
        return self.factor.solve(np.atleast_2d(vectors).T).T.reshape(vectors.shape)

    def solver(self) -> Callable[[np.ndarray], np.ndarray]:
        """`solve` for vectors (R, q), time and again."""
        return self.solve

    def spread(self, normal: np.ndarray) -> np.ndarray:
        """Vectors (R, q) with covariance H⁻¹ from standard normal ones."""
        return self.factor.whiten_back(normal.T).T

    def uphill(self, gradient: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(H + s I)⁻¹ g with s so large that this is positive definite; nothing is known of flat directions."""
        every, scale = np.arange(self.order.q), np.abs(self.diagonal).max()
        for shift in _SHIFTS:
            values = self.values.copy()
            values[self.order.slots(every, every)] += shift * scale
            shifted = SparseCurvature(self.order, values)
            if shifted.definite:
                return shifted.solve(gradient), np.empty((self.order.q, 0))
        raise np.linalg.LinAlgError("the curvature is not finite")

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
