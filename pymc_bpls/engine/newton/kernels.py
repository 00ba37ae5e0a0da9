"""What the engine compiles: the log-density of a model and its derivatives, for many rows, parameters or candidates at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from pymc_bpls.engine.newton.batched_newton import Function, maximise, with_derivatives

if TYPE_CHECKING:
    from pymc_bpls.model.structure import Rows, Structure

_THETAS_AT_ONCE = 256
_FEW_PREDICTORS = 8


def log_lik_classes(structure: Structure, theta: jax.Array, rows: Any) -> jax.Array:
    """Log-likelihoods of every class."""
    return structure.log_lik_classes(theta, rows)


def log_lik_pairs(structure: Structure, theta: jax.Array, codes: jax.Array, rows: Any) -> jax.Array:
    """Log-likelihoods of pairs over draws."""
    return jax.vmap(structure.log_lik, (0, None, None))(theta, codes, rows).T


def log_factor_pairs(structure: Structure, theta: jax.Array, codes: jax.Array, rows: Any) -> jax.Array:
    """Log conditional probabilities of pairs over draws."""
    return jax.vmap(lambda at: structure.log_factor(at, codes, rows, conditional=True))(theta).T


def log_lik_labeled(structure: Structure, theta: jax.Array, rows: Rows) -> jax.Array:
    """Log-likelihood of D over draws."""

    def at(theta: jax.Array) -> jax.Array:
        return rows.weights @ structure.log_lik(theta, rows.codes, rows.inputs)

    return jax.lax.map(at, theta, batch_size=_THETAS_AT_ONCE)


def log_prior(structure: Structure, theta: jax.Array) -> jax.Array:
    """Log prior over draws."""
    return jax.vmap(structure.log_prior)(theta)


def log_prior_and_gradient(structure: Structure, theta: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Log prior and its gradient."""
    return jax.vmap(jax.value_and_grad(structure.log_prior))(theta)


def log_prior_hessian(structure: Structure, theta: jax.Array) -> jax.Array:
    """Hessian of the log prior."""
    return jax.vmap(jax.hessian(structure.log_prior))(theta)


def log_prior_products(structure: Structure, theta: jax.Array, vectors: jax.Array) -> jax.Array:
    """Products of the Hessian of the log prior with vectors."""
    gradient = jax.grad(structure.log_prior)
    return jax.vmap(lambda v: jax.jvp(gradient, (theta,), (v,))[1])(vectors)


def log_prior_products_at(structure: Structure, theta: jax.Array, vectors: jax.Array) -> jax.Array:
    """The same at several θ."""
    return jax.vmap(lambda at: log_prior_products(structure, at, vectors))(theta)


def design(structure: Structure, theta: jax.Array, rows: Any) -> tuple[jax.Array, jax.Array]:
    """Design matrices of linear predictors."""
    affine_map = structure.affine_map
    assert affine_map is not None
    eta = affine_map.eta

    def of_row(row: Any) -> tuple[jax.Array, jax.Array]:
        one = tuple(values[None] for values in row)
        matrix = jax.jacrev(eta)(theta, *one)
        return matrix, eta(theta, *one) - matrix @ theta

    return jax.vmap(of_row)(rows)


def design_products(structure: Structure, theta: jax.Array, vectors: jax.Array, rows: Any) -> jax.Array:
    """Products of design matrices with vectors."""
    affine_map = structure.affine_map
    assert affine_map is not None
    eta = affine_map.eta

    def of_rows(theta: jax.Array) -> jax.Array:
        return jax.vmap(lambda row: eta(theta, *(values[None] for values in row)))(rows)

    return jax.lax.map(lambda vector: jax.jvp(of_rows, (theta,), (vector,))[1], vectors)


def predictors(structure: Structure, theta: jax.Array, rows: Any) -> jax.Array:
    """Predictors at several θ."""
    affine_map = structure.affine_map
    assert affine_map is not None
    eta = affine_map.eta

    def of_row(theta: jax.Array, row: Any) -> jax.Array:
        return eta(theta, *(values[None] for values in row))

    return jax.vmap(jax.vmap(of_row, (None, 0)), (0, None))(theta, rows)


