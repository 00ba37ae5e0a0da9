"""Integrals over a few numbers by the trapezoid rule on a lattice, which is laid along the axes of the integrand's curvature.

For a smooth integrand that vanishes far out, points h standard deviations apart are exact up to some exp(−2π²/h²). A point is
taken where the integrand is not far below its highest value, and next to points where it is not.

What is left out has the share P(χ²_m > 2 · depth) under a Gaussian, so that the depth must not shrink as m grows: in three to
five numbers points lie wider apart instead, and log integrals of Gaussians are within 0.01. Dividing by the kept share, with as
many points less deep, is no nearer for Gaussians and worse for the longer tails of log scales.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

#: By how many numbers are integrated over: the spacing in standard deviations, and how far below the highest value points are.
_SPACING = {0: 1.0, 1: 0.8, 2: 1.1, 3: 1.6, 4: 1.7, 5: 1.75}
_DEPTH = {0: 1.0, 1: 8.0, 2: 7.0, 3: 7.0, 4: 7.0, 5: 6.5}
MOST_POINTS = 1200
_CLIMBS, _REACH, _NEAR = 6, 2.0, 0.5
_LEAST_CURVATURE, _STENCIL = 0.05, 0.5

#: log of the integrand at a point (m,).
LogDensity = Callable[[np.ndarray], float]


@dataclass(frozen=True)
class Lattice:
    """Points (G, m) and the logarithm of the volume that each stands for; `log_values` (G,) are those of the integrand."""

    points: np.ndarray
    log_values: np.ndarray
    log_volume: float


def climb(log_density: LogDensity, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A point near the maximum, and axes (m, m) in columns that are a standard deviation long, by fitted quadratics."""
    centre, axes = start, np.eye(len(start))
    for _ in range(_CLIMBS if len(start) else 0):
        with np.errstate(invalid="ignore"):
            gradient, curvature = _quadratic(log_density, centre, axes)
        if not (np.isfinite(gradient).all() and np.isfinite(curvature).all()):
            break
        values, vectors = np.linalg.eigh(curvature)
        values = np.maximum(values, _LEAST_CURVATURE)
        step = vectors @ ((vectors.T @ gradient) / values)
        step *= min(1.0, _REACH / max(float(np.linalg.norm(step)), 1e-300))
        ahead = axes @ (vectors / np.sqrt(values))
        centre = _uphill(log_density, centre, axes @ step)
        axes = ahead
        if np.linalg.norm(step) < _NEAR:
            break
    return centre, axes


def _uphill(log_density: LogDensity, centre: np.ndarray, step: np.ndarray) -> np.ndarray:
    """The end of the step, or of half or a quarter of it, where it is not lower."""
    now = log_density(centre)
    for share in (1.0, 0.5, 0.25):
        if log_density(centre + share * step) >= now:
            return np.asarray(centre + share * step)
    return centre


def _quadratic(log_density: LogDensity, centre: np.ndarray, axes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gradient and minus the Hessian in units of the axes, by differences."""
    m, h = axes.shape[1], _STENCIL

    def at(*steps: tuple[int, float]) -> float:
        return log_density(centre + sum((size * axes[:, axis] for axis, size in steps), np.zeros(len(centre))))

    middle = at()
    ahead, behind = (np.array([at((axis, size)) for axis in range(m)]) for size in (h, -h))
    curvature = np.diag((2 * middle - ahead - behind) / h**2)
    for i, j in combinations(range(m), 2):
        mixed = at((i, h), (j, h)) - ahead[i] - ahead[j] + middle
        curvature[i, j] = curvature[j, i] = -mixed / h**2
    return (ahead - behind) / (2 * h), curvature


def lay(log_density: LogDensity, centre: np.ndarray, axes: np.ndarray) -> Lattice | None:
    """The lattice around a point; None where the integrand does not vanish within `MOST_POINTS`."""
    m = len(centre)
    spacing, depth = _SPACING[m], _DEPTH[m]
    values: dict[tuple[int, ...], float] = {}
    points: dict[tuple[int, ...], np.ndarray] = {}
    waiting, highest = [(0,) * m], -np.inf
    while waiting:
        place = waiting.pop(0)
        if place in values:
            continue
        points[place] = centre + spacing * axes @ np.array(place, dtype=float)
        values[place] = value = log_density(points[place])
        highest = max(highest, value)
        if len(values) > MOST_POINTS:
            return None
        if value >= highest - depth:
            waiting += [_moved(place, axis, by) for axis in range(m) for by in (1, -1)]
    kept = [place for place, value in values.items() if value >= highest - depth]
    log_values = np.array([values[place] for place in kept])
    log_volume = m * np.log(spacing) + np.linalg.slogdet(axes)[1]
    return Lattice(np.array([points[place] for place in kept]), log_values, float(log_volume))


def _moved(place: tuple[int, ...], axis: int, by: int) -> tuple[int, ...]:
    return (*place[:axis], place[axis] + by, *place[axis + 1 :])
