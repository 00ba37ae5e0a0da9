"""Pseudo-labels with a guarantee: p-values against their authors' own, cavities against quadrature, and wrong pools."""

import json
from dataclasses import replace
from math import comb
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import reference
from scipy.special import expit, xlogy
from scipy.stats import betabinom, binom, false_discovery_control

import pymc_bpls as bpls
from pymc_bpls.acceptance.conformal import conformal_p_values, step_up
from pymc_bpls.acceptance.coverage import Coverage, coverage_by_both, coverage_by_distance, find_coverage
from pymc_bpls.acceptance.predictions import leave_one_out
from pymc_bpls.acceptance.sentences import Hypotheses, say_approximation, say_calibration, say_verdict
from pymc_bpls.acceptance.strangers import glance

QUIET = {"progressbar": False}


@pytest.fixture(scope="module")
def found(small):
    return small.accept(0.4, **QUIET)


def kept():
    return json.loads((Path(__file__).parent / "data" / "conformal_selection.json").read_text())


@pytest.mark.parametrize("number", range(4))
def test_p_values_and_selections_are_those_of_conformal_selection_s_authors(number):
    """Values of their package, with its random tie-break set to 1, by tests/data/conformal_selection.py."""
    case = kept()[number]
    confidence, wrong, candidates = (np.array(case[name]) for name in ("confidence", "wrong", "candidates"))
    p = conformal_p_values(confidence, wrong, candidates)
    np.testing.assert_allclose(p, case["p_values"], rtol=0, atol=1e-14)
    assert np.flatnonzero(step_up(p, case["alpha"])).tolist() == case["selected"]


def step_up_by_hand(p, alpha):
    """Benjamini and Hochberg (1995): reject the k smallest, k the largest with p_(k) ≤ α k/m."""
    m, order = len(p), np.argsort(p)
    below = np.flatnonzero(p[order] <= alpha * np.arange(1, m + 1) / m)
    rejected = np.zeros(m, dtype=bool)
    rejected[order[: below.max() + 1 if below.size else 0]] = True
    return rejected


def test_what_is_accepted_is_scipy_s_and_by_hand(small, found):
    p = found["p_value"].to_numpy()
    np.testing.assert_array_equal(found["accepted"], false_discovery_control(p) <= 0.4)
    rng = np.random.default_rng(0)
    for size in (1, 7, 50):
        drawn = rng.beta(0.5, 3, size=size)
        np.testing.assert_array_equal(step_up(drawn, 0.1), step_up_by_hand(drawn, 0.1))
    assert step_up(np.empty(0), 0.1).shape == (0,)


def posterior_without(X, y, row):
    """Class 1's probability of `row` under the posterior of the other rows, on a grid."""
    grid = np.stack(np.meshgrid(*[np.linspace(-14, 14, 281)] * 2, indexing="ij"), -1).reshape(-1, 2)
    rest = np.setdiff1d(np.arange(len(y)), row)
    log_p = -np.logaddexp(0, -(grid @ (X[rest] * (2 * y[rest] - 1)[:, None]).T)).sum(1) - 0.5 * (grid**2).sum(1) / 2.5**2
    weights = np.exp(log_p - log_p.max())
    return weights @ expit(grid @ X[row]) / weights.sum()


def test_cavities_are_the_posterior_without_the_row(small, table):
    X, y, _ = table
    left_out = leave_one_out(small.scorer, small.scorer.problem.table.candidates)
    assert left_out.approximation == "ep"
    expected = np.array([posterior_without(X[:12], y[:12], row) for row in range(12)])
    np.testing.assert_allclose(left_out.of_known[:, 1], expected, atol=0.02)
    in_sample = small.predict_proba(np.arange(12), by="gaussian")[:, 1].to_numpy()
    assert np.abs(left_out.of_known[:, 1] - expected).max() < 0.2 * np.abs(in_sample - expected).max()


def test_p_values_are_those_of_left_out_labels(small, table, found):
    X, y, _ = table
    expected = np.array([posterior_without(X[:12], y[:12], row) for row in range(12)])
    right = (expected > 0.5) == (y[:12] == 1)
    np.testing.assert_array_equal(found.attrs["calibration_right"], right)
    confidence = found.attrs["calibration_confidence"]
    np.testing.assert_allclose(confidence, np.maximum(expected, 1 - expected), atol=0.02)
    by_hand = [(1 + (~right & (confidence >= s)).sum()) / 13 for s in found["confidence"].to_numpy()]
    np.testing.assert_allclose(found["p_value"], by_hand)
    assert f"{right.sum()} ({right.mean():.0%}) are predicted right" in found.attrs["calibration"]
    assert found.attrs["guarantee"].startswith("approximate") and found.attrs["n_calibration"] == 12


