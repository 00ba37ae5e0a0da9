"""How far EP's level is off under priors with a spike or heavy tails, by quadrature, and when a user is told."""

import warnings
from itertools import pairwise

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import log_expit, logsumexp

import pymc_bpls as bpls

COEFFICIENTS, ROWS = 20, 6


def declared():
    """Each coefficient has rows of its own, so that its posterior is a density of one number."""
    rng = np.random.default_rng(1)
    X, y = np.zeros((COEFFICIENTS * ROWS + 1, COEFFICIENTS)), np.full(COEFFICIENTS * ROWS + 1, -1)
    X[-1] = rng.normal(size=COEFFICIENTS)
    for c in range(COEFFICIENTS):
        own = slice(c * ROWS, (c + 1) * ROWS)
        X[own, c] = rng.normal(size=ROWS) * 2
        y[own] = X[own, c] * (2.5 if c < 5 else 0) + rng.logistic(size=ROWS) > 0
    return X, y


def level(X, y, log_prior):
    """log Z_2 - log Z_1 by Gauss-Legendre quadrature, coefficient by coefficient."""
    marks = np.geomspace(1e-6, 4000, 80)
    x, w = np.polynomial.legendre.leggauss(12)
    pieces = [*pairwise(np.concatenate([-marks[::-1], [0.0], marks]))]
    t = np.concatenate([(a + b) / 2 + (b - a) / 2 * x for a, b in pieces])
    log_w = np.concatenate([np.log((b - a) / 2 * w) for a, b in pieces])
    total = 0.0
    for c in range(COEFFICIENTS):
        own = range(c * ROWS, (c + 1) * ROWS)
        log_lik = sum(log_expit((2 * y[i] - 1) * X[i, c] * t) for i in own)
        total += logsumexp(2 * log_lik + log_prior(t) + log_w) - logsumexp(log_lik + log_prior(t) + log_w)
    return total


@pytest.mark.parametrize(
    ("declare", "log_prior", "warned", "off_by"),
    [
        (lambda: pm.Normal("b", 0, 2.5, shape=COEFFICIENTS), stats.norm(0, 2.5).logpdf, False, 0.05),
        (lambda: pm.Laplace("b", 0, 0.1, shape=COEFFICIENTS), stats.laplace(0, 0.1).logpdf, False, 0.05),
        (lambda: pm.StudentT("b", nu=2, mu=0, sigma=0.02, shape=COEFFICIENTS), stats.t(2, 0, 0.02).logpdf, True, 0.5),
    ],
)
def test_a_level_that_may_be_off_by_more_than_a_tenth_is_told(declare, log_prior, warned, off_by, recwarn):
    warnings.simplefilter("always")
    X, y = declared()
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=X @ declare(), observed=y)
    scores = bpls.BPLS(model).score("ppp[ep]", other_modes=False)
    off = abs(scores.attrs["log_normalizer"] - level(X, y, log_prior))
    assert (off > 0.1) == warned
    assert off < off_by
    told = [str(each.message) for each in recwarn if "EP's constant in the scores" in str(each.message)]
    assert len(told) == warned
