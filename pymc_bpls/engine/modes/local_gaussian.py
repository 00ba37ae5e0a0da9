"""The Gaussian with a mode's curvature, and what is asked of it entry by entry, without a matrix over all parameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from pymc_bpls.engine.rows.row_space import RowSpace, residuals


@dataclass(frozen=True)
class LocalGaussian:
    """N(θ̃, H⁻¹): θ̃ is `point` (d,) and H `curvature` (d, d) in the coordinates of `space`, or in θ where there is none."""

    point: np.ndarray
    curvature: np.ndarray
    space: RowSpace | None

    @property
    def hessian(self) -> np.ndarray:
        """H in θ (q, q), which is made when it is asked for."""
        return self.curvature if self.space is None else self.space.hessian(self.curvature)

    @property
    def _root(self) -> np.ndarray:
        """The inverse of its lower Cholesky factor: covariance = root' root."""
        factor = scipy.linalg.cholesky(self.curvature, lower=True)
        return scipy.linalg.solve_triangular(factor, np.eye(len(factor)), lower=True)

    @property
    def sd(self) -> np.ndarray:
        """Standard deviation of each entry of θ (q,)."""
        root = self._root
        return np.linalg.norm(root, axis=0) if self.space is None else np.sqrt(self.space.variances(root.T @ root))

    def variances_along(self, vectors: np.ndarray) -> np.ndarray:
        """v'H⁻¹v of each of the vectors v (V, q)."""
        if self.space is None:
            return ((vectors @ self._root.T) ** 2).sum(axis=1)
        loadings, spread = self.space.loadings(vectors[:, None]), self.space.spread(vectors[:, None])
        inside = ((loadings[:, 0] @ self._root.T) ** 2).sum(axis=1)
        return inside + residuals(spread, loadings, self.space.flat)[:, 0, 0] ** 2

    def distances(self, theta: np.ndarray) -> np.ndarray:
        """(θ − θ̃)'H(θ − θ̃) of each θ (S, q)."""
        if self.space is None:
            return _quadratic(self.curvature, theta - self.point)
        prior, move = self.space.theta_prior.structure, theta - self.space.theta(self.point[None])
        inside = self.space.points(theta) - self.point
        more = _quadratic(self.curvature - self.space.prior.precision, inside)
        return (prior.times(move) * move).sum(axis=1) + more

    def draws(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draws of θ (count, q) from the Gaussian with this mode and curvature."""
        points = self.point + rng.normal(size=(count, len(self.point))) @ self._root
        if self.space is None:
            return points
        return self.space.draws(points, rng.normal(size=(count, self.space.basis.shape[1])))


def _quadratic(matrix: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """v'Mv of each of the vectors v (V, d)."""
    return ((vectors @ matrix) * vectors).sum(axis=1)
