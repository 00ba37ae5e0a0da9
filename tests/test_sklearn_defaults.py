"""What `BPLSClassifier` does where its user says nothing: predictions that average, the supervised model unless labels
prove the run better, and the user's own exceptions."""

import warnings

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy.special import expit
from sklearn.model_selection import cross_val_score

import pymc_bpls as bpls
from pymc_bpls.sklearn import BPLSClassifier, LabeledKFold
from pymc_bpls.sklearn import classifier as module


def one_slope(X, codes):
    with pm.Model() as model:
        pm.Bernoulli("label", logit_p=pm.Normal("slope", 0, 2.5) * X[:, 0], observed=codes)
    return model


@pytest.fixture(scope="module")
def rows():
    """X (30, 1), y with 6 labels, all of them on the side that the slope's sign says: the posterior is skewed."""
    X = np.random.default_rng(0).normal(size=(30, 1))
    return X, np.where(np.arange(30) < 6, (X[:, 0] > 0).astype(int), -1)


def by_quadrature(X, y, new):
    """p(1 | x) of new rows, averaged over the slope's posterior on a grid of ±60."""
    slope = np.linspace(-60, 60, 200_001)
    known = y >= 0
    signs = 2 * y[known] - 1
    log_p = -0.5 * (slope / 2.5) ** 2 - np.logaddexp(0, -np.outer(signs * X[known, 0], slope)).sum(axis=0)
    weights = np.exp(log_p - log_p.max())
    return (expit(np.outer(new[:, 0], slope)) * weights).sum(axis=1) / weights.sum()


def test_predictions_average_over_the_posterior_by_default(rows):
    X, y = rows
    new = np.linspace(-3, 3, 7)[:, None]
    expected = by_quadrature(X, y, new)
    found = {
        how: BPLSClassifier(one_slope, rounds=0, predictor=how).fit(X, y).predict_proba(new)[:, 1] for how in ("auto", "map")
    }
    assert np.abs(found["auto"] - expected).max() < 2e-3 < 2e-2 < np.abs(found["map"] - expected).max()
    default = BPLSClassifier(one_slope, rounds=0).fit(X, y).predict_proba(new)[:, 1]
    np.testing.assert_array_equal(default, found["auto"])


def test_the_default_keeps_the_supervised_model_where_labels_prove_nothing(rows):
    X, y = rows
    classifier = BPLSClassifier(one_slope, batch_size=10, random_seed=0).fit(X, y)
    assert classifier.run_.attrs["choice"] == "supervised" and classifier.n_iter_ == 0
    supervised = BPLSClassifier(one_slope, rounds=0).fit(X, y)
    np.testing.assert_allclose(classifier.predict_proba(X), supervised.predict_proba(X), rtol=1e-9)


def test_the_default_ends_within_its_budget(rows, monkeypatch):
    """With twenty labels there are folds to run, and no time for them."""
    monkeypatch.setattr(module, "_BUDGET", 0)
    with pytest.warns(
        bpls.BPLSWarning, match=r"not known after 0 seconds, so that the supervised model is kept\. Give rounds="
    ):
        classifier = BPLSClassifier(one_slope, random_seed=0).fit(*some_more(rows))
    assert classifier.run_.attrs["choice"] == "supervised" and classifier.n_iter_ == 0
    assert "not known after 0 seconds" in classifier.run_.attrs["choice_verdict"]


class TimeIsUp(Exception):
    """A limit of the user's."""


def ends_at_round_two(history):
    if history.sizes["step"] == 2:
        raise TimeIsUp
    return None


def some_more(rows):
    """The same rows with 24 labels, of which folds can be made."""
    X, _ = rows
    return X, np.where(np.arange(30) < 24, (X[:, 0] > 0.1).astype(int), -1)


def declared(rows):
    return bpls.BPLS(one_slope(*some_more(rows)))


QUIET = {"progressbar": False, "random_seed": 0}
NEED_WHOLE_RUNS = {
    "fit": lambda rows: BPLSClassifier(one_slope, stop=ends_at_round_two).fit(*rows),
    "fit, safe": lambda rows: BPLSClassifier(one_slope, stop=ends_at_round_two, safe=True).fit(*some_more(rows)),
    "choose": lambda rows: declared(rows).choose({"mine": bpls.Train(stop=ends_at_round_two)}, **QUIET),
    "self_train, choose": lambda rows: declared(rows).self_train(stop=ends_at_round_two, choose=True, **QUIET),
    "compare": lambda rows: bpls.compare(declared(rows), ["ppp"], 2, stop=ends_at_round_two, **QUIET),
}


@pytest.mark.parametrize("call", NEED_WHOLE_RUNS)
def test_exceptions_of_the_users_end_what_needs_whole_runs(rows, call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bpls.BPLSWarning)
        with pytest.raises(TimeIsUp):
            NEED_WHOLE_RUNS[call](rows)


def test_texts_with_gaps_are_scored_on_folds_of_labeled_rows(rows):
    X, _ = rows
    y = pd.Series(np.where(X[:, 0] > 0, "fraud", "fine"), dtype=object).where(np.arange(30) < 12)
    for scoring in (None, "roc_auc", "neg_log_loss"):
        scores = cross_val_score(
            BPLSClassifier(one_slope, rounds=0), X, y, cv=LabeledKFold(2), scoring=scoring, error_score="raise"
        )
        assert np.isfinite(scores).all()
    codes, _, _ = bpls.encode_labels(y)
    with pytest.warns(UserWarning, match="Scoring failed"):
        assert np.isnan(cross_val_score(BPLSClassifier(one_slope, rounds=0), X, codes, cv=2)).all()
