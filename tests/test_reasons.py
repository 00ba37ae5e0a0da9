"""Errors and warnings that name the cause, where another one was named before; and inputs that need no error."""

from __future__ import annotations

import warnings

import jax
import numpy as np
import pandas as pd
import pymc as pm
import pytensor.sparse
import pytensor.tensor as pt
import pytest
import scipy.sparse
from scipy.special import betaln

import pymc_bpls as bpls
from pymc_bpls import ModeError, ModelError, RowError

N, N_LABELED = 60, 20
_rng = np.random.default_rng(0)
X = _rng.normal(size=(N, 3))
TRUTH = (X[:, 0] + 0.7 * _rng.logistic(size=N) > 0).astype(int)
Y = np.where(np.arange(N) < N_LABELED, TRUTH, -1)

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning")


def declare(predictor, y=Y, **options):
    with pm.Model() as model:
        pm.Bernoulli("label", logit_p=predictor(), observed=y, **options)
    return model


def linear():
    return X @ pm.Normal("b", 0, 2, shape=3)


# Kinks


def clipped():
    return pt.clip(pm.Normal("b", 0, 1) / 0.732 * np.ones(8), 0, 1)


def broken_line():
    b = pm.Uniform("b", 0, 1)
    return pt.switch(b < 0.5, 0.2 + b, 0.7 - 0.3 * (b - 0.5)) * np.ones(8)


def tent():
    return pm.math.sigmoid(1 - 3 * abs(pm.Normal("b", 0, 1) - 0.3)) * np.ones(8)


@pytest.mark.parametrize("p", [clipped, broken_line, tent], ids=lambda p: p.__name__)
def test_a_mode_at_a_kink_of_the_likelihood_is_called_that(p):
    with pm.Model() as model:
        pm.Bernoulli("label", p=p(), observed=np.r_[np.ones(6, dtype=int), -1, -1])
    with pytest.warns(bpls.BPLSWarning, match="no labeled row of class 0"):
        pls = bpls.BPLS(model)
    with pytest.raises(ModeError, match=r'kink in "b(_interval__)?".*a relu or a clip'):
        pls.fit()


@pytest.mark.parametrize("seed", [1, 5])
def test_a_clipped_line_has_its_mode_at_a_kink(seed):
    """The highest point of the log-posterior on a fine grid is where a labeled row's p reaches 1."""
    rng = np.random.default_rng(seed)
    x = np.abs(rng.normal(size=N)) + 0.1
    y = np.where(np.arange(N) < N_LABELED, rng.random(N) < np.minimum(1, 0.8 * x), -1).astype(int)
    b = np.linspace(1e-3, 3, 30001)[:, None]
    with np.errstate(divide="ignore"):
        p = np.clip(b * x[:N_LABELED], 0, 1)
        log_posterior = np.where(y[:N_LABELED] == 1, np.log(p), np.log(1 - p)).sum(axis=1) - b[:, 0] ** 2 / 2
    kinks = 1 / x[:N_LABELED][y[:N_LABELED] == 1]
    assert np.abs(b[log_posterior.argmax()] - kinks).min() < 2e-4
    with pm.Model() as model:
        pm.Bernoulli("label", p=pt.clip(pm.Normal("b", 0, 1) * x, 0, 1), observed=y)
    with pytest.raises(ModeError, match='kink in "b"'):
        bpls.BPLS(model).fit()


# Sparse matrices


def test_a_sparse_pool_is_one_of_the_same_numbers():
    with pm.Model() as model:
        data = pm.Data("X", X[:N_LABELED])
        pm.Bernoulli("label", logit_p=data @ pm.Normal("b", 0, 2, shape=3), observed=TRUTH[:N_LABELED])
    sparse, dense = (
        bpls.BPLS(model, pool={"X": rows}).predict_proba() for rows in (scipy.sparse.csr_matrix(X[N_LABELED:]), X[N_LABELED:])
    )
    np.testing.assert_array_equal(sparse, dense)


