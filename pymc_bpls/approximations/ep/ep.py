"""Expectation propagation (Minka 2001) for p_k(θ) ∝ π(θ) Π_j p(y_j | f_j)^{k w_j}, with one linear predictor f_j = a_j'θ + b_j

Each likelihood factor, and each non-Gaussian prior of a single coefficient, has a site C exp(ν f − ½ τ f²). At the fixed point
the mean and variance of f under q are those under q with that site replaced by the factor itself (the *tilted* density,
`tilted`). With Q the Gaussian rest of p_k and N_j the marginal of f_j under q,

    log Z = log ∫ Q(θ) Π exp(ν_j f_j − ½ τ_j f_j²) dθ + Σ_j log ∫ N_j(f) factor_j(f) / exp(ν_j f − ½ τ_j f²) df + correction.

The correction is the leading one of Opper, Paquet and Winther (2013): with ρ_ij the correlation of f_i and f_j under q and
c_lj the tilted mean of the Hermite polynomial He_l of the standardised f_j, Σ_{i<j} Σ_{l≥3} c_li c_lj ρ_ij^l / l!. Where ρ
is ±1, as within a cell, it is an integral to all orders (`parallel`). The mean and the covariance of a fit are corrected
to the second order (`second_order`); its sites are EP's own.

θ may be replaced by the coordinates of D's rows, in which nothing grows with the number of parameters (`engine.row_space`).

A fit of more rows starts from the sites of the fit before, and a new row's site from its own moments. Moments agree to 1e-7,
or where candidates are only ranked, as in a run, to `TO_RANK`; scores are then off by a tenth to a quarter of that, and
candidates that differ by less than it are scored again. All is a loop of NumPy and LAPACK calls: at 100 rows and 60 parameters
a step takes a tenth of a millisecond, a sixteenth of what one compiled loop of JAX takes, whose exponentials are slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from scipy.linalg import lapack

from pymc_bpls.approximations.anderson import Mixing
from pymc_bpls.approximations.ep.factors import Factors
from pymc_bpls.approximations.ep.parallel import add_parallel
from pymc_bpls.approximations.gaussians.gaussian import Gaussian, Shape, Sites
from pymc_bpls.approximations.gaussians.second_order import MOST_FACTORS, second_order
from pymc_bpls.approximations.quadrature.tilted import LogFactors, Marginals, Nodes, TiltedDensities
from pymc_bpls.engine.engine import Engine
from pymc_bpls.engine.modes.mode import Mode
from pymc_bpls.engine.rows.reduced_rows import ReducedRows
from pymc_bpls.errors import ApproximationError
from pymc_bpls.model.data.table import Labeled

TOLERANCE, TO_RANK = 1e-7, 2e-6
_WORSE = 2.0
_PAIRED_AT_ONCE = 512
_NO_SPREAD = 1e-200  # of a row of zeros, whose factor is constant
_MOST_STEPS = 400
_LEAST_DAMPING = 0.02
_IMPROPER = 1e-9

_NO_START = (
    "Expectation propagation has no Gaussian to start from: where it starts, priors and labeled rows leave a parameter free. "
    "Give every parameter a proper prior that has one mode, and an initial value near it."
)


class Linear(NamedTuple):
    """The factors' linear functions f_j = a_j'θ + b_j, θ or other coordinates: directions (J, d) and offsets (J,)."""

    directions: np.ndarray
    offset: np.ndarray


class Rest(NamedTuple):
    """The Gaussian rest of p_k, exp(constant + pull'θ − ½ θ'precision θ), in the coordinates (d,) that are worked in."""

    precision: np.ndarray
    pull: np.ndarray
    constant: float

    @classmethod
    def of(cls, factors: Factors) -> Rest:
        """Its constant has what integrals over θ have beyond those over the coordinates."""
        prior = factors.prior
        precision, start = prior.precision, prior.start
        constant = prior.value - prior.slope @ start - 0.5 * start @ precision @ start
        return cls(precision, precision @ start + prior.slope, float(constant) + factors.rows.log_volume)


class State(NamedTuple):
    """q for some sites: the Cholesky factor of its precision (lower), its mean (d,) and the marginals of every f."""

    lower: np.ndarray
    mean: np.ndarray
    marginals: Marginals


class HasMarginals(Protocol):
    """q for some sites."""

    @property
    def marginals(self) -> Marginals:
        """Of every f."""
        ...


S = TypeVar("S", bound=HasMarginals)
S_co = TypeVar("S_co", bound=HasMarginals, covariant=True)


class Field(Protocol[S_co]):
    """The Gaussian rest of p_k with the factors' linear functions."""

    def gaussian(self, tau: np.ndarray, nu: np.ndarray) -> S_co | None:
        """q with these sites (J,), or None where they leave no Gaussian."""
        ...


