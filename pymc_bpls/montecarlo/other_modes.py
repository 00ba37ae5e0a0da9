"""Modes of a posterior that no draw came near, or that scores at one of them leave out.

R-hat and k-hat see only what was visited. A search costs no more evaluations of S and its Hessian than the fit did, or what
takes about a second. There is none where S is concave (`engine.concavity`), and a climb ends in the region of a known mode.
Components of declared mixtures are starts (`model.components`); what a search did not cover, it says (`Search.limits`).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import logsumexp

from pymc_bpls.compute.threads import for_matrices_of
from pymc_bpls.engine.concavity import nonconcave_parameters
from pymc_bpls.engine.engine import Engine
from pymc_bpls.engine.modes.failures import Derivatives
from pymc_bpls.engine.modes.mode import DenseFunction, Mode, newton
from pymc_bpls.engine.rows.objective import RowPoint
from pymc_bpls.engine.sparse.curvature import SparseCurvature
from pymc_bpls.errors import ModeError
from pymc_bpls.model.components import Centres
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.montecarlo.psis import log_densities
from pymc_bpls.montecarlo.weighted import Weighted
from pymc_bpls.text.progress import stage

_STARTS, _RADIUS = 6, 2.0
_DISTANCES, _BUMPS, _MOST_NUMBERS = np.geomspace(0.25, 1024.0, 13), 4, 2**22
_SAME, _OFF = 1e-2, 0.1
_MASS, _MISSED, _VISITED = 0.05, 0.01, 1e-3
_OPERATIONS, _STEPS = 5e9, 20
NOT_LOOKED_FOR = "not looked for"


@dataclass(frozen=True)
class Search:
    """Distinct modes, first the one in use, and how many of the other starts were climbed from before the time was up.

    `limits` are the declared starts that it left out, in words.
    """

    modes: tuple[Mode, ...]
    tried: int
    starts: int
    limits: tuple[str, ...] = ()

    @property
    def mass(self) -> np.ndarray:
        """The share of each mode, by Laplace's method."""
        log_mass = np.array([mode.log_integral for mode in self.modes])
        return np.asarray(np.exp(log_mass - logsumexp(log_mass)))

    @property
    def best_first(self) -> Self:
        """The same with the mode that has the most mass first; mirror images, which have the same, stay as they were found."""
        return replace(self, modes=tuple(sorted(self.modes, key=lambda mode: -round(mode.log_integral, 6))))

    @property
    def warning(self) -> str | None:
        """What to tell a user where the others hold mass."""
        if len(self.modes) < 2 or self.mass[0] >= 1 - _MASS:
            return None
        return (
            f"{len(self.modes)} modes of the posterior were found, and the one in use holds {self.mass[0]:.0%} of their mass "
            "by Laplace's method. Scores, the level that they share, and predictions are local to it: compare with exact() or "
            "audit(), or choose a start by initvals=."
        )

    def __str__(self) -> str:
        if not self.modes:
            return f"{NOT_LOOKED_FOR}, there is no mode"
        if not self.starts:
            return "none, the log-posterior is concave"
        found = (
            "none found"
            if len(self.modes) == 1
            else f"{len(self.modes) - 1} found beside one with {self.mass[0]:.0%} of the mass"
        )
        return "; ".join([f"{found}, from {self.tried} of {self.starts} starts", *self.limits])


class _Ended(Exception):
    """A climb need not go on."""


@dataclass
class _Climb:
    """S with its derivatives, which ends climbs in regions of known modes and counts evaluations down."""

    derivatives: Derivatives
    left: int
    modes: list[Mode]

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        if self.left <= 0:
            raise _Ended
        self.left -= 1
        value, gradient, hessian = self.derivatives(theta)
        if any(_is_near(mode, theta, value, gradient) for mode in self.modes):
            raise _Ended
        return value, gradient, hessian


