"""The scikit-learn classifier against scikit-learn's own logistic regression, and what its users do with one."""

import pickle
import re
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, LeavePGroupsOut, StratifiedGroupKFold, cross_val_score
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.validation import has_fit_parameter

import pymc_bpls as bpls
from pymc_bpls.sklearn import BPLSClassifier, LabeledKFold, cross_validate_labeled, logistic_regression

EXPECTED_FAILED_CHECKS = {
    "check_classifiers_classes": (
        "it fits labels -1 and +1, and -1 marks unlabeled rows here; scikit-learn exempts its own semi-supervised classifiers "
        "by their class names"
    )
}


CHECKS = [
    check
    for safe in (False, True)
    for check in estimator_checks_generator(
        BPLSClassifier(criterion="probability", rounds=1, safe=safe),
        expected_failed_checks=EXPECTED_FAILED_CHECKS,
        mark="xfail",
    )
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:y contains no unlabeled samples")
@pytest.mark.parametrize(
    ("estimator", "check"), CHECKS, ids=lambda value: getattr(getattr(value, "func", None), "__name__", "")
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_the_safe_classifier_is_the_supervised_one_where_labels_prove_no_gain(rows):
    X, y, _ = rows
    safe = BPLSClassifier(criterion="probability", rounds=1, safe=True, random_seed=0).fit(X, y)
    assert safe.run_.attrs["choice"] == "supervised" and safe.n_iter_ == 0
    expected = BPLSClassifier(criterion="probability", rounds=0).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(safe.predict_proba(X), expected, rtol=1e-6)


def regression_without_intercept(X, codes):
    with pm.Model() as model:
        b = pm.Normal("b", 0, 1, shape=X.shape[1])
        pm.Bernoulli("label", logit_p=X @ b, observed=codes)
    return model


def parameter_a_row(X, codes):
    with pm.Model() as model:
        latent = pm.Normal("latent", 0, 1, shape=len(X))
        pm.Bernoulli("label", logit_p=latent + X[:, 0], observed=codes)
    return model


def standardised_inside(X, codes):
    return regression_without_intercept((X - X.mean(axis=0)) / X.std(axis=0), codes)


def not_a_model(X, codes):
    return X @ np.ones(X.shape[1])


def by_penalty(X, y, new, scale=2.5, **options):
    """Class probabilities of `new` by scikit-learn's logistic regression with coefficients Normal(0, scale), intercept 2.5."""
    options = {"solver": "newton-cholesky", "tol": 1e-10, **options}
    reference = LogisticRegression(C=scale**2, fit_intercept=False, **options)
    one, other = (np.column_stack([np.full(len(rows), 2.5 / scale), rows]) for rows in (X, new))
    return reference.fit(one, y).predict_proba(other)


@pytest.fixture(scope="module")
def rows():
    """X (40, 2), y with 16 labeled rows of classes 0 and 1, the truth."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 2))
    truth = (X[:, 0] + rng.logistic(scale=0.5, size=40) > 0).astype(int)
    return X, np.where(np.arange(40) < 16, truth, -1), truth


@pytest.fixture(scope="module")
def fitted(rows):
    X, y, _ = rows
    return BPLSClassifier(rounds=3, batch_size=2, predictor="map").fit(X, y)


def test_without_unlabeled_rows_it_is_penalised_logistic_regression(rows):
    X, _, truth = rows
    with pytest.warns(UserWarning, match="y contains no unlabeled samples, .* make a class of -1"):
        classifier = BPLSClassifier(predictor="map").fit(X[:30], truth[:30])
    assert classifier.termination_condition_ == "no row is unlabeled"
    assert classifier.n_iter_ == 0
    assert (classifier.labeled_iter_ == 0).all()
    np.testing.assert_allclose(classifier.predict_proba(X[30:]), by_penalty(X[:30], truth[:30], X[30:]), atol=1e-6)
    assert classifier.score(X[30:], truth[30:]) == (classifier.predict(X[30:]) == truth[30:]).mean()


def test_several_classes_are_penalised_softmax_regression(rows):
    X, _, _ = rows
    y = np.array(["c", "a", "b"])[np.digitize(X[:, 0] + X[:, 1] ** 2, [0.2, 1.2])]
    with pytest.warns(UserWarning, match="y contains no unlabeled samples"):
        classifier = BPLSClassifier(predictor="map").fit(X[:30], y[:30])
    assert classifier.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(classifier.predict_proba(X[30:]), by_penalty(X[:30], y[:30], X[30:]), atol=1e-6)


@pytest.mark.parametrize(("n_features", "scale"), [(50, 1.25), (1000, 2.5 / 1000**0.5)])
def test_the_default_prior_is_narrower_for_more_features(n_features, scale):
    """As of 1,000 features, where Normal(0, 2.5) is far worse than a coin, which the default is not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(560, n_features))
    y = (0.8 * X[:, :10].sum(axis=1) + rng.logistic(size=560) > 0).astype(int)
    supervised = BPLSClassifier(criterion="probability", rounds=0, predictor="map")
    found = supervised.fit(X[:61], np.r_[y[:60], -1]).predict_proba(X[60:])
    expected, wide = (by_penalty(X[:60], y[:60], X[60:], each, solver="lbfgs", max_iter=5000) for each in (scale, 2.5))
    np.testing.assert_allclose(found, expected, atol=1e-3)
    loss, loss_of_wide = (-np.log(p[np.arange(500), y[60:]]).mean() for p in (found, wide))
    assert loss < loss_of_wide
    assert n_features == 50 or loss < np.log(2) + 0.02 < np.log(2) + 0.1 < loss_of_wide


def test_a_grid_of_scales_is_one_of_penalties(rows):
    """The scale of the prior is √C."""
    X, y, _ = rows
    grid, folds = (0.01, 25.0), LabeledKFold(2)
    models = {"build_model": [partial(logistic_regression, scale=C**0.5) for C in grid]}
    search = GridSearchCV(BPLSClassifier(rounds=0, predictor="map"), models, cv=folds, scoring="neg_log_loss").fit(X, y)
    train, test = next(folds.split(X, y))
    known = train[y[train] >= 0]
    expected = [-log_loss(y[test], by_penalty(X[known], y[known], X[test], scale=C**0.5)) for C in grid]
    np.testing.assert_allclose(search.cv_results_["split0_test_score"], expected, atol=1e-6)


def test_a_scale_that_is_none_is_refused(rows):
    with pytest.raises(bpls.CriterionError, match="scale=0 is no standard deviation"):
        logistic_regression(rows[0], rows[2], scale=0)


def warned(classifier, X, y):
    """What `fit` warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", bpls.BPLSWarning)
        classifier.fit(X, y)
    return " ".join(str(each.message) for each in caught if each.category is bpls.BPLSWarning)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"safe": False}, "rounds=None labels all 3 unlabeled rows.* rounds=0, .* safe=True"),
        ({"safe": False, "stop": bpls.MaxRounds(1)}, "^$"),
        ({}, "^$"),
        ({"safe": True}, "^$"),
    ],
)
def test_a_run_over_the_whole_pool_is_warned_of(rows, settings, words):
    X, y, _ = rows
    assert re.search(words, warned(BPLSClassifier(criterion="probability", random_seed=0, **settings), X[:19], y[:19]))


def test_features_on_different_scales_are_warned_of(rows):
    """A StandardScaler brings them on one; constant columns have none."""
    X, y, _ = rows
    frame = pd.DataFrame({"grams": 5000 * X[:, 0], "share": X[:, 1], "unit": 0.1})
    words = "Feature grams varies more than 100 times as much as feature share, .*StandardScaler"
    assert re.search(words, warned(BPLSClassifier(rounds=0), frame, y))
    assert not warned(make_pipeline(StandardScaler(), BPLSClassifier(rounds=0)), frame, y)


def test_the_last_model_is_that_of_all_labels_and_pseudo_labels(rows, fitted):
    X, _, _ = rows
    new = np.random.default_rng(0).normal(size=(7, 2))
    used = fitted.labeled_iter_ >= 0
    expected = by_penalty(X[used], fitted.transduction_[used], new)
    np.testing.assert_allclose(fitted.predict_proba(new), expected, atol=1e-6)
    assert fitted.predict(new).tolist() == expected.argmax(axis=1).tolist()
    np.testing.assert_allclose(fitted.predict_proba(new[:1]), expected[:1], atol=1e-6)


def test_attributes_say_what_the_run_did(rows, fitted):
    _, y, _ = rows
    history = fitted.run_["history"]
    assert fitted.n_iter_ == 3
    assert fitted.termination_condition_ == fitted.run_.attrs["stop_reason"] == "3 rounds are done"
    assert (fitted.labeled_iter_[:16] == 0).all()
    assert sorted(fitted.labeled_iter_[16:]) == [-1] * 18 + [1, 1, 2, 2, 3, 3]
    for row, label, number in zip(*(history[name].values for name in ("candidate", "pseudo_label", "round")), strict=True):
        assert (fitted.transduction_[row], fitted.labeled_iter_[row]) == (label, number)
    assert (fitted.transduction_[fitted.labeled_iter_ <= 0] == y[fitted.labeled_iter_ <= 0]).all()


@pytest.mark.parametrize("marker", [None, -1, np.nan, pd.NA])
def test_strings(rows, fitted, marker):
    X, y, truth = rows
    names = np.array(["ham", "spam"], dtype=object)
    labels = names[truth]
    labels[y == -1] = marker
    classifier = clone(fitted).fit(X, labels)
    assert classifier.classes_.tolist() == ["ham", "spam"]
    added = classifier.labeled_iter_ > 0
    assert classifier.transduction_[added].tolist() == names[fitted.transduction_[added]].tolist()
    assert all(label is marker for label in classifier.transduction_[classifier.labeled_iter_ < 0])
    assert set(classifier.predict(X)) <= {"ham", "spam"}


@pytest.mark.parametrize(
    "labels",
    [
        pd.Series([1, 0, None, 1, 0, None], dtype="Int64"),
        pd.Series([True, False, None, True, False, None], dtype="boolean"),
        pd.Series(pd.Categorical(["b", "a", None, "b", "a", None], categories=["c", "b", "a"])),
        [1, 0, -1, 1, 0, -1],
        [1.0, 0.0, np.nan, 1.0, 0.0, -1.0],
    ],
)
def test_kinds_of_labels(labels):
    X = np.column_stack([[1.0, -1.0, 0.3, 0.4, 0.2, -2.0], np.ones(6)])
    classifier = BPLSClassifier(criterion="probability", rounds=1).fit(X, labels)
    assert len(classifier.classes_) == 2
    assert (classifier.labeled_iter_[[0, 1, 3, 4]] == 0).all()
    assert sorted(classifier.labeled_iter_[[2, 5]]) == [-1, 1]
    assert classifier.termination_condition_ == "1 round is done"


def test_frames_keep_their_column_names(rows, fitted):
    X, y, _ = rows
    frame = pd.DataFrame(X, columns=["length", "width"], index=np.arange(40)[::-1])
    classifier = clone(fitted).fit(frame, pd.Series(y, index=frame.index))
    assert classifier.feature_names_in_.tolist() == ["length", "width"]
    np.testing.assert_array_equal(classifier.predict_proba(frame), fitted.predict_proba(X))
    with pytest.raises(ValueError, match="feature names"):
        classifier.predict(frame[["width", "length"]])


def test_clone_and_pickle(rows):
    X, y, _ = rows
    classifier = BPLSClassifier(regression_without_intercept, rounds=2)
    assert clone(classifier).get_params() == classifier.get_params()
    classifier.fit(X, y)
    again = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(again.predict_proba(X), classifier.predict_proba(X))
    assert again.run_["history"].to_dataset().identical(classifier.run_["history"].to_dataset())
    assert list(again.run_["final"].data_vars) == ["b"]


def test_predictions_averaged_over_the_approximation(rows):
    X, y, _ = rows
    expected = bpls.BPLS(regression_without_intercept(X, y), unlabeled=np.arange(16, 40), predictor="laplace").predict_proba(
        np.arange(30, 40)
    )
    classifier = BPLSClassifier(regression_without_intercept, rounds=0, predictor="laplace").fit(X[:30], y[:30])
    np.testing.assert_allclose(classifier.predict_proba(X[30:]), expected, atol=1e-9)


def test_models_that_cannot_predict_new_rows_say_so(rows):
    X, y, _ = rows
    latent = BPLSClassifier(parameter_a_row, criterion="probability", rounds=1).fit(X[:20], y[:20])
    assert (latent.labeled_iter_ == 1).sum() == 1
    with pytest.raises(bpls.ModelError, match="20 parameters in fit and 22 with new rows"):
        latent.predict(X[20:22])
    inside = BPLSClassifier(standardised_inside, rounds=0).fit(X[:20], y[:20])
    with pytest.raises(bpls.ModelError, match="in a Pipeline"):
        inside.predict(X[20:22])


@pytest.mark.parametrize(
    ("y", "settings", "words"),
    [
        ([1, -1, 1, -1], {}, "one class, 1 .-1 and missing"),
        (["a"] * 4, {}, "one class, a. Give"),
        ([None] * 4, {}, "No row has a label"),
        ([0.5, 1, 0, 1], {}, "continuous"),
        ([np.inf, 1, 0, 1], {}, "infinite"),
        (np.array(["a", "b", "a", -1]), {}, 'strings "-1"'),
        (np.array(["a", "b", "a", "-1"], dtype=object), {}, 'strings "-1"'),
        (np.array(["a", "b", "a", np.nan]), {}, 'text "nan" is an unlabeled row or a class'),
        ([0, 1, 0, -1], {"predictor": lambda rows: rows}, "cannot know rows"),
        ([0, 1, 0, -1], {"predictor": "mode"}, 'predictor="mode" is unknown. Use "auto", "map"'),
        ([0, 1, 0, -1], {"safe": "sometimes"}, 'safe="sometimes" is unknown. Use True, False or "auto".$'),
        ([0, 1, 0, -1], {"criterion": "ppq", "rounds": 1}, "ppq"),
        ([0, 1, 0, -1], {"build_model": not_a_model}, "returned a ndarray"),
        ([0, 1, 0, -1], {"build_model": LogisticRegression()}, "is a LogisticRegression. .* SelfTrainingClassifier"),
        ([0, 1, 0, -1], {"build_model": SelfTrainingClassifier}, "is a SelfTrainingClassifier"),
        (
            [0, 1, 2, -1],
            {"build_model": regression_without_intercept},
            "y has 3 classes, and the model .* declares 2",
        ),
    ],
)
def test_refusals(y, settings, words):
    with pytest.raises(bpls.BPLSError, match=words):
        BPLSClassifier(**settings).fit(np.arange(4.0)[:, None], y)


labels_with_gaps = st.integers(2, 4).flatmap(
    lambda k: st.tuples(st.permutations([*range(k), *range(k)]), st.lists(st.integers(-1, k - 1), max_size=30)).map(
        lambda parts: np.array([*parts[0], *parts[1]])
    )
)


@pytest.mark.filterwarnings("ignore:Class .* fewer than n_splits")
@given(labels_with_gaps, st.integers(2, 8), st.booleans())
def test_folds_test_on_labeled_rows_only(y, n_splits, shuffle):
    labeled = np.flatnonzero(y >= 0)
    splitter = LabeledKFold(min(n_splits, len(labeled)), shuffle=shuffle, random_state=0)
    folds = list(splitter.split(np.zeros((len(y), 1)), y))
    assert len(folds) == splitter.get_n_splits()
    assert sorted(np.concatenate([test for _, test in folds])) == labeled.tolist()
    for train, test in folds:
        assert sorted([*train, *test]) == list(range(len(y)))
        assert set(y[train]) >= set(y[labeled])
    counts = np.array([np.bincount(y[test], minlength=y.max() + 1) for _, test in folds])
    assert np.ptp(counts, axis=0).max() <= 1
    assert np.ptp(counts.sum(axis=1)) <= 1


def test_folds_that_test_on_no_row_of_a_class_are_named():
    """As StratifiedKFold does; in the first fold roc_auc is nan."""
    with pytest.warns(bpls.BPLSWarning, match=r"Class b has 2 labeled rows, fewer than n_splits=3\. .*use fewer folds"):
        folds = list(LabeledKFold(3).split(np.zeros(7), ["a", "a", "a", "a", "b", "b", None]))
    assert [4 in test or 5 in test for _, test in folds] == [False, True, True]


def test_folds_are_refused_where_a_class_would_be_missing():
    with pytest.raises(bpls.LabelError, match="Class b has one labeled row"):
        list(LabeledKFold(2).split(np.zeros(4), ["a", "a", "b", None]))
    for n_splits in (1, 4, 2.5):
        with pytest.raises(bpls.LabelError, match="3 labeled rows"):
            list(LabeledKFold(n_splits).split(np.zeros(4), [0, 0, 0, -1]))
    assert "n_splits=3" in repr(LabeledKFold(3))


def test_unlabeled_rows_are_never_scored(rows, fitted):
    X, y, _ = rows
    with pytest.raises(bpls.LabelError, match="24 of 40 rows to score are unlabeled"):
        fitted.score(X, y)
    with pytest.raises(bpls.LabelError, match="LabeledKFold"):
        cross_val_score(BPLSClassifier(rounds=0), X, y, cv=KFold(2, shuffle=True, random_state=0), error_score="raise")


@pytest.mark.filterwarnings("ignore:Scoring failed")
def test_scikit_learns_own_methods_on_folds_of_labeled_rows(rows):
    """SelfTrainingClassifier without a round is the supervised model; folds of all rows leave no score."""
    X, y, _ = rows
    supervised = SelfTrainingClassifier(LogisticRegression(), max_iter=0)
    by_hand = [
        -log_loss(y[test], LogisticRegression().fit(X[train][y[train] >= 0], y[train][y[train] >= 0]).predict_proba(X[test]))
        for train, test in LabeledKFold(3).split(X, y)
    ]
    np.testing.assert_allclose(cross_val_score(supervised, X, y, cv=LabeledKFold(3), scoring="neg_log_loss"), by_hand)
    assert np.isnan(cross_val_score(BPLSClassifier(rounds=0), X, y, cv=2)).all()


def test_calibration_of_a_classifier_that_is_not_frozen_makes_a_class_of_the_marker(rows):
    X, y, _ = rows
    assert CalibratedClassifierCV(BPLSClassifier(rounds=0), cv=2).fit(X, y).classes_.tolist() == [-1, 0, 1]


def test_what_fit_does_not_take(rows):
    X, y, _ = rows
    classifier = BPLSClassifier(rounds=0)
    assert not has_fit_parameter(classifier, "sample_weight") and "class_weight" not in classifier.get_params()
    with pytest.raises(TypeError, match="Sparse data was passed"):
        classifier.fit(scipy.sparse.csr_array(X), y)
    with pytest.raises(ValueError, match="X contains NaN"):
        classifier.fit(np.where(X > 1, np.nan, X), y)


def test_grid_search_over_criteria_in_a_pipeline(rows):
    X, y, _ = rows
    pipeline = Pipeline([("scale", StandardScaler()), ("classify", BPLSClassifier(rounds=1))])
    search = GridSearchCV(pipeline, {"classify__criterion": ["ppp", "probability"]}, cv=LabeledKFold(2)).fit(X, y)
    for criterion, first in zip(["ppp", "probability"], search.cv_results_["split0_test_score"], strict=True):
        train, test = next(LabeledKFold(2).split(X, y))
        by_hand = clone(pipeline).set_params(classify__criterion=criterion).fit(X[train], y[train])
        assert first == (by_hand.predict(X[test]) == y[test]).mean()
    assert search.predict(X).shape == (40,)


def scaled(train, other):
    return (other - train.mean(axis=0)) / train.std(axis=0)


def test_cross_validation_by_hand(rows):
    """Accuracy and log score of both models in each fold; the supervised one from scikit-learn's own regression."""
    X, y, _ = rows
    at_the_mode = BPLSClassifier(rounds=2, predictor="map")
    found = cross_validate_labeled(make_pipeline(StandardScaler(), at_the_mode), 5 + 3 * X, y, cv=LabeledKFold(4))
    expected = np.zeros((2, 2, 4))
    for fold, (train, test) in enumerate(LabeledKFold(4).split(X, y)):
        inside, outside = scaled(X[train], X[train]), scaled(X[train], X[test])
        labeled = y[train] >= 0
        run = clone(at_the_mode).fit(inside, y[train])
        for model, p in enumerate((by_penalty(inside[labeled], y[train][labeled], outside), run.predict_proba(outside))):
            expected[0, model, fold] = ((p[:, 1] > 0.5) == y[test]).mean()
            expected[1, model, fold] = np.log(p[np.arange(len(test)), y[test]]).mean()
    assert found["metric"].values.tolist() == ["accuracy", "log_score"]
    np.testing.assert_allclose(found["score"].sel(model=["supervised", "self-training"]), expected, atol=1e-6)
    differences = expected[:, 1] - expected[:, 0]
    np.testing.assert_allclose(found["difference"], differences.mean(axis=1), atol=1e-6)
    error = np.sqrt((1 / 4 + 4 / 12) * differences.var(axis=1, ddof=1))
    np.testing.assert_allclose(found["standard_error"], error, atol=1e-6)
    assert found.attrs["verdict"].startswith("Over 4 folds of 16 labeled rows accuracy is")


class Recorder(TransformerMixin, BaseEstimator):
    """Keeps the first column of what it was fitted on and of what it transformed afterwards."""

    fits = []  # noqa: RUF012

    def fit(self, X, y=None):
        self.fits.append(set(X[:, 0]))
        return self

    def transform(self, X):
        return X


def test_no_fold_sees_its_test_rows(rows):
    X, y, _ = rows
    names = np.where(y == -1, None, np.array(["a", "b"], dtype=object)[y])
    Recorder.fits = []
    pipeline = make_pipeline(Recorder(), BPLSClassifier(criterion="random", random_seed=0, rounds=1))
    found = cross_validate_labeled(pipeline, pd.DataFrame(X).to_numpy(), names, cv=2, random_seed=1, scoring="accuracy")
    assert found.sizes == {"metric": 1, "model": 2, "fold": 2}
    unlabeled = set(X[y == -1, 0])
    assert len(Recorder.fits) == 4
    assert all(seen > unlabeled and len(seen) == 24 + 8 for seen in Recorder.fits)
    assert Recorder.fits[0] == Recorder.fits[1]
    assert Recorder.fits[0] & Recorder.fits[2] == unlabeled


def by_first_column(estimator, X, y):
    """A score that a test can foresee: the sum of X where the model did any round, else 0."""
    return float(np.sum(X) * (estimator.n_iter_ > 0))


@pytest.mark.parametrize(
    ("value", "words"),
    [(1.0, "self-training raised score."), (-1.0, "self-training lowered score."), (0.0, "nothing was gained")],
)
def test_verdicts(value, words):
    X, y = np.full((8, 2), value), np.array([0, 1] * 3 + [-1] * 2)
    found = cross_validate_labeled(BPLSClassifier(criterion="random", rounds=1), X, y, cv=3, scoring=by_first_column)
    assert found["difference"].item() == 4 * value
    assert words in found.attrs["verdict"]


def soft_vote(estimator):
    return VotingClassifier([("bpls", estimator), ("lr", LogisticRegression())], voting="soft")


def stack(estimator):
    return StackingClassifier([("bpls", estimator)])


@pytest.mark.parametrize("ensemble", [soft_vote, stack, BaggingClassifier])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_class_of_the_marker_is_refused(rows, ensemble):
    X, y, _ = rows
    with pytest.raises(bpls.LabelError, match=r"makes a class of the marker .* \[-1, 0, 1\]\. Put it around a Frozen"):
        cross_validate_labeled(ensemble(BPLSClassifier(criterion="probability", rounds=1)), X, y, cv=2)


def test_ensembles_around_a_frozen_classifier(rows, fitted):
    X, y, _ = rows
    labeled, frozen = y >= 0, FrozenEstimator(fitted)
    vote = soft_vote(frozen).fit(X[labeled], y[labeled])
    other = LogisticRegression().fit(X[labeled], y[labeled])
    np.testing.assert_allclose(vote.predict_proba(X), (fitted.predict_proba(X) + other.predict_proba(X)) / 2)
    for ensemble in (vote, StackingClassifier([("bpls", frozen)], cv="prefit"), CalibratedClassifierCV(frozen, cv=2)):
        assert ensemble.fit(X[labeled], y[labeled]).classes_.tolist() == [0, 1]
        assert ensemble.predict_proba(X).shape == (40, 2)


def test_several_outputs_keep_the_marker(rows):
    X, y, _ = rows
    outputs = np.column_stack([y, np.where(y < 0, -1, 1 - y)])
    both = MultiOutputClassifier(BPLSClassifier(criterion="probability", rounds=1)).fit(X, outputs)
    assert [each.classes_.tolist() for each in both.estimators_] == [[0, 1], [0, 1]]
    assert [each.n_iter_ for each in both.estimators_] == [1, 1]


@pytest.mark.parametrize("cv", [2, GroupKFold(2), StratifiedGroupKFold(2), LeavePGroupsOut(2)])
def test_no_group_is_on_both_sides_of_a_fold(rows, cv):
    X, y, _ = rows
    groups = np.array(["a", "b", "c", "d"])[np.arange(40) % 4]
    Recorder.fits = []
    pipeline = make_pipeline(Recorder(), BPLSClassifier(criterion="random", random_seed=0, rounds=1))
    found = cross_validate_labeled(pipeline, X, y, cv=cv, groups=groups, random_seed=0, scoring="accuracy")
    assert found.sizes["fold"] == len(Recorder.fits) / 2
    for seen in Recorder.fits:
        inside = np.isin(X[:, 0], list(seen))
        assert set(groups[inside]).isdisjoint(groups[~inside]) and len(set(groups[inside])) == 2
        assert (y[inside] == -1).any()


def test_folds_of_groups_are_whole_and_split_every_labeled_row(rows):
    X, y, _ = rows
    groups = np.arange(40) // 4
    for splitter in (LabeledKFold(2), LabeledKFold(3, shuffle=True, random_state=0)):
        folds = list(splitter.split(X, y, groups))
        assert sorted(np.concatenate([test for _, test in folds])) == np.flatnonzero(y >= 0).tolist()
        for train, test in folds:
            assert set(groups[train]) | set(groups[test]) == set(range(10))
            assert set(groups[train]).isdisjoint(groups[test]) and set(y[train]) == {-1, 0, 1}
    search = GridSearchCV(BPLSClassifier(rounds=0), {"criterion": ["ppp"]}, cv=LabeledKFold(2)).fit(X, y, groups=groups)
    train, test = next(LabeledKFold(2).split(X, y, groups))
    by_hand = BPLSClassifier(rounds=0).fit(X[train], y[train])
    assert search.cv_results_["split0_test_score"][0] == (by_hand.predict(X[test]) == y[test]).mean()


def test_splits_are_positions_among_the_labeled_rows(rows):
    X, y, _ = rows
    labeled = np.flatnonzero(y >= 0)
    estimator = BPLSClassifier(criterion="probability", rounds=1)
    by_splitter = cross_validate_labeled(estimator, X, y, cv=KFold(2))
    folds = list(KFold(2).split(X[labeled]))
    masks = [tuple(np.isin(np.arange(16), side) for side in fold) for fold in folds]
    for way in (folds, iter(folds), masks):
        assert cross_validate_labeled(estimator, X, y, cv=way).equals(by_splitter)


@pytest.mark.parametrize(
    ("cv", "groups", "words"),
    [
        ("five", None, "cv='five' splits nothing"),
        (GroupKFold(2), None, "cv= is a GroupKFold, which splits groups. Give groups= of all rows"),
        ([(np.arange(20), np.arange(20, 40))], None, "not of the 16 labeled rows"),
        ([(np.arange(8), np.arange(-8, 0))], None, "not of the 16 labeled rows"),
        (2, np.arange(39), "groups= has 39 entries, and there are 40 rows"),
        (2, np.r_[np.nan, np.ones(39)], "groups= lacks a value in 1 rows"),
        (2, np.zeros(40), "n_splits=2 folds cannot be made of 1 groups"),
        (2, np.r_[np.zeros(8), np.ones(32)], "trains on no row of class"),
    ],
)
def test_folds_that_cannot_be_are_refused(cv, groups, words):
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.r_[np.zeros(8), np.ones(8), np.full(24, -1)].astype(int)
    with pytest.raises(bpls.BPLSError, match=words):
        cross_validate_labeled(BPLSClassifier(criterion="probability", rounds=1), X, y, cv=cv, groups=groups)


def test_cross_validation_needs_a_classifier_of_this_package(rows):
    X, y, _ = rows
    with pytest.raises(bpls.CriterionError, match="without a BPLSClassifier"):
        cross_validate_labeled(make_pipeline(StandardScaler(), LogisticRegression()), X, y)
