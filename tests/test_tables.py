"""Tables of functions of one and two numbers, against SciPy's functions and its adaptive quadrature."""

import numpy as np
import pymc as pm
import pytest
from reference import logistic
from scipy.integrate import quad
from scipy.special import expit, log_ndtr
from scipy.stats import norm

import pymc_bpls as bpls
from pymc_bpls.approximations.predictions import predictive
from pymc_bpls.engine.rows.row_table import RowTable

rng = np.random.default_rng(4)
X = np.column_stack([np.ones(60), rng.normal(size=(60, 2))])
Y = np.where(np.arange(60) < 20, (X @ [0.3, 1.5, -1.0] + rng.logistic(size=60) > 0).astype(int), -1)


def probit_derivatives(f, code):
    sign = 2 * code - 1
    ratio = np.exp(norm.logpdf(f) - log_ndtr(sign * f))
    return log_ndtr(sign * f), sign * ratio, -sign * f * ratio - ratio**2


def test_a_table_of_a_probit_row_is_its_log_likelihood_with_two_derivatives():
    table = RowTable.of(probit_derivatives, classes=2)
    f = np.random.default_rng(0).uniform(-30, 30, 2000)
    codes = np.arange(2000) % 2
    assert table.holds(f) and not table.holds(np.array([np.nan])) and not table.holds(np.array([1e3]))
    exact = [np.where(codes, one, zero) for zero, one in zip(*(probit_derivatives(f, code) for code in (0, 1)), strict=True)]
    for found, expected, bound in zip(table.derivatives(f, codes), exact, (1e-12, 1e-11, 1e-10), strict=True):
        assert (np.abs(found - expected) <= bound * (1 + np.abs(expected))).all()
    np.testing.assert_array_equal(table.value(f, codes), table.derivatives(f, codes)[0])
    np.testing.assert_array_equal(table.slope(f, codes), table.derivatives(f, codes)[1])


def test_there_is_no_table_of_a_function_with_a_kink():
    assert RowTable.of(lambda f, code: (-np.abs(f), -np.sign(f), np.zeros_like(f)), classes=1) is None


@pytest.fixture(scope="module")
def declared():
    return bpls.BPLS(logistic(X, Y))


def mean_of(function, m, s):
    """E[function(f)] over f ~ N(m, s²), by adaptive quadrature in pieces of a standard deviation."""
    pieces = (quad(lambda z: function(m + s * z) * norm.pdf(z), a, a + 1, epsabs=1e-14, epsrel=1e-11)[0] for a in range(-9, 9))
    return sum(pieces)


@pytest.mark.slow
def test_averages_by_the_pool_table_are_those_of_quadrature(declared):
    table = declared.scorer.engines.of(declared.labeled).pool_table
    rng = np.random.default_rng(1)
    m, s, codes = rng.normal(size=60) * 6, np.exp(rng.normal(size=60) + 0.5), rng.integers(0, 2, 60)
    values, usable = table(m, s, codes)
    assert usable.mean() > 0.9
    for i in np.flatnonzero(usable):
        sign = 2 * codes[i] - 1
        mean = mean_of(lambda f, sign=sign: expit(sign * f), m[i], s[i])
        third = mean_of(
            lambda f, i=i, sign=sign: expit(sign * f) * (((f - m[i]) / s[i]) ** 3 - 3 * (f - m[i]) / s[i]), m[i], s[i]
        )
        assert values[i, 0] == pytest.approx(np.log(mean), abs=2e-7)
        assert values[i, 1] == pytest.approx(third / mean, abs=1e-6)


def test_a_pool_by_table_scores_as_by_nodes(declared, monkeypatch):
    nodes = declared.score(approximation="ep", labels="all")["score"].to_numpy()
    monkeypatch.setattr(predictive, "FEWEST_BY_TABLE", 1)
    table = declared.score(approximation="ep", labels="all")["score"].to_numpy()
    assert (table != nodes).any()
    np.testing.assert_allclose(table, nodes, rtol=0, atol=2e-7)
    np.testing.assert_array_equal(np.argsort(table.ravel()), np.argsort(nodes.ravel()))


def test_rows_with_other_inputs_have_no_table():
    with pm.Model() as model:
        pm.Normal("y", X @ pm.Normal("b", 0, 1, shape=3), np.linspace(0.5, 1, 60), observed=Y.astype(float))
    pls = bpls.BPLS(model, classes=[0, 1], unlabeled=Y < 0)
    assert pls.engine.affine_rows.map.inputs
    assert pls.engine.affine_rows.row_table is None and pls.scorer.engines.of(pls.labeled).pool_table is None
