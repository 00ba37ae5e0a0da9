"""Classes that cannot be (p is exactly 0) have the PPP 0; what combines it with others is finite, and a warning says so."""

from __future__ import annotations

import warnings

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_bpls as bpls
from pymc_bpls import BPLSWarning, ModeError

N, N_LABELED = 60, 20
X = np.random.default_rng(0).normal(size=(N, 3))
_rng = np.random.default_rng(4)
OFFERED = _rng.random((N, 3)) > 0.25
OFFERED[:, 0] = True
CHOSEN = (np.where(OFFERED, X @ _rng.normal(size=(3, 3)), -np.inf) + _rng.gumbel(size=(N, 3))).argmax(1)
CANDIDATES = np.arange(N_LABELED, N)
ZERO = r"candidates have a class with probability 0 under the model \(the first: row {}, class {}\).*-inf"

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning")


@pytest.fixture(scope="module")
def choices():
    """A choice among what is offered, utilities of −∞ for the rest: 12 of 40 candidates lack a class, row 23 has one only."""
    with pm.Model() as model:
        utility = X @ pm.Normal("b", 0, 1, shape=(3, 3))
        y = np.where(np.arange(N) < N_LABELED, CHOSEN, -1)
        pm.Categorical("label", logit_p=pt.switch(OFFERED, utility, -np.inf), observed=y)
    return bpls.BPLS(model)


@pytest.fixture(scope="module")
def by_class(choices):
    with pytest.warns(BPLSWarning, match=r"12 of 40 " + ZERO.format(23, 1)):
        return choices.score(labels="all", approximation="laplace")


def test_ppp_of_a_class_that_cannot_be_is_0_and_of_the_others_as_ever(choices, by_class):
    log_ppp = by_class["log_ppp"].to_numpy()
    np.testing.assert_array_equal(np.isneginf(log_ppp), ~OFFERED[CANDIDATES])
    assert np.isfinite(log_ppp[OFFERED[CANDIDATES]]).all()
    assert OFFERED[CANDIDATES, by_class["pseudo_label"].to_numpy()].all()


def test_classes_that_cannot_be_leave_the_class_sum_finite(by_class):
    error = by_class.sel(candidate=23)["class_sum_error"]
    assert abs(float(error)) < 1e-8  # one class has all of Z_2/Z_1
    assert np.abs(by_class["class_sum_error"]).max() < 0.05


def test_expected_and_hurwicz_are_those_of_the_classes_that_can_be(choices, by_class):
    at_mode = bpls.BPLS(choices.problem.model, predictor="map")
    expected = at_mode.score(labels="expected", approximation="laplace")["log_ppp"].to_numpy()
    np.testing.assert_allclose(expected[[3, 4, 5, 6]], [-16.1450, -16.8384, -16.8343, -16.2223], atol=5e-5)
    hurwicz = choices.score(labels=bpls.Hurwicz(0.7), approximation="laplace")["log_ppp"].to_numpy()
    np.testing.assert_allclose(hurwicz[[3, 4, 5, 6]], [-16.502, -17.157, -17.120, -16.533], atol=5e-4)
    assert np.isfinite(expected).all() and np.isfinite(hurwicz).all()
    largest = by_class["log_ppp"].max("label").to_numpy()
    lacking = ~OFFERED[CANDIDATES].all(axis=1)
    np.testing.assert_allclose(hurwicz[lacking], np.log(0.7) + largest[lacking], rtol=1e-12)


def test_the_smallest_ppp_of_a_row_that_lacks_a_class_is_0(choices):
    with pytest.warns(BPLSWarning, match=r"12 of 40 candidates have a class with probability 0.*row 23\)"):
        pessimist = choices.score(labels=bpls.Hurwicz(0), approximation="laplace")
    np.testing.assert_array_equal(np.isneginf(pessimist["score"]), ~OFFERED[CANDIDATES].all(axis=1))


def test_a_run_by_expected_ppp_takes_every_candidate(choices):
    run = choices.self_train(labels="expected", rounds=3, progressbar=False, approximation="laplace")
    assert run["history"].sizes["step"] == 3


@pytest.mark.parametrize("criterion", ["marginal_likelihood", "predictive", "variance", "entropy", "probability"])
def test_no_criterion_labels_a_row_with_a_class_that_cannot_be(choices, criterion):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BPLSWarning)
        scores = choices.score(criterion, labels="all", approximation="laplace")
    assert not np.isnan(scores["score"]).any()
    assert OFFERED[CANDIDATES, scores["pseudo_label"].to_numpy()].all()


@pytest.mark.slow
@pytest.mark.parametrize("labels", ["all", "expected", bpls.Hurwicz(0.7)], ids=str)
def test_exact_values_are_0_or_finite(choices, labels):
    exact = choices.exact(method="psis", labels=labels, random_seed=1)["exact"]["log_ppp"]
    assert not np.isnan(exact).any()
    if labels != "all":
        assert np.isfinite(exact).all()


def test_a_label_that_cannot_be_is_named():
    y = np.where(np.arange(N) < N_LABELED, CHOSEN, -1)
    row = int(np.flatnonzero(~OFFERED[:N_LABELED, 2])[0])
    y[row] = 2
    with pm.Model() as model:
        utility = X @ pm.Normal("b", 0, 1, shape=(3, 3))
        pm.Categorical("label", logit_p=pt.switch(OFFERED, utility, -np.inf), observed=y)
    with pytest.raises(ModeError, match=rf"1 labels of D have probability 0 .* \(the first: 2 in row {row}\)"):
        bpls.BPLS(model).fit()


@pytest.fixture(scope="module")
def exposures():
    """P(y = 1) = 1 − exp(−r w), which is 0 in row 30, where w = 0."""
    rng = np.random.default_rng(2)
    w = np.abs(rng.normal(size=N)) + 0.1
    w[30] = 0
    y = np.where(np.arange(N) < N_LABELED, rng.random(N) < 1 - np.exp(-2 * w), -1).astype(int)
    with pm.Model() as model:
        pm.Bernoulli("y", p=1 - pt.exp(-pm.HalfNormal("r", 2) * w), observed=y)
    return bpls.BPLS(model)


@pytest.mark.parametrize("approximation", ["laplace", "vi", "ep"])
def test_a_row_that_cannot_have_one_of_two_classes(exposures, approximation):
    with pytest.warns(BPLSWarning, match="1 of 40 " + ZERO.format(30, 1)):
        scores = exposures.score(labels="all", approximation=approximation)["log_ppp"].sel(candidate=30)
    assert np.isneginf(scores[1])
    combined = exposures.score(labels="expected", approximation=approximation)["log_ppp"].sel(candidate=30)
    assert float(combined) == pytest.approx(float(scores[0]), rel=1e-12)


def test_a_far_row_is_scored_as_ever():
    """A class that is improbable, and not impossible, is scored as ever."""
    with pm.Model() as model:
        x = X[:, 0].copy()
        x[40] = 300.0
        y = np.where(np.arange(N) < N_LABELED, (x > 0) ^ (np.arange(N) % 5 == 0), -1).astype(int)
        pm.Bernoulli("y", logit_p=pm.Normal("b") * x, observed=y)
    assert np.isfinite(bpls.BPLS(model).score(labels="all", approximation="laplace")["score"]).all()


def test_a_run_does_not_say_in_every_round_which_classes_cannot_be(choices):
    run = choices.self_train(labels="all", rounds=3, progressbar=False, approximation="laplace")  # a warning would fail here
    assert run["history"].sizes["step"] == 3 and np.isfinite(run["history"]["score"]).all()
