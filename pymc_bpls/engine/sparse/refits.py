"""Refits of many candidates from one sparse factor: chord steps, then Newton steps with factors of their own, all verified.

A candidate changes D's curvature by A_i' C A_i, p rows: with U = H⁻¹A_i' and K = A_i U, its chord steps take
H_i⁻¹ g = H⁻¹ g − U (I + C K)⁻¹ C A_i H⁻¹ g. All candidates of a chunk are worked on together, and H itself is factored once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_bpls.engine.newton.verification import DECREMENT, converged, well_explained
from pymc_bpls.engine.sparse.newton import SparseMaximum
from pymc_bpls.engine.sparse.objective import SparseObjective, SparsePoint
from pymc_bpls.engine.sparse.rows import SparseBlock

_CHORDS, _OWN_STEPS, _MOST_STEPS, _HALVINGS = 12, 6, 20, 12
_GAIN = 0.5


@dataclass
class SparseEnds:
    """Where the candidates have come to: θ (sets, q), and the terms of S there, (sets,) each."""

    theta: np.ndarray
    log_lik: np.ndarray
    pseudo: np.ndarray
    log_prior: np.ndarray
    log_det: np.ndarray
    done: np.ndarray


def refit_sparse(objective: SparseObjective, start: SparseMaximum) -> SparseEnds:
    """θ̃_i, log det H_i and whether they are verified, of each candidate of a chunk."""
    theta = _chords(objective, start)
    sets = theta.shape[1]
    log_lik, pseudo, log_prior, log_det, decrement = np.full((5, sets), np.nan)
    ends = SparseEnds(theta.T.copy(), log_lik, pseudo, log_prior, log_det, np.zeros(sets, dtype=bool))
    active = np.arange(sets)
    for _ in range(_MOST_STEPS):
        some = objective.take(active)
        point = some.at(theta)
        factor = objective.order.factor(some.curvature(point))
        step = factor.solve(point.gradient)
        now, dets = np.sqrt(np.maximum((point.gradient * step).sum(axis=0), 0.0)), factor.log_det
        definite = well_explained(factor.shares) & np.isfinite(point.value)
        arrived = converged(now, decrement[active], dets, log_det[active], start.log_det) & definite
        _record(ends, active, point)
        ends.log_det[active], decrement[active], ends.done[active] = dets, now, arrived
        going = np.flatnonzero(definite & ~arrived)
        if not going.size:
            break
        theta, moved = _line_search(some.take(going), point, step[:, going], now[going], going)
        active, theta = active[going[moved]], theta[:, moved]
        ends.theta[active] = theta.T
        if not active.size:
            break
    return ends


def _record(ends: SparseEnds, sets: np.ndarray, point: SparsePoint) -> None:
    assert point.pseudo is not None
    ends.log_lik[sets], ends.pseudo[sets], ends.log_prior[sets] = point.log_lik, point.pseudo.value, point.log_prior
    ends.theta[sets] = point.theta.T


def _line_search(
    objective: SparseObjective, point: SparsePoint, step: np.ndarray, decrement: np.ndarray, sets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Each set's step, halved until S increases, and for which sets it does."""
    theta, value = point.theta[:, sets], point.value[sets]
    size, floor = np.ones(len(sets)), value - 1e-12 * (1 + np.abs(value))
    undecided = np.arange(len(sets))
    for _ in range(_HALVINGS):
        ahead = objective.take(undecided).at(theta[:, undecided] + size[undecided] * step[:, undecided]).value
        undecided = undecided[~(ahead >= (floor + 1e-4 * size * decrement**2)[undecided])]
        if not undecided.size:
            break
        size[undecided] *= 0.5
    return theta + size * step, ~np.isin(np.arange(len(sets)), undecided)


def _chords(objective: SparseObjective, start: SparseMaximum) -> np.ndarray:
    """θ (q, sets) after chord steps with D's curvature, updated by each candidate's own part."""
    pairs, factor = objective.pairs, start.curvature.factor
    assert pairs is not None
    q, (sets, p) = len(start.theta), pairs.offset.shape
    update = factor.solve(pairs.design.T.toarray()).reshape(q, sets, p)
    spread = _own_predictors(pairs, update)
    gradient, bend, log_lik = _own_part(objective, start.theta, spread)
    core = np.eye(p) + bend @ spread
    theta = start.theta[:, None] + np.einsum("qsp,sp->qs", update, gradient)
    decrement, active = np.full(sets, np.inf), np.arange(sets)
    theta = np.where(objective.at(theta).value >= start.value + log_lik, theta, start.theta[:, None])
    best = theta.copy()
    for _ in range(_CHORDS):
        g = objective.take(active).gradient(theta)
        shared = factor.solve(g)
        inside = _own_predictors(pairs.take(active), shared[:, :, None])[:, :, 0]
        pull = np.linalg.solve(core[active], (bend[active] @ inside[:, :, None]))[:, :, 0]
        own = update if len(active) == sets else update[:, active]
        step = shared - np.einsum("qsp,sp->qs", own, pull)
        ahead = np.sqrt(np.maximum((g * step).sum(axis=0), 0.0))
        shrinks = ahead <= _GAIN * decrement[active]
        best[:, active[shrinks]], decrement[active[shrinks]] = theta[:, shrinks], ahead[shrinks]
        going = shrinks & (ahead > 0.1 * DECREMENT)
        active, theta = active[going], (theta + step)[:, going]
        if not active.size:
            break
    return best


def _own_predictors(pairs: SparseBlock, vectors: np.ndarray) -> np.ndarray:
    """A_i v of each candidate's own vectors (q, sets, R): shape (sets, p, R)."""
    padded = np.concatenate([vectors, np.zeros((1, *vectors.shape[1:]))])
    own = padded[pairs.columns, np.arange(len(pairs.columns))[:, None]]
    return np.asarray(pairs.matrix @ own)


def _own_part(objective: SparseObjective, theta: np.ndarray, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """∇g (sets, p) and −∇²g (sets, p, p) where each candidate would move D's mode if ℓ_D + log π were quadratic; g at the mode.

    The move u solves u = K ∇g(η + u) in its own predictors.
    """
    pairs, model = objective.pairs, objective.rows.model
    assert pairs is not None
    eta = pairs.eta(np.repeat(theta[:, None], len(pairs.codes), axis=1))
    move, now = np.zeros_like(eta), model.derivatives_at(eta, pairs.codes, pairs.inputs)
    staying = now.value
    for _ in range(_OWN_STEPS):
        miss = (spread @ now.gradient[:, :, None])[:, :, 0] - move
        move = move + np.linalg.solve(np.eye(eta.shape[1]) - spread @ now.hessian, miss[:, :, None])[:, :, 0]
        now = model.derivatives_at(eta + move, pairs.codes, pairs.inputs)
    finite = np.isfinite(now.gradient).all(axis=1) & np.isfinite(now.hessian).all(axis=(1, 2))
    return np.where(finite[:, None], now.gradient, 0.0), np.where(finite[:, None, None], -now.hessian, 0.0), staying
