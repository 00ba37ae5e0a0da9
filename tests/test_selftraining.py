"""Self-training: what is added, when it stops, what the curve measures, and that scikit-learn sees the same models."""

import math
import time

import numpy as np
import pymc as pm
import pytest
from reference import logistic
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import pymc_bpls as bpls
from pymc_bpls import BPLSError, CriterionError, LabelError, RowError
from pymc_bpls.compute.library import LIBRARY
from pymc_bpls.model.pool_terms import PoolTerms
from pymc_bpls.selftraining.history import History
from pymc_bpls.selftraining.verdict import say_pool, say_verdict

N, M, TEST = 12, 8, np.arange(20, 26)


def train(pls, criterion="probability", **settings):
    return pls.self_train(criterion, progressbar=False, **settings)


def ridge(X, y, weights=None):
    """Scikit-learn's logistic regression with the penalty that is a Normal(0, 2.5) prior, intercept included."""
    fit = LogisticRegression(C=2.5**2, fit_intercept=False, tol=1e-12, max_iter=10_000)
    return fit.fit(X, y, sample_weight=weights)


def test_the_curve_starts_at_the_supervised_model_of_scikit_learn(whole, table):
    X, y, truth = table
    fit = ridge(X[:N], y[:N])
    start = whole["curve"].sel(n_pseudo=0)
    np.testing.assert_allclose(start["accuracy"], fit.score(X[TEST], truth[TEST]))
    np.testing.assert_allclose(start["log_score"], -log_loss(truth[TEST], fit.predict_proba(X[TEST])), atol=1e-6)


def test_a_run_makes_the_choices_of_self_training_with_scikit_learn(whole, table):
    X, y, truth = table
    rows, labels, pool = list(range(N)), list(y[:N]), list(range(N, N + M))
    for chosen, label, log_score in zip(
        whole["history"]["candidate"].to_numpy(),
        whole["history"]["pseudo_label"].to_numpy(),
        whole["curve"]["log_score"].to_numpy()[1:],
        strict=True,
    ):
        p = ridge(X[rows], labels).predict_proba(X[pool])
        best = int(p.max(axis=1).argmax())
        assert (pool[best], int(p[best].argmax())) == (chosen, label)
        rows, labels = [*rows, pool.pop(best)], [*labels, int(label)]
        expected = -log_loss(truth[TEST], ridge(X[rows], labels).predict_proba(X[TEST]))
        np.testing.assert_allclose(log_score, expected, atol=1e-6)


def test_test_rows_are_never_candidates_and_the_rest_of_the_pool_is_used_up(whole):
    assert sorted(whole["history"]["candidate"].to_numpy()) == list(range(N, N + M))
    assert whole.attrs["stop_reason"] == "the pool is empty"
    assert whole["curve"]["n_pseudo"].to_numpy().tolist() == list(range(M + 1))
    assert whole["history"]["n_labeled"].to_numpy().tolist() == list(range(N + 1, N + M + 1))
    assert whole["history"]["round"].to_numpy().tolist() == list(range(1, M + 1))


def test_the_final_model_holds_every_label_and_its_mode(whole, table):
    X, y, _ = table
    rows, labels = whole["labeled"]["row"].to_numpy(), whole["labeled"]["label"].to_numpy()
    np.testing.assert_array_equal(rows, np.r_[np.arange(N), whole["history"]["candidate"]])
    np.testing.assert_array_equal(labels, np.r_[y[:N], whole["history"]["pseudo_label"]])
    np.testing.assert_allclose(whole["final"]["b"], ridge(X[rows], labels).coef_[0], atol=1e-5)


def test_without_test_rows_every_unlabeled_row_is_used_and_the_curve_has_no_accuracy(small):
    run = train(small, rounds=2)
    assert run["history"].sizes["step"] == 2
    assert "accuracy" not in run["curve"]
    assert "unknown" in run.attrs["verdict"]


def test_the_verdict_counts_the_rows_won_and_lost(whole):
    accuracy = whole["curve"]["accuracy"].to_numpy()
    assert f"{accuracy[-1]:.3f} with 8 pseudo-labels and {accuracy[0]:.3f} without" in whole.attrs["verdict"]
    assert "nothing was gained beyond chance" in whole.attrs["verdict"]


