"""What a candidate brings to the density: p(y | x, θ), of class-conditional models too, or its whole likelihood."""

import numpy as np
import pymc as pm
import pytest
import scipy.optimize
from scipy.special import gammaln, log_softmax, logsumexp
from scipy.stats import norm

import pymc_bpls as bpls

# a textbook's naive Bayes: words of five documents, whose classes are Y, Y, Y, N and unknown
COUNTS = np.array([[1, 2, 0, 0, 0, 0], [0, 2, 0, 0, 1, 0], [0, 1, 0, 1, 0, 0], [0, 1, 1, 0, 0, 1], [0, 3, 1, 0, 0, 1]])
SHARE = np.array([0.25, 0.75])

# x | y ~ N(±shift, 1) on a line
_rng = np.random.default_rng(3)
TRUTH = _rng.integers(2, size=18)
X = _rng.normal(1.2 * (2 * TRUTH - 1), 1)
Y = np.where(np.arange(18) < 8, TRUTH, -1)
GRID = np.linspace(-12, 12, 40001)


@pytest.fixture(scope="module")
def words():
    codes, classes, _ = bpls.encode_labels(["Y", "Y", "Y", "N", None])
    with pm.Model() as model:
        phi = pm.Dirichlet("phi", np.ones((2, 6)))
        label = pm.Categorical("label", p=SHARE, observed=codes)
        pm.Multinomial("words", n=COUNTS.sum(1), p=phi[label], observed=COUNTS)
    return bpls.BPLS(model, target="label", classes=classes)


@pytest.fixture(scope="module")
def line():
    with pm.Model() as model:
        shift = pm.Normal("shift", 0, 2)
        label = pm.Bernoulli("label", p=0.4, observed=Y)
        pm.Normal("x", shift * (2 * label - 1), 1, observed=X)
    return bpls.BPLS(model, target="label")


def log_lik_of_the_line(shift):
    """ℓ of every row and class at each shift: (rows, 2, shifts)."""
    prior, sign = np.log([0.6, 0.4])[:, None], np.array([-1, 1])[:, None]
    return prior + norm.logpdf(X[:, None, None], sign * shift, 1)


def by_quadrature():
    """log PPP of every candidate and class, (candidates, 2), by the conditional and the joint factor, and log Z_2/Z_1."""
    log_lik = log_lik_of_the_line(GRID)
    of_labeled = log_lik[np.arange(8), Y[:8]].sum(0)
    log_prior = norm.logpdf(GRID, 0, 2)
    step = np.log(GRID[1] - GRID[0])
    log_z1 = logsumexp(of_labeled + log_prior) + step
    twice = 2 * of_labeled + log_prior - log_z1 + step
    joint = logsumexp(twice + log_lik[8:], axis=2)
    conditional = logsumexp(twice + log_softmax(log_lik[8:], axis=1), axis=2)
    return conditional, joint, logsumexp(twice)


def exact_values_of_words():
    """log PPP by the joint factor in closed form; by the conditional one as an average over draws of the conjugate posterior
    with D counted twice; log Z_2/Z_1.
    """

    def log_beta(a):
        return gammaln(a).sum(-1) - gammaln(a.sum(-1))

    seen = np.array([COUNTS[3], COUNTS[:3].sum(0)])  # N, Y
    x = COUNTS[4]
    multinomial = gammaln(x.sum() + 1) - gammaln(x + 1).sum()
    log_ratio = sum(log_beta(1 + 2 * n) - log_beta(1 + n) for n in seen) + np.log(SHARE) @ [1, 3]
    log_ratio += sum(gammaln(row.sum() + 1) - gammaln(row + 1).sum() for row in COUNTS[:4])
    joint = log_ratio + np.log(SHARE) + multinomial + np.array([log_beta(1 + 2 * n + x) - log_beta(1 + 2 * n) for n in seen])
    rng = np.random.default_rng(0)
    log_phi = np.log([rng.dirichlet(1 + 2 * n, 200_000) for n in seen])
    conditional = log_ratio + np.log(np.exp(log_softmax(np.log(SHARE) + (log_phi @ x).T, axis=1)).mean(0))
    return {"conditional": conditional, "joint": joint}, log_ratio


def test_closed_forms_of_the_textbook_example_are_its_values():
    exact, log_ratio = exact_values_of_words()
    np.testing.assert_allclose(exact["joint"], [-18.0856, -18.5428], atol=1e-4)
    np.testing.assert_allclose(log_ratio, -12.817, atol=1e-3)
    np.testing.assert_allclose(exact["conditional"], [-13.322, -13.742], atol=3e-3)


@pytest.mark.slow
@pytest.mark.parametrize("candidate", ["conditional", "joint"])
def test_the_textbook_example_has_its_exact_values(words, candidate):
    expected = exact_values_of_words()[0][candidate]
    tree = words.exact(method="psis", labels="all", candidate=candidate, draws=4000, random_seed=0)
    error = 4 * np.hypot(tree["exact"].mcse.values[0], tree.attrs["log_normalizer_error"])
    assert (np.abs(tree["exact"].log_ppp.values[0] - expected) < error).all() and error.max() < 0.15
    for approximation, atol in (("laplace", 0.17), ("vi", 0.1)):
        scores = words.score(labels="all", candidate=candidate, approximation=approximation)
        np.testing.assert_allclose(scores.log_ppp.values[0], expected, atol=atol)
        assert ("class_sum_error" in scores) == (candidate == "conditional" and approximation == "laplace")
        if "class_sum_error" in scores:
            assert abs(float(scores.class_sum_error[0])) < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("candidate", ["conditional", "joint"])
