"""Kernels of rows whose labels are integrated out: Σ_u w_u g_u(θ) with g_u = log Σ_y exp ℓ_u(y; θ), and its derivatives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from pymc_bpls.engine.newton import kernels
from pymc_bpls.engine.newton.batched_newton import Function, with_derivatives

if TYPE_CHECKING:
    from pymc_bpls.model.structure import Structure

THETAS_AT_ONCE = 64


def weighted_marginal(structure: Structure, weights: jax.Array, rows: Any) -> Function:
    """Σ_u w_u g_u as a function of θ with its derivatives; for kernels, none itself."""
    return with_derivatives(lambda theta: weights @ structure.log_marginal(theta, rows))


def marginal_derivatives(
    structure: Structure, weights: jax.Array, rows: Any, theta: jax.Array, *, apart: bool
) -> tuple[jax.Array, ...]:
    """Log-likelihood of rows without labels, gradient and Hessian."""
    function = weighted_marginal(structure, weights, rows)
    curvature = -kernels.hessian_by_columns(function, theta) if apart else function.curvature(theta)
    return function.value(theta), function.gradient(theta), curvature


def marginal_values(structure: Structure, weights: jax.Array, rows: Any, theta: jax.Array) -> jax.Array:
    """Log-likelihood of rows without labels over draws."""
    function = weighted_marginal(structure, weights, rows)
    return jnp.asarray(jax.lax.map(function.value, theta, batch_size=THETAS_AT_ONCE))
