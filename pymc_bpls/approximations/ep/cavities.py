"""Cavities of expectation propagation: what q says of each row's predictor without that row's own factor.

With f_j ~ N(m_j, v_j) under q and the site exp(ν_j f − ½ τ_j f²) of row j, the cavity N(m, v) has 1/v = 1/v_j − τ_j and
m/v = m_j/v_j − ν_j. It is close to the fit without row j, which costs another fit [1]_.

References
----------
.. [1] Opper, M. and Winther, O. (2000). Gaussian processes for classification: mean-field algorithms. Neural Computation 12,
   2655-2684. https://doi.org/10.1162/089976600300014881
"""

from __future__ import annotations

from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.approximations.gaussians.sparse_part import SparsePart
from pymc_bpls.approximations.quadrature.tilted import Marginals


def cavity_marginals(q: Gaussian | SparsePart) -> Marginals:
    """Mean and variance (n,) of the predictors of D's rows, each without its own site; q is EP's fit of D."""
    assert q.sites is not None and q.sites.marginals is not None
    n = len(q.sites.labeled)
    tau, nu = q.sites.tau[:n], q.sites.nu[:n]
    mean, variance = (each[:n] for each in q.sites.marginals)
    without = 1 / (1 / variance - tau)
    return Marginals(without * (mean / variance - nu), without)
