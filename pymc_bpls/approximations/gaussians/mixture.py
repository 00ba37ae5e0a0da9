"""A mixture of Gaussians that approximates a hierarchy's p_k(ψ, x): one of x at each of some ψ, with their shares."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.approximations.gaussians.sparse_part import SparsePart
from pymc_bpls.engine.modes.mode import Mode
from pymc_bpls.engine.rows.hierarchy import Hierarchy

#: The Gaussian of x at one ψ.
Part = Gaussian | SparsePart


@dataclass(frozen=True)
class Mixture:
    """Σ_g w_g N(x; m_g, S_g) at ψ = ψ_g; `log_shares` (G,) are log w_g, and `log_z` is log Z_k.

    Each of the `parts` is in the coordinates of D's rows given ψ_g.
    """

    hierarchy: Hierarchy
    psi: np.ndarray
    log_shares: np.ndarray
    parts: tuple[Part, ...]
    log_z: float

    @property
    def steps(self) -> int:
        """Of all parts together."""
        return sum(part.steps for part in self.parts)

    @property
    def correction(self) -> float:
        """Of log Z_k, by the parts."""
        return float(np.exp(self.log_shares) @ [part.correction for part in self.parts])

    def nearest(self, psi: np.ndarray) -> Part:
        """The part whose ψ_g is the nearest."""
        return self.parts[int(np.argmin(((self.psi - psi) ** 2).sum(axis=1)))]

    def average(self, log_means: list[np.ndarray]) -> np.ndarray:
        """log of the mean over the parts of what has the logarithms `log_means` in each."""
        values = np.stack(log_means)
        with np.errstate(invalid="ignore"):
            return np.asarray(logsumexp(values, b=np.exp(self.log_shares).reshape(-1, *(1,) * (values.ndim - 1)), axis=0))

    def _of_x(self, part: Part) -> Gaussian:
        """A part in x (d,)."""
        if isinstance(part, SparsePart):
            return part.in_x()
        assert part.rows is not None
        space = part.rows.space
        return replace(part, mean=space.theta(part.mean[None])[0], covariance=space.covariance(part.covariance))

    @cached_property
    def in_theta(self) -> Gaussian:
        """The Gaussian of θ with its mean and covariance."""
        shares, q = np.exp(self.log_shares), self.hierarchy.density.dimension
        means, within = np.empty((len(shares), q)), np.zeros((q, q))
        inner = self.hierarchy.inner
        means[:, self.hierarchy.outer] = self.psi
        for place, (share, part) in enumerate(zip(shares, self.parts, strict=True)):
            of_x = self._of_x(part)
            means[place, inner] = of_x.mean
            within[np.ix_(inner, inner)] += share * of_x.covariance
        mean = shares @ means
        return Gaussian(mean, within + ((means - mean).T * shares) @ (means - mean), self.log_z, self.steps)

    def theta_draws(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Draws of θ (*shape, q)."""
        count = int(np.prod(shape))
        theta = np.empty((count, self.hierarchy.density.dimension))
        of = rng.choice(len(self.parts), size=count, p=np.exp(self.log_shares))
        for number in np.unique(of):
            own, part = np.flatnonzero(of == number), self.parts[number]
            theta[np.ix_(own, self.hierarchy.inner)] = part.theta_draws((len(own),), rng)
            theta[np.ix_(own, self.hierarchy.outer)] = self.psi[number]
        return theta.reshape(*shape, -1)

    def as_mode(self) -> Mode:
        """The centre of `in_theta`."""
        return self.in_theta.as_mode()
