"""Parameters that PyMC rejects, at which a log-likelihood is NaN: the density is 0 there."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def nothing_if_rejected(log_lik: jax.Array) -> jax.Array:
    """ℓ with −∞ in place of NaN, where PyMC rejects parameters: their density is 0. NaN where all are rejected along axis 0."""
    rejected = jnp.isnan(log_lik)
    return jnp.where(rejected & ~rejected.all(axis=0), -jnp.inf, log_lik)
