"""The engine's values against formulas written by hand, and the one test of convergence in NumPy and in JAX."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from pymc_bpls.engine.newton.verification import converged, well_conditioned
from pymc_bpls.model.data.table import Labeled

THETA = np.random.default_rng(5).normal(size=(3, 2))


@pytest.fixture(scope="module")
def log_lik(table):
    """ℓ of every row and class at each of THETA by the logistic formula, shape (3, rows, 2)."""
    eta = THETA @ table[0].T
    return np.stack([-np.logaddexp(0, eta), -np.logaddexp(0, -eta)], axis=-1)


def test_log_likelihoods_of_rows(small, log_lik):
    rows = np.array([7, 0, 25])
    np.testing.assert_allclose(small.engine.log_lik(THETA[0], rows), log_lik[0][rows], rtol=1e-12)
    assert small.engine.log_lik(THETA[0], rows[:0]).shape == (0, 2)


def test_log_likelihoods_of_pairs_over_draws(small, log_lik):
    rows, codes = np.arange(70) % 26, np.arange(70) % 2
    np.testing.assert_allclose(small.engine.log_lik_pairs(THETA, rows, codes), log_lik[:, rows, codes].T, rtol=1e-12)


def test_log_likelihood_of_weighted_rows_and_log_prior_over_draws(small, log_lik):
    D = Labeled(np.array([3, 1, 4]), np.array([1, 0, 1]), np.array([1.0, 0.5, 2.0]))
    expected = log_lik[:, D.positions, D.codes] @ D.weights
    prior = norm(0, 2.5).logpdf(THETA).sum(axis=1)
    np.testing.assert_allclose(small.engine.log_lik_labeled(D, THETA), expected, rtol=1e-12)
    np.testing.assert_allclose(small.engine.log_prior(THETA), prior, rtol=1e-12)
    value, gradient, curvature = small.engine.derivatives(D, k=2)(THETA[0])
    np.testing.assert_allclose(value, 2 * expected[0] + prior[0], rtol=1e-12)
    assert gradient.shape == (2,)
    assert np.linalg.eigvalsh(curvature).min() > 0


def test_a_fit_with_a_row_besides_is_its_refit(small):
    engine, D = small.engine, small._problem.labeled
    rows, codes = small._problem.table.candidates[:3], np.array([0, 1, 1])
    refits = engine.refit(D, rows, codes, engine.fit(D, k=2), k=2)
    assert refits.converged.all()
    for i, pair in enumerate(zip(rows.tolist(), codes.tolist(), strict=True)):
        mode = engine.fit(D, k=2, extra=pair)
        np.testing.assert_allclose(refits.points[i], mode.theta, rtol=0, atol=1e-9)
        np.testing.assert_allclose(
            refits.log_lik_pseudo[i], engine.log_lik(mode.theta, rows[i : i + 1])[0, codes[i]], rtol=1e-9
        )
        terms = 2 * refits.log_lik_labeled[i] + refits.log_lik_pseudo[i] + refits.log_prior[i]
        np.testing.assert_allclose((terms, refits.log_det[i]), (mode.value, mode.log_det), rtol=1e-9)


decrements = st.sampled_from([0.0, 9e-11, 2e-10, 9e-7, 2e-6, 1.0, np.inf, np.nan])
log_dets = st.sampled_from([0.0, 5e-6, 2e-5, 9.0, 11.0, -np.inf, np.nan])


@given(decrements, decrements, log_dets, log_dets, log_dets)
def test_convergence_is_the_same_for_one_point_and_for_many_in_numpy_and_in_jax(now, last, log_det, last_log_det, verified):
    exact = now <= 1e-10 or (now <= 1e-6 and now >= last / 2)
    settled = abs(log_det - last_log_det) <= 1e-5 or log_det >= verified - 10
    arguments = [np.float64(value) for value in (now, last, log_det, last_log_det, verified)]
    with np.errstate(invalid="ignore"):
        assert bool(converged(*arguments)) == (exact and settled)
        assert converged(*(np.array([value, value]) for value in arguments)).tolist() == [exact and settled] * 2
    assert bool(jax.jit(converged)(*arguments)) == (exact and settled)


def test_a_redundant_parameter_is_ill_conditioned():
    hessian = np.array([[1.0, 1.0], [1.0, 1.0 + 1e-12]])
    for matrix, good in ((hessian, False), (np.eye(2), True)):
        diagonal = np.diag(np.linalg.cholesky(matrix))
        assert well_conditioned(diagonal, np.diag(matrix)) == good
        assert bool(jax.jit(well_conditioned)(diagonal, np.diag(matrix))) == good
    assert well_conditioned(np.array([[1.0, np.nan], [1.0, 1.0]]), np.ones((2, 2))).tolist() == [False, True]
