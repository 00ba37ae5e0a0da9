"""Bridge sampling against closed forms."""

import numpy as np
import pytest
from scipy.special import betaln
from scipy.stats import multivariate_normal, norm, truncnorm

from pymc_bpls.montecarlo.bridge import Proposal, bridge

SEEDS = range(40)


def beta_binomial(seed):
    """log(Z_2/Z_1) of 6 successes in 9 trials with a uniform prior: draws of p given the data once and twice."""
    rng = np.random.default_rng(seed)
    log_lik = lambda p: 6 * np.log(p) + 3 * np.log1p(-p)  # noqa: E731
    draws = rng.beta(7, 4, (4, 500)), rng.beta(13, 7, (4, 500))
    return bridge(*map(log_lik, draws)), betaln(13, 7) - betaln(7, 4)


def correlated_normals(seed):
    """log(2) as the ratio of the constants of N(0, 4) and N(0, 1), from AR(1) chains with correlation 0.6."""
    rng = np.random.default_rng(seed)

    def chain(sd):
        noise = rng.normal(size=(4, 500)) * np.sqrt(1 - 0.36)
        draws = np.empty_like(noise)
        draws[:, 0] = rng.normal(size=4)
        for i in range(1, 500):
            draws[:, i] = 0.6 * draws[:, i - 1] + noise[:, i]
        return sd * draws

    log_ratio = lambda x: -0.5 * (x / 2) ** 2 + 0.5 * x**2  # noqa: E731
    return bridge(log_ratio(chain(1.0)), log_ratio(chain(2.0))), np.log(2)


def linear_regression(seed):
    """log p(y) of a linear regression with known noise and normal prior, by a t proposal for the posterior."""
    data, rng = np.random.default_rng(1), np.random.default_rng(seed)
    X = data.normal(size=(12, 3))
    y = X @ [1.0, -0.5, 0.2] + 0.7 * data.normal(size=12)
    precision = X.T @ X / 0.49 + np.eye(3) / 4
    mean, covariance = np.linalg.solve(precision, X.T @ y / 0.49), np.linalg.inv(precision)
    draws = rng.multivariate_normal(mean, covariance, size=(4, 400))
    proposal = Proposal.fitted(draws[:, :200].reshape(-1, 3))

    def log_joint(beta):
        residual = y - beta @ X.T
        log_lik = -0.5 * (residual**2).sum(-1) / 0.49 - 6 * np.log(2 * np.pi * 0.49)
        return log_lik + multivariate_normal(np.zeros(3), 4 * np.eye(3)).logpdf(beta)

    proposed, rest = proposal.draws((4, 200), rng), draws[:, 200:]
    found = bridge(*(log_joint(at) - proposal.log_density(at) for at in (proposed, rest)))
    return found, multivariate_normal(np.zeros(12), 0.49 * np.eye(12) + 4 * X @ X.T).logpdf(y)


@pytest.mark.parametrize("case", [beta_binomial, correlated_normals, linear_regression])
def test_reported_errors_are_those_of_the_estimates(case):
    z = [(found.value - truth) / found.error for found, truth in map(case, SEEDS)]
    assert 0.7 < np.std(z) < 1.4
    assert abs(np.mean(z)) < 4 / np.sqrt(len(z))


def test_equal_densities_have_ratio_one_and_no_error():
    found = bridge(np.zeros((2, 50)), np.zeros((2, 50)))
    assert found.value == pytest.approx(0, abs=1e-12)
    assert found.error == pytest.approx(0, abs=1e-12)


def test_draws_that_the_other_density_excludes_are_counted():
    """A normal cut to (-1, ∞) against the whole of it: log Φ(1)."""
    rng = np.random.default_rng(5)
    whole = rng.normal(size=(2, 4000))
    cut = truncnorm.rvs(-1, np.inf, size=(2, 4000), random_state=rng)
    found = bridge(np.where(whole > -1, 0.0, -np.inf), np.zeros_like(cut))
    assert abs(found.value - norm.logcdf(1)) < 4 * found.error < 0.05