@pytest.mark.parametrize("p", [0.997, 0.9, 0.6])
@pytest.mark.parametrize("n", [20, 40])
def test_confidence_and_accuracy_disagree_beyond_chance_as_often_as_said(p, n):
    """scipy's binomial: of confidences near 1 a single error came as "beyond chance" with probability .11."""
    wrong_way = 0.0
    for n_right in range(n + 1):
        said = say_calibration(np.full(n, p), np.arange(n) < n_right)
        fewer, more = binom.cdf(n_right, n, p), binom.sf(n_right - 1, n, p)
        assert ("overconfident" in said) == (fewer < 0.025) and ("underconfident" in said) == (more < 0.025)
        wrong_way += binom.pmf(n_right, n, p) * ("beyond chance" in said)
    assert wrong_way <= 0.05


def test_a_split_sets_half_of_the_labels_aside(small, table):
    X, y, _ = table
    one, other = (small.accept(0.4, by="split", random_seed=3, **QUIET) for _ in range(2))
    np.testing.assert_array_equal(one["p_value"], other["p_value"])
    rows = one.attrs["calibration_rows"]
    assert len(rows) == 6 and one.attrs["guarantee"].startswith("exact") and one.attrs["n_calibration"] == 6
    hidden = np.where(np.isin(np.arange(26), rows), -1, y)
    alone = bpls.BPLS(reference.logistic(X, hidden), unlabeled=np.arange(12, 26))
    p = alone.scorer.with_predictor("ep").log_probabilities(alone.scorer.fit(alone.labeled), np.r_[rows, 12:26])
    np.testing.assert_allclose(one.attrs["calibration_confidence"], np.exp(p[:6]).max(axis=1), atol=0.01)
    np.testing.assert_array_equal(one["pseudo_label"], p[6:].argmax(axis=1))


@pytest.mark.slow
def test_other_models_are_refitted_without_each_row(table):
    X, y, _ = table
    with pm.Model() as model:
        b, scale = pm.Normal("b", 0, 1, shape=2), pm.HalfNormal("scale", 2.5)
        pm.Bernoulli("label", logit_p=X @ (b * scale), observed=y)
    pls = bpls.BPLS(model, predictor="laplace")
    left_out = leave_one_out(pls.scorer, np.arange(12, 26))
    assert left_out.approximation == "laplace"
    for row in (0, 5):
        hidden = np.where(np.arange(26) == row, -1, y)
        with pm.Model() as other:
            b, scale = pm.Normal("b", 0, 1, shape=2), pm.HalfNormal("scale", 2.5)
            pm.Bernoulli("label", logit_p=X @ (b * scale), observed=hidden)
        p = bpls.BPLS(other, predictor="laplace").predict_proba([row]).to_numpy()[0]
        np.testing.assert_allclose(left_out.of_known[row], p, atol=1e-6)


def test_too_few_labels_accept_nothing_and_say_so(small):
    found = small.accept(0.05, **QUIET)
    assert not found["accepted"].any() and found["p_value"].min() >= 1 / 13
    assert "Nothing is accepted: with 12 calibration labels no p-value is below 1/13" in found.attrs["verdict"]
    assert "alpha = 0.05 takes 19 or more" in found.attrs["verdict"]


def test_nineteen_labels_are_enough_for_a_twentieth():
    x = np.r_[np.linspace(-8, -4, 10), np.linspace(4, 8, 9), np.linspace(-7.9, -4.1, 15), np.linspace(4.1, 7.9, 15)]
    y = np.where(np.arange(49) < 19, x > 0, -1)
    pls = bpls.BPLS(reference.logistic(np.column_stack([np.ones(49), x]), y))
    found = pls.accept(0.05, **QUIET)
    assert found["p_value"].min() == 1 / 20 and found["accepted"].all()
    accepted = "30 of 30 pseudo-labels are accepted: at most a share of 0.05 of them is expected to be wrong."
    by_ep = "Pseudo-labels and confidences are averages over EP's approximation of the posterior."
    assert found.attrs["verdict"] == f"{accepted} {by_ep}"
    assert "Laplace's Gaussian at the mode, which can be far from" in say_approximation("laplace", in_hierarchy=True)
    assert say_approximation("laplace", in_hierarchy=False).endswith("averages over Laplace's Gaussian at the mode.")
    fewer = bpls.BPLS(reference.logistic(np.column_stack([np.ones(49), x]), np.where(np.arange(49) == 3, -1, y)))
    assert not fewer.accept(0.05, **QUIET)["accepted"].any()


