"""Newton's method for a maximum with sparse curvatures, verified by the test of any mode (`newton.verification`).

Where H is not positive definite, what is added to its diagonal grows until it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pymc_bpls.engine.newton.verification import converged, well_explained
from pymc_bpls.engine.sparse.curvature import SparseCurvature
from pymc_bpls.engine.sparse.objective import SparseObjective, SparsePoint

_MOST_STEPS, _HALVINGS = 100, 30
_SHIFTS = (0.0, 1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e4)


@dataclass(frozen=True)
class SparseMaximum:
    """θ (q,), S there, its curvature with log det, the Newton decrement and how many steps were taken."""

    theta: np.ndarray
    value: float
    curvature: SparseCurvature
    log_det: float
    decrement: float
    steps: int


#: Sees every point that is come to, and may raise what ends the climb.
Watch = Callable[[SparsePoint], None]


def maximise(objective: SparseObjective, start: np.ndarray, watch: Watch = lambda _: None) -> SparseMaximum | None:
    """The verified maximum from a start (q,), or None."""
    point, last_decrement, last_log_det = objective.at(start[:, None]), np.inf, np.nan
    if not np.isfinite(point.value[0]):
        return None
    for steps in range(_MOST_STEPS):
        watch(point)
        values = objective.curvature(point)[:, 0]
        if not (np.isfinite(values).all() and np.isfinite(point.gradient).all()):
            return None
        curvature, definite = _shifted(SparseCurvature(objective.order, values))
        step = curvature.factor.solve(point.gradient)
        decrement = float(np.sqrt(max(float((point.gradient * step).sum()), 0.0)))
        log_det = float(curvature.factor.log_det[0]) if definite else np.nan
        if definite and converged(decrement, last_decrement, log_det, last_log_det):
            return SparseMaximum(point.theta[:, 0], float(point.value[0]), curvature, log_det, decrement, steps)
        ahead = _line_search(objective, point, step, decrement)
        if ahead is None:
            return None
        point, last_decrement, last_log_det = ahead, decrement, log_det
    return None


def _shifted(curvature: SparseCurvature) -> tuple[SparseCurvature, bool]:
    """H, or H with so much on its diagonal that it is positive definite, and whether it was so itself."""
    order, every = curvature.order, np.arange(curvature.order.q)
    scale = np.abs(curvature.diagonal).max()
    for shift in _SHIFTS:
        values = curvature.values.copy()
        values[order.slots(every, every)] += shift * scale
        shifted = SparseCurvature(order, values)
        if well_explained(shifted.factor.shares)[0]:
            return shifted, shift == 0.0
    raise np.linalg.LinAlgError("the curvature is not finite")


def _line_search(objective: SparseObjective, point: SparsePoint, step: np.ndarray, decrement: float) -> SparsePoint | None:
    value = float(point.value[0])
    slack = 1e-12 * (1 + abs(value))
    for halving in range(_HALVINGS):
        size = 0.5**halving
        ahead = objective.at(point.theta + size * step)
        if np.isfinite(ahead.value[0]) and ahead.value[0] >= value + 1e-4 * size * decrement**2 - slack:
            return ahead
    return None
