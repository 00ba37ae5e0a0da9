"""Importance sampling from a Gaussian approximation of p_k(θ) ∝ p(D | θ)^k π(θ), with Pareto-smoothed weights."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from arviz_stats.base import array_stats
from scipy.special import logsumexp

from pymc_bpls.averages import Weighted
from pymc_bpls.bridge import LogRatio, Proposal
from pymc_bpls.laplace import Mode
from pymc_bpls.refit import Engine
from pymc_bpls.rows import Labeled

_FAR_BELOW = 700.0


def importance_draws(
    engine: Engine, labeled: Labeled, mode: Mode, k: int, n: int, rng: np.random.Generator
) -> tuple[Weighted, LogRatio]:
    """Draws of a t distribution at the mode of p_k with Pareto-smoothed weights, and log Z_k with its error."""
    proposal = Proposal(mode.theta, np.linalg.inv(mode.hessian))
    theta = proposal.draws((1, n), rng)[0]
    log_ratio = log_densities(engine, labeled, theta, k) - proposal.log_density(theta)
    log_ratio = np.where(np.isfinite(log_ratio), log_ratio, -np.inf)
    log_ratio = np.maximum(log_ratio, log_ratio.max() - _FAR_BELOW)
    smoothed, pareto_k = array_stats.psislw(-log_ratio)
    shares = np.exp(smoothed - logsumexp(smoothed))
    error = float(np.sqrt(max(np.square(shares).sum() - 1 / n, 0.0)))
    return Weighted(theta, np.asarray(smoothed), 1, float(pareto_k)), LogRatio(float(logsumexp(log_ratio) - np.log(n)), error)


def log_densities(engine: Engine, labeled: Labeled, theta: np.ndarray, k: int) -> np.ndarray:
    """k ℓ_D + log π at θ (S, q)."""
    return k * log_liks(engine, labeled, theta) + log_priors(engine, theta)


def log_liks(engine: Engine, labeled: Labeled, theta: np.ndarray) -> np.ndarray:
    """ℓ_D at θ (S, q)."""
    density, rows = engine.density, engine.labeled_rows(labeled)

    def at(theta: jax.Array, rows: Any) -> jax.Array:
        return jax.lax.map(lambda one: rows.weights @ density.log_lik(one, rows.codes, rows.inputs), theta, batch_size=256)

    return engine.compiler("log-likelihood of D over draws", at, theta, rows)


def log_priors(engine: Engine, theta: np.ndarray) -> np.ndarray:
    """log π at θ (S, q)."""
    return engine.compiler("log prior over draws", jax.vmap(engine.density.prior), theta)
