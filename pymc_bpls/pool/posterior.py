"""The posterior with the labels of a pool integrated out, and three ways to it: Laplace's method, VI, NUTS.

    p(θ | D, pool) ∝ π(θ) exp(ℓ_D(θ) + λ Σ_u g_u(θ)),      g_u(θ) = log Σ_y exp ℓ_u(y; θ),

with λ = 1; a smaller λ hedges against a wrong p(x | y) [1]_. It often has several modes (`modes`); Laplace's method and VI take
the one with the largest mass.

References
----------
.. [1] Nigam, K., McCallum, A. K., Thrun, S. and Mitchell, T. (2000). Text classification from labeled and unlabeled documents
   using EM. Machine Learning 39, 103-134. https://doi.org/10.1023/A:1007692713085
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from pymc_bpls.approximations import vi
from pymc_bpls.approximations.gaussian import Gaussian
from pymc_bpls.approximations.predictive import antithetic_draws
from pymc_bpls.engine.engine import Engine
from pymc_bpls.engine.modes.mode import Mode
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.model.problem import Problem
from pymc_bpls.montecarlo.nuts import sample
from pymc_bpls.montecarlo.other_modes import Search, missed_modes
from pymc_bpls.montecarlo.pareto import GOOD_K
from pymc_bpls.montecarlo.psis import log_evidence, log_evidence_by_t
from pymc_bpls.montecarlo.weighted import Weighted
from pymc_bpls.pool.modes import search_from
from pymc_bpls.text.numbers import percent
from pymc_bpls.text.progress import stage

_MASS = 0.05


@dataclass(frozen=True)
class Posterior:
    """Draws θ (chain, draw, q) of it; the Gaussian that they are of, or a sampler's statistics; reasons to distrust them.

    `log_z` is log ∫ π exp(ℓ_D + λ Σ g_u) by importance sampling from the Gaussian.
    """

    theta: np.ndarray
    reasons: list[str]
    gaussian: Gaussian | None = None
    log_z: float | None = None
    pareto_k: float | None = None
    sample_stats: xr.Dataset | None = None

    @property
    def flat(self) -> np.ndarray:
        """θ as (draws, q)."""
        return self.theta.reshape(-1, self.theta.shape[-1])


@dataclass(frozen=True)
class Target:
    """What is to be approximated: the density of an engine, whose pool is integrated out, with D; its modes, best first."""

    problem: Problem
    engine: Engine
    labeled: Labeled
    search: Search


def find_target(problem: Problem, engine: Engine, labeled: Labeled, supervised: Mode) -> Target:
    """The density with its modes, the one with the most mass first; without a pool the mode is that of the fit on D.

    Raises
    ------
    ModeError
        No start leads to a mode.
    """
    found = Search((supervised,), 1, 0) if engine.pool is None else search_from(engine, labeled, supervised)
    return Target(problem, engine, labeled, found)


def by_laplace(target: Target, options: Mapping[str, Any]) -> Posterior:
    """Draws of the Gaussian at the mode with the most mass."""
    return _of_gaussian(target, Gaussian.at_mode(target.search.modes[0]).in_theta, "Laplace's method")


def by_vi(target: Target, options: Mapping[str, Any]) -> Posterior:
    """Draws of the variational Gaussian that is found from there."""
    mode = target.search.modes[0]
    with stage("the variational Gaussian"):
        q = vi.fit(target.engine, target.labeled, 1, mode, None).in_theta
    return _of_gaussian(target, q, "VI")


def by_nuts(target: Target, options: Mapping[str, Any]) -> Posterior:
    """Draws of NUTS by `pm.sample(**options)`, which starts around the user's initial point."""
    run = sample(target.problem, target.labeled, 1, pool=target.engine.pool, **options)
    draws = Weighted(run.flat, np.zeros(len(run.flat)), len(run.theta), None)
    return Posterior(run.theta, [*run.reasons, *missed_modes(target.search, draws)], sample_stats=run.sample_stats)


FITS: dict[str, Callable[[Target, Mapping[str, Any]], Posterior]] = {"laplace": by_laplace, "vi": by_vi, "nuts": by_nuts}


def _of_gaussian(target: Target, q: Gaussian, name: str) -> Posterior:
    """Fixed draws of a Gaussian, and how far its shape is from the density's, by k-hat."""
    with stage("k-hat of the Gaussian"):
        log_z, pareto_k = log_evidence(target.engine, target.labeled, q, 1)
        if pareto_k > GOOD_K:  # a density with heavier tails than a Gaussian's may yet be near it
            log_z, pareto_k = log_evidence_by_t(target.engine, target.labeled, q, 1)
    reasons = []
    if pareto_k > GOOD_K:
        reasons.append(f"k-hat of the Gaussian by {name} is {pareto_k:.2f} (more than {GOOD_K}), where NUTS is needed")
    share = float(target.search.mass[0])
    if share < 1 - _MASS:
        found = f"{len(target.search.modes)} modes were found"
        reasons.append(f"{found}, and the one in use holds {percent(share)} of the mass by Laplace's method")
    theta = q.mean + antithetic_draws(len(q.mean)) @ q.factor.T
    return Posterior(theta[None], reasons, q, log_z.value, pareto_k)
