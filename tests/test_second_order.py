"""EP's moments to the second order: against exact sums, and against stored averages over weighted draws."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial.hermite_e import hermegauss, hermeval

import pymc_bpls as bpls
from pymc_bpls.approximations.gaussians.second_order import MOST_FACTORS, kurtosis_of_pairs, second_order
from pymc_bpls.approximations.predictions.node_averages import NodeAverages
from validation.approximations.cases import cases

STORED = Path(__file__).parents[1] / "validation" / "approximations" / "results.json"
DIRECTIONS = np.array([[1.0, 0.0], [0.8, 0.6], [-0.28, 0.96]])
FUNCTION = np.array([0.6, -0.8])


def exact_moments(c):
    """Mean and variance of FUNCTION'x, and E He_4 of it, under φ(x) Π_n (1 + c_3n He_3(z_n)/6 + c_4n He_4(z_n)/24)."""
    nodes, weights = hermegauss(24)
    x = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
    density = np.outer(weights, weights).ravel()
    for direction, third, fourth in zip(DIRECTIONS, *c, strict=True):
        density = density * hermeval(x @ direction, [1, 0, 0, third / 6, fourth / 24])
    density = density / density.sum()
    z = x @ FUNCTION
    mean = density @ z
    return mean, density @ z**2 - mean**2, density @ hermeval(z, [0, 0, 0, 0, 1])


def by_series(c):
    """The same by the second order."""
    change, rho = second_order(c, DIRECTIONS), DIRECTIONS @ FUNCTION
    fourth = c[1] @ rho**4 + 24 * kurtosis_of_pairs((c[0] * rho**2)[None], DIRECTIONS)[0]
    white = change.shift @ FUNCTION, FUNCTION @ change.spread @ FUNCTION
    np.testing.assert_allclose(white, (change.pull @ rho, rho @ change.pairs @ rho))
    return change.pull @ rho, 1 + rho @ change.pairs @ rho, fourth


@pytest.mark.parametrize("fourth", [(0, 0, 0), (0.7, 0.4, -0.9)])
def test_what_is_left_out_is_of_a_higher_order(fourth):
    """He_3's means are of the order s and He_4's of s², as those of rows are with s = n^(−½): then E z is right up to s⁵, Var z
    and E He_4 are up to s⁴.
    """
    off = []
    for scale in (0.04, 0.02):
        c = np.array([[0.8 * scale, -0.5 * scale, 0.6 * scale], np.multiply(fourth, scale**2)])
        off.append(np.abs(np.subtract(by_series(c), exact_moments(c))))
    assert (off[0] / off[1] > 2.0 ** (np.array([5, 4, 4]) - 0.2)).all()


def test_nothing_changes_where_the_series_does_not_converge_or_factors_are_many():
    roots = np.linalg.cholesky(np.full((9, 9), 0.95) + 0.05 * np.eye(9))
    assert second_order(np.array([np.full(9, 0.1), np.zeros(9)]), roots) is not None
    assert second_order(np.array([np.full(9, 0.9), np.zeros(9)]), roots) is None
    assert second_order(np.zeros((2, MOST_FACTORS + 1)), np.eye(MOST_FACTORS + 1)) is None


@cache
def stored():
    return json.loads(STORED.read_text())


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("zoo: logistic", 6e-4),
        ("zoo: probit", 8e-4),
        ("zoo: logistic with interaction", 8e-4),
        ("zoo: cloglog", 1.2e-3),
        ("zoo: zero sum groups", 6e-4),
        pytest.param("zoo: spline", 1.3e-3, marks=pytest.mark.slow),
        pytest.param("Gaussian process, HSGP, n = 40, q = 13", 6e-4, marks=pytest.mark.slow),
    ],
)
def test_scores_are_nearer_to_weighted_draws_than_the_first_order_is(name, most):
    """By the first order the errors are .0011, .0013, .0011, .0022, .0009, .0012 and .0007."""
    [case] = (each for each in cases() if each.name == name)
    pls = bpls.BPLS(case.model(), **case.options)
    error = pls.score(approximation="ep")["score"].to_numpy() - stored()[name]["exact"]
    assert np.abs(error - error.mean()).max() < most


@given(st.integers(2, 5), st.floats(0, 8), st.integers(0, 10**6))
def test_class_probabilities_stay_positive_and_add_up_to_one(classes, size, seed):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(classes, 0.3), size=3) + 1e-12
    p /= p.sum(axis=1, keepdims=True)
    change = rng.normal(size=(3, classes)) * size
    change -= (p * change).sum(axis=1, keepdims=True)
    found = NodeAverages(np.log(p), np.stack([change, np.zeros_like(change)], axis=-1)).shaped(np.tile([1.0, 0.0], (3, 1)))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1, rtol=1e-12)
    small = (np.abs(change) <= 0.5).all(axis=1)
    np.testing.assert_allclose(np.exp(found)[small], (p * (1 + change))[small], rtol=1e-12)
    if classes == 2:
        one = NodeAverages(np.log(p[:, 0]), np.stack([change[:, 0], np.zeros(3)], axis=-1)).shaped(np.tile([1.0, 0.0], (3, 1)))
        np.testing.assert_allclose(one, found[:, 0], rtol=1e-6, atol=1e-9)
