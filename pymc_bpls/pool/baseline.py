"""The posterior without the terms of unlabeled rows that every posterior of a model has, and what these terms bring to it.

Rows of the pool have such terms in observed variables that labels do not reach, as features whose parameters the label's
probability shares, or a factor behind features and labels. With t_u the terms of row u, they bring −E ∇² Σ_u t_u, the mean
being over the posterior that has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import jax
import numpy as np

from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.engine.engine import Engine
from pymc_bpls.engine.modes.mode import Mode
from pymc_bpls.errors import ModeError
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.model.observed_rows import row_terms, without_rows
from pymc_bpls.model.problem import Problem
from pymc_bpls.montecarlo.nuts import LEAST_ESS
from pymc_bpls.montecarlo.pareto import GOOD_K
from pymc_bpls.montecarlo.psis import mixture_draws
from pymc_bpls.scoring.fitted import ModelFit

_DRAWS = 4000  # by which a variance is known to 2%, and nats to .01


@dataclass(frozen=True)
class Baseline:
    """`without`, the Gaussian without these terms, has covariance LL'; `alone` is the information that those of each variable
    bring, L'(−E ∇² Σ_u t_u)L (q, q).
    """

    without: Gaussian
    alone: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def gained(self) -> np.ndarray:
        """By all of them."""
        return sum(self.alone.values(), np.zeros_like(self.without.covariance))


def find_baseline(problem: Problem, fit: ModelFit, draws: np.ndarray) -> Baseline:
    """By a fit without the candidates' terms, and their curvature at `draws` (S, q) of the posterior that has them.

    Without a mode there, what these terms tell is infinite or not known: then the baseline has them.
    """
    posterior = Gaussian.at_mode(fit.mode).in_theta
    names, candidates = problem.pool_terms.observed, problem.table.candidates
    if not names:
        return Baseline(posterior)
    engine = replace(fit.engine, density=without_rows(problem, fit.engine.density, names, candidates))
    try:
        first = _moments(engine, problem.labeled, engine.fit(problem.labeled, fit.mode.theta))
    except ModeError:
        return Baseline(posterior)
    return Baseline(first, {name: _brought(problem, name, draws, first.factor) for name in names})


def _moments(engine: Engine, labeled: Labeled, mode: Mode) -> Gaussian:
    """Mean and covariance by importance sampling around the mode, or Laplace's where weights are not to be trusted."""
    laplace = Gaussian.at_mode(mode)
    draws, _ = mixture_draws(engine, labeled, 1, [laplace], _DRAWS, np.random.default_rng(0))
    if draws.pareto_k is None or draws.pareto_k > GOOD_K or draws.ess < LEAST_ESS:
        return laplace.in_theta
    return Gaussian(*draws.moments())


def _brought(problem: Problem, name: str, draws: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """The mean curvature of one variable's terms, which is none where it is negative."""
    terms = row_terms(problem, [name], problem.table.candidates)
    curvature = jax.hessian(lambda theta: -terms(theta).sum())
    mean = np.asarray(jax.jit(lambda thetas: jax.lax.map(curvature, thetas).mean(axis=0))(draws))
    values, vectors = np.linalg.eigh(factor.T @ mean @ factor)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


def first_order(problem: Problem, baseline: Baseline, draws: np.ndarray, root: np.ndarray) -> np.ndarray:
    """E[s_u'P s_u] of each candidate (m,), with s_u = L'∇t_u, t_u its terms and P = `root` `root`'."""
    rows = problem.table.candidates
    if not baseline.alone:
        return np.zeros(len(rows))
    slopes, factor = jax.jacfwd(row_terms(problem, list(baseline.alone), rows)), baseline.without.factor @ root

    def at(theta: jax.Array) -> jax.Array:
        return ((slopes(theta) @ factor) ** 2).sum(axis=1)

    return np.asarray(jax.jit(lambda thetas: jax.lax.map(at, thetas).mean(axis=0))(draws))