def test_a_number_of_rounds_ends_the_run(small, test_rows, whole):
    run = train(small, test=test_rows, rounds=3)
    assert run.attrs["stop_reason"] == "3 rounds are done"
    np.testing.assert_array_equal(run["history"]["candidate"], whole["history"]["candidate"][:3])
    np.testing.assert_array_equal(run["curve"]["n_pseudo"], range(4))


def test_no_rounds_leave_the_supervised_model(small, test_rows):
    run = train(small, test=test_rows, rounds=0)
    assert run["history"].sizes["step"] == 0
    assert run["curve"]["n_pseudo"].to_numpy().tolist() == [0]
    np.testing.assert_allclose(run["final"]["b"], small.fit().mode["b"])


def test_a_batch_adds_the_best_of_one_scoring(small, test_rows):
    run = train(small, test=test_rows, batch_size=3)
    best = small.score("probability").isel(candidate=slice(0, M)).sortby("score", ascending=False)
    np.testing.assert_array_equal(run["history"]["candidate"][:3], best["candidate"][:3])
    np.testing.assert_allclose(run["history"]["score"][:3], best["score"][:3], atol=1e-12)
    assert run["history"]["round"].to_numpy().tolist() == [1, 1, 1, 2, 2, 2, 3, 3]
    assert run["curve"]["n_pseudo"].to_numpy().tolist() == [0, 3, 6, 8]


def test_a_batch_takes_each_row_once_when_all_classes_compete(small, test_rows):
    run = train(small, labels="all", test=test_rows, batch_size=4)
    assert sorted(run["history"]["candidate"].to_numpy()) == list(range(N, N + M))


def test_a_stop_rule_sees_the_history_and_gives_the_reason(small, test_rows):
    seen = []

    def unsure(history):
        seen.append(history.sizes["step"])
        return "unsure" if history.sizes["step"] >= 2 else None

    run = train(small, test=test_rows, stop=[lambda history: None, unsure])
    assert run.attrs["stop_reason"] == "unsure"
    assert seen == [0, 1, 2]
    assert run["history"].sizes["step"] == 2


def test_the_gap_of_a_batch_is_the_distance_to_the_best_row_that_is_left(small):
    best = np.sort(small.score("probability")["score"])[::-1]
    run = small.self_train("probability", rounds=2, batch_size=3, progressbar=False)
    np.testing.assert_allclose(run["history"]["gap"][:3], best[:3] - best[3], atol=1e-12)
    assert (run["history"]["gap"] >= 0).all()


def test_the_gap_of_a_class_that_is_due_is_to_the_best_row_of_that_class(small):
    scores = small.score("probability", labels="all")["score"].to_numpy()
    run = small.self_train("probability", labels="all", class_balance={0: 1, 1: 0}, rounds=1, progressbar=False)
    best = np.sort(scores[:, 0])[::-1]
    np.testing.assert_allclose(run["history"]["gap"], best[0] - best[1], atol=1e-12)


def test_rounds_are_counted_from_the_run_s_start(small):
    run = small.self_train("probability", rounds=3, batch_size=2, progressbar=False)
    again = small.resume(run, rounds=1, progressbar=False)
    assert again.attrs["stop_reason"] == "4 rounds are done"
    assert 'Ended after 4 rounds of "probability" (mode): 4 rounds are done.' in str(bpls.summary(again))

    def fails(history):
        raise RuntimeError("my own")

    with pytest.warns(bpls.BPLSWarning, match="ended early"):
        assert small.resume(run, stop=fails, progressbar=False).attrs["stop_reason"].startswith("round 4 failed with Runtime")
    assert small.resume(run, rounds=0, progressbar=False).attrs["stop_reason"] == "3 rounds are done"


def test_the_gap_is_the_distance_to_the_best_other_candidate(whole, small):
    best = np.sort(small.score("probability")["score"][:M])[::-1]
    np.testing.assert_allclose(whole["history"]["gap"][0], best[0] - best[1], atol=1e-12)
    assert np.isnan(whole["history"]["gap"][-1])


def test_class_balance_forces_the_shares(small, test_rows, table):
    run = train(small, labels="all", test=test_rows, class_balance={0: 0.25, 1: 0.75})
    labels = run["history"]["pseudo_label"].to_numpy()
    for step in range(1, M + 1):
        assert abs((labels[:step] == 1).sum() - 0.75 * step) < 1
    labeled = train(small, labels="all", test=test_rows, class_balance="labeled")["history"]["pseudo_label"]
    assert abs((labeled == 1).sum() - M * table[1][:N].mean()) < 1


