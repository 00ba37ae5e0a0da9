"""The same model in other units: predictors times c and priors over c change neither scores nor predictions."""

from __future__ import annotations

from functools import cache

import numpy as np
import pymc as pm
import pytest
import scipy.optimize
import zoo
from hypothesis import example, given, settings
from hypothesis import strategies as st

import pymc_bpls as bpls
from pymc_bpls.engine.priors.gaussian_priors import find_gaussian_prior
from pymc_bpls.model.units import find_units

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*modes of the posterior were found:pymc_bpls.BPLSWarning"),
    pytest.mark.filterwarnings("ignore:.*is a Beta-Binomial of one trial:pymc_bpls.BPLSWarning"),
    pytest.mark.filterwarnings("ignore:The exact reference is not reliable:pymc_bpls.BPLSWarning"),
    pytest.mark.filterwarnings("ignore:k-hat of the constant that all scores share:pymc_bpls.BPLSWarning"),
]

SAME = 1e-6
WITHOUT_PREDICTORS = {"zero_sum_groups", "item_response", "random_walk_non_centered", "autoregression_of_fixed_scale"}
KINDS = [name for name in zoo.ACCEPTED if name not in WITHOUT_PREDICTORS]
ONE = (1.0, 1.0, 1.0)
ODD = (1e8, 1e-8, 3e3)
#: PyMC's start for these has standard deviations of 1 whatever their prior is, and no fit finds home from 10⁸ of it.
NEARER = {"correlated_slopes": (1e3, 1e-8, 3e3)}
FACTORS = st.tuples(*3 * [st.floats(-8, 8).map(lambda exponent: float(10.0**exponent))])


@cache
def _declared(name, units):
    kind = zoo.ACCEPTED[name]
    with zoo.in_units(np.array(units)):
        return bpls.BPLS(kind.table(), **kind.options)


def _centred(values):
    values = np.asarray(values)
    return values - values.mean()


@cache
def _scores(name, units, approximation):
    """Centred scores of all candidates, log PPP of the first one, and class probabilities."""
    pls = _declared(name, units)
    scores = pls.score(approximation=approximation, other_modes=False, progressbar=False)
    return _centred(scores.score), float(scores.log_ppp[0]), pls.predict_proba().to_numpy()


def _assert_same(name, units, approximation):
    for mine, its in zip(_scores(name, ONE, approximation), _scores(name, units, approximation), strict=True):
        # a table with features as data has another density of them in other units
        if not (np.isscalar(mine) and name == "class_conditional_gaussian"):
            np.testing.assert_allclose(mine, its, rtol=SAME if np.isscalar(mine) else 0, atol=SAME)


@settings(max_examples=2)
@given(units=FACTORS)
@example(units=ODD)
def test_scores_and_predictions_are_those_of_any_units(units):
    """A factor of its own for each predictor."""
    _assert_same("logistic", units, "ep")


def test_fixed_draws_are_those_of_any_units():
    """Of a variational fit with the level of its constant by importance sampling, which had an absolute cut-off."""
    _assert_same("ordered_logistic", ODD, "vi")


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_every_kind_is_the_same_in_any_units(name):
    """By refits, and by what the model is scored by without them."""
    for approximation in dict.fromkeys(("laplace", _declared(name, ONE).score(progressbar=False).attrs["approximation"])):
        _assert_same(name, NEARER.get(name, ODD), approximation)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["psis", "nuts"])
def test_exact_values_are_the_same_in_any_units(method):
    """Draws of importance sampling are the same ones; those of NUTS differ by Monte Carlo error."""
    options = {"psis": {"draws": 1000}, "nuts": {"draws": 1000, "chains": 2, "cores": 1}}[method]
    trees = [
        _declared("logistic", units).exact(method=method, random_seed=1, progressbar=False, **options) for units in (ONE, ODD)
    ]
    mine, its = (tree["exact"].to_dataset() for tree in trees)
    error = 5 * np.hypot(mine.mcse, its.mcse) if method == "nuts" else SAME
    assert (np.abs(_centred(mine.log_ppp) - _centred(its.log_ppp)) <= error).all()
    if method == "nuts":
        assert int(trees[1]["sample_stats"]["diverging"].sum()) == 0


def test_results_are_in_the_numbers_that_pymc_has():
    """Mode, Hessian and terms of scores by closed forms, in the predictors' own units."""
    fit, units = _declared("logistic", ODD).fit(progressbar=False), np.array(ODD)
    with zoo.in_units(units):
        A = np.column_stack([np.ones(zoo.N_LABELED), zoo.x(zoo.LABELED)])
    sd = np.r_[2.0, 1.5 / units]
    theta = fit.unconstrained.to_numpy()
    np.testing.assert_allclose(theta, np.r_[float(fit.mode["alpha"]), fit.mode["beta"]])
    p = 1 / (1 + np.exp(-A @ theta))
    H = (A.T * (p * (1 - p))) @ A + np.diag(sd**-2)
    gradient = A.T @ (zoo.BINARY[: zoo.N_LABELED] - p) - theta / sd**2
    assert np.sqrt(gradient @ np.linalg.solve(H, gradient)) < 1e-8
    np.testing.assert_allclose(fit.hessian, H, rtol=1e-8)
    np.testing.assert_allclose(fit.sd, np.sqrt(np.diag(np.linalg.inv(H))), rtol=1e-6)
    assert np.abs(fit.draws(500, random_seed=0).std("draw") / fit.sd - 1).max() < 0.2
    mine, its = (_declared("logistic", each).score(approximation="laplace", progressbar=False) for each in (ONE, ODD))
    log_volume = np.log(units).sum()
    np.testing.assert_allclose(its.log_prior, mine.log_prior + log_volume, rtol=0, atol=SAME)
    np.testing.assert_allclose(its.log_det, mine.log_det + 2 * log_volume, rtol=0, atol=SAME)


