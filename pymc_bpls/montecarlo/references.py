"""References: draws of p_k(θ) ∝ p(D | θ)^k π(θ) with the logarithm of a constant, and reasons to distrust them.

NUTS (`"nuts"`), importance sampling with Pareto-smoothed weights (`"psis"`), whose k-hat says whether they may be trusted, or
the one where the other may not. Draws whose weights may have no variance are moved, and their constants bridged; not where
effects of many groups are drawn from their own conditional densities, and all that is weighted is a few other parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Protocol

import numpy as np
import xarray as xr

from pymc_bpls.approximations.by_name import APPROXIMATIONS
from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.arguments import check
from pymc_bpls.engine.engine import Engine
from pymc_bpls.engine.modes.mode import Mode
from pymc_bpls.engine.sparse.curvature import SparseCurvature
from pymc_bpls.errors import ApproximationError, BPLSError, CriterionError, ModeError
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.model.problem import Problem
from pymc_bpls.montecarlo.bridge import LogRatio, Proposal
from pymc_bpls.montecarlo.collapsed import PROBED, Collapsed
from pymc_bpls.montecarlo.constants import log_normaliser, log_ratio
from pymc_bpls.montecarlo.moves import moved, moved_by
from pymc_bpls.montecarlo.nuts import LEAST_ESS, Draws, check_options, named_draws, sample_without_divergences
from pymc_bpls.montecarlo.other_modes import Search, find_modes, missed_modes
from pymc_bpls.montecarlo.pareto import GOOD_K, has_variance
from pymc_bpls.montecarlo.psis import AnyProposal, heavier_tails, importance_draws
from pymc_bpls.montecarlo.row_draws import RowTarget
from pymc_bpls.montecarlo.sparse_proposals import Approximation, local_gaussian
from pymc_bpls.montecarlo.weighted import Weighted
from pymc_bpls.text.progress import stage

_FEWEST_DRAWS = 50
#: What `proposal` says of effects that are drawn from their exact conditionals.
_CONDITIONALS = "effects of groups from their conditional densities"
#: Nats, and standard errors, by which a constant may differ from itself found another way.
_APART, _ERRORS_APART = 0.2, 5.0
#: What draws of p_k say that they are of, by k.
_DRAWN_FROM = {
    1: {"likelihood_power": 1, "density": "p(D | θ) π(θ), the posterior given D"},
    2: {
        "likelihood_power": 2,
        "density": "p(D | θ)² π(θ), in which D counts twice: narrower than the posterior, which sample() draws from",
    },
}
#: Makes Gaussian approximations of p_k for D, by name.
Around = Callable[[Engine, Labeled, int], Iterable[tuple[str, Approximation]]]


@dataclass(frozen=True)
class Reference:
    """Draws of p_k as weighted draws, with the run's groups, and reasons to distrust it.

    `normaliser` is log Z_2 − log Z_1 for k = 2 and log Z_1 for k = 1, or None; `log_z` makes log Z_k itself, `rng` what is
    random after the draws; `source` says in words where the draws are from, `proposal` what importance sampling drew from;
    `search` has the modes of p_k that are known.
    """

    draws: Weighted
    normaliser: LogRatio | None
    groups: dict[str, xr.Dataset]
    reasons: list[str]
    source: str
    log_z: Callable[[], LogRatio]
    rng: np.random.Generator
    search: Search
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
        run = sample_without_divergences(problem, labeled, k, random_seed=self.seeds[0], **self.options)
        ordinary = None
        if self.absolute and k == 2:
            ordinary = sample_without_divergences(problem, labeled, 1, random_seed=self.seeds[1], **self.options)
        rng = np.random.default_rng(self.seeds[2])
        return reference_by(run, ordinary, problem, engine, labeled, k, rng, absolute=self.absolute)


def reference_by(
    run: Draws,
    ordinary: Draws | None,
    problem: Problem,
    engine: Engine,
    labeled: Labeled,
    k: int,
    rng: np.random.Generator,
    *,
    absolute: bool,
) -> Reference:
    """From draws of p_k, and for k = 2 of p_1, where values are to be absolute."""
    log_z = cache(lambda: log_normaliser(engine, labeled, k, run.theta, rng))
    reasons, normaliser = list(run.reasons), None
    if ordinary is not None:
        missed = missed_modes(find_modes(engine, labeled, 1, far=True), ordinary.weighted)
        reasons += [f"for log Z_1, {reason}" for reason in (*ordinary.reasons, *missed)]
        normaliser = log_ratio(engine, labeled, ordinary.theta, run.theta)
    elif absolute and k == 1:
        normaliser = log_z()
    draws = run.weighted
    search = find_modes(engine, labeled, k, far=True)
    reasons += missed_modes(search, draws)
    posterior = named_draws(problem.density.parameters, run.theta).assign_attrs(_DRAWN_FROM[k])
    groups = {"/posterior": posterior, "/sample_stats": run.sample_stats}
    return Reference(draws, normaliser, groups, reasons, f"{len(draws.theta)} draws of NUTS", log_z, rng, search)


@dataclass(frozen=True)
class Psis:
    """Importance sampling with `n` draws from t distributions around Gaussian approximations of p_k."""

    absolute: bool
    n: int
    seed: int
    around: Around = field(default_factory=lambda: proposals)

    def __call__(self, problem: Problem, engine: Engine, labeled: Labeled, k: int) -> Reference:
        with stage(f"{self.n:,} draws by importance sampling"):
            return self._sampled(problem, engine, labeled, k)

    def _sampled(self, problem: Problem, engine: Engine, labeled: Labeled, k: int) -> Reference:
        rng = np.random.default_rng(self.seed)
        ks = [k, 1] if self.absolute and k == 2 else [k]
        [sampled, *ordinary] = importance_samples(engine, labeled, ks, self.n, rng, self.around)
        reasons, normaliser = [*sampled.reasons, *_few_draws(self.n)], None
        if ordinary:
            missed = missed_modes(find_modes(engine, labeled, 1, far=True), ordinary[0].draws)
            reasons += [f"for log Z_1, {reason}" for reason in (*ordinary[0].reasons, *missed)]
            normaliser = sampled.over(ordinary[0], engine, labeled)
            reasons += _disagreement(normaliser, sampled.log_z, ordinary[0].log_z)
        elif self.absolute:
            normaliser = sampled.log_z
        draws = sampled.draws
        if sampled.around is not None:
            reasons += heavier_tails(engine, labeled, k, sampled.around)
        search = find_modes(engine, labeled, k, far=True)
        reasons += missed_modes(search, draws)
        source = f"{self.n} draws by importance sampling"
        return Reference(draws, normaliser, {}, reasons, source, lambda: sampled.log_z, rng, search, sampled.proposal)


@dataclass(frozen=True)
class Sample:
    """Draws of p_k by importance sampling, which were `moved` or not, log Z_k, and reasons to distrust them.

    `around` is a t distribution about where they are, None where tails are known: under a Gaussian prior, where no likelihood
    grows beyond bounds.
    """

    draws: Weighted
    log_z: LogRatio
    proposal: str
    moved: bool
    reasons: list[str]
    around: AnyProposal | None = None

    def over(self, ordinary: Sample, engine: Engine, labeled: Labeled) -> LogRatio:
        """log Z_2 − log Z_1: bridged where draws were moved."""
        if self.moved:
            return log_ratio(engine, labeled, ordinary.draws.theta[None], self.draws.theta[None])
        second, first = self.log_z, ordinary.log_z
        error = float(np.hypot(second.error, first.error))
        return LogRatio(second.value - first.value, error, second.influence, float(np.hypot(second.rest, first.error)))


def importance_samples(
    engine: Engine, labeled: Labeled, ks: Sequence[int], n: int, rng: np.random.Generator, around: Around
) -> list[Sample]:
    """Draws of p_k for each k, moved where the weights of one of them may have no variance.

    Where effects of many groups can be drawn from their own conditional densities, and integrals over these are exact at the
    draws, the others alone are weighted, none moved.
    """
    target = RowTarget.of(engine, labeled)
    if target is not None:
        return _samples_in_rows(target, engine, labeled, ks, n, rng, around)
    collapsed = [Collapsed.of(engine, labeled, k) for k in ks]
    of_core = _samples_of_cores(collapsed, labeled, ks, n, rng, partial(around, engine, labeled))
    if of_core is not None:
        return of_core
    drawn = [importance_draws(engine, labeled, k, around(engine, labeled, k), n, rng) for k in ks]
    move = any(each.draws.pareto_k is None or not has_variance(each.draws.pareto_k, n) for each in drawn)
    samples = []
    for k, (draws, log_z, name, parts) in zip(ks, drawn, strict=True):
        reasons, sparse = _bad_k(draws.pareto_k), not isinstance(parts[0], Proposal)
        if move:
            theta, unsettled = moved(engine, labeled, k, draws, rng, apart=sparse)
            draws, reasons = Weighted(theta, np.zeros(n), 1, draws.pareto_k), reasons + unsettled
            try:
                log_z = log_normaliser(engine, labeled, k, theta[None], rng, parts[0] if sparse else None)
            except ApproximationError as error:
                reasons = [*reasons, str(error).split(". ")[0]]
        samples.append(Sample(draws, log_z, name, move, reasons, parts[0] if sparse else Proposal(*draws.moments())))
    return samples


def _samples_of_cores(
    targets: Sequence[Collapsed | None],
    labeled: Labeled,
    ks: Sequence[int],
    n: int,
    rng: np.random.Generator,
    around: Callable[[int], Iterable[tuple[str, Approximation]]],
) -> list[Sample] | None:
    """Those of every k; None where effects cannot be integrated out of one of them."""
    samples = []
    for target, k in zip(targets, ks, strict=True):
        sample = None if target is None else _sample_of_core(target, labeled, k, around(k), n, rng)
        if sample is None:
            return None
        samples.append(sample)
    return samples


def _sample_of_core(
    target: Collapsed, labeled: Labeled, k: int, around: Iterable[tuple[str, Approximation]], n: int, rng: np.random.Generator
) -> Sample | None:
    """Weighted draws of the core of parameters, with draws of the others from their own conditional densities; None where the
    integrals over these are not exact at the draws.
    """
    within = ((name, target.within(q)) for name, q in around)
    draws, log_z, name, parts = importance_draws(target, labeled, k, within, n, rng)
    weights = np.exp(draws.log_weights - draws.log_weights.max())
    if not target.resolves(draws.theta[rng.choice(n, size=PROBED, p=weights / weights.sum())]):
        return None
    reasons = [*_bad_k(draws.pareto_k), *heavier_tails(target, labeled, k, parts[0])]
    theta = Weighted(target.theta(draws.theta, draws.batches.shape[1], rng), draws.log_weights, 1, draws.pareto_k)
    return Sample(theta, log_z, f"{name}, {_CONDITIONALS}", False, reasons)


def _samples_in_rows(
    target: RowTarget,
    engine: Engine,
    labeled: Labeled,
    ks: Sequence[int],
    n: int,
    rng: np.random.Generator,
    around: Around,
) -> list[Sample]:
    """The same in the coordinates of D's rows, with the prior's draws beside them."""

    def proposals_within(k: int) -> Iterator[tuple[str, Gaussian]]:
        for name, q in around(engine, labeled, k):
            own = target.within(q) if isinstance(q, Gaussian) else None
            if own is not None:
                yield name, own

    drawn = [importance_draws(target, labeled, k, proposals_within(k), n, rng) for k in ks]
    move = any(each.draws.pareto_k is None or not has_variance(each.draws.pareto_k, n) for each in drawn)
    samples = []
    for k, (draws, log_z, proposal, _) in zip(ks, drawn, strict=True):
        reasons, points, log_weights = _bad_k(draws.pareto_k), draws.theta, draws.log_weights
        if move:
            points, unsettled = moved_by(partial(target.moved, k), draws, rng)
            log_weights, reasons = np.zeros(n), reasons + unsettled
            try:
                log_z = log_normaliser(target, labeled, k, points[None], rng)
            except ApproximationError as error:
                reasons = [*reasons, str(error).split(". ")[0]]
        in_theta = Weighted(target.theta(points, rng), log_weights, 1, draws.pareto_k)
        samples.append(Sample(in_theta, log_z, proposal, move, reasons))
    return samples


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


def proposals(
    engine: Engine, labeled: Labeled, k: int, names: Sequence[str] = tuple(APPROXIMATIONS)
) -> Iterator[tuple[str, Approximation]]:
    """Gaussian approximations of p_k that the model has, the most trustworthy first: those of `names`, then Laplace's.

    VI has a covariance of all parameters: not where rows touch few of many.
    """
    refused: list[BPLSError] = []
    mode: Mode | None = None
    try:
        mode = engine.fit(labeled)
    except ModeError as error:
        refused.append(error)
    yielded, sparse = 0, mode is not None and isinstance(mode.curvature, SparseCurvature)
    for name in (name for name in names if not (sparse and name == "vi")):
        try:
            q = APPROXIMATIONS[name].fit(engine, labeled, k, mode, None)
        except ApproximationError as error:
            refused.append(error)
        else:
            yielded += 1
            yield name, q
    if mode is not None:
        yield "laplace", local_gaussian(mode if k == 1 else engine.fit(labeled, mode.theta, k=k))
    elif not yielded:
        raise refused[0]


def _bad_k(pareto_k: float | None) -> list[str]:
    if pareto_k is None or pareto_k <= GOOD_K:
        return []
    return [f"k-hat of the importance weights is {pareto_k:.3f} (more than {GOOD_K}), where NUTS is needed"]


def _disagreement(ratio: LogRatio, second: LogRatio, first: LogRatio) -> list[str]:
    """A reason where log Z_2/Z_1 from both sets of draws is not log Z_2 − log Z_1, each from its own.

    Draws that miss a mode of p_2 leave its share out of log Z_2, and draws of p_1 that reach it show that.
    """
    apart = abs(second.value - first.value - ratio.value)
    if apart <= max(_APART, _ERRORS_APART * float(np.linalg.norm([ratio.error, second.error, first.error]))):
        return []
    return [f"log Z_2/Z_1 is {apart:.2f} away from log Z_2 - log Z_1, so that draws of one of them miss a mode"]


def _few_draws(n: int) -> list[str]:
    return [f"there are {n} draws only, too few for k-hat to mean much"] if n < LEAST_ESS else []


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
    check(draws=draws, tune=tune, chains=chains, absolute=absolute)
    check_options(sample_kwargs)
    if draws * chains < _FEWEST_DRAWS:
        raise CriterionError(
            f"draws={draws} in chains={chains} is too few to say anything about errors. "
            f"Take {_FEWEST_DRAWS} or more in all; below {LEAST_ESS:.0f} no run is called reliable."
        )
    seeds = tuple(int(seed) for seed in np.random.default_rng(rng).integers(2**31, size=3))
    options = {"draws": draws, "tune": tune, "chains": chains, **sample_kwargs}
    if nuts_sampler is not None:
        options["nuts_sampler"] = nuts_sampler
    nuts, psis = Nuts(absolute, (seeds[0], seeds[1], seeds[2]), options), Psis(absolute, chains * draws, seeds[0])
    methods: dict[str, Method] = {"nuts": nuts, "psis": psis, "psis, else nuts": PsisElseNuts(psis, nuts)}
    if not isinstance(method, str) or method not in methods:
        raise CriterionError(f'method="{method}" is unknown. Use "nuts" or "psis".')
    return methods[method]