def find_modes(engine: Engine, labeled: Labeled, k: int, mode: Mode | None = None, *, far: bool = False) -> Search:
    """Distinct modes of k ℓ_D + log π: `mode`, or that from the model's start, and those from other starts.

    First are components of declared mixtures. Then come points uniform within 2 of the model's start; where there is no time
    for six climbs, in the parameters in which S may not be concave, and at the mode in the others. For `far` ones, climbs start
    before these where S has a bump along one of these parameters (`bumps`), which takes a function more. The centre of an
    approximation in place of `mode` is compared with no other.
    """
    modes = [] if mode is None else [mode]
    if mode is None:
        with suppress(ModeError):
            modes.append(engine.fit(labeled, k=k))
    if modes and isinstance(modes[0].curvature, SparseCurvature):
        return _find_sparsely(engine, labeled, k, modes)
    rows = modes[0].rows if modes else None
    derivatives = engine.derivatives(labeled, k=k, rows=rows)
    if mode is not None and not _is_near(mode, mode.point, *derivatives(mode.point)[:2]):
        return Search((), 0, 0)
    free = nonconcave_parameters(engine, labeled) if modes else np.arange(engine.density.dimension)
    if not free.size:
        return Search(tuple(modes), 0, 0)
    q = engine.density.dimension
    d = q if rows is None else rows.dimension
    affordable = _affordable(engine, labeled, d)
    starts = engine.density.start + np.random.default_rng(0).uniform(-_RADIUS, _RADIUS, size=(_STARTS, q))
    if modes and affordable < _STARTS * _STEPS:
        others = np.setdiff1d(np.arange(q), free)
        starts[:, others] = modes[0].theta[others]
    along = free if far and modes else free[:0]
    centres, ahead = starts_elsewhere(engine, labeled, k, modes[0].theta if modes else engine.density.start, along)
    starts = np.vstack([ahead, starts])
    climb = _Climb(derivatives, max(affordable, modes[0].steps + 1 if modes else _STEPS), modes)
    tried = 0
    with stage("looking for other modes", len(starts)) as tell, for_matrices_of(d):
        for point in starts if rows is None else rows.space.points(starts):
            tell(1)
            try:
                outcome = newton(DenseFunction(climb), point)
            except _Ended:
                tried += climb.left > 0
                continue
            tried += 1
            if isinstance(outcome, Mode):
                found = outcome.within(rows)
                if all(other.gaussian.distances(found.theta[None])[0] > _SAME for other in modes):
                    modes.append(found)
    return Search(tuple(modes), tried, len(starts), centres.left_out(tried))


def starts_elsewhere(
    engine: Engine, labeled: Labeled, k: int, theta: np.ndarray, along: np.ndarray
) -> tuple[Centres, np.ndarray]:
    """Starts (B, q) that a search from θ climbs from first: components of declared mixtures, the others where they are in θ,
    and bumps `along` some parameters; and which components these are.
    """
    centres = engine.density.components.at(theta)
    found = bumps(engine, labeled, k, theta, along) if along.size else np.empty((0, len(theta)))
    return centres, np.vstack([centres.points, found])


