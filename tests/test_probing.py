"""Sparse designs found by probing are the dense ones."""

import numpy as np
import pymc as pm
import pytest

import pymc_bpls as bpls
from pymc_bpls.engine.sparse import rows
from pymc_bpls.engine.sparse.probing import probe


def dense(n, q, p, touched, rng):
    """Each row touches the first ten parameters and some of the others."""
    A = np.zeros((n, p, q))
    A[:, 0, :10] = rng.normal(size=(n, 10))
    for row in range(n):
        A[row, rng.integers(p, size=touched), rng.choice(np.arange(10, q), touched, replace=False)] = rng.normal(size=touched)
    return A


@pytest.mark.parametrize(("p", "touched"), [(1, 1), (3, 2), (1, 4), (2, 0)])
def test_what_is_probed_is_the_design(p, touched):
    A = dense(300, 510, p, touched, np.random.default_rng(1))
    (columns, values), many = probe(lambda v, rows: np.einsum("npq,vq->vnp", A[rows], v), 300, [10, 200, 300])
    assert not len(many)
    found = np.zeros((300, p, 511))
    np.put_along_axis(found, np.repeat(columns[:, None], p, axis=1), values, axis=2)
    np.testing.assert_allclose(found[:, :, :-1], A, rtol=1e-12, atol=1e-14)


def test_rows_that_touch_many_parameters_are_not_sparse():
    A = np.random.default_rng(0).normal(size=(5, 1, 300))
    assert probe(lambda v, rows: np.einsum("npq,vq->vnp", A[rows], v), 5, [300])[0] is None


def test_rows_that_touch_many_parameters_are_asked_once(monkeypatch):
    asked = []

    def counted(products, n, sizes):
        asked.append(n)
        return probe(products, n, sizes)

    monkeypatch.setattr(rows, "probe", counted)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(16, 600)), np.where(np.arange(16) < 10, np.arange(16) % 2, -1)
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=X @ pm.Normal("b", 0, 1, shape=600), observed=y)
    pls = bpls.BPLS(model)
    pls.self_train(rounds=3, approximation="laplace", progressbar=False)
    assert asked == [10]
