"""Averages over Gaussians that are far wider than what they average, or far from it, and EP's sites of such rows."""

from itertools import pairwise

import numpy as np
import pymc as pm
import pytest
from scipy.integrate import quad
from scipy.special import expit, log_expit, log_ndtr, ndtr

import pymc_bpls as bpls
from pymc_bpls.approximations.ep import ep
from pymc_bpls.approximations.predictions.node_averages import average_at_nodes
from pymc_bpls.approximations.predictions.predictive import Predictive

_SPREADS = [0.0, 1e-8, 0.3, 1.0, 3.0, 31.0, 474.0, 1.6e4, 1e6, 1e8]


@pytest.mark.parametrize("sd", _SPREADS)
def test_averages_of_a_probit_are_its_closed_form(sd):
    # E Φ(f) = Φ(m/√(1 + s²)); the moments E[p He_l(z)] are derivatives of it in m, times s^l
    mean = np.concatenate([np.array([0.0, 0.5, -2.0, -30.0, 40.0, -1000.0]), np.array([-0.4, 1.0, -5.0]) * sd])
    found = average_at_nodes(lambda rows, f: log_ndtr(f), mean, np.full(len(mean), sd), 2)
    true = log_ndtr(mean / np.hypot(1, sd))
    np.testing.assert_allclose(found.log_mean, true, rtol=1e-12, atol=1e-9)
    u, c = mean / np.hypot(1, sd), sd / np.hypot(1, sd)
    near = np.abs(u) < 30
    third = c**3 * (u**2 - 1) * np.exp(-0.5 * u**2 - true) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(found.shapes[near, 0], third[near], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("sd", _SPREADS[2:])
def test_averages_of_a_logistic_model_are_those_of_a_quadrature_that_knows_where_it_changes(sd):
    for mean in (0.0, 2.0, -3.0, -0.7 * sd, 2.5 * sd):

        def integrand(f, mean=mean):
            return expit(f) * np.exp(-0.5 * ((f - mean) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))

        marks = np.concatenate([[-(4.0**k), 4.0**k] for k in np.arange(-2, 15)])
        ends = np.array([mean - 14 * sd, mean + 14 * sd])
        edges = np.sort(np.concatenate([np.clip(marks, *ends), [np.clip(0.0, *ends)], mean + np.arange(-14, 15) * sd]))
        true = np.log(sum(quad(integrand, a, b, epsabs=0, epsrel=1e-12)[0] for a, b in pairwise(edges) if b > a))
        found = average_at_nodes(lambda rows, f: log_expit(f), np.array([mean]), np.array([sd]), 2)
        np.testing.assert_allclose(found.log_mean, true, rtol=0, atol=1e-9)


def test_a_category_in_the_middle_is_found_beneath_a_wide_gaussian():
    # Φ(a − f) − Φ(b − f) between cut points b < a: a strip of the normal distribution
    low, high = np.array([-3.0, 50.0, 1e5]), np.array([1.0, 50.1, 1e5 + 3])
    sd = np.array([1e3, 1e6, 1e7])

    def log_lik(rows, f):
        a, b = high[rows, None] - f, low[rows, None] - f
        a, b = np.where(a > 0, -b, a), np.where(a > 0, -a, b)
        with np.errstate(divide="ignore"):
            return log_ndtr(a) + np.log1p(-np.exp(np.minimum(log_ndtr(b) - log_ndtr(a), 0.0)))

    found = average_at_nodes(log_lik, np.zeros(3), sd, 2)
    scale = np.hypot(1, sd)
    true = np.log(
        [
            quad(lambda t: np.exp(-t * t / 2) / np.sqrt(2 * np.pi), a, b, epsrel=1e-13)[0]
            for a, b in zip(low / scale, high / scale, strict=True)
        ]
    )
    np.testing.assert_allclose(found.log_mean, true, rtol=1e-9)


def test_a_likelihood_with_a_kink_has_nodes_that_end_at_it():
    x = np.array([1.0, -1.0, 0.5, 2.0])
    with pm.Model() as model:
        b = pm.Normal("b", 0.1, 0.2)
        pm.Bernoulli("y", p=pm.math.clip(0.5 + 0.4 * x * b, 0.3, 0.6), observed=np.array([1, 0, -1, -1]))
    predictive = Predictive(bpls.BPLS(model).engine)
    assert predictive.refinement == 0
    mean, sd = np.array([0.3, 0.1, -0.2]), np.array([1.0, 0.4, 3.0])
    found = average_at_nodes(lambda rows, f: np.log(np.clip(f, 0.3, 0.6)), mean, sd, predictive.refinement)

    def clipped(m, s):
        a, b = (0.3 - m) / s, (0.6 - m) / s
        inside = m * (ndtr(b) - ndtr(a)) + s * (np.exp(-a * a / 2) - np.exp(-b * b / 2)) / np.sqrt(2 * np.pi)
        return 0.3 * ndtr(a) + 0.6 * ndtr(-b) + inside

    np.testing.assert_allclose(np.exp(found.log_mean), clipped(mean, sd), rtol=1e-9)


@pytest.mark.filterwarnings("ignore:.*no labeled row of class 0")
@pytest.mark.parametrize("sd", [30.0, 1.6e4, 1e8])
def test_ep_of_one_row_is_exact_whatever_the_prior(sd):
    # one factor: log Z_1 = log Φ(c/√(1 + sd²)), log Z_2 by quadrature
    with pm.Model() as model:
        b = pm.Normal("b", 0, sd)
        pm.Bernoulli("y", p=pm.math.invprobit(b + 0.7), observed=np.array([1, -1]))
    pls = bpls.BPLS(model)
    marks = np.geomspace(1e-2, 12, 20) * sd
    edges = np.sort(np.concatenate([marks, -marks[marks < 40], [-30, -8, -2, 0, 2, 8]]))
    for k in (1, 2):

        def integrand(f, k=k):
            return ndtr(f) ** k * np.exp(-0.5 * ((f - 0.7) / sd) ** 2)

        found = ep.fit(pls.engine, pls.labeled, k, None, None)
        true = sum(quad(integrand, a, b, epsabs=0, epsrel=1e-12)[0] for a, b in pairwise(edges) if b > -40)
        np.testing.assert_allclose(found.log_z, np.log(true / (sd * np.sqrt(2 * np.pi))), atol=3e-8)