def test_a_sparse_matrix_in_the_model_is_named():
    rows = pytensor.sparse.as_sparse_variable(scipy.sparse.csr_matrix(X))
    model = declare(lambda: pytensor.sparse.structured_dot(rows, pm.Normal("b", 0, 2, shape=3)[:, None])[:, 0])
    with pytest.raises(ModelError, match=r'likelihood of "label" uses a sparse matrix, .*X\.toarray\(\)'):
        bpls.BPLS(model)


# Priors


def test_a_prior_without_a_jax_version_is_named():
    grid = np.linspace(-4, 4, 50)

    def predictor():
        b = pm.Interpolated("b", np.r_[-12, grid, 12], np.r_[0, np.exp(-(grid**2) / 2), 0])
        return X[:, 0] * b + X[:, 1] * pm.Normal("c", 0, 1)

    with pytest.raises(ModelError, match=r'density of "b" has no JAX version, for its operation SplineWrapper\.') as caught:
        bpls.BPLS(declare(predictor))
    assert "0x" not in str(caught.value)


@pytest.mark.slow
def test_the_level_under_a_beta_prior_is_right_and_not_warned_of():
    """p(D) of 6 in 9 under a uniform p is B(7, 4), and twice as much data B(13, 7): log PPP is that of the ratio."""
    y = np.r_[np.ones(6), np.zeros(3), np.full(4, -1)].astype(int)
    with pm.Model() as model:
        pm.Bernoulli("label", p=pm.Beta("p", 1, 1) * np.ones(13), observed=y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", bpls.BPLSWarning)
        scores = bpls.BPLS(model).score(approximation="vi")
    np.testing.assert_allclose(scores["log_ppp"], betaln(14, 7) - betaln(7, 4), atol=0.01)
    assert scores.attrs["pareto_k"] < 0.7


# Precision


@pytest.fixture
def single_precision():
    """JAX as another library may have left it."""
    jax.config.update("jax_enable_x64", False)
    yield
    jax.config.update("jax_enable_x64", True)


@pytest.fixture(scope="module")
def fitted():
    """A model whose functions are compiled."""
    pls = bpls.BPLS(declare(linear))
    pls.score(approximation="laplace")
    return pls


SWITCHED_OFF = r'jax_enable_x64 is off.*jax\.config\.update\("jax_enable_x64", True\)'


def test_a_model_is_not_declared_in_single_precision(single_precision):
    with pytest.raises(ModelError, match=SWITCHED_OFF):
        bpls.BPLS(declare(lambda: X[:, :2] @ pm.Normal("b", 0, 2, shape=2)))


def test_jax_computes_nothing_in_single_precision(fitted, single_precision):
    with pytest.raises(ModelError, match=SWITCHED_OFF):
        fitted.exact()


def test_what_numpy_computes_is_in_double_precision(fitted, request):
    def results():
        return [fitted.score(approximation="laplace")["score"], fitted.predict_proba(), fitted.fit().unconstrained]

    before = results()
    request.getfixturevalue("single_precision")
    for value, again in zip(before, results(), strict=True):
        assert again.dtype == np.float64
        np.testing.assert_array_equal(again, value)


# Data


def test_a_frame_of_numbers_and_booleans_is_one_of_numbers():
    ward = np.random.default_rng(1).choice(list("abc"), N)
    frame = pd.get_dummies(pd.DataFrame({"age": X[:, 0], "ward": ward}), drop_first=True)
    assert set(map(str, frame.dtypes)) == {"float64", "bool"}
    with pm.Model(coords={"column": list(frame.columns)}) as model:
        data = pm.Data("X", frame[:N_LABELED].astype(float), dims=(None, "column"))
        pm.Bernoulli("label", logit_p=data @ pm.Normal("b", 0, 2, dims="column"), observed=TRUTH[:N_LABELED])
    for rows in (frame[N_LABELED:], frame[N_LABELED:].convert_dtypes()):
        scores = bpls.BPLS(model, pool={"X": rows}).score(approximation="laplace")["score"]
        np.testing.assert_allclose(scores[:3], [-17.6534, -17.6390, -17.6088], atol=5e-5)
    with pytest.raises(RowError, match='type object in columns "ward_b"'):
        bpls.BPLS(model, pool={"X": frame[N_LABELED:].assign(ward_b="yes")})


def minibatch_of_both():
    rows, labels = pm.Minibatch(X, TRUTH.astype("int32"), batch_size=10)
    return declare(lambda: rows @ pm.Normal("b", 0, 2, shape=3), labels)


def minibatch_of_covariates():
    rows = pm.Minibatch(X, batch_size=N)
    return declare(lambda: rows @ pm.Normal("b", 0, 2, shape=3))


@pytest.mark.filterwarnings("ignore:total_size not provided:UserWarning")
@pytest.mark.parametrize("model", [minibatch_of_both, minibatch_of_covariates], ids=lambda model: model.__name__)
def test_data_that_are_drawn_at_random_are_refused(model):
    with pytest.raises(ModelError, match=r'data of "label" are drawn at random each time, as by pm\.Minibatch'):
        bpls.BPLS(model())


@pytest.mark.slow
def test_a_mixture_draws_nothing():
    """The distributions that it is made of are no data."""
    with pm.Model() as model:
        parts = [pm.Bernoulli.dist(logit_p=linear()), pm.Bernoulli.dist(p=0.5)]
        pm.Mixture("label", w=[0.9, 0.1], comp_dists=parts, observed=Y)
    with pm.Model() as by_hand:
        pm.Bernoulli("label", p=0.9 * pm.math.sigmoid(linear()) + 0.05, observed=Y)
    found, expected = bpls.BPLS(model, classes=[0, 1]).predict_proba(), bpls.BPLS(by_hand).predict_proba()
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_variables_of_pymc_dims_are_named():
    pmd = pytest.importorskip("pymc.dims")
    if not hasattr(pmd, "Bernoulli"):
        pytest.skip("pymc.dims has no Bernoulli")
    with pm.Model(coords={"row": range(N), "feature": list("abc")}) as model:
        x = pmd.Data("x", X, dims=("row", "feature"))
        b = pmd.Normal("b", mu=0, sigma=2, dims="feature")
        pmd.Bernoulli("label", logit_p=(x * b).sum("feature"), observed=pmd.as_xtensor(Y, dims="row"))
    with pytest.raises(ModelError, match=r'"b" is declared with pymc\.dims'):
        bpls.BPLS(model)


def random_numbers(where):
    z, noise = np.random.default_rng(0).normal(size=(60, 2)), pm.Normal.dist(0, 1, shape=60)
    with pm.Model() as model:
        b = pm.Normal("b", pm.Normal.dist(0, 1) if where == "b" else 0, 2, shape=2)
        if where == "bent":
            pm.Potential("bent", -((b[0] - pm.Normal.dist(0, 1)) ** 2))
        logit = z @ b + {"label": noise, "also label": pt.random.normal(size=60)}.get(where, 0.0)
        pm.Bernoulli("label", logit_p=logit, observed=np.where(np.arange(60) < 30, np.arange(60) % 2, -1))
    return model


@pytest.mark.filterwarnings("ignore:(RandomVariable Ops|Calling a RandomVariable):DeprecationWarning")  # of PyTensor 3.3
@pytest.mark.parametrize("where", ["label", "also label", "b", "bent"])
def test_random_numbers_in_a_formula_are_named_as_the_cause(where):
    with pytest.raises(
        bpls.ModelError, match=rf'"{where[-5:].strip()}" depends on random numbers that are no variable'
    ) as caught:
        bpls.BPLS(random_numbers(where))
    assert len(str(caught.value)) < 320


def test_a_far_row_says_nothing_of_which_predictors_are_linear():
    z = np.random.default_rng(0).normal(size=(40, 2))
    y = np.where(np.arange(40) < 20, z[:, 0] > 0, -1).astype(int)
    found = []
    for far in (1.0, 1e9, 1e308):
        z[35:, 1] = far
        with pm.Model() as model:
            b = pm.Normal("b", 0, 1, shape=2)
            pm.Bernoulli("label", logit_p=z @ b + pm.math.sin(b[0]), observed=y)
        found.append(bpls.BPLS(model, unlabeled=np.arange(20, 30)).fit().mode["b"].to_numpy())
    np.testing.assert_allclose(found[1:], [found[0]] * 2, rtol=1e-9)