def test_each_class_has_a_bound_of_its_own(small):
    found = small.accept(0.4, per_class=True, **QUIET)
    left_out = leave_one_out(small.scorer, small.scorer.problem.table.candidates)
    guess, right = left_out.of_known.argmax(axis=1), left_out.of_known.argmax(axis=1) == small.labeled.codes
    confidence, labels = left_out.of_known.max(axis=1), found["pseudo_label"].to_numpy()
    assert found.attrs["n_calibration"] == np.bincount(guess, minlength=2).tolist()
    for code in (0, 1):
        p = conformal_p_values(confidence[guess == code], ~right[guess == code], found["confidence"].to_numpy()[labels == code])
        np.testing.assert_allclose(found["p_value"].to_numpy()[labels == code], p)
        np.testing.assert_array_equal(found["accepted"].to_numpy()[labels == code], step_up(p, 0.4))
    assert "of each class" in found.attrs["guarantee"]
    assert ": in each class at most a share of 0.4 of its accepted labels is expected to be wrong." in found.attrs["verdict"]


def test_each_class_has_a_reason_of_its_own(small, found):
    few, often = Hypotheses(np.array([1.0, 1.0]), 0, 0, "class a"), Hypotheses(np.array([0.1, 0.3]), 0, 9, "class b")
    takes = "with 0 calibration labels no p-value is below 1/1, and alpha = 0.05 takes 19 or more"
    nothing = say_verdict([few, replace(often, n_calibration=29)], 4, 0.05, None)
    wrong = "the smallest p-value is 0.1, above alpha = 0.05, since predictions that confident were wrong too often"
    assert nothing == f"Nothing is accepted. Of class a: {takes}. Of class b: {wrong}."
    some = say_verdict([few, replace(often, n_accepted=1), Hypotheses(np.array([]), 0, 3, "class c")], 4, 0.05, None)
    bound = "in each class at most a share of 0.05 of its accepted labels is expected to be wrong"
    no_one = "labeled rows cover no candidate that is predicted to be of it"
    left = "The others are for a person, in the order of rank."
    assert some == (
        f"1 of 4 pseudo-labels are accepted: {bound}. None of class a is: {takes}. None of class c is: {no_one}. {left}"
    )
    rare = say_verdict([Hypotheses(np.array([0.04, 0.5, 0.5]), 0, 24)], 3, 0.05, None)
    assert rare == "Nothing is accepted: too few of the candidates have a p-value as small as 0.04 for alpha = 0.05."
    by_class = small.accept(0.05, per_class=True, **QUIET)
    for name, n in zip((0, 1), by_class.attrs["n_calibration"], strict=True):
        assert f"Of class {name}: with {n} calibration labels no p-value is below 1/{n + 1}" in by_class.attrs["verdict"]
    assert "class" not in found.attrs["verdict"]


def test_the_user_s_index_stays_and_the_rest_is_ranked(table):
    X, y, _ = table
    names = pd.Index([f"r{i}" for i in range(26)], name="case")
    pls = bpls.BPLS(reference.logistic(X, y), index=names, classes=["no", "yes"])
    found = pls.accept(0.4, **QUIET)
    assert bpls.read_index(found).equals(names[12:]) and set(found["pseudo_label"].to_numpy()) <= {"no", "yes"}
    left = found["rank"].to_numpy() > 0
    np.testing.assert_array_equal(left, ~found["accepted"].to_numpy())
    order = np.argsort(found["rank"].to_numpy()[left])
    assert (np.diff(found["bald"].to_numpy()[left][order]) <= 0).all()
    said = bpls.summary(found)
    assert said.sentences[0] == found.attrs["verdict"] and found.attrs["calibration"] in said.sentences


# the criterion "bald"


def test_bald_is_the_mutual_information_by_quadrature(small, table):
    X, _, _ = table
    fit = small.fit()
    covariance = np.linalg.inv(fit.hessian.to_numpy())
    z = np.linspace(-9, 9, 4001)
    spread = np.sqrt(np.einsum("ij,jk,ik->i", X[12:], covariance, X[12:]))
    f = (X[12:] @ fit.unconstrained.to_numpy())[:, None] + spread[:, None] * z
    weights = np.exp(-0.5 * z**2) / np.exp(-0.5 * z**2).sum()
    p = expit(f)
    entropy = lambda p: -xlogy(p, p) - xlogy(1 - p, 1 - p)  # noqa: E731
    by_hand = entropy(p @ weights) - entropy(p) @ weights
    scores = small.score("bald")
    np.testing.assert_allclose(scores["score"], by_hand, atol=1e-7)
    assert (scores["score"] > 0).all()


