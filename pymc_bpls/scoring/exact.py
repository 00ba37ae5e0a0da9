"""The exact pseudo posterior predictive of every candidate, from draws of one distribution.

With p_k(θ) ∝ p(D | θ)^k π(θ) and Z_k its normalising constant,

    log PPP_i = log Z_2 − log Z_1 + log E_{p_2}[p(ŷ_i | x_i, θ)],      log p(D ∪ i) = log Z_1 + log E_{p_1}[p(ŷ_i | x_i, θ)],

so that one run on the doubled likelihood ranks the whole pool. Draws come from NUTS (`method="nuts"`), or from a proposal
with Pareto-smoothed importance weights (`method="psis"`), whose k-hat says whether they may be trusted.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, Protocol

import numpy as np
import xarray as xr

from pymc_bpls.approximations.gaussian import Gaussian
from pymc_bpls.engine.mode import Mode
from pymc_bpls.errors import ApproximationError, BPLSError, BPLSWarning, CriterionError, ModeError
from pymc_bpls.model.table import Labeled
from pymc_bpls.montecarlo.averages import Averages, Weighted, average_options, exact_dataset
from pymc_bpls.montecarlo.bridge import LogRatio, Proposal, bridge
from pymc_bpls.montecarlo.nuts import LEAST_ESS, Draws, named_draws, sample
from pymc_bpls.montecarlo.other_modes import unvisited_modes
from pymc_bpls.montecarlo.psis import GOOD_K, importance_draws, log_densities, log_liks
from pymc_bpls.rules.label_rules import Options
from pymc_bpls.scoring.by_ep_and_vi import FITS
from pymc_bpls.scoring.scorer import Scorer

_FEWEST_DRAWS = 50
MULTIPLES = {"ppp": 2, "marginal_likelihood": 1}


@dataclass(frozen=True)
class Reference:
    """Draws of p_k as weighted draws, the log normaliser (or None), the run's groups, and reasons to distrust it.

    `source` says in words where the draws are from, `proposal` what importance sampling drew from.
    """

    draws: Weighted
    normaliser: LogRatio | None
    groups: dict[str, xr.Dataset]
    reasons: list[str]
    source: str
    proposal: str | None = None


class Method(Protocol):
    """Makes draws of p_k for D."""

    def __call__(self, scorer: Scorer, labeled: Labeled, k: int) -> Reference: ...


@dataclass(frozen=True)
class Nuts:
    """NUTS by `pm.sample(**options)`."""

    absolute: bool
    seeds: tuple[int, int, int]
    options: dict[str, Any]

    def __call__(self, scorer: Scorer, labeled: Labeled, k: int) -> Reference:
        problem = scorer.problem
        run = sample(problem, labeled, k, random_seed=self.seeds[0], **self.options)
        reasons, normaliser = list(run.reasons), None
        if self.absolute and k == 2:
            ordinary = sample(problem, labeled, 1, random_seed=self.seeds[1], **self.options)
            reasons += [f"for log Z_1, {reason}" for reason in ordinary.reasons]
            normaliser = _normaliser(scorer, labeled, ordinary.theta, run.theta)
        elif self.absolute:
            normaliser = _evidence(scorer, labeled, run.theta, np.random.default_rng(self.seeds[2]))
        flat = Weighted(run.flat, np.zeros(len(run.flat)), len(run.theta), None)
        reasons += unvisited_modes(scorer.engine, labeled, k, flat)
        source = f"{len(flat.theta)} draws of NUTS"
        return Reference(flat, normaliser, _groups(scorer, run), reasons, source)


def _groups(scorer: Scorer, run: Draws) -> dict[str, xr.Dataset]:
    return {"/posterior": named_draws(scorer.problem, run.theta), "/sample_stats": run.sample_stats}


@dataclass(frozen=True)
class Psis:
    """Importance sampling with `n` draws from t distributions around Gaussian approximations of p_k."""

    absolute: bool
    n: int
    seed: int

    def __call__(self, scorer: Scorer, labeled: Labeled, k: int) -> Reference:
        rng = np.random.default_rng(self.seed)
        draws, log_z, proposal = importance_draws(scorer.engine, labeled, k, proposals(scorer, labeled, k), self.n, rng)
        reasons = _bad_k(draws.pareto_k) + _few_draws(self.n)
        normaliser = None
        if self.absolute and k == 2:
            ordinary, log_z1, _ = importance_draws(scorer.engine, labeled, 1, proposals(scorer, labeled, 1), self.n, rng)
            reasons += [f"for log Z_1, {reason}" for reason in _bad_k(ordinary.pareto_k)]
            normaliser = LogRatio(log_z.value - log_z1.value, float(np.hypot(log_z.error, log_z1.error)))
        elif self.absolute:
            normaliser = log_z
        reasons += unvisited_modes(scorer.engine, labeled, k, draws)
        return Reference(draws, normaliser, {}, reasons, f"{self.n} draws by importance sampling", proposal)


@dataclass(frozen=True)
class PsisElseNuts:
    """Importance sampling, and NUTS where there is a reason to distrust it."""

    psis: Psis
    nuts: Nuts

    def __call__(self, scorer: Scorer, labeled: Labeled, k: int) -> Reference:
        try:
            reference = self.psis(scorer, labeled, k)
        except ApproximationError:
            return self.nuts(scorer, labeled, k)
        return self.nuts(scorer, labeled, k) if reference.reasons else reference


def proposals(scorer: Scorer, labeled: Labeled, k: int) -> Iterator[tuple[str, Gaussian]]:
    """Gaussian approximations of p_k that the model has, the most trustworthy first."""
    refused: list[BPLSError] = []
    mode: Mode | None = None
    try:
        mode = scorer.fit(labeled)
    except ModeError as error:
        refused.append(error)
    found = 0
    for name, fit in FITS.items():
        try:
            q = fit(scorer.engine, labeled, k, mode, None)
        except ApproximationError as error:
            refused.append(error)
        else:
            found += 1
            yield name, q
    if mode is not None:
        yield "laplace", Gaussian.at_mode(mode if k == 1 else scorer.engine.fit(labeled, mode.theta, k=k))
    elif not found:
        raise refused[0]


def _bad_k(pareto_k: float | None) -> list[str]:
    if pareto_k is None or pareto_k <= GOOD_K:
        return []
    return [f"k-hat of the importance weights is {pareto_k:.3f} (more than {GOOD_K}), where NUTS is needed"]


def _few_draws(n: int) -> list[str]:
    return [f"there are {n} draws only, too few for k-hat to mean much"] if n < LEAST_ESS else []


def _normaliser(scorer: Scorer, labeled: Labeled, first: np.ndarray, second: np.ndarray) -> LogRatio:
    """log Z_2 − log Z_1 from draws (chain, draw, q) of p_1 and p_2: their density ratio is p(D | θ)."""
    ratios = [
        log_liks(scorer.engine, labeled, theta.reshape(-1, theta.shape[-1])).reshape(theta.shape[:2])
        for theta in (first, second)
    ]
    return bridge(*ratios)


def _evidence(scorer: Scorer, labeled: Labeled, draws: np.ndarray, rng: np.random.Generator) -> LogRatio:
    """log Z_1 from draws (chain, draw, q) of p_1: half of them fit a t proposal, the other half bridge to it."""
    half = draws.shape[1] // 2
    q = draws.shape[-1]
    proposal = Proposal.fitted(draws[:, :half].reshape(-1, q))
    rest = draws[:, half:]
    proposed = proposal.draws(rest.shape[:2], rng)
    at = [
        log_densities(scorer.engine, labeled, theta.reshape(-1, q), 1).reshape(theta.shape[:2]) - proposal.log_density(theta)
        for theta in (proposed, rest)
    ]
    return bridge(*at)


@dataclass(frozen=True)
class ExactValues:
    """Averages of what `codes` (m,) or (m, K) stand for, log Z of what they lack, or None, and where they are from.

    Where they are `absolute`, they lack nothing.
    """

    averages: Averages
    codes: np.ndarray
    normaliser: LogRatio | None
    groups: dict[str, xr.Dataset]
    reasons: list[str]
    source: str
    proposal: str | None = None
    pareto_k: float | None = None
    absolute: bool = False


@singledispatch
def exact_values(scorer: Scorer, labeled: Labeled, k: int, method: Method, options: Options) -> ExactValues:
    """The exact values of the candidates' classes, or of their combination."""
    found = method(scorer, labeled, k)
    averages, codes = average_options(scorer.engine, found.draws, options)
    where = found.groups, found.reasons, found.source, found.proposal, found.draws.pareto_k
    return ExactValues(averages, codes, found.normaliser, *where)


