"""Kernels of what rows without labels tell: scores of their features, beside those of their labels, and of their log-odds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

if TYPE_CHECKING:
    from pymc_bpls.model.structure import Structure


def row_scores(
    structure: Structure, weights: jax.Array, rows: Any, draws: jax.Array, factor: jax.Array, root: jax.Array
) -> tuple[jax.Array, ...]:
    """With s = L'∇g_u and s_y = L'∇ℓ_u(y), means over draws of Σ_u ss' and Σ_u Σ_y p_y s_y s_y' (q, q); of each row s'Ps and
    Σ_y p_y s_y'P s_y with P = `root` `root`', and the largest |g_u|.
    """
    codes = jnp.arange(len(structure.class_values))

    def of_row(theta: jax.Array, row: Any) -> tuple[jax.Array, ...]:
        def log_lik(theta: jax.Array) -> jax.Array:
            return jax.vmap(structure.log_lik_row, in_axes=(None, 0, None))(theta, codes, row)

        values = log_lik(theta)
        p = jax.nn.softmax(values)[:, None]
        slopes = jnp.where(p > 0, jax.jacrev(log_lik)(theta) @ factor, 0.0)
        score = (p * slopes).sum(axis=0)
        with_label = (p * (slopes @ root) ** 2).sum()
        return score, jnp.sqrt(p) * slopes, ((score @ root) ** 2).sum(), with_label, jnp.abs(jax.nn.logsumexp(values))

    def step(total: Any, theta: jax.Array) -> tuple[Any, None]:
        scores, of_classes, own, with_label, size = jax.vmap(of_row, in_axes=(None, 0))(theta, rows)
        information, labeled, *of_rows, largest = total
        total = (
            information + (weights[:, None] * scores).T @ scores,
            labeled + jnp.einsum("u,uki,ukj->ij", weights, of_classes, of_classes),
            *(before + more for before, more in zip(of_rows, (own, with_label), strict=True)),
            jnp.maximum(largest, size),
        )
        return total, None

    q, n = factor.shape[1], weights.shape[0]
    none, zero = jnp.zeros((q, q)), jnp.zeros(n)
    *sums, largest = jax.lax.scan(step, (none, none, zero, zero, zero), draws)[0]
    return (*(each / len(draws) for each in sums), largest)


def sums_of_scores(
    structure: Structure, weights: jax.Array, rows: Any, draws: jax.Array, factor: jax.Array, root: jax.Array
) -> tuple[jax.Array, ...]:
    """The sums of `row_scores` over rows alone."""
    return row_scores(structure, weights, rows, draws, factor, root)[:2]


def squares_of_log_odds(structure: Structure, weights: jax.Array, rows: Any, theta: jax.Array, factor: jax.Array) -> jax.Array:
    """Σ_u Σ_y cc' (q, q) with c = L'∇[ℓ_u(y) − ℓ_u(0)], the gradient of a log-odds against the first class, at one θ (q,)."""
    codes = jnp.arange(len(structure.class_values))

    def of_row(row: Any) -> jax.Array:
        def log_lik(theta: jax.Array) -> jax.Array:
            return jax.vmap(structure.log_lik_row, in_axes=(None, 0, None))(theta, codes, row)

        slopes = jax.jacrev(log_lik)(theta) @ factor
        return jnp.where(jnp.isfinite(slopes).all(), slopes[1:] - slopes[0], 0.0)

    odds = jax.vmap(of_row)(rows)
    return jnp.einsum("u,uki,ukj->ij", weights, odds, odds)