@pytest.mark.slow
def test_bald_of_several_predictors_is_an_average_over_draws():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), np.r_[np.arange(18) % 3, np.full(12, -1)]
    with pm.Model() as model:
        pm.Categorical("label", logit_p=X @ pm.Normal("b", 0, 1, shape=(2, 3)), observed=y)
    pls = bpls.BPLS(model)
    scores = pls.score("bald")
    fit = pls.fit()
    covariance = np.linalg.inv(fit.hessian.to_numpy())
    theta = rng.multivariate_normal(fit.unconstrained.to_numpy(), covariance, 10_000).reshape(-1, 2, 3)
    logits = np.einsum("ij,sjk->sik", X[18:], theta)
    p = np.exp(logits - np.logaddexp.reduce(logits, axis=2, keepdims=True))
    by_hand = -xlogy(p.mean(0), p.mean(0)).sum(1) + xlogy(p, p).sum(2).mean(0)
    np.testing.assert_allclose(scores["score"], by_hand, atol=8e-3)
    assert scores.attrs["score_error"] < 1e-3


# a wrong pool


def test_ranks_of_an_exchangeable_pool_are_beta_binomial():
    rng, n, m = np.random.default_rng(0), 30, 40
    p_values, counts = [], []
    for _ in range(2000):
        values = rng.normal(size=n + m)
        p_values.append(find_coverage(values[:n], values[n:], "value").p_value)
        counts.append((values[n:] < values[:n].min()).sum())
    assert np.mean(np.array(p_values) < 0.01) < 0.01 + 2 * np.sqrt(0.01 * 0.99 / 2000)
    expected = betabinom(m, 1, n).mean()
    assert abs(np.mean(counts) - expected) < 4 * np.std(counts) / np.sqrt(2000)


def of_rows(X):
    """What coverage asks of a model: its table."""
    return SimpleNamespace(density=SimpleNamespace(data=(np.arange(len(X)), X)))


def in_clusters(rng, centres, size):
    return centres[rng.integers(len(centres), size=size)] + 0.001 * rng.normal(size=(size, 2))


@pytest.mark.parametrize("n_clusters", [6, 8, 12])
def test_exchangeable_clusters_raise_the_alarm_no_more_often_than_it_says(n_clusters):
    """Labeled rows that lie in pairs while a cluster has none: ranks among them are no longer beta-binomial."""
    rng, tables, (n, m) = np.random.default_rng(0), 2000, (20, 60)
    centres, alarms = 10 * rng.normal(size=(n_clusters, 2)), 0
    for _ in range(tables):
        coverage = coverage_by_distance(of_rows(in_clusters(rng, centres, n + m)), np.arange(n), np.arange(n, n + m))
        alarms += not coverage.covered.all()
        assert coverage.covered.all() == (coverage.p_value > 0.01)
    assert alarms <= binom.ppf(0.999, tables, 0.01)


def test_the_chance_of_a_cluster_without_labels_is_that_of_combinatorics():
    """Ten rows and five others, far away: as many are outside where all labels are of the ten, or all of the five."""
    X = np.r_[np.linspace(0, 0.001, 10), np.linspace(100, 101, 5)][:, None]
    coverage = coverage_by_distance(of_rows(X), np.arange(0, 10, 2), np.r_[np.arange(1, 10, 2), np.arange(10, 15)], 0.5)
    assert (~coverage.covered).sum() == 5
    chance = (comb(10, 5) + 1) / comb(15, 5)
    assert abs(coverage.p_value - chance) < 4 * np.sqrt(chance * (1 - chance) / 1000)


def test_an_alarm_by_densities_that_saw_the_labels_is_confirmed_by_distances():
    rng, by_density = np.random.default_rng(0), Coverage(np.arange(60) < 50, 1e-4, "density")
    labeled, candidates = np.arange(20), np.arange(20, 80)
    alike = rng.poisson(3, size=(80, 2))
    other = alike + 40 * (np.arange(80) >= 70)[:, None]
    assert coverage_by_both(by_density, of_rows(alike), labeled, candidates).covered.all()
    found = coverage_by_both(by_density, of_rows(np.where(np.arange(80)[:, None] < 50, alike, other + 40)), labeled, candidates)
    np.testing.assert_array_equal(found.covered, by_density.covered)
    assert by_density.p_value < found.p_value <= 0.01


