"""Averages of predictive probabilities over draws, for a whole pool, with Monte Carlo errors by batch means.

The draws of each sequence are cut into consecutive batches. Relative deviations of the batches from the average are all that
is kept of a candidate: their spread gives its error, the spread of their differences that of a paired comparison, and
drawing batches again with replacement the probability that a candidate is the best.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from scipy.special import logsumexp

from pymc_bpls.compute.chunks import map_rows
from pymc_bpls.compute.threads import IN_TURN
from pymc_bpls.engine.engine import Engine
from pymc_bpls.model.structure import Structure
from pymc_bpls.rules.label_rules import Options, Weighing
from pymc_bpls.rules.ranking import TIED

_BATCHES = 100
_BOOTSTRAPS = 4000
_CONTENDERS = 200
_BYTES = 128 * 2**20
_SMALLEST_CHUNK, _LARGEST_CHUNK = 8, 1024


@dataclass(frozen=True)
class Weighted:
    """Draws θ (S, q) with log weights (S,); `groups` says how many equally long, independent sequences they are."""

    theta: np.ndarray
    log_weights: np.ndarray
    groups: int
    pareto_k: float | None

    @property
    def batches(self) -> np.ndarray:
        """S split into consecutive batches within sequences, shape (batches, length); a rest is left out."""
        length = len(self.theta) // self.groups
        per_group = max(2, _BATCHES // self.groups)
        size = max(1, length // per_group)
        starts = np.arange(self.groups)[:, None] * length + np.arange(length // size)[None, :] * size
        return starts.reshape(-1, 1) + np.arange(size)


@dataclass(frozen=True)
class Averages:
    """log E[p] of each pair (pairs,), relative deviations of its batches (batches, pairs), and effective sample sizes."""

    log_mean: np.ndarray
    deviations: np.ndarray
    ess: np.ndarray

    @property
    def error(self) -> np.ndarray:
        """Monte Carlo standard error of log E[p]."""
        return batch_error(self.deviations)

    def combined(self, weighing: Weighing) -> Averages:
        """log Σ_y w_y E[p(y)] of each row, for pairs that are the K classes of row after row, with log w of shape (rows, K).

        Its effective sample size is given as the smallest of the classes'.
        """
        shape = weighing.log_weights.shape
        log_mean = self.log_mean.reshape(shape)
        total = weighing.combined(log_mean)
        shares = np.exp(weighing.log_weights + log_mean - total[:, None])
        deviations = np.where(shares > 0, self.deviations.reshape(-1, *shape) * shares, 0.0).sum(axis=2)
        return Averages(total, deviations, self.ess.reshape(shape).min(axis=1))


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
    log_p = jax.vmap(lambda at: structure.log_factor(at, codes, rows, conditional=conditional))(theta)
    top = log_p.max(axis=0)
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    p = jnp.exp(log_p - top)
    weighted = weights[:, None] * p
    mean = weighted.sum(axis=0)
    return top + jnp.log(mean), weighted.reshape(*batches, -1).sum(axis=1), (weighted * p).sum(axis=0) / mean**2


def average(engine: Engine, draws: Weighted, positions: np.ndarray, codes: np.ndarray) -> Averages:
    """log E of what each pair (row, class) brings as a candidate, in chunks: draws × pool is never stored."""
    batches = draws.batches
    theta, log_weights = draws.theta[batches.ravel()], draws.log_weights[batches.ravel()]
    weights = np.exp(log_weights - logsumexp(log_weights))
    of_batch = weights.reshape(batches.shape).sum(axis=1)[:, None]

    def some(pairs: np.ndarray) -> tuple[np.ndarray, ...]:
        log_mean, sums, square = engine.compiler(
            mean_likelihoods,
            engine.density.structure,
            theta,
            weights,
            codes[pairs],
            engine.density.take(positions[pairs]),
            batches=batches.shape,
            conditional=engine.conditional,
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            deviations = len(batches) * (sums / sums.sum(axis=0) - of_batch)
        return log_mean, deviations.T, square - 1

    most = max(1, min(_LARGEST_CHUNK, _BYTES // (64 * len(theta))))
    log_mean, deviations, variance = map_rows(some, len(positions), (_SMALLEST_CHUNK, 1 << (most.bit_length() - 1)), IN_TURN)
    deviations = np.ascontiguousarray(deviations.T)
    n = len(draws.theta)
    with np.errstate(invalid="ignore", divide="ignore"):
        ess = np.minimum(variance / batch_error(deviations) ** 2, n * np.log10(max(n, 10)))
    return Averages(log_mean, deviations, np.where(variance > 0, ess, float(n)))


def average_options(engine: Engine, draws: Weighted, options: Options) -> tuple[Averages, np.ndarray]:
    """log E[p(y | x, θ)] of the candidates' classes, or of their combination, and the classes, codes (m,) or (m, K)."""
    rows, codes = options.candidates, options.codes
    averages = average(engine, draws, np.repeat(rows, codes.size // max(len(rows), 1)), codes.ravel())
    if options.weigh is None:
        return averages, codes
    weighing = options.weigh(averages.log_mean.reshape(codes.shape))
    return averages.combined(weighing), weighing.codes


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
        "diff_to_best": log_mean - log_mean[best],
        "diff_to_best_mcse": batch_error(paired),
        "prob_best": _best_probability(ranked, paired, rng),
    }
    return xr.Dataset({name: (dims, values.reshape(shape)) for name, values in columns.items()})


def _best_probability(log_mean: np.ndarray, paired: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """How often each pair has the largest mean when batches are drawn again with replacement; ties share it."""
    order = np.argsort(-log_mean, kind="stable")[:_CONTENDERS]
    order = order[np.isfinite(log_mean[order])]
    n = len(paired)
    counts = rng.multinomial(n, np.full(n, 1 / n), size=_BOOTSTRAPS) / n
    drawn = log_mean[order] + np.sqrt(n / (n - 1)) * (counts @ paired[:, order])
    first = drawn >= drawn.max(axis=1, keepdims=True) - TIED
    wins = (first / first.sum(axis=1, keepdims=True)).mean(axis=0)
    result = np.zeros(len(log_mean))
    result[order] = wins
    return result
