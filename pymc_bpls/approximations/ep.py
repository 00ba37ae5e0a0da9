"""Expectation propagation (Minka 2001) for p_k(θ) ∝ π(θ) Π_j p(y_j | f_j)^{k w_j}, with one linear predictor f_j = a_j'θ + b_j

Each likelihood factor, and each non-Gaussian prior of a single coefficient, has a site C exp(ν f − ½ τ f²). At the fixed point
the mean and variance of f under q are those under q with that site replaced by the factor itself (the *tilted* density).
Moments and log Z are taken by the trapezoid rule on ±9 sd of q's marginal, on the log scale. With Ψ(τ, ν) = ν²/2τ − ½ log τ,

    log Z = log ∫ Q(θ) Π exp(ν_j f_j − ½ τ_j f_j²) dθ + Σ_j [log Ẑ_j − Ψ(marginal_j) + Ψ(cavity_j)] + correction.

The correction is the leading one of Opper, Paquet and Winther (2013): with ρ_ij the correlation of f_i and f_j under q and
c_lj the tilted mean of the Hermite polynomial He_l of the standardised f_j, Σ_{i<j} Σ_{l≥3} c_li c_lj ρ_ij^l / l!.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.polynomial.hermite_e import hermeval

from pymc_bpls.approximations.anderson import Mixing
from pymc_bpls.approximations.gaussian import ORDERS, Gaussian, Shape, Sites
from pymc_bpls.engine.affine_rows import AffineRows, Block
from pymc_bpls.engine.engine import Engine
from pymc_bpls.engine.mode import Mode
from pymc_bpls.engine.separable_priors import SeparablePrior
from pymc_bpls.errors import ApproximationError
from pymc_bpls.model.table import Labeled

_HALF_WIDTH = 9.0
# nodes are this far apart in f, at least and at most so many; always so many where a prior may have a kink
_APART, _FEWEST, _MOST, _AT_KINKS = 1.0, 41, 4001, 641
_TOLERANCE = 1e-7
_WORSE = 2.0
_DRIFT = 0.1
_PAIRED_AT_ONCE = 512
_NO_SPREAD = 1e-200  # of a row of zeros, whose factor is constant
_MOST_STEPS = 400
_LEAST_DAMPING = 0.02
_IMPROPER = 1e-9


class Marginals(NamedTuple):
    """Mean and variance (J,) of each site's f."""

    mean: np.ndarray
    variance: np.ndarray


class Tilted(NamedTuple):
    """log Ẑ, mean and variance (J,) of each tilted density."""

    log_z: np.ndarray
    mean: np.ndarray
    variance: np.ndarray


