"""Averages over the posterior where its mode is far away: a hierarchy by quadrature, and what an audit says of such labels."""

import numpy as np
import pymc as pm
import pytest
from scipy.special import expit, log_expit
from scipy.stats import halfnorm, norm

import pymc_bpls as bpls

LABELS, ONES = np.array([6] * 6 + [2, 2, 1, 1]), np.array([4, 4, 4, 4, 4, 4, 1, 1, 0, 1])
QUIET = {"progressbar": False}


def by_quadrature(k):
    """E[p(1 | group, θ)] of each group by p_k: over a and σ on a grid, over each group's own effect by Gauss and Hermite."""
    z, weights = np.polynomial.hermite_e.hermegauss(60)
    a, spread = np.linspace(-6, 6, 121), np.linspace(1e-3, 8, 121)
    eta = a[:, None, None] + spread[:, None] * z
    log_p = norm.logpdf(a, 0, 1.5)[:, None] + halfnorm.logpdf(spread, scale=2)
    means = []
    for n, ones in zip(LABELS, ONES, strict=True):
        likelihood = np.exp(k * (ones * log_expit(eta) + (n - ones) * log_expit(-eta))) @ np.diag(weights)
        log_p = log_p + np.log(likelihood.sum(axis=-1))
        means.append((likelihood * expit(eta)).sum(axis=-1) / likelihood.sum(axis=-1))
    p = np.exp(log_p - log_p.max())
    return np.array([(p * mean).sum() / p.sum() for mean in means])


@pytest.fixture(scope="module")
def hierarchy():
    """Ten groups, whose labels the mode takes for ten; one candidate in each."""
    groups, labels = np.repeat(np.arange(10), LABELS), []
    for n, ones in zip(LABELS, ONES, strict=True):
        labels += [1] * ones + [0] * (n - ones)
    with pm.Model() as model:
        spread, z = pm.HalfNormal("spread", 2), pm.Normal("z", 0, 1, shape=10)
        logit = pm.Normal("a", 0, 1.5) + (spread * z)[np.r_[groups, np.arange(10)]]
        pm.Bernoulli("label", logit_p=logit, observed=np.r_[labels, np.full(10, -1)])
    return model


def of_candidates(pls, **by):
    return pls.predict_proba(pls.problem.table.candidates, **by)[:, 1].to_numpy()


def test_predictions_are_averages_over_the_posterior_where_the_predictor_says_so(hierarchy):
    exact = by_quadrature(1)
    pls = bpls.BPLS(hierarchy)
    assert np.abs(of_candidates(pls) - exact).max() > 0.3  # the mode
    for averaged in (of_candidates(bpls.BPLS(hierarchy, predictor=name)) for name in ("ep", "auto")):
        np.testing.assert_allclose(averaged, exact, rtol=0, atol=0.005)
    by_run = of_candidates(pls, result=pls.self_train(rounds=0, **QUIET), by="gaussian")
    np.testing.assert_allclose(by_run, exact, rtol=0, atol=0.005)


@pytest.mark.slow
def test_an_audit_counts_the_labels_that_exact_values_contradict(hierarchy):
    p = by_quadrature(2)
    for predictor, cure in (("map", True), ("auto", False)):
        pls = bpls.BPLS(hierarchy, predictor=predictor)
        predicted = of_candidates(pls) > 0.5
        other = int((np.where(predicted, p, 1 - p) < 0.5).sum())
        assert (other > 0) == cure
        verdict = pls.audit(["ppp[ep]"], method="psis", random_seed=0, **QUIET).verdict
        said = f"Another class has a larger exact log PPP than the pseudo-label of {other} of 10 candidates (10%)"
        assert (said in verdict) == cure and ('predictor="auto" of BPLS' in verdict) == cure
    assert "Another class" not in bpls.BPLS(hierarchy).audit(["ppp[ep]"], labels="all", method="psis", **QUIET).verdict


def test_an_unknown_predictor_is_refused():
    with pytest.raises(bpls.CriterionError, match=r'predictor="EP" is unknown. Use "map", "auto", "ep", "vi", "laplace" or a'):
        bpls.BPLS(predictor="EP")