def test_a_criterion_that_rates_classes_alike_adds_the_predicted_one(small, test_rows):
    for criterion in ("entropy", "variance"):
        every = train(small, criterion, labels="all", test=test_rows)["history"].to_dataset()
        predicted = train(small, criterion, test=test_rows)["history"].to_dataset()
        assert every["candidate"].to_numpy().tolist() == predicted["candidate"].to_numpy().tolist()
        assert every["pseudo_label"].to_numpy().tolist() == predicted["pseudo_label"].to_numpy().tolist()
        assert len(np.unique(predicted["pseudo_label"])) == 2


def test_shares_that_are_not_kept_are_said(small, test_rows):
    shares = {0: 0.1, 1: 0.9}
    kept = train(small, labels="all", test=test_rows, class_balance=shares)
    assert "class_balance" not in kept.attrs["verdict"]
    run = train(small, "entropy", labels="all", test=test_rows, class_balance=shares)
    ones = int(run["history"]["pseudo_label"].sum())
    said = (
        f"class_balance was not kept: it asks for 10% of class 0, 90% of class 1, and {M - ones}, {ones} were added; "
        f"{M - ones} times no candidate had the class that was due."
    )
    assert ones < 3 and said in run.attrs["verdict"] and said in str(bpls.summary(run))
    first = train(small, "entropy", labels="all", rounds=3, test=test_rows, class_balance=shares)
    assert small.resume(first, test=None, progressbar=False).attrs["verdict"] == run.attrs["verdict"]


def test_one_labeled_class_is_said_to_label_the_whole_pool(table):
    X, _, truth = table
    y = np.where((np.arange(26) < 12) & (truth == 1), 1, -1)
    with pytest.warns(bpls.BPLSWarning, match=r'never a pseudo-label under labels="predicted", and every one is of class 1\.'):
        pls = bpls.BPLS(logistic(X, y))
    run = train(pls, rounds=3)
    assert run["history"]["pseudo_label"].to_numpy().tolist() == [1, 1, 1]
    said = "All labeled rows and 3 of 3 pseudo-labels are of class 1: what class 0 looks like is known from the prior alone."
    assert said in run.attrs["verdict"] and said in str(bpls.summary(run))
    forced = train(pls, rounds=3, class_balance={0: 0.5, 1: 0.5}).attrs["verdict"]
    assert "it asks for 50% of class 0, 50% of class 1, and 0, 3 were added; 3 times no candidate" in forced


def test_a_class_that_nobody_labeled_is_said_beside_its_pseudo_labels():
    codes = [0, 1, 2, 1]
    history = History([{"code": code} for code in codes], [{"n_pseudo": 4}])
    text = say_verdict(
        history, np.array([0, 1, 1]), np.array(["a", "b", "c"]), np.array([0.5, 0.5, 0.0]), PoolTerms(reached=("x",))
    )
    assert "No labeled row is of class c, and 1 of 4 pseudo-labels are." in text
    assert "50% of class a, 50% of class b, 0% of class c, and 1, 2, 1 were added; 2 times" in text


def test_a_gain_is_not_told_to_be_information_of_a_pool_that_has_none():
    right = [np.arange(40) < 10, np.arange(40) < 30]
    history = History([{"code": 1}], [{"n_pseudo": 0}, {"n_pseudo": 1, "invented_information": 0.5}], right)
    text = say_verdict(history, np.array([0, 1]), np.array(["a", "b"]), None, PoolTerms())
    assert "self-training helped. As declared, this model describes y given x only, so the gain is no information" in text
    assert say_pool(PoolTerms()) not in text and "by 0.5 nats" in text
    assert "no information" not in say_verdict(history, np.array([0, 1]), np.array(["a", "b"]), None, PoolTerms(reached=("x",)))
    none = History([{"code": 1}], [{"n_pseudo": 0}, {"n_pseudo": 1}], [right[0], right[0]])
    said = say_verdict(none, np.array([0, 1]), np.array(["a", "b"]), None, PoolTerms())
    assert f"nothing was gained beyond chance. {say_pool(PoolTerms())}" in said


