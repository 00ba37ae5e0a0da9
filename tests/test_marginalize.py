"""The posterior with the pool's labels integrated out, against enumeration, quadrature, pymc-extras and mclust."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
import xarray as xr
import zoo
from scipy.special import log_expit, log_softmax, logsumexp, softmax
from scipy.stats import multivariate_normal, norm, ttest_rel

import pymc_bpls as bpls
from pymc_bpls.model.data.table import Unlabeled
from pymc_bpls.montecarlo.nuts import weighted_model
from pymc_bpls.pool.judged import Judged, better_by_accuracy, better_by_log_score
from pymc_bpls.pool.verdict import _say_whether

pytestmark = pytest.mark.filterwarnings("ignore:.*is a Beta-Binomial of one trial:pymc_bpls.BPLSWarning")
QUIET = {"progressbar": False}

# x | y ~ N(±shift, 1) with classes of shares .6 and .4: 6 labeled rows, 8 candidates, 10 test rows
_rng = np.random.default_rng(5)
TRUTH = (_rng.random(24) < 0.4).astype(int)
TRUTH[:2] = 0, 1
X = _rng.normal(1.0 * (2 * TRUTH - 1), 1)
LABELED, POOL, TEST = np.arange(6), np.arange(6, 14), np.arange(14, 24)
GRID = np.linspace(-6, 8, 28001)

# three classes, two features, 8 labeled rows and 5 others
CLASSES = np.array([0, 1, 2, 0, 1, 2, 0, 1, -1, -1, -1, -1, -1])
FEATURES = np.random.default_rng(8).normal(size=(13, 2)) + np.array([[0, 0], [2, 1], [0, 2]])[np.arange(13) % 3]
SHARE = np.array([0.5, 0.3, 0.2])


def declare_line(x, y):
    with pm.Model() as model:
        shift = pm.Normal("shift", 0, 2)
        label = pm.Bernoulli("label", 0.4, observed=y)
        pm.Normal("x", shift * (2 * label - 1), 1, observed=x)
    return bpls.BPLS(model, target="label")


@pytest.fixture(scope="module")
def line():
    return declare_line(X, np.where(np.arange(24) < 6, TRUTH, -1))


@pytest.fixture(scope="module")
def clusters():
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1, shape=(3, 2))
        log_scale = pm.Normal("log_scale", 0, 1, shape=2)
        label = pm.Categorical("label", p=SHARE, observed=CLASSES)
        pm.Normal("x", mean[label], pm.math.exp(log_scale), observed=FEATURES)
    return bpls.BPLS(model, target="label")


def read_kept(name):
    """Values of another program, by the script of this name."""
    return json.loads((Path(__file__).parent / "data" / f"{name}.json").read_text())


def log_lik_of_line(x, shift):
    """ℓ of rows, classes and shifts."""
    return np.log([0.6, 0.4])[:, None] + norm.logpdf(x[:, None, None], np.array([-1, 1])[:, None] * shift, 1)


def quadrature(rows, weight=1.0):
    """On the grid: the posterior's probabilities, with the labels of `rows` integrated out."""
    known = log_lik_of_line(X[LABELED], GRID)[LABELED, TRUTH[LABELED]].sum(0)
    log_p = norm.logpdf(GRID, 0, 2) + known + weight * logsumexp(log_lik_of_line(X[rows], GRID), axis=1).sum(0)
    return softmax(log_p)


def moments(p, values=GRID):
    mean = values @ p
    return mean, np.sqrt(values**2 @ p - mean**2)


def pooled(pls, weight=1.0, rows=None):
    candidates = pls.scorer.problem.table.candidates if rows is None else rows
    return replace(pls.engine, pool=Unlabeled(candidates, np.full(len(candidates), weight)))


