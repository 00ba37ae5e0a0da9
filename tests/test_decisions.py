"""Label rules: how classes compete or combine, against values combined by hand and by quadrature."""

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import kendalltau

import pymc_bpls as bpls
from pymc_bpls.rules.label_rules import Expected, find_rule
from pymc_bpls.scoring.scorer import label_options

QUIET = {"progressbar": False}


@pytest.fixture(scope="module")
def softmax():
    """Three classes in two features, 18 labeled rows and 9 candidates."""
    import pymc as pm

    rng = np.random.default_rng(3)
    X = rng.normal(size=(27, 2))
    y = np.argmax(X @ rng.normal(size=(2, 3)) * 2 + rng.gumbel(size=(27, 3)), axis=1)
    y[18:] = -1
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1.5, shape=(2, 3))
        pm.Categorical("y", logit_p=X @ beta, observed=y)
    return bpls.BPLS(model)


def both_classes(split):
    """log PPP (m, 2) by quadrature: of the file's pseudo-labels, and of the other class, as both add up to Z_2/Z_1."""
    known = split.candidates["grid_log_ppp"].to_numpy()
    other = known + np.log(np.expm1(reference.exact_normalizer(split) - known))
    return np.where(split.pseudo[:, None] == np.arange(2), known[:, None], other[:, None])


def by_hand(log_ppp, alpha):
    """α · max + (1 − α) · min of PPP itself, relative to the largest of all."""
    ppp = np.exp(log_ppp - log_ppp.max())
    return np.log(alpha * ppp.max(axis=1) + (1 - alpha) * ppp.min(axis=1)) + log_ppp.max()


@pytest.mark.parametrize("alpha", (0.0, 0.3, 1.0))
def test_hurwicz_is_a_mixture_of_the_largest_and_the_smallest_ppp(softmax, alpha):
    every, mixed = (
        softmax.score(labels="all", approximation="laplace"),
        softmax.score(labels=bpls.Hurwicz(alpha), approximation="laplace"),
    )
    np.testing.assert_allclose(mixed["log_ppp"], by_hand(every["log_ppp"].to_numpy(), alpha), rtol=1e-9)
    best = every["label"].to_numpy()[every["score"].argmax("label")]
    assert (mixed["pseudo_label"] == best).all()
    assert mixed["log_lik_labeled"].dims == ("candidate", "label")
    assert mixed.attrs["labels"] == f"Hurwicz({alpha})"


def test_expected_is_the_mean_by_predicted_probabilities(softmax):
    averaged = bpls.BPLS(softmax.problem.model, predictor="laplace")
    every, expected = (averaged.score(labels=labels, approximation="laplace") for labels in ("all", "expected"))
    p = averaged.predict_proba(every["candidate"].to_numpy()).to_numpy()
    ppp = np.exp(every["log_ppp"].to_numpy())
    np.testing.assert_allclose(np.exp(expected["log_ppp"]), (p * ppp).sum(axis=1), rtol=1e-9)
    assert (expected["pseudo_label"] == averaged.score(approximation="laplace")["pseudo_label"]).all()


def test_hurwicz_of_one_selects_what_all_selects(softmax, small):
    for pls in (softmax, small):
        runs = [
            pls.self_train(labels=labels, approximation="laplace", **QUIET)["history"].to_dataset()
            for labels in ("all", bpls.Hurwicz(1))
        ]
        for name in ("candidate", "pseudo_label"):
            assert (runs[0][name] == runs[1][name]).all()
        np.testing.assert_allclose(runs[0]["score"], runs[1]["score"], rtol=1e-12)


def test_two_classes_of_exact_values_tie_at_one_half_and_turn_round_below(sim1_informed):
    """Σ_y PPP(i, y) = Z_2/Z_1 for every i, so that ½ max + ½ min is the same for all, and α < ½ prefers the least certain."""
    runs = {a: sim1_informed.exact(method="psis", labels=bpls.Hurwicz(a), random_seed=1)["exact"] for a in (0.2, 0.5, 0.8)}
    np.testing.assert_allclose(runs[0.5]["log_predictive"], np.log(0.5), atol=1e-10)
    np.testing.assert_allclose(runs[0.5]["prob_best"], 1 / runs[0.5].sizes["candidate"])
    order = {a: np.argsort(run["log_predictive"].to_numpy()) for a, run in runs.items()}
    assert (order[0.2] == order[0.8][::-1]).all()
    every = np.exp(sim1_informed.exact(method="psis", labels="all", random_seed=1)["exact"]["log_predictive"].to_numpy())
    assert order[0.2][-1] == np.abs(every[:, 0] - 0.5).argmin()