def test_shares_of_unknown_classes_are_refused(small):
    for shares in ({2: 1.0}, "equal", 0.5):
        with pytest.raises(LabelError, match=r"does not give shares of the classes \[0, 1\]"):
            train(small, class_balance=shares)


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ({0: 0.2}, r"\{0: 0.2\} add up to 0\.2\. Give numbers from 0 to 1 that make 1"),
        ({}, r"\{\} add up to 0\."),
        ({0: 0.2, 1: 0.9}, r"add up to 1.1\. Give numbers from 0 to 1 that make 1"),
        ({0: 0.0, 1: 0.0}, r"add up to 0\."),
        ({0: 20, 1: 80}, r"add up to 100\."),
        ({0: -0.5, 1: 1.5}, r"that are no numbers from 0 to 1"),
        ({0: np.nan, 1: 1.0}, r"that are no numbers from 0 to 1"),
        ({0: "a fifth", 1: 0.8}, r"that are no numbers from 0 to 1"),
        ({0: None, 1: 0.8}, r"that are no numbers from 0 to 1"),
        ({0: 0.5, "0": 0.2, 1: 0.3}, r"names a class twice|does not give shares"),
    ],
)
def test_shares_that_leave_something_open_are_refused(small, shares, said):
    with pytest.raises(LabelError, match=said):
        train(small, class_balance=shares)


@pytest.mark.parametrize("shares", [{0: 0, 1: 1}, {1: 1}])
def test_a_class_of_share_0_gets_no_pseudo_label(small, shares):
    run = train(small, labels="all", rounds=4, class_balance=shares)
    assert run["history"]["pseudo_label"].to_numpy().tolist() == [1] * 4


def test_pseudo_labels_enter_with_their_weight_and_are_scored_in_full(small, table):
    X, _, _ = table
    run = train(small, rounds=4, pseudo_weight=0.3)
    held = run["labeled"]
    assert held["weight"].to_numpy().tolist() == [1.0] * N + [0.3] * 4
    fit = ridge(X[held["row"].to_numpy()], held["label"].to_numpy(), held["weight"].to_numpy())
    np.testing.assert_allclose(run["final"]["b"], fit.coef_[0], atol=1e-5)
    np.testing.assert_allclose(run["history"]["score"][0], small.score("probability")["score"].max(), atol=1e-12)


def test_a_weight_may_be_a_function_of_the_score(small, tmp_path):
    run = train(small, rounds=3, pseudo_weight=lambda score: 0.5 * score)
    np.testing.assert_allclose(run["labeled"]["weight"][N:], 0.5 * run["history"]["score"])
    with pytest.raises(CriterionError, match="weighted pseudo-labels by a function"):
        small.resume(run, rounds=1, progressbar=False)
    longer = small.resume(run, pseudo_weight=lambda score: 0.25 * score, rounds=1, progressbar=False)
    np.testing.assert_allclose(longer["labeled"]["weight"][-1], 0.25 * longer["history"]["score"][-1])
    audit = small.audit_along(run, every=1, criteria=["ppp[ep]"], random_seed=0, progressbar=False)
    assert audit.tree["exact_run"].sizes["step"] == 3


def test_a_weight_that_is_no_weight_ends_the_run_in_words(small):
    for wrong in (lambda score: -score, lambda score: None, lambda score: np.array([0.5])):
        with pytest.raises(CriterionError, match=r"pseudo_weight= gave .* is not a positive number"):
            train(small, rounds=3, pseudo_weight=wrong)
    weights = iter([0.5, -1.0])
    run = train(small, rounds=3, pseudo_weight=lambda score: next(weights))
    assert run["history"].sizes["step"] == 1
    assert "is not a positive number" in run.attrs["stop_reason"]


@pytest.fixture(scope="module")
def with_container(table):
    X, y, _ = table
    with pm.Model() as model:
        data = pm.Data("X", X[:20])
        b = pm.Normal("b", 0, 2.5, shape=2)
        pm.Bernoulli("label", logit_p=data @ b, observed=y[:20])
    return bpls.BPLS(model, predictor="map")


def test_new_rows_for_a_container_are_evaluated_as_test_rows_of_the_table(with_container, whole, table):
    X, _, truth = table
    run = train(with_container, test=({"X": X[TEST]}, truth[TEST]))
    np.testing.assert_array_equal(run["history"]["candidate"], whole["history"]["candidate"])
    for name in ("accuracy", "log_score"):
        np.testing.assert_allclose(run["curve"][name], whole["curve"][name], atol=1e-10)


