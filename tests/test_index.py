"""The user's index: of any kind and under any name it goes through a run, a file and `resume`, and names rows."""

import datetime
import fractions
import uuid

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import reference
import xarray as xr

import pymc_bpls as bpls
from pymc_bpls.errors import CriterionError, LabelError, RowError
from pymc_bpls.model.data.index import RESERVED, RowNames
from pymc_bpls.text.literals import read as read_literal
from pymc_bpls.text.literals import write

QUIET = {"progressbar": False}
N, TEST, ASIDE = 26, np.arange(20, 26), [0, 3]
ROWS = np.arange(N)
TEXTS = [f"r{i}" for i in ROWS]
DAYS = pd.date_range("2020-10-20", periods=N)


def times(unit):
    return DAYS.as_unit(unit)


def with_missing(values, missing, **dtype):
    return pd.Index([missing, *list(values)[1:]], **dtype)


def levels(names, first="abcdefghijklm"):
    return pd.MultiIndex.from_product([list(first), [1, 2]], names=names)


OF_NUMBERS = ["int8", "int16", "int32", "int64", "uint8", "uint64", "float32", "float64", "Int64", "UInt8", "Float64"]
KINDS = {
    "range": pd.RangeIndex(5, 5 + 3 * N, 3),
    **{kind: pd.Index(ROWS, dtype=kind) for kind in OF_NUMBERS},
    "Int64 with missing": with_missing(ROWS, pd.NA, dtype="Int64"),
    "float with NaN": with_missing(ROWS / 7, np.nan),
    "complex": pd.Index(ROWS + 1j),
    "bool": pd.Index(ROWS % 2 == 0),
    "boolean": with_missing(ROWS % 2 == 0, pd.NA, dtype="boolean"),
    "texts": pd.Index(TEXTS),
    "texts as objects": pd.Index(TEXTS, dtype=object),
    "string": pd.Index(TEXTS, dtype="string"),
    "string with missing": with_missing(TEXTS, pd.NA, dtype="string"),
    "texts with None": with_missing(TEXTS, None, dtype=object),
    "texts of numbers": pd.Index([str(i) for i in ROWS]),
    "odd texts": pd.Index(
        ["", " ", "a\0b", "nan", "None", "('a', 1)", "\ud800", "日本", "'", "x\ny", *TEXTS[10:]], dtype=object
    ),
    "mixed": pd.Index(
        ["1", 1, 2.5, None, datetime.date(2020, 1, 1), ("x", 1), uuid.UUID(int=7), b"y", *TEXTS[8:]], dtype=object
    ),
    "categories": pd.CategoricalIndex(list("ab") * 13, categories=list("cba"), ordered=True),
    "categories with missing": pd.CategoricalIndex([None, "b"] * 13),
    "categories of numbers": pd.CategoricalIndex(ROWS // 3),
    "categories of periods": pd.CategoricalIndex(pd.period_range("2020", periods=N, freq="M")),
    "categories of intervals": pd.CategoricalIndex(pd.cut(ROWS, 4)),
    **{f"times in {unit}": times(unit) for unit in ("s", "ms", "us", "ns")},
    "times with missing": with_missing(DAYS, pd.NaT),
    "times long ago": pd.DatetimeIndex(np.datetime64("1000-01-01", "s") + ROWS),
    **{
        f"times in {zone}": DAYS.tz_localize(zone)
        for zone in ("UTC", "Europe/Berlin", datetime.timezone(datetime.timedelta(0, 5400)))
    },
    "times where clocks are set back": pd.date_range("2020-10-25", periods=N, freq="30min", tz="Europe/Berlin").as_unit("s"),
    **{f"durations in {unit}": pd.timedelta_range("1D", periods=N, freq="h").as_unit(unit) for unit in ("s", "ns")},
    "durations with missing": with_missing(pd.timedelta_range("1D", periods=N), pd.NaT),
    "long durations": pd.TimedeltaIndex(np.array([2**60, -(2**60)] * 13, dtype="timedelta64[s]")),
    **{f"periods {freq}": pd.period_range("2020", periods=N, freq=freq) for freq in ("M", "W-WED", "Q-FEB", "2h", "ns")},
    "periods with missing": with_missing(pd.period_range("2020", periods=N, freq="M"), pd.NaT),
    **{f"intervals closed {side}": pd.interval_range(0, N, closed=side) for side in ("left", "right", "both", "neither")},
    "intervals of fractions": pd.IntervalIndex.from_breaks(np.linspace(0, 1, N + 1)),
    "intervals with missing": pd.IntervalIndex([np.nan, *pd.interval_range(0, N - 1)]),
    "intervals of times": pd.interval_range(pd.Timestamp("2020", tz="Europe/Berlin"), periods=N, freq="D"),
    "intervals of durations": pd.interval_range(pd.Timedelta("1D"), periods=N, freq="h"),
    "uuids": pd.Index([uuid.UUID(int=int(i)) for i in ROWS]),
    "dates": pd.Index([day.date() for day in DAYS]),
    "tuples": pd.Index([("a", int(i)) for i in ROWS], tupleize_cols=False),
    "fractions": pd.Index([fractions.Fraction(int(i), 7) for i in ROWS]),
    "sparse": pd.Index(pd.arrays.SparseArray(ROWS)),
    "several of one name": pd.Index(ROWS // 4),
    "two levels": levels(["patient", "visit"]),
    "levels without names": levels([None, None]),
    "levels of one name": levels(["x", "x"]),
    "levels with our names": levels(["step", "score"]),
    "one level": pd.MultiIndex.from_arrays([ROWS], names=["only"]),
    "levels of many kinds": pd.MultiIndex.from_arrays(
        [
            pd.period_range("2020", periods=N, freq="M"),
            pd.interval_range(0, N),
            pd.Categorical(list("ab") * 13),
            DAYS.tz_localize("UTC"),
        ],
        names=["a/b", ("c", 1), None, 7],
    ),
}
OURS = [
    "step",
    "round",
    "weight",
    "score",
    "log_ppp",
    "pseudo_label",
    "candidate",
    "label",
    "row",
    "class",
    "criterion",
    "member",
]
NAMES = [
    *OURS,
    "mcse",
    "log_predictive",
    "n_pseudo",
    "gap",
    "index",
    "level_0",
    "site/row",
    "first name",
    "",
    ".",
    "a\0",
    7,
    2.5,
    ("a", 1),
]
ABSOLUTE = ["ppp", "marginal_likelihood"]
SOME = [
    "range",
    "Int64 with missing",
    "mixed",
    "categories with missing",
    "times in Europe/Berlin",
    "periods W-WED",
    "two levels",
]


@pytest.fixture(scope="module")
def declared(table):
    X, y, _ = table
    return reference.logistic(X, y)


def named(index):
    return index.rename("score") if index.nlevels == 1 else index


def same_index(one, other):
    assert str(one.dtype) == str(other.dtype) and one.equals(other) and list(one.names) == list(other.names)


def through_a_file(result, tmp_path):
    path = tmp_path / "result.nc"
    if not isinstance(result, xr.DataTree):
        result.to_netcdf(path, engine="h5netcdf")
        return xr.load_dataset(path, engine="h5netcdf")
    result.to_netcdf(path, engine="h5netcdf")
    with xr.open_datatree(path, engine="h5netcdf") as tree:
        return tree.load()


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_of_any_kind_comes_back_from_coordinates_and_from_a_file(kind, tmp_path):
    rows = np.array([7, 2, 0, 5])
    for index in (KINDS[kind], named(KINDS[kind])):
        result = xr.Dataset({"score": ("step", np.zeros(4))}, coords=RowNames(index).coords("step", rows))
        for held in (result, through_a_file(result, tmp_path)):
            same_index(bpls.read_index(held), index[rows])
            same_index(bpls.read_index(held.isel(step=[3, 0])), index[rows[[3, 0]]])
        assert not set(RowNames(index).levels) & RESERVED


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_an_index_of_any_name_comes_back_under_it(name, tmp_path):
    for index in (pd.Index(TEXTS, name=name), levels([name, "x"]), levels([None, name])):
        result = xr.Dataset({"score": ("row", np.zeros(N))}, coords=RowNames(index).coords("row"))
        for held in (result, through_a_file(result, tmp_path)):
            same_index(bpls.read_index(held), index)
            assert held["score"].to_numpy().tolist() == [0.0] * N


def goes_through_a_run(model, index, truth, tmp_path):
    pls = bpls.BPLS(model, index=index)
    rule = {"stop": bpls.NoGain(ASIDE, 20), "rounds": 1, **QUIET}
    run = pls.self_train("probability", test=(TEST, truth[TEST]), **rule)
    back = through_a_file(run, tmp_path)
    longer = pls.resume(back, **rule)
    for tree in (run, back, longer):
        same_index(bpls.read_index(tree["history"]), index[tree["history"]["candidate"].to_numpy()])
        for group in ("labeled", "test", "held_out"):
            same_index(bpls.read_index(tree[group]), index[tree[group]["row"].to_numpy()])
    assert longer["history"]["round"].to_numpy().tolist() == [1, 2]
    assert longer["history"]["step"].to_numpy().tolist() == [1, 2]
    scores = pls.score("probability")
    same_index(bpls.read_index(scores), index[12:])
    same_index(bpls.read_index(pls.predict_proba([1, 0])), index[[1, 0]])
    assert set(RowNames(index).levels) <= set(scores.to_dataframe().columns)
    assert bpls.summary(scores).table.index.nlevels == index.nlevels


@pytest.mark.parametrize("kind", SOME)
def test_an_index_goes_through_a_run_a_file_and_resume(declared, table, tmp_path, kind):
    goes_through_a_run(declared, named(KINDS[kind]), table[2], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("index", [*KINDS.values(), *(pd.Index(TEXTS, name=name) for name in NAMES)])
def test_an_index_of_every_kind_and_name_goes_through_a_run_a_file_and_resume(declared, table, tmp_path, index):
    goes_through_a_run(declared, index, table[2], tmp_path)


def test_an_index_named_round_is_not_taken_for_the_rounds(declared):
    days = pd.Index(np.random.default_rng(1).integers(1, 15, N), name="round")
    pls = bpls.BPLS(declared, index=days)
    run = pls.self_train("probability", stop=bpls.MaxRounds(5), **QUIET)
    assert run["history"].sizes["step"] == 5
    longer = pls.resume(run, rounds=2, **QUIET)["history"]
    assert longer["round"].to_numpy().tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert longer["index_round"].to_numpy().tolist() == days[longer["candidate"].to_numpy()].tolist()


@pytest.mark.parametrize("name", ["log_predictive", "log_ppp", "mcse", "pseudo_label", "site/row"])
def test_exact_values_and_audits_are_not_taken_for_an_index(declared, small, tmp_path, name):
    periods = pd.period_range("2020", periods=N, freq="M", name=name)
    pls, settings = bpls.BPLS(declared, index=periods), {"method": "psis", "draws": 500, "random_seed": 0}
    exact, plain = pls.exact(**settings), small.exact(**settings)
    for value in plain["exact"].data_vars:
        np.testing.assert_allclose(exact["exact"][value], plain["exact"][value], rtol=1e-10, atol=1e-12)
    back = through_a_file(exact, tmp_path)
    for group in ("exact", "batches"):
        same_index(bpls.read_index(back[group]), periods[12:])
    audit = pls.audit(["ppp"], back)
    audit.to_netcdf(tmp_path / "audit.nc")
    same_index(bpls.read_index(bpls.Audit.from_netcdf(tmp_path / "audit.nc").candidates), periods[12:])
    known = pd.Series(exact["exact"]["log_ppp"].to_numpy(), index=periods[12:]).sample(frac=1, random_state=0)
    np.testing.assert_array_equal(pls.audit(["ppp"], known).candidates["log_ppp"], exact["exact"]["log_ppp"])


@pytest.mark.slow
def test_the_names_that_results_use_are_known(small, tmp_path):
    """Of everything that an index is part of, so that no index can be called so."""
    model = small.scorer.problem.model
    both = bpls.ModelSet(bpls.prior_set(model, "b", scale=[0.5, 2]), index=levels([None, "score"]))
    one = bpls.BPLS(model, index=levels([None, "score"]))
    run, chosen = (
        pls.self_train(rounds=1, test=(TEST, ROWS[TEST] % 2), stop=bpls.NoGain(ASIDE, 9), **QUIET) for pls in (one, both)
    )
    exact = [pls.exact(method="psis", draws=200, labels="all", random_seed=0) for pls in (one, both)]
    trees = [run, chosen, *exact, one.audit(exact=exact[0]).tree, one.audit_along(run, criteria=["ppp"], **QUIET).tree]
    datasets = [node.to_dataset() for tree in trees for node in tree.subtree]
    datasets += [one.predict_proba().to_dataset(name="probability")]
    datasets += [one.score(name) for name in ("ibpls", "predictive", "entropy", "random")]
    datasets += [
        pls.score(name, labels=labels)
        for pls in (one, both)
        for name in ABSOLUTE
        for labels in ("predicted", "all", "expected")
    ]
    over_rows = [each for each in datasets if "level_0" in each.variables]
    assert {str(name) for each in over_rows for name in (*each.variables, *each.dims)} - RESERVED == {"level_0", "index_score"}
    for each in over_rows:
        through_a_file(each, tmp_path)


NAMED = {
    "mask": lambda index, rows: np.isin(ROWS, rows),
    "mask of pandas": lambda index, rows: pd.Series(np.isin(ROWS, rows), index=index, dtype="boolean"),
    "positions": lambda index, rows: rows,
    "positions of pandas": lambda index, rows: pd.Series(rows, dtype="Int64"),
    "names": lambda index, rows: index[rows],
    "names as an array": lambda index, rows: index[rows].to_numpy(),
    "names as a list": lambda index, rows: list(index[rows]),
}


@pytest.mark.parametrize("how", NAMED)
@pytest.mark.parametrize(
    "kind", ["texts", "mixed", "categories of periods", "times in Europe/Berlin", "periods M", "dates", "two levels"]
)
def test_rows_are_named_by_position_by_a_mask_and_by_the_index(kind, how):
    index, rows = KINDS[kind], np.array([20, 21, 25])
    if kind == "mixed":
        index = index[[*range(8, N), *range(8)]]
    pls = bpls.BPLS(reference_problem(), index=index, unlabeled=NAMED[how](index, rows))
    assert pls.score("probability")["candidate"].to_numpy().tolist() == rows.tolist()
    assert pls.predict_proba(NAMED[how](index, rows))["row"].to_numpy().tolist() == rows.tolist()
    assert pls.scorer.problem.positions(NAMED[how](index, rows), "test=").tolist() == rows.tolist()


def reference_problem():
    x = np.linspace(-2, 2, N)
    return reference.logistic(np.column_stack([np.ones(N), x]), np.where(ROWS < 20, ROWS % 2, -1))


def test_test_rows_and_rows_set_aside_are_named_by_the_index(declared, table, tmp_path):
    index, truth = pd.Index(TEXTS, name="patient"), table[2]
    pls = bpls.BPLS(declared, index=index)
    settings = {"criterion": "probability", "rounds": 2, **QUIET}
    by_position = pls.self_train(test=(TEST, truth[TEST]), stop=bpls.NoGain(ASIDE, 9), **settings)
    for aside in (index[ASIDE], ["r3", "r0"], np.isin(ROWS, ASIDE)):
        run = pls.self_train(test=(index[TEST], truth[TEST]), stop=bpls.NoGain(aside, 9), **settings)
        for group in ("history", "test", "held_out", "curve"):
            xr.testing.assert_identical(run[group].to_dataset(), by_position[group].to_dataset())
    longer = pls.resume(
        through_a_file(run, tmp_path), test=(index[TEST], truth[TEST]), stop=bpls.NoGain(["r0", "r3"], 9), rounds=1, **QUIET
    )
    assert longer["held_out"]["patient"].to_numpy().tolist() == ["r0", "r3"]


def test_whole_numbers_are_positions_and_a_pandas_index_is_names(declared):
    index = pd.Index(ROWS[::-1])
    pls = bpls.BPLS(declared, index=index)
    assert pls.predict_proba([0, 1])["row"].to_numpy().tolist() == [0, 1]
    assert pls.predict_proba(pd.Index([0, 1]))["row"].to_numpy().tolist() == [25, 24]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (pd.Index([3]), "names rows by a pandas index, and the table's rows have no such names. Give index= to BPLS"),
        (["a"], "names rows by type"),
        ([1.0], "names rows by type float64"),
        ([True], "is a mask of 1 rows and the table has 26"),
        ([26], r"names rows \[26\] and the table has 26"),
        ([2, 2], r"names rows \[2\] more than once"),
        (5, "is 5, which is no list of rows"),
        ([[1, 2]], r"holds values of shape \(1, 2\), which name no rows. Give row positions.*new rows are a mapping"),
        (np.zeros((3, 2)), r"holds values of shape \(3, 2\), which name no rows"),
        (pd.DataFrame({"a": [1]}), r"holds values of shape \(1, 1\), which name no rows"),
        (pd.array([True, None] * 13, dtype="boolean"), "has missing entries"),
    ],
)
def test_what_names_no_rows_is_refused(small, rows, message):
    with pytest.raises(RowError, match=f"^rows= {message}"):
        small.predict_proba(rows)


def test_names_that_no_row_or_several_have_are_refused(declared):
    pls = bpls.BPLS(declared, index=pd.Index(["a", "a", *TEXTS[2:]]))
    with pytest.raises(RowError, match=r"^rows= names 'a', which more than one row is called\."):
        pls.predict_proba(["a", "r3"])
    with pytest.raises(RowError, match=r"^rows= names 'b', which the index of the table does not have\."):
        pls.predict_proba(["b", "r3"])
    with pytest.raises(RowError, match=r"^unlabeled= names rows by a pandas index"):
        bpls.BPLS(declared, unlabeled=pd.Index(ROWS[12:]))


@pytest.mark.parametrize("index", ["abc", 5, np.ones((N, 2)), [[1]] * N])
def test_what_is_no_index_is_refused(declared, index):
    with pytest.raises(RowError, match=r"^index= is no index"):
        bpls.BPLS(declared, index=index)


def test_new_test_rows_keep_the_index_of_their_frame(table, tmp_path):
    X, y, truth = table
    months = pd.period_range("2020", periods=N, freq="M", name="month")
    with pm.Model(coords={"month": months[:12]}) as model:
        data = pm.Data("X", X[:12], dims=("month", None))
        pm.Bernoulli("label", logit_p=data @ pm.Normal("b", 0, 2.5, shape=2), observed=y[:12], dims="month")
    pls = bpls.BPLS(model, pool={"X": pd.DataFrame(X[12:20], index=months[12:20].rename(None))})
    test = {"X": pd.DataFrame(X[20:], index=months[20:])}, truth[20:]
    run = pls.self_train("probability", rounds=1, test=test, **QUIET)
    for tree in (run, back := through_a_file(run, tmp_path), pls.resume(back, test=test, rounds=1, **QUIET)):
        same_index(bpls.read_index(tree["test"]), months[20:])
        same_index(bpls.read_index(tree["labeled"])[:12], months[:12].rename(None))


OF_CLASSES = {
    "days": np.array(["2020", "2021", "2022"], dtype="datetime64[s]"),
    "days long ago": np.array(["1020", "2021", "2022"], dtype="datetime64[s]"),
    "periods": pd.period_range("2020", periods=3, freq="M"),
    "dates": [datetime.date(2020, 1, day) for day in (1, 2, 3)],
    "uuids": [uuid.UUID(int=i) for i in range(3)],
    "mixed": ["1", 1, 2.5],
    "tuples": [("a", i) for i in range(3)],
    "intervals": pd.interval_range(0, 3),
    "nullable": pd.array([1, 2, 3], dtype="Int64"),
}


@pytest.mark.parametrize("kind", OF_CLASSES)
def test_classes_of_any_kind_survive_a_file(kind, table, tmp_path):
    X, y, truth = table
    own = list(OF_CLASSES[kind])
    with pm.Model() as model:
        cut = np.where(y >= 0, y + (X[:, 1] > 0), -1)
        pm.OrderedLogistic("label", eta=pm.Normal("a", 0, 1) * X[:, 1], cutpoints=[-1, 1], observed=cut)
    pls = bpls.BPLS(model, classes=OF_CLASSES[kind])
    settings = {"test": (TEST, [own[code] for code in truth[TEST]]), "class_balance": {own[0]: 0.5, own[1]: 0.5}}
    whole = pls.self_train("probability", rounds=2, **settings, **QUIET)
    part = through_a_file(pls.self_train("probability", rounds=1, **settings, **QUIET), tmp_path)
    longer = pls.resume(part, rounds=1, **QUIET)
    xr.testing.assert_allclose(longer["history"].to_dataset(), whole["history"].to_dataset())
    again = pls.resume(part, rounds=1, test=settings["test"], **QUIET)
    xr.testing.assert_allclose(again["curve"].to_dataset(), whole["curve"].to_dataset())
    assert again["history"]["pseudo_label"].dtype.kind == whole["history"]["pseudo_label"].dtype.kind
    assert through_a_file(pls.score("probability", labels="all"), tmp_path).sizes["label"] == 3
    with pytest.raises(LabelError, match="names a class of"):
        bpls.BPLS(model, classes=[own[0], own[0], own[2]])


@pytest.mark.parametrize("coords", [[("north", 2019), ("south", 2020)], pd.period_range("2020", periods=2, freq="M"), [1, "a"]])
def test_levels_of_a_parameter_of_any_kind_lose_no_run(table, tmp_path, coords):
    X, y, _ = table
    with pm.Model(coords={"cell": coords}) as model:
        cell = pm.HalfNormal("cell_scale", 1)
        pm.Bernoulli("label", logit_p=X @ (cell * pm.Normal("draw", 0, 1, dims="cell")), observed=y)
    pls = bpls.BPLS(model)
    assert pls.fit().mode.sizes == {"cell": 2}
    back = through_a_file(pls.self_train("probability", rounds=1, **QUIET), tmp_path)
    assert back["final"]["draw"].dims == ("cell",)
    assert pls.resume(back, rounds=1, **QUIET)["history"].sizes["step"] == 2
    assert [read_literal(text) for text in map(str, back["final"]["cell"].to_numpy()) if text.startswith("(")] in (
        [],
        list(coords),
    )


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["draw", "cell", "b_dim_0"])
def test_a_variable_that_is_called_as_a_dim_loses_no_run(table, tmp_path, cell):
    X, y, _ = table
    with pm.Model(coords={"cell": [("a", 1), ("b", 2)]}) as model:
        scale, flat = pm.HalfNormal(cell, 1), pm.Normal("b", 0, 1, shape=2)
        pm.Bernoulli("label", logit_p=X @ (scale * pm.Normal("z", 0, 1, dims="cell") + flat), observed=y)
    pls = bpls.BPLS(model)
    assert set(pls.fit().mode.data_vars) == {cell, "b", "z"}
    assert set(through_a_file(pls.self_train("probability", rounds=1, **QUIET), tmp_path)["final"].data_vars) == {
        cell,
        "b",
        "z",
    }
    with pytest.warns(bpls.BPLSWarning, match="not reliable"):
        exact = pls.exact(draws=25, tune=20, chains=2, random_seed=0, **QUIET)
    assert through_a_file(exact, tmp_path)["posterior"]["z"].sizes == {
        "chain": 2,
        "draw": 25,
        "cell_dim" if cell == "cell" else "cell": 2,
    }


