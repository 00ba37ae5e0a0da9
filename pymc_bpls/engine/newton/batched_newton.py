"""Newton's method in JAX, for many maxima at once under `vmap`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from pymc_bpls.engine.newton.verification import converged, well_conditioned

_MOST_STEPS = 60
_HALVINGS = 12


class Function(NamedTuple):
    """S to maximise: its value, gradient (q,) and curvature −∇²S (q, q) as functions of θ."""

    value: Callable[[jax.Array], jax.Array]
    gradient: Callable[[jax.Array], jax.Array]
    curvature: Callable[[jax.Array], jax.Array]


def with_derivatives(value: Callable[[jax.Array], jax.Array]) -> Function:
    """A function with its derivatives by autodiff."""
    return Function(value, jax.grad(value), lambda theta: -jax.hessian(value)(theta))


class State(NamedTuple):
    """Where an iteration is. `log_det` is that of the curvature at `theta`; `lost` means that it cannot go on."""

    theta: jax.Array
    value: jax.Array
    decrement: jax.Array
    log_det: jax.Array
    steps: jax.Array
    done: jax.Array
    lost: jax.Array


def maximise(function: Function, start: jax.Array, verified_log_det: jax.Array) -> State:
    """Newton's method with a line search; `lost` where the curvature is not positive definite or S stalls.

    Convergence is tested at the very point that is returned, which is near a verified mode with `verified_log_det`.
    """
    sizes = 0.5 ** jnp.arange(_HALVINGS)

    def step(state: State) -> State:
        gradient, curvature = function.gradient(state.theta), function.curvature(state.theta)
        factor = jnp.linalg.cholesky(curvature)
        diagonal = jnp.diagonal(factor)
        definite = jnp.isfinite(factor).all() & well_conditioned(diagonal, jnp.diagonal(curvature))
        direction = jax.scipy.linalg.cho_solve((factor, True), gradient)
        decrement = jnp.sqrt(jnp.maximum(gradient @ direction, 0.0))
        log_det = 2 * jnp.log(diagonal).sum()
        done = definite & converged(decrement, state.decrement, log_det, state.log_det, verified_log_det)
        candidates = state.theta + sizes[:, None] * direction
        values = jax.vmap(function.value)(candidates)
        slack = 1e-12 * (1 + jnp.abs(state.value))
        good = values >= state.value + 1e-4 * sizes * decrement**2 - slack
        first = jnp.argmax(good)
        lost = ~definite | (~done & ~good.any())
        stay = done | lost
        return State(
            theta=jnp.where(stay, state.theta, candidates[first]),
            value=jnp.where(stay, state.value, values[first]),
            decrement=decrement,
            log_det=log_det,
            steps=state.steps + 1,
            done=done,
            lost=lost,
        )

    def unfinished(state: State) -> jax.Array:
        return ~state.done & ~state.lost & (state.steps < _MOST_STEPS)

    no, zero = jnp.asarray(False), jnp.asarray(0)
    first = State(start, function.value(start), jnp.asarray(jnp.inf), jnp.asarray(jnp.nan), zero, no, no)
    return jax.lax.while_loop(unfinished, step, first)