@pytest.mark.parametrize(
    ("test", "error", "message"),
    [
        (([26], [0]), RowError, r"test= names rows \[26\]"),
        (([20, 20], [0, 1]), RowError, "more than once"),
        (([20, 21], [0]), LabelError, "test= has 2 rows"),
        (([20], [7]), LabelError, "the first is 7"),
        ((["a"], [0]), RowError, "integer row positions"),
        ([20], LabelError, "not a pair"),
        (({"X": np.ones((1, 2))}, [0]), BPLSError, '"X"'),
    ],
)
def test_test_rows_that_do_not_exist_are_refused(small, test, error, message):
    with pytest.raises(error, match=message):
        train(small, test=test)


@pytest.mark.parametrize("settings", [{"rounds": -1}, {"batch_size": 0}, {"pseudo_weight": 0.0}, {"pseudo_weight": np.nan}])
def test_settings_that_make_no_run_are_refused(small, settings):
    with pytest.raises(CriterionError, match=next(iter(settings))):
        train(small, **settings)


def test_one_seed_is_one_run_and_numpys_global_generator_is_untouched(small):
    before = np.random.get_state()[1].copy()
    runs = [train(small, "random", random_seed=seed)["history"]["candidate"].to_numpy().tolist() for seed in (3, 3, 4)]
    assert runs[0] == runs[1] != runs[2]
    np.testing.assert_array_equal(np.random.get_state()[1], before)
    generator = train(small, "random", random_seed=np.random.default_rng(3))["history"]["candidate"]
    assert generator.to_numpy().tolist() == runs[0]


def test_an_empty_pool_gives_the_supervised_model(small, table):
    truth = table[2]
    run = train(small, test=(np.arange(N, 26), truth[N:]))
    assert run.attrs["stop_reason"] == "the pool is empty"
    assert run["history"].sizes["step"] == 0
    np.testing.assert_allclose(run["final"]["b"], small.fit().mode["b"])


def test_an_empty_pool_has_no_scores(table):
    X, _, truth = table
    pls = bpls.BPLS(logistic(X[:N], truth[:N]))
    for criterion in ("probability", "ppp"):
        assert pls.score(criterion).sizes["candidate"] == 0


def test_an_interrupted_run_returns_what_was_done(small, test_rows, whole):
    def interrupt(history):
        if history.sizes["step"] == 2:
            raise KeyboardInterrupt

    run = train(small, test=test_rows, stop=interrupt)
    assert run.attrs["stop_reason"] == "interrupted"
    np.testing.assert_array_equal(run["history"]["candidate"], whole["history"]["candidate"][:2])
    assert run["curve"]["n_pseudo"].to_numpy().tolist() == [0, 1, 2]
    assert run["labeled"].sizes["row"] == N + 2


def test_compilations_grow_at_most_with_the_logarithm_of_the_rounds(table):
    LIBRARY.shelf.clear()
    X, y, truth = table
    pls = bpls.BPLS(logistic(X, y))
    run = train(pls, "ppp", test=(TEST, truth[TEST]))
    assert run["history"].sizes["step"] == M
    names = pls.compilations["name"].to_numpy().tolist()
    sizes = 1 + math.ceil(math.log2((N + M) / N))
    # each function at most once for each padded size of D, for one θ and for those of all candidates; others once
    assert max(names.count(name) for name in set(names)) <= 2 * sizes
    assert len(names) <= 3 * sizes + 6
    before = len(names)
    train(pls, "ppp", test=(TEST, truth[TEST]))
    assert pls.compilations.sizes["compilation"] == before
    assert (pls.compilations["seconds"] > 0).all()


def test_names_of_classes_come_back_in_every_result(table):
    X, y, truth = table
    names = np.array(["no", "yes"])
    pls = bpls.BPLS(logistic(X, y), classes=names)
    run = train(pls, rounds=3, test=(TEST, names[truth[TEST]]), class_balance={"no": 0.5, "yes": 0.5})
    assert set(run["history"]["pseudo_label"].to_numpy().tolist()) == {"no", "yes"}
    assert run["curve"]["accuracy"].notnull().all()


def test_the_settings_of_a_run_are_its_attributes(whole):
    assert {"criterion": "probability", "approximation": "mode", "expansion": "map", "labels": "predicted"}.items() <= (
        whole.attrs.items()
    )
    assert (whole.attrs["batch_size"], whole.attrs["pseudo_weight"]) == (1, 1.0)


def test_the_progress_bar_writes_and_silence_is_silent(small, screen):
    train(small, rounds=1, stop=lambda history: time.sleep(0.2))
    assert screen.getvalue() == ""
    small.self_train("probability", rounds=1, stop=lambda history: time.sleep(0.2))
    assert "self-training" in screen.getvalue()