def exact_tree(
    scorer: Scorer,
    labeled: Labeled,
    criterion: str,
    method: Method,
    options: Options,
    rng: np.random.Generator,
) -> xr.DataTree:
    """Exact values of the candidates' classes, or of their combination, with the run that they come from."""
    k, scorer = multiple(criterion), scorer.given(labeled)
    found = exact_values(scorer, labeled, k, method, options)
    averages, codes = found.averages, found.codes
    dims = ("candidate",) if codes.ndim == 1 else ("candidate", "label")
    result = exact_dataset(averages, codes.shape, dims, rng)
    if codes.ndim == 1:
        result["pseudo_label"] = "candidate", scorer.problem.classes.names[codes]
    if found.pareto_k is not None:
        result["pareto_k"] = xr.full_like(result["log_predictive"], found.pareto_k)
    attrs: dict[str, Any] = {
        "criterion": criterion,
        "labels": options.rule.name,
        "source": found.source,
        "table": scorer.problem.fingerprint,
    }
    name = "log_ppp" if k == 2 else "log_evidence"
    if found.absolute:
        result = result.rename(log_predictive=name)
    if found.normaliser is not None:
        result[name] = result["log_predictive"] + found.normaliser.value
        attrs |= {"log_normalizer": found.normaliser.value, "log_normalizer_error": found.normaliser.error}
    if found.proposal is not None:
        attrs["proposal"] = found.proposal
    attrs |= {"reliable": int(not found.reasons), "reasons": list(found.reasons)}
    coords = scorer.problem.coords(options.candidates, codes)
    deviations = averages.deviations.reshape(-1, *codes.shape).astype(np.float32)
    batches = xr.Dataset({"deviation": (("batch", *dims), deviations)}, coords=coords)
    return xr.DataTree.from_dict(
        {"/": xr.Dataset(attrs=attrs), "/exact": result.assign_coords(coords), "/batches": batches, **found.groups}
    )


