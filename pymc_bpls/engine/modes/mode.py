"""A verified mode of a log-density and its Hessian, and what is wrong where there is none.

Modes are found by Newton's method with a line search, on the unconstrained scale and with the log-Jacobian, for mode and
Hessian alike. They are verified by the test of `verification`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pymc_bpls.engine.modes.failures import Derivatives, Failure, Flat, Rejection, ends_on_a_ridge, explain
from pymc_bpls.engine.modes.local_gaussian import SpanGaussian
from pymc_bpls.engine.newton.curvature import Curvature, LocalGaussian, Matrix
from pymc_bpls.engine.newton.line_search import search_line
from pymc_bpls.engine.newton.verification import ROUNDED_DECREMENT, converged
from pymc_bpls.engine.rows.reduced_rows import ReducedRows
from pymc_bpls.errors import ModeError

_MOST_STEPS = 200
_HALVINGS = 30
_RESTARTS = 6
_FAR_OFF = 15.0


@dataclass(frozen=True)
class Mode:
    """A maximum of S: S(θ), the curvature H = −∇²S(θ) with its log det, Newton decrement, steps taken.

    Its `point` (d,) and the curvature there are in the coordinates of `rows`, or in θ itself where there are none. Where there
    is no maximum that can be verified, the centre of an approximation may stand for it (`is_centre`).
    """

    point: np.ndarray
    value: float
    curvature: Curvature
    log_det: float
    decrement: float
    steps: int
    rows: ReducedRows | None = None
    is_centre: bool = False

    @cached_property
    def theta(self) -> np.ndarray:
        """θ (q,)."""
        return self.point if self.rows is None else self.rows.theta(self.point[None])[0]

    @cached_property
    def hessian(self) -> np.ndarray:
        """H (q, q), which is made when it is asked for."""
        return self.gaussian.hessian

    @property
    def space(self) -> str:
        """What it was found in, in words."""
        return self.curvature.words if self.rows is None else "rows"

    @property
    def gaussian(self) -> LocalGaussian:
        """N(θ̃, H⁻¹), of which variances, draws and distances are known without H."""
        if self.rows is None:
            return LocalGaussian(self.point, self.curvature)
        return SpanGaussian(self.point, self.curvature, self.rows.space)

    def within(self, rows: ReducedRows | None) -> Mode:
        """The same where its point is in the coordinates of `rows`, and its log det that of these."""
        return self if rows is None else replace(self, log_det=self.log_det + rows.log_det_prior, rows=rows)

    @property
    def log_integral(self) -> float:
        """Laplace's log ∫ exp S = S(θ̃) + (q/2) log 2π − ½ log det H."""
        return self.value + 0.5 * len(self.theta) * np.log(2 * np.pi) - 0.5 * self.log_det


@dataclass(frozen=True)
class DensePoint:
    """S (1,), its gradient (1, q) and its curvature at one θ (1, q)."""

    theta: np.ndarray
    value: np.ndarray
    gradient: np.ndarray
    curvature: Matrix

    @property
    def finite(self) -> np.ndarray:
        """Whether all of these are (1,)."""
        numbers = np.isfinite(self.value).all() and np.isfinite(self.gradient).all() and self.curvature.is_finite
        return np.array([numbers])


@dataclass(frozen=True)
class DenseFunction:
    """S by its `derivatives`, as Newton's method takes it."""

    derivatives: Derivatives

    def at(self, theta: np.ndarray) -> DensePoint:
        """At one θ (1, q)."""
        value, gradient, curvature = self.derivatives(theta[0])
        return DensePoint(theta, np.array([value]), gradient[None], Matrix(curvature))

    def take(self, sets: np.ndarray) -> DenseFunction:
        """Itself: there is one set."""
        return self

    def curvature(self, point: DensePoint) -> Matrix:
        """−∇²S."""
        return point.curvature


def find_mode(
    derivatives: Derivatives,
    start: np.ndarray,
    names: Sequence[str],
    *,
    prior: bool,
    n_rows: int,
    rows: ReducedRows | None = None,
    not_finite: Callable[[np.ndarray], Sequence[str]] = lambda theta: [],
    rejection: Rejection = lambda theta, where: None,
    flat: Flat = lambda theta, direction: False,
) -> Mode:
    """The verified mode of S from `start`, or from starts jittered around it where that fails.

    `derivatives` and `start` are in the coordinates of `rows`, where there are any. `not_finite`, `rejection` and `flat` are
    as in `explain`.

    Raises
    ------
    ModeError
        No start leads to a mode: says which parameters run away, are not identified, or have a kink.
    """
    rng = np.random.default_rng(0)
    failures: list[Failure] = []
    for attempt in range(_RESTARTS):
        jitter = 0.0 if attempt == 0 else rng.uniform(-1, 1, len(start))
        outcome = newton(DenseFunction(derivatives), start + jitter)
        if isinstance(outcome, Mode):
            return outcome.within(rows)
        failures.append(outcome)
        if outcome.kind in ("singular", "runaway") or ends_on_a_ridge(outcome, derivatives):
            break
    theta = _same if rows is None else rows.theta
    start = theta(start[None])[0]
    raise ModeError(
        explain(
            failures,
            derivatives,
            names,
            theta,
            prior=prior,
            n_rows=n_rows,
            not_finite=not_finite(start),
            rejection=rejection,
            flat=flat,
        )
    )


def _same(points: np.ndarray) -> np.ndarray:
    return points


#: Sees every point that is come to, and may raise what ends the climb.
Watch = Callable[[Any], None]


def newton(function: Any, start: np.ndarray, watch: Watch = lambda _: None) -> Mode | Failure:
    """Newton's method for a maximum of one set, uphill where H is indefinite, each step halved until S increases.

    A direction that is flat at the end, though it was not at the start, far away in terms of the curvature there, is one in
    which S has no maximum ("runaway").
    """
    point, last_decrement, last_log_det = function.at(start[None]), np.inf, np.nan
    first = H = function.curvature(point)
    if not (point.finite[0] and np.isfinite(point.gradient).all() and H.is_finite):
        return Failure("start", start, start, np.empty((len(start), 0)))
    step = np.zeros_like(point.theta)
    for steps in range(_MOST_STEPS):
        watch(point)
        gradient, theta = point.gradient[0], point.theta[0]
        direction, flat = (H.solve(gradient), None) if H.definite else H.uphill(gradient)
        decrement, log_det = np.sqrt(max(gradient @ direction, 0.0)), H.log_det if H.definite else np.nan
        if H.definite and converged(decrement, last_decrement, log_det, last_log_det):
            return Mode(theta, float(point.value[0]), H, float(log_det), float(decrement), steps)
        if flat is not None and decrement <= ROUNDED_DECREMENT:
            kind = "saddle" if not flat.size else "runaway" if _left(first, theta - start) else "singular"
            return Failure(kind, start, theta, flat)
        ahead, moved, there = search_line(function, point, direction[None], np.array([decrement]), _HALVINGS)
        if not moved[0]:
            return Failure("stuck", start, theta, direction[:, None])
        assert there is not None
        step = ahead - point.theta
        point, H, last_decrement, last_log_det = there, function.curvature(there), decrement, log_det
        if not H.is_finite:
            return Failure("stuck", start, theta, direction[:, None])
    return Failure("runaway" if _left(first, point.theta[0] - start) else "stuck", start, point.theta[0], step.T)


def _left(curvature: Curvature, move: np.ndarray) -> bool:
    """Whether a move is far in terms of a positive definite curvature."""
    return curvature.definite and float(move @ curvature.times(move)) > _FAR_OFF**2
