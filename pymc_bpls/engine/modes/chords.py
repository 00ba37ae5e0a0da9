"""Refits of a chunk of candidates whose rows have linear predictors: chord steps, then Newton's method, all verified.

A chord step takes gradients at the present point and the curvature of an older one. The first chords share the inverse
of D's curvature, updated by each candidate's own low-rank part. A curvature costs d / 8 chords or more, so that in many
coordinates more chords are taken, and smaller gains, before there is one. A candidate that they do not finish gets its own
curvature, by whose factor a Newton step and chord steps follow, until the test of `verification` holds. What is called θ (q,)
here are the coordinates of the objective: the parameters, or those of D's rows with the candidate's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.linalg

from pymc_bpls.compute.threads import one_thread_each, side_by_side
from pymc_bpls.engine.modes.objective import Objective, Point
from pymc_bpls.engine.newton.verification import DECREMENT, converged, well_conditioned
from pymc_bpls.engine.rows.affine_rows import Block
from pymc_bpls.engine.rows.reduced_rows import Coordinates

_FEWEST_CHORDS, _CHORDS_A_COORDINATE = 10, 0.125
_OWN_CHORDS = 3
_MOST_STEPS = 20
_HALVINGS = 12
_OWN_STEPS = 6
_GAIN = 0.5
_SIZES = (1.0, 0.5, 0.2)
_SLACK = 1e-12
_FACTORED_FLOATS = 2**17

Solve = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Start:
    """The mode of k ℓ_D [+ log π], where all candidates start: θ (q,), S, −∇²S (q, q) and its log det."""

    theta: np.ndarray
    value: float
    curvature: np.ndarray
    log_det: float


@dataclass
class Ends:
    """Where the candidates of a chunk have come to: θ (sets, q) and the terms of S there, (sets,) each."""

    theta: np.ndarray
    log_lik: np.ndarray
    pseudo: np.ndarray
    log_prior: np.ndarray
    log_det: np.ndarray
    decrement: np.ndarray
    done: np.ndarray

    def record(self, sets: np.ndarray, point: Point, log_det: np.ndarray, decrement: np.ndarray) -> None:
        """What is known at a point of some candidates."""
        assert point.pseudo is not None
        self.log_lik[sets], self.pseudo[sets], self.log_prior[sets] = point.log_lik, point.pseudo.value, point.log_prior
        self.log_det[sets], self.decrement[sets] = log_det, decrement


def refit_chunk(objective: Objective, start: Start) -> Ends:
    """θ̃_i, log det H_i and whether they are verified, for each candidate of the chunk."""
    theta = _first_chords(objective, start)
    log_lik, pseudo, log_prior, log_det, decrement = np.full((5, len(theta)), np.nan)
    ends = Ends(theta, log_lik, pseudo, log_prior, log_det, decrement, np.zeros(len(theta), dtype=bool))
    active = np.arange(len(ends.theta))
    for _ in range(_MOST_STEPS):
        some = objective.take(active)
        point = some.at(ends.theta[active])
        factors, definite = _factors(some, point)
        step, decrement = _newton_steps(factors, point.gradient)
        log_det = 2 * np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
        arrived = converged(decrement, ends.decrement[active], log_det, ends.log_det[active], start.log_det)
        ends.record(active, point, log_det, decrement)
        ends.done[active] = definite & arrived & np.isfinite(point.value)
        going = np.flatnonzero(definite & ~arrived)
        theta, moved = _line_search(some.take(going), point.theta[going], point.value[going], step[going], decrement[going])
        going, theta = going[moved], theta[moved]
        if not going.size:
            break
        solve = partial(_solve, factors[going])
        ends.theta[active[going]] = _chords(some.take(going), theta, decrement[going], solve, _OWN_CHORDS, _GAIN)
        active = active[going]
    return ends


def _factors(objective: Objective, point: Point) -> tuple[np.ndarray, np.ndarray]:
    """Cholesky factors (sets, q, q) of the curvatures, and which are positive definite and well conditioned."""
    sets, q = point.theta.shape
    size = max(1, _FACTORED_FLOATS // (q * max(q, objective.labeled.flat.shape[0])))
    pieces = [slice(first, first + size) for first in range(0, sets, size)]
    precision = objective.precision(point)
    with one_thread_each(len(pieces)):
        parts = side_by_side(lambda piece: _factor(objective.curvature(point, piece, precision)), pieces)
        factors, definite = zip(*parts, strict=True)
    return np.concatenate(factors), np.concatenate(definite)


def _factor(curvature: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    try:
        factor = np.linalg.cholesky(curvature)
    except np.linalg.LinAlgError:
        factor = np.stack([_one_factor(matrix) for matrix in curvature])
    return factor, well_conditioned(np.diagonal(factor, axis1=1, axis2=2), np.diagonal(curvature, axis1=1, axis2=2))


def _one_factor(matrix: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return np.full_like(matrix, np.nan)


def _newton_steps(factors: np.ndarray, gradient: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """H⁻¹ g and the Newton decrement of each set."""
    step = np.empty_like(gradient)
    for i, (lower, g) in enumerate(zip(factors, gradient, strict=True)):
        step[i] = scipy.linalg.lapack.dpotrs(lower.T, g, lower=0)[0]
    return step, np.sqrt(np.maximum((gradient * step).sum(axis=1), 0.0))


def _solve(factors: np.ndarray, gradient: np.ndarray, sets: np.ndarray) -> np.ndarray:
    return _newton_steps(factors[sets], gradient)[0]


def _line_search(
    objective: Objective, theta: np.ndarray, value: np.ndarray, step: np.ndarray, decrement: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Each set's step, halved until S increases, and for which sets it does."""
    size, floor = np.ones(len(theta)), value - _SLACK * (1 + np.abs(value))
    undecided = np.arange(len(theta))
    for _ in range(_HALVINGS):
        if not undecided.size:
            break
        ahead = objective.take(undecided).at(theta[undecided] + size[undecided, None] * step[undecided]).value
        undecided = undecided[~(ahead >= (floor + 1e-4 * size * decrement**2)[undecided])]
        size[undecided] *= 0.5
    return theta + size[:, None] * step, ~np.isin(np.arange(len(theta)), undecided)


