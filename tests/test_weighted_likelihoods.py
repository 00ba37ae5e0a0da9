"""A likelihood that is no probability of the label (weights, powers) is refused; class-conditional models are not."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_bpls as bpls
from pymc_bpls import ModelError

N, N_LABELED = 60, 20
_rng = np.random.default_rng(0)
X = _rng.normal(size=(N, 3))
TRUTH = (X[:, 0] + 0.7 * _rng.logistic(size=N) > 0).astype(int)
Y = np.where(np.arange(N) < N_LABELED, TRUTH, -1)
CLASSES = r'"label" does not add up to 1 over the classes \[0, 1(, 2)?\] \(to {} in row {}\), as where it has weights'

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning")


def log_p(value, eta):
    return pm.logp(pm.Bernoulli.dist(logit_p=eta), value)


def declare(logp, *more, y=Y, **options):
    with pm.Model() as model:
        eta = pm.Normal("a", 0, 2.5) + X @ pm.Normal("b", 0, 2, shape=3)
        pm.CustomDist("label", eta, *more, logp=logp, observed=y, **options)
    return model


def weighted(value, eta, w):
    return w * log_p(value, eta)


def focal(value, eta):
    return (1 - pt.exp(log_p(value, eta))) ** 2 * log_p(value, eta)


def smoothed(value, eta):
    return pt.log(0.9 * pt.exp(log_p(value, eta)) + 0.1)


WEIGHTS = np.where(TRUTH == 1, 3.0, 1.0)
ONE_ROW = np.where(np.arange(N) == 37, 2.0, 1.0)
NO_PROBABILITIES = {
    "weights": (weighted, (WEIGHTS,), {"dtype": "int64"}, r"0\.\d+", int(np.flatnonzero(TRUTH)[0])),
    "weights of a float label": (weighted, (WEIGHTS,), {}, r"0\.\d+", int(np.flatnonzero(TRUTH)[0])),
    "the weight of one row": (weighted, (ONE_ROW,), {"dtype": "int64"}, r"0\.\d+", 37),
    "a square": (lambda value, eta: 2 * log_p(value, eta), (), {"dtype": "int64"}, r"0\.\d+", 0),
    "a square root": (lambda value, eta: 0.5 * log_p(value, eta), (), {"dtype": "int64"}, r"1\.\d+", 0),
    "focal loss": (focal, (), {"dtype": "int64"}, r"1\.\d+", 0),
    "smoothing": (smoothed, (), {"dtype": "int64"}, r"1\.1", 0),
}


@pytest.mark.parametrize("name", NO_PROBABILITIES)
def test_a_likelihood_that_does_not_add_up_over_the_classes_is_refused(name):
    logp, more, options, total, row = NO_PROBABILITIES[name]
    with pytest.raises(ModelError, match=CLASSES.format(total, row)) as caught:
        bpls.BPLS(declare(logp, *more, **options), classes=[0, 1])
    assert len(str(caught.value)) < 320


def test_a_class_that_is_not_listed_is_missed():
    with pm.Model() as model:
        pm.Poisson("label", pm.math.exp(X @ pm.Normal("b", 0, 0.3, shape=3)), observed=Y)
    with pytest.raises(ModelError, match=CLASSES.format(r"0\.\d+", 0)):
        bpls.BPLS(model, classes=[0, 1, 2])


@pytest.mark.parametrize("options", [{"dtype": "int64"}, {}], ids=["integer", "float"])
def test_the_labels_own_probability_scores_as_bernoulli(options):
    with pm.Model() as model:
        eta = pm.Normal("a", 0, 2.5) + X @ pm.Normal("b", 0, 2, shape=3)
        pm.Bernoulli("label", logit_p=eta, observed=Y)
    expected = bpls.BPLS(model).score(approximation="laplace")["log_ppp"].to_numpy()
    found = bpls.BPLS(declare(log_p, **options), classes=[0, 1]).score(approximation="laplace")["log_ppp"].to_numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_class_conditional_model_adds_up_over_features_and_is_no_weighted_likelihood():
    with pm.Model() as model:
        label = pm.CustomDist("label", pm.Normal("a"), logp=log_p, dtype="int64", observed=Y, shape=N)
        pm.Normal("x", pm.Normal("mean", 0, 2, shape=(2, 3))[label], 1.0, observed=X)
    assert np.isfinite(bpls.BPLS(model, target="label", classes=[0, 1]).predict_proba()).all()


def test_a_density_of_numbers_that_stand_for_classes_is_no_probability_of_them():
    with pm.Model() as model:
        pm.Normal("label", X @ pm.Normal("b", 0, 1, shape=3), 0.5, observed=Y.astype(float))
    assert bpls.BPLS(model, classes=[0, 1]).predict_proba().sum() == pytest.approx(N)


def lagged(power):
    """Labels that depend on the one before, times a weight on log p."""

    def logp(value, eta, phi):
        before = pt.concatenate([[0.0], value[:-1].astype("float64")])
        return power * log_p(value, eta + phi * before)

    with pm.Model() as model:
        eta = pm.Normal("a", 0, 2.5) + X @ pm.Normal("b", 0, 2, shape=3)
        pm.CustomDist("label", eta, pm.Normal("phi"), logp=logp, signature="(n),()->(n)", dtype="int64", observed=Y)
    return model


@pytest.mark.slow
def test_weights_are_seen_where_labels_depend_on_each_other():
    with pytest.raises(ModelError, match=CLASSES.format(r"0\.\d+", 0)):
        bpls.BPLS(lagged(3.0), classes=[0, 1])
    bpls.BPLS(lagged(1.0), classes=[0, 1])
