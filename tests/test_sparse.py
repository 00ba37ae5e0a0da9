"""Sparse curvatures, modes and refits against the dense ones, on every model of the zoo that has both."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
import zoo

import pymc_bpls as bpls
from pymc_bpls.approximations.gaussians.sparse_part import SparsePart
from pymc_bpls.approximations.hierarchies.scales import fit
from pymc_bpls.approximations.predictions.predictive import Predictive
from pymc_bpls.engine.rows.separable_priors import scales_others
from pymc_bpls.engine.sparse.curvature import SparseCurvature
from pymc_bpls.selftraining.invented import invented_information

SPARSE = [
    "logistic",
    "probit",
    "cloglog",
    "discrete_time_survival",
    "softmax_of_p",
    "hierarchical_non_centered",
    "item_response",
    "multilevel_regression_and_poststratification",
    "contamination",
    "t_link",
]
FAST = ("logistic", "hierarchical_non_centered")
CLOSE = {"rtol": 0, "atol": 1e-8}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FAST else pytest.mark.slow) for name in (*SPARSE, *zoo.MANY)]
)
@pytest.mark.filterwarnings("ignore::pymc_bpls.BPLSWarning")
def test_sparse_and_dense_agree(name):
    kind = zoo.ACCEPTED.get(name)
    pls = bpls.BPLS(zoo.MANY[name]()) if kind is None else bpls.BPLS(kind.table(), **kind.options)
    dense, sparse = (replace(pls.engine, sparse=flag) for flag in (False, True))
    labeled = pls.labeled
    rows = np.setdiff1d(np.arange(len(pls.engine.density.data[0])), labeled.positions)
    codes = rows % len(dense.density.class_values)
    for k in (1, 2):
        expected, found = (engine.fit(labeled, k=k) for engine in (dense, sparse))
        assert isinstance(found.curvature, SparseCurvature)
        np.testing.assert_allclose(found.theta, expected.theta, **CLOSE)
        np.testing.assert_allclose(found.log_det, expected.log_det, **CLOSE)
        np.testing.assert_allclose(found.log_integral, expected.log_integral, **CLOSE)
        np.testing.assert_allclose(found.hessian, expected.hessian, rtol=1e-9, atol=1e-8)
        np.testing.assert_allclose(found.gaussian.sd, expected.gaussian.sd, **CLOSE)
        refits = dense.refit(labeled, rows, codes, expected, k=k)
        others = sparse.refit(labeled, rows, codes, found, k=k)
        assert others.converged.all()
        for term in ("log_lik_labeled", "log_lik_pseudo", "log_prior", "log_det"):
            np.testing.assert_allclose(getattr(others, term), getattr(refits, term), **CLOSE)
    np.testing.assert_allclose(found.curvature.condition_number, expected.curvature.condition_number, rtol=0.02)
    at = np.random.default_rng(0).normal(size=(4, len(found.theta)))
    np.testing.assert_allclose(found.gaussian.distances(at), expected.gaussian.distances(at), rtol=1e-8)
    np.testing.assert_allclose(found.gaussian.variances_along(at), expected.gaussian.variances_along(at), rtol=1e-8)


def many_groups(groups, n_labeled=150, n=250):
    rng = np.random.default_rng(2)
    x, group = rng.normal(size=(n, 2)), rng.integers(groups, size=n)
    labels = np.where(np.arange(n) < n_labeled, x[:, 0] + rng.normal(size=groups)[group] + rng.logistic(size=n) > 0, -1)
    with pm.Model() as model:
        scale, z = pm.HalfNormal("scale", 1), pm.Normal("z", 0, 1, shape=groups)
        eta = pm.Normal("a", 0, 2) + x @ pm.Normal("b", 0, 1, shape=2) + (scale * z)[group]
        pm.Bernoulli("label", logit_p=eta, observed=labels)
    return bpls.BPLS(model)


@pytest.mark.slow
def test_many_groups_are_sparse_by_themselves_and_scores_are_those_of_dense_matrices():
    pls = many_groups(250)
    mode = pls.engine.fit(pls.labeled)
    assert isinstance(mode.curvature, SparseCurvature)
    scores = pls.score(approximation="laplace")
    assert scores.attrs["space"] == "sparse parameters"
    dense = replace(pls.engine, sparse=False)
    rows = scores["candidate"].to_numpy()
    codes = pls.scorer.problem.codes(scores["pseudo_label"].to_numpy())
    shared = dense.fit(pls.labeled, k=2)
    refits = dense.refit(pls.labeled, rows, codes, shared, k=2)
    np.testing.assert_allclose(scores["log_det"], refits.log_det, **CLOSE)
    np.testing.assert_allclose(scores["log_lik_pseudo"], refits.log_lik_pseudo, **CLOSE)
    fit = pls.fit()
    np.testing.assert_allclose(fit.sd, dense.fit(pls.labeled).gaussian.sd, **CLOSE)
    assert "beside" in fit.other_modes or "none" in fit.other_modes


def test_ep_of_a_hierarchy_is_the_same_sparse_or_dense():
    pls, rows = many_groups(30), np.arange(150, 250)
    fits = []
    for flag in (False, True):
        engine = replace(pls.engine, sparse=flag)
        q = fit(engine, pls.labeled, 2, None, None)
        assert all(isinstance(part, SparsePart) is flag for part in q.parts)
        fits.append((q.log_z, Predictive(engine).log_mean_lik_of(q, rows, rows % 2), q.in_theta.mean, q.in_theta.covariance))
    for one, other in zip(*fits, strict=True):
        np.testing.assert_allclose(other, one, **CLOSE)


def test_draws_have_the_moments_of_the_mode():
    pls = many_groups(250)
    gaussian = pls.engine.fit(pls.labeled).gaussian
    draws = gaussian.draws(20_000, np.random.default_rng(0))
    np.testing.assert_allclose((draws.mean(axis=0) - gaussian.point) / gaussian.sd, 0, atol=0.04)
    np.testing.assert_allclose(draws.std(axis=0) / gaussian.sd, 1, atol=0.04)


def test_what_a_run_invented_is_told_without_a_matrix():
    pls, told = many_groups(30), []
    more = pls.labeled.with_rows(np.arange(150, 160), np.arange(10) % 2, 1.0)
    for flag in (False, True):
        engine = replace(pls.engine, sparse=flag)
        told.append(invented_information(engine.fit(more), engine.fit(pls.labeled)))
    np.testing.assert_allclose(told[1], told[0], **CLOSE)


def test_scales_of_many_groups_are_seen_without_a_matrix_over_them():
    group = np.random.default_rng(3).permutation(600)
    with pm.Model() as hierarchy:
        effect = pm.Normal("effect", 0, pm.HalfNormal("scale", 1), shape=600)
        pm.Bernoulli("label", logit_p=effect[group], observed=np.where(group < 90, group % 2, -1))
    with pm.Model() as independent:
        effect = pm.StudentT("effect", nu=4, mu=0, sigma=1, shape=600)
        pm.Bernoulli("label", logit_p=effect[group], observed=np.where(group < 90, group % 2, -1))
    assert scales_others(bpls.BPLS(hierarchy).engine.affine_rows)
    assert not scales_others(bpls.BPLS(independent).engine.affine_rows)


@pytest.mark.slow
def test_scores_by_one_fit_make_nothing_as_large_as_a_matrix_over_parameters():
    rng, groups, rows = np.random.default_rng(0), 4000, 200
    group = rng.integers(groups, size=rows)
    with pm.Model() as model:
        scale, z = pm.HalfNormal("scale", 1), pm.Normal("z", 0, 1, shape=groups)
        pm.Bernoulli("y", logit_p=(scale * z)[group], observed=np.where(np.arange(rows) < 100, rng.integers(2, size=rows), -1))
    pls = bpls.BPLS(model)
    tracemalloc.start()
    pls.score("ppp", approximation="ep", other_modes=False)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * groups**2 / 2