def log_density_of_clusters(theta, labels):
    """log π plus ℓ of all rows with `labels`."""
    mean, log_scale = theta[:6].reshape(3, 2), theta[6:]
    log_prior = norm.logpdf(mean, 0, 1).sum() + norm.logpdf(log_scale, 0, 1).sum()
    return log_prior + (np.log(SHARE[labels]) + norm.logpdf(FEATURES, mean[labels], np.exp(log_scale)).sum(1)).sum()


def test_the_density_is_the_sum_over_all_label_vectors(clusters):
    at = pooled(clusters).derivatives(clusters.labeled)
    vectors = [np.r_[CLASSES[:8], labels] for labels in itertools.product(range(3), repeat=5)]
    rng = np.random.default_rng(0)
    for theta in clusters.engine.density.start + 0.7 * rng.normal(size=(3, 8)):
        expected = logsumexp([log_density_of_clusters(theta, labels) for labels in vectors])
        np.testing.assert_allclose(at(theta)[0], expected, rtol=0, atol=1e-10)


def test_gradient_and_curvature_are_differences_of_the_density(clusters):
    at, theta = pooled(clusters, 0.7).derivatives(clusters.labeled), clusters.engine.density.start + 0.3
    for i in range(len(theta)):
        step = 1e-5 * np.eye(len(theta))[i]
        above, below = at(theta + step), at(theta - step)
        np.testing.assert_allclose(at(theta)[1][i], (above[0] - below[0]) / 2e-5, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(at(theta)[2][i], -(above[1] - below[1]) / 2e-5, rtol=1e-6, atol=1e-6)


def test_the_density_that_nuts_samples_is_the_same(clusters):
    engine = pooled(clusters, 0.5)
    model = weighted_model(clusters.scorer.problem, clusters.labeled, 1, engine.pool)
    log_density, at = model.compile_logp(), engine.derivatives(clusters.labeled)
    for shift in 0.5 * np.random.default_rng(1).normal(size=(3, 8)):
        expected = at(engine.density.start + shift)[0]
        np.testing.assert_allclose(log_density({"shift": shift}), expected, rtol=0, atol=1e-8)


def test_the_density_is_that_of_pymc_extras(clusters):
    """Values of its `marginalize` on the same model declared in two blocks, by tests/data/marginal_by_pymc_extras.py."""
    kept = read_kept("marginal_by_pymc_extras")
    np.testing.assert_allclose(kept["features"], FEATURES, rtol=0, atol=1e-12)
    at = pooled(clusters).derivatives(clusters.labeled)
    for theta, value in zip(kept["theta"], kept["log_density"], strict=True):
        np.testing.assert_allclose(at(np.array(theta))[0], value, rtol=0, atol=1e-8)


def declare_irises(kept, groups):
    """Three classes, with a covariance matrix of each (`groups` = 3) or of all (1), under priors that are flat."""
    with pm.Model() as model:
        log_odds, mean = pm.Flat("log_odds", shape=2), pm.Flat("mean", shape=(3, 2))
        log_scale, below = pm.Flat("log_scale", shape=(groups, 2)), pm.Flat("below", shape=groups)
        scale = pm.math.exp(log_scale)
        factor = pm.math.stack([scale[:, 0], 0 * below, below, scale[:, 1]], axis=1).reshape((groups, 2, 2))
        p = pm.math.softmax(pm.math.concatenate([[0.0], log_odds]))
        label = pm.Categorical("label", p=p, observed=np.array(kept["labels"]))
        pm.MvNormal("x", mean[label], chol=factor[label] if groups == 3 else factor[0], observed=kept["features"])
    return bpls.BPLS(model, target="label")


@pytest.mark.parametrize(("name", "groups"), [("VVV", 3), pytest.param("EEE", 1, marks=pytest.mark.slow)])
def test_the_density_is_that_of_mclust_and_its_maximum_a_mode(name, groups):
    """Values of its semi-supervised Gaussian classification, by tests/data/modes_by_mclust.R."""
    kept = read_kept("modes_by_mclust")
    share, mean, covariance = (np.array(kept[name][key]) for key in ("share", "mean", "covariance"))
    factor = np.linalg.cholesky(covariance[:groups])
    log_scale = np.log(np.diagonal(factor, axis1=1, axis2=2))
    theta = np.r_[np.log(share[1:] / share[0]), mean.ravel(), log_scale.ravel(), factor[:, 1, 0]]
    pls = declare_irises(kept, groups)
    parameters = pls._problem.density.parameters
    value, gradient, curvature = pooled(pls).derivatives(pls.labeled)(parameters.counted(theta))
    np.testing.assert_allclose(value - parameters.log_volume, kept[name]["log_lik"], rtol=0, atol=1e-9)
    assert np.linalg.eigvalsh(curvature).min() > 0
    np.testing.assert_allclose(parameters.unconstrained(np.linalg.solve(curvature, gradient)), 0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "groups"), [("VVV", 3), ("EEE", 1)])
