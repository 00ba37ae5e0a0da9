"""Class probabilities over weighted draws of θ: mean, spread, and the error of the mean; draws × rows is never stored."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import softmax

from pymc_bpls.model.data.table import Labeled
from pymc_bpls.model.rejections import nothing_if_rejected
from pymc_bpls.model.structure import Structure
from pymc_bpls.scoring.one_model import ModelScorer


class Probabilities(NamedTuple):
    """p(y | x, θ) over draws: mean, sd, and the Monte Carlo standard error of the mean by independent draws; (rows, K)."""

    mean: np.ndarray
    sd: np.ndarray
    mcse: np.ndarray


#: Sum of the weights so far (rows, 1), mean, and sum of squared deviations.
Moments = tuple[jax.Array, jax.Array, jax.Array]


def probabilities_over_draws(
    scorer: ModelScorer, labeled: Labeled, theta: np.ndarray, positions: np.ndarray, log_weights: np.ndarray | None = None
) -> Probabilities:
    """Over draws θ (S, q) with logarithms of weights (S,), equal ones by default.

    With weights w that add up to 1, the error of Σ w p is √(Σ w² (p − Σ w p)²) by the delta method [1]_.

    References
    ----------
    .. [1] Owen, A. B. (2013). Monte Carlo theory, methods and examples, section 9.2. https://artowen.su.domains/mc/
    """
    weights = softmax(np.zeros(len(theta)) if log_weights is None else log_weights)
    engine = scorer.engines.of(labeled).engine
    moments = np.empty((len(positions), 3, len(scorer.problem.classes)))
    for places in scorer.engines.alike(labeled, positions):
        moments[places] = engine.map_positions(moments_over_draws, positions[places], theta, weights)
    return Probabilities(*np.moveaxis(moments, 1, 0))


def moments_over_draws(structure: Structure, draws: jax.Array, weights: jax.Array, rows: Any) -> jax.Array:
    """Mean, standard deviation and error (rows, 3, K) of the class probabilities over draws (S, q), by Welford's updates.

    A draw whose parameters PyMC rejects in a row has density 0 there and does not count; NaN where all are rejected.
    """

    def step(held: tuple[Moments, Moments], draw: tuple[jax.Array, jax.Array]) -> tuple[tuple[Moments, Moments], None]:
        theta, weight = draw
        p = jax.nn.softmax(nothing_if_rejected(structure.log_lik_classes(theta, rows).T).T, axis=1)
        allowed = ~jnp.isnan(p).any(axis=1, keepdims=True)
        p, weight = jnp.where(allowed, p, 0.0), jnp.where(allowed, weight, 0.0)
        by_weight, by_square = held
        return (_updated(by_weight, p, weight), _updated(by_square, p, weight**2)), None

    zero = jnp.zeros(jax.eval_shape(structure.log_lik_classes, draws[0], rows).shape)
    nothing = (zero[:, :1], zero, zero)
    (whole, mean, spread), (total, centre, around) = jax.lax.scan(step, (nothing, nothing), (draws, weights))[0]
    error = (around + total * (centre - mean) ** 2) / whole**2
    return jnp.where(whole[:, None] > 0, jnp.stack([mean, jnp.sqrt(spread / whole), jnp.sqrt(error)], axis=1), jnp.nan)


def _updated(held: Moments, value: jax.Array, weight: jax.Array) -> Moments:
    """With one more value; a weight of 0 changes nothing."""
    total, mean, squares = held
    now = total + weight
    moved = mean + (value - mean) * jnp.where(now > 0, weight / jnp.where(now > 0, now, 1.0), 0.0)
    return now, moved, squares + weight * (value - mean) * (value - moved)