@dataclass(frozen=True)
class Factors:
    """The non-Gaussian factors of p_k: rows of D with one linear predictor, then single coefficients, and the Gaussian rest."""

    model: AffineRows
    prior: SeparablePrior
    labeled: Labeled
    k: int

    @cached_property
    def directions(self) -> np.ndarray:
        """a_j of every factor (J, q)."""
        rows = self._block.matrix[:, 0, :]
        return np.vstack([rows, np.eye(rows.shape[1])[self.prior.coordinates]])

    @cached_property
    def _block(self) -> Block:
        return self.model.labeled_block(self.labeled, self.k)

    def log_values(self, f: np.ndarray, owner: np.ndarray) -> np.ndarray:
        """Logs of the factors `owner` (G,), in ascending order, at values f (G,) of their a_j'θ: shape (G,)."""
        block = self._block
        split = np.searchsorted(owner, len(block.codes))
        rows, single = owner[:split], owner[split:] - len(block.codes)
        eta = f[:split, None] + block.offset[rows]
        inputs = tuple(values[rows] for values in block.inputs)
        log_lik = block.weights[rows] * self.model.log_lik_at(eta, block.codes[rows], inputs)
        return np.concatenate([log_lik, self.prior.along(f[split:], single)]) if len(single) else log_lik

    def first_sites(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """τ and ν (J,) of Laplace's kind at θ, and of the width of each single coefficient's prior."""
        block = self._block
        f = block.matrix[:, 0, :] @ theta
        at = self.model.derivatives_at((f[:, None] + block.offset), block.codes, block.inputs)
        tau = np.maximum(-block.weights * at.hessian[:, 0, 0], 0.0)
        nu = tau * f + block.weights * at.gradient[:, 0]
        widths = self.prior.scales() if self.prior.coordinates.size else np.empty(0)
        centre = self.prior.quadratic.start[self.prior.coordinates]
        return np.append(tau, 1 / widths**2), np.append(nu, centre / widths**2)


def fit(engine: Engine, labeled: Labeled, k: int, mode: Mode | None, start: Gaussian | None) -> Gaussian:
    """EP's Gaussian for p_k.

    Raises
    ------
    ApproximationError
        Rows have more than one linear predictor, priors of coefficients depend on each other, or EP does not converge.
    """
    factors = _factors(engine, labeled, k)
    tau, nu = _start(factors, mode, start)
    state = _gaussian(factors, tau, nu)
    if state is None:
        raise ApproximationError(_NO_START)
    mixing, last, damping, nodes = Mixing(), np.inf, 1.0, _placed(factors, state[2])
    scale = np.concatenate([state[2].variance, np.sqrt(state[2].variance)])
    for steps in range(1, _MOST_STEPS + 1):
        mean, covariance, marginals = state
        cavity = _cavity(marginals, tau, nu)
        nodes = nodes if nodes.near(marginals) else _placed(factors, marginals)
        grid = _grid(nodes, cavity, marginals)
        tilted = _tilted(grid, marginals)
        miss = max(
            np.abs((tilted.mean - marginals.mean) / np.sqrt(marginals.variance)).max(),
            np.abs(tilted.variance / marginals.variance - 1).max(),
        )
        if miss <= _TOLERANCE:
            shape = _shape(factors, marginals, grid)
            log_z = _log_z(factors, state, tau, nu, tilted) + _correction(shape, covariance)
            return Gaussian(mean, covariance, log_z, steps, Sites(labeled, tau, nu), shape)
        if miss > _WORSE * last:
            mixing, damping = Mixing(), max(0.5 * damping, _LEAST_DAMPING)
        last = miss
        new_tau = 1 / tilted.variance - cavity.tau
        new_nu = tilted.mean / tilted.variance - cavity.nu
        usable = np.isfinite(new_tau) & np.isfinite(new_nu)
        ahead = np.concatenate([np.where(usable, new_tau, tau), np.where(usable, new_nu, nu)])
        new = mixing(np.concatenate([tau, nu]) * scale, ahead * scale) / scale
        tau, nu, state = _step(factors, np.concatenate([tau, nu]), new, damping)
    blame = np.argsort(-np.abs(tilted.variance / marginals.variance - 1))[:3]
    raise ApproximationError(
        f"Expectation propagation did not settle for {_names(factors, blame, engine)}. "
        'Use approximation="vi", or tighter priors with lighter tails.'
    )


_NO_START = (
    "Expectation propagation has no proper Gaussian to start from: priors and labeled rows leave some parameters free. "
    "Give every parameter a proper prior."
)


def _factors(engine: Engine, labeled: Labeled, k: int) -> Factors:
    model = engine.affine_rows
    if model is None or model.map.size != 1:
        raise ApproximationError(
            'approximation="ep" needs rows with one predictor that is linear in the unconstrained parameters, and these have '
            'none (bounded priors, as Uniform and HalfNormal, are transformed). Use approximation="vi".'
        )
    prior = engine.separable_prior
    if prior is None:
        raise ApproximationError(
            'approximation="ep" needs Gaussian priors, or independent ones of single coefficients, and these depend on each '
            'other or are 0 somewhere. Use approximation="vi".'
        )
    return Factors(model, prior, labeled, k)


def _start(factors: Factors, mode: Mode | None, start: Gaussian | None) -> tuple[np.ndarray, np.ndarray]:
    """Sites of an earlier fit whose rows D begins with, none for the rows that are new; else those of Laplace's kind."""
    theta = factors.prior.quadratic.start if mode is None else mode.theta
    tau, nu = factors.first_sites(theta)
    if start is None or start.sites is None:
        return tau, nu
    old, now = start.sites, factors.labeled
    n = len(old.labeled)
    known = n <= len(now) and np.array_equal(old.labeled.positions, now.positions[:n])
    if not (known and np.array_equal(old.labeled.codes, now.codes[:n])):
        return tau, nu
    singles = slice(n, None)
    return (
        np.concatenate([old.tau[:n], tau[n : len(now)], old.tau[singles]]),
        np.concatenate([old.nu[:n], nu[n : len(now)], old.nu[singles]]),
    )


State = tuple[np.ndarray, np.ndarray, Marginals]


def _gaussian(factors: Factors, tau: np.ndarray, nu: np.ndarray) -> State | None:
    """q's mean, covariance and the marginals of every factor, or None where the sites leave no Gaussian."""
    A, prior = factors.directions, factors.prior.quadratic
    precision = prior.precision + (A.T * tau) @ A
    try:
        factor = scipy.linalg.cho_factor(precision, lower=True)
    except np.linalg.LinAlgError:
        return None
    covariance = scipy.linalg.cho_solve(factor, np.eye(len(precision)))
    mean = covariance @ (prior.precision @ prior.start + prior.slope + A.T @ nu)
    return mean, covariance, Marginals(A @ mean, np.maximum(((A @ covariance) * A).sum(axis=1), _NO_SPREAD))


class Cavity(NamedTuple):
    """Natural parameters (J,) of each factor's f under q without its site."""

    tau: np.ndarray
    nu: np.ndarray


def _cavity(marginals: Marginals, tau: np.ndarray, nu: np.ndarray) -> Cavity:
    return Cavity(1 / marginals.variance - tau, marginals.mean / marginals.variance - nu)


@dataclass(frozen=True)
class Nodes:
    """Where every factor is evaluated, below each other: f on ±9 sd of q's marginal at the time, and the factor's logarithm.

    They serve as long as the marginals stay near, so that factors are evaluated a few times in a fit, not in every step.
    """

    at: Marginals
    first: np.ndarray
    owner: np.ndarray
    spacing: np.ndarray
    f: np.ndarray
    log_values: np.ndarray

    def near(self, now: Marginals) -> bool:
        """Whether every mean is within a tenth of a sd, and every sd within 5% of what it was."""
        sd = np.sqrt(self.at.variance)
        moved = np.abs(now.mean - self.at.mean) <= _DRIFT * sd
        return bool((moved & (np.abs(np.sqrt(now.variance) - sd) <= 0.5 * _DRIFT * sd)).all())


def _placed(factors: Factors, marginals: Marginals) -> Nodes:
    sd = np.sqrt(marginals.variance)
    count = np.clip(np.ceil(2 * _HALF_WIDTH * sd / _APART), _FEWEST, _MOST).astype(int)
    count[len(factors.labeled) :] = _AT_KINKS
    first = np.concatenate([[0], np.cumsum(count)[:-1]])
    owner, spacing = np.repeat(np.arange(len(sd)), count), 2 * _HALF_WIDTH / (count - 1)
    z = (np.arange(len(owner)) - first[owner]) * spacing[owner] - _HALF_WIDTH
    f = marginals.mean[owner] + sd[owner] * z
    return Nodes(marginals, first, owner, spacing * sd, f, factors.log_values(f, owner))


@dataclass(frozen=True)
class Grid:
    """Every factor's tilted density at the nodes: z in standard deviations of q's marginal, p over its highest value."""

    nodes: Nodes
    z: np.ndarray
    highest: np.ndarray
    p: np.ndarray

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Σ p · values over each factor's nodes (J,)."""
        return np.add.reduceat(self.p * values, self.nodes.first)


def _grid(nodes: Nodes, cavity: Cavity, marginals: Marginals) -> Grid:
    owner, f = nodes.owner, nodes.f
    z = (f - marginals.mean[owner]) / np.sqrt(marginals.variance)[owner]
    log_p = nodes.log_values + (cavity.nu[owner] - 0.5 * cavity.tau[owner] * f) * f
    highest = np.maximum.reduceat(log_p, nodes.first)
    return Grid(nodes, z, highest, np.exp(log_p - highest[owner]))


def _tilted(grid: Grid, marginals: Marginals) -> Tilted:
    total = grid.sums(np.ones(1))
    shift = grid.sums(grid.z) / total
    spread = grid.sums(grid.z**2) / total - shift**2
    return Tilted(
        grid.highest + np.log(total * grid.nodes.spacing),
        marginals.mean + np.sqrt(marginals.variance) * shift,
        marginals.variance * spread,
    )


def _shape(factors: Factors, marginals: Marginals, grid: Grid) -> Shape:
    """Skewness, kurtosis and so on of the tilted densities."""
    total = grid.sums(np.ones(1))
    c = [grid.sums(hermeval(grid.z, np.eye(order + 1)[order])) / total for order in ORDERS]
    return Shape(factors.directions / np.sqrt(marginals.variance)[:, None], np.array(c))


def _correction(shape: Shape, covariance: np.ndarray) -> float:
    """What the tilted densities' shapes add to log Z, pair by pair of factors."""
    unit, correction = shape.directions, 0.0
    for first in range(0, len(unit), _PAIRED_AT_ONCE):
        some = slice(first, first + _PAIRED_AT_ONCE)
        rho = unit[some] @ covariance @ unit.T
        rho[np.arange(len(rho)), np.arange(first, first + len(rho))] = 0.0
        correction += 0.5 * float((shape.c[:, some].T * shape.tilt(rho)).sum())
    return correction


def _step(factors: Factors, old: np.ndarray, new: np.ndarray, damping: float) -> tuple[np.ndarray, np.ndarray, State]:
    """Sites (τ, ν) moved towards the new ones, less where that leaves no Gaussian or no cavity."""
    for halving in range(30):
        share = damping * 0.5**halving
        tau, nu = np.split((1 - share) * old + share * new, 2)
        state = _gaussian(factors, tau, nu)
        if state is not None and (1 - tau * state[2].variance > _IMPROPER).all():
            return tau, nu, state
    raise ApproximationError(
        "Expectation propagation finds no Gaussian: without one row's label the density of its predictor is improper. "
        "Give every coefficient a proper prior."
    )


def _log_z(factors: Factors, state: State, tau: np.ndarray, nu: np.ndarray, tilted: Tilted) -> float:
    """log Z_k; `tilted.log_z` are of unnormalised cavities exp(ν f − ½ τ f²), so that Ψ(cavity) is in them already."""
    mean, covariance, marginals = state
    prior = factors.prior.quadratic
    log_det = np.linalg.slogdet(covariance)[1]
    precision = prior.precision + (factors.directions.T * tau) @ factors.directions
    whole = 0.5 * mean @ precision @ mean + 0.5 * log_det + 0.5 * len(mean) * np.log(2 * np.pi)
    start = prior.start
    constant = prior.value - prior.slope @ start - 0.5 * start @ prior.precision @ start
    normal = 0.5 * marginals.mean**2 / marginals.variance + 0.5 * np.log(2 * np.pi * marginals.variance)
    return float(constant + whole + (tilted.log_z - normal).sum())


def _names(factors: Factors, which: np.ndarray, engine: Engine) -> str:
    n, labels = len(factors.labeled), engine.density.parameters.labels
    return ", ".join(
        f"row {factors.labeled.positions[j]}" if j < n else f'"{labels[factors.prior.coordinates[j - n]]}"' for j in which
    )
