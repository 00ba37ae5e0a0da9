"""Refits of a chunk of candidates whose rows have linear predictors: chord steps, then Newton's method, all verified.

A chord step takes gradients at the present point and the curvature of an older one. The first chords take D's curvature H,
changed by what each candidate adds, A_i' C A_i with p rows: with U = H⁻¹A_i' and K = A_i U,

    H_i⁻¹ g = H⁻¹ g − U (I + C K)⁻¹ C A_i H⁻¹ g.

A candidate that they do not finish gets its own curvature, by whose factor a Newton step and chord steps follow, until the test
of `verification` holds. θ (q,) are the coordinates of the objective: the parameters, or those of D's rows with the candidate's
own; and its curvatures are matrices, or what is not zero of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pymc_bpls.engine.newton.curvature import Curvature
from pymc_bpls.engine.newton.line_search import SLACK, search_line
from pymc_bpls.engine.newton.verification import DECREMENT, converged
from pymc_bpls.engine.rows.objective import Factors, RowObjective, RowPoint

_OWN_CHORDS = 3
_MOST_STEPS, _HALVINGS = 20, 12
_OWN_STEPS = 6
#: By this a chord step has to shrink the decrement, of ten; where more are worth while, each has to gain less.
_GAIN, _OF_CHORDS = 0.5, 10
_SIZES = (1.0, 0.5, 0.2)

#: H⁻¹ times gradients (sets, q) of some candidates, by their numbers and rows.
Solve = Callable[[np.ndarray, np.ndarray, Any], np.ndarray]


@dataclass(frozen=True)
class Start:
    """The mode of k ℓ_D [+ log π], where all candidates start: θ (q,), S, −∇²S and its log det, that of the mode itself."""

    theta: np.ndarray
    value: float
    curvature: Curvature
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

    def record(self, sets: np.ndarray, point: RowPoint, log_det: np.ndarray, decrement: np.ndarray) -> None:
        """What is known at a point of some candidates."""
        assert point.pseudo is not None
        self.log_lik[sets], self.pseudo[sets], self.log_prior[sets] = point.log_lik, point.pseudo.value, point.log_prior
        self.log_det[sets], self.decrement[sets] = log_det, decrement


def refit_chunk(objective: RowObjective, start: Start) -> Ends:
    """θ̃_i, log det H_i and whether they are verified, for each candidate of the chunk."""
    theta = _first_chords(objective, start)
    log_lik, pseudo, log_prior, log_det, decrement = np.full((5, len(theta)), np.nan)
    ends = Ends(theta, log_lik, pseudo, log_prior, log_det, decrement, np.zeros(len(theta), dtype=bool))
    active = np.arange(len(ends.theta))
    for _ in range(_MOST_STEPS):
        some = objective.take(active)
        point = some.at(ends.theta[active])
        factors = some.factors(point)
        definite, log_det = factors.definite & point.finite, factors.log_det
        step = factors.solve(point.gradient)
        decrement = _decrements(point.gradient, step)
        arrived = converged(decrement, ends.decrement[active], log_det, ends.log_det[active], start.log_det)
        ends.record(active, point, log_det, decrement)
        ends.done[active] = definite & arrived
        going = np.flatnonzero(definite & ~arrived)
        if not going.size:
            break
        theta, moved, _ = search_line(some.take(going), point.take(going), step[going], decrement[going], _HALVINGS)
        going, theta = going[moved], theta[moved]
        if not going.size:
            break
        solve = partial(_solve, factors.take(going))
        ends.theta[active[going]] = _chords(some.take(going), theta, decrement[going], solve, _OWN_CHORDS, _GAIN)
        active = active[going]
    return ends


def _solve(factors: Factors, gradient: np.ndarray, sets: np.ndarray, pairs: Any) -> np.ndarray:
    return factors.take(sets).solve(gradient)


def _decrements(gradient: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Newton decrements (sets,)."""
    return np.sqrt(np.maximum((gradient * step).sum(axis=1), 0.0))


def _first_chords(objective: RowObjective, start: Start) -> np.ndarray:
    """θ (sets, q) after chords with the curvature at the start, updated by each candidate's own part."""
    pairs = objective.pairs
    sets, p = pairs.offset.shape
    by_start = start.curvature.solver()
    update = by_start(pairs.vectors).reshape(sets, p, -1)
    spread = pairs.own(update)
    own = _own_steps(objective.model, pairs, start, spread)
    core = np.eye(p) + own.curvature @ spread

    def solve(gradient: np.ndarray, some: np.ndarray, rows: Any) -> np.ndarray:
        shared = by_start(gradient)
        pull = own.curvature[some] @ rows.own(shared[:, None])
        return shared - (np.linalg.solve(core[some], pull).transpose(0, 2, 1) @ update[some])[:, 0]

    move = (own.gradient[:, None, :] @ update)[:, 0]
    theta = _best_of(objective, start.theta, move, start.value + own.value)
    gain = _GAIN ** min(1.0, _OF_CHORDS / objective.chords)
    return _chords(objective, theta, np.full(len(theta), np.inf), solve, objective.chords, gain)


def _chords(
    objective: RowObjective, theta: np.ndarray, decrement: np.ndarray, solve: Solve, most: int, gain: float
) -> np.ndarray:
    """θ after chord steps by `solve`, as long as each shrinks a candidate's Newton decrement by the gain."""
    best, decrement = theta.copy(), decrement.copy()
    active = np.arange(len(theta))
    for _ in range(most):
        some = objective.take(active)
        gradient = some.gradient(theta)
        step = solve(gradient, active, some.pairs)
        ahead = _decrements(gradient, step)
        shrinks = ahead <= gain * decrement[active]
        best[active[shrinks]], decrement[active[shrinks]] = theta[shrinks], ahead[shrinks]
        going = shrinks & (ahead > 0.1 * DECREMENT)
        active, theta = active[going], (theta + step)[going]
        if not active.size:
            break
    return best


def _best_of(objective: RowObjective, origin: np.ndarray, move: np.ndarray, stay: np.ndarray) -> np.ndarray:
    """The first of a few points along each move at which S is no smaller than at the origin, where it is `stay`."""
    size, floor = np.zeros(len(move)), stay - SLACK * (1 + np.abs(stay))
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


def _own_steps(model: Any, pairs: Any, start: Start, spread: np.ndarray) -> OwnStep:
    """Where each candidate would move D's mode if ℓ_D + log π were quadratic.

    In its own predictors, with K = A H⁻¹ A', the move u solves u = K ∇g(η + u): p equations, by Newton's method.
    """
    eta = pairs.eta(np.repeat(start.theta[None], len(pairs.codes), axis=0))
    now = model.derivatives_at(eta, pairs.codes, pairs.inputs)
    value, move = now.value, np.zeros_like(eta)
    for _ in range(_OWN_STEPS):
        miss = (spread @ now.gradient[:, :, None])[:, :, 0] - move
        move = move + np.linalg.solve(np.eye(eta.shape[1]) - spread @ now.hessian, miss[:, :, None])[:, :, 0]
        now = model.derivatives_at(eta + move, pairs.codes, pairs.inputs)
    finite = np.isfinite(now.gradient).all(axis=1) & np.isfinite(now.hessian).all(axis=(1, 2))
    return OwnStep(value, np.where(finite[:, None], now.gradient, 0.0), np.where(finite[:, None, None], -now.hessian, 0.0))
