"""Labels that are no classes are refused; whatever marks a missing one is taken for unlabeled."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from refusing import N_LABELED, N, logistic, refused, softmax, table

import pymc_bpls as bpls
from pymc_bpls import BPLSError, BPLSWarning, LabelError, ModelError, encode_labels

# Labels


def test_labels_1_to_k_are_refused_with_their_number():
    y = np.where(np.arange(N) < N_LABELED, np.arange(N) % 3 + 1, -1)
    refused(LabelError, lambda: bpls.BPLS(softmax(y)), '"label"', "5 labels", "[0, 1, 2]", "3 in row 2", "encode_labels")


def test_labels_minus_1_and_plus_1_are_refused_where_the_unlabeled_rows_are_given():
    X, y = table()
    signs = np.where(y > 0, 1, -1)
    with pytest.warns(BPLSWarning, match='"label" has no labeled row of class 0'):
        bpls.BPLS(logistic(X, signs))
    refused(LabelError, lambda: encode_labels(np.where(y < 0, 0, signs)), "hold -1 beside [0, 1]", "None or NaN")


def test_labels_minus_1_and_plus_1_are_encoded_with_none_as_unlabeled():
    codes, classes, unlabeled = encode_labels([-1, 1, None, -1])
    assert codes.tolist() == [0, 1, -1, 0]
    assert classes.tolist() == [-1, 1]
    assert unlabeled.tolist() == [False, False, True, False]


def test_a_negative_label_that_is_not_the_sentinel_is_refused():
    X, y = table()
    y[3] = -2
    refused(LabelError, lambda: bpls.BPLS(logistic(X, y)), '"label"', "1 labels", "-2 in row 3", "with -1")


@pytest.mark.parametrize(
    "labels",
    [
        ["no", "yes", None, "no"],
        pd.Series(["no", "yes", pd.NA, "no"], dtype="string"),
        pd.Categorical(["no", "yes", None, "no"]),
        pd.Series(["no", "yes", np.nan, "no"], dtype="category"),
        np.array(["no", "yes", None, "no"], dtype=object),
    ],
    ids=["list", "string", "Categorical", "category", "object"],
)
def test_string_labels_become_codes_and_come_back_as_classes(labels):
    codes, classes, unlabeled = encode_labels(labels)
    assert codes.tolist() == [0, 1, -1, 0]
    assert classes.tolist() == ["no", "yes"]
    assert unlabeled.tolist() == [False, False, True, False]


@pytest.mark.parametrize(
    "labels",
    [
        pd.Series([False, True, pd.NA, False], dtype="boolean"),
        [False, True, None, False],
        pd.Series([0, 1, pd.NA, 0], dtype="Int64"),
        [0.0, 1.0, np.nan, 0.0],
        np.ma.masked_array([0, 1, 7, 0], mask=[0, 0, 1, 0]),
    ],
    ids=["nullable boolean", "bool", "nullable integer", "float", "masked"],
)
def test_missing_values_of_each_kind_are_unlabeled(labels):
    codes, classes, _ = encode_labels(labels)
    assert codes.tolist() == [0, 1, -1, 0]
    assert classes.tolist() == [0, 1]


def test_encoded_classes_are_the_pseudo_labels_of_the_result():
    X, y = table()
    codes, classes, unlabeled = encode_labels([None if label < 0 else ["ill", "well"][label] for label in y])
    pls = bpls.BPLS(logistic(X, codes), classes=classes)
    assert set(pls.score()["pseudo_label"].to_numpy()) <= {"ill", "well"}
    assert pls.score().sizes["candidate"] == unlabeled.sum()


def test_classes_of_another_number_are_refused():
    X, y = table()
    refused(LabelError, lambda: bpls.BPLS(logistic(X, y), classes=["a", "b", "c"]), '"label"', "3 entries", "2 classes")


def test_no_labeled_row_at_all_is_refused():
    X, y = table()
    refused(LabelError, lambda: bpls.BPLS(logistic(X, np.full_like(y, -1))), '"label"', "no labeled row")


# Soft labels


def test_soft_labels_are_refused_by_encode_labels():
    refused(LabelError, lambda: encode_labels([0.9, 0.1, None, 1.0]), "2 labels", "0.9", "one class")


def test_soft_labels_in_a_container_are_refused():
    X, y = table()
    soft = y.astype(float)
    soft[2:4] = 0.9
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.Bernoulli("label", logit_p=X @ beta, observed=pm.Data("y", soft))
    refused(LabelError, lambda: bpls.BPLS(model), '"label"', "2 labels", "0.9 in row 2")


def test_whole_floats_in_a_container_are_labels():
    X, y = table()
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.Bernoulli("label", logit_p=X @ beta, observed=pm.Data("y", y.astype(float)))
    np.testing.assert_allclose(bpls.BPLS(model).score()["score"], bpls.BPLS(logistic(X, y)).score()["score"])


# A class without a labeled row


def test_a_class_without_a_labeled_row_is_warned_of_and_never_predicted_but_scored():
    y = np.where(np.arange(N) < N_LABELED, np.arange(N) % 2, -1)
    with pytest.warns(BPLSWarning, match=r'"label" has no labeled row of class 2\.'):
        pls = bpls.BPLS(softmax(y, mu=np.array([0.0, 0.0, 5.0]), sigma=1))
    assert set(pls.score()["pseudo_label"].to_numpy()) <= {0, 1}
    everything = pls.score(labels="all")
    assert everything["label"].to_numpy().tolist() == [0, 1, 2]
    assert np.isfinite(everything["score"]).all()


# Masked labels


@pytest.mark.parametrize("missing", [np.nan, None])
def test_missing_labels_in_the_model_are_refused(missing):
    X, y = table()
    labels = pd.Series(y.astype(float)).mask(y < 0) if missing is not None else np.ma.masked_array(y, mask=y < 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = logistic(X, labels)
    refused(ModelError, lambda: bpls.BPLS(model), '"label"', "missing values", "-1")


# Many trials a row


def test_a_binomial_of_many_trials_is_refused():
    X, y = table()
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=2)
        pm.Binomial("label", n=5, logit_p=X @ beta, observed=y)
    refused(LabelError, lambda: bpls.BPLS(model), '"label"', "5 trials", "n=1")


@pytest.mark.parametrize("n", [3, np.where(np.arange(N) == 2, 3, 1)], ids=["all rows", "one row"])
def test_a_multinomial_of_many_trials_is_refused(n):
    X, _ = table()
    counts = np.eye(3, dtype=int)[np.arange(N) % 3] * np.reshape(n, (-1, 1))
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=(2, 3))
        pm.Multinomial("label", n=n, p=pm.math.softmax(X @ beta, axis=-1), observed=counts)
    unlabeled = np.arange(N) >= N_LABELED
    refused(LabelError, lambda: bpls.BPLS(model, unlabeled=unlabeled), '"label"', "3 trials", "n=1")


# Names and shapes


def test_classes_that_are_named_twice_are_refused():
    X, y = table()
    refused(LabelError, lambda: bpls.BPLS(logistic(X, y), classes=["a", "a"]), '"label"', "a")


def test_labels_of_shape_n_by_1_beside_n_logits_are_refused():
    X, y = table()
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.Bernoulli("label", logit_p=X @ beta, observed=y[:, None])
    with pytest.raises(BPLSError, match='"label"'):
        bpls.BPLS(model)


def test_labels_of_shape_n_by_1_beside_a_column_of_logits_are_labels():
    X, y = table()
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=(2, 1))
        pm.Bernoulli("label", logit_p=X @ beta, observed=y[:, None])
    np.testing.assert_allclose(bpls.BPLS(model).score()["score"], bpls.BPLS(logistic(X, y)).score()["score"])
