"""Class probabilities over draws of θ: their mean and their spread; draws × rows is never stored."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pymc_bpls.model.data.table import Labeled
from pymc_bpls.model.structure import Structure
from pymc_bpls.scoring.one_model import ModelScorer

#: Draws so far, their mean, and the sum of their squared deviations.
Moments = tuple[jax.Array, jax.Array, jax.Array]


def probabilities_over_draws(
    scorer: ModelScorer, labeled: Labeled, theta: np.ndarray, positions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of p(y | x, θ) over draws θ (S, q), both (rows, K)."""
    engine = scorer.engines.of(labeled).engine
    moments = np.empty((len(positions), 2, len(scorer.problem.classes)))
    for places in scorer.engines.alike(labeled, positions):
        moments[places] = engine.map_positions(moments_over_draws, positions[places], theta)
    return moments[:, 0], moments[:, 1]


def moments_over_draws(structure: Structure, draws: jax.Array, rows: Any) -> jax.Array:
    """Mean and standard deviation (rows, 2, K) of the class probabilities over draws (S, q), by Welford's updates."""

    def step(held: Moments, draw: jax.Array) -> tuple[Moments, None]:
        n, mean, squares = held
        p = jax.nn.softmax(structure.log_lik_classes(draw, rows), axis=1)
        moved = mean + (p - mean) / (n + 1)
        return (n + 1, moved, squares + (p - mean) * (p - moved)), None

    zero = jnp.zeros(jax.eval_shape(structure.log_lik_classes, draws[0], rows).shape)
    (n, mean, squares), _ = jax.lax.scan(step, (jnp.zeros(()), zero, zero), draws)
    return jnp.stack([mean, jnp.sqrt(squares / n)], axis=1)
