"""The posterior without the terms of unlabeled rows that every posterior of a model has, and what each of these terms brought.

Rows of the pool have such terms in observed variables that labels do not reach, as features whose parameters the label's
probability shares, or a factor behind features and labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import jax
import numpy as np
import scipy.linalg

from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.errors import ModeError
from pymc_bpls.model.observed_rows import row_terms, without_rows
from pymc_bpls.model.problem import Problem
from pymc_bpls.scoring.fitted import ModelFit


@dataclass(frozen=True)
class Baseline:
    """`without`, the Gaussian without these terms, has covariance LL'.

    `gained` (q, q) is L'(Σ⁻¹ − Σ_D⁻¹)L of all terms together, and `alone` that of each variable by itself.
    """

    without: Gaussian
    gained: np.ndarray
    alone: Mapping[str, np.ndarray] = field(default_factory=dict)


def find_baseline(problem: Problem, fit: ModelFit) -> Baseline:
    """By a fit without the candidates' terms, and one with those of each variable where there are several.

    Without a mode there, what these terms tell is infinite or not known: then there is none of them in the baseline.
    """
    posterior = Gaussian.at_mode(fit.mode).in_theta
    names, none = problem.pool_terms.observed, np.zeros_like(posterior.covariance)
    if not names:
        return Baseline(posterior, none)

    def without(dropped: Sequence[str]) -> Gaussian:
        density = without_rows(problem, fit.engine.density, dropped, problem.table.candidates)
        mode = replace(fit.engine, density=density).fit(problem.labeled, fit.mode.theta)
        return Gaussian.at_mode(mode).in_theta

    try:
        first = without(names)
        alone = {name: posterior if len(names) == 1 else without([other for other in names if other != name]) for name in names}
    except ModeError:
        return Baseline(posterior, none)
    return Baseline(first, _gained(first, posterior), {name: _gained(first, with_it) for name, with_it in alone.items()})


def _gained(before: Gaussian, after: Gaussian) -> np.ndarray:
    """L'Σ⁻¹L − I, with L of the covariance before and Σ the one after."""
    scaled = scipy.linalg.solve_triangular(after.factor, before.factor, lower=True)
    return scaled.T @ scaled - np.eye(len(scaled))


def first_order(problem: Problem, baseline: Baseline, draws: np.ndarray, root: np.ndarray) -> np.ndarray:
    """E[s_u'P s_u] of each candidate (m,), with s_u = L'∇t_u, t_u its terms and P = `root` `root`'."""
    rows = problem.table.candidates
    if not baseline.alone:
        return np.zeros(len(rows))
    slopes, factor = jax.jacfwd(row_terms(problem, list(baseline.alone), rows)), baseline.without.factor @ root

    def at(theta: jax.Array) -> jax.Array:
        return ((slopes(theta) @ factor) ** 2).sum(axis=1)

    return np.asarray(jax.jit(lambda thetas: jax.lax.map(at, thetas).mean(axis=0))(draws))
