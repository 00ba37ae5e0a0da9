"""The criteria: one likelihood written two ways, criteria of one's own, refusals, ties, extreme linear predictors."""

import jax
import numpy as np
import pymc as pm
import pytest
from reference import logistic

import pymc_bpls as bpls
from pymc_bpls import Criterion, CriterionError, ModeError
from pymc_bpls.approximations.predictions.predictive import Predictive
from pymc_bpls.engine.modes.mode import Mode
from pymc_bpls.engine.newton.curvature import Matrix
from pymc_bpls.scoring.criteria import CRITERIA
from pymc_bpls.scoring.fitted import ModelFit
from pymc_bpls.scoring.results import rank_pairs

X = np.random.default_rng(2).normal(size=(24, 1))
THREE = np.digitize(2 * X[:, 0] + np.random.default_rng(8).logistic(size=24), [-1, 1])


@pytest.fixture(scope="module")
def softmax():
    """Three classes declared by codes, and by indicator rows with one trial."""
    unlabeled = np.arange(24) >= 16
    codes, indicators = np.where(unlabeled, -1, THREE), np.eye(3, dtype=int)[np.where(unlabeled, 0, THREE)]
    both = []
    for distribution, parameters, observed in ((pm.Categorical, {}, codes), (pm.Multinomial, {"n": 1}, indicators)):
        with pm.Model() as model:
            a, b = pm.Normal("a", shape=3), pm.Normal("b", shape=3)
            distribution("label", p=pm.math.softmax(a + X * b, axis=1), observed=observed, **parameters)
        both.append(bpls.BPLS(model, unlabeled=unlabeled))
    return both


@pytest.mark.parametrize("criterion", ["ppp", "probability", "variance"])
def test_class_codes_and_indicator_rows_give_the_same_scores(softmax, criterion):
    one, other = (pls.score(criterion, labels="all", approximation="laplace") for pls in softmax)
    np.testing.assert_allclose(one["score"], other["score"], rtol=0, atol=1e-9)
    np.testing.assert_array_equal(one["pseudo_label"], other["pseudo_label"])
    assert one["label"].to_numpy().tolist() == [0, 1, 2]


def test_probabilities_of_all_classes_sum_to_one(softmax):
    for pls in softmax:
        np.testing.assert_allclose(pls.predict_proba().sum("class"), 1, atol=1e-12)
        np.testing.assert_allclose(pls.score("probability", labels="all")["score"].sum("label"), 1, atol=1e-12)


def test_a_criterion_of_ones_own_is_evaluated_from_its_terms(sim1, sim1_flat):
    quarter = Criterion("quarter", lambda t: t.log_lik_labeled + t.log_lik_pseudo - 0.25 * t.log_det, k=1, prior=False)
    scores = sim1_flat.score(quarter, approximation="laplace")
    c = sim1.candidates
    np.testing.assert_allclose(scores["score"], c["mle_loglik"] - 0.25 * c["mle_logdet_info"], rtol=0, atol=1e-6)
    assert scores.attrs["criterion"] == "quarter"


def test_under_a_flat_prior_ibpls_is_ubpls(sim1_flat):
    ibpls, ubpls = sim1_flat.score("ibpls"), sim1_flat.score("ubpls")
    np.testing.assert_allclose(ibpls["score"], ubpls["score"], rtol=0, atol=1e-9)
    np.testing.assert_allclose(ibpls["log_prior"], 0, atol=1e-12)


def test_terms_that_a_criterion_does_not_have_are_absent(sim1_flat, sim1_informed):
    assert set(sim1_flat.score("likelihood").data_vars) == {
        "score",
        "pseudo_label",
        "log_lik_labeled",
        "log_lik_pseudo",
        "converged",
    }
    assert set(sim1_flat.score("probability").data_vars) == {"score", "pseudo_label"}
    assert "log_ppp" not in sim1_flat.score("ppp", approximation="laplace")
    assert {"log_ppp", "class_sum_error"} <= set(sim1_informed.score("ppp", labels="all", approximation="laplace").data_vars)
    assert "log_evidence" in sim1_informed.score("marginal_likelihood", approximation="laplace")
    assert not any(value.isnull().any() for value in sim1_informed.score("ppp", approximation="laplace").data_vars.values())


