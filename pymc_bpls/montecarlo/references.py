"""References: draws of p_k(θ) ∝ p(D | θ)^k π(θ) with the logarithm of a constant, and reasons to distrust them.

NUTS (`"nuts"`), importance sampling with Pareto-smoothed weights (`"psis"`), whose k-hat says whether they may be trusted, or
the one where the other may not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import xarray as xr

from pymc_bpls.approximations.by_name import APPROXIMATIONS
from pymc_bpls.approximations.gaussian import Gaussian
from pymc_bpls.arguments import check
from pymc_bpls.engine.engine import Engine
from pymc_bpls.engine.mode import Mode
from pymc_bpls.errors import ApproximationError, BPLSError, CriterionError, ModeError
from pymc_bpls.model.problem import Problem
from pymc_bpls.model.table import Labeled
from pymc_bpls.montecarlo.averages import Weighted
from pymc_bpls.montecarlo.bridge import LogRatio, Proposal, bridge
from pymc_bpls.montecarlo.nuts import LEAST_ESS, named_draws, sample
from pymc_bpls.montecarlo.other_modes import unvisited_modes
from pymc_bpls.montecarlo.psis import GOOD_K, importance_draws, log_densities
from pymc_bpls.text.progress import stage

_FEWEST_DRAWS = 50
#: What draws of p_k say that they are of, by k.
_DRAWN_FROM = {
    1: {"likelihood_power": 1, "density": "p(D | θ) π(θ), the posterior given D"},
    2: {
        "likelihood_power": 2,
        "density": "p(D | θ)² π(θ), in which D counts twice: narrower than the posterior, which sample() draws from",
    },
}


@dataclass(frozen=True)
class Reference:
    """Draws of p_k as weighted draws, with the run's groups, and reasons to distrust it.

    `normaliser` is log Z_2 − log Z_1 for k = 2 and log Z_1 for k = 1, or None; `source` says in words where the draws are from,
    `proposal` what importance sampling drew from.
    """

    draws: Weighted
    normaliser: LogRatio | None
    groups: dict[str, xr.Dataset]
    reasons: list[str]
    source: str
    proposal: str | None = None


class Method(Protocol):
    """Makes draws of p_k for D, by the engine that serves D."""

    def __call__(self, problem: Problem, engine: Engine, labeled: Labeled, k: int) -> Reference: ...


@dataclass(frozen=True)
class Nuts:
    """NUTS by `pm.sample(**options)`."""

    absolute: bool
    seeds: tuple[int, int, int]
    options: dict[str, Any]

    def __call__(self, problem: Problem, engine: Engine, labeled: Labeled, k: int) -> Reference:
        run = sample(problem, labeled, k, random_seed=self.seeds[0], **self.options)
        reasons, normaliser = list(run.reasons), None
        if self.absolute and k == 2:
            ordinary = sample(problem, labeled, 1, random_seed=self.seeds[1], **self.options)
            reasons += [f"for log Z_1, {reason}" for reason in ordinary.reasons]
            normaliser = _log_ratio(engine, labeled, ordinary.theta, run.theta)
        elif self.absolute:
            normaliser = _log_evidence(engine, labeled, run.theta, np.random.default_rng(self.seeds[2]))
        draws = Weighted(run.flat, np.zeros(len(run.flat)), len(run.theta), None)
        reasons += unvisited_modes(engine, labeled, k, draws)
        posterior = named_draws(problem.density.parameters, run.theta).assign_attrs(_DRAWN_FROM[k])
        groups = {"/posterior": posterior, "/sample_stats": run.sample_stats}
        return Reference(draws, normaliser, groups, reasons, f"{len(draws.theta)} draws of NUTS")


@dataclass(frozen=True)
class Psis:
    """Importance sampling with `n` draws from t distributions around Gaussian approximations of p_k."""

    absolute: bool
    n: int
    seed: int

    def __call__(self, problem: Problem, engine: Engine, labeled: Labeled, k: int) -> Reference:
        with stage(f"{self.n:,} draws by importance sampling"):
            return self._sampled(problem, engine, labeled, k)

    def _sampled(self, problem: Problem, engine: Engine, labeled: Labeled, k: int) -> Reference:
        rng = np.random.default_rng(self.seed)
        draws, log_z, proposal = importance_draws(engine, labeled, k, proposals(engine, labeled, k), self.n, rng)
        reasons = _bad_k(draws.pareto_k) + _few_draws(self.n)
        normaliser = None
        if self.absolute and k == 2:
            ordinary, log_z1, _ = importance_draws(engine, labeled, 1, proposals(engine, labeled, 1), self.n, rng)
            reasons += [f"for log Z_1, {reason}" for reason in _bad_k(ordinary.pareto_k)]
            normaliser = LogRatio(log_z.value - log_z1.value, float(np.hypot(log_z.error, log_z1.error)))
        elif self.absolute:
            normaliser = log_z
        reasons += unvisited_modes(engine, labeled, k, draws)
        return Reference(draws, normaliser, {}, reasons, f"{self.n} draws by importance sampling", proposal)


@dataclass(frozen=True)
class PsisElseNuts:
    """Importance sampling, and NUTS where there is a reason to distrust it."""

    psis: Psis
    nuts: Nuts

    def __call__(self, problem: Problem, engine: Engine, labeled: Labeled, k: int) -> Reference:
        try:
            reference = self.psis(problem, engine, labeled, k)
        except ApproximationError:
            return self.nuts(problem, engine, labeled, k)
        return self.nuts(problem, engine, labeled, k) if reference.reasons else reference


def proposals(engine: Engine, labeled: Labeled, k: int) -> Iterator[tuple[str, Gaussian]]:
    """Gaussian approximations of p_k that the model has, the most trustworthy first."""
    refused: list[BPLSError] = []
    mode: Mode | None = None
    try:
        mode = engine.fit(labeled)
    except ModeError as error:
        refused.append(error)
    yielded = 0
    for name, approximation in APPROXIMATIONS.items():
        try:
            q = approximation.fit(engine, labeled, k, mode, None)
        except ApproximationError as error:
            refused.append(error)
        else:
            yielded += 1
            yield name, q
    if mode is not None:
        yield "laplace", Gaussian.at_mode(mode if k == 1 else engine.fit(labeled, mode.theta, k=k))
    elif not yielded:
        raise refused[0]


def _bad_k(pareto_k: float | None) -> list[str]:
    if pareto_k is None or pareto_k <= GOOD_K:
        return []
    return [f"k-hat of the importance weights is {pareto_k:.3f} (more than {GOOD_K}), where NUTS is needed"]


def _few_draws(n: int) -> list[str]:
    return [f"there are {n} draws only, too few for k-hat to mean much"] if n < LEAST_ESS else []


def _log_ratio(engine: Engine, labeled: Labeled, first: np.ndarray, second: np.ndarray) -> LogRatio:
    """log Z_2 − log Z_1 from draws (chain, draw, q) of p_1 and p_2: their density ratio is p(D | θ)."""

    def ratios(theta: np.ndarray) -> np.ndarray:
        return engine.log_lik_labeled(labeled, theta.reshape(-1, theta.shape[-1])).reshape(theta.shape[:2])

    return bridge(ratios(first), ratios(second))


def _log_evidence(engine: Engine, labeled: Labeled, draws: np.ndarray, rng: np.random.Generator) -> LogRatio:
    """log Z_1 from draws (chain, draw, q) of p_1: half of them fit a t proposal, the other half bridge to it."""
    half = draws.shape[1] // 2
    q = draws.shape[-1]
    proposal = Proposal.fitted(draws[:, :half].reshape(-1, q))
    rest = draws[:, half:]
    proposed = proposal.draws(rest.shape[:2], rng)
    at = [
        log_densities(engine, labeled, theta.reshape(-1, q), 1).reshape(theta.shape[:2]) - proposal.log_density(theta)
        for theta in (proposed, rest)
    ]
    return bridge(*at)


def find_method(
    method: str = "nuts",
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    nuts_sampler: str | None = None,
    absolute: bool = True,
    rng: np.random.Generator | None = None,
    **sample_kwargs: Any,
) -> Method:
    """A method by its name, with its options; seeds are drawn from `rng`."""
    check(draws=draws, tune=tune, chains=chains)
    if draws * chains < _FEWEST_DRAWS:
        raise CriterionError(
            f"draws={draws} in chains={chains} is too few to say anything about errors. "
            f"Take {_FEWEST_DRAWS} draws or more in all."
        )
    seeds = tuple(int(seed) for seed in np.random.default_rng(rng).integers(2**31, size=3))
    options = {"draws": draws, "tune": tune, "chains": chains, **sample_kwargs}
    if nuts_sampler is not None:
        options["nuts_sampler"] = nuts_sampler
    nuts, psis = Nuts(absolute, (seeds[0], seeds[1], seeds[2]), options), Psis(absolute, chains * draws, seeds[0])
    methods: dict[str, Method] = {"nuts": nuts, "psis": psis, "psis, else nuts": PsisElseNuts(psis, nuts)}
    if method not in methods:
        raise CriterionError(f'method="{method}" is unknown. Use "nuts" or "psis".')
    return methods[method]
