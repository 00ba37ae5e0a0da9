"""Rows whose numbers leave double precision are named, whatever is asked for; what EP says is not lost beside a kink."""

import warnings
from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
from scipy.stats import norm

import pymc_bpls as bpls
from pymc_bpls.approximations import by_name

rng = np.random.default_rng(0)
X = np.column_stack([np.ones(60), rng.normal(size=(60, 2))])
Y = np.where(np.arange(60) < 24, (X @ [0.3, 1.0, -1.0] + rng.logistic(size=60) > 0).astype(int), -1)


def declared(features, prior=lambda: pm.Normal("b", 0, 2.5, shape=3)):
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=features @ prior(), observed=Y)
    return bpls.BPLS(model)


@pytest.mark.parametrize("size", [1e100, 1e155, 1e300])
@pytest.mark.parametrize("approximation", ["auto", "ep", "laplace", "vi"])
def test_a_labeled_row_that_is_too_far_away_is_named(size, approximation):
    far = X.copy()
    far[5] *= size
    with pytest.raises(bpls.RowError, match=r'1 labeled row is too far away.*row 5, whose factor of "b\[0\]" is 1e\+'):
        declared(far).score("ppp", approximation=approximation)


def test_so_is_a_column():
    far = X * [1, 1, 1e155]
    for use in (lambda pls: pls.fit(), lambda pls: pls.self_train(rounds=1), lambda pls: pls.exact(method="psis")):
        with pytest.raises(
            bpls.RowError, match=r'24 labeled rows are too far away.*"b\[2\]".*Rescale these columns'
        ) as refusal:
            use(declared(far))
        assert len(str(refusal.value)) < 320


def test_a_column_in_other_units_changes_no_order():
    scores = [
        declared(X * [1, 1, size], lambda size=size: pm.Normal("b", 0, np.array([2.5, 2.5, 2.5 / size]), shape=3)).score()
        for size in (1.0, 1e30, 1e-30)
    ]
    for other in scores[1:]:
        np.testing.assert_allclose(other.score, scores[0].score, atol=1e-6)


def test_what_ep_says_is_told_where_there_is_no_mode_either(monkeypatch):
    def fails(*_, **__):
        raise bpls.ApproximationError("Expectation propagation did not settle for row 3. Use lighter tails.")

    pls = declared(X, lambda: pm.Laplace("b", 0, 0.05, shape=3))
    monkeypatch.setitem(by_name.APPROXIMATIONS, "ep", replace(by_name.APPROXIMATIONS["ep"], fit=fails))
    with pytest.raises(bpls.ModeError, match=r"kink in .*\(expectation propagation did not settle for row 3\)\.$"):
        pls.score()


def softmax(features):
    return pm.Categorical("y", logit_p=features @ pm.Normal("b", 0, 2.5, shape=(3, 3)), observed=(Y[:24] + (X[:24, 1] > 1)))


def logit(features):
    return pm.Bernoulli("y", logit_p=features @ pm.Normal("b", 0, 2.5, shape=3), observed=Y[:24])


@pytest.mark.parametrize("predictor", ["ep", "vi", "laplace"])
def test_a_predicted_row_far_away_has_the_limit_of_its_probabilities(predictor):
    """Of p(y = 1) = E[1 / (1 + exp(−η))] it is P(slope > 0), here of the Gaussian of the fit."""
    with pm.Model() as model:
        logit(pm.Data("X", X[:24]))
    pls = bpls.BPLS(model, predictor=predictor)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = [
            pls.predict_proba({"X": np.array([[1.0, size, 0.0]])}).to_numpy()[0, 1] for size in (1e90, 1e155, 1e308, -1e308)
        ]
    np.testing.assert_allclose(found, [found[0]] * 3 + [1 - found[0]], rtol=1e-9)
    assert 0.7 < found[0] < 1
    if predictor == "laplace":
        fit = pls.fit()
        mean, sd = fit.unconstrained.to_numpy()[1], np.linalg.inv(fit.hessian.to_numpy())[1, 1] ** 0.5
        np.testing.assert_allclose(found[0], norm.cdf(mean / sd), atol=1e-6)


def test_so_it_has_of_several_classes_and_as_a_candidate():
    with pm.Model() as model:
        softmax(pm.Data("X", X[:24]))
    near, far = (bpls.BPLS(model, predictor="laplace", pool={"X": np.array([[1.0, size, 0.0]])}) for size in (1e90, 1e308))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        np.testing.assert_allclose(far.predict_proba([24]), near.predict_proba([24]), rtol=1e-9)
    assert near.predict_proba([24]).max() < 1
    with pm.Model() as model:
        logit(pm.Data("X", X[:24]))
    near, far = (bpls.BPLS(model, pool={"X": np.array([[1.0, size, 0.0]])}) for size in (1e90, 1e308))
    np.testing.assert_allclose(far.score("ppp").score, near.score("ppp").score, rtol=1e-9)