def bumps(engine: Engine, labeled: Labeled, k: int, theta: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Points (B, q), the highest four, where k ℓ_D + log π, with the engine's pool, has a local maximum on a line through θ
    along one parameter.

    Lines are looked at a quarter to a thousand units away, by twos: a peak that is narrower than that still rises towards its
    top on both sides. Modes that only a move of several parameters at once reaches are not seen.
    """
    offsets = np.concatenate([-_DISTANCES[::-1], [0.0], _DISTANCES])
    free = free[: max(1, _MOST_NUMBERS // (len(offsets) * len(theta)))]
    points = np.repeat(theta[None, None], len(free), axis=0).repeat(len(offsets), axis=1)
    points[np.arange(len(free)), :, free] += offsets
    with np.errstate(all="ignore"):
        values = log_densities(engine, labeled, points.reshape(-1, len(theta)), k).reshape(points.shape[:2])
    inner = values[:, 1:-1]
    peak = np.isfinite(inner) & (inner > values[:, :-2]) & (inner > values[:, 2:])
    middle = len(_DISTANCES) - 1
    peak[:, middle - 1 : middle + 2] = False
    found = points[:, 1:-1][peak][np.argsort(-inner[peak], kind="stable")]
    return found[:_BUMPS]


def _find_sparsely(engine: Engine, labeled: Labeled, k: int, modes: list[Mode]) -> Search:
    """The same where rows touch few of many parameters: from starts at the mode in all parameters in which S is concave."""
    free, objective = nonconcave_parameters(engine, labeled), engine.sparse_objective(labeled, k)
    if not free.size or objective is None:
        return Search(tuple(modes), 0, 0)
    rng, centres = np.random.default_rng(0), engine.density.components.at(modes[0].theta)
    starts = np.repeat(modes[0].theta[None], _STARTS, axis=0)
    starts[:, free] = engine.density.start[free] + rng.uniform(-_RADIUS, _RADIUS, size=(_STARTS, len(free)))
    starts = np.vstack([centres.points, starts])
    left, tried = modes[0].steps + 1, 0

    def watch(point: RowPoint) -> None:
        nonlocal left
        left -= 1
        at = (point.theta[0], float(point.value[0]), point.gradient[0])
        if left < 0 or any(_is_near(mode, *at) for mode in modes):
            raise _Ended

    with stage("looking for other modes", len(starts)) as tell, for_matrices_of(len(objective.order.core)):
        for point in starts:
            tell(1)
            try:
                found = newton(objective, point, watch)
            except _Ended:
                tried += left >= 0
                continue
            tried += 1
            if isinstance(found, Mode) and all(other.gaussian.distances(found.theta[None])[0] > _SAME for other in modes):
                modes.append(found)
    return Search(tuple(modes), tried, len(starts), centres.left_out(tried))


def _affordable(engine: Engine, labeled: Labeled, d: int) -> int:
    """Evaluations that take about a second: a Hessian in d coordinates takes n p d² operations and its factor d³."""
    rows = engine.affine_rows
    return int(_OPERATIONS / (d**2 * (d + len(labeled) * (1 if rows is None else rows.map.size))))


def missed_modes(search: Search, draws: Weighted) -> list[str]:
    """Reasons to distrust draws of p_k: a mode with mass, by Laplace's method, is nearest to none, or the search has limits."""
    missed = (search.mass > _MISSED) & (visits(search, draws) < _VISITED) if len(search.modes) > 1 else np.zeros(0, dtype=bool)
    if not missed.any():
        return list(search.limits)
    found = f"{len(search.modes)} modes were found, and no draw is near {missed.sum()} of them"
    return [f"{found} with {search.mass[missed].sum():.0%} of the mass", *search.limits]


def visits(search: Search, draws: Weighted, log_terms: np.ndarray | None = None) -> np.ndarray:
    """The share of the draws' weights, times e to the `log_terms` (S,), that is nearest to each mode."""
    nearest = np.argmin([mode.gaussian.distances(draws.theta) - mode.log_det for mode in search.modes], axis=0)
    log_weights = draws.log_weights if log_terms is None else draws.log_weights + log_terms
    return np.bincount(nearest, np.exp(log_weights - logsumexp(log_weights)), minlength=len(search.modes))


def _is_near(mode: Mode, point: np.ndarray, value: float, gradient: np.ndarray) -> bool:
    """Whether a point is within one standard deviation of a mode, and S and its gradient are those of the quadratic there.

    The step along H⁻¹ then ends ten times nearer to the mode.
    """
    move = point - mode.point
    bend = mode.curvature.times(move)
    distance = float(move @ bend)
    if distance > 1.0 or not abs(value - mode.value + 0.5 * distance) <= _OFF * (1 + distance):
        return False
    left = gradient + bend
    return float(left @ mode.curvature.solve(left)) <= _OFF**2 * (_SAME + distance)
