"""Models that cannot be scored, and starts that are none: the variable or the operation is named."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.graph.op import Op
from refusing import N_LABELED, N, logistic, refused, table

import pymc_bpls as bpls
from pymc_bpls import ModelError

# No gradient


def test_a_discrete_free_variable_is_refused_by_name():
    X, y = table()
    with pm.Model() as model:
        flip = pm.Bernoulli("flip", 0.5)
        beta = pm.Normal("beta", 0, 1, shape=2)
        pm.Bernoulli("label", logit_p=(1 - 2 * flip) * (X @ beta), observed=y)
    refused(ModelError, lambda: bpls.BPLS(model), '"flip"', "discrete", "Marginalise")


def test_an_operation_without_a_gradient_is_refused_by_name():
    class BlackBox(Op):
        itypes, otypes = (pt.dvector,), (pt.dvector,)

        def perform(self, node, inputs, outputs):
            outputs[0][0] = np.tanh(inputs[0])

    X, y = table()
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=2)
        pm.Bernoulli("label", logit_p=BlackBox()(pt.dot(X, beta)), observed=y)
    refused(ModelError, lambda: bpls.BPLS(model).score(), "BlackBox", "JAX")


def test_a_model_without_free_variables_is_refused():
    X, y = table()
    with pm.Model() as model:
        pm.Bernoulli("label", logit_p=X[:, 0], observed=y)
    refused(ModelError, lambda: bpls.BPLS(model), "no free variable")


# Which observed variable


def test_a_likelihood_in_a_potential_is_refused_by_name():
    X, y = table()
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=2)
        pm.Potential("loglik", pm.logp(pm.Bernoulli.dist(logit_p=X @ beta), y).sum())
    refused(ModelError, lambda: bpls.BPLS(model), '"loglik"', "observed=")


def two_observed(y):
    X, _ = table()
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.Bernoulli("label", logit_p=X @ beta, observed=y)
        pm.Normal("score", beta, 1, observed=[1.0, -1.0])
    return model


def test_several_observed_variables_ask_for_a_target():
    _, y = table()
    refused(ModelError, lambda: bpls.BPLS(two_observed(y)), '"label", "score"', "target=")
    refused(ModelError, lambda: bpls.BPLS(two_observed(y), target="labels"), '"labels"', '"label", "score"')


def test_the_other_observed_variables_stay_part_of_the_density():
    X, y = table()
    with pm.Model() as model:
        # N(0, 2²) times N(±1 | β, 1) is N(±0.8, 0.8) up to a constant
        beta = pm.Normal("beta", np.array([0.8, -0.8]), np.sqrt(0.8), shape=2)
        pm.Bernoulli("label", logit_p=X @ beta, observed=y)
    found, expected = bpls.BPLS(two_observed(y), target="label").score(), bpls.BPLS(model).score()
    np.testing.assert_allclose(found["score"] - found["score"][0], expected["score"] - expected["score"][0], atol=1e-8)


# total_size


def test_total_size_is_refused():
    X, y = table()
    refused(ModelError, lambda: bpls.BPLS(logistic(X, y, total_size=1000)), '"label"', "total_size=")


# A start outside the support


def ordinal(**options):
    X, _ = table()
    y = np.where(np.arange(N) < N_LABELED, np.digitize(X[:, 0] + np.sin(5 * np.arange(N)), [-0.5, 0.5]), -1)
    with pm.Model() as model:
        cut = pm.Normal("cut", 0, 2, shape=2, transform=pm.distributions.transforms.ordered, **options)
        pm.OrderedLogistic("label", eta=X @ pm.Normal("beta", 0, 1, shape=2), cutpoints=cut, observed=y)
    return model


def test_ordered_cutpoints_without_a_start_are_fitted_as_from_a_start():
    expected = bpls.BPLS(ordinal(initval=np.array([-1.0, 1.0]))).fit().unconstrained
    np.testing.assert_allclose(bpls.BPLS(ordinal()).fit().unconstrained, expected, atol=1e-6)
    started = bpls.BPLS(ordinal(), initvals={"cut": [-1.0, 1.0]}).fit().unconstrained
    np.testing.assert_allclose(started, expected, atol=1e-6)


def test_a_start_for_an_unknown_variable_is_refused():
    X, y = table()
    refused(ModelError, lambda: bpls.BPLS(logistic(X, y), initvals={"gamma": 1.0}), "'gamma'", "Use names")


# Starts of another shape, and names


@pytest.mark.parametrize("start", [[1.0, 2.0, 3.0], [np.nan, 1.0]], ids=["three entries", "nan"])
def test_a_start_of_the_wrong_shape_or_not_finite_is_refused_by_name(start):
    refused(ModelError, lambda: bpls.BPLS(logistic(*table()), initvals={"beta": start}), '"beta"', "initvals=")


def test_a_start_outside_the_support_is_refused_by_name():
    X, y = table()
    with pm.Model() as model:
        scale, z = pm.HalfNormal("scale", 1), pm.Normal("z", 0, 1, shape=2)
        pm.Bernoulli("label", logit_p=X @ (scale * z), observed=y)
    refused(ModelError, lambda: bpls.BPLS(model, initvals={"scale": -1.0}), '"scale"', "initvals=")


@pytest.mark.parametrize("name", ["row", "parameter", "labels", "weights", "unconstrained"])
def test_a_variable_may_have_any_name(name):
    X, y = table()
    with pm.Model() as model:
        pm.Bernoulli("label", logit_p=pm.Normal(name, 0, 1) * X[:, 0], observed=y)
    run = bpls.BPLS(model).self_train(rounds=1, progressbar=False)
    assert run["history"].sizes["step"] == 1