def warn_if_unreliable(tree: xr.DataTree) -> xr.DataTree:
    """The tree, after a warning where its reference is not to be trusted."""
    if not tree.attrs["reliable"]:
        warnings.warn(
            f"The exact reference is not reliable: {'; '.join(tree.attrs['reasons'])}. Its values and errors may be wrong.",
            BPLSWarning,
            stacklevel=3,
        )
    return tree


def multiple(criterion: str) -> int:
    """How often D counts, for the criteria that have an exact value."""
    if criterion not in MULTIPLES:
        raise CriterionError(f'criterion="{criterion}" has no exact value. Use {" or ".join(map(repr, MULTIPLES))}.')
    return MULTIPLES[criterion]


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
    sizes = {"draws": draws, "chains": chains}
    wrong = [f"{name}={size}" for name, size in sizes.items() if not isinstance(size, int | np.integer) or size < 1]
    if wrong or draws * chains < _FEWEST_DRAWS:
        what = wrong[0] if wrong else f"draws={draws} in chains={chains}"
        raise CriterionError(f"{what} is too few to say anything about errors. Take {_FEWEST_DRAWS} draws or more in all.")
    seeds = tuple(int(seed) for seed in np.random.default_rng(rng).integers(2**31, size=3))
    options = {"draws": draws, "tune": tune, "chains": chains, **sample_kwargs}
    if nuts_sampler is not None:
        options["nuts_sampler"] = nuts_sampler
    nuts, psis = Nuts(absolute, (seeds[0], seeds[1], seeds[2]), options), Psis(absolute, chains * draws, seeds[0])
    methods: dict[str, Method] = {"nuts": nuts, "psis": psis, "psis, else nuts": PsisElseNuts(psis, nuts)}
    if method not in methods:
        raise CriterionError(f'method="{method}" is unknown. Use "nuts" or "psis".')
    return methods[method]
