"""Stop rules: when they fire, what they see, and what they refuse."""

import numpy as np
import pytest
from reference import logistic
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import pymc_bpls as bpls
from pymc_bpls import CriterionError, EvidenceDrop, LabelError, MaxRounds, NoGain, RowError, Threshold
from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.audit.track import read_track
from pymc_bpls.model.data.table import Labeled

N = 12


def train(pls, criterion="probability", **settings):
    return pls.self_train(criterion, progressbar=False, **settings)


def per_row(run):
    return (run["curve"]["log_evidence"] / run["curve"]["weight"]).to_numpy()


def laplace_evidence(X, y, weights, scale=2.5):
    """log p(y) of a logistic model under Normal(0, scale) by Laplace's method at scikit-learn's ridge estimate."""
    fit = LogisticRegression(C=scale**2, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(X, y, sample_weight=weights)
    b, q = fit.coef_[0], X.shape[1]
    p = expit(X @ b)
    log_lik = (weights * np.log(np.where(y == 1, p, 1 - p))).sum()
    log_prior = -0.5 * b @ b / scale**2 - 0.5 * q * np.log(2 * np.pi * scale**2)
    H = (X.T * (weights * p * (1 - p))) @ X + np.eye(q) / scale**2
    return log_lik + log_prior + 0.5 * q * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(H)[1]


def test_the_curve_holds_the_log_evidence_of_every_model(small, table):
    X = table[0]
    run = train(small, rounds=3, pseudo_weight=0.5)
    rows, labels, weights = (run["labeled"][name].to_numpy() for name in ("row", "label", "weight"))
    for n_pseudo in range(4):
        n, model = N + n_pseudo, run["curve"].sel(n_pseudo=n_pseudo)
        expected = laplace_evidence(X[rows[:n]], labels[:n], weights[:n])
        np.testing.assert_allclose(model["log_evidence"], expected, atol=1e-7)
        np.testing.assert_allclose(model["weight"], weights[:n].sum())


def test_evidence_drop_stops_at_the_first_model_that_is_far_below_the_best(small):
    ones = {"labels": "all", "class_balance": {0: 0.0, 1: 1.0}}
    whole = train(small, **ones)
    drops = np.maximum.accumulate(per_row(whole)) - per_row(whole)
    bound = 0.5 * drops.max()
    first = int(np.flatnonzero(drops > bound)[0])
    assert 1 < first < len(drops) - 1
    run = train(small, stop=EvidenceDrop(bound), **ones)
    assert run["history"].sizes["step"] == first
    best = int(per_row(whole)[:first].argmax())
    assert run.attrs["stop_reason"] == (
        f"EvidenceDrop: the log evidence per row of D is {per_row(whole)[first]:.4g}, {drops[first]:.4g} below its highest, "
        f"with {best} pseudo-labels"
    )
    assert train(small, stop=EvidenceDrop(drops.max()), **ones).attrs["stop_reason"] == "the pool is empty"


def test_there_is_no_evidence_under_an_improper_prior(sim1_flat):
    with pytest.raises(CriterionError, match="EvidenceDrop needs proper priors"):
        train(sim1_flat, stop=EvidenceDrop(0.1))
    assert "log_evidence" not in train(sim1_flat, rounds=1)["curve"]


def test_the_evidence_where_there_is_no_mode_is_that_of_the_approximation():
    q = Gaussian(np.array([0.3, -1.0, 2.0]), np.diag([0.5, 2.0, 0.1]), log_z=-7.25)
    assert q.as_mode().log_integral == pytest.approx(-7.25, abs=1e-12)


def test_a_threshold_stops_after_the_first_score_below_it(small, test_rows, whole):
    scores = whole["history"]["score"].to_numpy()
    value = float(np.sort(scores)[3])
    first = int(np.flatnonzero(scores < value)[0])
    run = train(small, test=test_rows, stop=Threshold(value))
    assert run["history"].sizes["step"] == first + 1
    assert run.attrs["stop_reason"] == (f'Threshold: the last score of "probability" is {scores[first]:.4g}, below {value:.4g}')


def test_rounds_are_counted_from_the_first_one_on(small, test_rows):
    run = train(small, test=test_rows, batch_size=2, stop=MaxRounds(2))
    assert (run.attrs["stop_reason"], run["history"].sizes["step"]) == ("MaxRounds: 2 rounds are done", 4)
    longer = small.resume(run, stop=MaxRounds(3), progressbar=False)
    assert (longer.attrs["stop_reason"], longer["history"].sizes["step"]) == ("MaxRounds: 3 rounds are done", 6)
    assert train(small, stop=MaxRounds(0))["history"].sizes["step"] == 0
    assert MaxRounds(1)(run["history"].to_dataset().isel(step=[0])) == "MaxRounds: 1 round is done"


def test_rows_set_aside_are_in_no_model(at_mode, table):
    X, y, _ = table
    aside = [1, 4, 7]
    kept = np.setdiff1d(np.arange(N), aside)
    run = train(at_mode, rounds=2, stop=NoGain(aside, patience=8))
    assert run["held_out"]["row"].to_numpy().tolist() == aside
    np.testing.assert_array_equal(run["held_out"]["label"], y[aside])
    np.testing.assert_array_equal(run["labeled"]["row"][: N - 3], kept)
    assert run["history"]["n_labeled"].to_numpy().tolist() == [N - 2, N - 1]
    rows, labels = (run["labeled"][name].to_numpy() for name in ("row", "label"))
    for n_pseudo in range(3):
        n = N - 3 + n_pseudo
        fit = LogisticRegression(C=2.5**2, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(X[rows[:n]], labels[:n])
        expected = -log_loss(y[aside], fit.predict_proba(X[aside]))
        np.testing.assert_allclose(run["curve"]["held_out_log_score"][n_pseudo], expected, atol=1e-6)
    other = bpls.BPLS(logistic(X[np.r_[kept, N:26]], y[np.r_[kept, N:26]]), predictor="map")
    np.testing.assert_array_equal(train(other, rounds=2)["history"]["score"], run["history"]["score"])


def test_no_gain_stops_so_many_rounds_after_the_best_model(small, table):
    whole = train(small, stop=NoGain([0, 3, 5], patience=20))
    scores = whole["curve"]["held_out_log_score"].to_numpy()
    waits = np.arange(len(scores)) - np.array([scores[: i + 1].argmax() for i in range(len(scores))])
    for patience in (1, 2):
        run = train(small, stop=NoGain([0, 3, 5], patience=patience))
        last = int(np.flatnonzero(waits >= patience)[0])
        assert run["history"].sizes["step"] == last
        best = int(scores[: last + 1].argmax())
        assert f"was best with {best} pseudo-labels, {scores[best]:.4g}" in run.attrs["stop_reason"]
        assert f"after {patience} more rounds" in run.attrs["stop_reason"]


def test_a_share_is_drawn_within_each_class_by_the_run_s_seed(small, table):
    y = table[1][:N]
    runs = [train(small, rounds=0, stop=NoGain(0.4), random_seed=seed)["held_out"] for seed in (1, 1, 2)]
    np.testing.assert_array_equal(runs[0]["row"], runs[1]["row"])
    assert runs[0]["row"].to_numpy().tolist() != runs[2]["row"].to_numpy().tolist()
    for code in (0, 1):
        assert (runs[0]["label"] == code).sum() == round(0.4 * (y == code).sum())


def test_a_class_of_two_labels_judges_too():
    """A share of .2 drew none of two, so that only the other class judged."""
    labeled = Labeled(np.arange(22), np.repeat([0, 1], [20, 2]), np.ones(22))
    held = NoGain().held_out(labeled, np.random.default_rng(0))
    assert np.bincount(labeled.codes[np.isin(labeled.positions, held)]).tolist() == [4, 1]


def test_a_large_share_leaves_each_class_a_row(small, table):
    run = train(small, rounds=0, stop=NoGain(0.99))
    assert sorted(run["labeled"]["label"].to_numpy()) == [0, 1]


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([0, 13], RowError, r"names rows \[13\], which have no label"),
        ([0, 40], RowError, r"NoGain\(rows=\) names rows \[40\]"),
        ([0, 0], RowError, "more than once"),
        (0.01, RowError, "less than a row of any class"),
    ],
)
def test_rows_that_cannot_be_set_aside_are_refused(small, rows, error, message):
    with pytest.raises(error, match=message):
        train(small, stop=NoGain(rows))


