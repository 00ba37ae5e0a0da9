"""Posteriors without a trustworthy mode are refused, with the parameters to blame; those that have one are not."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from refusing import N_LABELED, N, flat_logistic, logistic, refused, separated, softmax, table

import pymc_bpls as bpls
from pymc_bpls import BPLSWarning, CriterionError, ModeError

# A centered hierarchy


@pytest.mark.parametrize("method", ["fit", "predict_proba"])
def test_a_centered_hierarchy_ends_in_an_error_that_names_the_scale(method):
    _, y = table()
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1)
        group = pm.Normal("group", 0, tau, shape=4)
        pm.Bernoulli("label", logit_p=group[np.arange(N) % 4], observed=y)
    pls = bpls.BPLS(model, predictor="map")
    refused(ModeError, getattr(pls, method), '"tau', "no finite mode", "non-centered")


@pytest.mark.parametrize("scale", [pm.Exponential, pm.HalfCauchy])
def test_a_centered_hierarchy_with_slopes_names_the_scale_whatever_its_prior(scale):
    X, y = table()
    with pm.Model() as model:
        tau = scale("tau", 1)
        slope = pm.Normal("slope", pm.Normal("mu", 0, 1), tau, shape=6)
        pm.Bernoulli("label", logit_p=slope[np.arange(N) % 6] * X[:, 0], observed=y)
    refused(ModeError, bpls.BPLS(model).fit, '"tau', "no finite mode", "non-centered")


def test_a_criterion_without_the_prior_refuses_a_hierarchy():
    _, y = table()
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        group = pm.Normal("group", mu, 1, shape=4)
        pm.Bernoulli("label", logit_p=group[np.arange(N) % 4], observed=y)
    refused(CriterionError, lambda: bpls.BPLS(model).score("ubpls"), '"ubpls"', '"group"', '"mu"', '"ppp"')


# Separation


@pytest.mark.parametrize("method", ["fit", "score", "self_train"])
def test_separated_rows_with_a_flat_prior_are_refused_with_the_direction(method):
    refused(ModeError, lambda: getattr(bpls.BPLS(flat_logistic(*separated())), method)(), '"beta[0]"', "proper prior")


@pytest.mark.parametrize("criterion", ["reference", "likelihood", "ubpls"])
@pytest.mark.parametrize("declare", [logistic, flat_logistic])
def test_separated_rows_are_refused_by_criteria_without_the_prior(criterion, declare):
    refused(ModeError, lambda: bpls.BPLS(declare(*separated())).score(criterion), '"beta[0]"')


def test_separated_rows_are_refused_by_the_paper_s_expansion():
    refused(ModeError, lambda: bpls.BPLS(logistic(*separated())).score(expansion="mle"), '"beta[0]"', "separated")


def test_the_direction_of_separation_has_its_sign():
    X, y = separated()
    refused(ModeError, lambda: bpls.BPLS(logistic(X, np.where(y < 0, -1, 1 - y))).score("reference"), '-"beta[0]"')


def test_quasi_separation_is_refused_too():
    X, y = table()
    X = np.column_stack([X[:, 0], (np.arange(N) % 4 == 0).astype(float)])
    y = np.where((y >= 0) & (X[:, 1] > 0), 1, y)
    refused(ModeError, lambda: bpls.BPLS(logistic(X, y)).score("reference"), '"beta[1]"', "separated")


def test_separated_rows_with_a_proper_prior_have_a_value():
    scores = bpls.BPLS(logistic(*separated())).score(approximation="laplace")
    assert np.isfinite(scores["score"]).all()
    assert scores["converged"].all()


def test_one_class_only_has_no_maximum_likelihood():
    X, y = table()
    X = np.column_stack([np.ones(N), X[:, 0]])
    with pytest.warns(BPLSWarning, match="no labeled row of class 0"):
        pls = bpls.BPLS(logistic(X, np.where(y < 0, -1, 1)))
    refused(ModeError, lambda: pls.score("reference"), '"beta[0]"', "separated")
    assert np.isfinite(pls.score()["score"]).all()


# Singular Hessians and kinks


def test_a_duplicated_column_with_flat_priors_is_refused_with_both_names():
    X, y = table()
    model = flat_logistic(X[:, [0, 1, 0]], y)
    refused(ModeError, bpls.BPLS(model).fit, '"beta[0]"', '"beta[2]"', "not identified", "proper prior")


def test_a_duplicated_column_with_proper_priors_has_a_value():
    X, y = table()
    assert np.isfinite(bpls.BPLS(logistic(X[:, [0, 1, 0]], y)).score()["score"]).all()


@pytest.mark.parametrize("criterion", ["reference", "likelihood", "ubpls"])
def test_a_duplicated_column_is_refused_by_criteria_without_the_prior(criterion):
    X, y = table()
    pls = bpls.BPLS(logistic(X[:, [0, 1, 0]], y))
    refused(ModeError, lambda: pls.score(criterion), '"beta[0]"', '"beta[2]"', "do not identify")


def test_more_parameters_than_labeled_rows_are_refused_without_the_prior():
    X = np.random.default_rng(1).normal(size=(N, N_LABELED + 2))
    refused(ModeError, lambda: bpls.BPLS(logistic(X, table()[1])).score("reference"), '"beta[', "16 labeled rows")


def test_an_over_parametrised_softmax_with_flat_priors_is_refused():
    y = np.where(np.arange(N) < N_LABELED, np.arange(N) % 3, -1)
    refused(ModeError, bpls.BPLS(softmax(y, pm.Flat)).fit, '"beta[0, 0]"', "not identified", "proper prior")


def kinked():
    X, y = table()
    with pm.Model() as model:
        beta = pm.Laplace("beta", 0, 0.02, shape=2)
        pm.Bernoulli("label", logit_p=X @ beta, observed=y)
    return model


@pytest.mark.parametrize("method", ["fit", "score"])
def test_a_laplace_prior_with_its_mode_at_zero_is_refused_as_a_kink(method):
    by = {"approximation": "laplace"} if method == "score" else {}
    refused(ModeError, lambda: getattr(bpls.BPLS(kinked()), method)(**by), '"beta[', "kink", "Normal")


def test_a_laplace_prior_with_its_mode_at_zero_is_refused_from_another_start_too():
    pls = bpls.BPLS(kinked(), initvals={"beta": np.array([0.7, -0.4])})
    refused(ModeError, pls.fit, '"beta[', "kink", "Normal")


def test_a_laplace_prior_with_its_mode_off_zero_has_a_value():
    X, _ = table()
    y = np.where(np.arange(N) < N_LABELED, (X @ [3, -3] + np.sin(np.arange(N)) > 0).astype(int), -1)
    with pm.Model() as model:
        beta = pm.Laplace("beta", 0, 5, shape=2)
        pm.Bernoulli("label", logit_p=X @ beta, observed=y)
    assert np.isfinite(bpls.BPLS(model).score()["score"]).all()


def test_a_relu_network_is_refused():
    X, y = table()
    with pm.Model() as model:
        first, second = pm.Normal("first", 0, 1, shape=(2, 3)), pm.Normal("second", 0, 1, shape=3)
        pm.Bernoulli("label", logit_p=pt.maximum(X @ first, 0) @ second, observed=y)
    refused(ModeError, bpls.BPLS(model).fit, '"first[', "relu")


# The mode's convention


def test_the_mode_is_that_of_the_unconstrained_density_with_jacobian():
    y = np.r_[np.repeat([1, 0], [9, 3]), [-1, -1]]
    with pm.Model() as model:
        p = pm.Beta("p", 1, 1)
        pm.Bernoulli("label", p=p, observed=y, shape=len(y))
    # log p: 9 log p + 3 log(1 − p) + log p(1 − p), whose mode is 10/14; without the Jacobian it is 9/12
    np.testing.assert_allclose(bpls.BPLS(model).fit().mode["p"], 10 / 14, rtol=1e-8)