def test_the_mode_under_flat_priors_is_that_of_mclust(name, groups):
    kept = read_kept("modes_by_mclust")
    final = declare_irises(kept, groups).marginalize(**QUIET)["final"]
    scale = np.exp(final.log_scale.to_numpy())
    factor = np.stack([scale[:, 0], np.zeros(groups), final.below, scale[:, 1]], axis=1).reshape(groups, 2, 2)
    np.testing.assert_allclose(softmax(np.r_[0, final.log_odds]), kept[name]["share"], rtol=0, atol=1e-5)
    np.testing.assert_allclose(final["mean"], kept[name]["mean"], rtol=0, atol=1e-5)
    np.testing.assert_allclose(factor @ factor.mT, kept[name]["covariance"][:groups], rtol=0, atol=1e-5)


@pytest.mark.parametrize("weight", [1.0, 0.3])
def test_laplace_is_the_mode_and_curvature_of_quadrature(line, weight):
    tree = line.marginalize(weight, test=(TEST, TRUTH[TEST]), **QUIET)
    log_p = np.log(quadrature(POOL, weight))
    top = int(log_p.argmax())
    a, b, _ = np.polyfit(GRID[top - 40 : top + 41], log_p[top - 40 : top + 41], 2)
    np.testing.assert_allclose(tree["final"]["shift"], -b / (2 * a), atol=1e-3)
    np.testing.assert_allclose(tree["unconstrained"].covariance, -1 / (2 * a), rtol=2e-3)
    assert tree.attrs["weight"] == weight and tree.attrs["n_pool"] == 8


@pytest.mark.parametrize("approximation", ["laplace", "vi", pytest.param("nuts", marks=pytest.mark.slow)])
def test_all_ways_agree_with_quadrature(line, approximation):
    options = {"draws": 2000, "random_seed": 0} if approximation == "nuts" else {}
    tree = line.marginalize(approximation=approximation, test=(TEST, TRUTH[TEST]), **options, **QUIET)
    p = quadrature(POOL)
    if approximation == "nuts":
        shift = tree["posterior"]["shift"].to_numpy()
        assert shift.shape == (4, 2000)
        found = shift.mean(), shift.std()
    else:
        found = float(tree["unconstrained"]["mean"][0]), float(tree["unconstrained"]["sd"][0])
    np.testing.assert_allclose(found, moments(p), atol=0.03)
    probability = softmax(log_lik_of_line(X[POOL], GRID), axis=1)[:, 1]
    expected = np.array([moments(p, each) for each in probability])
    np.testing.assert_allclose(tree["labels"].probability.sel({"class": 1}), expected[:, 0], atol=0.01)
    np.testing.assert_allclose(tree["labels"].probability_sd.sel({"class": 1}), expected[:, 1], atol=0.01)
    assert tree.attrs["reliable"] and tree.attrs["modes"] == 1


