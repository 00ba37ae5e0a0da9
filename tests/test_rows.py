"""The table: one table or a pool, orders that must not matter, rows that must not reach each other, and the index."""

import jax
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import logistic

import pymc_bpls as bpls
from pymc_bpls import ModelError, RowError
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.scoring.scorer import score_pool
from pymc_bpls.scoring.settings import find_settings

SAME = {"rtol": 0, "atol": 1e-10}
N = 12


def containers(X, y, **coords):
    """The small model on labeled rows only, its data in pm.Data."""
    with pm.Model(coords=coords or None) as model:
        data = pm.Data("X", X, dims=("row", "feature") if coords else None)
        b = pm.Normal("b", 0, 2.5, shape=2)
        pm.Bernoulli("label", logit_p=data @ b, observed=pm.Data("y", y), dims="row" if coords else None)
    return model


@pytest.fixture(scope="module")
def frame(table):
    X, _, _ = table
    return pd.DataFrame(X[N:], columns=["one", "x"], index=[f"new {i}" for i in range(len(X) - N)])


@pytest.fixture(scope="module")
def from_frame(table, frame):
    X, y, _ = table
    model = containers(X[:N], y[:N], row=[f"old {i}" for i in range(N)], feature=["one", "x"])
    return bpls.BPLS(model, pool={"X": frame[["x", "one"]]})


@pytest.fixture(scope="module")
def from_array(table):
    X, y, _ = table
    return bpls.BPLS(containers(X[:N], y[:N]), pool={"X": X[N:]})


def assert_same_scores(one, other, **tolerance):
    for name in ("score", "log_ppp", "log_lik_labeled", "log_lik_pseudo", "log_prior", "log_det"):
        if name in one:
            np.testing.assert_allclose(one[name], other[name], **(tolerance or SAME))
    np.testing.assert_array_equal(one["pseudo_label"], other["pseudo_label"])
    np.testing.assert_array_equal(one["candidate"], other["candidate"])


def test_a_pool_given_as_a_frame_with_shuffled_columns_scores_as_one_table(small, from_frame):
    assert_same_scores(
        from_frame.score(labels="all", approximation="laplace"), small.score(labels="all", approximation="laplace")
    )


@pytest.mark.parametrize("criterion", ["probability", "variance"])
def test_a_pool_given_as_an_array_scores_as_one_table(small, from_array, from_frame, criterion):
    expected = small.score(criterion, approximation="laplace")
    assert_same_scores(from_array.score(criterion, approximation="laplace"), expected)
    assert_same_scores(from_frame.score(criterion, approximation="laplace"), expected)


def test_the_index_of_a_pool_is_that_of_its_frame_and_of_the_models_coords(from_frame, from_array, frame):
    assert from_frame.score("probability")["index"].to_numpy().tolist() == frame.index.tolist()
    assert from_frame.predict_proba([0, N])["index"].to_numpy().tolist() == ["old 0", "new 0"]
    assert from_array.score("probability")["index"].to_numpy().tolist() == list(range(N, N + len(frame)))


def test_labels_of_a_pools_model_may_be_declared_as_a_plain_array(table, from_array):
    X, y, _ = table
    with pm.Model() as model:
        b = pm.Normal("b", 0, 2.5, shape=2)
        pm.Bernoulli("label", logit_p=pm.Data("X", X[:N]) @ b, observed=y[:N])
    assert_same_scores(bpls.BPLS(model, pool={"X": X[N:]}).score("probability"), from_array.score("probability"))


def test_a_given_index_comes_back_under_its_own_name(table):
    X, y, _ = table
    index = pd.Index([f"p{i}" for i in range(len(y))], name="patient")
    pls = bpls.BPLS(logistic(X, y), index=index)
    scores = pls.score("probability")
    assert scores["patient"].to_numpy().tolist() == index[N:].tolist()
    run = pls.self_train("probability", rounds=1, progressbar=False)
    chosen = int(run["history"]["candidate"][0])
    assert run["history"]["patient"].item() == index[chosen]