class SiteFactors(LogFactors, Protocol):
    """Factors with what a fit starts from, and their names."""

    @property
    def labeled(self) -> Labeled:
        """D, whose rows come first."""
        ...

    def laplace_sites(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """τ and ν (J,) of Laplace's kind at a point."""
        ...

    def names(self, which: np.ndarray, labels: Sequence[str]) -> str:
        """Some of them, in words."""
        ...


class DenseField(NamedTuple):
    """With one matrix over all coordinates."""

    prior: Rest
    linear: Linear

    def gaussian(self, tau: np.ndarray, nu: np.ndarray) -> State | None:
        """q with these sites (J,), or None where they leave no Gaussian."""
        A, offset = self.linear
        lower, wrong = lapack.dpotrf(self.prior.precision + (A.T * tau) @ A, lower=1)
        if wrong:
            return None
        spread = lapack.dtrtrs(lower, A.T, lower=1)[0]
        white = lapack.dtrtrs(lower, self.prior.pull + A.T @ (nu - tau * offset), lower=1)[0]
        variance = np.maximum(np.einsum("ij,ij->j", spread, spread), _NO_SPREAD)
        mean = lapack.dtrtrs(lower, white, lower=1, trans=1)[0]
        return State(lower, mean, Marginals(white @ spread + offset, variance))


def fit(
    engine: Engine, labeled: Labeled, k: int, mode: Mode | None, start: Gaussian | None, *, to_rank: bool = False
) -> Gaussian:
    """EP's Gaussian for p_k; `to_rank` candidates, as exactly as that needs and without log Z.

    Raises
    ------
    ApproximationError
        Rows have more than one linear predictor, priors of coefficients depend on each other, or EP does not converge.
    """
    factors = Factors.of(engine, labeled, k)
    point = factors.prior.start if mode is None else factors.point(mode.theta)
    sites, names = None if start is None else start.sites, engine.density.parameters.labels
    how: dict[str, Any] = {"tolerance": TO_RANK if to_rank else TOLERANCE, "log_z": not to_rank}
    try:
        return settle(factors, point, sites, names, **how)
    except ApproximationError:
        if mode is None:
            raise
        return settle(factors, factors.prior.start, None, names, **how)


def settle(
    factors: Factors,
    point: np.ndarray,
    start: Sites | None,
    names: Sequence[str],
    *,
    tolerance: float,
    log_z: bool,
    corrected: bool = True,
) -> Gaussian:
    """EP's Gaussian for some factors, from the sites of an earlier fit or those of Laplace's kind at a `point` (d,).

    Moments agree to `tolerance`; `names` are those of the coordinates. log Z is `corrected` or not.

    Raises
    ------
    ApproximationError
        There is no Gaussian to start from, or EP does not converge.
    """
    field = DenseField(Rest.of(factors), Linear(factors.directions, factors.offset))
    found = fixed_point(factors, field, point, start, names, tolerance)
    return _fitted(factors, field, found, log_z=log_z, corrected=corrected)


class FixedPoint(NamedTuple, Generic[S]):
    """Sites with q and the tilted densities, whose moments agree after so many steps."""

    sites: Sites
    state: S
    tilted: TiltedDensities
    steps: int


def fixed_point(
    factors: SiteFactors, field: Field[S], point: np.ndarray, start: Sites | None, names: Sequence[str], tolerance: float
) -> FixedPoint[S]:
    """Where moments agree to the tolerance."""
    tau, nu, nodes, state = _first(factors, field, point, start)
    tau, nu, state = _with_own_moments(factors, field, tau, nu, state)
    mixing, last, damping = Mixing(), np.inf, 1.0
    scale = np.concatenate([state.marginals.variance, np.sqrt(state.marginals.variance)])
    for steps in range(1, _MOST_STEPS + 1):
        mean, variance = state.marginals
        nodes = nodes.at(state.marginals, factors)
        tilted = nodes.tilted(state.marginals, tau, nu)
        matched_mean, matched_variance = tilted.moments()
        off = np.abs(matched_variance / variance - 1)
        miss = max((np.abs(matched_mean - mean) / np.sqrt(variance)).max(), off.max())
        if miss <= tolerance:
            return FixedPoint(Sites(factors.labeled, tau, nu, nodes, state.marginals), state, tilted, steps)
        if miss > _WORSE * last:
            mixing, damping = Mixing(), max(0.5 * damping, _LEAST_DAMPING)
        last = miss
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            new_tau = tau + 1 / matched_variance - 1 / variance
            new_nu = nu + matched_mean / matched_variance - mean / variance
        usable = np.isfinite(new_tau) & np.isfinite(new_nu) & (variance > _NO_SPREAD)
        now = np.concatenate([tau, nu])
        ahead = np.concatenate([np.where(usable, new_tau, tau), np.where(usable, new_nu, nu)])
        if not np.isfinite(ahead * scale).all():
            break  # variances have left double precision
        new = mixing(now * scale, ahead * scale) / scale
        tau, nu, state = _step(field, now, new, damping)
    blame = factors.names(np.argsort(-off)[:3], names)
    raise ApproximationError(
        f'Expectation propagation did not settle for {blame}. Use approximation="vi", or tighter priors with lighter tails.'
    )


def _first(
    factors: SiteFactors, field: Field[S], point: np.ndarray, start: Sites | None
) -> tuple[np.ndarray, np.ndarray, Nodes, S]:
    """Where a fit starts: q that is a Gaussian, and so are its cavities.

    With the sites of an earlier fit whose rows D begins with, none for the rows that are new; else with those of Laplace's
    kind at a point; else, for a prior so wide that these leave nothing of it, from the prior.
    """
    starts: list[tuple[np.ndarray, np.ndarray, Nodes]] = []
    tau, nu = factors.laplace_sites(point)
    singles = len(tau) - factors.n  # the more rows, the more coefficients they touch
    if start is not None and start.begin(factors.labeled) and len(start.tau) - len(start.labeled) == singles:
        starts.append(start.of_more_rows(len(factors.labeled)))
    starts.append((tau, nu, Nodes.none(len(tau))))
    rows = np.arange(len(tau)) < factors.n
    starts.append((np.where(rows, 0.0, tau), np.where(rows, 0.0, nu), Nodes.none(len(tau))))
    for tau, nu, nodes in starts:
        state = field.gaussian(tau, nu)
        if state is not None and _has_cavities(tau, state):
            return tau, nu, nodes, state
    raise ApproximationError(_NO_START)


def _has_cavities(tau: np.ndarray, state: HasMarginals) -> bool:
    """Whether q without any one site is a Gaussian."""
    return bool((1 - tau * state.marginals.variance > _IMPROPER).all())


def _with_own_moments(
    factors: SiteFactors, field: Field[S], tau: np.ndarray, nu: np.ndarray, state: S
) -> tuple[np.ndarray, np.ndarray, S]:
    """Sites (τ, ν) in which empty ones are set by their own moments, and q with them."""
    mean, variance = state.marginals
    empty = (tau == 0) & (nu == 0) & (variance > _NO_SPREAD)
    if not empty.any():
        return tau, nu, state
    nodes = Nodes(np.where(empty, 0.0, mean), np.where(empty, 0.0, np.sqrt(variance))).at(state.marginals, factors)
    matched_mean, matched_variance = nodes.tilted(state.marginals, tau, nu).moments()
    own = np.where(empty, 1 / matched_variance - 1 / variance, tau)
    pull = np.where(empty, matched_mean / matched_variance - mean / variance, nu)
    ahead = field.gaussian(own, pull) if np.isfinite(own).all() and np.isfinite(pull).all() else None
    return (tau, nu, state) if ahead is None else (own, pull, ahead)


def _step(field: Field[S], old: np.ndarray, new: np.ndarray, damping: float) -> tuple[np.ndarray, np.ndarray, S]:
    """Sites (τ, ν) moved towards the new ones, less where that leaves no Gaussian or no cavity."""
    for halving in range(30):
        share = damping * 0.5**halving
        tau, nu = np.split((1 - share) * old + share * new, 2)
        state = field.gaussian(tau, nu)
        if state is not None and _has_cavities(tau, state):
            return tau, nu, state
    raise ApproximationError(
        "Expectation propagation finds no Gaussian: without one of its factors no variance is left, as under flat priors or "
        'spikes with heavy tails. Use approximation="vi", or proper priors with lighter tails.'
    )


def _fitted(factors: Factors, field: DenseField, found: FixedPoint[State], *, log_z: bool, corrected: bool) -> Gaussian:
    """What is kept of a fit."""
    (prior, linear), (sites, state, tilted, steps) = field, found
    covariance = _inverse(state.lower)
    directions = linear.directions / np.sqrt(state.marginals.variance)[:, None]
    shape = Shape(directions, tilted.hermite_means(state.marginals))
    mean, moved, roots = _to_second_order(shape, state.mean, covariance)
    value, exactly, correction = np.nan, 0.0, 0.0
    if log_z:
        if corrected:
            parallel = add_parallel(factors, linear.directions, found, shape.c)
            correction = _correction(shape, covariance) - parallel.pairs
            exactly = parallel.whole
        value = _log_z(prior, linear, sites, state, tilted.log_z()) + exactly + correction
    rows = factors.rows if isinstance(factors.rows, ReducedRows) else None
    return Gaussian(mean, moved, value, steps, sites, replace(shape, roots=roots), rows, correction, factors.untouched)


def _to_second_order(
    shape: Shape, mean: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Mean and covariance that pairs and triples of factors change, and the roots of the factors' correlations; None as is."""
    if len(shape.directions) > MOST_FACTORS:
        return mean, covariance, None
    lower, wrong = lapack.dpotrf(covariance, lower=1, clean=1)
    if wrong:
        return mean, covariance, None
    roots = shape.directions @ lower
    change = second_order(shape.c, roots)
    if change is None:
        return mean, covariance, None
    return mean + lower @ change.shift, covariance + lower @ change.spread @ lower.T, roots


def _inverse(lower: np.ndarray) -> np.ndarray:
    """(L L')⁻¹."""
    inverse = lapack.dtrtri(lower, lower=1)[0]
    return inverse.T @ inverse


def _correction(shape: Shape, covariance: np.ndarray) -> float:
    """What the tilted densities' shapes add to log Z, pair by pair of factors."""
    unit, correction = shape.directions, 0.0
    for first in range(0, len(unit), _PAIRED_AT_ONCE):
        some = slice(first, first + _PAIRED_AT_ONCE)
        rho = unit[some] @ covariance @ unit.T
        rho[np.arange(len(rho)), np.arange(first, first + len(rho))] = 0.0
        correction += 0.5 * float((shape.c[:, some].T * shape.tilt(rho)).sum())
    return correction


def _log_z(prior: Rest, linear: Linear, sites: Sites, state: State, log_tilted: np.ndarray) -> float:
    """log Z_k; `log_tilted` is log ∫ N(f) factor / site df of every factor, N its marginal."""
    b, tau, nu = linear.offset, sites.tau, sites.nu
    white, log_det = state.lower.T @ state.mean, -2 * np.log(np.diag(state.lower)).sum()
    whole = 0.5 * white @ white + 0.5 * log_det + 0.5 * len(white) * np.log(2 * np.pi) + (b * (nu - 0.5 * tau * b)).sum()
    return float(prior.constant + whole + log_tilted.sum())
