"""Sparse factors by stages against LAPACK's dense ones."""

import numpy as np
import pytest

from pymc_bpls.engine.sparse.elimination import Elimination

rng = np.random.default_rng(0)


def arrow():
    """200 groups, five parameters that all of them touch."""
    return 205, [(g, 200 + b) for g in range(200) for b in range(5)] + [(200 + a, 200 + b) for a in range(5) for b in range(a)]


def nested():
    """Classes of schools, one intercept."""
    return 241, [(c, 200 + c // 5) for c in range(200)] + [(s, 240) for s in range(240)]


def walk():
    return 300, [(t, t + 1) for t in range(299)]


def crossed():
    people, items = rng.integers(0, 150, 900), rng.integers(150, 200, 900)
    return 201, [*zip(people, items, strict=True), *((i, 200) for i in range(200))]


@pytest.fixture(params=[arrow, nested, walk, crossed], ids=lambda make: make.__name__)
def case(request):
    q, pairs = request.param()
    pairs = np.unique(np.array(pairs, dtype=int), axis=0)
    order = Elimination.of(pairs, q)
    values, dense = np.zeros((order.size, 3)), []
    for place in range(3):
        H = np.zeros((q, q))
        H[pairs[:, 0], pairs[:, 1]] = rng.normal(size=len(pairs))
        H = H + H.T
        H += np.diag(np.abs(H).sum(axis=1) + 1)
        first, second = np.nonzero(np.triu(H))
        values[order.slots(first, second), place] = H[first, second]
        dense.append(H)
    return order, values, np.stack(dense)


def test_determinants_solutions_and_entries_of_the_inverse_are_those_of_lapack(case):
    order, values, dense = case
    factor = order.factor(values)
    np.testing.assert_allclose(factor.log_det, np.linalg.slogdet(dense)[1], rtol=1e-12)
    b = rng.normal(size=(len(dense[0]), 3))
    np.testing.assert_allclose(factor.solve(b), np.linalg.solve(dense, b.T[:, :, None])[:, :, 0].T, rtol=0, atol=1e-11)
    first, second = np.divmod(order.keys, order.q + 1)
    np.testing.assert_allclose(factor.inverse()[:-1], np.linalg.inv(dense)[:, first, second].T, rtol=0, atol=1e-12)
    assert (factor.shares > 0).all()


def test_one_factor_serves_many_vectors_and_draws(case):
    order, values, dense = case
    factor = order.factor(values[:, :1])
    b = rng.normal(size=(order.q, 7))
    np.testing.assert_allclose(factor.solve(b), np.linalg.solve(dense[0], b), rtol=0, atol=1e-11)
    root = factor.whiten_back(np.eye(order.q))
    np.testing.assert_allclose(root @ root.T, np.linalg.inv(dense[0]), rtol=0, atol=1e-12)
    np.testing.assert_allclose(order.times(values[:, 0], b), dense[0] @ b, rtol=0, atol=1e-11)


def test_an_indefinite_matrix_has_no_positive_shares(case):
    order, values, _ = case
    values = values.copy()
    values[order.slots(np.array([3]), np.array([3])), 1] = -5.0
    definite = (order.factor(values).shares > 0).all(axis=1)
    assert definite.tolist() == [True, False, True]