def test_a_file_has_the_permissions_of_any_other(small, tmp_path):
    small.audit(["ppp"], np.zeros(14)).to_netcdf(tmp_path / "audit.nc")
    (tmp_path / "other").touch()
    assert (tmp_path / "audit.nc").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_run_with_notes_of_any_kind_is_saved(small, tmp_path):
    run = small.self_train("probability", rounds=1, **QUIET)
    run.attrs |= {"note": None, "when": datetime.date(2020, 1, 1), "sure": True, "text": "a\0b"}
    bpls.save(run, tmp_path / "run.nc")
    with xr.open_datatree(tmp_path / "run.nc", engine="h5netcdf") as tree:
        longer = small.resume(tree.load(), rounds=1, **QUIET)
    assert [longer.attrs[name] for name in ("note", "when", "sure", "text")] == ["None", "2020-01-01", 1, "a\\0b"]
    with pytest.raises(RowError, match="has no rows"):
        bpls.read_index(longer)


@pytest.mark.parametrize(
    "value",
    [
        -3,
        "-3",
        0.1,
        "nan",
        None,
        True,
        (1, ("a", None)),
        b"x",
        1 + 2j,
        frozenset([1]),
        datetime.time(3),
        pd.Timestamp("2020", tz="UTC"),
    ],
)
def test_a_value_is_read_as_it_was_written(value):
    back = read_literal(write(value))
    assert type(back) is type(value) and back == value


