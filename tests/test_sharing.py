"""Compiled functions serve every model of one structure, and no other."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_bpls as bpls
from pymc_bpls.compute.library import LIBRARY, ROWS

rng = np.random.default_rng(11)
X = rng.normal(size=(50, 3))
TRUTH = (X[:, 0] + rng.logistic(size=50) > 0).astype(int)


@pytest.fixture(autouse=True)
def _empty_library():
    kept = [list(library.shelf) for library in (LIBRARY, ROWS)]
    forget()
    yield
    forget()
    for library, shelf in zip((LIBRARY, ROWS), kept, strict=True):
        library.shelf.extend(shelf)


def forget():
    for library in (LIBRARY, ROWS):
        library.shelf.clear()


def logistic(rows, n_labeled, scale=1.5, shift=0.0, columns=slice(None)):
    y = np.where(np.arange(len(rows)) < n_labeled, TRUTH[rows], -1)
    with pm.Model() as model:
        b = pm.Normal("b", 0, scale, shape=X[:, columns].shape[1])
        pm.Bernoulli("y", logit_p=X[rows][:, columns] @ b + shift, observed=y)
    return bpls.BPLS(model)


def alone(*arguments, **options):
    """Scores of a model that nothing was compiled for before."""
    forget()
    return logistic(*arguments, **options).score(approximation="laplace")


def test_the_same_model_on_other_rows_compiles_nothing_new():
    logistic(np.arange(50), 20).score(approximation="laplace")
    again = logistic(np.arange(49, -1, -1), 20)
    scores = again.score(approximation="laplace")
    assert again.compilations.sizes["compilation"] == 0
    xr.testing.assert_allclose(scores, alone(np.arange(49, -1, -1), 20))


@pytest.mark.parametrize("change", [{"scale": 0.3}, {"shift": 1.0}, {"columns": slice(2)}])
def test_another_model_is_not_taken_for_it(change):
    first = logistic(np.arange(50), 20).score(approximation="laplace")
    other = logistic(np.arange(50), 20, **change).score(approximation="laplace")
    xr.testing.assert_allclose(other, alone(np.arange(50), 20, **change))
    assert np.abs(other["score"] - first["score"]).max() > 1e-3


def test_features_far_from_zero_are_no_reason_to_refuse():
    """At logits of 34 PyTensor's 1 − p is rounded, and its logarithm off by a thousandth."""
    with pm.Model() as model:
        b = pm.Normal("b", 0, 2.5, shape=3)
        pm.Bernoulli("y", logit_p=(X + 100) @ b, observed=np.where(np.arange(50) < 20, TRUTH, -1))
    assert bpls.BPLS(model).scorer.problem.density.graph.sliced


def test_other_classes_are_not_taken_for_the_same():
    y = np.where(np.arange(50) < 20, TRUTH, -1)

    def of(values):
        with pm.Model() as model:
            b = pm.Normal("b", 0, 1, shape=3)
            pm.Normal("y", X @ b, 1.0, observed=np.where(y < 0, -9.0, np.array(values)[y]))
        return bpls.BPLS(model, classes=list(values), unlabeled=y < 0)

    one, other = of((0.0, 1.0)), of((0.0, 3.0))
    assert (
        np.abs(
            one.score(approximation="laplace")["score"].to_numpy() - other.score(approximation="laplace")["score"].to_numpy()
        ).max()
        > 1e-3
    )


def test_predictors_that_are_linear_on_one_table_only_are_found_anew():
    """log p = g(|b| x or b x): linear where no row has a positive x, and not where one has."""

    def of(x):
        y = np.where(np.arange(50) < 30, TRUTH, -1)
        with pm.Model() as model:
            a, b = pm.Normal("a", 0, 1), pm.Normal("b", 1, 1)
            pm.Bernoulli("y", logit_p=a + x * pm.math.switch(x > 0, b**2, b), observed=y)
        return bpls.BPLS(model)

    linear, curved = of(-np.abs(X[:, 0])), of(np.abs(X[:, 0]))
    assert linear.scorer.problem.density.structure.affine_map is not curved.scorer.problem.density.structure.affine_map
    forget()
    expected = of(np.abs(X[:, 0])).score(approximation="laplace")
    xr.testing.assert_allclose(curved.score(approximation="laplace"), expected)


def test_rows_of_a_table_that_is_not_sliced_are_not_shared():
    def of(rows):
        y = np.where(np.arange(20) < 12, TRUTH[rows], -1)
        with pm.Model() as model:
            f = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, 1.0)).prior("f", X[rows, :1])
            pm.Bernoulli("y", logit_p=f, observed=y)
        return bpls.BPLS(model).score("probability")["score"].to_numpy()

    first, second = of(np.arange(20)), of(np.arange(20, 40))
    forget()
    np.testing.assert_allclose(of(np.arange(20, 40)), second)
    assert np.abs(first - second).max() > 1e-3
