"""A verified mode of a log-density and its Hessian, and what is wrong where there is none.

Modes are found by Newton's method with a line search, on the unconstrained scale and with the log-Jacobian, for mode and
Hessian alike. They are verified by the test of `verification`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg

from pymc_bpls.engine.modes.failures import Derivatives, Failure, Flat, Rejection, ends_on_a_ridge, explain
from pymc_bpls.engine.modes.local_gaussian import LocalGaussian
from pymc_bpls.engine.newton.verification import ROUNDED_DECREMENT, converged, well_conditioned
from pymc_bpls.engine.rows.reduced_rows import ReducedRows
from pymc_bpls.engine.sparse.curvature import SparseCurvature, SparseGaussian
from pymc_bpls.engine.sparse.newton import SparseMaximum
from pymc_bpls.errors import ModeError

_MOST_STEPS = 200
_HALVINGS = 30
_RESTARTS = 6
_FAR_OFF = 15.0


@dataclass(frozen=True)
class Mode:
    """A maximum of S: S(θ), log det of H = −∇²S(θ), Newton decrement, steps taken.

    Its `point` (d,) and the curvature there are in the coordinates of `rows`, or in θ itself where there are none. The
    `curvature` is a matrix (d, d), or where rows touch few of many parameters what is not zero of it. Where there is no
    maximum that can be verified, the centre of an approximation may stand for it (`is_centre`).
    """

    point: np.ndarray
    value: float
    curvature: np.ndarray | SparseCurvature
    log_det: float
    decrement: float
    steps: int
    rows: ReducedRows | None = None
    is_centre: bool = False

    @classmethod
    def sparse(cls, found: SparseMaximum) -> Mode:
        """A maximum where rows touch few parameters."""
        return cls(found.theta, found.value, found.curvature, found.log_det, found.decrement, found.steps)

    @cached_property
    def theta(self) -> np.ndarray:
        """θ (q,)."""
        return self.point if self.rows is None else self.rows.theta(self.point[None])[0]

    @cached_property
    def hessian(self) -> np.ndarray:
        """H (q, q), which is made when it is asked for."""
        return self.gaussian.hessian

    @property
    def matrix(self) -> np.ndarray:
        """The curvature (d, d) as a matrix."""
        return self.curvature.matrix if isinstance(self.curvature, SparseCurvature) else self.curvature

    @property
    def condition_number(self) -> float:
        """Of the curvature scaled to a unit diagonal."""
        if isinstance(self.curvature, SparseCurvature):
            return self.curvature.condition_number
        return condition_number(self.curvature)

    @property
    def space(self) -> str:
        """What it was found in, in words."""
        return (
            "sparse parameters"
            if isinstance(self.curvature, SparseCurvature)
            else "parameters"
            if self.rows is None
            else "rows"
        )

    @property
    def gaussian(self) -> LocalGaussian | SparseGaussian:
        """N(θ̃, H⁻¹), of which variances, draws and distances are known without H."""
        if isinstance(self.curvature, SparseCurvature):
            return SparseGaussian(self.point, self.curvature)
        return LocalGaussian(self.point, self.curvature, None if self.rows is None else self.rows.space)

    def within(self, rows: ReducedRows | None) -> Mode:
        """The same where its point is in the coordinates of `rows`, and its log det that of these."""
        return self if rows is None else replace(self, log_det=self.log_det + rows.log_det_prior, rows=rows)

    @property
    def log_integral(self) -> float:
        """Laplace's log ∫ exp S = S(θ̃) + (q/2) log 2π − ½ log det H."""
        return self.value + 0.5 * len(self.theta) * np.log(2 * np.pi) - 0.5 * self.log_det


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
        outcome = newton(derivatives, start + jitter)
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