@pytest.mark.parametrize("approximation", ["laplace", "vi"])
def test_the_integral_is_that_of_quadrature(line, approximation):
    known = log_lik_of_line(X[LABELED], GRID)[LABELED, TRUTH[LABELED]].sum(0)
    log_p = norm.logpdf(GRID, 0, 2) + known + logsumexp(log_lik_of_line(X[POOL], GRID), axis=1).sum(0)
    expected = logsumexp(log_p) + np.log(GRID[1] - GRID[0])
    attrs = line.marginalize(approximation=approximation, test=(TEST, TRUTH[TEST]), **QUIET).attrs
    assert 0 < attrs["log_z_error"] < 0.02 and abs(attrs["log_z"] - expected) < 4 * attrs["log_z_error"]


@pytest.mark.parametrize("approximation", ["laplace", "vi"])
def test_a_small_pool_s_shape_is_in_its_probabilities(approximation):
    """Two labels and four rows leave shift and log scale far from a Gaussian."""
    x, y = np.array([-1.3, 0.4, -2.2, 0.3, 1.1, 2.6]), np.array([0, 1, -1, -1, -1, -1])
    with pm.Model() as model:
        shift, log_scale = pm.Normal("shift", 0, 2), pm.Normal("log_scale", 0, 1)
        label = pm.Bernoulli("label", 0.5, observed=y)
        pm.Normal("x", shift * (2 * label - 1), pm.math.exp(log_scale), observed=x)
    tree = bpls.BPLS(model, target="label").marginalize(approximation=approximation, **QUIET)
    grid = np.stack(np.meshgrid(np.linspace(-9, 9, 451), np.linspace(-5, 5, 251), indexing="ij"), -1).reshape(-1, 2)
    log_lik = np.stack([norm.logpdf(x[:, None], sign * grid[:, 0], np.exp(grid[:, 1])) for sign in (-1, 1)], axis=1) - np.log(2)
    log_p = norm.logpdf(grid[:, 0], 0, 2) + norm.logpdf(grid[:, 1], 0, 1) + log_lik[[0, 1], [0, 1]].sum(0)
    log_p += logsumexp(log_lik[2:], axis=1).sum(0)
    p, of_rows = softmax(log_p), softmax(log_lik[2:], axis=1)
    labels, sd = tree["labels"].probability.to_numpy(), tree["labels"].probability_sd.to_numpy()
    error = tree["labels"].probability_mcse.to_numpy()
    assert tree.attrs["reliable"] and error.max() < 0.02
    np.testing.assert_array_less(np.abs(labels - of_rows @ p), 4 * error)
    np.testing.assert_allclose(sd, np.sqrt(of_rows**2 @ p - (of_rows @ p) ** 2), atol=0.02)
    expected = logsumexp(log_p) + 2 * np.log(0.04)
    assert abs(tree.attrs["log_z"] - expected) < 4 * tree.attrs["log_z_error"]
    centre, covariance = (tree["unconstrained"][name].to_numpy() for name in ("mode", "covariance"))
    q = softmax(multivariate_normal(centre, covariance).logpdf(grid))
    assert (np.abs(of_rows @ q - of_rows @ p) > 4 * error).any()  # the Gaussian alone would not do


@pytest.mark.slow
def test_a_small_pool_with_two_modes_agrees_with_nuts():
    """Seven parameters and four labels: by the Gaussian at the better mode class probabilities were seven times off."""
    rng = np.random.default_rng(4)
    y = rng.integers(2, size=12)
    y[:2] = 0, 1
    features = rng.normal(size=(12, 2)) + 0.7 * (2 * y[:, None] - 1) * rng.normal(size=2)
    with pm.Model() as model:
        mean, scale = pm.Normal("mean", 0, 2, shape=(2, 2)), pm.LogNormal("scale", 0, 0.5, shape=2)
        label = pm.Bernoulli("label", pm.Beta("share", 2, 2), observed=np.where(np.arange(12) < 4, y, -1))
        pm.Normal("x", mean[label], scale, observed=features)
    pls = bpls.BPLS(model, target="label")
    tree = pls.marginalize(**QUIET)
    by_nuts = pls.marginalize(approximation="nuts", draws=2000, chains=2, random_seed=1, **QUIET)["labels"]
    error = np.hypot(tree["labels"].probability_mcse, by_nuts.probability_sd / np.sqrt(400))
    assert tree.attrs["reliable"] and float((np.abs(tree["labels"].probability - by_nuts.probability) / error).max()) < 4


