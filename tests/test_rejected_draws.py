"""Draws whose parameters PyMC rejects in a row have density 0 there: exact values beside sums over a grid of two parameters."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.special import expit, logsumexp
from scipy.stats import norm

import pymc_bpls as bpls
from pymc_bpls.trained.draws import probabilities_over_draws

N, N_LABELED = 40, 30
_rng = np.random.default_rng(4)
x = np.r_[_rng.uniform(-1, 1, N_LABELED), np.linspace(-1.3, 1.3, N - N_LABELED)]
U = _rng.random(N)
A, B = np.meshgrid(np.linspace(-0.3, 1.3, 401), np.linspace(-1.2, 1.2, 481), indexing="ij")

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*Beta-Binomial of one trial"),
]


def with_rejections(p, *, allowed):
    """Both classes' probabilities, 0 where parameters are not `allowed`."""
    return np.where(allowed, 1 - p, 0.0), np.where(allowed, p, 0.0)


def relative_risks(a, b):
    pm.Bernoulli("y", p=pm.math.exp(-1.2 + a + b * x), observed=labels(np.exp(-0.7 + 0.3 * x)))


def of_relative_risks(i):
    p = np.exp(-1.2 + A + B * x[i])
    return with_rejections(p, allowed=p <= 1)


def identity_link(a, b):
    pm.Bernoulli("y", p=a + b * x, observed=labels(0.5 + 0.25 * x))


def of_identity_link(i):
    p = A + B * x[i]
    return with_rejections(p, allowed=(p >= 0) & (p <= 1))


def zero_inflation(a, b):
    pm.ZeroInflatedBinomial("y", psi=a + b * x, n=1, p=0.8, observed=labels(0.4 + 0.2 * x))


def of_zero_inflation(i):
    psi = A + B * x[i]
    return with_rejections(0.8 * psi, allowed=(psi >= 0) & (psi <= 1))


def beta_binomial(a, b):
    pm.BetaBinomial("y", n=1, alpha=a + b * x, beta=0.2, observed=labels(0.7 + 0.1 * x))


def of_beta_binomial(i):
    alpha = A + B * x[i]
    with np.errstate(divide="ignore"):
        return with_rejections(alpha / (alpha + 0.2), allowed=alpha > 0)


def bounded_by_a_potential(a, b):
    pm.Bernoulli("y", logit_p=a + 3 * b * x, observed=labels(expit(0.5 + x)))
    pm.Potential("bound", pt.switch(a + b > 0.9, -np.inf, 0.0))


def of_bounded_by_a_potential(i):
    return with_rejections(expit(A + 3 * B * x[i]), allowed=A + B <= 0.9)


def mixture_weights(a, b):
    w = pt.stack([a + b * x, 1 - (a + b * x)], axis=-1)
    pm.Mixture("y", w=w, comp_dists=[pm.Bernoulli.dist(p=np.full(N, p)) for p in (0.9, 0.2)], observed=labels(0.5 + 0.1 * x))


def of_mixture_weights(i):
    w = A + B * x[i]
    return with_rejections(0.9 * w + 0.2 * (1 - w), allowed=(w >= 0) & (w <= 1))


def labels(p):
    return np.where(np.arange(N) < N_LABELED, (p > U).astype(int), -1)


MODELS = {
    relative_risks: (of_relative_risks, {}),
    identity_link: (of_identity_link, {}),
    zero_inflation: (of_zero_inflation, {"classes": [0, 1]}),
    beta_binomial: (of_beta_binomial, {}),
    bounded_by_a_potential: (of_bounded_by_a_potential, {}),
    mixture_weights: (of_mixture_weights, {"classes": [0, 1]}),
}


def by_grid(of_row, y):
    """log PPP of each candidate and class (candidates, 2)."""
    log_prior = norm.logpdf(A, 0.5, 0.2) + norm.logpdf(B, 0, 0.3)
    with np.errstate(divide="ignore"):
        log_p = np.log([of_row(i) for i in range(N)])
    log_lik = sum(log_p[i, y[i]] for i in range(N_LABELED))
    of_pairs = [[logsumexp(2 * log_lik + each + log_prior) for each in log_p[i]] for i in range(N_LABELED, N)]
    return np.array(of_pairs) - logsumexp(log_lik + log_prior)


@pytest.mark.parametrize(
    "declare",
    [pytest.param(declare, marks=[pytest.mark.slow] * (place > 1)) for place, declare in enumerate(MODELS)],
    ids=lambda declare: declare.__name__,
)
def test_exact_values_count_a_rejected_draw_as_zero(declare):
    of_row, options = MODELS[declare]
    with pm.Model() as model:
        declare(pm.Normal("a", 0.5, 0.2), pm.Normal("b", 0, 0.3))
    pls = bpls.BPLS(model, **options)
    run = pls.exact("ppp", labels="all", method="psis", random_seed=0, progressbar=False)
    exact, expected = run["exact"], by_grid(of_row, pls.scorer.problem.table.codes)
    assert run.attrs["reliable"], run.attrs["reasons"]
    off = np.abs(exact["log_ppp"].to_numpy() - expected)
    assert (off <= 4 * exact["mcse"].to_numpy()).all() and exact["mcse"].max() < 0.05


def test_class_probabilities_over_draws_leave_rejected_draws_out():
    """p(y | x, θ) averages over the draws at which there is one: θ = .2 and .6 of p = θ x, of which x = 2 leaves the first."""
    at = np.array([[0.2], [0.6]])
    with pm.Model() as model:
        b = pm.Normal("b", 0.3, 0.2)
        pm.Bernoulli("y", p=b * np.array([1.0, 0.5, 2.0, 9.0]), observed=[1, 0, -1, -1])
    pls = bpls.BPLS(model)
    found = probabilities_over_draws(pls.scorer, pls.labeled, at, np.arange(4), np.log([0.25, 0.75]))
    np.testing.assert_allclose(found.mean[:, 1], [0.5, 0.25, 0.4, np.nan], rtol=1e-12)
    np.testing.assert_allclose(found.sd[2:, 1], [0.0, np.nan], atol=1e-12)


def test_a_row_that_pymc_rejects_in_every_draw_is_named():
    """A probability of 2 or more is one nowhere: the row has no value, and the reference is not called reliable."""
    far = np.r_[x[:-1], 1e6]
    y = labels(0.5 + 0.25 * x)
    with pm.Model() as model:
        a, b = pm.Normal("a", 0.5, 0.2), pm.Normal("b", 0, 0.3)
        pm.Bernoulli("y", p=a + b * far, observed=y)
    pls = bpls.BPLS(model)
    with pytest.warns(bpls.BPLSWarning, match="PyMC rejects the parameters of 2 of 20 values in every draw"):
        run = pls.exact("ppp", labels="all", method="psis", random_seed=0, progressbar=False)
    assert not run.attrs["reliable"]
    assert np.isnan(run["exact"]["log_ppp"].to_numpy()).sum() == 2
