"""The Gaussian with a mode's curvature in the coordinates of D's rows, and what is asked of it in θ without a matrix over θ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_bpls.engine.newton.curvature import LocalGaussian
from pymc_bpls.engine.rows.row_space import RowSpace, residuals


@dataclass(frozen=True)
class SpanGaussian(LocalGaussian):
    """N(θ̃, H⁻¹) whose point (d,) and curvature are in the coordinates of `space`; outside them it is the prior."""

    space: RowSpace

    @property
    def hessian(self) -> np.ndarray:
        """H in θ (q, q), which is made when it is asked for."""
        return self.space.hessian(self.curvature.matrix)

    @property
    def sd(self) -> np.ndarray:
        """Standard deviation of each entry of θ (q,)."""
        return np.sqrt(self.space.variances(self.curvature.solve(np.eye(len(self.point)))))

    def variances_along(self, vectors: np.ndarray) -> np.ndarray:
        """v'H⁻¹v of each of the vectors v (V, q)."""
        loadings, spread = self.space.loadings(vectors[:, None]), self.space.spread(vectors[:, None])
        inside = super().variances_along(loadings[:, 0])
        return inside + residuals(spread, loadings, self.space.flat)[:, 0, 0] ** 2

    def distances(self, theta: np.ndarray) -> np.ndarray:
        """(θ − θ̃)'H(θ − θ̃) of each θ (S, q)."""
        prior, move = self.space.theta_prior.structure, theta - self.space.theta(self.point[None])
        inside = self.space.points(theta) - self.point
        more = ((inside @ (self.curvature.matrix - self.space.prior.precision)) * inside).sum(axis=1)
        return (prior.times(move) * move).sum(axis=1) + more

    def draws(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draws of θ (count, q)."""
        points = super().draws(count, rng)
        return self.space.draws(points, rng.normal(size=(count, self.space.basis.shape[1])))