def newton(derivatives: Derivatives, start: np.ndarray) -> Mode | Failure:
    """Newton's method for a maximum, along |H| where H is indefinite, each step halved until S increases.

    A direction that is flat at the end, though it was not at the start, far away in terms of the curvature there, is one in
    which S has no maximum ("runaway").
    """
    theta, last_decrement, last_log_det, step = start, np.inf, np.nan, np.zeros_like(start)
    value, gradient, hessian = derivatives(theta)
    if not _finite(value, gradient, hessian):
        return Failure("start", start, theta, np.empty((len(theta), 0)))
    first = hessian
    for steps in range(_MOST_STEPS):
        factor = _factor(hessian)
        if factor is None:
            direction, flat = _absolute_direction(hessian, gradient)
            decrement, log_det = np.sqrt(max(gradient @ direction, 0.0)), np.nan
            if decrement <= ROUNDED_DECREMENT:
                kind = "saddle" if not flat.size else "runaway" if _left(first, theta - start) else "singular"
                return Failure(kind, start, theta, flat)
        else:
            direction = scipy.linalg.cho_solve((factor, True), gradient)
            decrement = np.sqrt(max(gradient @ direction, 0.0))
            log_det = 2 * np.log(np.diag(factor)).sum()
            if converged(decrement, last_decrement, log_det, last_log_det):
                return Mode(theta, value, hessian, float(log_det), float(decrement), steps)
        moved = _line_search(derivatives, theta, value, direction, decrement)
        if moved is None:
            return Failure("stuck", start, theta, direction[:, None])
        step = moved[0] - theta
        theta, value, gradient, hessian = moved
        last_decrement, last_log_det = decrement, log_det
    return Failure("runaway" if _left(first, theta - start) else "stuck", start, theta, step[:, None])


def _left(curvature: np.ndarray, move: np.ndarray) -> bool:
    """Whether a move is far in terms of a positive definite curvature."""
    return _factor(curvature) is not None and float(move @ curvature @ move) > _FAR_OFF**2


def _finite(value: float, gradient: np.ndarray, hessian: np.ndarray) -> bool:
    return bool(np.isfinite(value) and np.isfinite(gradient).all() and np.isfinite(hessian).all())


def _factor(hessian: np.ndarray) -> np.ndarray | None:
    """The Cholesky factor, or None where H is not positive definite or a parameter is a combination of others."""
    try:
        factor = scipy.linalg.cholesky(hessian, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    return factor if well_conditioned(np.diag(factor), np.diag(hessian)) else None


def _scaled_eigen(hessian: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Eigenvalues and vectors of H scaled to a unit diagonal, and the scale."""
    diagonal = np.abs(np.diag(hessian))
    scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = np.linalg.eigh(hessian * np.outer(scale, scale))
    return values, vectors, scale


def _absolute_direction(hessian: np.ndarray, gradient: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """|H|⁻¹ g, and the directions (q, d) in which H is flat."""
    values, vectors, scale = _scaled_eigen(hessian)
    floor = 1e-8 * max(np.abs(values).max(), 1e-300)
    direction = scale * (vectors @ ((vectors.T @ (scale * gradient)) / np.maximum(np.abs(values), floor)))
    return direction, scale[:, None] * vectors[:, np.abs(values) <= 1e-9 * np.abs(values).max()]


def _line_search(
    derivatives: Derivatives, theta: np.ndarray, value: float, direction: np.ndarray, decrement: float
) -> tuple[np.ndarray, float, np.ndarray, np.ndarray] | None:
    slack = 1e-12 * (1 + abs(value))
    for halving in range(_HALVINGS):
        size = 0.5**halving
        candidate = theta + size * direction
        outcome = derivatives(candidate)
        if _finite(*outcome) and outcome[0] >= value + 1e-4 * size * decrement**2 - slack:
            return (candidate, *outcome)
    return None


def condition_number(hessian: np.ndarray) -> float:
    """Condition number of H scaled to a unit diagonal."""
    values, _, _ = _scaled_eigen(hessian)
    return float(values[-1] / values[0])