SLOPE = np.linspace(-20, 20, 80001)
SIGNED = np.array([-2.0, -1.2, 1.0, 1.5, 0.3, 1.8, -1.1, 2.2])
PARTLY = np.array([0, 0, 1, 1, -1, -1, -1, -1])


def two_slopes():
    """A slope near −3 by a prior that gives 3 a tenth; the mode of the former is the one that a fit on D finds."""
    return pm.NormalMixture("slope", w=[0.9, 0.1], mu=[-3.0, 3.0], sigma=[0.3, 0.3])


def signed_features():
    slope, label = two_slopes(), pm.Bernoulli("label", 0.5, observed=PARTLY)
    pm.Normal("x", slope * (2 * label - 1), 1, observed=SIGNED)


def signed_labels():
    pm.Bernoulli("label", logit_p=two_slopes() * SIGNED, observed=PARTLY)


@pytest.mark.parametrize("approximation", ["laplace", "vi", pytest.param("nuts", marks=pytest.mark.slow)])
@pytest.mark.parametrize("declare", [signed_features, signed_labels])
def test_a_component_of_a_declared_mixture_that_holds_the_mass_is_seen(declare, approximation):
    """By quadrature; draws that NUTS takes around the other component only are called so."""
    with pm.Model() as model:
        declare()
    tree = bpls.BPLS(model, target="label").marginalize(approximation=approximation, random_seed=0, **QUIET)
    of_classes = np.array([-1, 1])[:, None] * SLOPE
    log_lik = (
        norm.logpdf(SIGNED[:, None, None], of_classes, 1) - np.log(2)
        if declare is signed_features
        else log_expit(of_classes * SIGNED[:, None, None])
    )
    log_p = np.logaddexp(np.log(0.9) + norm.logpdf(SLOPE, -3, 0.3), np.log(0.1) + norm.logpdf(SLOPE, 3, 0.3))
    log_p = log_p + log_lik[np.arange(4), PARTLY[:4]].sum(0) + logsumexp(log_lik[4:], axis=1).sum(0)
    expected = softmax(log_lik[4:], axis=1)[:, 1] @ softmax(log_p)
    if approximation == "nuts":
        assert not tree.attrs["reliable"] and "no draw is near 1 of them" in tree.attrs["reasons"][-1]
        return
    assert tree.attrs["reliable"] and tree.attrs["modes"] == 2
    error = np.abs(tree["labels"].probability.sel({"class": 1}) - expected)
    assert (error < 4 * tree["labels"].probability_mcse.sel({"class": 1})).all() and error.max() < 0.01
    assert abs(tree.attrs["log_z"] - logsumexp(log_p) - np.log(SLOPE[1] - SLOPE[0])) < 4 * tree.attrs["log_z_error"] < 0.2


def test_a_bump_of_the_prior_that_holds_the_mass_is_seen():
    """No mixture is declared: its second peak is nine units away, on a line through the fit."""
    x, y = np.array([-0.4, 0.9, 1.3, -0.2]), np.array([0, 1, -1, -1])
    with pm.Model() as model:
        shift, label = pm.Normal("shift", 0, 1), pm.Bernoulli("label", 0.5, observed=y)
        pm.Potential("bump", 80 / (1 + (shift - 9) ** 2))
        pm.Normal("x", shift * (2 * label - 1), 6, observed=x)
    tree = bpls.BPLS(model, target="label").marginalize(**QUIET)
    log_lik = norm.logpdf(x[:, None, None], np.array([-1, 1])[:, None] * SLOPE, 6) - np.log(2)
    log_p = norm.logpdf(SLOPE) + 80 / (1 + (SLOPE - 9) ** 2)
    log_p += log_lik[[0, 1], y[:2]].sum(0) + logsumexp(log_lik[2:], axis=1).sum(0)
    expected = logsumexp(log_p) + np.log(SLOPE[1] - SLOPE[0])
    assert abs(tree.attrs["log_z"] - expected) < 4 * tree.attrs["log_z_error"] < 0.2


