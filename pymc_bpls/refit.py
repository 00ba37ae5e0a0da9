"""Refits of many candidates at once: for each, the mode of S_i(θ) = k ℓ_D(θ) + ℓ_i(θ) + log π(θ) and log det H_i there.

Newton's method with a line search, `vmap`ped over a chunk of candidates of fixed size, from the mode that they share. A
candidate that does not converge in the batch is tried again by itself (`laplace.find_mode`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pymc_bpls.compiled import Compiler
from pymc_bpls.density import Density
from pymc_bpls.errors import ModeError
from pymc_bpls.laplace import (
    DECREMENT,
    LOG_DET_CHANGE,
    ROUNDED_DECREMENT,
    SINGULAR,
    Mode,
    find_mode,
)
from pymc_bpls.rows import Labeled

CHUNK_BYTES = 256 * 2**20
_MOST_STEPS = 60
_LARGEST_CHUNK = 64
_HALVINGS = 12


@dataclass(frozen=True)
class Refits:
    """The terms of S_i at θ̃_i for each pair i, all of shape (pairs,), and the modes (pairs, q)."""

    log_lik_labeled: np.ndarray
    log_lik_pseudo: np.ndarray
    log_prior: np.ndarray
    log_det: np.ndarray
    converged: np.ndarray
    theta: np.ndarray


class _State(NamedTuple):
    theta: jax.Array
    value: jax.Array
    decrement: jax.Array
    log_det: jax.Array
    steps: jax.Array
    done: jax.Array
    lost: jax.Array


@dataclass(frozen=True)
class Engine:
    """Fits and refits of one density, compiled once for each padded size of D."""

    density: Density
    compiler: Compiler
    chunk_bytes: int = CHUNK_BYTES

    def arrays(self, labeled: Labeled, k: float = 1.0) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
        """Padded weights (times k), codes and row inputs of D."""
        padded = labeled.padded()
        return k * padded.weights, padded.codes, self.density.take(padded.positions)

    def fit(
        self,
        labeled: Labeled,
        start: np.ndarray | None = None,
        *,
        k: float = 1.0,
        prior: bool = True,
        extra: tuple[int, int] | None = None,
    ) -> Mode:
        """The verified mode of k ℓ_D + log π, and of ℓ_i besides where `extra` is (row, class)."""
        rows = labeled if extra is None else labeled.with_rows(np.array([extra[0]]), np.array([extra[1]]), 1.0 / k)
        data = self.arrays(rows, k)

        def derivatives(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
            name = "the log-posterior" if prior else "the likelihood"
            value, gradient, hessian = self.compiler(name, self._derivatives(prior), theta, *data)
            return float(value), gradient, hessian

        return find_mode(
            derivatives,
            self.density.start if start is None else start,
            self.density.parameters.labels,
            prior=prior,
            n_rows=len(rows),
        )

    def _derivatives(self, prior: bool) -> Callable[..., Any]:
        def objective(theta: jax.Array, weights: jax.Array, codes: jax.Array, rows: Any) -> jax.Array:
            return self.density.objective(theta, weights, codes, rows, prior)

        def derivatives(theta: jax.Array, *data: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
            value, gradient = jax.value_and_grad(objective)(theta, *data)
            return value, gradient, -jax.hessian(objective)(theta, *data)

        return derivatives

    def chunk(self, *, per_pair: int) -> int:
        """Pairs in a chunk, so that `per_pair` floats each stay below `chunk_bytes`; a power of two."""
        most = max(1, self.chunk_bytes // (8 * per_pair))
        return min(_LARGEST_CHUNK, 1 << (most.bit_length() - 1))

    def refit(
        self, labeled: Labeled, positions: np.ndarray, codes: np.ndarray, start: np.ndarray, *, k: int, prior: bool
    ) -> Refits:
        """Refit every pair (row `positions[i]`, class `codes[i]`) from the shared `start`."""
        q, data = self.density.dimension, self.arrays(labeled)
        size = self.chunk(per_pair=6 * q * q + 4 * q * len(data[0]))
        name = f"refits (k = {k}, {'with' if prior else 'without'} the prior)"
        parts = []
        for first in range(0, len(positions), size):
            picked = np.resize(np.arange(first, min(first + size, len(positions))), size)
            part = self.compiler(
                name,
                self._refit_chunk(k, prior),
                start,
                codes[picked],
                self.density.take(positions[picked]),
                *data,
            )
            parts.append([array[: len(positions) - first] for array in part])
        refits = Refits(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
        return self._retry(refits, labeled, positions, codes, start, k=k, prior=prior)

    def _refit_chunk(self, k: int, prior: bool) -> Callable[..., Any]:
        def chunk(start: jax.Array, codes: jax.Array, rows: Any, *data: Any) -> tuple[jax.Array, ...]:
            one = lambda code, row: self._refit_one(start, code, row, data, k, prior)  # noqa: E731
            return jax.vmap(one)(codes, rows)

        return chunk

    def _refit_one(self, start: jax.Array, code: jax.Array, row: Any, data: Any, k: int, prior: bool) -> tuple[jax.Array, ...]:
        weights, label_codes, rows = data

        def objective(theta: jax.Array) -> jax.Array:
            labeled = self.density.objective(theta, k * weights, label_codes, rows, prior)
            return labeled + self.density.log_lik_row(theta, code, row)

        end = maximise(objective, start)
        log_lik_labeled = weights @ self.density.log_lik(end.theta, label_codes, rows)
        return (
            log_lik_labeled,
            self.density.log_lik_row(end.theta, code, row),
            self.density.prior(end.theta),
            end.log_det,
            end.done & ~end.lost & jnp.isfinite(end.value),
            end.theta,
        )

    def _retry(
        self,
        refits: Refits,
        labeled: Labeled,
        positions: np.ndarray,
        codes: np.ndarray,
        start: np.ndarray,
        *,
        k: int,
        prior: bool,
    ) -> Refits:
        """Candidates that the batch lost, one by one; those without a mode have NaN terms and `converged` False."""
        for i in np.flatnonzero(~refits.converged):
            values = np.full(4, np.nan)
            try:
                mode = self.fit(labeled, start, k=k, prior=prior, extra=(int(positions[i]), int(codes[i])))
            except ModeError:
                pass
            else:
                terms = self.terms(mode.theta, labeled, int(positions[i]), int(codes[i]))
                values = np.array([*terms, mode.log_det])
                refits.theta[i], refits.converged[i] = mode.theta, True
            refits.log_lik_labeled[i], refits.log_lik_pseudo[i], refits.log_prior[i], refits.log_det[i] = values
        return refits

    def terms(self, theta: np.ndarray, labeled: Labeled, position: int, code: int) -> tuple[float, float, float]:
        """ℓ_D, ℓ_i and log π at θ."""

        def terms(theta: jax.Array, code: jax.Array, row: Any, weights: Any, codes: Any, rows: Any) -> Any:
            density = self.density
            return (
                weights @ density.log_lik(theta, codes, rows),
                density.log_lik_row(theta, code, row),
                density.prior(theta),
            )

        row = tuple(values[position] for values in self.density.data)
        values = self.compiler("terms", terms, theta, np.asarray(code), row, *self.arrays(labeled))
        return float(values[0]), float(values[1]), float(values[2])


def maximise(objective: Callable[[jax.Array], jax.Array], start: jax.Array) -> _State:
    """Newton's method in JAX for a strictly concave neighbourhood; `lost` where H is not positive definite or S stalls.

    Convergence is tested as in `laplace.newton`, with H and log det H at the very point that is returned.
    """
    sizes = 0.5 ** jnp.arange(_HALVINGS)
    gradient_of, hessian_of = jax.grad(objective), jax.hessian(objective)

    def step(state: _State) -> _State:
        gradient, hessian = gradient_of(state.theta), -hessian_of(state.theta)
        factor = jnp.linalg.cholesky(hessian)
        diagonal = jnp.diagonal(factor)
        definite = jnp.isfinite(factor).all() & ((diagonal**2 / jnp.diagonal(hessian)).min() > SINGULAR)
        direction = jax.scipy.linalg.cho_solve((factor, True), gradient)
        decrement = jnp.sqrt(jnp.maximum(gradient @ direction, 0.0))
        log_det = 2 * jnp.log(diagonal).sum()
        small = (decrement <= DECREMENT) | ((decrement <= ROUNDED_DECREMENT) & (decrement >= 0.5 * state.decrement))
        done = definite & small & (jnp.abs(log_det - state.log_det) <= LOG_DET_CHANGE)
        candidates = state.theta + sizes[:, None] * direction
        values = jax.vmap(objective)(candidates)
        slack = 1e-12 * (1 + jnp.abs(state.value))
        good = values >= state.value + 1e-4 * sizes * decrement**2 - slack
        first = jnp.argmax(good)
        lost = ~definite | (~done & ~good.any())
        stay = done | lost
        return _State(
            theta=jnp.where(stay, state.theta, candidates[first]),
            value=jnp.where(stay, state.value, values[first]),
            decrement=decrement,
            log_det=log_det,
            steps=state.steps + 1,
            done=done,
            lost=lost,
        )

    def unfinished(state: _State) -> jax.Array:
        return ~state.done & ~state.lost & (state.steps < _MOST_STEPS)

    no, zero = jnp.asarray(False), jnp.asarray(0)
    first = _State(start, objective(start), jnp.asarray(jnp.inf), jnp.asarray(jnp.nan), zero, no, no)
    return jax.lax.while_loop(unfinished, step, first)
