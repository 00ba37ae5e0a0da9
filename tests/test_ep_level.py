"""Levels of scores by EP and VI against quadrature: exact in cells, near in groups, and when a user is told."""

import warnings
from itertools import pairwise

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import log_expit, logsumexp

import pymc_bpls as bpls
from pymc_bpls.approximations import vi
from pymc_bpls.approximations.ep.ep import fit
from pymc_bpls.approximations.predictions.predictive import Predictive
from pymc_bpls.montecarlo import psis
from pymc_bpls.scoring.by_ep_and_vi import log_normalizer_of
from pymc_bpls.scoring.criteria import CRITERIA
from pymc_bpls.scoring.fitted import ModelFit
from validation.levels.cases import cases
from validation.levels.quadrature import scaled, truth
from validation.levels.tables import Table

COEFFICIENTS, ROWS = 20, 6
CASES = {case.name: case for case in cases()}


def declared():
    """Each coefficient has rows of its own, so that its posterior is a density of one number."""
    rng = np.random.default_rng(1)
    X, y = np.zeros((COEFFICIENTS * ROWS + 1, COEFFICIENTS)), np.full(COEFFICIENTS * ROWS + 1, -1)
    X[-1] = rng.normal(size=COEFFICIENTS)
    for c in range(COEFFICIENTS):
        own = slice(c * ROWS, (c + 1) * ROWS)
        X[own, c] = rng.normal(size=ROWS) * 2
        y[own] = X[own, c] * (2.5 if c < 5 else 0) + rng.logistic(size=ROWS) > 0
    return X, y


def level(X, y, log_prior):
    """log Z_2 - log Z_1 by Gauss-Legendre quadrature, coefficient by coefficient."""
    marks = np.geomspace(1e-6, 4000, 80)
    x, w = np.polynomial.legendre.leggauss(12)
    pieces = [*pairwise(np.concatenate([-marks[::-1], [0.0], marks]))]
    t = np.concatenate([(a + b) / 2 + (b - a) / 2 * x for a, b in pieces])
    log_w = np.concatenate([np.log((b - a) / 2 * w) for a, b in pieces])
    total = 0.0
    for c in range(COEFFICIENTS):
        own = range(c * ROWS, (c + 1) * ROWS)
        log_lik = sum(log_expit((2 * y[i] - 1) * X[i, c] * t) for i in own)
        total += logsumexp(2 * log_lik + log_prior(t) + log_w) - logsumexp(log_lik + log_prior(t) + log_w)
    return total


def told_of_the_level(said):
    return any("level of the scores" in str(each.message) for each in said)


@pytest.mark.parametrize(
    ("declare", "log_prior"),
    [
        (lambda: pm.Normal("b", 0, 2.5, shape=COEFFICIENTS), stats.norm(0, 2.5).logpdf),
        (lambda: pm.Laplace("b", 0, 0.1, shape=COEFFICIENTS), stats.laplace(0, 0.1).logpdf),
        (lambda: pm.StudentT("b", nu=2, mu=0, sigma=0.02, shape=COEFFICIENTS), stats.t(2, 0, 0.02).logpdf),
    ],
)
def test_where_rows_share_one_coefficient_the_level_is_exact(declare, log_prior, recwarn):
    warnings.simplefilter("always")
    X, y = declared()
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=X @ declare(), observed=y)
    scores = bpls.BPLS(model).score("ppp[ep]", other_modes=False)
    assert abs(scores.attrs["log_normalizer"] - level(X, y, log_prior)) < 1e-5
    assert not told_of_the_level(recwarn)


@pytest.fixture(scope="module")
def t_cells():
    """Twenty cells with four labels of one class each under Student-t(2) of scale 0.1, and one without."""
    case, table = CASES["cells, Student-t(2), .1"], Table(np.array([*[[0, 4], [4, 0]] * 10, [0, 0]]))
    return bpls.BPLS(case.model(table)), case.exact(table)


def test_cells_of_one_class_under_heavy_tails_have_their_level(t_cells):
    pls, exact = t_cells
    scores = pls.score("ppp", other_modes=False)
    assert scores.attrs["approximation"] == "ep" and "instead_of" not in scores.attrs
    assert abs(scores.attrs["log_normalizer"] - exact.constant) < 1e-4
    right = exact.log_ppp[np.arange(21), scores["pseudo_label"].to_numpy()]
    assert np.abs(scores["score"].to_numpy() - right).max() < 0.06  # −53.05 for −47.88 when VI stood in


def test_above_a_k_hat_of_0_7_the_level_of_vi_is_told_and_has_no_error(t_cells, recwarn):
    warnings.simplefilter("always")
    pls, exact = t_cells
    scores = pls.score("ppp", approximation="vi", other_modes=False)
    assert scores.attrs["pareto_k"] > 0.7
    assert abs(scores.attrs["log_normalizer"] - exact.constant) > 1
    assert "log_normalizer_error" not in scores.attrs and told_of_the_level(recwarn)


