"""Fits and refits in the linear predictors: η_j = A_j θ + b_j with few entries, ℓ_j = g(η_j).

With w_j the weights, G_j and W_j the gradient and Hessian of g at η_j,

    ∇ Σ w_j ℓ_j = Σ w_j A_j' G_j,   ∇² Σ w_j ℓ_j = Σ w_j A_j' W_j A_j:

JAX gives g and its derivatives, elementwise, and BLAS and LAPACK do the rest for a whole chunk of candidates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from pymc_bpls.compiled import Compiler
from pymc_bpls.density import Density
from pymc_bpls.laplace import DECREMENT, LOG_DET_CHANGE, ROUNDED_DECREMENT, SAME_BASIN, SINGULAR, Mode
from pymc_bpls.rows import Labeled

_ROWS_AT_ONCE = 1024
_MOST_CHORDS = 10
_MOST_STEPS = 20
_HALVINGS = 12
_OWN_STEPS = 6
_CHORD_FACTOR = 0.5
_SIZES = (0.5, 0.2, 0.0)


@dataclass(frozen=True)
class Design:
    """A (N, p, q) and b (N, p) of the table."""

    matrix: np.ndarray
    offset: np.ndarray


@dataclass(frozen=True)
class Block:
    """Rows with their classes, weights and design, as the derivatives take them."""

    matrix: np.ndarray
    offset: np.ndarray
    weights: np.ndarray
    codes: np.ndarray
    inputs: tuple[np.ndarray, ...]

    @property
    def flat(self) -> np.ndarray:
        """A as one matrix (n · p, q)."""
        return self.matrix.reshape(-1, self.matrix.shape[-1])

    def eta(self, theta: np.ndarray) -> np.ndarray:
        """Each row's η (n, p) at its own θ (n, q)."""
        return np.einsum("cpq,cq->cp", self.matrix, theta) + self.offset

    def at(self, eta: np.ndarray) -> Eta:
        """What the derivatives at η (sets, n, p), or (n, p) for one set, take."""
        return eta if eta.ndim == 3 else eta[None], self.codes, self.inputs


Eta = tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]


@dataclass(frozen=True)
class Point:
    """S, its gradient and what its curvature is made of, at one θ for each candidate."""

    theta: np.ndarray
    value: np.ndarray
    gradient: np.ndarray
    labeled: tuple[np.ndarray, np.ndarray, np.ndarray]
    pseudo: tuple[np.ndarray, np.ndarray, np.ndarray] | None
    log_prior: np.ndarray