@pytest.mark.parametrize(
    ("method", "labels"),
    (("psis", bpls.Hurwicz(0.7)), ("psis", Expected()), pytest.param("nuts", bpls.Hurwicz(0.2), marks=pytest.mark.slow)),
    ids=("psis-Hurwicz", "psis-expected", "nuts-Hurwicz"),
)
def test_exact_counterparts_are_those_of_quadrature_and_rank_alike(sim1, sim1_informed, labels, method):
    """`sim1_q2` has log PPP of both classes by quadrature; combined by hand it is what `exact` and `score` give."""
    grid = both_classes(sim1)
    scorer = sim1_informed.scorer
    options = label_options(scorer, labels, scorer.fit(sim1_informed.labeled), sim1.pool)
    true = options.weigh(grid).combined(grid)
    sizes = {"draws": 1000, "chains": 4} | ({"tune": 500, "progressbar": False} if method == "nuts" else {})
    run = sim1_informed.exact(method=method, labels=labels, random_seed=2, **sizes)
    exact = run["exact"]
    assert (np.abs(exact["log_ppp"] - true) < 4 * np.hypot(exact["mcse"], run.attrs["log_normalizer_error"]) + 1e-6).all()
    scores = sim1_informed.score(labels=labels, approximation="laplace")
    assert kendalltau(scores["score"], true)[0] > 0.98
    np.testing.assert_allclose(scores["log_ppp"], true, atol=0.02)


@pytest.mark.slow
def test_an_audit_of_a_combining_rule_compares_combined_values(softmax):
    audit = softmax.audit(["ppp", "ppp[vi]", "variance"], labels=bpls.Hurwicz(0.4), method="psis", random_seed=1)
    assert audit.reliable and audit.candidates["score"].dims == ("criterion", "candidate")
    assert "variance" in audit.refused and "no probability" in audit.refused["variance"]
    assert np.abs(audit.candidates["error"].sel(criterion="ppp")).max() < 0.2
    tree = softmax.exact(method="psis", labels=bpls.Hurwicz(0.4), random_seed=1)
    again = softmax.audit(["ppp"], exact=tree)
    np.testing.assert_allclose(again.candidates["log_ppp"], audit.candidates["log_ppp"], atol=0.02)
    with pytest.raises(bpls.CriterionError, match="which classes"):
        softmax.audit(["ppp"], exact=np.zeros(9), labels="expected")


def test_a_run_by_a_rule_is_audited_along_and_resumed(small):
    run = small.self_train(labels=bpls.Hurwicz(0.8), rounds=4, approximation="laplace", **QUIET)
    assert run.attrs["labels"] == "Hurwicz(0.8)"
    on = small.resume(small.self_train(labels=bpls.Hurwicz(0.8), rounds=2, approximation="laplace", **QUIET), rounds=2, **QUIET)
    assert (on["history"]["candidate"] == run["history"]["candidate"]).all()
    along = small.audit_along(run, every=2, criteria=["ppp"], random_seed=0, **QUIET)
    assert along.reliable and (along.rounds["run_regret"] >= 0).all()


@given(alpha=st.floats(0, 1), seed=st.integers(0, 99))
def test_hurwicz_lies_between_its_ends_whatever_the_order_of_classes(alpha, seed):
    rng = np.random.default_rng(seed)
    log_values = rng.normal(scale=30, size=(6, 4))
    weighing = bpls.Hurwicz(alpha).weigh(log_values, log_values, np.ones(4, bool))
    combined = weighing.combined(log_values)
    assert (log_values.min(axis=1) - 1e-9 <= combined).all() and (combined <= log_values.max(axis=1) + 1e-9).all()
    order = rng.permutation(4)
    turned = bpls.Hurwicz(alpha).weigh(log_values[:, order], log_values, np.ones(4, bool))
    np.testing.assert_allclose(turned.combined(log_values[:, order]), combined, atol=1e-9)
    assert (order[turned.codes] == weighing.codes).all()
    assert logsumexp(weighing.log_weights, axis=1) == pytest.approx(0)


def test_a_probability_is_combined_as_one(softmax):
    every, mixed = (softmax.score("probability", labels=labels) for labels in ("all", bpls.Hurwicz(0.6)))
    p = every["score"].to_numpy()
    np.testing.assert_allclose(np.exp(mixed["score"]), 0.6 * p.max(axis=1) + 0.4 * p.min(axis=1), rtol=1e-9)


@pytest.mark.parametrize("alpha", (-0.1, 1.5, float("nan"), "half"))
def test_no_degree_of_optimism(alpha):
    with pytest.raises(bpls.CriterionError, match=r"Give a number from 0 \(min\) to 1 \(max\)"):
        bpls.Hurwicz(alpha)


@pytest.mark.parametrize(
    ("labels", "said"), [("best", "is unknown"), ("Hurwicz(much)", "is unknown"), (3, "not a rule"), (None, "not a rule")]
)
def test_a_rule_that_is_unknown(small, labels, said):
    with pytest.raises(bpls.CriterionError, match=said):
        small.score(labels=labels, approximation="laplace")
    assert find_rule("Hurwicz(0.25)") == bpls.Hurwicz(0.25)


@pytest.mark.parametrize("criterion", ("variance", "entropy", "random"))
def test_what_is_no_probability_does_not_combine(small, criterion):
    with pytest.raises(bpls.CriterionError, match="no probability"):
        small.score(criterion, labels="expected", approximation="laplace")
