"""Proposals for importance sampling of many parameters, of which rows touch few, without a matrix over them.

Around Laplace's Gaussian: the t distribution with its mode and the sparse factor of its curvature. Around EP's mixture of a
hierarchy θ = (ψ, x), with ψ few and x many, whose parts N(m_g, S_g) are those of x at ψ_g,

    ψ ~ t(m, V),      x | ψ ~ Σ_g ω_g(ψ) t(m_g, S_g),      ω_g(ψ) ∝ exp(−½ |ψ − ψ_g|² / h²),

where m and V are the mixture's mean and covariance of ψ, distances are in units of V, and h is half of that between neighbours.
ψ, which has the long tails of log scales, has a t of its own: that of thousands of parameters is all but normal.

Errors of such a Gaussian in each of many groups multiply. They are for what has no conditional densities of single effects
(`montecarlo.collapsed`): several effects a group that depend on each other, or priors that are not normal.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import gammaln, log_softmax, logsumexp

from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.approximations.gaussians.mixture import Mixture
from pymc_bpls.approximations.gaussians.sparse_part import SparsePart
from pymc_bpls.engine.modes.mode import Mode
from pymc_bpls.engine.newton.curvature import LocalGaussian
from pymc_bpls.engine.rows.hierarchy import Hierarchy
from pymc_bpls.engine.sparse.curvature import SparseCurvature
from pymc_bpls.montecarlo.bridge import Proposal, degrees_of_freedom

_AT_ONCE = 256
_NEGLIGIBLE = -40.0

#: A Gaussian approximation of p_k.
Approximation = Gaussian | Mixture | LocalGaussian


@dataclass(frozen=True)
class SparseProposal:
    """A multivariate t distribution whose scale is the covariance of a Gaussian with a sparse precision."""

    gaussian: LocalGaussian

    @property
    def mean(self) -> np.ndarray:
        """Its centre (q,)."""
        return self.gaussian.point

    @property
    def sd(self) -> np.ndarray:
        """Square roots of the diagonal of the scale (q,)."""
        return self.gaussian.sd

    def draws(self, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
        """Independent draws, shape (*shape, q)."""
        count, q = int(np.prod(shape)), len(self.mean)
        degrees = degrees_of_freedom(q)
        theta = np.empty((count, q))
        for first in range(0, count, _AT_ONCE):
            some = theta[first : first + _AT_ONCE]
            radius = np.sqrt(degrees / rng.chisquare(degrees, size=(len(some), 1)))
            some[:] = self.mean + radius * (self.gaussian.draws(len(some), rng) - self.mean)
        return theta.reshape(*shape, q)

    def log_density(self, draws: np.ndarray) -> np.ndarray:
        """Normalised log density at draws (..., q)."""
        q = len(self.mean)
        degrees, theta = degrees_of_freedom(q), draws.reshape(-1, q)
        pieces = (theta[first : first + _AT_ONCE] for first in range(0, len(theta), _AT_ONCE))
        distances = np.concatenate([self.gaussian.distances(piece) for piece in pieces])
        constant = gammaln(0.5 * (degrees + q)) - gammaln(0.5 * degrees) - 0.5 * q * np.log(degrees * np.pi)
        level = constant + 0.5 * self.gaussian.curvature.log_det
        return np.asarray(level - 0.5 * (degrees + q) * np.log1p(distances / degrees)).reshape(draws.shape[:-1])


@dataclass(frozen=True)
class HierarchyProposal:
    """That of a hierarchy's `psi`, and those of x at some `points` (G, m) of ψ with their `shares` (G,)."""

    hierarchy: Hierarchy
    psi: Proposal
    points: np.ndarray
    shares: np.ndarray
    of_x: tuple[SparseProposal, ...]

    @classmethod
    def of(cls, mixture: Mixture) -> HierarchyProposal:
        """Around a mixture of sparse parts."""
        shares = np.exp(mixture.log_shares)
        centre = shares @ mixture.psi
        covariance = ((mixture.psi - centre).T * shares) @ (mixture.psi - centre)
        gaussians = (LocalGaussian(part.mean, part.precision) for part in mixture.parts if isinstance(part, SparsePart))
        parts = tuple(SparseProposal(gaussian) for gaussian in gaussians)
        return cls(mixture.hierarchy, Proposal(centre, covariance), mixture.psi, shares, parts)

    @cached_property
    def mean(self) -> np.ndarray:
        """Its centre (q,)."""
        return self._together(self.psi.mean, self.shares @ np.stack([part.mean for part in self.of_x]))

    @cached_property
    def sd(self) -> np.ndarray:
        """Standard deviations of the Gaussians' mixture (q,)."""
        centre = self.mean[self.hierarchy.inner]
        squares = (share * (part.sd**2 + (part.mean - centre) ** 2) for share, part in zip(self.shares, self.of_x, strict=True))
        return self._together(self.psi.sd, np.sqrt(np.sum(list(squares), axis=0)))

    @cached_property
    def _whiten(self) -> np.ndarray:
        """(m, m), which gives distances the units of V, over h."""
        root = np.linalg.inv(np.linalg.cholesky(self.psi.scale)).T
        apart = np.square((self.points[:, None] - self.points) @ root).sum(axis=2)
        np.fill_diagonal(apart, np.inf)
        return root / (0.5 * np.sqrt(np.median(apart.min(axis=1)))) if len(self.points) > 1 else root

    def log_weights(self, psi: np.ndarray) -> np.ndarray:
        """log ω_g at ψ (n, m): shape (n, G)."""
        squares = np.square((psi[:, None] - self.points) @ self._whiten).sum(axis=2)
        return np.asarray(log_softmax(-0.5 * squares, axis=1))

    def draws(self, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
        """Independent draws, shape (*shape, q)."""
        count = int(np.prod(shape))
        psi, x = self.psi.draws((1, count), rng)[0], np.empty((count, len(self.hierarchy.inner)))
        cumulated = np.cumsum(np.exp(self.log_weights(psi)), axis=1)
        chosen = np.minimum((rng.uniform(size=(count, 1)) > cumulated).sum(axis=1), len(self.points) - 1)
        for number in np.unique(chosen):
            own = np.flatnonzero(chosen == number)
            x[own] = self.of_x[number].draws((1, len(own)), rng)[0]
        return self._together(psi, x).reshape(*shape, -1)

    def log_density(self, draws: np.ndarray) -> np.ndarray:
        """Normalised log density at draws (..., q)."""
        theta = draws.reshape(-1, draws.shape[-1])
        psi, x = theta[:, self.hierarchy.outer], theta[:, self.hierarchy.inner]
        terms = self.log_weights(psi)
        for number, part in enumerate(self.of_x):
            near = np.flatnonzero(terms[:, number] > _NEGLIGIBLE)
            terms[near, number] += part.log_density(x[near]) if len(near) else 0.0
            terms[np.setdiff1d(np.arange(len(theta)), near), number] = -np.inf
        return np.asarray(self.psi.log_density(psi) + logsumexp(terms, axis=1)).reshape(draws.shape[:-1])

    def _together(self, psi: np.ndarray, x: np.ndarray) -> np.ndarray:
        """θ (..., q) of ψ (..., m) and x (..., d)."""
        theta = np.empty((*psi.shape[:-1], psi.shape[-1] + x.shape[-1]))
        theta[..., self.hierarchy.outer], theta[..., self.hierarchy.inner] = psi, x
        return theta


def local_gaussian(mode: Mode) -> Gaussian | LocalGaussian:
    """Laplace's approximation at a mode, by its sparse curvature where that is how it is known."""
    if isinstance(mode.curvature, SparseCurvature):
        return LocalGaussian(mode.point, mode.curvature)
    return Gaussian.at_mode(mode)


def is_sparse(q: Approximation) -> bool:
    """Whether it is known by a sparse factor."""
    return isinstance(q, LocalGaussian) or (isinstance(q, Mixture) and isinstance(q.parts[0], SparsePart))


def proposal_around(q: Approximation) -> Proposal | SparseProposal | HierarchyProposal:
    """The t distribution around an approximation."""
    if isinstance(q, LocalGaussian):
        return SparseProposal(q)
    if isinstance(q, Mixture) and is_sparse(q):
        return HierarchyProposal.of(q)
    return Proposal(q.in_theta.mean, q.in_theta.covariance)
