"""Averages of predictive probabilities over draws, for a whole pool, with Monte Carlo errors by batch means.

The draws of each sequence are cut into consecutive batches. Relative deviations of the batches from the average are all that
is kept of a candidate: their spread gives its error, the spread of their differences that of a paired comparison, and
drawing batches again with replacement the probability that a candidate is the best. k-hat of the terms says whether draws of
p_k reach where a class lives: where they do not, error and average are nothing (`montecarlo.tails`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from scipy.special import logsumexp

from pymc_bpls.compute.chunks import map_rows
from pymc_bpls.compute.threads import IN_TURN
from pymc_bpls.engine.engine import Engine
from pymc_bpls.model.rejections import nothing_if_rejected
from pymc_bpls.model.structure import Structure
from pymc_bpls.montecarlo.bridge import LogRatio
from pymc_bpls.montecarlo.pareto import GOOD_K, tail_ks, tail_size
from pymc_bpls.montecarlo.weighted import Weighted
from pymc_bpls.rules.label_rules import Weighing
from pymc_bpls.rules.ranking import TIED

_COUNTS = 0.01
_SIGNS, _NO_MEAN = 100, 1.0
_SURE = float(np.log(0.9))
_BOOTSTRAPS = 4000
_CONTENDERS = 200
_BYTES = 128 * 2**20
_SMALLEST_CHUNK, _LARGEST_CHUNK = 8, 1024


@dataclass(frozen=True)
class Averages:
    """log E[p] of each pair (pairs,), their relative deviations, effective sample sizes, and k-hat of their terms.

    `blocks` are independent of each other: deviations (batches, pairs) of batches, the first block those of the draws' own.
    """

    log_mean: np.ndarray
    blocks: tuple[np.ndarray, ...]
    ess: np.ndarray
    pareto_k: np.ndarray

    @cached_property
    def deviations(self) -> np.ndarray:
        """Those of all blocks below each other, scaled so that their errors add up: (batches, pairs)."""
        return side_by_side(self.blocks)

    @property
    def error(self) -> np.ndarray:
        """Monte Carlo standard error of log E[p]."""
        return batch_error(self.deviations)

    def plus(self, level: LogRatio, batches: np.ndarray) -> Averages:
        """log E[p] + `level`, which is estimated with the same draws, cut into `batches`."""
        own, rest = level.deviations(batches)
        first, *others = self.blocks
        blocks = (first + own[:, None], *others, mirrored(np.full(len(self.log_mean), rest)))
        return replace(self, log_mean=self.log_mean + level.value, blocks=blocks)

    def combined(self, weighing: Weighing) -> Averages:
        """log Σ_y w_y E[p(y)] of each row, for pairs that are the K classes of row after row, with log w of shape (rows, K).

        Effective sample size and k-hat are given as the worst of the classes, k-hat of those that count.
        """
        shape = weighing.log_weights.shape
        log_mean = self.log_mean.reshape(shape)
        total = weighing.combined(log_mean)
        shares = np.exp(weighing.log_weights + log_mean - total[:, None])
        blocks = tuple(np.where(shares > 0, block.reshape(-1, *shape) * shares, 0.0).sum(axis=2) for block in self.blocks)
        ks = np.where(shares >= _COUNTS, self.pareto_k.reshape(shape), -np.inf).max(axis=1)
        return Averages(total, blocks, self.ess.reshape(shape).min(axis=1), np.where(np.isfinite(ks), ks, 0.0))


def mirrored(errors: np.ndarray) -> np.ndarray:
    """Standard errors (pairs,) of what pairs share as a block: a batch and its mirror image."""
    return np.array([[1.0], [-1.0]]) * errors


def apart(errors: np.ndarray) -> np.ndarray:
    """Standard errors (pairs,) that have nothing to do with each other as a block, by random signs."""
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(_SIGNS, len(errors)))
    return np.sqrt(_SIGNS - 1) * signs * errors


def side_by_side(blocks: Sequence[np.ndarray]) -> np.ndarray:
    """Independent blocks of deviations as one, whose `batch_error` squared is the sum of theirs."""
    n = sum(map(len, blocks))
    return np.concatenate([np.sqrt(n * (n - 1) / (len(block) * (len(block) - 1))) * block for block in blocks])


def batch_error(deviations: np.ndarray) -> np.ndarray:
    """Standard error of the mean of batches, along the first axis."""
    n = len(deviations)
    return np.sqrt((deviations**2).sum(axis=0) / (n * (n - 1)))


def mean_likelihoods(
    structure: Structure,
    theta: jax.Array,
    weights: jax.Array,
    codes: jax.Array,
    rows: Any,
    *,
    batches: tuple[int, int],
    conditional: bool,
) -> tuple[jax.Array, ...]:
    """Averages over draws."""
    log_p = nothing_if_rejected(jax.vmap(lambda at: structure.log_factor(at, codes, rows, conditional=conditional))(theta))
    top = log_p.max(axis=0)
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    p = jnp.exp(log_p - top)
    weighted = weights[:, None] * p
    mean = weighted.sum(axis=0)
    largest = jax.lax.top_k((jnp.log(weights)[:, None] + log_p).T, tail_size(len(theta)) + 1)[0]
    return top + jnp.log(mean), weighted.reshape(*batches, -1).sum(axis=1), (weighted * p).sum(axis=0) / mean**2, largest


def average(engine: Engine, draws: Weighted, positions: np.ndarray, codes: np.ndarray) -> Averages:
    """log E of what each pair (row, class) brings as a candidate, in chunks: draws × pool is never stored."""
    batches = draws.batches
    theta, log_weights = draws.theta[batches.ravel()], draws.log_weights[batches.ravel()]
    weights = np.exp(log_weights - logsumexp(log_weights))
    of_batch = weights.reshape(batches.shape).sum(axis=1)[:, None]

    compiler, structure, density = engine.compiler, engine.density.structure, engine.density
    how = {"batches": batches.shape, "conditional": engine.conditional}

    def some(candidates: tuple[np.ndarray, Any]) -> tuple[np.ndarray, ...]:
        log_mean, sums, square, largest = compiler(mean_likelihoods, structure, theta, weights, *candidates, **how)
        with np.errstate(invalid="ignore", divide="ignore"):
            deviations = len(batches) * (sums / sums.sum(axis=0) - of_batch)
        return log_mean, deviations.T, square - 1, tail_ks(largest)

    def candidates(pairs: np.ndarray) -> tuple[np.ndarray, Any]:
        return codes[pairs], density.take(positions[pairs])

    chunk, executor = _chunk(len(theta)), engine.executor or IN_TURN
    log_mean, deviations, variance, pareto_k = map_rows(some, len(positions), chunk, executor, take=candidates)
    deviations = np.ascontiguousarray(deviations.T)
    n = len(draws.theta)
    with np.errstate(invalid="ignore", divide="ignore"):
        ess = np.minimum(variance / batch_error(deviations) ** 2, n * np.log10(max(n, 10)))
    return Averages(log_mean, (deviations,), np.where(variance > 0, ess, float(n)), pareto_k)


def _chunk(numbers: int) -> tuple[int, int]:
    """How few and how many pairs are taken together where each takes so many numbers."""
    most = max(1, min(_LARGEST_CHUNK, _BYTES // (64 * numbers)))
    return _SMALLEST_CHUNK, 1 << (most.bit_length() - 1)


def other_classes(structure: Structure, theta: jax.Array, weights: jax.Array, codes: jax.Array, rows: Any) -> jax.Array:
    """Largest terms of the other classes' average."""
    log_p = nothing_if_rejected(jax.vmap(structure.log_lik_classes, (0, None))(theta, rows))
    own = jnp.arange(log_p.shape[2]) == codes[:, None]
    whole = jax.nn.logsumexp(log_p, axis=2)
    others = jax.scipy.special.logsumexp(jnp.where(own, -jnp.inf, log_p), axis=2)
    terms = jnp.where(jnp.isneginf(whole), -jnp.inf, others - whole)
    return jax.lax.top_k((jnp.log(weights)[:, None] + terms).T, tail_size(len(theta)) + 1)[0]


