"""The posterior with the labels of a pool integrated out, and three ways to it: Laplace's method, VI, NUTS.

    p(θ | D, pool) ∝ π(θ) exp(ℓ_D(θ) + λ Σ_u g_u(θ)),      g_u(θ) = log Σ_y exp ℓ_u(y; θ),

with λ = 1; a smaller λ hedges against a wrong p(x | y) [1]_. It often has several modes (`modes`); Laplace's method and VI take
the one with the largest mass. Few rows leave a shape that is far from a Gaussian's: both say where to draw, and weights
make these draws of the density itself (importance sampling).

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
from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.engine.engine import Engine
from pymc_bpls.engine.modes.mode import Mode
from pymc_bpls.engine.rows.marginal_rows import Marginal
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.model.problem import Problem
from pymc_bpls.montecarlo.bridge import LogRatio, Proposal
from pymc_bpls.montecarlo.nuts import LEAST_ESS, sample
from pymc_bpls.montecarlo.other_modes import Search, find_modes, missed_modes
from pymc_bpls.montecarlo.pareto import GOOD_K
from pymc_bpls.montecarlo.psis import heavier_tails, mixture_draws
from pymc_bpls.montecarlo.weighted import Weighted
from pymc_bpls.pool.modes import search_from
from pymc_bpls.text.progress import stage


@dataclass(frozen=True)
class Posterior:
    """Draws θ (chain, draw, q) and reasons to distrust them; the Gaussian that they are around, or a sampler's statistics.

    Draws around a Gaussian count by weights (`weighted`), and `log_z` is log ∫ π exp(ℓ_D + λ Σ g_u) by them.
    """

    theta: np.ndarray
    reasons: list[str]
    gaussian: Gaussian | None = None
    weighted: Weighted | None = None
    log_z: LogRatio | None = None
    sample_stats: xr.Dataset | None = None

    @property
    def flat(self) -> np.ndarray:
        """θ as (draws, q)."""
        return self.theta.reshape(-1, self.theta.shape[-1])

    @property
    def log_weights(self) -> np.ndarray | None:
        """Of the draws (draws,); None where they count equally."""
        return None if self.weighted is None else self.weighted.log_weights


@dataclass(frozen=True)
class Target:
    """What is to be approximated: the density of an engine, whose pool is integrated out, with D; its modes, best first.

    `wider` is the mode of the fit on D alone, where the pool makes it another density.
    """

    problem: Problem
    engine: Engine
    labeled: Labeled
    search: Search
    wider: tuple[Mode, ...]


def find_target(problem: Problem, engine: Engine, labeled: Labeled, supervised: Mode) -> Target:
    """The density with its modes, the one with the most mass first; without a pool they are those given D, as `exact` looks
    for them.

    Raises
    ------
    ModeError
        No start leads to a mode.
    """
    if engine.pool is None:
        search = find_modes(engine, labeled, 1, supervised, far=True)
        return Target(problem, engine, labeled, search.best_first if search.modes else Search((supervised,), 1, 0), ())
    return Target(problem, engine, labeled, search_from(engine, labeled, supervised), (supervised,))


def by_laplace(target: Target, options: Mapping[str, Any]) -> Posterior:
    """Weighted draws around the mode with the most mass."""
    return _weighted_draws(target, Gaussian.at_mode(target.search.modes[0]).in_theta, options)


def by_vi(target: Target, options: Mapping[str, Any]) -> Posterior:
    """Weighted draws around the variational Gaussian that is found from there."""
    mode = target.search.modes[0]
    with stage("the variational Gaussian"):
        q = vi.fit(target.engine, target.labeled, 1, mode, None).in_theta
    return _weighted_draws(target, q, options)


def by_nuts(target: Target, options: Mapping[str, Any]) -> Posterior:
    """Draws of NUTS by `pm.sample(**options)`, which starts around the user's initial point."""
    assert not isinstance(target.engine.pool, Marginal)
    run = sample(target.problem, target.labeled, 1, pool=target.engine.pool, **options)
    reasons = [*run.reasons, *missed_modes(target.search, run.weighted)]
    return Posterior(run.theta, reasons, sample_stats=run.sample_stats)


FITS: dict[str, Callable[[Target, Mapping[str, Any]], Posterior]] = {"laplace": by_laplace, "vi": by_vi, "nuts": by_nuts}


def _weighted_draws(target: Target, q: Gaussian, options: Mapping[str, Any]) -> Posterior:
    """Fixed draws from t distributions around a Gaussian, every mode, and the wider fit on D, by their weights [1]_.

    References
    ----------
    .. [1] Vehtari, A., Simpson, D., Gelman, A., Yao, Y. and Gabry, J. (2024). Pareto smoothed importance sampling. JMLR
       25(72), 1-58. https://doi.org/10.48550/arXiv.1507.02646
    """
    n, others = options["draws"] * options["chains"], target.search.modes[1:]
    around = [q, *(Gaussian.at_mode(mode) for mode in (*others, *target.wider))]
    with stage(f"{n:,} draws by importance sampling"):
        draws, log_z = mixture_draws(target.engine, target.labeled, 1, around, n, np.random.default_rng(0))
    reasons = [*_doubtful_weights(draws), *heavier_tails(target.engine, target.labeled, 1, Proposal(*draws.moments()))]
    return Posterior(draws.theta[None], [*reasons, *missed_modes(target.search, draws)], q, draws, log_z)


def _doubtful_weights(draws: Weighted) -> list[str]:
    reasons = []
    if draws.pareto_k is not None and draws.pareto_k > GOOD_K:
        reasons.append(f"k-hat of the importance weights is {draws.pareto_k:.2f} (more than {GOOD_K}), where NUTS is needed")
    if draws.ess < LEAST_ESS:
        reasons.append(f"the weighted draws are worth {draws.ess:.0f} (less than {LEAST_ESS:.0f}): take more draws, or NUTS")
    return reasons
