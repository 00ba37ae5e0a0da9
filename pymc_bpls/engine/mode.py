"""Laplace's method: a verified mode of the log-posterior, its Hessian, and what is wrong where there is none.

Modes are found by Newton's method with a line search, on the unconstrained scale and with the log-Jacobian, for mode and
Hessian alike. A point is a mode where three things hold together: the Newton decrement λ = (g' H⁻¹ g)^½ is below 1e-10 (or
as small as rounding lets it become), H is positive definite and well conditioned, and one more step does not change
log det H. The last test refuses the flanks of a likelihood without a maximum, on which λ vanishes as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.linalg
import xarray as xr

from pymc_bpls.engine.failures import Derivatives, Failure, explain
from pymc_bpls.errors import ModeError
from pymc_bpls.text.summary import Summary

DECREMENT = 1e-10
ROUNDED_DECREMENT = 1e-6
LOG_DET_CHANGE = 1e-5
SINGULAR = 1e-11
SAME_BASIN = 10.0
_MOST_STEPS = 200
_HALVINGS = 30
_RESTARTS = 6
_FAR_OFF = 15.0
_SHOWN = 15


@dataclass(frozen=True)
class Mode:
    """A maximum of S: θ (q,), S(θ), H = −∇²S(θ) (q, q), log det H, Newton decrement, steps taken."""

    theta: np.ndarray
    value: float
    hessian: np.ndarray
    log_det: float
    decrement: float
    steps: int

    @property
    def log_integral(self) -> float:
        """Laplace's log ∫ exp S = S(θ̃) + (q/2) log 2π − ½ log det H."""
        return self.value + 0.5 * len(self.theta) * np.log(2 * np.pi) - 0.5 * self.log_det


@dataclass(frozen=True, repr=False)
class LaplaceFit:
    """The Gaussian approximation of the posterior of θ given D at its mode; `print` it first.

    Attributes
    ----------
    mode : xarray.Dataset
        The free variables at the mode of the *unconstrained* density (with Jacobian), on their own scale.
    unconstrained : xarray.DataArray, shape (parameter,)
        The mode itself.
    hessian : xarray.DataArray, shape (parameter, parameter_bis)
        −∇² of the log-posterior there.
    log_evidence : float or None
        Laplace's log p(D); None under an improper prior.
    converged : bool
    diagnostics : dict
        Newton decrement, steps, condition number of the scaled Hessian.
    """

    mode: xr.Dataset
    unconstrained: xr.DataArray
    hessian: xr.DataArray
    log_evidence: float | None
    converged: bool
    diagnostics: dict[str, float]

    def __str__(self) -> str:
        return str(self._summary())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self._summary()._repr_html_()

    def _summary(self) -> Summary:
        """What to trust it for, and mode and standard deviation (of H⁻¹) of each unconstrained parameter."""
        evidence = "none (improper prior)" if self.log_evidence is None else f"{self.log_evidence:.3f}"
        factor = scipy.linalg.cholesky(self.hessian.to_numpy(), lower=True)
        sd = np.linalg.norm(scipy.linalg.solve_triangular(factor, np.eye(len(factor)), lower=True), axis=0)
        table = pd.DataFrame(
            {"mode": self.unconstrained.to_numpy().round(3), "sd": sd.round(3)},
            index=pd.Index(self.unconstrained["parameter"].to_numpy(), name="unconstrained parameter"),
        )
        hidden = len(table) - _SHOWN
        sentences = [
            f"LaplaceFit of {len(table)} parameters: log evidence {evidence}, {'' if self.converged else 'not '}converged",
            *([f"{hidden} more parameters are in unconstrained and hessian."] if hidden > 0 else []),
            f"Newton decrement {self.diagnostics['decrement']:.1e} after {self.diagnostics['steps']:.0f} steps, condition "
            f"number {self.diagnostics['condition']:.1e}. Variables on their own scale are in mode.",
        ]
        return Summary(sentences, table[:_SHOWN])


def find_mode(
    derivatives: Derivatives,
    start: np.ndarray,
    names: Sequence[str],
    *,
    prior: bool,
    n_rows: int,
    not_finite: Callable[[np.ndarray], Sequence[str]] = lambda theta: [],
) -> Mode:
    """The verified mode of S from `start`, or from starts jittered around it where that fails.

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
            return outcome
        failures.append(outcome)
        if outcome.kind in ("singular", "runaway"):
            break
    raise ModeError(explain(failures, derivatives, names, prior=prior, n_rows=n_rows, not_finite=not_finite(start)))


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
            small = decrement <= DECREMENT or (decrement <= ROUNDED_DECREMENT and decrement >= 0.5 * last_decrement)
            if small and abs(log_det - last_log_det) <= LOG_DET_CHANGE:
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
    """The Cholesky factor, or None where H is not positive definite or a parameter is a combination of others.

    L_kk²/H_kk is the share of parameter k's curvature that the former ones do not explain.
    """
    try:
        factor = scipy.linalg.cholesky(hessian, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    unexplained = np.diag(factor) ** 2 / np.diag(hessian)
    return factor if bool(np.all(unexplained > SINGULAR)) else None


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


def as_fit(mode: Mode, named: xr.Dataset, labels: Sequence[str], log_evidence: float | None) -> LaplaceFit:
    """A mode as the user sees it."""
    coords: dict[str, Any] = {"parameter": list(labels)}
    return LaplaceFit(
        mode=named,
        unconstrained=xr.DataArray(mode.theta, dims="parameter", coords=coords),
        hessian=xr.DataArray(
            mode.hessian, dims=("parameter", "parameter_bis"), coords={**coords, "parameter_bis": list(labels)}
        ),
        log_evidence=log_evidence,
        converged=True,
        diagnostics={
            "decrement": mode.decrement,
            "steps": float(mode.steps),
            "condition": condition_number(mode.hessian),
        },
    )