def unseen(engine: Engine, draws: Weighted, averages: Averages, positions: np.ndarray, codes: np.ndarray) -> Averages:
    """With the error of classes that are nearly certain in every draw, whose other classes live where no draw is.

    What S draws have not met may have a mass of 1/S. Where the others' average has heavy tails but exists, the error is of its
    size at most.
    """
    sure = np.flatnonzero(averages.log_mean > _SURE)
    weights = np.exp(draws.log_weights - logsumexp(draws.log_weights))

    compiler, structure, density, theta = engine.compiler, engine.density.structure, engine.density, draws.theta

    def some(candidates: tuple[np.ndarray, Any]) -> np.ndarray:
        return tail_ks(compiler(other_classes, structure, theta, weights, *candidates))

    def candidates(places: np.ndarray) -> tuple[np.ndarray, Any]:
        return codes[sure[places]], density.take(positions[sure[places]])

    chunk, executor = _chunk(len(draws.theta) * len(engine.density.class_values)), engine.executor or IN_TURN
    ks = map_rows(some, len(sure), chunk, executor, take=candidates) if len(sure) else np.empty(0)
    error, others = np.zeros(len(averages.log_mean)), -np.expm1(averages.log_mean[sure])
    size = np.where(ks > _NO_MEAN, np.inf, np.where(ks > GOOD_K, others, 0.0))
    error[sure] = np.minimum(size, 1 / averages.ess.min())
    return averages if not error.any() else replace(averages, blocks=(*averages.blocks, apart(error)))


def exact_dataset(averages: Averages, shape: tuple[int, ...], dims: tuple[str, ...], rng: np.random.Generator) -> xr.Dataset:
    """What is known of each pair, shape `shape` over `dims`."""
    log_mean, error = averages.log_mean, averages.error
    ranked = np.where(np.isfinite(log_mean), log_mean, -np.inf)
    best = int(np.argmax(ranked))
    paired = averages.deviations - averages.deviations[:, [best]]
    columns = {
        "log_predictive": log_mean,
        "mcse": error,
        "ess": averages.ess,
        "pareto_k": averages.pareto_k,
        "diff_to_best": log_mean - log_mean[best],
        "diff_to_best_mcse": batch_error(paired),
        "prob_best": _best_probability(ranked, paired, rng),
    }
    return xr.Dataset({name: (dims, values.reshape(shape)) for name, values in columns.items()})


def _best_probability(log_mean: np.ndarray, paired: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """How often each pair has the largest mean when batches are drawn again with replacement; ties share it."""
    order = np.argsort(-log_mean, kind="stable")[:_CONTENDERS]
    order, result = order[np.isfinite(log_mean[order])], np.zeros(len(log_mean))
    if not order.size:
        return result
    n = len(paired)
    counts = rng.multinomial(n, np.full(n, 1 / n), size=_BOOTSTRAPS) / n
    drawn = log_mean[order] + np.sqrt(n / (n - 1)) * (counts @ paired[:, order])
    first = drawn >= drawn.max(axis=1, keepdims=True) - TIED
    result[order] = (first / first.sum(axis=1, keepdims=True)).mean(axis=0)
    return result
