"""The space of the labeled rows: θ ~ N(m, P⁻¹) in the few coordinates on which the linear predictors of D depend.

With P = L L' and θ = m + L^{-T} w, w is standard normal and predictors A_j θ + b_j are (A_j L^{-T}) w + (A_j m + b_j). An
orthonormal basis Q (G, r) of the span of D's rows A_j L^{-T}, by QR, so that no condition number is squared, splits
w = Q u + v, v ⊥ u. D's predictors depend on u alone, and what a Gaussian prior says of v stays true whatever D's labels:

    log det H = log det P + log det(∇² in u),   a row beside D: C u + R e,  C = A L^{-T} Q,  R R' = A P⁻¹ A' − C C',

e standard normal and independent of D. Coordinates with an improper (flat) prior have no w: they follow u as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from pymc_bpls.engine.priors.gaussian_priors import GaussianPrior
from pymc_bpls.engine.priors.precisions import Diagonal, Precision, Whitening

_ROUNDING = 1e-12
_FLOATS_AT_ONCE = 2**24


@dataclass(frozen=True)
class RowSpace:
    """Coordinates (d,), d = F + r: θ at the F flat coordinates less its start there, then u in the `basis` (r, G).

    Examples
    --------
    Two rows of five features, coefficients with standard deviation 2, and a row beside them:

    >>> import numpy as np
    >>> from pymc_bpls.engine.priors.gaussian_priors import GaussianPrior
    >>> from pymc_bpls.engine.priors.precisions import Precision
    >>> from pymc_bpls.engine.rows.row_space import RowSpace, residuals
    >>> X = np.random.default_rng(0).normal(size=(3, 1, 5))
    >>> prior = GaussianPrior(np.zeros(5), 0.0, np.zeros(5), Precision.of_matrix(np.eye(5) / 4))
    >>> space = RowSpace.spanned_by(prior, X[:2])
    >>> C = space.loadings(X)
    >>> R = residuals(space.spread(X), C)
    >>> C.shape, bool(np.allclose(C[2] @ C[2].T + R[2] @ R[2].T, 4 * X[2] @ X[2].T)), bool(np.abs(R[:2]).max() < 1e-6)
    ((3, 1, 2), True, True)
    """

    theta_prior: GaussianPrior
    basis: np.ndarray

    @classmethod
    def spanned_by(cls, prior: GaussianPrior, matrix: np.ndarray) -> RowSpace:
        """Of the predictors (n, p, q) of D's rows.

        Raises
        ------
        LinAlgError
            The prior's precision is not positive definite, flat coordinates apart.
        """
        white = prior.structure.whitening.rows(matrix.reshape(-1, matrix.shape[-1]))
        return cls(prior, np.linalg.qr(white.T)[0].T)

    def grown(self, matrix: np.ndarray) -> RowSpace:
        """With the predictors (n, p, q) of more rows: the coordinates that there are stay what they are.

        What is left of the rows outside the basis is made orthogonal to it twice, which is enough (Giraud, Langou and
        Rozložník 2005).
        """
        rows = self._whitening.rows(matrix.reshape(-1, matrix.shape[-1]))
        left = self._outside(self._outside(rows))
        scale = np.sqrt((rows**2).sum(axis=1).max(initial=0.0))
        new, factor, _ = scipy.linalg.qr(left.T, mode="economic", pivoting=True)
        count = int((np.abs(np.diag(factor)) > _ROUNDING * scale).sum())
        new = self._outside(new.T[: min(count, self._whitening.size - len(self.basis))])
        return RowSpace(self.theta_prior, np.concatenate([self.basis, np.linalg.qr(new.T)[0].T])) if len(new) else self

    def _outside(self, rows: np.ndarray) -> np.ndarray:
        return rows - (rows @ self.basis.T) @ self.basis

    @property
    def _whitening(self) -> Whitening:
        return self.theta_prior.structure.whitening

    @property
    def flat(self) -> int:
        """F."""
        return len(self._whitening.flat)

    @property
    def dimension(self) -> int:
        """d."""
        return self.flat + len(self.basis)

    @property
    def log_det_prior(self) -> float:
        """log det P: what log det of a Hessian in θ is more than that in the coordinates."""
        return self._whitening.log_det

    @property
    def log_volume(self) -> float:
        """What the log integral over θ of a density times the prior is more than that over the coordinates."""
        return 0.5 * (len(self.centre) - self.dimension) * np.log(2 * np.pi) - 0.5 * self.log_det_prior

    @cached_property
    def centre(self) -> np.ndarray:
        """θ (q,) where all coordinates are 0: the prior's mean, and the start where it is flat."""
        prior = self.theta_prior
        return prior.start + self._whitening.move(self._whitening.rows(prior.slope[None]))[0]

    @cached_property
    def prior(self) -> GaussianPrior:
        """log π(θ) as a function of the coordinates, where w is 0 outside the basis."""
        flat, d = self._whitening.flat, self.dimension
        value, slope = self.theta_prior.at(self.centre[None])
        precision = np.repeat([0.0, 1.0], [len(flat), len(self.basis)])
        parts = (Diagonal(np.arange(d), precision),)
        structure = Precision(parts, np.empty(0, dtype=int), np.empty((0, d)))
        return GaussianPrior(np.zeros(d), float(value[0]), np.append(slope[0][flat], np.zeros(len(self.basis))), structure)

    def offset(self, matrix: np.ndarray, offset: np.ndarray) -> np.ndarray:
        """Predictors A θ + b (n, p) where all coordinates are 0."""
        return matrix @ self.centre + offset

    def loadings(self, matrix: np.ndarray, since: int = 0) -> np.ndarray:
        """Derivatives of predictors (n, p, q) with respect to the coordinates from number `since` on: (n, p, d − since)."""
        flat = self._whitening.flat
        moves = self._whitening.move(self.basis[max(0, since - len(flat)) :])
        return np.concatenate([matrix[:, :, flat[since:]], matrix @ moves.T], axis=2)

    def spread(self, matrix: np.ndarray) -> np.ndarray:
        """A P⁻¹ A' (n, p, p): the prior covariance of each row's predictors (n, p, q), flat coordinates apart."""
        n, p, q = matrix.shape
        size = max(1, _FLOATS_AT_ONCE // (p * q))
        some = (matrix[first : first + size].reshape(-1, q) for first in range(0, n, size))
        white = (self._whitening.rows(rows).reshape(len(rows) // p, p, self._whitening.size) for rows in some)
        return np.concatenate([np.empty((0, p, p)), *(rows @ rows.transpose(0, 2, 1) for rows in white)])

    def theta(self, points: np.ndarray, outside: np.ndarray | float = 0.0) -> np.ndarray:
        """θ (S, q) at the coordinates (S, d), and at w outside the basis (S, G)."""
        flat = self._whitening.flat
        theta = self.centre + self._whitening.move(points[:, len(flat) :] @ self.basis + outside)
        theta[:, flat] += points[:, : len(flat)]
        return theta

    def points(self, theta: np.ndarray) -> np.ndarray:
        """The coordinates (S, d) of θ (S, q), what is outside the basis left out."""
        w = self._whitening.rows(self.theta_prior.structure.times(theta - self.centre))
        return np.hstack([(theta - self.centre)[:, self._whitening.flat], w @ self.basis.T])

    def draws(self, points: np.ndarray, normal: np.ndarray) -> np.ndarray:
        """θ (S, q) at draws of the coordinates (S, d) and, outside the basis, the prior's by standard normal w (S, G)."""
        return self.theta(points, self._outside(normal))

    def variances(self, covariance: np.ndarray) -> np.ndarray:
        """Of each entry of θ (q,), from a covariance of the coordinates (d, d) with the prior outside the basis."""
        flat = len(self._whitening.flat)
        moves = self._whitening.move(self.basis)
        inside = covariance[flat:, flat:] - np.eye(len(self.basis))
        variances = self._whitening.variances + (moves * (inside @ moves)).sum(axis=0)
        variances[self._whitening.flat] = np.diag(covariance)[:flat]
        return variances

    def covariance(self, covariance: np.ndarray) -> np.ndarray:
        """Of θ (q, q), from a covariance of the coordinates (d, d) with the prior outside the basis."""
        moves = np.zeros((self.dimension, len(self.centre)))
        moves[np.arange(self.flat), self._whitening.flat] = 1.0
        moves[self.flat :] = self._whitening.move(self.basis)
        every = self._whitening.move(np.eye(self._whitening.size))
        inside = covariance - self.prior.precision
        return every.T @ every + moves.T @ inside @ moves

    def hessian(self, curvature: np.ndarray) -> np.ndarray:
        """The curvature in θ (q, q), from that in the coordinates (d, d)."""
        flat, structure = self._whitening.flat, self.theta_prior.structure
        into = np.zeros((self.dimension, len(self.centre)))
        into[np.arange(len(flat)), flat] = 1.0
        into[len(flat) :] = structure.times(self._whitening.move(self.basis))
        return structure.matrix + into.T @ (curvature - self.prior.precision) @ into


def residuals(spread: np.ndarray, loadings: np.ndarray, flat: int = 0) -> np.ndarray:
    """R (n, p, p) with R R' = A P⁻¹ A' − C C', the symmetric root, of rows with these loadings, the first `flat` left out.

    What rounding leaves of a row inside the basis is some 1e-16 of A P⁻¹ A'.
    """
    C = loadings[:, :, flat:]
    left = spread - C @ C.transpose(0, 2, 1)
    if left.shape[1] == 1:
        return np.sqrt(np.maximum(left, 0.0))
    values, vectors = np.linalg.eigh(left)
    return (vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]) @ vectors.transpose(0, 2, 1)