def test_the_class_sum_error_is_that_of_the_stored_shared_integrals(sim1, sim1_informed):
    scores = sim1_informed.score("ppp", labels="all", approximation="laplace")
    totals = np.logaddexp.reduce(scores["log_ppp"].to_numpy(), axis=1)
    shared = totals - scores["class_sum_error"].to_numpy()
    np.testing.assert_allclose(shared, shared[0], atol=1e-9)
    # sum over classes of the exact PPP is one number, here read off by quadrature
    grid = np.stack(np.meshgrid(np.linspace(-3, 9, 801), np.linspace(-16, 4, 1201), indexing="ij"), axis=-1)
    eta = grid @ sim1.X[: sim1.n].T
    log_lik = -np.logaddexp(0, np.where(sim1.y[: sim1.n] == 1, -eta, eta)).sum(axis=-1)
    log_prior = -0.5 * (grid**2).sum(axis=-1) / 6.25
    exact = np.log(np.exp(2 * log_lik + log_prior).sum()) - np.log(np.exp(log_lik + log_prior).sum())
    assert abs(shared[0] - exact) < 0.1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"criterion": "pppp"}, "criterion=\"pppp\" is unknown. Use one of 'ppp'"),
        ({"expansion": "mean"}, 'expansion="mean" is unknown'),
        ({"labels": "some"}, 'labels="some" is unknown'),
        ({"approximation": "exact"}, 'approximation="exact" is unknown'),
        ({"criterion": "marginal_likelihood", "expansion": "mle"}, 'not defined for "marginal_likelihood"'),
        ({"criterion": "variance", "expansion": "mle"}, 'not defined for "variance"'),
    ],
)
def test_what_is_not_defined_is_refused(sim1_flat, call, message):
    with pytest.raises(CriterionError, match=message):
        sim1_flat.score(**call)


def test_a_criterion_has_k_one_or_two():
    with pytest.raises(CriterionError, match="k=3"):
        Criterion("thrice", lambda t: t.log_det, k=3)


def test_the_best_of_tied_candidates_is_the_first_one():
    scores = np.array([1.0, np.nan, 3.0 - 5e-11, 3.0, 2.0, 3.0 - 1e-9])
    pairs, values = rank_pairs(scores, np.arange(6) % 2)
    assert pairs[:, 0].tolist() == [2, 3, 5, 4, 0]
    assert pairs[:, 1].tolist() == [0, 1, 1, 0, 0]
    np.testing.assert_array_equal(values, scores[pairs[:, 0]])


def test_all_classes_of_a_candidate_compete():
    pairs, _ = rank_pairs(np.array([[0.0, 5.0], [4.0, 6.0]]), np.array([1, 1]))
    assert pairs.tolist() == [[1, 1], [0, 1], [1, 0], [0, 0]]


def test_of_classes_that_are_rated_alike_the_pseudo_label_competes_alone():
    scores = np.array([[-2.0, -2.0 - 1e-12, -3.0], [1e9, -1.0, 1e9 + 1e-2]])
    pairs, _ = rank_pairs(scores, np.array([1, 2]))
    assert pairs.tolist() == [[1, 2], [1, 1], [0, 1], [0, 2]]


@pytest.mark.parametrize("criterion", ["entropy", "variance"])
def test_the_predicted_class_breaks_a_tie_within_a_row(sim1_informed, criterion):
    scores = sim1_informed.score(criterion, labels="all", approximation="laplace")
    assert np.ptp(scores["score"].to_numpy(), axis=1).max() < 1e-10
    predicted = sim1_informed.predict_proba(scores["candidate"].to_numpy()).to_numpy().argmax(axis=1)
    assert scores["pseudo_label"].to_numpy().tolist() == predicted.tolist()
    assert 0 < predicted.mean() < 1


def test_of_identical_rows_the_first_is_selected(table):
    features, y, _ = table
    doubled = np.vstack([features[:16], features[12:16]])
    run = bpls.BPLS(logistic(doubled, y[:20])).self_train("probability", rounds=1, progressbar=False)
    assert int(run["history"]["candidate"][0]) < 16
    np.testing.assert_allclose(run["history"]["gap"], 0, atol=1e-12)


