"""R's `glm(family = "binomial")` in NumPy, as it ends where the data are separated or the columns dependent.

Iteratively reweighted least squares from fitted values (y + ½)/2, at most 25 steps, until the deviance changes by less than
1e-8 of itself. In every step a column that depends on earlier ones, to 1e-11 of its length, is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg.lapack import dtrtri, dtrtrs

STEPS, CHANGE, DEPENDENT = 25, 1e-8, 1e-11
EPSILON = np.finfo(float).eps
FARTHEST = 30.0


@dataclass(frozen=True)
class Fit:
    """Coefficients (q,), 0 where a column was dropped; the log-likelihood; the last step's triangle of the kept columns."""

    coefficients: np.ndarray
    log_lik: float
    triangle: np.ndarray
    kept: np.ndarray

    @cached_property
    def covariance(self) -> np.ndarray:
        """Of the kept coefficients, by the weights of the last step."""
        inverse, _ = dtrtri(self.triangle)
        return inverse @ inverse.T

    @property
    def information(self) -> np.ndarray:
        """X'WX of the kept columns, which inverts the covariance."""
        return self.triangle.T @ self.triangle

    @property
    def invertible(self) -> bool:
        """Whether R's `solve` accepts the covariance: its reciprocal condition number is not below machine precision."""
        norms = np.linalg.norm(self.covariance, 1) * np.linalg.norm(self.information, 1)
        return bool(np.isfinite(norms) and norms * EPSILON <= 1)

    @property
    def log_det(self) -> float:
        """The logarithm of the information's determinant, and not the determinant of a logarithm's sum: it underflows."""
        with np.errstate(divide="ignore", under="ignore"):
            return float(np.log(np.exp(2 * np.log(np.abs(np.diag(self.triangle))).sum())))

    def logit(self, X: np.ndarray) -> np.ndarray:
        """The linear predictor of rows X."""
        return X @ self.coefficients

    def standard_error(self, X: np.ndarray) -> np.ndarray:
        """Of the linear predictor of rows X."""
        return np.sqrt(np.einsum("ij,jk,ik->i", X[:, self.kept], self.covariance, X[:, self.kept]))


def fit(X: np.ndarray, y: np.ndarray) -> Fit:
    """Fit y in {0, 1} to the columns of X."""
    eta = np.log((y + 0.5) / (1.5 - y))
    mu = _mean(eta)
    deviance = _deviance(y, mu)
    for _ in range(STEPS):
        slope = _slope(eta)
        weight = slope / np.sqrt(mu * (1 - mu))
        kept, triangle, rotated = triangular(X * weight[:, None], weight * (eta + (y - mu) / slope))
        theta = np.zeros(X.shape[1])
        theta[kept] = dtrtrs(triangle, rotated)[0]
        eta = X @ theta
        mu = _mean(eta)
        last, deviance = deviance, _deviance(y, mu)
        if abs(deviance - last) < CHANGE * (abs(deviance) + 0.1):
            break
    return Fit(theta, -deviance / 2, triangle, kept)


def triangular(X: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """With X = QR in columns that do not depend on earlier ones: their positions, R and Q'z."""
    kept, lengths = np.arange(X.shape[1]), np.sqrt(np.square(X).sum(axis=0))
    while True:
        R = np.asarray(np.linalg.qr(np.column_stack([X[:, kept], z]), mode="r"))
        square = min(len(R), len(kept))
        bad = np.flatnonzero(np.abs(np.diag(R)[:square]) < DEPENDENT * lengths[kept[:square]])
        if not len(bad):
            return kept[:square], R[:square, :square], R[:square, -1]
        kept = np.delete(kept, bad[0])


def _mean(eta: np.ndarray) -> np.ndarray:
    odds = np.where(np.abs(eta) > FARTHEST, EPSILON ** -np.sign(eta), np.exp(np.minimum(eta, FARTHEST)))
    return odds / (1 + odds)


def _slope(eta: np.ndarray) -> np.ndarray:
    odds = np.exp(-np.abs(eta))
    return np.where(np.abs(eta) > FARTHEST, EPSILON, odds / (1 + odds) ** 2)


def _deviance(y: np.ndarray, mu: np.ndarray) -> float:
    return float(-2 * np.log(np.where(y == 1, mu, 1 - mu)).sum())
