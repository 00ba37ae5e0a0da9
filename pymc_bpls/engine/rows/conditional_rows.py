"""A hierarchy with its scales held fixed: rows with one linear predictor and a Gaussian prior of all other parameters.

θ = (ψ, x): given ψ, which has few entries, f_j = a_j(ψ)'x + b_j(ψ), and log π(ψ, x) is quadratic in x.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pymc_bpls.engine.newton import kernels
from pymc_bpls.engine.priors.gaussian_priors import GaussianPrior, find_gaussian_prior
from pymc_bpls.engine.rows.affine_rows import AffineRows


@dataclass(frozen=True)
class ConditionalRows(AffineRows):
    """The rows of a density in x (d,), which are the entries `inner` of θ; the others are those of `fixed` (q,).

    x starts where `fixed` is. Where the prior of x was found Gaussian at other ψ before (`verified`), values and gradients have
    to say so again, and its curvature has not.
    """

    fixed: np.ndarray
    inner: np.ndarray
    sizes: tuple[int, ...]
    verified: bool = True

    @property
    def dimension(self) -> int:
        """d."""
        return len(self.inner)

    @property
    def variable_sizes(self) -> tuple[int, ...]:
        """Of the variables that x consists of, in their order."""
        return self.sizes

    @property
    def base(self) -> np.ndarray:
        """x where the model starts (d,)."""
        return self.fixed[self.inner]

    def moves(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors (V, d) of x as those of θ (V, q)."""
        wide = np.zeros((len(vectors), len(self.fixed)))
        wide[:, self.inner] = vectors
        return wide

    def theta(self, points: np.ndarray) -> np.ndarray:
        """θ (S, q) at x (S, d)."""
        theta = np.repeat(self.fixed[None], len(points), axis=0)
        theta[:, self.inner] = points
        return theta

    def _made(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """∂f/∂x (n, 1, d) and f where x = 0 (n, 1)."""
        matrix, offset = self._run(kernels.design, self.fixed, self.density.take(positions))
        inside = matrix[:, :, self.inner]
        return inside, offset + matrix @ self.fixed - inside @ self.fixed[self.inner]

    @cached_property
    def gaussian_prior(self) -> GaussianPrior | None:
        """log π(ψ, x) as a function of x, where it is quadratic: none of x is of a mixture (`AffineRows.gaussian_prior`)."""
        if np.isin(self.density.components.coordinates, self.inner).any():
            return None

        def value_and_gradient(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            value, gradient = self.log_prior_at_few(self.theta(points))
            return value, gradient[:, self.inner]

        def products(point: np.ndarray, vectors: np.ndarray) -> np.ndarray:
            return self.prior_products(self.theta(point[None])[0], self.moves(vectors))[:, self.inner]

        start = self.fixed[self.inner]
        return find_gaussian_prior(start, self.sizes, value_and_gradient, products, curvature=not self.verified)
