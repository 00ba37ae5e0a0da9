"""The quadrature against SciPy's."""

from __future__ import annotations

import numpy as np
import scipy.integrate

from validation.remainder.cases import SIZES, cases
from validation.remainder.measure import Record, rounded
from validation.remainder.quadrature import Rows, Softmax


def scipy_check() -> Record:
    """The first logistic data set at the smallest n by `scipy.integrate.cubature`, and the spread of the difference."""
    case = cases()[0]
    rows, n = case.simulate(np.random.default_rng([7, 0])), int(SIZES[0])
    D, pool = (Rows(*(part[some] for part in rows)) for some in (slice(n), slice(int(SIZES[-1]), None)))
    model = case.exact
    assert isinstance(model, Softmax)
    mode, hessian = model.mode(D)
    reach = 14 * np.sqrt(np.diag(np.linalg.inv(hessian)))
    peak = model.log_density(mode[None], D)[0]

    def integrand(theta: np.ndarray) -> np.ndarray:
        return np.exp(model.log_density(theta, D)[:, None] - peak + model.log_lik(theta, pool))

    by_scipy = scipy.integrate.cubature(integrand, mode - reach, mode + reach, rtol=1e-11, atol=0)
    difference = np.log(by_scipy.estimate) - model.with_nodes(D, pool, model.nodes[-1])
    return {"model": case.name, "n": n, "status": by_scipy.status, "difference": rounded(float(difference.std(ddof=1)))}
