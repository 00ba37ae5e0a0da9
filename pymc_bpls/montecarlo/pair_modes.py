"""Modes in which a candidate's class lives.

A mode with next to no mass of p_k(θ) ∝ p(D | θ)^k π(θ) may hold most of p(y | x_i, θ) p_k(θ), of a class that is unlikely at
the others. Masses are those of Laplace's method times the average of p(y | x_i, θ) around each mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from scipy.special import logsumexp, softmax

from pymc_bpls.engine.engine import Engine
from pymc_bpls.engine.modes.mode import Mode
from pymc_bpls.errors import ModeError
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.montecarlo.averages import average
from pymc_bpls.montecarlo.other_modes import Search, visits
from pymc_bpls.montecarlo.pareto import GOOD_K
from pymc_bpls.montecarlo.psis import mixture_draws
from pymc_bpls.montecarlo.sparse_proposals import local_gaussian, proposal_around
from pymc_bpls.montecarlo.weighted import Weighted

#: The mass that counts as missed: averages are then off by a twentieth of a nat.
_MASS = 0.05
#: Nats that a user hears of, beyond so many standard errors: odds of two candidates are then wrong by a quarter or more.
_OFF, _ERRORS = 0.25, 4.0
#: Pairs that are compared at most, from the lowest to the highest score, and draws that they are compared by.
_COMPARED, _COMPARED_BY = 512, 4000
#: Draws around a mode, which tell such masses to a few per cent; pairs at once; pairs whose own draws are looked at.
_DRAWS, _AT_ONCE, _LOOKED_AT = 64, 2**12, 64


def off_by_modes(
    engine: Engine, labeled: Labeled, k: int, search: Search, pairs: tuple[np.ndarray, np.ndarray], scores: np.ndarray
) -> str | None:
    """What to tell a user where scores of pairs (row, class), but for their level, are not the averages over p_k of all modes.

    The averages are by importance sampling around the modes of p_k that lie next to those of the search.
    """
    modes: list[Mode] = []
    for mode in search.modes:
        with suppress(ModeError):
            modes.append(engine.fit(labeled, mode.theta, k=k))
    if len(modes) < 2:
        return None
    order = np.argsort(scores, kind="stable")
    order = order[np.linspace(0, len(order) - 1, min(len(order), _COMPARED)).astype(int)]
    positions, codes = (each[order] for each in pairs)
    rng = np.random.default_rng(0)
    draws, _ = mixture_draws(engine, labeled, k, [local_gaussian(mode) for mode in modes], _COMPARED_BY, rng)
    averages = average(engine, draws, positions, codes)
    known = (averages.pareto_k <= GOOD_K) & np.isfinite(averages.log_mean) & np.isfinite(scores[order])
    if draws.pareto_k is None or draws.pareto_k > GOOD_K or not known.any():
        return f"{len(modes)} modes were found, and draws around them do not tell whether scores see all: compare with exact()."
    apart = (scores[order] - averages.log_mean)[known]
    off = np.maximum(np.abs(apart - np.median(apart)) - _ERRORS * averages.error[known], 0.0)
    if off.max() <= _OFF:
        return None
    every, judged = f"{len(scores):,} candidates and classes", len(off)
    of = every if judged == len(scores) else f"the {judged:,} that were judged, of {every}"
    return (
        f"Scores, their common level left out, are off by up to {off.max():.2f} nats for {(off > _OFF).sum():,} of {of}, "
        f"by draws around the {len(modes)} modes of the posterior that were found. Compare with exact() or audit()."
    )


def missed_classes(
    engine: Engine, labeled: Labeled, search: Search, draws: Weighted, positions: np.ndarray, codes: np.ndarray
) -> list[str]:
    """A reason to distrust averages over draws of p_k: modes that hold mass of some pairs are nearest to no draw."""
    if len(search.modes) < 2:
        return []
    shares = _shares(engine, search.modes, positions, codes)
    here = visits(search, draws)
    unseen = np.flatnonzero(here < _MASS * search.mass)
    held = shares[unseen].sum(axis=0)
    some = np.argsort(-held, kind="stable")[:_LOOKED_AT]
    some = some[held[some] > _MASS]
    terms = engine.log_factor_pairs(draws.theta, positions[some], codes[some])
    reached = np.array([visits(search, draws, np.nan_to_num(term, nan=-np.inf))[unseen].sum() for term in terms])
    missed = held[some][reached < 0.5 * held[some]] if some.size else np.empty(0)
    if not missed.size:
        return []
    return [f"no draw is near modes that hold up to {missed.max():.0%} of the mass of {missed.size} of {len(codes)} values"]


def _shares(engine: Engine, modes: Sequence[Mode], positions: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """The share of each mode in each pair's mass (modes, pairs)."""
    log_mass = [mode.log_integral + _log_average(engine, mode, positions, codes) for mode in modes]
    return np.asarray(softmax(log_mass, axis=0))


def _log_average(engine: Engine, mode: Mode, positions: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """log of the average of p(y | x, θ) around a mode, by a t distribution's draws (pairs,)."""
    theta = proposal_around(local_gaussian(mode)).draws((1, _DRAWS), np.random.default_rng(0))[0]
    pieces = np.array_split(np.arange(len(positions)), max(1, -(-len(positions) // _AT_ONCE)))
    found = [engine.log_factor_pairs(theta, positions[piece], codes[piece]) for piece in pieces]
    return np.asarray(logsumexp(np.nan_to_num(np.concatenate(found), nan=-np.inf), axis=1) - np.log(_DRAWS))