def test_a_level_of_vi_whose_weights_may_have_no_variance_has_no_error(recwarn):
    warnings.simplefilter("always")
    case = CASES["cells, Normal(0, 2.5)"]
    table = Table.drawn(case.cells, 1)
    scores = bpls.BPLS(case.model(table)).score("ppp", approximation="vi", other_modes=False)
    assert 0.4 < scores.attrs["pareto_k"] < 0.7
    assert "log_normalizer_error" not in scores.attrs and not told_of_the_level(recwarn)
    assert abs(scores.attrs["log_normalizer"] - case.exact(table).constant) < 0.05


def ratios(case, table, repetitions, monkeypatch):
    """Errors of VI's level over the claimed one, by independent draws, wherever an error is claimed."""
    pls, exact, found = bpls.BPLS(case.model(table)), case.exact(table).constant, []
    fit = ModelFit(pls.labeled, pls.engine.fit(pls.labeled), Predictive(pls.engine))
    fits = {k: vi.fit(pls.engine, pls.labeled, k, fit.mode, None) for k in (1, 2)}
    for stream in range(repetitions):
        monkeypatch.setattr(psis, "_STREAM", 100 + stream)
        level, claimed = log_normalizer_of("vi", CRITERIA["ppp"], fit, fits)
        if "log_normalizer_error" in claimed:
            found.append((level - exact) / claimed["log_normalizer_error"])
    return found


@pytest.mark.parametrize(
    ("names", "seeds", "repetitions"),
    [
        (["two slopes, Normal(0, 10)"], (2, 3), 30),
        pytest.param(["two slopes, Normal(0, 10)", "two slopes, Cauchy(0, 2.5)"], range(12), 15, marks=pytest.mark.slow),
    ],
)
@pytest.mark.filterwarnings("ignore:k-hat of the constant")
def test_where_a_level_of_vi_has_an_error_repetition_supports_it(names, seeds, repetitions, monkeypatch):
    found = []
    for name in names:
        for seed in seeds:
            found += ratios(CASES[name], Table.drawn(CASES[name].cells, seed), repetitions, monkeypatch)
    assert len(found) > 30
    assert np.sqrt(np.mean(np.square(found))) < 1.25
    assert np.mean(np.abs(found) < 2) > 0.9


def test_pure_groups_have_their_level():
    case, table = CASES["groups and an intercept, HalfCauchy(1)"], Table(np.array([*[[0, 2], [2, 0]] * 20, [0, 0]]))
    scores = bpls.BPLS(case.model(table)).score("ppp", other_modes=False)
    mu, log_s = (each.ravel() for each in np.meshgrid(np.arange(-20, 21) * 0.45, np.arange(-2, 14, 0.5)))
    log_weights = stats.norm.logpdf(mu, 0, 2.5) + stats.halfcauchy.logpdf(np.exp(log_s)) + log_s + np.log(0.45 * 0.5)
    exact = truth(table, scaled(mu, log_s), log_weights)
    assert abs(scores.attrs["log_normalizer"] - exact.constant) < 5e-3  # 0.42 by pairs of rows alone
    right = exact.log_ppp[np.arange(41), scores["pseudo_label"].to_numpy()]
    assert np.abs(scores["score"].to_numpy() - right).max() < 0.03


UNLABELED = {
    "Student-t(3)": (lambda: pm.StudentT("b", nu=3, mu=0, sigma=2.5, shape=3), stats.t(3, 0, 2.5)),
    "Laplace": (lambda: pm.Laplace("b", 0, 1, shape=3), stats.laplace(0, 1)),
    "Cauchy": (lambda: pm.Cauchy("b", 0, 1, shape=3), stats.cauchy(0, 1)),
    "skewed": (lambda: pm.SkewNormal("b", mu=0, sigma=2, alpha=3, shape=3), stats.skewnorm(3, 0, 2)),
}


@pytest.mark.parametrize("name", UNLABELED)
def test_a_level_without_labels_has_its_prior_exactly(name):
    declare, prior = UNLABELED[name]
    group, labels = np.repeat([0, 1, 2], 4), np.array([0, 0, -1, -1, 1, 1, -1, -1, -1, -1, -1, -1])
    offset = np.linspace(-2, 3, 12)
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=declare()[group] + offset, observed=labels)
    pls = bpls.BPLS(model)
    scores = pls.score("ppp", labels="all", other_modes=False)
    assert scores.attrs["approximation"] == "ep" and "instead_of" not in scores.attrs
    at = prior.ppf((np.arange(200_000) + 0.5) / 200_000)
    right = [[logsumexp(log_expit(sign * (at + offset[row]))) - np.log(len(at)) for sign in (-1, 1)] for row in range(8, 12)]
    found = scores["score"][4:] - scores.attrs["log_normalizer"]
    np.testing.assert_allclose(np.exp(found), np.exp(right), rtol=0, atol=5e-5)
    draws = fit(pls.engine, pls.labeled, 1, None, None).theta_draws((4000,), np.random.default_rng(0))
    assert stats.kstest(draws[:, 2], prior.cdf).pvalue > 1e-3