def _first_chords(objective: Objective, start: Start) -> np.ndarray:
    """θ (sets, q) after chords with the curvature at the start, updated by each candidate's own part."""
    pairs = objective.pairs
    assert pairs is not None
    inverse = scipy.linalg.cho_solve((scipy.linalg.cholesky(start.curvature, lower=True), True), np.eye(len(start.theta)))
    matrix = pairs.matrix
    update = matrix @ inverse
    spread = update @ matrix.transpose(0, 2, 1)
    own = _own_steps(objective.model, pairs, start, spread)
    core = np.eye(matrix.shape[1]) + own.curvature @ spread

    def solve(gradient: np.ndarray, sets: np.ndarray) -> np.ndarray:
        shared = gradient @ inverse
        pull = own.curvature[sets] @ (matrix[sets] @ shared[:, :, None])
        return shared - (np.linalg.solve(core[sets], pull).transpose(0, 2, 1) @ update[sets])[:, 0]

    move = (own.gradient[:, None, :] @ update)[:, 0]
    theta = _best_of(objective, start.theta, move, start.value + own.value)
    most = max(_FEWEST_CHORDS, int(_CHORDS_A_COORDINATE * len(start.theta)))
    factor = _GAIN ** (_FEWEST_CHORDS / most)
    return _chords(objective, theta, np.full(len(theta), np.inf), solve, most, factor)


def _chords(
    objective: Objective, theta: np.ndarray, decrement: np.ndarray, solve: Solve, most: int, factor: float
) -> np.ndarray:
    """θ after chord steps `solve(gradient, sets)`, as long as each shrinks a candidate's Newton decrement by the factor."""
    best, decrement = theta.copy(), decrement.copy()
    active = np.arange(len(theta))
    for _ in range(most):
        gradient = objective.take(active).gradient(theta)
        step = solve(gradient, active)
        ahead = np.sqrt(np.maximum((gradient * step).sum(axis=1), 0.0))
        shrinks = ahead <= factor * decrement[active]
        best[active[shrinks]], decrement[active[shrinks]] = theta[shrinks], ahead[shrinks]
        going = shrinks & (ahead > 0.1 * DECREMENT)
        active, theta = active[going], (theta + step)[going]
        if not active.size:
            break
    return best


def _best_of(objective: Objective, origin: np.ndarray, move: np.ndarray, stay: np.ndarray) -> np.ndarray:
    """The first of a few points along each move at which S is no smaller than at the origin, where it is `stay`."""
    size, floor = np.zeros(len(move)), stay - _SLACK * (1 + np.abs(stay))
    undecided = np.arange(len(move))
    for fraction in _SIZES:
        value = objective.take(undecided).at(origin + fraction * move[undecided]).value
        good = value >= floor[undecided]
        size[undecided[good]] = fraction
        undecided = undecided[~good]
        if not undecided.size:
            break
    return origin + size[:, None] * move


class OwnStep(NamedTuple):
    """ℓ_i (sets,) at D's mode; ∇g (sets, p) and −∇²g (sets, p, p) of the candidate where it would move D's mode to."""

    value: np.ndarray
    gradient: np.ndarray
    curvature: np.ndarray


def _own_steps(model: Coordinates, pairs: Block, start: Start, spread: np.ndarray) -> OwnStep:
    """Where each candidate would move D's mode if ℓ_D + log π were quadratic.

    In its own predictors, with K = A H⁻¹ A', the move u solves u = K ∇g(η + u): p equations, by Newton's method.
    """
    eta = pairs.matrix @ start.theta + pairs.offset
    now = model.derivatives_at(eta, pairs.codes, pairs.inputs)
    value, move = now.value, np.zeros_like(eta)
    for _ in range(_OWN_STEPS):
        miss = (spread @ now.gradient[:, :, None])[:, :, 0] - move
        move = move + np.linalg.solve(np.eye(eta.shape[1]) - spread @ now.hessian, miss[:, :, None])[:, :, 0]
        now = model.derivatives_at(eta + move, pairs.codes, pairs.inputs)
    finite = np.isfinite(now.gradient).all(axis=1) & np.isfinite(now.hessian).all(axis=(1, 2))
    return OwnStep(value, np.where(finite[:, None], now.gradient, 0.0), np.where(finite[:, None, None], -now.hessian, 0.0))