def test_the_curve_has_the_supervised_model_first(line):
    tree = line.marginalize(test=(TEST, TRUTH[TEST]), **QUIET)
    curve = tree["curve"]
    assert curve["n_pseudo"].to_numpy().tolist() == [0, 8] and not np.isin(TEST, tree["labels"]["candidate"]).any()
    log_p = log_softmax(log_lik_of_line(X[TEST], GRID), axis=1)[np.arange(10), TRUTH[TEST]]
    for place, p in enumerate((quadrature(np.arange(0)), quadrature(POOL))):
        np.testing.assert_allclose(curve["log_score"][place], np.log(np.exp(log_p) @ p).mean(), atol=0.03)
    right = tree["test"]["right_before"].to_numpy(), tree["test"]["right_after"].to_numpy()
    np.testing.assert_allclose(curve["accuracy"], [each.mean() for each in right])
    assert "with the pool's labels integrated out" in tree.attrs["verdict"]
    assert "and the mean log score is {:.3g} and {:.3g}".format(*curve["log_score"].to_numpy()[::-1]) in tree.attrs["verdict"]
    assert "is unknown" in line.marginalize(**QUIET).attrs["verdict"]


def test_whether_the_pool_helped_is_by_classes_and_by_probabilities():
    """By McNemar's test and by scipy's paired t statistic, on predictions of 100 rows."""
    rng = np.random.default_rng(0)
    known = np.ones(100, dtype=bool)
    some = np.arange(100) < 20
    log_p = -rng.exponential(size=100)
    before, better, worse = (Judged(known, log_p + shift + 0.05 * rng.normal(size=100)) for shift in (0.0, 0.1, -0.1))
    said = {1: "the pool helped, by its probabilities", -1: "the pool did harm, by its", 0: "nothing was gained"}
    for after in (better, worse, before):
        t = ttest_rel(after.log_p, before.log_p).statistic if after is not before else 0.0
        sign = int(np.sign(t)) * (abs(t) > 1.96)
        assert better_by_log_score(before, after) == sign
        assert _say_whether(better_by_accuracy(before, after), sign).startswith(said[sign])
    wrong = Judged(~some, better.log_p)
    assert better_by_accuracy(before, wrong) == -1 and better_by_accuracy(wrong, before) == 1
    assert _say_whether(-1, 1) == "with the pool probabilities are better and classes worse, beyond chance"
    assert better_by_log_score(before, Judged(known, np.where(some, -np.inf, log_p))) == 0


def test_several_modes_are_found_with_their_masses():
    """Labels that say next to nothing of the sign, and a pool that says ±3."""
    x = np.r_[0.05, -0.02, np.tile([-3.0, 3.0], 8) + 0.2 * np.linspace(-1, 1, 16)]
    pls = declare_line(x, np.r_[1, 0, np.full(16, -1)])
    tree = pls.marginalize(**QUIET)
    share = tree["modes"]["share"].to_numpy()
    known = log_lik_of_line(x[:2], GRID)[[0, 1], [1, 0]].sum(0)
    grid = np.linspace(-8, 8, 16001)
    known = log_lik_of_line(x[:2], grid)[[0, 1], [1, 0]].sum(0)
    p = softmax(norm.logpdf(grid, 0, 2) + known + logsumexp(log_lik_of_line(x[2:], grid), axis=1).sum(0))
    masses = np.sort([p[grid > 0].sum(), p[grid < 0].sum()])[::-1]
    assert tree.attrs["modes"] == 2 and masses[1] > 0.2
    np.testing.assert_allclose(share, masses, atol=0.01)
    assert tree.attrs["reliable"] and "2 modes were found, the largest with" in tree.attrs["verdict"]
    of_rows = softmax(log_lik_of_line(x[2:], grid), axis=1) @ p
    error = tree["labels"].probability_mcse.to_numpy()
    np.testing.assert_array_less(np.abs(tree["labels"].probability - of_rows), 4 * error)
    assert np.sign(tree["final"]["shift"]) == (1 if p[grid > 0].sum() > 0.5 else -1)


