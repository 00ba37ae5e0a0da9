"""Sums of powers of correlations by monomials and shared groups, against all pairs by a dense inverse."""

import numpy as np
import pytest
import scipy.sparse as sp
from test_elimination import arrow, crossed, nested

from pymc_bpls.approximations.gaussians.correlated import Correlated, Standardised
from pymc_bpls.engine.sparse.elimination import Elimination

rng = np.random.default_rng(1)


@pytest.mark.parametrize(("graph", "core_is_small"), [(arrow, True), (nested, False), (crossed, False)])
def test_sums_over_pairs_of_rows_are_those_of_the_dense_inverse(graph, core_is_small):
    q, pairs = graph()
    pairs = np.unique(np.array(pairs, dtype=int), axis=0)
    order = Elimination.of(pairs, q)
    H = np.zeros((q, q))
    H[pairs[:, 0], pairs[:, 1]] = rng.normal(size=len(pairs))
    H = H + H.T + np.diag(np.abs(H + H.T).sum(axis=1) + 0.1)
    values = np.zeros((order.size, 1))
    first, second = np.nonzero(np.triu(H))
    values[order.slots(first, second), 0] = H[first, second]
    factor = order.factor(values)
    touched = pairs[rng.integers(len(pairs), size=300)]
    design = sp.csr_array((rng.normal(size=600), (np.repeat(np.arange(300), 2), touched.ravel())), shape=(300, q))
    dense, S = design.toarray(), np.linalg.inv(H)
    sparse, core = factor.halves(design)
    np.testing.assert_allclose((sparse @ sparse.T).toarray() + core @ core.T, dense @ S @ dense.T, rtol=0, atol=1e-12)

    D, others = design[:200], design[200:]
    c = rng.normal(size=(2, 200))
    correlated = Correlated.of(Standardised.of(D, factor), c)
    assert (correlated._sums is not None) is core_is_small
    sd = np.sqrt(np.einsum("ij,jk,ik->i", dense, S, dense))
    rho = dense @ S @ dense.T / np.outer(sd, sd)
    wanted = np.column_stack([rho[200:, :200] ** 3 @ c[0] / 6, rho[200:, :200] ** 4 @ c[1] / 24])
    rows = Standardised.of(others, factor)
    np.testing.assert_allclose(rows.sd, sd[200:], rtol=1e-10)
    np.testing.assert_allclose(correlated.tilt(rows), wanted, rtol=0, atol=1e-10)
    apart = np.triu(np.outer(c[0], c[0]) * rho[:200, :200] ** 3 / 6 + np.outer(c[1], c[1]) * rho[:200, :200] ** 4 / 24, 1)
    np.testing.assert_allclose(correlated.correction(), apart.sum(), rtol=1e-10)


def test_rows_without_spread_correlate_with_nothing():
    order = Elimination.of(np.array([[0, 1]]), 2)
    factor = order.factor(np.append(np.where(order.keys == 1, 0.5, 2.0), 0.0)[:, None])
    rows = Standardised.of(sp.csr_array(np.array([[1.0, 0.0], [0.0, 0.0]])), factor)
    tilt = Correlated.of(rows, np.ones((2, 2))).tilt(rows)
    assert rows.sd[1] == 0
    np.testing.assert_array_equal(tilt[1], 0)
