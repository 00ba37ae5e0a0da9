"""When a point is a mode: one test, for one point or many at once, in NumPy and in JAX.

Three things hold together: the Newton decrement λ = (g' H⁻¹ g)^½ is below 1e-10 (or as small as rounding lets it become), H is
positive definite and well conditioned, and one more step does not change log det H. The last test refuses the flanks of a
likelihood without a maximum, on which λ vanishes as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np

DECREMENT = 1e-10
ROUNDED_DECREMENT = 1e-6
_LOG_DET_CHANGE = 1e-5
_SINGULAR = 1e-11
_SAME_BASIN = 10.0


def converged(decrement: Any, last_decrement: Any, log_det: Any, last_log_det: Any, verified_log_det: Any = np.inf) -> Any:
    """Whether Newton's method has arrived, by λ and log det H at the present point and at the one before.

    One point is enough where log det H stays near that of a verified mode nearby, `verified_log_det`: on the flank of a
    function without a maximum it would be tens below.
    """
    small = (decrement <= DECREMENT) | ((decrement <= ROUNDED_DECREMENT) & (decrement >= 0.5 * last_decrement))
    settled = (abs(log_det - last_log_det) <= _LOG_DET_CHANGE) | (log_det >= verified_log_det - _SAME_BASIN)
    return small & settled


def well_conditioned(factor_diagonal: Any, hessian_diagonal: Any) -> Any:
    """Whether no parameter is a combination of the former ones, by the diagonals (…, q) of H's Cholesky factor and of H.

    L_kk²/H_kk is the share of parameter k's curvature that the former ones do not explain; it is NaN where H is indefinite.
    """
    return well_explained(factor_diagonal**2 / hessian_diagonal)


def well_explained(shares: Any) -> Any:
    """The same by these shares (…, q)."""
    return (shares > _SINGULAR).all(axis=-1)
