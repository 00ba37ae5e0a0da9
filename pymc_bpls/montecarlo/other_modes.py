"""Modes of a posterior that no draw came near: R-hat and k-hat see only what was visited."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from pymc_bpls.engine.engine import Engine
from pymc_bpls.engine.mode import Mode
from pymc_bpls.errors import ModeError
from pymc_bpls.model.table import Labeled
from pymc_bpls.montecarlo.averages import Weighted
from pymc_bpls.text.progress import stage

_STARTS, _RADIUS = 6, 2.0
_SAME = 1e-2
_MASS, _VISITED = 0.05, 1e-3


def find_modes(engine: Engine, labeled: Labeled, k: int) -> list[Mode]:
    """Distinct modes of k ℓ_D + log π, from the model's start and from fixed points, uniform within 2 of it."""
    rng = np.random.default_rng(0)
    start = engine.density.start
    modes: list[Mode] = []
    offsets = np.vstack([np.zeros(len(start)), rng.uniform(-_RADIUS, _RADIUS, size=(_STARTS, len(start)))])
    with stage("looking for other modes", len(offsets)) as tell:
        for offset in offsets:
            tell(1)
            try:
                mode = engine.fit(labeled, start + offset, k=k)
            except ModeError:
                continue
            if all(_distance(other, mode.theta[None])[0] > _SAME for other in modes):
                modes.append(mode)
    return modes


def other_modes(engine: Engine, labeled: Labeled) -> tuple[int, float] | None:
    """How many modes of the posterior were found, and the share of their mass, by Laplace's method, of the one that the model's
    start leads to; None where the others hold next to nothing.
    """
    modes = find_modes(engine, labeled, 1)
    if len(modes) < 2:
        return None
    log_mass = np.array([mode.log_integral for mode in modes])
    share = float(np.exp(log_mass[0] - logsumexp(log_mass)))
    return (len(modes), share) if share < 1 - _MASS else None


def unvisited_modes(engine: Engine, labeled: Labeled, k: int, draws: Weighted) -> list[str]:
    """A reason to distrust draws of p_k where a mode with mass, by Laplace's method, is nearest to none of them."""
    modes = find_modes(engine, labeled, k)
    if len(modes) < 2:
        return []
    log_mass = np.array([mode.log_integral for mode in modes])
    mass = np.exp(log_mass - logsumexp(log_mass))
    nearest = np.argmin([_distance(mode, draws.theta) - mode.log_det for mode in modes], axis=0)
    weights = np.exp(draws.log_weights - logsumexp(draws.log_weights))
    visited = np.bincount(nearest, weights, minlength=len(modes))
    missed = mass[(mass > _MASS) & (visited < _VISITED)]
    if not missed.size:
        return []
    return [f"{len(modes)} modes were found, and no draw is near {len(missed)} of them with {missed.sum():.0%} of the mass"]


def _distance(mode: Mode, theta: np.ndarray) -> np.ndarray:
    """(θ − θ̃)'H(θ − θ̃) for θ (S, q)."""
    centred = theta - mode.theta
    return np.einsum("si,ij,sj->s", centred, mode.hessian, centred, optimize=True)
