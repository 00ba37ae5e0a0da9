"""EP of hierarchies, their scales integrated out: against quadrature written from scratch, and declared otherwise."""

import numpy as np
import pymc as pm
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import multivariate_normal, norm

import pymc_bpls as bpls
from pymc_bpls.approximations.hierarchies import lattice
from pymc_bpls.approximations.hierarchies.lattice import climb, lay
from pymc_bpls.approximations.hierarchies.scales import fit

N, N_LABELED, LEVELS = 20, 12, 3
rng = np.random.default_rng(5)
x = rng.normal(size=N)
GROUP = np.where(np.arange(N) < N_LABELED, np.arange(N) % 2, np.arange(N) % LEVELS)  # level 2 has no label
TRUE = (x + 1.5 * (GROUP == 1) + rng.logistic(size=N) > 0).astype(int)
LABELS = np.where(np.arange(N) < N_LABELED, TRUE, -1)


def non_centered():
    with pm.Model() as model:
        scale, z = pm.HalfNormal("scale", 1.5), pm.Normal("z", 0, 1, shape=LEVELS)
        pm.Bernoulli("label", logit_p=x + (scale * z)[GROUP], observed=LABELS)
    return model


def centered():
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1.5)
        pm.Bernoulli("label", logit_p=x + pm.Normal("effect", 0, scale, shape=LEVELS)[GROUP], observed=LABELS)
    return model


def quadrature():
    """log PPP of both classes of every candidate, by the trapezoidal rule over log scale and each group's z."""
    t, z = np.linspace(-9, 2.5, 301), np.linspace(-7, 7, 401)
    weights = norm.logpdf(z) + np.log(z[1] - z[0])
    signs = 2 * TRUE - 1

    def log_p(row, sign):
        return -np.logaddexp(0, -sign * (x[row] + np.exp(t)[:, None] * z))

    def of_groups(k):
        """log ∫ p(rows of the group | t, z)^k N(z) dz (groups, T), and the same integrand (groups, T, Z)."""
        rows = [[j for j in range(N_LABELED) if GROUP[j] == g] for g in range(LEVELS)]
        inside = np.stack([k * sum((log_p(j, signs[j]) for j in own), np.zeros((len(t), len(z)))) + weights for own in rows])
        return logsumexp(inside, axis=2), inside

    log_prior = norm.logpdf(np.exp(t), 0, 1.5) + np.log(2) + t
    log_z1 = logsumexp(of_groups(1)[0].sum(axis=0) + log_prior)
    each, inside = of_groups(2)
    scores = np.empty((N - N_LABELED, 2))
    for i in range(N_LABELED, N):
        others = np.delete(each, GROUP[i], axis=0).sum(axis=0) + log_prior
        for label in (0, 1):
            own = logsumexp(inside[GROUP[i]] + log_p(i, 2 * label - 1), axis=1)
            scores[i - N_LABELED, label] = logsumexp(own + others) - log_z1
    return scores


@pytest.fixture(scope="module")
def by_ep():
    return {declare.__name__: bpls.BPLS(declare()).score(labels="all") for declare in (non_centered, centered)}


@pytest.mark.parametrize("name", ["non_centered", "centered"])
def test_scores_of_groups_seen_and_never_seen_are_those_of_quadrature(by_ep, name):
    scores, truth = by_ep[name], quadrature()
    assert scores.attrs["approximation"] == "ep"
    np.testing.assert_allclose(scores["score"], truth, rtol=0, atol=6e-3)
    new = GROUP[N_LABELED:] == 2
    assert new.any()
    np.testing.assert_allclose(scores["score"][new], truth[new], rtol=0, atol=6e-3)


def test_how_groups_are_declared_changes_nothing(by_ep):
    np.testing.assert_allclose(by_ep["centered"]["score"], by_ep["non_centered"]["score"], rtol=0, atol=1e-4)


def test_draws_of_the_mixture_have_its_moments():
    pls = bpls.BPLS(non_centered())
    q = fit(pls.engine, pls.labeled, 1, None, None)
    draws = q.theta_draws((20_000,), np.random.default_rng(0))
    sd = np.sqrt(np.diag(q.in_theta.covariance))
    np.testing.assert_allclose((draws.mean(axis=0) - q.in_theta.mean) / sd, 0, atol=0.04)
    np.testing.assert_allclose(draws.std(axis=0) / sd, 1, atol=0.04)
    np.testing.assert_allclose(np.exp(q.log_shares).sum(), 1)


def test_more_parameters_than_can_be_integrated_over_are_left_to_vi():
    with pm.Model() as model:
        scale, z = pm.HalfNormal("scale", 1, shape=6), pm.Normal("z", 0, 1, shape=6)
        pm.Bernoulli("label", logit_p=x + (scale * z)[np.arange(N) % 6], observed=LABELS)
    pls = bpls.BPLS(model)
    assert pls.engine.hierarchy is None
    with pytest.raises(bpls.ApproximationError, match='Use approximation="vi"'):
        pls.score(approximation="ep")


