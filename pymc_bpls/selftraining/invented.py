"""Invented information: what the posterior became surer of, or moved to, without a label.

With q_n = N(θ̂_n, H_n⁻¹), Laplace's approximation of p(θ | D) with n pseudo-labels in D, and q_0 that of the labels alone,

    KL(q_n ‖ q_0) = ½ [tr(H_0 H_n⁻¹) + (θ̂_n − θ̂_0)' H_0 (θ̂_n − θ̂_0) − q + log det H_n − log det H_0]      nats.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from pymc_bpls.engine.modes.mode import Mode
from pymc_bpls.engine.sparse.curvature import SparseCurvature


def invented_information(mode: Mode, supervised: Mode) -> float:
    """KL(q ‖ q_supervised) of the Gaussians at two modes, in nats."""
    if mode is supervised:
        return 0.0
    if isinstance(mode.curvature, SparseCurvature) and isinstance(supervised.curvature, SparseCurvature):
        return _sparsely(mode.theta - supervised.theta, mode.curvature, supervised.curvature)
    return kullback_leibler(*_in_one_space(mode, supervised))


def _sparsely(move: np.ndarray, one: SparseCurvature, other: SparseCurvature) -> float:
    """KL(N(m_1, P_1⁻¹) ‖ N(m_2, P_2⁻¹)), m_1 − m_2 being `move`, by the entries of P_1⁻¹ where P_2 is not zero."""
    first, second = np.divmod(other.order.keys, other.order.q + 1)
    covariance = one.factor.inverse()[one.order.slots(first, second), 0]
    trace = (other.values[:-1] * covariance * np.where(first == second, 1.0, 2.0)).sum()
    log_dets = one.factor.log_det[0] - other.factor.log_det[0]
    return float(0.5 * (trace + move @ other.times(move) - len(move) + log_dets))


def _in_one_space(mode: Mode, supervised: Mode) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Points and curvatures of both modes in the coordinates of the first one's rows, which hold the other's, or in θ.

    Outside them both have the prior.
    """
    if mode.rows is None or supervised.rows is None:
        return (mode.theta, mode.hessian), (supervised.theta, supervised.hessian)
    space, old = mode.rows.space, supervised.rows.space
    into = scipy.linalg.block_diag(np.eye(old.flat), old.basis @ space.basis.T)
    more = into.T @ (supervised.curvature.matrix - old.prior.precision) @ into
    return (mode.point, mode.curvature.matrix), (supervised.point @ into, space.prior.precision + more)


def kullback_leibler(one: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray]) -> float:
    """KL(N(m_1, P_1⁻¹) ‖ N(m_2, P_2⁻¹)) in nats, of means (q,) and precisions (q, q).

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bpls.selftraining.invented import kullback_leibler
    >>> narrow, wide = (np.zeros(1), np.array([[4.0]])), (np.ones(1), np.array([[1.0]]))
    >>> round(kullback_leibler(narrow, wide), 4), round(0.5 * 0.25 + float(np.log(2)), 4)
    (0.8181, 0.8181)
    """
    (mean, precision), (mean_of_other, precision_of_other) = one, other
    factor, factor_of_other = (scipy.linalg.cholesky(each, lower=True) for each in (precision, precision_of_other))
    ratio = scipy.linalg.solve_triangular(factor, factor_of_other, lower=True)
    shift = factor_of_other.T @ (mean - mean_of_other)
    log_dets = 2 * np.log(np.diag(factor)).sum() - 2 * np.log(np.diag(factor_of_other)).sum()
    return float(0.5 * (np.square(ratio).sum() + shift @ shift - len(mean) + log_dets))
