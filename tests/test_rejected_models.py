"""Models whose parameters PyMC rejects are refused with its condition and the rows; a candidate that it rejects is named."""

from __future__ import annotations

import warnings

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.stats import truncnorm

import pymc_bpls as bpls
from pymc_bpls import BPLSWarning, ModeError, ModelError

N, N_LABELED = 60, 24
_rng = np.random.default_rng(0)
X = np.column_stack([np.ones(N), _rng.normal(size=(N, 2))])
TRUTH = (X @ _rng.normal(size=(3, 3)) * 1.5 + _rng.gumbel(size=(N, 3))).argmax(1)
Y = np.where(np.arange(N) < N_LABELED, TRUTH, -1)
Y2 = np.minimum(Y, 1)

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning")


def predictors(rows=slice(None)):
    return pt.as_tensor(X[rows]) @ pm.Normal("b", 0, 1.5, shape=(3, 3))


def softmax_of_the_table():
    pm.Categorical("y", p=pm.math.softmax(predictors()), observed=Y)


def softmax_over_the_rows():
    pm.Categorical("y", p=pm.math.softmax(predictors(), axis=0), observed=Y)


def sigmoids():
    pm.Categorical("y", p=pm.math.sigmoid(predictors()), observed=Y)


def one_of_three_twice():
    p = pm.math.softmax(predictors(), axis=-1)
    pm.Categorical("y", p=pt.stack([p[:, 0], p[:, 1], p[:, 1] + 0.1], axis=-1), observed=Y)


def probabilities_that_leave_the_interval():
    p = pm.math.softmax(predictors(), axis=-1)
    pm.Categorical("y", p=p + np.array([1.0, -1.0, 0.0]), observed=Y)


def softmax_of_counts():
    pm.Multinomial("y", n=1, p=pm.math.softmax(predictors()), observed=np.eye(3, dtype=int)[np.maximum(Y, 0)])


def softmax_of_a_container():
    p = pm.math.softmax(pm.Data("X", X[:N_LABELED]) @ pm.Normal("b", 0, 1.5, shape=(3, 3)))
    pm.Categorical("y", p=p, observed=Y[:N_LABELED])


def softmax_of_a_class_conditional_model():
    y = pm.Categorical("y", p=pm.math.softmax(pm.Normal("a", 0, 1, shape=(N, 3))), observed=Y)
    pm.Normal("x", pm.Normal("m", 0, 1, shape=3)[y], 1, observed=X[:, 1])


def decreasing_cutpoints():
    cutpoints = pm.Normal("c", 0, 1, shape=2, initval=np.array([1.0, -1.0]))
    pm.OrderedLogistic("y", eta=X @ pm.Normal("b", 0, 0.1, shape=3), cutpoints=cutpoints - np.array([0.0, 9.0]), observed=Y)


def odds():
    pm.Bernoulli("y", p=1 + pm.math.exp(X @ pm.Normal("b", 0, 1.5, shape=3)), observed=Y2)


def mixture_of_weights_above_1():
    parts = [pm.Bernoulli.dist(logit_p=predictors()[:, 0]), pm.Bernoulli.dist(p=0.5)]
    pm.Mixture("y", w=[0.7, 0.7] + 0 * pm.Normal("w"), comp_dists=parts, observed=Y2)


REJECTED = {
    softmax_of_the_table: ({}, r"60 of 60 rows.*sum\(p\) = 1.*axis=-1"),
    softmax_over_the_rows: ({}, r"60 of 60 rows.*sum\(p\) = 1.*axis=-1"),
    sigmoids: ({}, r"60 of 60 rows.*sum\(p\) = 1"),
    one_of_three_twice: ({}, r"60 of 60 rows.*sum\(p\) = 1"),
    probabilities_that_leave_the_interval: ({}, r"60 of 60 rows.*0 <= p <= 1"),
    softmax_of_counts: ({"unlabeled": Y < 0}, r"60 of 60 rows.*sum\(p\) = 1"),
    softmax_of_a_container: ({"pool": {"X": X[N_LABELED:]}}, r"60 of 60 rows.*sum\(p\) = 1"),
    softmax_of_a_class_conditional_model: ({"target": "y"}, r"60 of 60 rows.*sum\(p\) = 1"),
    decreasing_cutpoints: ({}, r"60 of 60 rows.*sum\(p\) = 1.*ordered"),
    odds: ({}, r"60 of 60 rows.*0 <= p <= 1.*sigmoid"),
    mixture_of_weights_above_1: ({"classes": [0, 1]}, r"60 of 60 rows.*sum\(weights\) == 1"),
}