def test_the_index_of_one_table_is_that_of_its_coords(table):
    X, y, _ = table
    with pm.Model(coords={"row": [f"r{i}" for i in range(len(y))]}) as model:
        b = pm.Normal("b", 0, 2.5, shape=2)
        pm.Bernoulli("label", logit_p=X @ b, observed=y, dims="row")
    assert bpls.BPLS(model).score("probability")["index_row"].to_numpy().tolist() == [f"r{i}" for i in range(N, len(y))]


def test_an_index_of_the_wrong_length_is_refused(table):
    X, y, _ = table
    with pytest.raises(RowError, match="index= has 3 entries"):
        bpls.BPLS(logistic(X, y), index=["a", "b", "c"])


@pytest.mark.filterwarnings("ignore:unlabeled= lists:pymc_bpls.BPLSWarning")
def test_a_mask_and_positions_name_the_same_candidates(table):
    X, y, truth = table
    positions = np.arange(N, 20)
    for unlabeled in (positions, np.isin(np.arange(len(y)), positions)):
        problem = bpls.BPLS(logistic(X, np.where(np.arange(len(y)) < 20, truth, -1)), unlabeled=unlabeled).scorer.problem
        np.testing.assert_array_equal(problem.table.candidates, positions)
        np.testing.assert_array_equal(problem.table.labeled, np.arange(N))


@given(st.permutations(range(N)), st.permutations(range(N, 26)), st.sampled_from(["ppp", "marginal_likelihood"]))
@settings(max_examples=8)
def test_the_order_of_labeled_rows_and_of_candidates_changes_no_score(small, labeled, pool, criterion):
    chosen = find_settings(criterion, labels="all")
    problem, scorer = small.scorer.problem, small.scorer
    rows = np.array(labeled)
    shuffled = Labeled(rows, problem.table.codes[rows], np.ones(N))
    scores, _ = score_pool(scorer, chosen, scorer.fit(shuffled), np.array(pool))
    expected = small.score(criterion, labels="all", approximation="laplace")
    assert_same_scores(scores.dataset(problem).sortby("candidate"), expected, rtol=0, atol=1e-9)


def test_the_order_of_rows_in_the_table_changes_no_score(small, table):
    X, y, _ = table
    order = np.random.default_rng(0).permutation(len(y))
    shuffled = bpls.BPLS(logistic(X[order], y[order])).score(approximation="laplace")
    found = xr.DataArray(shuffled["score"].to_numpy(), coords={"candidate": order[shuffled["candidate"]]}, dims="candidate")
    np.testing.assert_allclose(found.sortby("candidate"), small.score(approximation="laplace")["score"], rtol=0, atol=1e-9)


def test_the_order_in_which_parameters_are_declared_changes_no_score(small, table):
    X, y, _ = table
    with pm.Model() as model:
        slope = pm.Normal("slope", 0, 2.5)
        intercept = pm.Normal("intercept", 0, 2.5)
        pm.Bernoulli("label", logit_p=intercept + slope * X[:, 1], observed=y)
    assert_same_scores(
        bpls.BPLS(model).score(labels="all", approximation="laplace"),
        small.score(labels="all", approximation="laplace"),
        rtol=0,
        atol=1e-9,
    )


def test_the_memory_for_refits_changes_no_score(small):
    assert_same_scores(
        small.score(chunk_bytes=1, approximation="laplace"), small.score(approximation="laplace"), rtol=0, atol=1e-9
    )


@pytest.fixture(scope="module")
def log_lik(small):
    """Row log-likelihoods of the small model, compiled once."""
    density = small.scorer.problem.density
    return jax.jit(lambda theta, codes: density.structure.log_lik(theta, codes, density.take(np.arange(26))))


thetas = st.lists(st.floats(-5, 5), min_size=2, max_size=2).map(np.array)
codes_of_rows = st.lists(st.integers(0, 1), min_size=26, max_size=26).map(np.array)


