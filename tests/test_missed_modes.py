"""Draws that miss one of two symmetric modes: label noise, with constants by quadrature."""

import numpy as np
import pymc as pm
import pytest
from numpy.polynomial.legendre import leggauss
from scipy.special import expit, logsumexp
from scipy.stats import norm

import pymc_bpls as bpls
from pymc_bpls.montecarlo.bridge import LogRatio
from pymc_bpls.montecarlo.references import _disagreement

Q, N = 12, 18
GROUP = np.r_[np.arange(Q), np.arange(6), np.arange(4)]
Y = np.r_[np.tile([1, 0], 6), 1, 0, 1, 0, 1, 1, -1, -1, -1, -1]


def log_constants():
    """log Z_1 and log Z_2: given the noise, each row's group has an integral of its own."""
    nodes, weights = leggauss(300)
    b, e = 20 * nodes, (leggauss(150)[0] + 1) / 2
    prior = (np.log(20 * weights) + norm.logpdf(b, 0, 2.5))[:, None]
    p = expit(b)[:, None] * (1 - e) + (1 - expit(b))[:, None] * e
    log_p = np.stack([np.log1p(-p), np.log(p)])
    given_e = [sum(logsumexp(k * log_p[Y[:N][GROUP[:N] == j]].sum(axis=0) + prior, axis=0) for j in range(Q)) for k in (1, 2)]
    return [float(logsumexp(each + np.log(leggauss(150)[1] / 2))) for each in given_e]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pymc_bpls.BPLSWarning")
def test_a_constant_of_draws_that_miss_a_mode_is_right_or_called_unreliable():
    with pm.Model() as model:
        b, noise = pm.Normal("b", 0, 2.5, shape=Q), pm.Beta("noise", 1, 1)
        p = pm.math.invlogit(b[GROUP])
        pm.Bernoulli("y", p=p * (1 - noise) + (1 - p) * noise, observed=Y)
    first, second = log_constants()
    found = bpls.BPLS(model).exact(method="psis", random_seed=0, progressbar=False).attrs
    right = abs(found["log_normalizer"] - (second - first)) < 4 * found["log_normalizer_error"]
    assert right and not found["reliable"] and "miss a mode" in found["reasons"][0]


@pytest.mark.parametrize(
    ("second", "said"), [(-7.0, False), (-7.1, False), (-7.0 - np.log(2), True)], ids=["same", "near", "half of the mass"]
)
def test_constants_that_disagree_are_a_reason_to_distrust_draws(second, said):
    reasons = _disagreement(LogRatio(-4.0, 0.02), LogRatio(second, 0.01), LogRatio(-3.0, 0.01))
    assert bool(reasons) == said
