"""Averages over a Gaussian by draws: their value against closed forms and plain Monte Carlo, their error against repetition,
and that they do not depend on the order in which parameters are declared.
"""

import numpy as np
import pymc as pm
import pytest
from scipy.special import expit, log_softmax, logsumexp
from scipy.stats import norm

import pymc_bpls as bpls
from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.approximations.predictions.replicates import average, standard_error
from pymc_bpls.scoring.scorer import score_pool
from pymc_bpls.scoring.settings import find_settings

N, LABELED = 60, 24
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 2))
GROUP = rng.integers(0, 5, N)
TRUTH = (X @ [1.0, -0.7] + rng.normal(size=5)[GROUP] + rng.logistic(size=N) > 0).astype(int)
THREE = (X @ rng.normal(size=(2, 3)) * 1.5 + rng.gumbel(size=(N, 3))).argmax(axis=1)
CANDIDATES = np.arange(LABELED, N)


def only_labeled(labels):
    return np.where(np.arange(N) < LABELED, labels, -1)


def hierarchy(order):
    """Groups, an interaction within bounds: four predictors a row, eleven parameters."""
    declare = {
        "a": lambda: pm.Normal("a", 0, 2),
        "s": lambda: pm.HalfNormal("s", 1),
        "z": lambda: pm.Normal("z", 0, 1, shape=5),
        "b": lambda: pm.Normal("b", 0, 2, shape=2),
        "u": lambda: pm.Uniform("u", -2, 2),
    }
    with pm.Model() as model:
        v = {name: declare[name]() for name in order}
        eta = v["a"] + X @ v["b"] + (v["s"] * v["z"])[GROUP] + v["u"] * X[:, 0] * X[:, 1]
        pm.Bernoulli("y", logit_p=eta, observed=only_labeled(TRUTH))
    return bpls.BPLS(model)


def probabilities_of_hierarchy(named):
    """p(y = 1 | x, θ) of the candidates (rows, draws), by hand, from draws by variable."""
    x, g = X[CANDIDATES], GROUP[CANDIDATES]
    s, u = np.exp(named["s"]), 4 * expit(named["u"]) - 2
    fixed = named["a"] + named["b"] @ x.T + u * (x[:, 0] * x[:, 1])
    return expit(fixed + s * named["z"][:, g]).T


def scored(pls, criterion, approximation="laplace"):
    """Scores of the candidates without the search for other modes."""
    fit = pls.scorer.fit(pls.labeled)
    settings = find_settings(criterion, approximation, "map", "predicted", None)
    return score_pool(pls.scorer, settings, fit, CANDIDATES)[0].dataset(pls.scorer.problem), fit


def draws_by_variable(pls, fit, n):
    """Plain draws of Laplace's approximation, by variable: NumPy's own."""
    theta = np.random.default_rng(7).multivariate_normal(fit.mode.theta, np.linalg.inv(fit.mode.hessian), size=n)
    names = [
        label.split("[")[0].removesuffix("_log__").removesuffix("_interval__") for label in pls.engine.density.parameters.labels
    ]
    return {name: theta[:, [i for i, own in enumerate(names) if own == name]] for name in dict.fromkeys(names)}


@pytest.mark.slow
def test_scores_do_not_depend_on_the_order_of_declaration_and_agree_with_plain_monte_carlo():
    orders = [hierarchy(order) for order in ("aszbu", "uzbsa")]
    for criterion in ("predictive", "entropy"):
        results = [scored(pls, criterion) for pls in orders]
        scores = np.array([result["score"] for result, _ in results])
        assert np.ptp(scores, axis=0).max() < 1e-10
        (result, fit), n = results[0], 100_000
        p = probabilities_of_hierarchy(draws_by_variable(orders[0], fit, n))
        mean, sd = p.mean(axis=1), p.std(axis=1) / np.sqrt(n)
        if criterion == "predictive":
            chosen = np.where(result["pseudo_label"] == 1, mean, 1 - mean)
            expected, error = np.log(chosen), sd / chosen
        else:
            expected, error = mean * np.log(mean) + (1 - mean) * np.log(1 - mean), sd * np.abs(np.log(mean / (1 - mean)))
        assert result.attrs["score_error"] < 1e-3
        assert (np.abs(scores[0] - expected) < 4 * np.hypot(error, result.attrs["score_error"])).all()