@pytest.fixture(scope="module")
def three_clusters():
    """Two classes with labels in thirty rows, seventy others of them, and thirty rows of a third cluster."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=130)
    X = rng.normal(size=(130, 2))
    X[:100, 0] += 3 * (2 * y[:100] - 1)
    X[100:, 1] += 9
    return X, np.where(np.arange(130) < 30, y, -1)


def of_labels(X, y):
    return bpls.BPLS(reference.logistic(np.column_stack([np.ones(len(y)), X]), y))


def of_features(X, y):
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 5, shape=(2, 2))
        label = pm.Bernoulli("label", 0.5, observed=y)
        pm.Normal("x", mean[label], 1, observed=X)
    return bpls.BPLS(model, target="label")


@pytest.mark.parametrize("declare", [of_labels, pytest.param(of_features, marks=pytest.mark.slow)])
def test_a_third_cluster_is_named_and_not_accepted(three_clusters, declare):
    X, y = three_clusters
    with pytest.warns(bpls.BPLSWarning, match=r"of 100 candidates \(3\d%\) have features that the labeled rows do not cover"):
        found = declare(X, y).accept(0.1, **QUIET)
    third = found["candidate"].to_numpy() >= 100
    assert not found["covered"].to_numpy()[third].any() and found["covered"].to_numpy()[~third].mean() > 0.9
    assert not found["accepted"].to_numpy()[third].any() and found["accepted"].to_numpy()[~third].mean() > 0.9
    assert "as rows of a class that no label has. Exchangeable rows look so in 1 of 100 pools at most" in found.attrs["verdict"]
    assert "They are not: rows that the labeled rows do not cover are never accepted" in found.attrs["guarantee"]
    assert 0.3 <= found.attrs["not_covered"] < 0.4


@pytest.mark.parametrize("declare", [of_labels, of_features])
def test_a_run_is_warned_of_a_wrong_pool_once_and_before_it_labels_any(three_clusters, declare):
    pls = declare(*three_clusters)
    with pytest.warns(bpls.BPLSWarning, match=r"^3\d of 100 candidates \(3\d%, the first: row \d+\) have features") as told:
        pls.self_train("probability", rounds=1, other_modes=False, **QUIET)
    assert len(told) == 1 and "look so in 1 of 1,000 pools at most" in str(told[0].message)
    pls.self_train("probability", rounds=1, other_modes=False, **QUIET)
    X, y = (values[:100] for values in three_clusters)
    declare(X, y).self_train("probability", rounds=1, other_modes=False, **QUIET)


def test_a_large_pool_is_looked_at_in_a_moment():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100_100, 2))
    X[50_100:] += 20
    problem = SimpleNamespace(density=SimpleNamespace(data=(np.arange(len(X)), X)))
    coverage, judged = glance(problem, np.arange(100), np.arange(100, len(X)))
    assert len(judged) * 100 * 2 <= 5e7 and abs(coverage.share - 0.5) < 0.1
    X = rng.normal(size=(1200, 5000))
    problem = SimpleNamespace(density=SimpleNamespace(data=(np.arange(len(X)), X)))
    coverage, judged = glance(problem, np.arange(1000), np.arange(1000, len(X)))
    assert len(judged) == 100 and coverage.covered.all()


@pytest.mark.parametrize("declare", [of_labels, pytest.param(of_features, marks=pytest.mark.slow)])
def test_a_pool_of_the_labeled_classes_is_covered(three_clusters, declare):
    X, y = three_clusters
    found = declare(X[:100], y[:100]).accept(0.1, **QUIET)
    assert found["covered"].all() and found.attrs["not_covered"] == 0


# arguments


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"alpha": 1}, "alpha=1 is no probability"),
        ({"alpha": 0.1, "by": "half"}, "by='half' is unknown"),
        ({"alpha": 0.1, "per_class": 1}, "per_class=1 is neither True nor False"),
    ],
)
def test_what_is_none_is_refused(small, given, message):
    with pytest.raises(bpls.CriterionError, match=message):
        small.accept(**given)


def test_one_label_and_no_candidates_are_refused(table):
    X, y, truth = table
    with pytest.raises(bpls.RowError, match="has no candidate"):
        bpls.BPLS(reference.logistic(X, truth)).accept(**QUIET)
    with pytest.warns(bpls.BPLSWarning, match="no labeled row of class"):
        one = bpls.BPLS(reference.logistic(X, np.where(np.arange(26) == 0, y, -1)))
    with pytest.raises(bpls.RowError, match="has one labeled row"):
        one.accept(**QUIET)
