"""Values that are missing or masked: labels are unlabeled, rows and features are refused, at every door."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from refusing import N_LABELED, N, in_containers, logistic, refused, table

import pymc_bpls as bpls
from pymc_bpls import LabelError, ModelError, RowError
from pymc_bpls.sklearn import BPLSClassifier, LabeledKFold

X, Y = table()
TRUTH = np.where(Y < 0, 1, Y)
HOLES = np.zeros((N, 2), dtype=bool)
HOLES[20, 1] = True
MASKED = np.ma.masked_array(np.where(HOLES, 1e3, X), HOLES)
NULLABLE = pd.DataFrame(X, columns=["age", "dose"]).convert_dtypes().mask(pd.DataFrame(HOLES, columns=["age", "dose"]))


@pytest.fixture(scope="module")
def pls():
    return bpls.BPLS(in_containers(X, Y), pool={"X": X[N_LABELED:]})


# Labels


def test_masked_labels_are_unlabeled_in_the_classifier():
    expected = BPLSClassifier(rounds=0).fit(X, Y).predict_proba(X)
    half = np.ma.masked_array(np.where(np.arange(N) < 20, Y, TRUTH), np.arange(N) >= 20)  # some masked, some -1
    for y in (np.ma.masked_array(TRUTH, Y < 0), half, pd.Series(TRUTH, dtype="Int64").mask(Y < 0)):
        np.testing.assert_array_equal(BPLSClassifier(rounds=0).fit(X, y).predict_proba(X), expected)
        assert sorted(np.concatenate([test for _, test in LabeledKFold(2).split(X, y)])) == list(range(N_LABELED))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint64", "UInt8"])
def test_what_minus_one_becomes_in_an_unsigned_type_is_no_class(dtype):
    wrapped = Y.astype(dtype.lower())
    labels = pd.Series(wrapped, dtype=dtype) if dtype[0] == "U" else wrapped
    largest = str(np.iinfo(wrapped.dtype).max)
    refused(LabelError, lambda: bpls.encode_labels(labels), dtype, largest, "8 rows", "-1")
    refused(LabelError, lambda: BPLSClassifier(rounds=0).fit(X, labels), dtype, largest)
    if dtype != "uint64":
        assert bpls.encode_labels(wrapped.astype(np.int64))[1].tolist() == [0, 1, int(largest)]


@pytest.mark.parametrize(
    "labels",
    [np.ma.masked_array([0, 1], [False, True]), pd.array([0, None], dtype="Int64"), [0, np.nan], [0, None]],
    ids=["masked", "Int64", "NaN", "None"],
)
def test_test_labels_that_are_missing_are_refused(pls, labels):
    test = ({"X": X[:2]}, labels)
    refused(LabelError, lambda: pls.self_train("probability", rounds=0, test=test, progressbar=False), "1 labels", "None")


# Names of rows


def test_rows_that_are_masked_are_refused():
    model = logistic(X, Y)
    for rows in (
        np.ma.masked_array([20, 21, 22], [False, True, False]),
        np.ma.masked_array(Y < 0, np.arange(N) == 22),
        pd.array([20, None], dtype="Int64"),
        [True, None] * 12,
    ):
        refused(RowError, lambda rows=rows: bpls.BPLS(model, unlabeled=rows), "unlabeled=", "missing")
    refused(RowError, lambda: bpls.BPLS(model, unlabeled=iter([20, 21])), "unlabeled=", "iterator")


def test_no_row_at_all_is_none_as_candidates_and_refused_as_test_rows(pls):
    for rows in ([], (), np.array([], dtype=int), pd.Index([])):
        assert not len(bpls.BPLS(logistic(X, Y), unlabeled=rows).scorer.problem.table.candidates)
    for test in (([], []), ({"X": X[:0]}, [])):
        refused(RowError, lambda test=test: pls.self_train(test=test, progressbar=False), "test= names no row")


# Data of rows


@pytest.mark.parametrize(
    "rows",
    [MASKED, NULLABLE, NULLABLE.astype("double[pyarrow]"), xr.DataArray(MASKED), np.where(HOLES, np.nan, X)],
    ids=["masked", "nullable", "arrow", "xarray", "NaN"],
)
def test_new_rows_that_are_missing_are_refused_at_each_door(pls, rows):
    def some(start):
        return rows.iloc[start:] if isinstance(rows, pd.DataFrame) else rows[start:]

    words = ("not finite", "'dose'", "Impute")
    refused(RowError, lambda: bpls.BPLS(in_containers(X, Y), pool={"X": some(N_LABELED)}), '"X"', *words)
    refused(RowError, lambda: pls.predict_proba({"X": some(20)}), 'rows["X"]', *words)
    test = ({"X": some(20)}, [0, 1, 0, 1])
    refused(RowError, lambda: pls.self_train(test=test, progressbar=False), 'test["X"]', *words)
    whole = some(0) if isinstance(rows, pd.DataFrame) else np.ma.masked_array(np.asarray(rows), HOLES)
    for action in (BPLSClassifier(rounds=0).fit, lambda X, y: BPLSClassifier(rounds=0).fit(X, y).predict_proba(X)):
        with pytest.raises(ValueError, match="Input X contains NaN"):
            action(whole, Y)


@pytest.mark.parametrize("part", [np.ma.masked_array([0, 1, 2], [0, 0, 1]), pd.Series([0, 1, None], dtype="Int64")], ids=type)
def test_a_group_that_is_missing_is_refused_where_the_model_has_whole_numbers(part):
    with pm.Model() as model:
        effect = pm.Normal("effect", 0, 1, shape=3)
        pm.Bernoulli("label", logit_p=effect[pm.Data("group", np.arange(N_LABELED) % 3)], observed=Y[:N_LABELED])
    refused(RowError, lambda: bpls.BPLS(model, pool={"group": part}), '"group"', "rows [2]", "Impute")
    assert len(bpls.BPLS(model, pool={"group": pd.Series([0, 2], dtype="Int64")}).scorer.problem.table.candidates) == 2


def test_masked_rows_of_a_lazy_pool_are_refused():
    class Partitions:
        lengths = (8,)

        def __iter__(self):
            yield {"X": MASKED[N_LABELED:]}

    pls = bpls.BPLS(in_containers(X, Y), pool=Partitions())
    refused(RowError, lambda: pls.score("probability", top=1, progressbar=False), '"X"', "not finite", "rows [4]", "dose")


def generative(features, y, target="label"):
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 2, shape=(2, 2))
        label = pm.Bernoulli("label", p=0.5, shape=N, observed=y)
        pm.Normal("features", mean[label], 1.0, observed=features)
    return lambda: bpls.BPLS(model, target=target)


@pytest.mark.filterwarnings("ignore:Data in (features|label) contains missing values:pymc.exceptions.ImputationWarning")
@pytest.mark.parametrize("features", [MASKED, np.where(HOLES, np.nan, X), pd.DataFrame(np.where(HOLES, np.nan, X))])
def test_missing_features_and_missing_labels_have_each_their_cure(features):
    refused(ModelError, generative(features, Y), '"features"', "Impute", "CustomDist")
    refused(ModelError, generative(features, Y, target=None), '"features"', "Impute", "CustomDist")


@pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning")
def test_missing_labels_beside_features_have_the_cure_of_labels():
    with pm.Model() as model:
        pm.Bernoulli("label", logit_p=X @ pm.Normal("b", 0, 1, shape=2), observed=np.ma.masked_array(TRUTH, Y < 0))
        pm.Normal("other", pm.Normal("m"), 1.0, observed=X[:, 0])
    for target in (None, "label", "label_observed"):
        refused(ModelError, lambda target=target: bpls.BPLS(model, target=target), '"label"', "-1", "encode_labels")


def test_a_factor_that_is_left_out_by_hand_predicts_what_bayes_says():
    def logp(value, mean):
        return pt.switch(HOLES, 0.0, -0.5 * (value - mean) ** 2 - 0.5 * np.log(2 * np.pi))

    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 2, shape=(2, 2))
        label = pm.Bernoulli("label", p=0.5, shape=N, observed=Y)
        pm.CustomDist("features", mean[label], logp=logp, observed=np.where(HOLES, 0.0, X))
    pls = bpls.BPLS(model, target="label")
    mode = pls.fit(progressbar=False).mode["mean"].to_numpy()
    terms = np.where(HOLES[:, None], 0.0, -0.5 * (X[:, None] - mode[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(
        pls.predict_proba([20], by="mode")[0, 1], 1 / (1 + np.exp(terms[20, 0] - terms[20, 1])), rtol=1e-9
    )


# Names of what is not finite


def test_data_that_is_not_finite_is_called_by_the_variables_that_have_it():
    holed = np.where(Y < 0, np.nan, X[:, 0])
    with pm.Model() as constant:
        pm.Bernoulli("label", logit_p=holed * pm.Normal("b", 0, 1), observed=Y)
    refused(RowError, lambda: bpls.BPLS(constant), 'Data of "label", of shape (24,)', "rows [16")
    with pm.Model() as computed:
        pm.Bernoulli("label", logit_p=pt.log(pm.Data("dose", X[:, 0])) * pm.Normal("b", 0, 1), observed=Y)
    refused(RowError, lambda: bpls.BPLS(computed), 'What the model computes from "dose"')
    with pm.Model() as beside:
        label = pm.Bernoulli("label", p=pm.Beta("p", 1, 1), shape=N, observed=Y)
        pm.Normal("features", pt.as_tensor([0.0, 1.0])[label], 1.0, observed=np.where(np.arange(N) == 20, np.inf, X[:, 0]))
    refused(RowError, lambda: bpls.BPLS(beside, target="label"), 'Data of "features", of shape (24,)', "rows [20]")