def test_members_of_a_set_share_an_index_with_missing_names(small):
    index = KINDS["periods with missing"]
    both = bpls.ModelSet(bpls.prior_set(small.scorer.problem.model, "b", scale=[0.5, 2]), index=index)
    assert all(member.scorer.problem.table.index.equals(index) for member in both.members.values())
    with pytest.raises(CriterionError, match="exact= has another index"):
        small.audit(["ppp"], pd.Series(np.zeros(14), index=range(100, 114)))


def test_a_series_in_another_order_is_not_taken_by_position():
    rng = np.random.default_rng(0)
    names = pd.Index([f"r{i}" for i in range(20)])
    X, truth = rng.normal(size=(20, 2)), rng.integers(0, 2, 20)
    with pm.Model() as model:
        pm.Bernoulli("label", logit_p=X @ pm.Normal("b", 0, 2, shape=2), observed=np.where(np.arange(20) < 12, truth, -1))
    test, right = names[15:], pd.Series(truth[15:], index=names[15:])
    pls = bpls.BPLS(model, index=names)
    runs = [pls.self_train(rounds=1, test=(test, labels), progressbar=False) for labels in (right, right.to_numpy())]
    assert runs[0]["curve"].equals(runs[1]["curve"])
    with pytest.raises(bpls.RowError, match=r"labels of test= is a Series .* Sort it by \.reindex\(\)"):
        pls.self_train(rounds=1, test=(test, right[::-1]), progressbar=False)
    mask = pd.Series(np.arange(20) >= 12, index=names)
    assert bpls.BPLS(model, index=names, unlabeled=mask).score("probability").sizes["candidate"] == 8
    with pytest.raises(bpls.RowError, match=r"unlabeled= is a Series .* Sort it by \.reindex\(\)"):
        bpls.BPLS(model, index=names, unlabeled=mask[::-1])
