"""Kernels of what rows without labels tell: the scores of their features, beside those of their labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

if TYPE_CHECKING:
    from pymc_bpls.model.structure import Structure


def row_scores(
    structure: Structure, weights: jax.Array, rows: Any, draws: jax.Array, factor: jax.Array
) -> tuple[jax.Array, ...]:
    """Scores of rows without labels."""
    codes = jnp.arange(len(structure.class_values))

    def of_row(theta: jax.Array, row: Any) -> tuple[jax.Array, ...]:
        def log_lik(theta: jax.Array) -> jax.Array:
            return jax.vmap(structure.log_lik_row, in_axes=(None, 0, None))(theta, codes, row)

        values = log_lik(theta)
        p = jax.nn.softmax(values)[:, None]
        slopes = jnp.where(p > 0, jax.jacrev(log_lik)(theta) @ factor, 0.0)
        return (p * slopes).sum(axis=0), (p * slopes**2).sum(), jnp.abs(jax.nn.logsumexp(values))

    def step(total: Any, theta: jax.Array) -> tuple[Any, None]:
        scores, with_label, size = jax.vmap(of_row, in_axes=(None, 0))(theta, rows)
        information, own, labels, largest = total
        weighted = weights[:, None] * scores
        total = (
            information + weighted.T @ scores,
            own + (scores**2).sum(axis=1),
            labels + with_label,
            jnp.maximum(largest, size),
        )
        return total, None

    q, n = factor.shape[0], weights.shape[0]
    zero = jnp.zeros(n)
    information, own, labels, largest = jax.lax.scan(step, (jnp.zeros((q, q)), zero, zero, zero), draws)[0]
    return information / len(draws), own / len(draws), labels / len(draws), largest


def sums_of_scores(
    structure: Structure, weights: jax.Array, rows: Any, draws: jax.Array, factor: jax.Array
) -> tuple[jax.Array, ...]:
    """Scores of rows without labels, added up."""
    information, own, labels, _ = row_scores(structure, weights, rows, draws, factor)
    return information, weights @ own, weights @ labels
