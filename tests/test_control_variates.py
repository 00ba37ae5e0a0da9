"""Averages with control variates, against integrals on a fine grid."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import loggamma, norm

from validation.study.control_variates import controlled, log_means, stein

CHAINS, DRAWS = 4, 2000
NORMAL, SKEWED = (norm(), lambda x: -x, 5), (loggamma(3), lambda x: 3 - np.exp(x), 3)


@pytest.mark.parametrize(("density", "slope", "gain"), [NORMAL, SKEWED], ids=["normal", "skewed"])
def test_an_average_keeps_its_mean_and_loses_most_of_its_error(density, slope, gain):
    theta = density.rvs(size=(CHAINS * DRAWS, 2), random_state=np.random.default_rng(0))
    weights = np.array([[0.8, -0.3], [0.2, 1.1]])
    values = expit(theta @ weights)
    x = np.linspace(-9, 6, 301)
    p = density.pdf(x) * (x[1] - x[0])
    truth = np.log([p @ expit(a * x[:, None] + b * x) @ p for a, b in weights.T])
    plain, its_error = log_means(values, CHAINS)
    better, error = log_means(controlled(values, stein(theta, slope(theta))), CHAINS)
    assert (error < its_error / gain).all()
    assert (np.abs(plain - truth) < 4 * its_error).all()
    assert (np.abs(better - truth) < 4 * error).all()


def test_weighted_draws_have_the_mean_of_what_they_are_weighted_to():
    rng, wide = np.random.default_rng(2), norm(0, 1.3)
    theta = wide.rvs(size=(CHAINS * DRAWS, 2), random_state=rng)
    density = np.exp((norm().logpdf(theta) - wide.logpdf(theta)).sum(axis=1))
    values = expit(theta @ np.array([[0.8], [0.3]]))
    plain, its_error = log_means(values, 1, density)
    better, error = log_means(controlled(values, stein(theta, -theta), density), 1, density)
    assert error < its_error / 5
    assert np.abs(plain - np.log(0.5)) < 4 * its_error
    assert np.abs(better - np.log(0.5)) < 4 * error


def test_controls_have_mean_zero():
    theta = norm().rvs(size=(100_000, 3), random_state=np.random.default_rng(1))
    controls = stein(theta, -theta)
    assert controls.shape == (100_000, 3 + 6)
    assert (np.abs(controls.mean(axis=0)) < 4 * controls.std(axis=0) / np.sqrt(len(theta))).all()


def test_many_parameters_have_no_more_controls_than_a_seventh_of_the_draws():
    theta = norm().rvs(size=(600, 20), random_state=np.random.default_rng(3))
    assert stein(theta, -theta).shape == (600, 20 + 20)
    assert stein(theta[:, :5], -theta[:, :5]).shape == (600, 5 + 15)