@pytest.mark.parametrize("declare", REJECTED, ids=lambda declare: declare.__name__)
def test_a_model_that_pymc_rejects_is_refused_with_its_condition_and_rows(declare):
    options, words = REJECTED[declare]
    with pm.Model() as model:
        declare()
    with pytest.raises(ModelError, match=rf'PyMC rejects the parameters of "y".*{words}') as caught:
        bpls.BPLS(model, **options)
    assert len(str(caught.value)) < 320


def linear(scale, y=Y2, x=X[:, 1], start=None):
    """A linear probability, which leaves [0, 1] in rows far enough away."""
    with pm.Model() as model:
        b = pm.Normal("b", 0, scale, initval=start)
        pm.Bernoulli("y", p=0.5 + b * x, observed=y)
    return model


def test_labeled_rows_that_pymc_rejects_at_the_start_are_named():
    with pytest.raises(ModeError, match=r'rejects the parameters of "y" where the fit starts in 24 of 24 rows.*0 <= p <= 1'):
        bpls.BPLS(linear(0.1, x=np.r_[np.full(N_LABELED, 50.0), np.zeros(N - N_LABELED)], start=9.0)).fit()


def test_a_log_posterior_that_grows_until_pymc_rejects_it_is_refused_in_these_words():
    y = np.where(Y < 0, -1, (X[:, 1] > 0).astype(int))
    with pytest.raises(ModeError, match=r'rejects the parameters of "y" beyond the highest point.*0 <= p <= 1 does not hold'):
        bpls.BPLS(linear(9.0, y=y)).fit()


