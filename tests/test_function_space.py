"""Scores, modes and predictions in the space of the labeled rows against those in all parameters, by autodiff and by SciPy."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_expit, softmax

import pymc_bpls as bpls
from pymc_bpls.approximations import vi
from pymc_bpls.approximations.ep import ep
from pymc_bpls.engine.engine import Engine
from pymc_bpls.engine.rows.reduced_rows import ReducedRows

Q, ROWS, QUIET = 12, 24, {"progressbar": False}
rng = np.random.default_rng(11)
X = rng.normal(size=(ROWS, Q))
X[:, 3], X[1], X[9], X[2] = X[:, 5], X[0], X[4], 0.0
X[:, 7] = 0.0
SHIFT = rng.normal(size=ROWS)
Y = np.append([1, 0, 0, 1], rng.integers(0, 2, ROWS - 4))
CORRELATED = 0.5 * np.eye(Q) + 0.5


def labels(n, y=Y):
    return np.where(np.arange(ROWS) < n, y, -1)


def independent(n):
    """Duplicated and zero columns and rows, an offset, prior means that are not 0."""
    beta = pm.Normal("beta", 0.3, 1.5, shape=Q)
    pm.Bernoulli("label", logit_p=X @ beta + SHIFT, observed=labels(n))


def correlated(n):
    beta = pm.MvNormal("beta", np.full(Q, 0.2), CORRELATED)
    pm.Bernoulli("label", logit_p=X @ beta, observed=labels(n))


def common_mean(n):
    """Slopes around a mean with a prior of its own: their joint prior is Gaussian."""
    mean = pm.Normal("mean", 0, 1)
    beta = pm.Normal("beta", mean, 1, shape=Q)
    pm.Bernoulli("label", p=pm.math.invprobit(0.3 * X @ beta), observed=labels(n))


def flat_intercept(n):
    intercept = pm.Flat("intercept")
    beta = pm.Normal("beta", 0, 1, shape=Q)
    pm.Bernoulli("label", logit_p=intercept + X @ beta, observed=labels(n))


def classes(n):
    """Softmax of three classes: as many predictors a row, in 36 parameters."""
    beta = pm.Normal("beta", 0, 1, shape=(Q, 3))
    pm.Categorical("label", logit_p=X @ beta, observed=labels(n, np.arange(ROWS) % 3))


def declared(model, n):
    with pm.Model() as held:
        model(n)
    return bpls.BPLS(held)


def in_theta(pls, **change):
    """The same object, all of it in the parameters."""
    other = object.__new__(bpls.BPLS)
    other.__dict__.update(pls.__dict__)
    other._scorer = replace(pls.scorer, engines=pls.scorer.engines.change(lambda engine: replace(engine, **change)))
    return other


@pytest.mark.slow
@pytest.mark.parametrize("n", [4, 11, 14])
@pytest.mark.parametrize(
    "model", [independent, correlated, common_mean, flat_intercept, classes], ids=lambda model: model.__name__
)
def test_rows_and_parameters_give_the_same_scores(model, n):
    pls = declared(model, n)
    general = in_theta(pls, affine=False)
    coordinates = pls.engine.coordinates(pls.labeled)
    few = (n + 1) * coordinates.map.size < pls.engine.density.dimension
    assert isinstance(coordinates, ReducedRows) == few
    assert (pls.engine.fit(pls.labeled).rows is not None) == few
    for criterion in ("ppp", "marginal_likelihood", "variance", "probability"):
        mine, theirs = (each.score(criterion, approximation="laplace", labels="all", **QUIET) for each in (pls, general))
        assert (mine.attrs["space"], theirs.attrs["space"]) == ("rows" if few else "parameters", "parameters")
        for name in mine.data_vars:
            if mine[name].dtype.kind == "f":
                np.testing.assert_allclose(mine[name], theirs[name], rtol=1e-8, atol=1e-8, err_msg=f"{criterion} {name}")
    mine, theirs = pls.fit(), general.fit()
    np.testing.assert_allclose(mine.unconstrained, theirs.unconstrained, atol=1e-8)
    np.testing.assert_allclose(mine.hessian, theirs.hessian, atol=1e-8)
    np.testing.assert_allclose(mine.sd, theirs.sd, rtol=1e-8)
    np.testing.assert_allclose(pls.predict_proba(by="mode"), general.predict_proba(by="mode"), atol=1e-9)
    if mine.log_evidence is not None:
        np.testing.assert_allclose(mine.log_evidence, theirs.log_evidence, atol=1e-8)


def by_ep(pls):
    """log Z_1 and log Z_2, means and covariances, scores, and the choices and scores of a run."""
    fits = [ep.fit(pls.engine, pls.labeled, k, None, None) for k in (1, 2)]
    scores = [pls.score(name, approximation="ep", labels="all", **QUIET).score for name in ("ppp", "predictive")]
    run = pls.self_train(approximation="ep", **QUIET)["history"]
    moments = (part for q in fits for part in (q.in_theta.mean, q.in_theta.covariance))
    return [q.log_z for q in fits], *moments, *scores, run.candidate, run.score


@pytest.mark.slow
@pytest.mark.parametrize("n", [4, 11, 14])
@pytest.mark.parametrize("model", [independent, correlated, common_mean, flat_intercept], ids=lambda model: model.__name__)
def test_expectation_propagation_is_the_same_in_rows_and_in_parameters(model, n, monkeypatch):
    pls = declared(model, n)
    mine = by_ep(pls)
    monkeypatch.setattr(Engine, "coordinates", lambda self, labeled: self.affine_rows)
    for one, other in zip(mine, by_ep(pls), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("model", [independent, flat_intercept], ids=lambda model: model.__name__)
def test_the_variational_gaussian_is_the_same_in_rows_and_in_parameters(model, monkeypatch):
    pls = declared(model, 6)

    def by_vi():
        q = vi.fit(pls.engine, pls.labeled, 2, None, None)
        history = pls.self_train(approximation="vi", rounds=8, **QUIET)["history"]
        return q.log_z, q.in_theta.mean, q.in_theta.covariance, history.candidate, history.score

    mine = by_vi()
    monkeypatch.setattr(Engine, "coordinates", lambda self, labeled: self.affine_rows)
    for one, other in zip(mine, by_vi(), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


def test_a_run_by_ep_in_the_space_of_rows_goes_on_from_what_it_kept():
    pls = declared(independent, 6)
    whole = pls.self_train(approximation="ep", rounds=3, **QUIET)
    part = pls.self_train(approximation="ep", rounds=2, **QUIET)
    assert "covariance" not in part["state"]
    again = pls.resume(part, rounds=1, **QUIET)
    np.testing.assert_array_equal(again["history"].candidate, whole["history"].candidate)
    np.testing.assert_allclose(again["history"].score, whole["history"].score, rtol=0, atol=1e-8)


@pytest.mark.slow
def test_averages_over_the_gaussian_are_the_same():
    pls = declared(independent, 6)
    with pm.Model() as wide:  # more labeled rows than parameters, by rows that say nothing
        beta = pm.Normal("beta", 0.3, 1.5, shape=Q)
        z = np.r_[X, np.zeros((40, Q))]
        pm.Bernoulli("label", logit_p=z @ beta + np.r_[SHIFT, np.zeros(40)], observed=np.r_[labels(6), np.zeros(40, dtype=int)])
    wide = bpls.BPLS(wide)
    assert isinstance(pls.engine.coordinates(pls.labeled), ReducedRows)
    assert not isinstance(wide.engine.coordinates(wide.labeled), ReducedRows)
    for criterion in ("predictive", "entropy"):
        mine, theirs = (each.score(criterion, approximation="laplace", **QUIET) for each in (pls, wide))
        np.testing.assert_allclose(mine.score, theirs.score, atol=1e-9)


@pytest.mark.slow
def test_a_run_that_outgrows_the_parameters_is_one_in_the_parameters():
    pls = declared(independent, 6)
    mine, theirs = (each.self_train("ppp", approximation="laplace", **QUIET) for each in (pls, in_theta(pls, affine=False)))
    assert mine["history"].candidate.values.tolist() == theirs["history"].candidate.values.tolist()
    np.testing.assert_allclose(mine["history"].score, theirs["history"].score, atol=1e-8)


@pytest.mark.slow
def test_scores_at_q_500_are_those_of_scipys_own_optimum():
    q, n = 500, 20
    wide = np.random.default_rng(0).normal(size=(n + 3, q))
    y = np.where(np.arange(n + 3) < n, np.arange(n + 3) % 2, -1)
    with pm.Model() as model:
        pm.Bernoulli("label", logit_p=wide @ pm.Normal("beta", 0, 0.2, shape=q), observed=y)
    scores = bpls.BPLS(model).score("ppp", approximation="laplace", **QUIET)
    assert scores.converged.all()

    def minus(theta, weights, codes, rows):
        eta = rows @ theta
        slope = weights * (codes - expit(eta))
        return -(weights * log_expit(np.where(codes == 1, eta, -eta))).sum() + 12.5 * theta @ theta, 25 * theta - rows.T @ slope

    for place, i in enumerate(scores.candidate.values):
        code = int(scores.pseudo_label.values[place])
        rows, codes, weights = wide[[*range(n), i]], np.append(y[:n], code), np.append(np.full(n, 2.0), 1.0)
        end = minimize(
            minus,
            np.zeros(q),
            (weights, codes, rows),
            jac=True,
            method="L-BFGS-B",
            options={"ftol": 0, "gtol": 1e-11, "maxiter": 5000},
        )
        theta = end.x
        for _ in range(2):  # the line search ends where values round, before the gradient is small
            p = expit(rows @ theta)
            H = (rows.T * (weights * p * (1 - p))) @ rows + 25 * np.eye(q)
            theta = theta - np.linalg.solve(H, minus(theta, weights, codes, rows)[1])
        value = -minus(theta, weights, codes, rows)[0] + q * np.log(5) - 0.5 * q * np.log(2 * np.pi)
        np.testing.assert_allclose(scores.score.values[place], value - 0.5 * np.linalg.slogdet(H)[1], rtol=0, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("model", [independent, classes], ids=lambda model: model.__name__)
def test_a_candidate_refitted_alone_is_where_its_refit_is(model):
    pls = declared(model, 4)
    engine, D = pls.engine, pls.labeled
    rows, codes = np.arange(10, 16), np.array([0, 1, 1, 0, 1, 0])
    start = engine.fit(D, k=2)
    refits = engine.refit(D, rows, codes, start, k=2)
    assert start.rows is not None
    assert refits.points.shape == (6, start.rows.dimension + start.rows.map.size)
    for i, pair in enumerate(zip(rows.tolist(), codes.tolist(), strict=True)):
        mode = engine.fit(D, k=2, extra=pair)
        np.testing.assert_allclose(start.rows.point_beside(mode.theta, pair[0]), refits.points[i], rtol=0, atol=1e-7)
        np.testing.assert_allclose(mode.log_det, refits.log_det[i], rtol=1e-9)


@pytest.mark.slow
def test_ten_classes_have_predictors_and_probabilities_of_the_softmax():
    wide = np.random.default_rng(1).normal(size=(30, 20))
    y = np.where(np.arange(30) < 15, np.arange(30) % 10, -1)
    with pm.Model() as model:
        pm.Categorical("label", logit_p=wide @ pm.Normal("beta", 0, 1, shape=(20, 10)), observed=y)
    pls = bpls.BPLS(model)
    rows = pls.engine.coordinates(pls.labeled)
    assert isinstance(rows, ReducedRows)
    assert rows.map.size == 10
    beta = pls.fit().mode["beta"].to_numpy()
    np.testing.assert_allclose(pls.predict_proba(by="mode"), softmax(wide @ beta, axis=1), atol=1e-12)
    np.testing.assert_allclose(wide[:15].T @ (np.eye(10)[y[:15]] - softmax(wide[:15] @ beta, axis=1)), beta, atol=1e-9)


@pytest.mark.slow
def test_no_matrix_over_all_parameters_is_made_from_construction_to_a_run():
    made_without_a_matrix(300)  # so that what is imported and compiled first is not counted below
    q = 6000
    tracemalloc.start()
    made_without_a_matrix(q)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * q * q / 4


def made_without_a_matrix(q):
    n = 12
    wide = np.random.default_rng(2).normal(size=(n + 6, q))
    y = np.where(np.arange(n + 6) < n, np.arange(n + 6) % 2, -1)
    with pm.Model() as model:
        beta = pm.Normal("beta", pm.Normal("mean", 0, 1), 0.1, shape=q)
        pm.Bernoulli("label", logit_p=wide @ beta, observed=y)
    pls = bpls.BPLS(model)
    pls.score("ppp", approximation="laplace", labels="all", **QUIET)
    for criterion in ("variance", "predictive", "entropy"):
        pls.score(criterion, approximation="laplace", **QUIET)
    fit = pls.fit()
    assert fit.sd.shape == (q + 1,)
    assert fit.draws(4, random_seed=0).shape == (4, q + 1)
    assert "parameters" in str(fit)
    with pytest.raises(bpls.ModeError, match=rf"The 12 labeled rows do not identify .* of the {q + 1} parameters"):
        pls.engine.fit(pls.labeled, prior=False)
    run = pls.self_train("ppp", approximation="laplace", rounds=3, **QUIET)
    assert run["history"].sizes["step"] == 3