def test_scales_that_range_too_far_are_refused_by_the_number_of_points(monkeypatch):
    monkeypatch.setattr(lattice, "MOST_POINTS", 4)
    with pytest.raises(bpls.ApproximationError, match=r'over "scale_log__" at 4 points at most.* Use approximation="vi"'):
        bpls.BPLS(non_centered()).score(approximation="ep")


def test_a_run_of_a_hierarchy_goes_on_where_it_was_cut():
    pls = bpls.BPLS(non_centered())
    whole = pls.self_train(rounds=3, progressbar=False)["history"]
    part = pls.resume(pls.self_train(rounds=1, progressbar=False), rounds=2, progressbar=False)["history"]
    assert part["candidate"].to_numpy().tolist() == whole["candidate"].to_numpy().tolist()
    np.testing.assert_allclose(part["score"], whole["score"], rtol=0, atol=1e-4)


def gaussian(m):
    root = np.random.default_rng(m).normal(size=(m, m)) + np.eye(m)
    return lambda point: float(multivariate_normal.logpdf(point, np.full(m, 3.0), root @ root.T)), 0.0


def log_gamma(m):
    """The log of independent Gamma(3) variables, whose left tails are exponential."""
    return lambda point: float((3 * point - np.exp(point)).sum()), m * float(gammaln(3))


@pytest.mark.parametrize(("density", "tolerance"), [(gaussian, 0.015), (log_gamma, 0.04)])
@pytest.mark.parametrize("m", [0, 1, 2, 3, 4, 5])
def test_a_lattice_integrates(m, density, tolerance):
    log_density, log_integral = (lambda _: 0.0, 0.0) if m == 0 else density(m)
    laid = lay(log_density, *climb(log_density, np.zeros(m)))
    assert abs(logsumexp(laid.log_values) + laid.log_volume - log_integral) < tolerance


@pytest.mark.parametrize(("start", "sd"), [(3.0, 40.0), (-30.0, 1.0), (3.0, 8.0)])
def test_a_lattice_is_laid_again_where_points_are_few_or_its_centre_is_not_the_highest(start, sd):
    def log_density(point):
        return float(norm.logpdf(point[0], 3, 1))

    laid = lay(log_density, np.array([start]), np.array([[sd]]))
    assert len(laid.points) > 5
    assert abs(logsumexp(laid.log_values) + laid.log_volume) < 1e-3


def test_scores_of_a_slope_with_a_scale_of_wide_prior_are_those_of_quadrature():
    rng = np.random.default_rng(7)
    n = int(rng.integers(4, 9))
    feature = rng.normal(size=24)
    labels = np.where(np.arange(24) < n, (feature > 0).astype(int), -1)
    with pm.Model() as model:
        slope = pm.Normal("slope", 0, pm.math.exp(pm.Normal("u", 0, 3)))
        pm.Bernoulli("label", logit_p=slope * feature, observed=labels)
    scores = bpls.BPLS(model).score("ppp", other_modes=False)
    assert scores.attrs["approximation"] == "ep"
    u, z = np.linspace(-24, 24, 801), np.linspace(-9, 9, 1501)
    weight = norm.logpdf(u, 0, 3)[:, None] + norm.logpdf(z) + np.log((u[1] - u[0]) * (z[1] - z[0]))
    at = np.exp(u)[:, None] * z

    def of(row, label):
        return -np.logaddexp(0, -(2 * label - 1) * at * feature[row])

    whole = sum(of(row, labels[row]) for row in range(n))
    pairs = zip(scores["candidate"].to_numpy(), scores["pseudo_label"].to_numpy(), strict=True)
    right = np.array([logsumexp(weight + 2 * whole + of(*pair)) for pair in pairs]) - logsumexp(weight + whole)
    np.testing.assert_allclose(scores["score"], right, atol=0.04)  # level 0.75, order 0.17 by a lattice of one point


def test_a_scale_whose_prior_leaves_double_precision_is_refused_by_name():
    labels = np.full((11, 2), -1)
    labels[:10, 0] = [1, 1, 1, 1, 0, 0, 1, 1, 1, 0]
    with pm.Model() as model:
        scale, z = pm.InverseGamma("scale", 0.001, 0.001), pm.Normal("z", 0, 1, shape=11)
        pm.Bernoulli("label", logit_p=(scale * z)[np.repeat(np.arange(11), 2)], observed=labels.ravel())
    pls = bpls.BPLS(model)
    with pytest.raises(bpls.ApproximationError, match=r'integrates over "scale_log__".* Use approximation="vi"'):
        fit(pls.engine, pls.labeled, 1, None, None)


def test_what_does_not_vanish_has_no_lattice():
    assert lay(lambda _: 0.0, np.zeros(2), np.eye(2)) is None