@dataclass(frozen=True)
class Structured:
    """A density whose rows have linear predictors."""

    density: Density
    compiler: Compiler

    @cached_property
    def design(self) -> Design:
        """A_j = ∂η_j/∂θ and b_j = η_j(0), for all rows of the table."""
        predictors = self.density.predictors
        assert predictors is not None
        start = self.density.start

        def affine(theta: jax.Array, rows: Any) -> tuple[jax.Array, jax.Array]:
            def of_row(row: Any) -> tuple[jax.Array, jax.Array]:
                one = tuple(values[None] for values in row)
                matrix = jax.jacrev(predictors.eta)(theta, *one)
                return matrix, predictors.eta(theta, *one) - matrix @ theta

            return jax.vmap(of_row)(rows)

        n = len(self.density.data[0])
        size = min(_ROWS_AT_ONCE, 1 << (max(n, 2) - 1).bit_length())
        matrix, offset = np.empty((n, predictors.size, len(start))), np.empty((n, predictors.size))
        for first in range(0, n, size):
            rows = np.arange(first, min(first + size, n))
            part = self.compiler("linear predictors", affine, start, self.density.take(np.resize(rows, size)))
            matrix[rows], offset[rows] = part[0][: len(rows)], part[1][: len(rows)]
        return Design(matrix, offset)

    def block(self, positions: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Block:
        """Rows of the table."""
        design = self.design
        return Block(design.matrix[positions], design.offset[positions], weights, codes, self.density.take(positions))

    def labeled_block(self, labeled: Labeled, k: float = 1.0) -> Block:
        """D, padded, its weights times k."""
        padded = labeled.padded()
        return self.block(padded.positions, padded.codes, k * padded.weights)

    def all_derivatives(self, theta: np.ndarray, rows: Eta, pairs: Eta | None) -> Any:
        """Of g at the η of rows (sets, n, p) and of pairs (1, sets, p), and of log π at θ (sets, q), in one call.

        Each part is a value, a gradient and, for g, a Hessian in η.
        """

        def of_row(*arguments: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
            bends = jax.jacfwd(jax.jacfwd(self._of_row))
            return self._of_row(*arguments), jax.jacfwd(self._of_row)(*arguments), bends(*arguments)

        by_set = jax.vmap(jax.vmap(of_row), (0, None, None))

        def together(theta: jax.Array, *blocks: Any) -> tuple[Any, ...]:
            return jax.vmap(jax.value_and_grad(self.density.prior))(theta), *(by_set(*block) for block in blocks)

        return self.compiler("derivatives", together, theta, *(block for block in (rows, pairs) if block is not None))

    def slopes(self, theta: np.ndarray, rows: Eta, pairs: Eta) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The gradients alone: of g in η of rows (sets, n, p) and of pairs (1, sets, p), and of log π (sets, q)."""
        by_set = jax.vmap(jax.vmap(jax.jacfwd(self._of_row)), (0, None, None))

        def together(theta: jax.Array, rows: Any, pairs: Any) -> tuple[Any, ...]:
            return by_set(*rows), by_set(*pairs), jax.vmap(jax.grad(self.density.prior))(theta)

        return self.compiler("slopes", together, theta, rows, pairs)

    def _of_row(self, eta: jax.Array, code: jax.Array, row: Any) -> jax.Array:
        """g of one row."""
        predictors = self.density.predictors
        assert predictors is not None
        label = jnp.asarray(self.density.class_values)[code][None]
        return predictors.log_lik(eta, label, *(values[None] for values in row))

    def prior_hessian(self, theta: np.ndarray) -> np.ndarray:
        """∇² log π at θ (sets, q): shape (sets, q, q), or (q, q) under Gaussian priors, where it is the same for all θ."""
        if self._constant_prior_hessian is not None:
            return self._constant_prior_hessian
        return self.compiler("prior Hessian", jax.vmap(jax.hessian(self.density.prior)), theta)

    @cached_property
    def _constant_prior_hessian(self) -> np.ndarray | None:
        start = self.density.start
        points = start + np.random.default_rng(0).normal(size=(4, len(start)))
        hessians = self.compiler("prior Hessian", jax.vmap(jax.hessian(self.density.prior)), points)
        return hessians[0] if np.allclose(hessians, hessians[0], rtol=1e-13, atol=0) else None

    def derivatives(self, block: Block, prior: bool) -> Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray]]:
        """Value, gradient and curvature of Σ w_j ℓ_j (+ log π) as `laplace.find_mode` takes them."""
        objective = Objective(self, block, None, prior)

        def at(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
            point = objective.at(theta[None])
            return float(point.value[0]), point.gradient[0], objective.curvature(point, np.arange(1))[0]

        return at

    def terms(self, theta: np.ndarray, labeled: Labeled, pair: Block) -> tuple[float, float, float]:
        """ℓ_D, ℓ_i and log π at θ."""
        point = Objective(self, self.labeled_block(labeled), pair, True).at(theta[None])
        assert point.pseudo is not None
        return float(point.labeled[0][0]), float(point.pseudo[0][0]), float(point.log_prior[0])


@dataclass(frozen=True)
class Objective:
    """S_i(θ) = Σ_D w_j ℓ_j + ℓ_i (+ log π) for a chunk of candidates i at once, or without any candidate."""

    model: Structured
    labeled: Block
    pairs: Block | None
    prior: bool

    def at(self, theta: np.ndarray) -> Point:
        """Value and gradient at θ (sets, q)."""
        block = self.labeled
        sets, (n, p, _) = len(theta), block.matrix.shape
        eta = (theta @ block.flat.T).reshape(sets, n, p) + block.offset
        own = None if self.pairs is None else self.pairs.at(self.pairs.eta(theta))
        (log_prior, prior_gradient), *parts = self.model.all_derivatives(theta, block.at(eta), own)
        log_lik, slopes, bends = parts[0]
        value = log_lik @ block.weights
        gradient = (block.weights[:, None] * slopes).reshape(sets, n * p) @ block.flat
        labeled, pseudo = (value, slopes, bends), None
        if self.pairs is not None:
            pseudo = pair_value, pair_slopes, _ = tuple(array[0] for array in parts[1])
            value = value + pair_value
            gradient = gradient + np.einsum("cp,cpq->cq", pair_slopes, self.pairs.matrix)
        if self.prior:
            value, gradient = value + log_prior, gradient + prior_gradient
        return Point(theta, value, gradient, labeled, pseudo, log_prior)

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Gradient (sets, q) alone."""
        block, pairs = self.labeled, self.pairs
        assert pairs is not None
        sets, (n, p, _) = len(theta), block.matrix.shape
        eta = (theta @ block.flat.T).reshape(sets, n, p) + block.offset
        slopes, own, prior = self.model.slopes(theta, block.at(eta), pairs.at(pairs.eta(theta)))
        total = (block.weights[:, None] * slopes).reshape(sets, n * p) @ block.flat
        total += np.einsum("cp,cpq->cq", own[0], pairs.matrix)
        return total + prior if self.prior else total

    def curvature(self, point: Point, sets: np.ndarray) -> np.ndarray:
        """−∇²S at some of the point's sets, shape (len(sets), q, q)."""
        block = self.labeled
        m, (n, p, q) = len(sets), block.matrix.shape
        weighted = -block.weights[:, None, None] * point.labeled[2][sets]
        if p == 1:
            scaled = block.flat.T * weighted.reshape(m, 1, n)
            total = (scaled.reshape(m * q, n) @ block.flat).reshape(m, q, q)
        else:
            total = block.flat.T @ np.matmul(weighted, block.matrix).reshape(m, n * p, q)
        if self.pairs is not None and point.pseudo is not None:
            matrix = self.pairs.matrix[sets]
            total -= matrix.transpose(0, 2, 1) @ (point.pseudo[2][sets] @ matrix)
        if self.prior:
            total -= _of_sets(self.model.prior_hessian(point.theta), sets)
        return total


def _of_sets(hessians: np.ndarray, sets: np.ndarray) -> np.ndarray:
    return hessians if hessians.ndim == 2 else hessians[sets]


def refit_chunk(objective: Objective, start: Mode) -> tuple[Point, np.ndarray, np.ndarray]:
    """θ̃_i, log det H_i and whether they are verified, for each candidate of the chunk."""
    point = _chord(objective, start)
    sets = len(point.theta)
    done, lost = np.zeros(sets, dtype=bool), np.zeros(sets, dtype=bool)
    log_det, decrement = np.full(sets, np.nan), np.full(sets, np.inf)
    for _ in range(_MOST_STEPS):
        active = np.flatnonzero(~done & ~lost)
        factor, definite = _factors(objective.curvature(point, active))
        step, size = _newton_step(factor, point.gradient[active])
        now = 2 * np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
        small = (size <= DECREMENT) | ((size <= ROUNDED_DECREMENT) & (size >= 0.5 * decrement[active]))
        settled = (np.abs(now - log_det[active]) <= LOG_DET_CHANGE) | (now >= start.log_det - SAME_BASIN)
        log_det[active], decrement[active] = now, size
        done[active], lost[active] = definite & small & settled, ~definite
        going = ~done & ~lost
        if not going.any():
            break
        steps = np.zeros_like(point.theta)
        steps[active] = step
        point, moved = _line_search(objective, point, np.where(going[:, None], steps, 0.0), decrement)
        lost |= going & ~moved
    return point, log_det, done & np.isfinite(point.value)


def _chord(objective: Objective, start: Mode) -> Point:
    """Steps with the curvature at the start: D's inverse, shared, updated by each candidate's low-rank own part."""
    pairs = objective.pairs
    assert pairs is not None
    inverse = scipy.linalg.cho_solve((scipy.linalg.cholesky(start.hessian, lower=True), True), np.eye(len(start.theta)))
    matrix = pairs.matrix
    update = matrix @ inverse
    theta, curvature = _own_step(objective, start, update)
    core = np.eye(matrix.shape[1]) + curvature @ (update @ matrix.transpose(0, 2, 1))

    def solve(gradient: np.ndarray) -> np.ndarray:
        shared = gradient @ inverse
        own = curvature @ np.einsum("cpq,cq->cp", matrix, shared)[:, :, None]
        return shared - np.einsum("cp,cpq->cq", np.linalg.solve(core, own)[:, :, 0], update)

    theta = _best_of(objective, start, theta - start.theta)
    gradient = objective.gradient(theta)
    best, decrement = theta, np.full(len(theta), np.inf)
    for _ in range(_MOST_CHORDS):
        step = solve(gradient)
        ahead = np.sqrt(np.maximum((gradient * step).sum(axis=1), 0.0))
        shrinks = ahead <= _CHORD_FACTOR * decrement
        best = np.where(shrinks[:, None], theta, best)
        decrement = np.where(shrinks, ahead, decrement)
        going = shrinks & (ahead > 0.1 * DECREMENT)
        if not going.any():
            break
        theta = np.where(going[:, None], theta + step, best)
        gradient = objective.gradient(theta)
    return objective.at(best)


def _best_of(objective: Objective, start: Mode, move: np.ndarray) -> np.ndarray:
    """The point along each move at which S is largest, of a few: the whole move where that is better than staying."""
    assert objective.pairs is not None
    origin = np.repeat(start.theta[None], len(move), axis=0)
    stay, size = objective.at(origin).value, np.ones(len(move))
    for smaller in _SIZES:
        worse = ~(objective.at(origin + size[:, None] * move).value >= stay) & (size > 0)
        if not worse.any():
            break
        size = np.where(worse, smaller, size)
    return origin + size[:, None] * move


def _own_step(objective: Objective, start: Mode, update: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each candidate would move D's mode if ℓ_D + log π were quadratic, and −∇²g of the candidate there.

    In its own predictors, with K = A H⁻¹ A', the move u solves u = K ∇g(η + u): p equations, by Newton's method.
    """
    pairs = objective.pairs
    assert pairs is not None
    p = pairs.matrix.shape[1]
    eta = pairs.matrix @ start.theta + pairs.offset
    spread = update @ pairs.matrix.transpose(0, 2, 1)
    move = np.zeros_like(eta)
    for _ in range(_OWN_STEPS):
        slopes, bends = _own_derivatives(objective.model, eta + move, pairs)
        miss = np.einsum("cpr,cr->cp", spread, slopes) - move
        move = move + np.linalg.solve(np.eye(p) - spread @ bends, miss[:, :, None])[:, :, 0]
    slopes, bends = _own_derivatives(objective.model, eta + move, pairs)
    found = np.isfinite(slopes).all(axis=1) & np.isfinite(bends).all(axis=(1, 2))
    slopes, bends = np.where(found[:, None], slopes, 0.0), np.where(found[:, None, None], bends, 0.0)
    return start.theta + np.einsum("cp,cpq->cq", slopes, update), -bends


def _own_derivatives(model: Structured, eta: np.ndarray, pairs: Block) -> tuple[np.ndarray, np.ndarray]:
    _, (_, slopes, bends) = model.all_derivatives(model.density.start[None], pairs.at(eta), None)
    return slopes[0], bends[0]


def _factors(curvature: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cholesky factors (sets, q, q), and which matrices are positive definite and well conditioned."""
    try:
        factor = np.linalg.cholesky(curvature)
    except np.linalg.LinAlgError:
        factor = np.stack([_one_factor(matrix) for matrix in curvature])
    pivots = np.diagonal(factor, axis1=1, axis2=2) ** 2 / np.diagonal(curvature, axis1=1, axis2=2)
    return factor, np.all(pivots > SINGULAR, axis=1)


def _one_factor(matrix: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return np.full_like(matrix, np.nan)


def _newton_step(factor: np.ndarray, gradient: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """H⁻¹ g and the Newton decrement of each set."""
    step = np.empty_like(gradient)
    for i, (lower, g) in enumerate(zip(factor, gradient, strict=True)):
        step[i] = scipy.linalg.lapack.dpotrs(lower.T, g, lower=0)[0]
    return step, np.sqrt(np.maximum((gradient * step).sum(axis=1), 0.0))


def _line_search(objective: Objective, point: Point, step: np.ndarray, decrement: np.ndarray) -> tuple[Point, np.ndarray]:
    """Each set's step, halved until S increases; sets for which it never does stay where they are."""
    size = np.ones(len(step))
    slack = 1e-12 * (1 + np.abs(point.value))
    for _ in range(_HALVINGS):
        ahead = objective.at(point.theta + size[:, None] * step)
        good = ahead.value >= point.value + 1e-4 * size * decrement**2 - slack
        good |= ~step.any(axis=1)
        if good.all():
            return ahead, good
        size = np.where(good, size, 0.5 * size)
    return objective.at(np.where(good[:, None], ahead.theta, point.theta)), good
