"""Gaussian approximations of p_k(θ) ∝ p(D | θ)^k π(θ): what one of them is, and which can be fitted.

One Gaussian q_2 ≈ p_2 scores every candidate without a refit, since

    log PPP_i = log Z_2 − log Z_1 + log E_{p_2}[p(ŷ_i | x_i, θ)],      log p(D ∪ i) = log Z_1 + log E_{p_1}[p(ŷ_i | x_i, θ)].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import factorial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy.linalg

from pymc_bpls.approximations.gaussians.second_order import kurtosis_of_pairs
from pymc_bpls.approximations.gaussians.untouched import UntouchedPriors
from pymc_bpls.approximations.quadrature.tilted import ORDERS, Marginals, Nodes
from pymc_bpls.compute.threads import side_by_side
from pymc_bpls.engine.modes.mode import Mode
from pymc_bpls.engine.newton.curvature import Matrix
from pymc_bpls.engine.rows.reduced_rows import ReducedRows
from pymc_bpls.errors import ApproximationError

if TYPE_CHECKING:
    from pymc_bpls.engine.engine import Engine
    from pymc_bpls.model.data.table import Labeled

_AT_ONCE = 1024


@dataclass(frozen=True)
class Sites:
    """EP's factors exp(ν f − ½ τ f²) of the predictors of D's rows, in the order of D, and of single coefficients.

    `nodes` are where these factors were evaluated, with their values there; `marginals` of q with these sites are EP's own.
    """

    labeled: Labeled
    tau: np.ndarray
    nu: np.ndarray
    nodes: Nodes | None = None
    marginals: Marginals | None = None

    def begin(self, labeled: Labeled) -> bool:
        """Whether their rows are the first ones of `labeled`."""
        n = len(self.labeled)
        mine, its = self.labeled, (labeled.positions[:n], labeled.codes[:n], labeled.weights[:n])
        return all(map(np.array_equal, (mine.positions, mine.codes, mine.weights), its))

    def of_more_rows(self, now: int) -> tuple[np.ndarray, np.ndarray, Nodes]:
        """τ, ν and nodes for `now` rows, those of the new rows 0 or missing."""
        old = len(self.labeled)
        tau, nu = (np.concatenate([each[:old], np.zeros(now - old), each[old:]]) for each in (self.tau, self.nu))
        nodes = Nodes.none(len(self.tau)) if self.nodes is None else self.nodes
        return tau, nu, nodes.of_more_rows(old, now)


@dataclass(frozen=True)
class Shape:
    """How p_k differs from its Gaussian, after Opper, Paquet and Winther (2013).

    Factor n of p_k depends on a linear function of θ whose direction in units of its sd is `directions[n]` (J, q); the mean
    of the Hermite polynomial He_l of the standardised function under that factor's tilted density is `c[l]` (L, J), l = 3, 4.
    A standardised linear function z that has correlation ρ_n with each of these has, to first order, the density

        φ(z) [1 + Σ_l He_l(z) Σ_n c_ln ρ_n^l / l!].

    To the second order pairs of factors add to l = 4 (`second_order`), where ρ_mn = `roots`_m'`roots`_n; without roots (J, d)
    they add nothing.
    """

    directions: np.ndarray
    c: np.ndarray
    roots: np.ndarray | None = None

    def tilt(self, correlations: np.ndarray) -> np.ndarray:
        """E He_l(z) / l! of each function, for correlations (rows, J): shape (rows, L)."""

        n = len(correlations)
        pieces = (correlations[i : i + _AT_ONCE] for i in range(0, max(n, 1), _AT_ONCE))
        return np.concatenate([*side_by_side(self._tilt, pieces)])

    def _tilt(self, rho: np.ndarray) -> np.ndarray:
        power = rho * rho
        of_pairs = 0.0 if self.roots is None else kurtosis_of_pairs(power * self.c[0], self.roots)
        tilts = np.empty((len(rho), len(ORDERS)))
        for place, order in enumerate(ORDERS):
            power *= rho
            tilts[:, place] = power @ self.c[place] / factorial(order)
        tilts[:, 1] += of_pairs
        return tilts


@dataclass(frozen=True)
class Gaussian:
    """N(mean, covariance) ≈ p_k, of shapes (q,) and (q, q), or (d,) and (d, d) in the coordinates of `rows`.

    `log_z` is EP's log Z_k, or the ELBO, a lower bound of it; NaN where there is none. `steps` were taken to find it; of EP,
    `sites` are where the next fit may start, `shape` corrects averages over it, and `correction` is what pairs
    of factors of different functions add to log Z_k. Coefficients that are `untouched` by D have their priors instead.
    """

    mean: np.ndarray
    covariance: np.ndarray
    log_z: float = np.nan
    steps: int = 0
    sites: Sites | None = None
    shape: Shape | None = None
    rows: ReducedRows | None = None
    correction: float = 0.0
    untouched: UntouchedPriors | None = None

    @classmethod
    def at_mode(cls, mode: Mode) -> Gaussian:
        """Laplace's approximation."""
        factor = (scipy.linalg.cholesky(mode.curvature.matrix, lower=True), True)
        covariance = scipy.linalg.cho_solve(factor, np.eye(len(mode.point)))
        return cls(mode.point, covariance, mode.log_integral, mode.steps, rows=mode.rows)

    @cached_property
    def in_theta(self) -> Gaussian:
        """The same in θ, with a covariance (q, q)."""
        if self.rows is None:
            return self
        space = self.rows.space
        return replace(
            self, mean=space.theta(self.mean[None])[0], covariance=space.covariance(self.covariance), shape=None, rows=None
        )

    def theta_draws(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Draws of θ (*shape, q)."""
        points = self.mean + rng.normal(size=(*shape, len(self.mean))) @ self.factor.T
        if self.untouched is not None:
            coordinates = self.untouched.coordinates
            points[..., coordinates] = self.untouched.quantiles(rng.uniform(size=(*shape, len(coordinates))))
        if self.rows is None:
            return points
        space = self.rows.space
        normal = rng.normal(size=(int(np.prod(shape)), space.basis.shape[1]))
        return space.draws(points.reshape(len(normal), -1), normal).reshape(*shape, -1)

    @cached_property
    def factor(self) -> np.ndarray:
        """Lower Cholesky factor of the covariance.

        Raises
        ------
        ApproximationError
            It has none in double precision.
        """
        try:
            return np.linalg.cholesky(self.covariance)
        except np.linalg.LinAlgError as error:
            raise ApproximationError(
                "The covariance of the Gaussian approximation has no Cholesky factor: parameters differ by too many "
                "orders of magnitude. Rescale the columns of your features."
            ) from error

    def as_mode(self) -> Mode:
        """Its centre, where a log-posterior with a kink has no mode that Newton's method can verify."""
        log_det = -2 * float(np.log(np.diag(self.factor)).sum())
        log_volume = 0.0 if self.rows is None else self.rows.log_volume
        precision = scipy.linalg.cho_solve((self.factor, True), np.eye(len(self.mean)))
        # so that its log integral is log Z
        value = self.log_z - log_volume - 0.5 * len(self.mean) * np.log(2 * np.pi) + 0.5 * log_det
        log_det += 0.0 if self.rows is None else self.rows.log_det_prior
        return Mode(self.mean, value, Matrix(precision), log_det, 0.0, self.steps, self.rows, is_centre=True)


class Fit(Protocol):
    """Fits a Gaussian to p_k, from the mode of p_1 or from an earlier fit on a part of D.

    To rank candidates alone it may be less exact, and `log_z` left out.
    """

    def __call__(
        self, engine: Engine, labeled: Labeled, k: int, mode: Mode | None, start: Any, *, to_rank: bool = False
    ) -> Any: ...


def trapezoid(nodes: int, half_width: float) -> tuple[np.ndarray, float]:
    """Equally spaced nodes on ±half_width and their spacing.

    For an integrand that is analytic in a strip of half-width a and vanishes at the ends, the error is exp(−2π a / spacing).
    """
    z = np.linspace(-half_width, half_width, nodes)
    return z, float(z[1] - z[0])