@given(thetas, codes_of_rows, st.integers(0, 25))
@settings(max_examples=25)
def test_changing_one_label_changes_the_log_likelihood_of_that_row_only(log_lik, theta, codes, row):
    flipped = codes.copy()
    flipped[row] = 1 - flipped[row]
    changed = np.asarray(log_lik(theta, codes)) != np.asarray(log_lik(theta, flipped))
    assert not np.delete(changed, row).any()


@given(thetas, codes_of_rows)
@settings(max_examples=25)
def test_row_log_likelihoods_are_those_of_the_logistic_formula(log_lik, table, theta, codes):
    eta = table[0] @ theta
    np.testing.assert_allclose(log_lik(theta, codes), -np.logaddexp(0, np.where(codes == 1, -eta, eta)), rtol=1e-12, atol=1e-14)


def test_an_unlabeled_row_far_away_changes_no_other_score(small, table):
    X, y, _ = table
    far = bpls.BPLS(logistic(np.vstack([X, [1, 1e6], [1, -1e6]]), np.r_[y, -1, -1]))
    scores = far.score("ppp", approximation="laplace")
    assert_same_scores(scores.isel(candidate=slice(0, 14)), small.score("ppp", approximation="laplace"))
    assert_same_scores(far.score("variance").isel(candidate=slice(0, 14)), small.score("variance"))


def test_a_row_that_is_held_out_may_even_be_missing(small, table):
    X, y, _ = table
    holed = bpls.BPLS(logistic(np.vstack([X, [1, np.nan]]), np.r_[y, -1]), unlabeled=np.arange(N, 26))
    assert_same_scores(holed.score("probability"), small.score("probability"))


def test_data_is_captured_at_construction(table, from_array):
    X, y, _ = table
    model = containers(X[:N], y[:N])
    pls = bpls.BPLS(model, pool={"X": X[N:]})
    model.set_data("X", np.zeros((N, 2)))
    assert_same_scores(pls.score("probability"), from_array.score("probability"))


def test_missing_values_of_candidates_are_refused_with_row_and_column(table, frame):
    X, y, _ = table
    holed = frame.copy()
    holed.iloc[3, 1] = np.nan
    model = containers(X[:N], y[:N], row=np.arange(N), feature=["one", "x"])
    with pytest.raises(RowError, match=r'"X" is not finite in rows \[\'new 3\'\], columns \[\'x\'\]'):
        bpls.BPLS(model, pool={"X": holed})
    plain = containers(X[:N], y[:N])
    with pytest.raises(RowError, match=r'"X" is not finite in rows \[3\] of pool=, columns \[1\]'):
        bpls.BPLS(plain, pool={"X": holed.to_numpy()})


def test_new_rows_are_named_as_they_were_given(table, frame):
    X, y, _ = table
    pls = bpls.BPLS(containers(X[:N], y[:N]), pool={"X": X[N:]})
    holed = frame.copy()
    holed.iloc[3, 1] = np.nan
    for rows, where in ((holed, r"\['new 3'\]"), (holed.to_numpy(), r"\[3\]")):
        with pytest.raises(RowError, match=rf'rows\["X"\] is not finite in rows {where}, columns \[1\]'):
            pls.predict_proba({"X": rows})
        with pytest.raises(RowError, match=rf'test\["X"\] is not finite in rows {where}'):
            pls.self_train(test=({"X": rows}, [0] * len(rows)), progressbar=False)
    with pytest.raises(RowError, match='rows= misses "X"'):
        pls.predict({})
    with pytest.raises(RowError, match='rows= names "Z"'):
        pls.predict({"Z": X})
    with pytest.raises(RowError, match=r'rows\["X"\] has shape'):
        pls.predict({"X": X[:, :1]})


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        (lambda frame: {}, 'pool= misses "X"'),
        (lambda frame: {"Z": frame}, 'pool= names "Z"'),
        (lambda frame: {"X": frame[["x"]]}, 'lacks "one"'),
        (lambda frame: {"X": frame.assign(extra=0.0)}, 'unknown "extra"'),
        (lambda frame: {"X": frame.to_numpy()[:, :1]}, r'pool\["X"\] has shape \(14, 1\)'),
        (lambda frame: {"X": frame.astype({"x": str}).to_numpy()}, r'pool\["X"\] holds values of type'),
    ],
)
def test_a_pool_that_does_not_fit_is_refused_by_name(table, frame, pool, message):
    X, y, _ = table
    model = containers(X[:N], y[:N], row=np.arange(N), feature=["one", "x"])
    with pytest.raises(RowError, match=message):
        bpls.BPLS(model, pool=pool(frame))