@pytest.fixture(scope="module")
def hierarchy():
    group = np.arange(24) % 4
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        effect = pm.Normal("effect", 0, scale, shape=4)
        pm.Bernoulli("label", logit_p=effect[group] + 1.5 * X[:, 0], observed=np.where(np.arange(24) < 18, THREE > 0, -1))
    return bpls.BPLS(model, initvals={"scale": 1.0})


@pytest.mark.parametrize(("criterion", "expansion"), [("ubpls", "map"), ("reference", "map"), ("ppp", "mle")])
def test_a_hierarchy_cannot_drop_its_prior(hierarchy, monkeypatch, criterion, expansion):
    labeled, predictive = hierarchy.labeled, Predictive(hierarchy.engine)
    somewhere = Mode(np.zeros(5), 0.0, Matrix(np.eye(5)), 0.0, 0.0, 0)
    monkeypatch.setattr(type(hierarchy.scorer), "fit", lambda *_, **__: ModelFit(labeled, somewhere, predictive))
    with pytest.raises(CriterionError, match='the density of "effect" depends on "scale"'):
        hierarchy.score(criterion, expansion=expansion, approximation="laplace")


def separated(flat):
    x = np.r_[-3.0, -2, -1, 1, 2, 3, 0.5, -0.5]
    return bpls.BPLS(logistic(np.column_stack([np.ones(8), x]), np.r_[0, 0, 0, 1, 1, 1, -1, -1], flat=flat))


def test_separated_rows_are_refused_without_the_prior_and_the_direction_is_named():
    with pytest.raises(ModeError, match=r'grows without bound along "b\[1\]": the labeled rows are separated'):
        separated(flat=False).score("reference")
    with pytest.raises(ModeError, match=r'rows are separated along "b\[1\]", where the prior is flat'):
        separated(flat=True).score("reference")


def test_more_parameters_than_rows_are_refused_without_the_prior():
    wide = np.random.default_rng(0).normal(size=(6, 5))
    with pytest.raises(ModeError, match=r"4 labeled rows do not identify|grows without bound"):
        bpls.BPLS(logistic(wide, np.array([0, 1, 0, 1, -1, -1]))).score("reference")


NAMES = ("ppp", "ibpls", "ubpls", "marginal_likelihood", "reference", "likelihood")
BY_A_FIT = ("probability", "variance", "predictive", "entropy", "bald", "random")


def test_the_named_criteria_are_those_of_the_paper_and_their_comparators():
    assert set(CRITERIA) == {*NAMES, *BY_A_FIT}


@pytest.mark.parametrize("name", [*NAMES, *BY_A_FIT])
def test_every_named_criterion_scores_every_candidate(name, sim1, sim1_informed):
    scores = sim1_informed.score(name, approximation="laplace")
    assert scores.sizes == {"candidate": sim1.m}
    assert np.isfinite(scores["score"]).all()
    assert scores["score"].to_series().nunique() > 1


@pytest.mark.parametrize("eta", [800.0, -800.0, 400.0, 35.0, 0.0])
@pytest.mark.parametrize("code", [0, 1])
def test_a_bernoulli_has_its_exact_value_slope_and_curvature_far_out(small, eta, code):
    density = small.scorer.problem.density
    row = tuple(values[0] for values in density.data)
    x = small_row(density)
    theta = np.array([eta, 0.0])
    value = jax.jit(lambda t: density.structure.log_lik_row(t, np.asarray(code), row))
    sign = 1.0 if code == 1 else -1.0
    p_other = 1 / (1 + np.exp(np.clip(sign * eta, -700, 700)))
    np.testing.assert_allclose(value(theta), -np.logaddexp(0, -sign * eta), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(jax.grad(value)(theta), sign * p_other * x, rtol=1e-10, atol=1e-15)
    curvature = -p_other * (1 - p_other) * np.outer(x, x)
    np.testing.assert_allclose(jax.hessian(value)(theta), curvature, rtol=1e-9, atol=1e-14)


def small_row(density):
    """The features of the first row of the small table."""
    [features] = [values for values in density.data if np.ndim(values) == 2]
    return features[0]