def test_a_class_conditional_model_has_the_values_of_quadrature(line, candidate):
    conditional, joint, log_ratio = by_quadrature()
    expected = conditional if candidate == "conditional" else joint
    for approximation, atol in (("laplace", 0.03), ("vi", 0.02), ("ep", 0.005)):
        scores = line.score(labels="all", candidate=candidate, approximation=approximation)
        np.testing.assert_allclose(scores.log_ppp.values, expected, atol=atol)
    tree = line.exact(method="psis", labels="all", candidate=candidate, draws=4000, random_seed=0)
    error = np.hypot(tree["exact"].mcse.values, tree.attrs["log_normalizer_error"])
    assert (np.abs(tree["exact"].log_ppp.values - expected) < 4 * error).all() and error.max() < 0.05
    sums = logsumexp(tree["exact"].log_ppp.values, axis=1)
    if candidate == "conditional":
        np.testing.assert_allclose(logsumexp(expected, axis=1), log_ratio, atol=1e-10)
        np.testing.assert_allclose(sums, tree.attrs["log_normalizer"], atol=1e-10)
    else:
        assert np.ptp(sums) > 0.5


def test_the_class_sum_error_of_a_class_conditional_model_is_small(line):
    assert np.abs(line.score(labels="all", approximation="laplace").class_sum_error).max() < 0.03


def test_a_refit_is_the_mode_of_the_conditional_factor(line):
    scores = line.score("marginal_likelihood", labels="all", approximation="laplace")

    def negative(shift, row, code):
        log_lik = log_lik_of_the_line(np.array([shift]))[:, :, 0]
        pair = log_softmax(log_lik[row])[code]
        return -(log_lik[np.arange(8), Y[:8]].sum() + pair + norm.logpdf(shift, 0, 2))

    for row, code in ((8, 0), (11, 1), (17, 0)):
        best = scipy.optimize.minimize_scalar(negative, args=(row, code), options={"xtol": 1e-12})
        at = scores.sel(candidate=row, label=code)
        terms = float(at.log_lik_labeled + at.log_lik_pseudo + at.log_prior)
        np.testing.assert_allclose(terms, -best.fun, atol=1e-9)
        log_lik = log_lik_of_the_line(np.array([best.x]))[row, :, 0]
        np.testing.assert_allclose(at.log_lik_pseudo, log_softmax(log_lik)[code], atol=1e-6)
        alone = line.engine.fit(line.labeled, extra=(row, code))
        np.testing.assert_allclose(alone.theta, best.x, atol=1e-6)
        np.testing.assert_allclose(alone.value, -best.fun, atol=1e-9)


def test_rules_that_rest_on_class_sums_hold_again(line):
    half = bpls.Hurwicz(0.5)
    values = {
        candidate: line.exact(method="psis", labels=half, candidate=candidate, random_seed=0)["exact"].log_predictive.values
        for candidate in ("conditional", "joint")
    }
    np.testing.assert_allclose(values["conditional"], np.log(0.5), atol=1e-10)
    assert np.ptp(values["joint"]) > 0.5


def test_the_joint_factor_puts_typical_rows_first(line):
    ranked = {
        candidate: line.score(candidate=candidate, approximation="laplace").score.to_numpy().argsort()[::-1]
        for candidate in ("conditional", "joint")
    }
    far = np.abs(X[8:])
    assert far[ranked["conditional"][0]] == far.max() and far[ranked["joint"][0]] < far.max()


def test_a_run_keeps_what_its_candidates_bring(line):
    whole = line.self_train(candidate="joint", rounds=4, progressbar=False, approximation="laplace")
    part = line.self_train(candidate="joint", rounds=2, progressbar=False, approximation="laplace")
    resumed = line.resume(part, rounds=2, progressbar=False)
    assert resumed.attrs["candidate"] == "joint"
    np.testing.assert_array_equal(resumed["history"].candidate, whole["history"].candidate)
    np.testing.assert_allclose(resumed["history"].score, whole["history"].score, atol=1e-10)
    assert (
        line.self_train(rounds=1, progressbar=False, approximation="laplace")["history"].candidate[0]
        != whole["history"].candidate[0]
    )


def test_a_chosen_row_joins_with_its_whole_likelihood(line):
    run = line.self_train(rounds=1, progressbar=False, approximation="laplace")
    row, code = int(run["history"].candidate[0]), int(run["history"].pseudo_label[0])
    labels = np.r_[Y[:8], code]
    signs = 2 * labels - 1
    mean = (signs @ X[np.r_[:8, row]]) / (9 + 1 / 4)  # conjugate
    np.testing.assert_allclose(run["final"]["shift"], mean, atol=1e-8)


def test_an_audit_takes_what_the_exact_values_were_made_with(line):
    audits = [
        line.audit(["ppp"], line.exact(method="psis", candidate=candidate, random_seed=0), labels="predicted")
        for candidate in ("conditional", "joint")
    ]
    for audit in audits:
        assert audit.reliable and np.abs(audit.candidates["error"]).max() < 0.05
    assert not np.allclose(*(audit.candidates["log_ppp"] for audit in audits), atol=0.5)


def test_a_model_of_labels_given_features_has_one_factor():
    with pm.Model() as model:
        pm.Bernoulli("label", logit_p=X * pm.Normal("slope", 0, 2), observed=Y)
    pls = bpls.BPLS(model)
    first, second = (pls.score(candidate=candidate, approximation="laplace") for candidate in ("conditional", "joint"))
    np.testing.assert_array_equal(first.score, second.score)


def test_an_unknown_factor_is_refused(line):
    with pytest.raises(bpls.CriterionError, match=r"candidate='features' is unknown\. Use"):
        line.score(candidate="features", approximation="laplace")