def test_runs_and_draws_are_stored_in_the_numbers_that_pymc_has():
    """And read back from them: a run goes on, and rows are predicted, as in other units."""
    mine, its = (_declared("logistic", units) for units in (ONE, ODD))
    runs = [pls.self_train(rounds=2, progressbar=False) for pls in (mine, its)]
    at = [run["unconstrained"]["mode"].to_numpy() for run in runs]
    np.testing.assert_allclose(at[1][1:] * ODD, at[0][1:], rtol=1e-5)
    ends = [pls.resume(run, rounds=3, progressbar=False) for pls, run in zip((mine, its), runs, strict=True)]
    np.testing.assert_array_equal(*(end["history"]["candidate"] for end in ends))
    samples = [pls.sample(method="gaussian", draws=50, chains=2, random_seed=0, progressbar=False) for pls in (mine, its)]
    draws = [sample["unconstrained_posterior"]["theta"].to_numpy() for sample in samples]
    np.testing.assert_allclose(draws[1][..., 1:] * ODD, draws[0][..., 1:], rtol=1e-5, atol=1e-5)
    predicted = [pls.predict_proba(result=sample) for pls, sample in zip((mine, its), samples, strict=True)]
    np.testing.assert_allclose(*predicted, rtol=0, atol=SAME)


def test_a_wide_cauchy_prior_is_no_normal_one():
    """The mode under Cauchy(0, 1e5) of the coefficient of a predictor in small units, by SciPy on PyMC's own density."""
    rng, n, c = np.random.default_rng(0), 24, 1e-5
    Z = rng.normal(size=(60, 3))
    truth = (3 * Z[:, 0] - Z[:, 1] > 0).astype(int)

    def declare(rows, y):
        with pm.Model() as model:
            eta = Z[rows, 0] * c * pm.Cauchy("b", 0, 1 / c) + Z[rows, 1:] @ pm.Normal("g", 0, 1, shape=2)
            pm.Bernoulli("label", logit_p=eta, observed=y)
        return model

    log_p = declare(slice(n), truth[:n]).compile_logp()
    options = {"xatol": 1e-8, "fatol": 1e-10, "maxiter": 5000}
    right = scipy.optimize.minimize(
        lambda v: -float(log_p({"b": np.array(v[0] / c), "g": v[1:]})), [3.0, -1.0, 0.0], method="Nelder-Mead", options=options
    ).x
    fit = bpls.BPLS(declare(slice(None), np.where(np.arange(60) < n, truth, -1))).fit(progressbar=False)
    np.testing.assert_allclose(np.r_[float(fit.mode["b"]) * c, fit.mode["g"]], right, atol=1e-5)


def _quadratic(precision):
    """A normal log prior with mean 0 as `find_gaussian_prior` takes it."""

    def value_and_gradient(points):
        return -0.5 * np.einsum("si,ij,sj->s", points, precision, points), -points @ precision

    return value_and_gradient, lambda theta, vectors: -vectors @ precision


@pytest.mark.parametrize("wide", [1.0, 1e7, 1e-7])
def test_correlations_of_wide_priors_are_seen_beside_narrow_ones(wide):
    """Two large variables, one with correlated entries."""
    q, rng = 70, np.random.default_rng(0)
    A = rng.normal(size=(q, q))
    precision = np.zeros((2 * q, 2 * q))
    precision[:q, :q], precision[q:, q:] = np.eye(q), (np.eye(q) + A @ A.T / q) / wide**2
    found = find_gaussian_prior(np.zeros(2 * q), (q, q), *_quadratic(precision))
    assert found is not None
    np.testing.assert_allclose(found.precision[q:, q:], precision[q:, q:], rtol=1e-9, atol=1e-12 / wide**2)


@pytest.mark.parametrize("wide", [1.0, 1e5, 1e-5])
def test_a_cauchy_prior_is_no_quadratic_function_however_wide_it_is(wide):
    """Of value, gradient and Hessian by hand."""

    def value_and_gradient(points):
        return -np.log1p((points / wide) ** 2).sum(axis=1), -2 * points / (wide**2 + points**2)

    def products(theta, vectors):
        return -2 * vectors * (wide**2 - theta**2) / (wide**2 + theta**2) ** 2

    assert find_gaussian_prior(np.zeros(2), (2,), value_and_gradient, products) is None


@settings(max_examples=20)
@given(exponent=st.floats(-12, 12), sd=st.floats(0.1, 10))
def test_units_follow_predictors_and_priors(exponent, sd):
    """A parameter's unit is within a factor 1024 of what it is counted in, and the narrower of rows and prior decides."""
    c, x = 10.0**exponent, np.array([-2.0, -0.5, 0.3, 1.0, 1.7])
    [unit] = find_units(np.zeros(1), [1], lambda b: -np.logaddexp(0, -c * x * b), lambda b: -0.5 * (c * b / sd) ** 2)
    assert 1 / 1024 < unit * c < 1024
    [narrow] = find_units(np.zeros(1), [1], lambda b: -np.logaddexp(0, -x * b), lambda b: -0.5 * (c * b / sd) ** 2)
    assert narrow == (unit if c > 1024 else narrow) and narrow <= 1