def test_a_class_must_keep_a_labeled_row(small, table):
    ones = np.flatnonzero(table[1][:N] == 1)
    with pytest.raises(LabelError, match="leaves no labeled row of class 1"):
        train(small, stop=NoGain(ones))


@pytest.mark.parametrize(
    ("rule", "argument"),
    [
        (MaxRounds, -1),
        (MaxRounds, 1.5),
        (MaxRounds, True),
        (Threshold, np.nan),
        (Threshold, "0.9"),
        (EvidenceDrop, -0.1),
        (EvidenceDrop, None),
        (NoGain, 0.0),
        (NoGain, 1),
        (NoGain, []),
        (NoGain, [0.5]),
        (NoGain, "all"),
        (NoGain, [[1, 2]]),
    ],
)
def test_rules_that_make_no_sense_are_refused_when_they_are_made(rule, argument):
    with pytest.raises(CriterionError, match=rf"{rule.__name__}\(.*\. Give .*\."):
        rule(argument)


def test_no_gain_without_patience_is_refused():
    with pytest.raises(CriterionError, match=r"NoGain\(patience=0\) is no number of rounds"):
        NoGain(patience=0)


@pytest.mark.parametrize("reason", [False, True, "", 3])
def test_a_rule_that_gives_no_reason_is_refused(small, reason):
    with pytest.raises(CriterionError, match="A rule in stop= returned"):
        train(small, stop=lambda history: reason)


@pytest.mark.parametrize(
    ("stop", "message"),
    [
        ("soon", "'soon', which is no rule"),
        (NoGain, "NoGain'>, which is no rule"),
        ([NoGain(), NoGain([1])], "NoGain more than once"),
    ],
)
def test_what_is_no_set_of_rules_is_refused(small, stop, message):
    with pytest.raises(CriterionError, match=message):
        train(small, stop=stop)


def test_rules_see_the_models_and_not_the_test_rows(small, test_rows):
    seen = []
    run = train(small, test=test_rows, rounds=2, stop=[NoGain([0, 3], 9), lambda history: seen.append(history)])
    assert [set(each.data_vars) & {"accuracy", "log_score"} for each in seen] == [set()] * 2
    np.testing.assert_array_equal(seen[1]["held_out_log_score"], run["curve"]["held_out_log_score"][:2])
    np.testing.assert_array_equal(seen[1]["log_evidence"], run["curve"]["log_evidence"][:2])
    assert seen[1].attrs["criterion"] == "probability"


def test_the_audit_along_a_run_starts_from_the_rows_that_were_not_set_aside(small):
    track = read_track(train(small, rounds=3, stop=NoGain([0, 3], 9)), small.scorer)
    np.testing.assert_array_equal(track.start.positions, np.setdiff1d(np.arange(N), [0, 3]))
    for step in range(3):
        D, left = track.at(step)
        assert (len(D), len(left)) == (N - 2 + step, 14 - step)
