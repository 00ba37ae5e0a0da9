"""Tables and pools that are refused, or taken as they are meant: rows, columns, groups, the user's index."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from refusing import COLUMNS, N_LABELED, N, in_containers, logistic, refused, table

import pymc_bpls as bpls
from pymc_bpls import RowError

# Data of labeled rows only


def test_a_pool_for_a_baked_in_table_names_the_constants():
    X, y = table()
    with pm.Model() as model:
        z = pm.Data("z", X[:N_LABELED, 0])
        alpha, beta = pm.Normal("alpha"), pm.Normal("beta")
        pm.Bernoulli("label", logit_p=alpha * X[:N_LABELED, 1] + beta * z, observed=y[:N_LABELED])
    refused(RowError, lambda: bpls.BPLS(model, pool={"z": X[N_LABELED:, 0]}), "constants", "16 declared rows", "pm.Data")


def test_a_pool_for_a_container_that_the_likelihood_does_not_use_is_refused():
    X, y = table()
    with pm.Model() as model:
        pm.Data("unused", X[:N_LABELED, 0])
        alpha = pm.Normal("alpha", shape=2)
        pm.Bernoulli("label", logit_p=pm.Data("X", X[:N_LABELED]) @ alpha, observed=y[:N_LABELED])
    pool = {"X": X[N_LABELED:], "unused": X[N_LABELED:, 0]}
    refused(RowError, lambda: bpls.BPLS(model, pool=pool), '"unused"', "leave it out of pool=")


def test_a_pool_without_one_of_the_row_containers_is_refused():
    X, y = table()
    with pm.Model() as model:
        alpha, beta = pm.Normal("alpha"), pm.Normal("beta")
        a, b = pm.Data("a", X[:N_LABELED, 0]), pm.Data("b", X[:N_LABELED, 1])
        pm.Bernoulli("label", logit_p=alpha * a + beta * b, observed=y[:N_LABELED])
    refused(RowError, lambda: bpls.BPLS(model, pool={"a": X[N_LABELED:, 0]}), '"b"', "16 declared rows")


# Group indices


def test_a_pool_of_groups_gives_what_one_table_gives():
    _, y = table()

    def by_group(groups, labels):
        with pm.Model() as model:
            effect = pm.Normal("effect", 0, 1, shape=5)
            pm.Bernoulli("label", logit_p=effect[pm.Data("group", groups)], observed=labels)
        return model

    groups = np.arange(N) % 5
    found = bpls.BPLS(by_group(groups[:N_LABELED], y[:N_LABELED]), pool={"group": groups[N_LABELED:]}).score()
    np.testing.assert_allclose(found["score"], bpls.BPLS(by_group(groups, y)).score()["score"], rtol=1e-10)


@pytest.mark.parametrize("level", [-1, 5])
def test_a_group_index_outside_the_levels_is_refused_with_the_levels(level):
    _, y = table()
    group = np.arange(N) % 5
    group[20] = level
    with pm.Model() as model:
        effect = pm.Normal("effect", 0, 1, shape=5)
        pm.Bernoulli("label", logit_p=effect[group], observed=y)
    refused(RowError, lambda: bpls.BPLS(model).score(), str(level), "20")


@pytest.mark.parametrize("level", [-1, 5])
def test_a_group_index_of_the_pool_outside_the_levels_is_refused_with_the_levels(level):
    _, y = table()
    with pm.Model(coords={"group": list("abcde")}) as model:
        group = pm.Data("group_of", np.arange(N_LABELED) % 5)
        effect = pm.Normal("effect", 0, 1, dims="group")
        pm.Bernoulli("label", logit_p=effect[group], observed=y[:N_LABELED])
    refused(RowError, lambda: bpls.BPLS(model, pool={"group_of": [0, level, 2]}).score(), '"group_of"', str(level))


# Rows that are not finite, columns in another order


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("row", [3, 20])
def test_a_constant_that_is_not_finite_is_refused_with_row_and_column(value, row):
    X, y = table()
    X[row, 1] = value
    refused(RowError, lambda: bpls.BPLS(logistic(X, y)), f"rows [{row}]", "columns [1]", "Impute")


def test_a_container_that_is_not_finite_is_refused_with_its_name_rows_and_columns():
    X, y = table()
    X[[3, 20], 1] = np.inf  # pm.Data itself refuses NaN
    refused(RowError, lambda: bpls.BPLS(in_containers(X, y, N)), '"X"', "rows [3, 20]", "columns ['dose']", "Impute")


def test_a_pool_row_that_is_not_finite_is_refused_with_its_row_and_column():
    X, y = table()
    X[20, 0] = np.inf
    model = in_containers(X, y)
    refused(RowError, lambda: bpls.BPLS(model, pool={"X": X[N_LABELED:]}), '"X"', "rows [20]", "columns ['age']", "Impute")


def test_a_row_that_is_held_out_may_be_anything():
    X, y = table()
    X[23] = np.nan
    scores = bpls.BPLS(logistic(X, y), unlabeled=np.arange(N_LABELED, 23)).score()
    expected = bpls.BPLS(logistic(X[:23], y[:23])).score()
    np.testing.assert_allclose(scores["score"], expected["score"], rtol=1e-9)


def test_a_pool_of_objects_is_refused():
    X, y = table()
    frame = pd.DataFrame(X[N_LABELED:], columns=COLUMNS).astype(object)
    frame.iloc[0, 0] = "12 years"
    refused(RowError, lambda: bpls.BPLS(in_containers(X, y), pool={"X": frame}), '"X"', "object", "numbers")


def test_columns_of_a_frame_are_matched_by_name():
    X, y = table()
    frame = pd.DataFrame(X[N_LABELED:], columns=COLUMNS, index=pd.Index(list("abcdefgh"), name="patient"))
    in_order = bpls.BPLS(in_containers(X, y), pool={"X": frame}).score()
    turned = bpls.BPLS(in_containers(X, y), pool={"X": frame[COLUMNS[::-1]]}).score()
    np.testing.assert_array_equal(turned["score"], in_order["score"])
    one_table = bpls.BPLS(logistic(X, y)).score()
    np.testing.assert_allclose(in_order["score"], one_table["score"], rtol=1e-10)


def test_columns_of_other_names_are_refused():
    X, y = table()
    frame = pd.DataFrame(X[N_LABELED:], columns=["age", "weight"])
    refused(RowError, lambda: bpls.BPLS(in_containers(X, y), pool={"X": frame}), '"X"', '"dose"', '"weight"')


def test_a_pool_of_another_width_is_refused():
    X, y = table()
    refused(RowError, lambda: bpls.BPLS(in_containers(X, y), pool={"X": X[N_LABELED:, :1]}), '"X"', "(8, 1)")


def test_data_is_captured_at_construction_even_from_a_constant():
    X, y = table()
    pls = bpls.BPLS(logistic(X, y))
    before = pls.score()["score"].copy()
    X[:] = 7
    np.testing.assert_array_equal(pls.score()["score"], before)


# The user's index


def test_the_index_comes_from_coords_the_frame_of_the_pool_or_the_argument():
    X, y = table()
    frame = pd.DataFrame(X[N_LABELED:], columns=COLUMNS, index=pd.Index(list("abcdefgh")))
    scores = bpls.BPLS(in_containers(X, y), pool={"X": frame}).score()
    assert scores["index"].to_numpy().tolist() == list("abcdefgh")
    named = bpls.BPLS(logistic(X, y), index=pd.Index([f"p{i}" for i in range(N)], name="patient")).score()
    assert named["patient"].to_numpy().tolist() == [f"p{i}" for i in range(N_LABELED, N)]


@pytest.mark.parametrize("wrap", [pd.DataFrame, lambda X: xr.DataArray(X, dims=("row", "column"))])
def test_a_frame_or_an_xarray_is_a_table(wrap):
    X, y = table()
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.Bernoulli("label", logit_p=pm.Data("X", wrap(X)) @ beta, observed=y)
    np.testing.assert_allclose(bpls.BPLS(model).score()["score"], bpls.BPLS(logistic(X, y)).score()["score"])


# Levels of test rows, fractions, and sizes that look like rows


def test_test_rows_with_an_unknown_group_are_refused():
    _, y = table()
    with pm.Model() as model:
        effect = pm.Normal("effect", 0, 1, shape=4)
        pm.Bernoulli("label", logit_p=effect[pm.Data("group", np.arange(N) % 4)], observed=y)
    pls = bpls.BPLS(model)
    for level in (9, -1):
        test = ({"group": [0, level]}, [0, 1])
        refused(RowError, lambda t=test: pls.self_train(rounds=1, test=t, progressbar=False), '"group"', str(level))


def test_fractions_in_the_pool_of_an_integer_container_are_refused_or_kept():
    _, y = table()
    with pm.Model() as model:
        alpha, beta = pm.Normal("alpha"), pm.Normal("beta")
        pm.Bernoulli("label", logit_p=alpha + beta * pm.Data("dose", np.arange(N) % 3), observed=pm.Data("y", y))
    with pytest.raises(RowError, match='"dose"'):
        bpls.BPLS(model, pool={"dose": [0.5, 1.7]})


def test_as_many_features_as_rows_are_not_taken_for_rows():
    rng = np.random.default_rng(3)
    square, y = rng.normal(size=(8, 8)), np.array([0, 1, 0, 1, 1, 0, -1, -1])
    found = bpls.BPLS(logistic(square, y)).score()["score"]
    tall = bpls.BPLS(logistic(np.r_[square, square[:1]], np.r_[y, -1])).score()["score"][:2]
    np.testing.assert_allclose(found, tall, rtol=1e-12)


def test_as_many_groups_as_rows_are_not_taken_for_rows():
    X, y = table()

    def by_group(groups, rows):
        with pm.Model() as model:
            effect = pm.Normal("effect", np.linspace(-1, 1, groups), 1, shape=groups)
            pm.Bernoulli("label", logit_p=effect[(np.arange(N) * 5 % 7)[rows]] + X[rows, 0], observed=y[rows])
        return bpls.BPLS(model)

    # 24 groups of which 7 have rows; 23 rows of the same table leave no doubt
    rows = np.arange(N - 1)
    np.testing.assert_allclose(
        by_group(24, np.arange(N)).score()["score"][:-1], by_group(24, rows).score()["score"], rtol=1e-10
    )
