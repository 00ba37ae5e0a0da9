"""Arguments of a wrong type, length or name, as a newcomer types them: each is refused by its own name."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from refusing import N_LABELED, N, in_containers, logistic, refused, table

import pymc_bpls as bpls
from pymc_bpls import BPLSWarning, CriterionError, LabelError, ModelError, RowError
from pymc_bpls.sklearn import BPLSClassifier, cross_validate_labeled

X, Y = table()
QUIET = {"progressbar": False}


@pytest.fixture(scope="module")
def pls():
    return bpls.BPLS(in_containers(X, Y), pool={"X": X[N_LABELED:]})


@pytest.mark.parametrize("wrong", [X, 3, "X"], ids=["array", "number", "text"])
def test_a_pool_that_is_no_mapping_is_refused_with_the_names_of_the_data(wrong):
    refused(RowError, lambda: bpls.BPLS(in_containers(X, Y), pool=wrong), type(wrong).__name__, '"X"', "mapping")


@pytest.mark.parametrize("initvals", [3, {"beta": "a"}, {"beta": ["a", None]}])
def test_starts_that_are_no_numbers_are_refused(initvals):
    refused(ModelError, lambda: bpls.BPLS(logistic(X, Y), initvals=initvals), "initvals=")


def test_a_class_without_a_name_is_refused():
    refused(LabelError, lambda: bpls.BPLS(logistic(X, Y), classes=["no", None]), "class 1", '"label"')


@pytest.mark.parametrize("mark", [None, "none", 0.5])
def test_what_marks_no_row_is_named_instead_of_the_label(mark):
    refused(LabelError, lambda: bpls.BPLS(logistic(X, Y), unlabeled=mark), f"unlabeled={mark!r}", "-1 in row 16", "Leave")


@pytest.mark.parametrize(
    ("kind", "call", "words"),
    [
        (LabelError, lambda pls: pls.self_train(class_balance={0: "a", 1: "b"}, rounds=1), "class_balance="),
        (LabelError, lambda pls: pls.self_train(class_balance={0: True, 1: False}, rounds=1), "class_balance="),
        (CriterionError, lambda pls: pls.marginalize(approximation=["laplace"]), "approximation="),
        (CriterionError, lambda pls: pls.exact(method=["psis"]), "method="),
        (CriterionError, lambda pls: pls.exact(method="psis", absolute="no"), "absolute='no'"),
        (CriterionError, lambda pls: pls.audit(3), "criteria= is a int"),
        (RowError, lambda pls: pls.choose(groups="site"), "groups= has no entries"),
        (RowError, lambda _: bpls.read_index(3), "A int is no result"),
        (CriterionError, lambda pls: pls.choose(guarantee=["bound"]), "guarantee="),
        (CriterionError, lambda pls: pls.resume(None), "run="),
        (CriterionError, lambda _: bpls.compare(3, ["ppp"]), "pls= is a int"),
        (RowError, lambda _: bpls.simulate("code", "ten", 3), "n='ten'"),
        (RowError, lambda _: bpls.simulate("code", 10, 2.5), "q=2.5"),
        (bpls.DataUnavailableError, lambda _: bpls.load_dataset(["sonar"]), "['sonar']"),
        (LabelError, lambda _: bpls.encode_labels([[1], [2, 3]]), "[1] in row 0"),
        (LabelError, lambda _: bpls.encode_labels([0, 1, np.inf]), "inf in row 2"),
        (LabelError, lambda _: bpls.encode_labels(np.array([0, 1j])), "in row 0"),
        (CriterionError, lambda _: cross_validate_labeled(BPLSClassifier, X, Y), "BPLSClassifier"),
        (CriterionError, lambda _: cross_validate_labeled(3, X, Y), "int"),
        (CriterionError, lambda _: cross_validate_labeled(BPLSClassifier(), X, Y, random_seed="a"), "random_seed='a'"),
        (RowError, lambda pls: bpls.plot_decision(pls, *X.T, grid=3), "grid="),
        (RowError, lambda pls: bpls.plot_decision(pls, *X.T, grid=([0], [0])), "grid="),
        (RowError, lambda pls: bpls.plot_decision(pls, *X.T, grid=("a", [0], {"X": X[:1]})), "grid="),
        (RowError, lambda pls: bpls.plot_decision(pls, *X.T, grid=([0, 1], [0], X[:2])), "grid= has new rows"),
    ],
)
def test_values_of_a_wrong_kind_are_refused_by_name(pls, kind, call, words):
    refused(kind, lambda: call(pls), words)


def test_a_loss_that_is_no_number_is_refused(pls):
    pipelines = {"probability": bpls.Train("probability", rounds=1)}
    refused(CriterionError, lambda: pls.choose(pipelines, loss=lambda p, truth: "low", folds=2, repeats=1, **QUIET), "loss=")


def test_another_weight_than_that_of_the_run_is_refused(pls):
    run = pls.self_train("probability", pseudo_weight=0.5, rounds=1, **QUIET)
    refused(CriterionError, lambda: pls.resume(run, pseudo_weight=0.25, rounds=1), "0.25", "run= holds 0.5")
    assert pls.resume(run, pseudo_weight=0.5, rounds=1, **QUIET)["labeled"]["weight"].values[-2:].tolist() == [0.5, 0.5]
    by_function = pls.self_train("probability", pseudo_weight=lambda p: p, rounds=1, **QUIET)
    refused(CriterionError, lambda: pls.resume(by_function, pseudo_weight=0.25, rounds=1), "0.25", "function")


@pytest.mark.parametrize("name", ["exact", "audit", "sample"])
def test_a_misspelled_option_of_the_sampler_is_named(pls, name):
    """PyMC 5.28 and 6 take any keyword for NUTS, and ignore what it does not know."""
    refused(CriterionError, lambda: getattr(pls, name)(drws=10), "drws=", "spelling")


def test_options_that_the_sampler_knows_are_taken(pls):
    known = {"cores": 1, "target_accept": 0.9, "max_treedepth": 8, "init": "adapt_diag"}
    with pytest.warns(BPLSWarning, match="The sample is not reliable: there is one chain"):
        drawn = pls.sample(draws=5, tune=5, chains=1, random_seed=0, progressbar=False, **known)
    assert drawn["posterior"].sizes["draw"] == 5


@pytest.mark.parametrize("name", ["score", "self_train", "exact", "predict_proba"])
def test_a_misspelled_argument_is_told_by_the_name_of_the_method_alone(pls, name):
    members = bpls.ModelSet([in_containers(X, Y)], pool={"X": X[N_LABELED:]})
    wrong = {"rwos": [0]} if name == "predict_proba" else {"aproximation": "ep"}
    for selector in (pls, members):
        method = getattr(selector, name)
        if name == "exact":  # takes options of the sampler
            assert method.__qualname__ == "exact"
            continue
        with pytest.raises(TypeError, match=rf"^{name}\(\) got an unexpected keyword argument '{next(iter(wrong))}'"):
            method(**wrong)
    assert inspect.signature(pls.score).parameters["approximation"].default == "auto"


# Labels that are booleans


def test_booleans_hold_no_mark_and_the_model_says_that_nothing_is_a_candidate():
    pls = bpls.BPLS(logistic(X, Y.astype(bool)))
    assert repr(pls).splitlines()[:2] == [
        'BPLS of "label": 24 labeled rows, 0 candidates, 2 classes, 2 unconstrained parameters',
        "No row is a candidate. Mark unlabeled rows with -1 among whole numbers (as a boolean it is True), or give pool=.",
    ]
    refused(RowError, pls.accept, "no candidate", "boolean")


@pytest.mark.parametrize("unlabeled", [-1, None])
def test_booleans_in_a_container_are_warned_of(unlabeled):
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.Bernoulli("label", logit_p=X @ beta, observed=pm.Data("y", Y.astype(bool)))
    with pytest.warns(BPLSWarning, match=r"booleans, which hold no -1, so that there is no candidate. Declare them as whole"):
        bpls.BPLS(model, unlabeled=unlabeled)
    with warnings.catch_warnings(record=True) as told:
        assert len(bpls.BPLS(model, unlabeled=Y < 0).problem.table.candidates) == N - N_LABELED
    assert not [each for each in told if "booleans" in str(each.message)]


# New rows that are objects


OBJECTS = {
    "array": lambda rows: np.array(rows, dtype=object),
    "list": lambda rows: rows,
    "frame": lambda rows: pd.DataFrame(rows, columns=["age", "dose"], dtype=object),
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_objects_that_are_numbers_are_numbers(pls, kind):
    rows = [[0.1, -1], [1.0, True]]
    expected = pls.predict_proba({"X": np.array(rows, dtype=float)})
    np.testing.assert_array_equal(pls.predict_proba({"X": OBJECTS[kind](rows)}), expected)


@pytest.mark.parametrize("missing", [None, pd.NA, np.nan], ids=["None", "NA", "nan"])
@pytest.mark.parametrize("kind", OBJECTS)
def test_a_missing_value_among_objects_is_named_by_row_and_column(pls, kind, missing):
    rows = OBJECTS[kind]([[0.1, 1.0], [1.0, missing]])
    refused(RowError, lambda: pls.predict_proba({"X": rows}), 'rows["X"] is not finite', "rows [1]", "dose")
    row = "rows [1]" if kind == "frame" else "rows [17]"  # by the frame's index, else counted on from the declared rows
    refused(RowError, lambda: bpls.BPLS(in_containers(X, Y), pool={"X": rows}), '"X" is not finite', row, "dose")
    test = ({"X": rows}, [0, 1])
    refused(RowError, lambda: pls.self_train(test=test, **QUIET), 'test["X"] is not finite', "rows [1]", "dose")


def test_a_text_among_objects_is_named_by_row_and_column(pls):
    rows = np.array([[0.1, 1.0], [1.0, "high"]], dtype=object)
    refused(RowError, lambda: pls.predict_proba({"X": rows}), "str in rows [1], columns ['dose']", "Convert")
    frame = pd.DataFrame({"age": [0.1, 1.0], "dose": [None, "high"]})
    refused(RowError, lambda: pls.predict_proba({"X": frame}), 'in columns "dose"')


def test_rows_of_different_lengths_are_refused(pls):
    refused(RowError, lambda: pls.predict_proba({"X": [[1, 2], [3]]}), 'rows["X"]', "different lengths")
