"""Labels: encoding what users have, and the classes that a distribution knows."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import logistic
from sklearn.preprocessing import LabelEncoder

import pymc_bpls as bpls
from pymc_bpls import LabelError, ModelError, encode_labels


def encoded(y):
    codes, classes, unlabeled = encode_labels(y)
    assert codes.dtype == np.int64
    np.testing.assert_array_equal(unlabeled, codes == -1)
    return codes.tolist(), classes.tolist()


@given(st.lists(st.sampled_from(["ham", "spam", "eggs", "Zoo"]), min_size=1, max_size=20))
def test_strings_are_encoded_as_scikit_learn_encodes_them(y):
    reference = LabelEncoder().fit(y)
    assert encoded(y) == (reference.transform(y).tolist(), reference.classes_.tolist())


@given(
    st.lists(st.integers(-9, -2) | st.integers(1, 9) | st.none(), min_size=1).filter(lambda y: any(v is not None for v in y))
)
def test_decoding_gives_the_labels_back(y):
    codes, classes, unlabeled = encode_labels(y)
    back = [None if blank else int(classes[code]) for code, blank in zip(codes, unlabeled, strict=True)]
    assert back == y


def test_a_categorical_keeps_the_order_of_its_categories_and_unused_ones():
    y = pd.Categorical(["mid", "low", None, "mid"], categories=["low", "mid", "high"], ordered=True)
    for given_as in (y, pd.Series(y), pd.Series(y, index=[7, 3, 5, 1])):
        assert encoded(given_as) == ([1, 0, -1, 1], ["low", "mid", "high"])


@pytest.mark.parametrize(
    ("y", "alike"), [(["1", 1, None, "2"], "1"), (["True", True, False], "True"), (["1.0", 1.0, "a"], "1.0")]
)
def test_a_number_and_its_text_are_no_two_classes(y, alike):
    """They would be two classes of one name in every result."""
    with pytest.raises(LabelError, match=rf"\['{alike}'\] both as text and as something else\. Convert all labels to one type"):
        encode_labels(y)
    assert encode_labels(["a", 1, None])[1].tolist() == ["1", "a"]


def test_booleans_become_false_then_true():
    for y in ([True, False, True], np.array([True, False, True]), pd.Series([True, False, True])):
        assert encoded(y) == ([1, 0, 1], [False, True])


def test_booleans_with_missing_entries_stay_booleans():
    for y in ([True, None, False], pd.array([True, None, False], dtype="boolean"), pd.Series([True, pd.NA, False])):
        assert encoded(y) == ([1, -1, 0], [False, True])


def test_nullable_integers_keep_their_values():
    y = pd.array([3, None, 1, 3], dtype="Int64")
    for given_as in (y, pd.Series(y)):
        assert encoded(given_as) == ([1, -1, 0, 1], [1, 3])


@pytest.mark.parametrize("blank", [None, np.nan, pd.NA, float("nan")])
def test_every_kind_of_missing_value_is_unlabeled(blank):
    assert encoded(["b", blank, "a"]) == ([1, -1, 0], ["a", "b"])
    assert encoded(pd.Series(["b", blank, "a"], dtype=object)) == ([1, -1, 0], ["a", "b"])
    assert encoded([2, blank, 1]) == ([1, -1, 0], [1, 2])


def test_missing_entries_of_string_and_masked_arrays_are_unlabeled():
    assert encoded(pd.Series(["b", None, "a"], dtype="string")) == ([1, -1, 0], ["a", "b"])
    assert encoded(np.ma.masked_array([2, 9, 1], mask=[False, True, False])) == ([1, -1, 0], [1, 2])


def test_classes_counted_from_one_become_codes_from_zero():
    assert encoded(np.array([1, 3, 2, 1])) == ([0, 2, 1, 0], [1, 2, 3])


def test_minus_one_and_plus_one_are_two_classes():
    assert encoded([-1, 1, None, -1]) == ([0, 1, -1, 0], [-1, 1])


@pytest.mark.parametrize("labels", [[-1, 0, 1], [1, 2, -1], ["a", "b", -1], ["yes", "no", "-1"]])
def test_minus_one_beside_other_labels_is_refused_as_ambiguous(labels):
    with pytest.raises(LabelError, match=r"hold -1 beside \[.*None or NaN"):
        encode_labels(labels)


def test_whole_floats_become_integer_classes():
    codes, classes, _ = encode_labels(np.array([0.0, 1.0, np.nan, 1.0]))
    assert codes.tolist() == [0, 1, -1, 1]
    assert classes.tolist() == [0, 1] and classes.dtype.kind == "i"


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
def test_the_text_of_a_missing_value_is_no_class(missing):
    """As NumPy and pandas write it."""
    y = ["a", "b", missing, "a", missing]
    for texts in (np.array(y, dtype=object).astype(str), pd.Series(y, dtype=object).map(str), [str(label) for label in y]):
        with pytest.raises(
            LabelError, match=rf'"{missing}" is an unlabeled row or a class \(2 such labels, the first in row 2\)'
        ):
            encode_labels(texts)
    assert encoded(pd.Categorical(["None", "mild", None])) == ([0, 1, -1], ["None", "mild"])
    assert encoded(["none", "nano", None])[1] == ["nano", "none"]


def test_soft_labels_are_refused_with_their_number_and_the_first():
    with pytest.raises(LabelError, match=r"2 labels are not whole numbers, the first is 0\.3"):
        encode_labels([0.0, 0.3, 1.0, 0.7])


@pytest.mark.parametrize("y", [[[0, 1], [1, 0]], np.eye(2)])
def test_labels_must_be_one_a_row(y):
    with pytest.raises(LabelError, match="one label a row"):
        encode_labels(y)


@pytest.mark.parametrize("y", [[], [None, None], np.array([np.nan])])
def test_labels_without_any_class_are_refused(y):
    with pytest.raises(LabelError, match="at least one label"):
        encode_labels(y)


def test_encoded_labels_make_a_model_whose_classes_come_back(table):
    X, y, truth = table
    words = np.where(y < 0, None, np.where(truth == 1, "yes", "no"))
    codes, classes, unlabeled = encode_labels(words)
    pls = bpls.BPLS(logistic(X, codes), classes=classes)
    assert pls.predict_proba()["class"].to_numpy().tolist() == ["no", "yes"]
    scores = pls.score("probability")
    assert set(scores["pseudo_label"].to_numpy().tolist()) <= {"no", "yes"}
    np.testing.assert_array_equal(scores["candidate"], np.flatnonzero(unlabeled))
    np.testing.assert_array_equal(scores["pseudo_label"] == "yes", pls.predict_proba(scores["candidate"])[:, 1] > 0.5)


def declared(distribution, **parameters):
    with pm.Model() as model:
        pm.Normal("b")
        distribution("label", **parameters)
    return model


def test_a_label_outside_the_classes_is_refused_with_its_row():
    with pytest.raises(LabelError, match=r'"label" has 1 labels outside its classes \[0, 1\], the first is 3 in row 2'):
        bpls.BPLS(declared(pm.Bernoulli, p=0.5, observed=np.array([0, 1, 3, -1])))


def test_another_mark_for_unlabeled_rows_is_taken():
    pls = bpls.BPLS(declared(pm.Bernoulli, p=0.5, observed=np.array([0, 1, 9, 9])), unlabeled=9)
    np.testing.assert_array_equal(pls.scorer.problem.table.candidates, [2, 3])


def test_more_than_one_trial_a_row_is_refused():
    with pytest.raises(LabelError, match=r'"label" counts up to 3 trials.*n=1'):
        bpls.BPLS(declared(pm.Binomial, n=3, p=0.5, observed=np.array([0, 1, 2, -1])))


def test_names_for_too_many_classes_are_refused():
    with pytest.raises(LabelError, match=r'classes= has 3 entries and "label" has 2'):
        bpls.BPLS(declared(pm.Bernoulli, p=0.5, observed=np.array([0, 1, -1])), classes=["a", "b", "c"])


def test_a_distribution_of_unknown_classes_asks_for_them():
    with pytest.raises(ModelError, match=r'classes of "label" cannot be read off.*classes='):
        bpls.BPLS(declared(pm.Normal, mu=0, sigma=1, observed=np.array([0.0, 1.0, -1.0])))


def test_no_labeled_row_at_all_is_refused():
    with pytest.raises(LabelError, match='"label" has no labeled row'):
        bpls.BPLS(declared(pm.Bernoulli, p=0.5, observed=np.array([-1, -1])))


def test_a_class_without_a_labeled_row_is_warned_about_and_never_predicted():
    model = declared(pm.Categorical, p=np.array([0.1, 0.2, 0.7]), observed=np.array([0, 1, 1, -1, -1]))
    with pytest.warns(bpls.BPLSWarning, match='"label" has no labeled row of class 2'):
        pls = bpls.BPLS(model)
    np.testing.assert_array_equal(pls.score("probability")["pseudo_label"], [1, 1])


def test_the_values_of_classes_reach_the_likelihood_not_their_codes():
    with pm.Model() as model:
        b = pm.Normal("b")
        pm.Normal("label", mu=b, sigma=1, observed=np.array([1.0, 2.0, 2.0, 1.0, -1.0]))
    pls = bpls.BPLS(model, classes=[1, 2])
    np.testing.assert_allclose(pls.fit().mode["b"], 6 / 5, atol=1e-9)
    assert pls.score("probability")["pseudo_label"].to_numpy().tolist() == [1]