@pytest.fixture(scope="module")
def with_far_rows():
    """A linear probability, its p inside [0, 1] in labeled rows and beyond it in the candidates 30 and 41."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, N)
    x[[30, 41]] = 40.0, -40.0
    y = np.where(np.arange(N) < N_LABELED, rng.random(N) < 0.5 + 0.3 * x, -1).astype(int)
    return bpls.BPLS(linear(0.2, y=y, x=x), predictor="map")


def test_a_candidate_that_pymc_rejects_has_no_probability_and_is_named(with_far_rows):
    with pytest.warns(BPLSWarning, match=r'rejects the parameters of "y" at the mode in 2 of 2 rows, \[30, 41\]: 0 <= p <= 1'):
        p = with_far_rows.predict_proba().to_numpy()
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(p).any(axis=1)), [30, 41])
    b = float(with_far_rows.fit().mode["b"])
    x = with_far_rows._problem.density.data[1]
    others = np.setdiff1d(np.arange(N), [30, 41])
    np.testing.assert_allclose(p[others, 1], 0.5 + b * x[others], rtol=1e-10)


def test_an_average_is_over_the_parameters_that_pymc_allows_in_a_row(with_far_rows):
    """E[1/2 + b x] over N(m, s²) cut to |b x| ≤ 1/2, a truncated normal: rows at 40 and −40 have a probability too."""
    pls = bpls.BPLS(with_far_rows.problem.model, predictor="laplace")
    fit, x = pls.fit(), pls._problem.density.data[1]
    m, s, far = float(fit.mode["b"]), fit.sd.item(), 0.5 / np.abs(x)
    expected = 0.5 + x * truncnorm.mean((-far - m) / s, (far - m) / s, m, s)
    # edges are seen up to s/1024: of the whole, and of the part of some s/5 that is left to the rows far away
    far_away, found = np.isin(np.arange(N), [30, 41]), pls.predict_proba().to_numpy()[:, 1]
    np.testing.assert_allclose(found[~far_away], expected[~far_away], atol=5e-4)
    np.testing.assert_allclose(found[far_away], expected[far_away], atol=1e-2)


def test_an_average_over_draws_is_so_too():
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, N)
    x[30] = 3.0
    y = np.where(np.arange(N) < N_LABELED, rng.random(N) < 0.5 + 0.3 * x, -1).astype(int)
    with pm.Model() as model:
        pm.Bernoulli("y", p=0.5 + pm.Normal("b", 0.4, 0.1) * pm.Normal("c", 0.5, 0.1) * x, observed=y)
    pls = bpls.BPLS(model, predictor="laplace")
    fit = pls.fit()
    z = np.linspace(-7, 7, 1401)
    weight = np.exp(-0.5 * (z[:, None] ** 2 + z**2))
    b, c = np.einsum("ij,jkl->ikl", np.linalg.cholesky(np.linalg.inv(fit.hessian)), np.stack(np.meshgrid(z, z, indexing="ij")))
    product = (b + float(fit.mode["b"])) * (c + float(fit.mode["c"]))
    p = [np.average(0.5 + each * product, weights=weight * (np.abs(each * product) <= 0.5)) for each in x]
    np.testing.assert_allclose(pls.predict_proba().to_numpy()[:, 1], p, atol=2e-3)


def test_a_candidate_is_scored_where_pymc_allows_it_with_its_label(with_far_rows):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BPLSWarning)
        scores = with_far_rows.score(labels="all", approximation="laplace")
    assert scores["log_lik_pseudo"].max() <= 0
    near = scores.sel(candidate=[c for c in scores.candidate.values if c not in (30, 41)])
    assert np.isfinite(near["score"]).all()


def test_rows_that_pymc_would_reject_outside_d_change_nothing(with_far_rows):
    x, y = with_far_rows._problem.density.data[1], with_far_rows._problem.table.codes
    kept = np.setdiff1d(np.arange(N), [30, 41])
    without = bpls.BPLS(linear(0.2, y=y[kept], x=x[kept]))
    assert float(without.fit().mode["b"]) == pytest.approx(float(with_far_rows.fit().mode["b"]), rel=1e-12)
    assert with_far_rows._problem.density.graph.sliced


def test_a_table_that_cannot_be_sliced_is_checked_row_by_row():
    """A mean over the rows of what depends on θ needs the whole table; one far row outside D is rejected alone."""
    x = X[:, 1].copy()
    x[50] = 60.0
    with pm.Model() as model:
        eta = pm.Normal("b", 0, 0.05) * x
        y = np.where(Y < 0, -1, np.random.default_rng(1).random(N) < 0.5 + 0.15 * X[:, 1]).astype(int)
        pm.Bernoulli("y", p=0.5 + eta - eta.mean(), observed=y)
    pls = bpls.BPLS(model, predictor="map")
    assert not pls._problem.density.graph.sliced
    with pytest.warns(BPLSWarning, match=r"at the mode in 1 of 1 rows, \[50\]: 0 <= p <= 1"):
        p = pls.predict_proba().to_numpy()
    b = float(pls.fit().mode["b"])
    rest = np.arange(N) != 50
    np.testing.assert_allclose(p[rest, 1], (0.5 + b * (x - x.mean()))[rest], rtol=1e-10)


def test_new_test_rows_that_pymc_rejects_are_named():
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, N)
    y = np.where(np.arange(N) < N_LABELED, rng.random(N) < 0.5 + 0.3 * x, -1).astype(int)
    with pm.Model() as model:
        pm.Bernoulli("y", p=0.5 + pm.Normal("b", 0, 0.2) * pm.Data("x", x), observed=pm.Data("labels", y))
    pls = bpls.BPLS(model, predictor="map")
    new = {"x": np.array([0.1, 40.0, -0.3, -40.0])}
    words = r'rejects the parameters of "y" at the mode in 2 of 2 new rows, \[1, 3\]: 0 <= p <= 1'
    with pytest.warns(BPLSWarning, match=words):
        run = pls.self_train("probability", rounds=1, test=(new, [0, 1, 0, 1]), progressbar=False)
    assert run["test"].sizes["row"] == 4