@pytest.mark.slow
def test_three_classes_and_the_variational_gaussian_come_with_their_error():
    with pm.Model() as model:
        b = pm.Normal("b", 0, 1.5, shape=(2, 3))
        pm.Categorical("y", logit_p=X @ b, observed=only_labeled(THREE))
    pls = bpls.BPLS(model)
    result, fit = scored(pls, "predictive")
    b = draws_by_variable(pls, fit, 200_000)["b"].reshape(-1, 2, 3)
    p = np.exp(log_softmax(np.einsum("if,sfk->sik", X[CANDIDATES], b), axis=2))
    p = p[:, np.arange(len(CANDIDATES)), result["pseudo_label"].to_numpy()]
    error = p.std(axis=0) / p.mean(axis=0) / np.sqrt(len(p))
    np.testing.assert_array_less(
        np.abs(result["score"] - np.log(p.mean(axis=0))), 4 * np.hypot(error, result.attrs["score_error"])
    )
    assert 0 < result.attrs["score_error"] < 1e-3
    by_vi, _ = scored(pls, "predictive", "vi")
    assert 0 < by_vi.attrs["score_error"] < 1e-3


@pytest.mark.slow
def test_any_other_model_differs_between_orders_by_no_more_than_its_error_says():
    def network(order):
        declare = {"w": lambda: pm.Normal("w", 0, 1, shape=(2, 5)), "v": lambda: pm.Normal("v", 0, 1, shape=5)}
        with pm.Model() as model:
            of = {name: declare[name]() for name in order}
            pm.Bernoulli("y", logit_p=pm.math.tanh(X @ of["w"]) @ of["v"], observed=only_labeled(TRUTH))
        # pseudo-labels at the mode: averages over other draws give another class to a row near one half
        initvals = {"w": np.arange(10).reshape(2, 5) / 10, "v": np.linspace(-1, 1, 5)}
        return bpls.BPLS(model, initvals=initvals, predictor="map")

    (first, _), (second, _) = (scored(network(order), "predictive") for order in ("wv", "vw"))
    error = np.hypot(first.attrs["score_error"], second.attrs["score_error"])
    assert 0 < np.abs(first["score"] - second["score"]).max() < 4 * error < 0.3


def test_an_average_with_one_predictor_has_no_error(sim1_informed):
    assert "score_error" not in sim1_informed.score("predictive", approximation="laplace").attrs


def means_of_probits(a, m, most, asked=None):
    """log E[Φ(m + a'z)] = log Φ(m/√(1 + |a|²)) of rows a (rows, d), m (rows,), by draws."""

    def log_mean_at(z, rows):
        if asked is not None:
            asked.append(rows.tolist())
        values = norm.logcdf(m[rows][:, None, None] + np.einsum("rsd,id->irs", z, a[rows]))
        return (logsumexp(values, axis=2) - np.log(z.shape[1]))[:, :, None]

    return average(log_mean_at, lambda log_means, rows: standard_error(log_means)[:, 0], a.shape[1], len(a), most)


def test_an_average_has_its_closed_form_within_its_error():
    draw = np.random.default_rng(1)
    a, m = draw.normal(size=(100, 3)) * np.linspace(0.05, 2, 100)[:, None], draw.normal(size=100)
    averages = means_of_probits(a, m, 2**12)
    off = averages.log_mean[:, 0] - norm.logcdf(m / np.sqrt(1 + (a**2).sum(axis=1)))
    assert np.abs(off).max() <= 3 * averages.error.max() < 0.05
    assert 0.3 < np.sqrt(np.mean(off**2) / np.mean(averages.error**2)) < 1.5


def test_more_draws_go_to_rows_that_need_them():
    asked = []
    averages = means_of_probits(np.array([[1e-6], [9.0]]), np.array([0.0, -2.0]), 2**12, asked)
    assert asked[0] == [0, 1] and len(asked) in (2, 4) and all(rows == [1] for rows in asked[1:])
    np.testing.assert_allclose(averages.log_mean[:, 0], norm.logcdf([0, -2 / np.sqrt(82)]), atol=5e-3)


def test_a_class_that_cannot_be_has_no_error():
    error = standard_error(np.array([[-np.inf, 0.0], [-np.inf, 2.0]]))
    np.testing.assert_allclose(error, [0.0, 1.0])


@pytest.mark.slow
def test_a_row_that_is_too_far_away_has_the_limit_and_leaves_the_others_alone():
    """Its predictor is below 0 as often as above it, and beyond all numbers."""

    def log_means(x):
        with pm.Model() as model:
            scaled = pm.HalfNormal("s", 1) * pm.Normal("z", 0, 1, shape=5)
            pm.Bernoulli("y", logit_p=x @ pm.Normal("b", 0, 2, shape=2) + scaled[GROUP], observed=only_labeled(TRUTH))
        pls = bpls.BPLS(model)
        q = Gaussian(np.zeros(8), 1e20 * np.eye(8))
        return pls.scorer.engines.of(pls.labeled).log_mean_lik(q, CANDIDATES)

    far = X.copy()
    far[30] = 1e300
    near, with_far = log_means(X), log_means(far)
    np.testing.assert_allclose(with_far[30 - LABELED], np.log(0.5), atol=1e-12)
    np.testing.assert_array_equal(np.delete(with_far, 30 - LABELED, axis=0), np.delete(near, 30 - LABELED, axis=0))