def test_a_frame_with_a_column_for_each_container_is_a_pool_and_new_rows():
    x, group = np.linspace(-2, 2, N), np.arange(N) % 3
    with pm.Model() as model:
        effect = pm.Normal("effect", 0, 1, shape=3)
        logit = pm.Normal("slope", 0, 1) * pm.Data("x", x) + effect[pm.Data("group", group)]
        pm.Bernoulli("label", logit_p=logit, observed=(x > 0).astype(int))
    pool = pd.DataFrame({"x": [0.5, -1.0], "group": [2, 0]}, index=["p", "q"])
    pls = bpls.BPLS(model, pool=pool)
    assert pls.problem.table.index[N:].tolist() == ["p", "q"]
    xr.testing.assert_identical(pls.predict_proba(pool), pls.predict_proba(dict(pool.items())))
    np.testing.assert_allclose(pls.predict_proba(pool), pls.predict_proba([N, N + 1]), **SAME)
    tested = pls.self_train(rounds=0, test=(pool, [1, 0]), progressbar=False)
    assert tested["test"]["index"].values.tolist() == ["p", "q"]
    with pytest.raises(RowError, match=r"pool= is a DataFrame without a column for the model's data containers \("):
        bpls.BPLS(model, pool=pool.rename(columns=str.upper))
    with pytest.raises(RowError, match='pool= names "id", and'):
        bpls.BPLS(model, pool=pool.assign(id=0))
    with pytest.raises(RowError, match=r'pool\["group"\] holds values of type .*: texts by pd.Categorical\('):
        bpls.BPLS(model, pool=pool.assign(group=["a", "b"]).astype({"group": object}))


def test_a_pool_for_data_outside_containers_is_refused(table):
    X, y, _ = table
    with pm.Model() as model:
        x = pm.Data("x", X[:N, 1])
        b = pm.Normal("b", shape=2)
        pm.Bernoulli("label", logit_p=b[0] * x + b[1] * np.sqrt(np.arange(N)), observed=y[:N])
    with pytest.raises(RowError, match=r"constants with a value for each of the 12 declared rows"):
        bpls.BPLS(model, pool={"x": X[N:, 1]})


@pytest.mark.parametrize(
    ("unlabeled", "message"),
    [
        (np.array([3, 26]), r"unlabeled= names rows \[26\]"),
        (np.array([12, 12]), r"unlabeled= names rows \[12\] more than once"),
        (np.array([1.5]), "type float64"),
        (np.ones(3, dtype=bool), "a mask of 3 rows and the table has 26"),
    ],
)
def test_candidates_that_are_no_rows_are_refused(table, unlabeled, message):
    X, y, _ = table
    with pytest.raises(RowError, match=message):
        bpls.BPLS(logistic(X, y), unlabeled=unlabeled)


def test_rows_that_are_tied_together_and_have_a_parameter_each_are_refused(table):
    X, y, _ = table
    with pm.Model() as model:
        f = pm.Normal("f", shape=len(X))
        pm.CustomDist("label", f, logp=lambda value, mu: -((value - value.mean() - mu) ** 2), observed=y)
    with pytest.raises(ModelError, match='dependent given the parameters, and "f" has a value for each'):
        bpls.BPLS(model, classes=[0, 1])
