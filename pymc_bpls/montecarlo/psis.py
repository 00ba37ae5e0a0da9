"""Importance sampling of p_k(θ) ∝ p(D | θ)^k π(θ) from t distributions around Gaussian approximations, weights Pareto-smoothed.

One proposal where its k-hat is good. Otherwise the mixture of all that were tried and of one with the moments of the draws
before, their weights annealed so that enough of them count; each draw is weighted by p_k over the density of the whole
mixture, and the mixture grows a few times. Where k-hat does not rule out weights without a variance, the draws are moved
(`montecarlo.moves`): a proposal that is too narrow hides the tail that it misses from k-hat and from errors alike.

Of a hierarchy with many groups the same is done in the few parameters that are left when groups' effects are integrated out
(`montecarlo.collapsed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import scipy.linalg
from scipy.special import logsumexp

from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.compute.chunks import map_rows
from pymc_bpls.compute.threads import IN_TURN
from pymc_bpls.engine.engine import Engine
from pymc_bpls.engine.newton.curvature import LocalGaussian
from pymc_bpls.errors import ApproximationError
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.montecarlo.bridge import LogRatio, Proposal
from pymc_bpls.montecarlo.collapsed import Collapsed
from pymc_bpls.montecarlo.diagnostics import pareto_smoothed
from pymc_bpls.montecarlo.pareto import GOOD_K, has_variance, tail_ks, tail_size
from pymc_bpls.montecarlo.row_draws import RowTarget
from pymc_bpls.montecarlo.sparse_proposals import Approximation, HierarchyProposal, SparseProposal, is_sparse, proposal_around
from pymc_bpls.montecarlo.weighted import Weighted

#: What is sampled: an engine, in θ, or the same in the coordinates of D's rows, or in a core of parameters.
Target = Engine | RowTarget | Collapsed
#: What draws come from.
AnyProposal = Proposal | SparseProposal | HierarchyProposal

_FAR_BELOW = 700.0
_EQUAL = 1e-9
_K_SETS, _K_DRAWS, _PAIRS = 4, 2000, 64
#: A stream of its own: draws by seed 0 are the very features that somebody simulated by seed 0.
_STREAM = 1_804_289_383
_MIXTURES = 8
_RAYS, _NAMED, _ALONG_AT_ONCE = (1e2, 1e4), 4, 256
#: Of the importance sampling of a constant.
CONSTANT_DRAWS = 2**13
_EFFECTIVE = 0.02
_POWERS = (1.0, 0.8, 0.6, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.0)


class Sampled(NamedTuple):
    """Draws with Pareto-smoothed weights, log Z_k with its error, and what they came from: its name, and all its parts."""

    draws: Weighted
    log_z: LogRatio
    name: str
    proposals: list[AnyProposal]


def importance_draws(
    engine: Target, labeled: Labeled, k: int, proposals: Iterable[tuple[str, Approximation]], n: int, rng: np.random.Generator
) -> Sampled:
    """n draws from the first proposal whose k-hat is good, or else from mixtures."""
    tried: list[AnyProposal] = []
    best: Sampled | None = None
    for name, q in proposals:
        proposal = proposal_around(q)
        try:
            weighted = _weighted(engine, labeled, k, [proposal], n, rng)
        except np.linalg.LinAlgError:
            continue
        tried.append(proposal)
        best = _better(best, Sampled(*weighted, name, [proposal]))
        if _good(best):
            return best
    if best is None:
        raise ApproximationError(
            'No Gaussian approximation of the posterior has a usable covariance: it is singular to rounding. Use method="nuts".'
        )
    return _grown(engine, labeled, k, tried, best, n, rng, _good)


def mixture_draws(
    engine: Engine, labeled: Labeled, k: int, proposals: Iterable[Approximation], n: int, rng: np.random.Generator
) -> tuple[Weighted, LogRatio]:
    """n draws with Pareto-smoothed weights, and log Z_k with its error, from one mixture of t distributions around all
    `proposals`, which grows until k-hat says that the weights have a variance [1]_.

    A region that one of the proposals reaches cannot be hidden by another one that is too narrow.

    References
    ----------
    .. [1] Owen, A. and Zhou, Y. (2000). Safe and effective importance sampling. JASA 95, 135-143.
       https://doi.org/10.1080/01621459.2000.10473909
    """
    mixture = [proposal_around(q) for q in proposals]
    first = Sampled(*_weighted(engine, labeled, k, mixture, n, rng), "mixture", mixture)
    grown = _grown(engine, labeled, k, mixture, first, n, rng, _surely_good)
    return grown.draws, grown.log_z


def _grown(
    engine: Target,
    labeled: Labeled,
    k: int,
    mixture: list[AnyProposal],
    best: Sampled,
    n: int,
    rng: np.random.Generator,
    will_do: Callable[[Sampled], bool],
) -> Sampled:
    """The best of the draws so far and of those from mixtures that each time have the moments of the last draws too.

    Of many parameters, of which rows touch few, there is no covariance of draws: the mixture of all that were tried is last.
    """
    draws, dense = best.draws, all(isinstance(each, Proposal) for each in mixture)
    for _ in range(_MIXTURES if dense else min(len(mixture) - 1, 1)):
        if will_do(best):
            break
        mixture = [*mixture, _matched(draws)] if dense else mixture
        draws, log_z = _weighted(engine, labeled, k, mixture, n, rng)
        best = _better(best, Sampled(draws, log_z, "mixture", mixture))
    return best


def _good(sampled: Sampled) -> bool:
    return sampled.draws.pareto_k is not None and sampled.draws.pareto_k <= GOOD_K


def _surely_good(sampled: Sampled) -> bool:
    draws = sampled.draws
    return draws.pareto_k is not None and has_variance(draws.pareto_k, len(draws.theta))


def _better(old: Sampled | None, new: Sampled) -> Sampled:
    """The one with the smaller k-hat."""
    if old is None or old.draws.pareto_k is None:
        return new
    return new if new.draws.pareto_k is not None and new.draws.pareto_k < old.draws.pareto_k else old


def _matched(draws: Weighted) -> Proposal:
    """A proposal with the mean and covariance of the draws, their weights annealed until enough of them count."""
    enough = max(_EFFECTIVE * len(draws.theta), 4.0 * draws.theta.shape[1])
    for power in _POWERS:
        log_weights = power * draws.log_weights
        weights = np.exp(log_weights - logsumexp(log_weights))
        if 1 / np.square(weights).sum() >= enough:
            break
    mean, covariance = draws.moments(power)
    narrow = 1e-8 * np.diag(np.diag(covariance))
    return Proposal(mean, covariance + narrow)


def _weighted(
    engine: Target, labeled: Labeled, k: int, proposals: list[AnyProposal], n: int, rng: np.random.Generator
) -> tuple[Weighted, LogRatio]:
    """Draws in equal parts from each proposal, weighted by p_k over the mixture's density, in random order."""
    sizes = np.full(len(proposals), n // len(proposals))
    sizes[: n - sizes.sum()] += 1
    theta = np.concatenate([p.draws((1, int(size)), rng)[0] for p, size in zip(proposals, sizes, strict=True)])
    theta = theta[rng.permutation(n)] if len(proposals) > 1 else theta
    log_q = logsumexp([p.log_density(theta) for p in proposals], b=(sizes / n)[:, None], axis=0)
    smoothed, pareto_k, log_ratio = _smoothed(log_densities(engine, labeled, theta, k) - log_q)
    influence = n * np.exp(smoothed - logsumexp(smoothed)) - 1
    log_z = LogRatio(float(logsumexp(log_ratio) - np.log(n)), _error(smoothed), influence)
    return Weighted(theta, smoothed, 1, pareto_k), log_z


def _smoothed(log_ratio: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
    """Smoothed log weights, k-hat (0 where all are equal), and the log weights themselves, far ones cut."""
    log_ratio = np.where(np.isfinite(log_ratio), log_ratio, -np.inf)
    log_ratio = np.maximum(log_ratio, log_ratio.max() - _FAR_BELOW)
    if np.ptp(log_ratio) <= _EQUAL:
        return log_ratio, 0.0, log_ratio
    with np.errstate(all="ignore"):  # a tail of a few draws that hold everything
        smoothed, pareto_k = pareto_smoothed(log_ratio)
    if not np.isfinite(pareto_k) or np.isnan(smoothed).any():
        return log_ratio - logsumexp(log_ratio), float("inf"), log_ratio
    return smoothed, pareto_k, log_ratio


def log_evidence(engine: Engine, labeled: Labeled, q: Gaussian, k: int) -> tuple[LogRatio, float]:
    """log Z_k by importance sampling from a t distribution with q's mean and covariance, with its error and k-hat.

    On the unconstrained scale the posterior of a bounded parameter has exponential tails: weights against a Gaussian have no
    finite mean error there, and k-hat is large, though the tails hold next to nothing. Against a t they are bounded. The mean
    weight is divided by that of q itself, which is 1 in expectation, so that a Gaussian posterior has no error.
    """
    target = RowTarget.of(engine, labeled)
    own = None if target is None else target.within(q)
    within = q.in_theta if own is None else own
    proposal = Proposal(within.mean, within.covariance)
    sampled = engine if target is None or own is None else target
    weighted, log_z = _weighted(sampled, labeled, k, [proposal], CONSTANT_DRAWS, np.random.default_rng((_STREAM, k)))
    log_z = _relative_to(within, weighted.theta, proposal, log_z)
    return log_z, float("inf") if weighted.pareto_k is None else weighted.pareto_k


def _relative_to(q: Gaussian, theta: np.ndarray, proposal: Proposal, log_z: LogRatio) -> LogRatio:
    """log Z by the ratio of mean weights of p_k and of q, with draws θ (S, q) of a proposal that `log_z` was found by."""
    white = scipy.linalg.solve_triangular(q.factor, (theta - q.mean).T, lower=True)
    log_q = -0.5 * (white**2).sum(axis=0) - np.log(np.diag(q.factor)).sum() - 0.5 * len(q.mean) * np.log(2 * np.pi)
    known = log_q - proposal.log_density(theta)
    log_mean = float(logsumexp(known) - np.log(len(theta)))
    assert log_z.influence is not None
    influence = log_z.influence - (np.exp(known - log_mean) - 1)
    return LogRatio(log_z.value - log_mean, float(np.sqrt(np.square(influence).sum()) / len(theta)), influence)


def _error(smoothed: np.ndarray) -> float:
    """Standard error of the logarithm of the mean weight."""
    shares = np.exp(smoothed - logsumexp(smoothed))
    return float(np.sqrt(max(np.square(shares).sum() - 1 / len(shares), 0.0)))


def log_densities(engine: Target, labeled: Labeled, theta: np.ndarray, k: int) -> np.ndarray:
    """k ℓ_D + log π at θ (S, q), and Σ λ_u g_u where the engine has a pool.

    −∞ where it is not a number, as samplers have it: the model is not defined there, as for cutpoints that rounding made equal.
    """
    if isinstance(engine, Collapsed):
        at = engine.log_density(theta)
        return np.where(np.isnan(at), -np.inf, at)
    of_pool = 0.0 if engine.marginal is None else engine.marginal.values(theta)
    at = k * engine.log_lik_labeled(labeled, theta) + engine.log_prior(theta) + of_pool
    return np.where(np.isnan(at), -np.inf, at)


def heavier_tails(engine: Engine | Collapsed, labeled: Labeled, k: int, proposal: AnyProposal) -> list[str]:
    """A reason to distrust importance sampling where p_k falls more slowly than a t distribution, however far out.

    Weights are then unbounded, which k-hat says only where draws came there: along each parameter, both ways, they are compared
    at a hundred and at ten thousand standard deviations.
    """
    grows = np.concatenate([_grows_along(engine, labeled, k, proposal, some) for some in _parts(len(proposal.mean))])
    labels = engine.labels if isinstance(engine, Collapsed) else engine.density.parameters.labels
    names = [labels[j] for j in np.flatnonzero(grows)]
    if not names:
        return []
    return [f"the tails of the posterior along {', '.join(names[:_NAMED])} are heavier than those it was sampled by"]


def _parts(q: int) -> Iterator[np.ndarray]:
    """The parameters that are looked along together."""
    return (np.arange(first, min(first + _ALONG_AT_ONCE, q)) for first in range(0, q, _ALONG_AT_ONCE))


def _grows_along(engine: Engine | Collapsed, labeled: Labeled, k: int, proposal: AnyProposal, some: np.ndarray) -> np.ndarray:
    """Whether weights still grow far out along some parameters (some,)."""
    steps = np.zeros((len(some), len(proposal.mean)))
    steps[np.arange(len(some)), some] = proposal.sd[some]
    steps = np.vstack([steps, -steps])
    near, far = (proposal.mean + ray * steps for ray in _RAYS)
    with np.errstate(all="ignore"):
        at_near, at_far = (log_densities(engine, labeled, theta, k) - proposal.log_density(theta) for theta in (near, far))
        grows = (at_far > at_near) & np.isfinite(at_far)
    return np.asarray(grows.reshape(2, -1).any(axis=0))


def integrand_ks(
    engine: Engine, labeled: Labeled, q: Approximation, k: int, pairs: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """k-hat of importance sampling from q of ∫ p(ŷ_i | x_i, θ) p_k(θ) dθ for each pair (sets, pairs), and of ∫ p_k(θ) dθ itself
    (sets,), from a few fixed sets of draws, whose differences say how uncertain a k-hat is.
    """
    of_pairs, of_all = [], []
    for seed in range(_K_SETS):
        theta, log_q = _drawn_from(q, np.random.default_rng((_STREAM, seed)))
        log_ratio = log_densities(engine, labeled, theta, k) - log_q
        of_pairs.append(_ks_of_pairs(engine, theta, log_ratio, *pairs))
        of_all.append(_ks(log_ratio[None])[0])
    return np.array(of_pairs), np.array(of_all)


def _drawn_from(q: Approximation, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draws θ (S, q), and their log density but for a constant."""
    if isinstance(q, LocalGaussian) or is_sparse(q):
        proposal = proposal_around(q)
        theta = proposal.draws((1, _K_DRAWS), rng)[0]
        return theta, proposal.log_density(theta)
    q = q.in_theta
    z = rng.normal(size=(_K_DRAWS, len(q.mean)))
    return q.mean + z @ q.factor.T, -0.5 * (z**2).sum(axis=1)


def _ks_of_pairs(
    engine: Engine, theta: np.ndarray, log_ratio: np.ndarray, positions: np.ndarray, codes: np.ndarray
) -> np.ndarray:
    """k-hat of each pair's integrand; draws × pairs is never stored."""

    def some(pairs: np.ndarray) -> np.ndarray:
        return _ks(log_ratio + engine.log_factor_pairs(theta, positions[pairs], codes[pairs]))

    return map_rows(some, len(positions), (_PAIRS, _PAIRS), IN_TURN, padded=False)


def _ks(log_terms: np.ndarray) -> np.ndarray:
    """k-hat of each row of terms (averages, draws)."""
    known = np.where(np.isnan(log_terms), -np.inf, log_terms)
    return tail_ks(-np.sort(-known, axis=1)[:, : tail_size(known.shape[1]) + 1])
