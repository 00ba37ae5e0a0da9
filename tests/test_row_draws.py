"""Importance sampling in the coordinates of D's rows, against Gauss-Hermite quadrature over the predictors."""

import numpy as np
import pymc as pm
import pytest
from scipy.special import log_expit, logsumexp

import pymc_bpls as bpls
from pymc_bpls.approximations.ep import ep
from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.montecarlo.references import importance_samples
from pymc_bpls.montecarlo.row_draws import RowTarget

rng = np.random.default_rng(3)
X = rng.normal(size=(7, 50)) * 0.6
Y = np.array([1, 0, 1, -1, -1, -1, -1])


@pytest.fixture(scope="module")
def wide():
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=X @ pm.Normal("b", 0, 0.5, shape=50), observed=Y)
    return bpls.BPLS(model)


def log_integral(rows, labels, powers):
    """log ∫ Π σ(±f_j)^{k_j} N(f; 0, K) df by 24 nodes a row."""
    root = np.linalg.cholesky(0.25 * X[rows] @ X[rows].T)
    z, w = np.polynomial.hermite_e.hermegauss(24)
    grid = np.stack(np.meshgrid(*[z] * len(rows), indexing="ij"), -1).reshape(-1, len(rows))
    log_w = sum(np.meshgrid(*[np.log(w / w.sum())] * len(rows), indexing="ij")).ravel()
    signs = 2 * np.array(labels) - 1
    return logsumexp(log_w + (log_expit(signs * (grid @ root.T)) * powers).sum(axis=1))


def test_log_ppp_of_more_features_than_rows_is_that_of_quadrature(wide):
    run = wide.exact("ppp", method="psis", draws=2000, random_seed=0)
    exact = run["exact"]
    assert run.attrs["reliable"] == 1
    first = log_integral([0, 1, 2], [1, 0, 1], [1, 1, 1])
    for row, label, value, error in zip(
        exact.candidate.values, exact.pseudo_label.values, exact.log_ppp.values, exact.mcse.values, strict=True
    ):
        true = log_integral([0, 1, 2, row], [1, 0, 1, label], [2, 2, 2, 1]) - first
        assert abs(value - true) < 4 * error < 0.05


def test_moves_and_bridges_find_what_a_narrow_proposal_misses(wide):
    def narrow(engine, labeled, k):
        q = ep.fit(engine, labeled, k, None, None)
        yield "narrow", Gaussian(q.mean, 0.1 * q.covariance, rows=q.rows)

    generator = np.random.default_rng(1)
    sample = importance_samples(wide.engine, wide.labeled, [1], 4000, generator, narrow)[0]
    assert sample.draws.theta.shape == (4000, 50)
    true = log_integral([0, 1, 2], [1, 0, 1], [1, 1, 1])
    assert abs(sample.log_z.value - true) < 4 * sample.log_z.error < 0.2
    target = RowTarget.of(wide.engine, wide.labeled)
    points = generator.normal(size=(4000, 3))
    for _ in range(3):
        points, value, accepted = target.moved(1, points, np.eye(3), 0.4, generator)
    assert accepted > 0.9
    block = target.rows.labeled_block(wide.labeled)
    by_hand = log_expit((2 * Y[:3] - 1) * (points @ block.matrix[:, 0].T)).sum(axis=1) - 0.5 * (points**2).sum(axis=1)
    assert np.ptp(value - by_hand) < 1e-10
    q = ep.fit(wide.engine, wide.labeled, 1, None, None)
    error = np.sqrt(np.diag(q.covariance) / 4000)
    assert (np.abs(points.mean(axis=0) - q.mean) < 5 * error + 0.02).all()