def log_lik_at(structure: Structure, eta: jax.Array, codes: jax.Array, *inputs: jax.Array) -> jax.Array:
    """Log-likelihoods by linear predictors."""
    return jax.vmap(structure.log_lik_at)(eta, codes, *inputs)


def derivatives_at(structure: Structure, eta: jax.Array, codes: jax.Array, *inputs: jax.Array) -> tuple[jax.Array, ...]:
    """Log-likelihoods by linear predictors, with gradients and Hessians."""
    g, gradient = structure.log_lik_at, _gradient_of(structure)
    hessian = jax.jacfwd(gradient)
    return jax.vmap(lambda *row: (g(*row), gradient(*row), hessian(*row)))(eta, codes, *inputs)


def gradient_at(structure: Structure, eta: jax.Array, codes: jax.Array, *inputs: jax.Array) -> jax.Array:
    """Gradients of log-likelihoods by linear predictors."""
    return jax.vmap(_gradient_of(structure))(eta, codes, *inputs)


def _gradient_of(structure: Structure) -> Callable[..., jax.Array]:
    """∇g, forwards in few predictors, which is less work than backwards."""
    assert structure.affine_map is not None
    return (jax.jacfwd if structure.affine_map.size <= _FEW_PREDICTORS else jax.grad)(structure.log_lik_at)


def log_density(structure: Structure, parts: list[tuple[float, Rows]], *, prior: bool) -> Function:
    """Σ k ℓ over groups (k, rows), plus log π, as a function of θ with its derivatives; for kernels, none itself."""
    return with_derivatives(lambda theta: structure.log_density(theta, parts, prior=prior))


def hessian_by_columns(function: Function, theta: jax.Array) -> jax.Array:
    """The Hessian at θ, one column after the other; for kernels, none itself."""
    gradient = jax.grad(function.value)
    return jax.lax.map(lambda v: jax.jvp(gradient, (theta,), (v,))[1], jnp.eye(theta.shape[0]))


def value_gradient_curvature(structure: Structure, theta: jax.Array, rows: Rows, *, prior: bool) -> tuple[jax.Array, ...]:
    """Log-density, gradient and Hessian."""
    function = log_density(structure, [(1.0, rows)], prior=prior)
    return function.value(theta), function.gradient(theta), function.curvature(theta)


def value_gradient(structure: Structure, theta: jax.Array, rows: Rows, *, prior: bool) -> tuple[jax.Array, ...]:
    """Log-density and gradient."""
    function = log_density(structure, [(1.0, rows)], prior=prior)
    return function.value(theta), function.gradient(theta)


def curvature_by_columns(structure: Structure, theta: jax.Array, rows: Rows, *, prior: bool) -> jax.Array:
    """Hessian of the log-density, column by column."""
    return -hessian_by_columns(log_density(structure, [(1.0, rows)], prior=prior), theta)


def terms(structure: Structure, theta: jax.Array, rows: Rows, pair: Rows, *, conditional: bool) -> tuple[jax.Array, ...]:
    """Terms of a candidate."""
    labeled = rows.weights @ structure.log_lik(theta, rows.codes, rows.inputs)
    pseudo = pair.weights @ structure.log_factor(theta, pair.codes, pair.inputs, conditional=conditional)
    return labeled, pseudo, structure.log_prior(theta)


def refits(
    structure: Structure,
    start: jax.Array,
    log_det: jax.Array,
    pairs: Rows,
    rows: Rows,
    *,
    k: int,
    prior: bool,
    conditional: bool,
) -> tuple[jax.Array, ...]:
    """Refits of candidates."""

    def one(pair: Rows) -> tuple[jax.Array, ...]:
        candidate = jax.tree.map(lambda array: array[None], pair)

        def value(theta: jax.Array) -> jax.Array:
            density = structure.log_density(theta, [(float(k), rows), (1.0, candidate)], prior=prior)
            return density - structure.log_marginal_row(theta, pair.inputs) if conditional else density

        end = maximise(with_derivatives(value), start, log_det)
        return (
            rows.weights @ structure.log_lik(end.theta, rows.codes, rows.inputs),
            structure.log_factor(end.theta, candidate.codes, candidate.inputs, conditional=conditional)[0],
            structure.log_prior(end.theta),
            end.log_det,
            end.done & ~end.lost & jnp.isfinite(end.value),
            end.theta,
        )

    return jax.vmap(one)(pairs)
