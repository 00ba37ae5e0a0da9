"""The distribution of some labels of a multivariate likelihood, from the mean and covariance that PyMC has for all of them.

It tells what the whole table cannot: which rows and columns of a matrix belong to some rows. A covariance is to be cut both
ways, its Cholesky factor by rows, and a precision matrix not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import scipy
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

from pymc_bpls.model.density import held_constant
from pymc_bpls.model.graphs.slicing import PLAIN, Source, remake


def _normal(mean: Any, covariance: Any) -> Any:
    return scipy.stats.multivariate_normal(mean, covariance, allow_singular=True)


def _student(mean: Any, scale: Any, degrees: Any) -> Any:
    return scipy.stats.multivariate_t(mean, scale, df=float(degrees), allow_singular=True)


#: Where a distribution has its mean, its covariance or scale, and other parameters, and SciPy's version of it.
KNOWN: dict[str, tuple[tuple[int, ...], Callable[..., Any]]] = {
    "MvNormalRV": ((0, 1), _normal),
    "MvStudentTRV": ((1, 2, 0), _student),
}


def find_marginal(model: pm.Model, target: Variable, source: Source) -> Callable[..., float] | None:
    """log p of `labels` (n,) in rows `positions` (n,) at θ, or None where it is not known without the other labels."""
    op = target.owner.op
    order, distribution = KNOWN.get(type(op).__name__, ((), None))
    if distribution is None:
        return None
    parameters = op.dist_params(target.owner)
    values = model.replace_rvs_by_values([parameters[i] for i in order])
    if source.label in set(ancestors(values)):
        return None
    theta, parts = source.theta()
    made = remake(values, {**held_constant(values, source), **parts})
    function = pytensor.function([theta], made, mode=PLAIN, on_unused_input="ignore")
    n = source.n_rows

    def log_density(theta: np.ndarray, labels: np.ndarray, positions: np.ndarray) -> float:
        mean, covariance, *others = function(theta)
        if np.shape(covariance) != (n, n):
            raise ValueError(f"its covariance has shape {np.shape(covariance)} and the table {n} rows")
        block = distribution(np.broadcast_to(mean, n)[positions], covariance[np.ix_(positions, positions)], *others)
        return float(block.logpdf(labels))

    return log_density
