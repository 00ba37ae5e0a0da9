"""Expectation propagation (Minka 2001) for p_k(θ) ∝ π(θ) Π_j p(y_j | f_j)^{k w_j}, with one linear predictor f_j = a_j'θ + b_j

Each likelihood factor, and each non-Gaussian prior of a single coefficient, has a site C exp(ν f − ½ τ f²). At the fixed point
the mean and variance of f under q are those under q with that site replaced by the factor itself (the *tilted* density).
Moments and log Z are taken by the trapezoid rule on ±9 sd of q's marginal, on the log scale. With Ψ(τ, ν) = ν²/2τ − ½ log τ,

    log Z = log ∫ Q(θ) Π exp(ν_j f_j − ½ τ_j f_j²) dθ + Σ_j [log Ẑ_j − Ψ(marginal_j) + Ψ(cavity_j)].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.linalg

from pymc_bpls.errors import ApproximationError
from pymc_bpls.gaussian import Gaussian, Sites
from pymc_bpls.laplace import Mode
from pymc_bpls.refit import Engine
from pymc_bpls.rows import Labeled
from pymc_bpls.separable import SeparablePrior
from pymc_bpls.structured import Block, Structured

_HALF_WIDTH = 9.0
# nodes are at most this far apart in f, and at least so many; at least so many where a prior may have a kink
_APART, _FEWEST, _AT_KINKS = 1.0, 41, 641
_TOLERANCE = 1e-8
_WORSE = 2.0
_REMEMBERED = 6
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

    model: Structured
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
        log_lik = block.weights[rows] * self.model.log_lik_of_rows(eta, block.codes[rows], inputs)
        return np.concatenate([log_lik, self.prior.along(f[split:], single)]) if len(single) else log_lik

    def first_sites(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """τ and ν (J,) of Laplace's kind at θ, and of the width of each single coefficient's prior."""
        block = self._block
        f = block.matrix[:, 0, :] @ theta
        at = self.model.derivatives_of_rows((f[:, None] + block.offset), block.codes, block.inputs)
        tau = np.maximum(-block.weights * at.bends[:, 0, 0], 0.0)
        nu = tau * f + block.weights * at.slopes[:, 0]
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
    mixing, last, damping = Mixing(np.sqrt(state[2].variance)), np.inf, 1.0
    for steps in range(1, _MOST_STEPS + 1):
        mean, covariance, marginals = state
        cavity = _cavity(marginals, tau, nu)
        tilted = _tilted(factors, cavity, marginals)
        miss = max(
            np.abs((tilted.mean - marginals.mean) / np.sqrt(marginals.variance)).max(),
            np.abs(tilted.variance / marginals.variance - 1).max(),
        )
        if miss <= _TOLERANCE:
            log_z = _log_z(factors, state, tau, nu, tilted)
            return Gaussian(mean, covariance, log_z, steps, Sites(labeled, tau, nu))
        if miss > _WORSE * last:
            mixing, damping = Mixing(np.sqrt(marginals.variance)), max(0.5 * damping, _LEAST_DAMPING)
        last = miss
        new_tau = 1 / tilted.variance - cavity.tau
        new_nu = tilted.mean / tilted.variance - cavity.nu
        usable = np.isfinite(new_tau) & np.isfinite(new_nu)
        new = mixing((tau, nu), (np.where(usable, new_tau, tau), np.where(usable, new_nu, nu)))
        tau, nu, state = _step(factors, (tau, nu), new, damping)
    blame = np.argsort(-np.abs(tilted.variance / marginals.variance - 1))[:3]
    raise ApproximationError(
        f"Expectation propagation did not converge for {_names(factors, blame, engine)}. "
        'Use approximation="vi" or "laplace", or a prior with lighter tails.'
    )


_NO_START = (
    "Expectation propagation has no proper Gaussian to start from: priors and labeled rows leave some parameters free. "
    "Give every parameter a proper prior."
)


def _factors(engine: Engine, labeled: Labeled, k: int) -> Factors:
    model = engine.by_predictors
    if model is None or model.predictors.size != 1:
        raise ApproximationError(
            'approximation="ep" needs rows that depend on the parameters through one linear predictor, and these do not. '
            'Use approximation="vi".'
        )
    prior = engine.separable_prior
    if prior is None:
        raise ApproximationError(
            'approximation="ep" needs Gaussian priors, or independent ones of single coefficients, and these depend on each '
            'other. Use approximation="vi".'
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


class Mixing:
    """Anderson's acceleration of a fixed-point iteration of (τ, ν): the combination of recent steps that misses least."""

    def __init__(self, sd: np.ndarray) -> None:
        self.scale = np.concatenate([sd**2, sd])
        self.points: list[np.ndarray] = []
        self.misses: list[np.ndarray] = []

    def __call__(self, now: Sequence[np.ndarray], new: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Where to go, from where the iteration is and where it would go by itself."""
        point, ahead = np.concatenate(now) * self.scale, np.concatenate(new) * self.scale
        self.points, self.misses = [*self.points, point][-_REMEMBERED:], [*self.misses, ahead - point][-_REMEMBERED:]
        if len(self.points) > 1:
            steps, changes = np.diff(self.points, axis=0).T, np.diff(self.misses, axis=0).T
            shares = np.linalg.lstsq(changes, self.misses[-1], rcond=1e-10)[0]
            ahead = ahead - (steps + changes) @ shares
        tau, nu = np.split(ahead / self.scale, 2)
        return tau, nu


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
    return mean, covariance, Marginals(A @ mean, ((A @ covariance) * A).sum(axis=1))


class Cavity(NamedTuple):
    """Natural parameters (J,) of each factor's f under q without its site."""

    tau: np.ndarray
    nu: np.ndarray


def _cavity(marginals: Marginals, tau: np.ndarray, nu: np.ndarray) -> Cavity:
    return Cavity(1 / marginals.variance - tau, marginals.mean / marginals.variance - nu)


def _tilted(factors: Factors, cavity: Cavity, marginals: Marginals) -> Tilted:
    sd = np.sqrt(marginals.variance)
    nodes = np.maximum(np.ceil(2 * _HALF_WIDTH * sd / _APART), _FEWEST).astype(int)
    nodes[len(factors.labeled) :] = _AT_KINKS
    first = np.concatenate([[0], np.cumsum(nodes)[:-1]])
    owner, spacing = np.repeat(np.arange(len(sd)), nodes), 2 * _HALF_WIDTH / (nodes - 1)
    z = (np.arange(len(owner)) - first[owner]) * spacing[owner] - _HALF_WIDTH
    f = marginals.mean[owner] + sd[owner] * z
    log_p = factors.log_values(f, owner) + (cavity.nu[owner] - 0.5 * cavity.tau[owner] * f) * f
    highest = np.maximum.reduceat(log_p, first)
    p = np.exp(log_p - highest[owner])
    total = np.add.reduceat(p, first)
    shift = np.add.reduceat(p * z, first) / total
    spread = np.add.reduceat(p * z**2, first) / total - shift**2
    return Tilted(highest + np.log(total * spacing * sd), marginals.mean + sd * shift, marginals.variance * spread)


def _step(
    factors: Factors, old: tuple[np.ndarray, np.ndarray], new: tuple[np.ndarray, np.ndarray], damping: float
) -> tuple[np.ndarray, np.ndarray, State]:
    """Sites moved towards the new ones, less where that leaves no Gaussian or no cavity."""
    for halving in range(30):
        share = damping * 0.5**halving
        tau, nu = ((1 - share) * before + share * after for before, after in zip(old, new, strict=True))
        state = _gaussian(factors, tau, nu)
        if state is not None and (1 - tau * state[2].variance > _IMPROPER).all():
            return tau, nu, state
    raise ApproximationError(
        "Expectation propagation has no proper density for some rows without their own labels: priors are too wide. "
        'Give every coefficient a proper prior, or use approximation="laplace".'
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
