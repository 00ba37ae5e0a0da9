"""Coordinates of scales and correlations in which they are integrated over."""

import numpy as np
import pytest
from scipy.special import betaln, logsumexp
from scipy.stats import gamma

from pymc_bpls.approximations.hierarchies.lattice import climb, lay
from pymc_bpls.approximations.hierarchies.outer_coordinates import OuterCoordinates

LABELS = ["scale_log__", *(f"chol_cholesky-cov-packed__[{i}]" for i in range(3))]


@pytest.mark.parametrize("unit", [1.0, 1024.0**-3])
def test_they_are_sds_and_a_correlation_and_back(unit):
    """Whatever the second effect, and with it the entry below the diagonal, is counted in."""
    units = np.array([1.0, 1.0, unit, 1.0])
    coordinates, psi = OuterCoordinates.of(LABELS, units), np.array([0.3, -0.4, 0.9, -1.2 + np.log(unit)])
    u = coordinates.of_psi(psi)
    psi = psi * units
    L = np.array([[np.exp(psi[1]), 0], [psi[2], np.exp(psi[3])]])
    S = L @ L.T
    np.testing.assert_allclose(np.exp(u[[1, 3]]), np.sqrt(np.diag(S)), rtol=1e-14)
    np.testing.assert_allclose(np.tanh(u[2]), S[0, 1] / np.sqrt(S[0, 0] * S[1, 1]), rtol=1e-14)
    np.testing.assert_allclose(coordinates.psi(u), psi / units, rtol=1e-14)
    slopes = np.array([(coordinates.psi(u + h) - coordinates.psi(u - h)) / 2e-6 for h in 1e-6 * np.eye(4)])
    np.testing.assert_allclose(coordinates.log_jacobian(u), np.linalg.slogdet(slopes)[1], atol=1e-8)


def test_others_stay_as_they_are():
    three = [f"chol_cholesky-cov-packed__[{i}]" for i in range(6)]
    for labels in (["a_log__", "b"], three, []):
        coordinates, psi = OuterCoordinates.of(labels, np.ones(len(labels))), np.arange(len(labels), dtype=float)
        np.testing.assert_array_equal(coordinates.of_psi(psi), psi)
        assert coordinates.log_jacobian(psi) == 0


@pytest.mark.parametrize("eta", [1.5, 3])
def test_the_density_of_a_covariance_integrates_to_one(eta):
    """Lewandowski, Kurowicka and Joe (2009): (1 − ρ²)^(η − 1) / (2^(2η − 1) B(η, η)), and Gamma(2, 2) of both sds."""
    coordinates = OuterCoordinates.of(LABELS[1:], np.ones(3))

    def log_density(u):
        first, below, diagonal = coordinates.psi(u)
        sds = np.array([np.exp(first), np.hypot(below, np.exp(diagonal))])
        rho = below / sds[1]
        log_correlation = (eta - 1) * np.log1p(-(rho**2)) - (2 * eta - 1) * np.log(2) - betaln(eta, eta)
        by_psi = np.log(sds[0]) + np.log1p(-(rho**2))  # |∂(s₁, s₂, ρ)/∂ψ|
        return gamma.logpdf(sds, 2, scale=0.5).sum() + log_correlation + by_psi + coordinates.log_jacobian(u)

    laid = lay(log_density, *climb(log_density, np.zeros(3)))
    assert abs(logsumexp(laid.log_values) + laid.log_volume) < 0.005