# each likelihood once, which alone says what a row of the pool adds; then a hierarchy, a walk over rows, a parameter a row,
# and several modes
OF_LABELS = (
    "logistic",
    "binomial_of_one_trial",
    "probit",
    "cloglog",
    "discrete_time_survival",
    "softmax_of_p",
    "softmax_of_logit_p",
    "multinomial_of_one_trial",
    "zero_sum_softmax",
    "ordered_logistic",
    "ordered_probit",
    "dirichlet_cutpoints",
    "contamination",
    "t_link",
    "misclassification",
    "beta_binomial_of_one_trial",
    "mixture_of_logistics",
    "custom_distribution",
    "hierarchical_non_centered",
    "autoregression_of_fixed_scale",
    "latent_gp",
    "tanh_network",
)
FAST = ("logistic", "softmax_of_logit_p")


@pytest.mark.filterwarnings("ignore:.*modes of the posterior were found:pymc_bpls.BPLSWarning")
@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in FAST else pytest.mark.slow) for name in OF_LABELS])
def test_a_model_of_labels_given_features_has_the_supervised_posterior(name):
    kind = zoo.ACCEPTED[name]
    pls = bpls.BPLS(kind.table(), **kind.options)
    supervised, with_pool = pls.engine.derivatives(pls.labeled), pooled(pls).derivatives(pls.labeled)
    start = pls.engine.fit(pls.labeled).theta
    # the probabilities of PyMC's OrderedProbit add up to 1 to ten digits a row only
    atol = 1e-8 if name == "ordered_probit" else 1e-10
    for theta in start + 0.3 * np.random.default_rng(0).normal(size=(3, len(start))):
        for first, second in zip(supervised(theta), with_pool(theta), strict=True):
            np.testing.assert_allclose(first, second, rtol=atol, atol=atol)
    tree = pls.marginalize(test=(zoo.CANDIDATES[:3], kind.labels[zoo.CANDIDATES[:3]]), **{**QUIET, "draws": 50})
    np.testing.assert_allclose(tree["unconstrained"]["mode"], start, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(tree["curve"]["log_score"][0], tree["curve"]["log_score"][1], atol=1e-10)
    said = "Unlabeled rows enter" if name == "latent_gp" else "The pool cannot inform this model"
    assert said in tree.attrs["verdict"] and tree.attrs["nats"] == 0


def test_a_result_is_kept_in_a_file_with_the_users_index(tmp_path):
    with pm.Model() as model:
        shift = pm.Normal("shift", 0, 2)
        label = pm.Bernoulli("label", 0.4, observed=np.where(np.arange(24) < 6, TRUTH, -1))
        pm.Normal("x", shift * (2 * label - 1), 1, observed=X)
    names = [f"row {i}" for i in range(24)]
    pls = bpls.BPLS(model, target="label", classes=["low", "high"], index=names)
    tree = pls.marginalize(test=(TEST, np.array(["low", "high"])[TRUTH[TEST]]), **QUIET)
    bpls.save(tree, tmp_path / "pool.nc")
    with xr.open_datatree(tmp_path / "pool.nc") as again:
        assert bpls.read_index(again["labels"].to_dataset()).tolist() == names[6:14]
        assert set(again["labels"]["label"].to_numpy()) <= {"low", "high"}
        assert again.attrs["verdict"] == tree.attrs["verdict"]


def test_any_rows_are_predicted_by_its_draws(line):
    tree = line.marginalize(test=(TEST, TRUTH[TEST]), **QUIET)
    p = line.predict_proba(POOL, result=tree)
    np.testing.assert_allclose(p, tree["labels"].probability, atol=1e-12)
    log_p = np.log(line.predict_proba(TEST, result=tree).to_numpy()[np.arange(10), TRUTH[TEST]])
    np.testing.assert_allclose(log_p.mean(), tree["curve"].log_score[1], atol=1e-12)
    with pytest.raises(bpls.CriterionError, match=r"labels integrated out.*Leave by= out"):
        line.predict_proba(POOL, result=tree, by="mode")
    with pytest.raises(bpls.CriterionError, match=r"labels integrated out.*approximation="):
        line.sample(tree)


def test_new_rows_may_be_tested_on():
    with pm.Model() as model:
        data = pm.Data("data", X[:14])
        shift = pm.Normal("shift", 0, 2)
        label = pm.Bernoulli("label", 0.4, observed=np.where(np.arange(14) < 6, TRUTH[:14], -1))
        pm.Normal("x", shift * (2 * label - 1), 1, observed=data)
    new = bpls.BPLS(model, target="label").marginalize(test=({"data": X[TEST]}, TRUTH[TEST]), **QUIET)
    old = declare_line(X, np.where(np.arange(24) < 6, TRUTH, -1)).marginalize(test=(TEST, TRUTH[TEST]), **QUIET)
    np.testing.assert_allclose(new["curve"]["log_score"], old["curve"]["log_score"], atol=1e-9)


def test_rows_that_depend_on_each_other_are_refused():
    y = np.where(np.arange(12) < 8, np.arange(12) % 2, -1)
    with pm.Model() as model:
        seen = pm.Data("seen", y)
        phi = pm.Normal("phi", 0, 1)
        lag = pm.math.concatenate([[0.0], seen[:-1]])
        pm.Bernoulli("label", logit_p=phi * lag, observed=seen)
    pls = bpls.BPLS(model)
    assert not pls.information().informative
    with pytest.raises(bpls.ModelError, match=r'Rows of "label" depend on each other.*Use self_train'):
        pls.marginalize(**QUIET)


def test_a_pool_of_test_rows_alone_is_refused(line):
    rows = np.r_[POOL, TEST]
    with pytest.raises(bpls.RowError, match="every candidate"):
        line.marginalize(test=(rows, TRUTH[rows]), **QUIET)


@pytest.mark.parametrize("given", [{"weight": 0}, {"weight": 1.5}, {"approximation": "ep"}])
def test_what_is_none_is_refused(line, given):
    [(name, value)] = given.items()
    with pytest.raises(bpls.CriterionError, match=f"{name}=.*{value}"):
        line.marginalize(**given)


@pytest.mark.slow
def test_a_pool_of_a_hundred_thousand_rows(monkeypatch):
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=100_020)
    x = rng.normal(2 * (2 * truth[:, None] - 1) * np.array([0.5, 0.2, 0.0]), 1)
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 2, shape=(2, 3))
        label = pm.Bernoulli("label", 0.5, observed=np.where(np.arange(100_020) < 20, truth, -1))
        pm.Normal("x", mean[label], 1, observed=x)
    pls = bpls.BPLS(model, target="label")
    tree = pls.marginalize(draws=250, **QUIET)
    np.testing.assert_allclose(tree["final"]["mean"], np.outer([-2, 2], [0.5, 0.2, 0.0]), atol=0.04)
    theta = tree["unconstrained"]["mode"].to_numpy()
    log_p = np.log(0.5) + norm.logpdf(x[20:, None], theta.reshape(2, 3), 1).sum(2)
    expected = logsumexp(log_p, axis=1).sum()
    np.testing.assert_allclose(pooled(pls).marginal.values(theta[None])[0], expected, rtol=1e-12)
