"""Runs of several criteria over several splits, and their paired differences."""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from importlib import import_module
from multiprocessing import get_context

import numpy as np
import pandas as pd
import pytest
import reference
import xarray as xr
from scipy.stats import ttest_rel

import pymc_bpls as bpls
from pymc_bpls.comparison.differences import with_differences

comparing = import_module("pymc_bpls.comparison.compare")
QUIET = {"progressbar": False}
CRITERIA = ["ppp[ep]", "probability", "random"]


@pytest.fixture(scope="module", autouse=True)
def of_small_tables():
    """The splits here judge by a few rows of a class, and an interval takes five."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparing, "FEWEST_OF_CLASS", 1)
        yield


@pytest.fixture(scope="module")
def known(table):
    """The small table with all of its labels, of which splits hide some."""
    X, _, truth = table
    return bpls.BPLS(reference.logistic(X, truth), index=pd.Index([f"r{i}" for i in range(26)]))


@pytest.fixture(scope="module")
def splits():
    rows = [np.random.default_rng(seed).permutation(26) for seed in (3, 4, 6)]
    return [(each[:10], each[10:18], each[18:]) for each in rows]


@pytest.fixture(scope="module")
def found(known, splits):
    return bpls.compare(known, CRITERIA, splits, rounds=3, random_seed=5, **QUIET)


def test_each_run_is_that_of_self_train_on_its_split(known, table, splits, found):
    X, _, truth = table
    for number, (labeled, unlabeled, test) in enumerate(splits):
        y = np.where(np.isin(np.arange(26), labeled), truth, -1)
        pls = bpls.BPLS(reference.logistic(X, y), unlabeled=unlabeled)
        for name, approximation in (("ppp", "ep"), ("random", "laplace")):
            settings = {"approximation": approximation, "rounds": 3, "random_seed": 5 + number}
            curve = pls.self_train(name, test=(test, truth[test]), **settings, **QUIET)["curve"]
            held = found.sel(criterion="ppp[ep]" if name == "ppp" else name, split=number)
            for measure in ("accuracy", "log_score"):
                np.testing.assert_allclose(held[measure], curve[measure], rtol=1e-9)
    assert (found["stop_kind"] == "rounds").all() and (found["n_added"] == 3).all()


def test_differences_are_paired_with_student_s_intervals(found):
    final = found["accuracy"].isel(n_pseudo=-1)
    log_score = found["log_score"].isel(n_pseudo=-1)
    for measure, values in (("accuracy", final), ("log_score", log_score)):
        one, other = (values.sel(criterion=name) for name in ("probability", "random"))
        expected = ttest_rel(one, other).confidence_interval(0.95)
        pair = found.sel(measure=measure, criterion="probability", against="random")
        np.testing.assert_allclose([pair["low"], pair["high"]], [expected.low, expected.high], atol=1e-12)
        np.testing.assert_allclose(pair["difference"], (one - other).mean())
        back = found.sel(measure=measure, criterion="random", against="probability")
        assert float(back["difference"]) == pytest.approx(-float(pair["difference"])) and int(pair["n"]) == 3
    start = found["accuracy"].isel(n_pseudo=0)
    gain = found["difference"].sel(measure="accuracy", against="supervised")
    np.testing.assert_allclose(gain, (final - start).mean("split"))
    assert np.isnan(found["difference"].sel(criterion="random", against="random")).all()


def test_random_splits_take_a_share_of_each_class_and_say_that_they_overlap(small, table):
    _, y, _ = table
    one, two = (bpls.compare(small, ["probability"], 4, test_share=0.3, rounds=1, random_seed=seed, **QUIET) for seed in (0, 0))
    xr.testing.assert_identical(one.drop_vars(["seconds", "compiling"]), two.drop_vars(["seconds", "compiling"]))
    d = (one["log_score"].isel(n_pseudo=-1) - one["log_score"].isel(n_pseudo=0)).sel(criterion="probability")
    n_test = sum(round(0.3 * (y == code).sum()) for code in (0, 1))
    expected = np.sqrt((1 / 4 + n_test / (12 - n_test)) * d.var(ddof=1))
    error = one["standard_error"].sel(measure="log_score", criterion="probability", against="supervised")
    np.testing.assert_allclose(error, expected)
    assert one.attrs["verdict"].startswith("No criterion gains beyond chance.")


def test_splits_may_be_named_and_hold_rows_out(known, splits, found):
    names = [tuple(pd.Index([f"r{i}" for i in part]) for part in split) for split in splits]
    same = bpls.compare(known, ["probability"], names, rounds=3, random_seed=5, **QUIET)
    np.testing.assert_array_equal(same["accuracy"][0], found["accuracy"].sel(criterion="probability"))
    stopped = bpls.compare(known, ["probability"], splits, stop=bpls.NoGain(0.2, patience=1), random_seed=5, **QUIET)
    assert stopped["n_added"].shape == (1, 3) and set(stopped["stop_kind"].to_numpy().ravel()) <= {"rule", "pool"}


def test_a_set_is_compared_alike(table):
    X, _, truth = table
    robust = bpls.ModelSet(bpls.prior_set(reference.logistic(X, truth), "b", scale=[0.5, 1.0]))
    split = (np.arange(10), np.arange(10, 18), np.arange(18, 26))
    found = bpls.compare(robust, ["ppp"], [split], rounds=2, **QUIET)
    y = np.where(np.arange(26) < 10, truth, -1)
    alone = bpls.ModelSet(bpls.prior_set(reference.logistic(X, y), "b", scale=[0.5, 1.0]), unlabeled=split[1])
    curve = alone.self_train("ppp", rounds=2, test=(split[2], truth[split[2]]), **QUIET)["curve"]
    np.testing.assert_allclose(found["log_score"][0, 0], curve["log_score"], rtol=1e-9)
    assert found.attrs["verdict"].startswith("One split has no standard error")


def test_a_split_that_has_no_model_is_told_and_left_out(table):
    X, _, truth = table
    flat = bpls.BPLS(reference.logistic(X, truth, flat=True))
    low, high = np.flatnonzero(truth == 0), np.flatnonzero(truth == 1)
    low, high = low[np.argsort(X[low, 1])], high[np.argsort(X[high, 1])]
    apart = np.r_[low[:4], high[-4:]]
    rest = np.setdiff1d(np.arange(26), apart)
    mixed = np.r_[low[-5:], high[:5]]
    others = np.setdiff1d(np.arange(26), mixed)
    splits = [(apart, rest[:6], rest[6:]), (mixed, others[:6], others[6:])]
    found = bpls.compare(flat, ["probability"], splits, rounds=1, **QUIET)
    assert found["stop_kind"].to_numpy().tolist() == [["refused", "rounds"]]
    assert "has no finite mode" in str(found["stop_reason"].to_numpy()[0, 0])
    assert np.isnan(found["accuracy"][0, 0]).all() and int(found["n"].sel(measure="accuracy", against="supervised")[0]) == 1


def test_ctrl_c_gives_the_splits_that_were_finished(known, splits):
    calls = []

    def impatient(history):
        calls.append(1)
        if len(calls) == 6:
            raise KeyboardInterrupt

    found = bpls.compare(known, ["probability", "random"], splits, stop=impatient, rounds=1, random_seed=5, **QUIET)
    assert found.sizes["split"] == 2
    del calls[5:]
    with pytest.raises(KeyboardInterrupt):
        bpls.compare(known, ["random"], splits, stop=impatient, rounds=1, **QUIET)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: ThreadPoolExecutor(2), id="threads"),
        pytest.param(
            lambda: ProcessPoolExecutor(1, get_context("spawn")),
            id="processes",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_splits_run_elsewhere_with_the_same_numbers(known, splits, found, make):
    with make() as executor:
        other = bpls.compare(known, CRITERIA, splits, rounds=3, random_seed=5, executor=executor, **QUIET)
    times = ["seconds", "compiling"]
    xr.testing.assert_allclose(other.drop_vars(times), found.drop_vars(times), rtol=1e-9)


@pytest.mark.parametrize(
    ("splits", "error", "message"),
    [
        (0, bpls.CriterionError, "splits=0 is no number of splits"),
        ([], bpls.CriterionError, "splits= is empty"),
        ("ten", bpls.CriterionError, "splits='ten' are no splits"),
        ([([0, 1], [2])], bpls.CriterionError, r"splits\[0\] is no split"),
        ([([0, 1], [2], [12])], bpls.RowError, r"takes rows \[12\] for labeled or test rows"),
        ([([0, 1], [2], [1])], bpls.RowError, r"splits\[0\] names a row twice"),
    ],
)
def test_what_is_no_split_is_refused(small, splits, error, message):
    with pytest.raises(error, match=message):
        bpls.compare(small, ["random"], splits, **QUIET)


def test_too_few_labels_to_judge_by_are_refused(table):
    X, y, _ = table
    few = np.where(np.isin(np.arange(26), [0, 1]), y, -1)
    pls = bpls.BPLS(reference.logistic(X, few))
    with pytest.raises(bpls.RowError, match='of the 2 labeled rows of "label" leaves none to judge by'):
        bpls.compare(pls, ["random"], 3, **QUIET)
    with pytest.raises(bpls.CriterionError, match="test_share=1 is no share"):
        bpls.compare(pls, ["random"], 3, test_share=1, **QUIET)
    with pytest.raises(bpls.CriterionError, match=r"executor=4 runs nothing\. Give what has submit"):
        bpls.compare(pls, ["random"], 3, executor=4, **QUIET)


def test_a_class_that_judges_nothing_leaves_no_interval():
    """40 labels of one class of two: any run that confirms it looks better on each split, on the others it is worse."""
    draw = np.random.default_rng(0)
    X, y = np.c_[np.ones(60), draw.normal(size=(60, 2))], np.where(np.arange(60) < 40, 0, -1)
    with pytest.warns(bpls.BPLSWarning, match="no labeled row of class"):
        pls = bpls.BPLS(reference.logistic(X, y))
    found = bpls.compare(pls, ["probability"], 4, rounds=5, random_seed=0, **QUIET)
    gain = found.sel(measure="log_score", criterion="probability", against="supervised")
    assert gain["difference"] > 2 * gain["standard_error"] > 0 and np.isnan(gain["low"]) and np.isnan(gain["high"])
    assert found.attrs["verdict"].startswith("Whether anything was gained is unknown: 0 rows of class 1 judge, and an interval")


def test_a_clear_gain_is_said_to_be_one():
    from pymc_bpls.comparison.compare import say_differences

    rng = np.random.default_rng(0)
    accuracy = np.full((2, 8, 2), 0.5)
    accuracy[0, :, 1] = 0.6 + 0.01 * rng.normal(size=8)
    accuracy[1, :, 1] = 0.4 + 0.01 * rng.normal(size=8)
    coords = {"criterion": ["good", "bad"], "split": range(8), "n_pseudo": [0, 1]}
    found = with_differences(xr.Dataset({"accuracy": (("criterion", "split", "n_pseudo"), accuracy)}, coords))
    text = say_differences(found)
    assert text.startswith("Better than the supervised model beyond chance: good. Worse beyond chance: bad.")
