"""A choice among whole pipelines that labeled rows have to prove, and the supervised model where they do not."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise, product

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import reference
import xarray as xr
from elsewhere import Elsewhere
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_t, t, ttest_1samp
from sklearn.metrics import brier_score_loss, log_loss, zero_one_loss
from sklearn.model_selection import StratifiedGroupKFold

import pymc_bpls as bpls
from pymc_bpls.choosing import bound
from pymc_bpls.choosing.betting import bets, labels_to_see, log_wealth
from pymc_bpls.choosing.bound import Dealt, lower_bounds
from pymc_bpls.choosing.evidence import Judged, judge, of_units
from pymc_bpls.choosing.folds import NoFolds, Units, cross_fitting, deal_groups, deal_rows, one_after_the_other
from pymc_bpls.choosing.losses import LOSSES
from pymc_bpls.choosing.pipelines import ByUser
from pymc_bpls.choosing.sentences import say_predictions
from pymc_bpls.choosing.simultaneous import quantile_of_largest
from pymc_bpls.selftraining.pipeline import Pipeline

QUIET = {"progressbar": False}
TRAIN = {"probability": bpls.Train("probability", rounds=3)}
rng = np.random.default_rng(3)


@pytest.fixture(scope="module", autouse=True)
def of_small_tables():
    """The tables here have twelve labels, and a bound takes twenty; what becomes of a rare class has tests of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bound, "FEWEST", 12)
        patch.setattr(bound, "FEWEST_OF_CLASS", 2)
        patch.setattr(bound, "COMMON", 2)
        yield


def oracle(truth, p=0.95):
    """Knows the true classes."""

    def pipeline(labels, random_seed):
        of_two = np.where(truth == 1, p, 1 - p)
        return xr.DataArray(np.c_[of_two, 1 - of_two], dims=("row", "class"), coords={"class": [1, 0]})

    return pipeline


# --- the bound and the bets -------------------------------------------------------------------------------------------------


def dealt_in_turn(n, folds, ratio=0.0, repeats=1):
    """Rows of each repeat in order, in folds of equal size."""
    one = np.repeat(np.arange(folds), n // folds)
    return Dealt(
        np.tile(np.arange(n), repeats),
        np.concatenate([one + folds * number for number in range(repeats)]),
        np.repeat(np.arange(repeats), n),
        np.tile(np.arange(n) % 2, repeats),
        2,
        ratio,
    )


def test_the_bound_of_many_independent_folds_is_student_s():
    d = rng.normal(0.1, 0.3, size=24)
    interval = ttest_1samp(d, 0, alternative="greater").confidence_interval(0.9)
    (found,) = lower_bounds(d[None], dealt_in_turn(24, 24), 0.1)
    assert found.lower == pytest.approx(interval.low) and found.mean == pytest.approx(d.mean())
    (found,) = lower_bounds(d[None], dealt_in_turn(24, 24, 0.25), 0.1)
    assert found.lower == pytest.approx(d.mean() - t.ppf(0.9, 23) * np.sqrt(1.25 * d.var(ddof=1) / 24))


def test_a_fold_that_fails_as_a_whole_widens_the_bound():
    """Variance of fold means over their number, where rows of a fold are alike."""
    of_folds = np.array([0.4, -0.3, 0.5, 0.6, -0.1])
    (found,) = lower_bounds(np.repeat(of_folds, 8)[None], dealt_in_turn(40, 5, 0.25), 0.1)
    assert found.lower == pytest.approx(of_folds.mean() - t.ppf(0.9, 4) * np.sqrt(1.25 * of_folds.var(ddof=1) / 5))


def test_folds_that_are_alike_by_stratification_prove_nothing():
    """Always one class against always the other: by fold the difference is 3/5 − 2/5, by row a coin's, 12 heads of 20."""
    d = np.tile([1.0, 1.0, 1.0, -1.0, -1.0], 4)
    (found,) = lower_bounds(d[None], dealt_in_turn(20, 4, 1 / 3), 0.1)
    assert found.mean == pytest.approx(0.2) and found.error == pytest.approx(np.sqrt(4 / 3 * d.var(ddof=1) / 20))
    assert found.lower < 0


def test_rows_that_belong_together_count_as_one_and_repeats_do_not_count_as_rows():
    patients = rng.normal(0.1, 0.3, size=20)
    once, grouped = dealt_in_turn(20, 20, 0.2), dealt_in_turn(60, 20, 0.2)
    grouped = replace(grouped, unit=np.repeat(np.arange(20), 3))
    (alone,) = lower_bounds(patients[None], once, 0.1)
    (together,) = lower_bounds(np.repeat(patients, 3)[None], grouped, 0.1)
    (again,) = lower_bounds(np.tile(patients, 3)[None], dealt_in_turn(20, 20, 0.2, repeats=3), 0.1)
    assert alone.lower == pytest.approx(together.lower, rel=1e-12)
    assert alone.error == pytest.approx(again.error, rel=1e-12)


def test_all_bounds_together_hold_with_the_level():
    """scipy's multivariate t says how often the largest of correlated estimates is below the quantile."""
    for correlation in ([[1, 0.7], [0.7, 1]], [[1, 0.9, 0], [0.9, 1, 0.3], [0, 0.3, 1]], [[1, -0.5], [-0.5, 1]]):
        q = quantile_of_largest(np.array(correlation, dtype=float), 9, 0.1)
        held = multivariate_t.cdf(np.full(len(correlation), q), shape=np.array(correlation), df=9, random_state=0)
        assert held == pytest.approx(0.9, abs=0.002)
    d = rng.normal(0.1, 0.3, size=(1, 20))
    one, both = (lower_bounds(values, dealt_in_turn(20, 5, 0.2), 0.1) for values in (d, np.r_[d, d]))
    assert both[0].lower == both[1].lower == pytest.approx(one[0].lower, rel=1e-12), "copies of a pipeline cost nothing"


@settings(max_examples=15, deadline=None)
@given(st.permutations(range(4)), st.permutations(range(20)))
def test_the_order_of_pipelines_and_of_predictions_changes_no_bound(pipelines, rows):
    d = np.random.default_rng(5).normal(0.1, 0.3, size=(4, 20)) + np.linspace(0, 1, 20)
    dealt = dealt_in_turn(20, 5, 0.2)
    moved = Dealt(*(each[rows] for each in (dealt.unit, dealt.fold, dealt.repeat, dealt.code)), 2, 0.2)
    before, after = lower_bounds(d, dealt, 0.1), lower_bounds(d[pipelines][:, rows], moved, 0.1)
    for place, number in enumerate(pipelines):
        assert after[place].lower == pytest.approx(before[number].lower, rel=1e-9)


def test_with_the_labels_that_it_says_the_bound_of_such_a_difference_is_0():
    d = rng.normal(0, 0.3, size=20)
    dealt = dealt_in_turn(20, 20, 0.25)
    (found,) = lower_bounds(d[None], dealt, 0.05)
    n = found.labels_to_see(0.01, 40)
    more = 0.01 + (d - d.mean()) * np.sqrt(40 / n)  # differences as n labels scatter them
    assert lower_bounds(more[None], dealt, 0.05)[0].lower == pytest.approx(0, abs=1e-12)


def test_one_fold_or_few_units_have_no_bound(monkeypatch):
    monkeypatch.setattr(bound, "FEWEST", 20)
    d = np.linspace(0.1, 0.4, 20)[None]
    assert np.isfinite(lower_bounds(d, dealt_in_turn(20, 2), 0.1)[0].lower)
    assert lower_bounds(d, dealt_in_turn(20, 1), 0.1)[0].lower == -np.inf
    patients = replace(dealt_in_turn(20, 2), unit=np.minimum(np.arange(20), 18))
    assert lower_bounds(d, patients, 0.1)[0].lower == -np.inf


def rarely(n, rare):
    """Rows each in a fold of its own, of which the first are of a rare class."""
    return replace(dealt_in_turn(n, n), code=(np.arange(n) >= rare).astype(int))


def test_a_rare_class_has_no_bound_and_its_worst_loss_is_added_twice_until_it_is_common(monkeypatch):
    monkeypatch.setattr(bound, "FEWEST_OF_CLASS", 5)
    monkeypatch.setattr(bound, "COMMON", 10)
    d = np.r_[rng.normal(-0.2, 0.3, size=9), rng.normal(0.3, 0.3, size=21)]
    for rare in (0, 1, 4):
        assert lower_bounds(d[None], rarely(30, rare), 0.1)[0].lower == -np.inf
    by_student = lambda values: ttest_1samp(values, 0).confidence_interval(0.8).low  # noqa: E731
    (found,) = lower_bounds(d[None], rarely(30, 9), 0.1)
    assert found.lower == pytest.approx(by_student(np.r_[d, np.full(2, d[:9].min())])) and found.mean == pytest.approx(d.mean())
    (common,) = lower_bounds(d[None], rarely(30, 10), 0.1)
    assert common.lower == pytest.approx(by_student(d)) and found.lower < common.lower
    better = np.r_[np.full(9, 2.0), d[9:]]  # a rare class that speaks for the pipeline raises no bound
    assert lower_bounds(better[None], rarely(30, 9), 0.1)[0].lower == pytest.approx(by_student(better))


def test_groups_count_once_of_a_rare_class(monkeypatch):
    monkeypatch.setattr(bound, "FEWEST_OF_CLASS", 5)
    d, dealt = rng.normal(0.3, 0.1, size=(1, 40)), rarely(40, 8)
    assert np.isfinite(lower_bounds(d, dealt, 0.1)[0].lower)
    in_pairs = replace(dealt, unit=np.arange(40) // 2)  # eight rows of four groups
    assert lower_bounds(d, in_pairs, 0.1)[0].lower == -np.inf


class InTurn:
    """In place of a generator: rows stay in their order."""

    def permutation(self, n):
        return np.arange(n)


def test_bets_of_a_fair_game_on_a_rare_class_have_a_mean_of_1():
    """All sequences of eleven labels, each with its probability; they began early where the rare class had no label."""
    share, n = 0.15, 11
    gain = {0: 0.1, 1: -0.1 * (1 - share) / share}
    mean = 0.0
    for codes in product((0, 1), repeat=n):
        chance = np.prod([share if code else 1 - share for code in codes])
        try:
            folds = one_after_the_other(Units.of(np.arange(n), np.array(codes), np.arange(2), None), 5, 1, InTurn())
        except NoFolds:
            mean += chance
            continue
        judged = np.concatenate([fold.test for fold in folds])
        mean += chance * np.exp(log_wealth(np.array([gain[codes[row]] for row in judged]))[-1])
    assert mean == pytest.approx(1, abs=1e-12)


def test_wealth_is_that_of_the_gambler_step_by_step():
    d = rng.uniform(-1, 1, size=30)
    wealth, total, squares = [1.0], 0.0, 0.0
    for each in d:
        stake = min(max(total / squares, 0), 0.5) if squares else 0.0
        wealth.append(wealth[-1] * (1 + stake * each))
        total, squares = total + each, squares + each**2
    np.testing.assert_allclose(np.exp(log_wealth(d)), wealth[1:])
    assert bets(d).min() >= 0 and bets(d).max() <= 0.5 and bets(d)[0] == 0


@pytest.mark.parametrize(
    ("values", "odds"), [((-1, 1), (0.5, 0.5)), ((-0.5, 0, 1), (0.5, 0.25, 0.25)), ((-1, 0.9), (0.5, 0.5))]
)
def test_in_a_fair_game_the_mean_wealth_is_1_and_ville_s_inequality_holds(values, odds):
    """All sequences of nine rows, each with its probability."""
    paths = np.array(list(product(range(len(values)), repeat=9)))
    chance = np.prod(np.array(odds)[paths], axis=1)
    wealth = np.exp([log_wealth(np.array(values, dtype=float)[path]) for path in paths])
    fair = np.dot(values, odds) == 0
    mean = chance @ wealth[:, -1]
    assert mean == pytest.approx(1) if fair else mean < 1
    for c in (2.0, 5.0, 10.0):
        assert chance[wealth.max(axis=1) >= c].sum() <= 1 / c


def test_wealth_reaches_the_threshold_with_about_as_many_labels_as_it_says():
    d = rng.choice([-1.0, 1.0], p=[0.4, 0.6], size=(200, 2000))
    first = (log_wealth(row) >= np.log(20) for row in d)
    taken = np.median([each.argmax() if each.any() else len(each) for each in first])
    assert 0.5 < taken / labels_to_see(0.2, d[0], 20.0) < 2


@pytest.mark.parametrize(("name", "theirs"), [("log", log_loss), ("zero_one", zero_one_loss), ("brier", brier_score_loss)])
def test_losses_are_scikit_learn_s(name, theirs):
    p, truth = rng.uniform(0.01, 0.99, size=50), rng.integers(2, size=50)
    both = np.c_[1 - p, p]
    expected = theirs(truth, both.argmax(axis=1) if name == "zero_one" else p)
    assert LOSSES[name].of_rows(both, truth).mean() == pytest.approx(expected * (2 if name == "brier" else 1))


# --- folds ------------------------------------------------------------------------------------------------------------------


def test_groups_are_dealt_as_evenly_as_by_scikit_learn():
    """By how much the folds' shares of a class differ; which of equally good folds a group joins is another matter."""

    def uneven(codes, folds):
        counts = np.array([np.bincount(codes[folds == fold], minlength=3) for fold in range(4)])
        return (counts / counts.sum(axis=0)).std(axis=0).mean()

    ours, theirs = [], []
    for seed in range(60):
        draw = np.random.default_rng(seed)
        codes, groups = draw.integers(3, size=60), np.unique(draw.integers(14, size=60), return_inverse=True)[1]
        found, by_them = deal_groups(codes, groups, 4), np.empty(60, dtype=int)
        for fold, (_, test) in enumerate(StratifiedGroupKFold(4).split(codes, codes, groups)):
            by_them[test] = fold
        assert all(len(set(found[groups == group])) == 1 for group in groups)
        ours.append(uneven(codes, found))
        theirs.append(uneven(codes, by_them))
    assert np.mean(ours) < np.mean(theirs) + 0.002 and np.mean(np.isclose(ours, theirs)) > 0.5


def test_rows_are_dealt_evenly_within_each_class():
    codes = rng.integers(3, size=47)
    folds = deal_rows(codes, 5)
    for code in range(3):
        assert np.ptp(np.bincount(folds[codes == code], minlength=5)) <= 1


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("deal", [cross_fitting, one_after_the_other])
def test_no_group_is_split_and_no_row_is_predicted_by_itself(deal, grouped):
    rows, codes = np.sort(rng.permutation(90)[:40]), rng.integers(2, size=40)
    groups = rng.integers(9, size=90) if grouped else None
    units = Units.of(rows, codes, np.array(["a", "b"]), groups)
    folds = deal(units, 3, 2, np.random.default_rng(0))
    assert len(folds) == 6
    for fold in folds:
        told = np.setdiff1d(rows, fold.hidden)
        assert np.isin(fold.test, fold.hidden).all() and set(codes[np.isin(rows, told)]) == {0, 1}
        if grouped:
            assert set(groups[told]).isdisjoint(groups[fold.hidden])
    for repeat in (0, 1):
        some = [fold for fold in folds if fold.repeat == repeat]
        judged = np.concatenate([fold.test for fold in some])
        assert len(judged) == len(set(judged.tolist()))
        if deal is cross_fitting:
            np.testing.assert_array_equal(np.sort(judged), rows)
        else:
            for one, later in pairwise(some):  # what is told grows by what was predicted
                assert set(one.hidden) - set(one.test) == set(later.hidden)


def test_what_cannot_be_dealt_says_why():
    names = np.array(["ham", "spam"])
    units = Units.of(np.arange(5), np.array([0, 0, 0, 0, 1]), names, None)
    with pytest.raises(NoFolds, match="class spam has all of its labeled rows in one fold"):
        cross_fitting(units, 5, 1, rng)
    together = Units.of(np.arange(4), np.array([0, 1, 0, 1]), names, np.zeros(4))
    for deal, words in ((cross_fitting, "all labeled rows belong together"), (one_after_the_other, "no labeled row is left")):
        with pytest.raises(NoFolds, match=words):
            deal(together, 2, 1, rng)


def test_groups_bet_once():
    np.testing.assert_allclose(of_units(np.array([1.0, 0.0, 0.5, -1.0]), np.array([7, 7, 2, 2])), [0.5, -0.25])


# --- choose -----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def choice(small):
    return small.choose(TRAIN, folds=3, repeats=2, random_seed=0, **QUIET)


def test_losses_are_those_of_models_that_never_saw_the_labels(table, choice):
    X, y, truth = table
    for fold, part in choice.losses.groupby("fold"):
        rows = part["row"].to_numpy()
        hidden = np.where(np.isin(np.arange(26), rows), -1, y)
        pls = bpls.BPLS(reference.logistic(X, hidden), unlabeled=np.flatnonzero(y < 0))
        for name, rounds in (("supervised", 0), ("probability", 3)):
            run = pls.self_train("probability", rounds=rounds, **QUIET)
            p = pls.predict_proba(rows, result=run).to_numpy()
            np.testing.assert_allclose(
                part["loss"].sel(pipeline=name), -np.log(p[np.arange(len(rows)), truth[rows]]), rtol=1e-6
            )
        assert int(fold) < 6 and set(part["repeat"].to_numpy()) == {int(fold) // 3}


def test_the_table_is_made_of_the_losses(choice):
    held = choice.losses["loss"]
    of_rows = held.sel(pipeline="supervised") - held.sel(pipeline="probability")
    ratio = np.mean([n / (12 - n) for n in np.bincount(held["fold"])])
    by_row, by_fold = (of_rows.groupby(name).mean().to_numpy() for name in ("row", "fold"))  # four rows a fold
    within = np.mean([each.var(ddof=1) for each in by_fold.reshape(2, 3)])
    lower, error = min(
        (by_row.mean() - t.ppf(0.9, df) * error, error)
        for df, error in ((11, np.sqrt((1 + ratio) * by_row.var(ddof=1) / 12)), (4, np.sqrt((1 + ratio) * within / 3)))
    )
    row = choice.table.loc["probability"]
    np.testing.assert_allclose([row.difference, row.standard_error, row.bound], [by_row.mean(), error, lower])
    np.testing.assert_allclose(choice.table["loss"], held.mean("prediction"))
    assert choice.name == "supervised" and choice.threshold == 0
    assert choice.verdict.startswith("Use the supervised model: 12 labels prove no other pipeline better.")
    assert "To see a difference of 0.01 nats of log loss it would take" in choice.verdict
    assert "probability" in str(choice) and "<table" in choice._repr_html_()
    assert choice.predicted == "Predictions are averaged over the posterior by the approximation that scores."
    assert choice.predicted in str(choice)


def test_each_way_to_predict_is_said(at_mode):
    averaged = bpls.BPLS(at_mode.problem.model, predictor="ep")
    ways = {
        "a": bpls.Train(),
        "b": bpls.Train(scorer=averaged),
        "c": bpls.Marginalize(),
        "d": ByUser(lambda labels, seed: None),
    }
    assert say_predictions({name: way.how_it_predicts(at_mode) for name, way in ways.items()}).startswith(
        'Predictions are at the mode (a); averaged over the posterior by "ep" (b); averaged over draws (c); by a function of '
        "your own (d); predictor="
    )


def test_a_choice_is_saved_by_its_parts(choice, tmp_path):
    with pytest.raises(
        bpls.CriterionError, match=r"A Choice is no table.*\.result, \.losses by save; \.table by to_csv; \.verdict"
    ):
        bpls.save(choice, tmp_path / "choice.nc")
    bpls.save(choice.result, tmp_path / "choice.nc")


def test_the_result_is_that_of_the_method_itself(small, choice):
    plain = small.self_train("ppp", rounds=0, **QUIET)
    np.testing.assert_array_equal(choice.result["unconstrained"]["mode"], plain["unconstrained"]["mode"])


def test_the_order_of_pipelines_and_the_executor_change_nothing(small, choice):
    both = {**TRAIN, "other": bpls.Train("random", rounds=2)}
    with ThreadPoolExecutor(2) as threads:
        one = small.choose(both, folds=3, random_seed=0, executor=threads, **QUIET)
    other = small.choose(dict(reversed(both.items())), folds=3, random_seed=0, **QUIET)
    pd.testing.assert_frame_equal(one.table, other.table.loc[one.table.index])
    assert one.name == other.name


def test_folds_can_be_done_in_another_process(small, choice):
    found = small.choose(TRAIN, folds=3, repeats=2, random_seed=0, executor=Elsewhere(), **QUIET)
    pd.testing.assert_frame_equal(found.table, choice.table)
    xr.testing.assert_identical(found.losses, choice.losses)


def test_the_order_of_rows_and_folds_changes_nothing():
    losses = {"supervised": rng.uniform(size=12), "other": rng.uniform(size=12)}

    def fold(places):
        held = {name: values[places] for name, values in losses.items()}
        return Judged(places, places % 2, places, 0, 8, held, held, {})

    how = {"guarantee": "bound", "largest": None, "n": 12, "n_classes": 2, "alpha": 0.1}
    one = judge([fold(np.arange(start, 12, 3)) for start in range(3)], ["other"], "supervised", **how)["other"]
    two = judge([fold(np.arange(start, 12, 3)[::-1]) for start in (2, 0, 1)], ["other"], "supervised", **how)["other"]
    assert one.proof == pytest.approx(two.proof, rel=1e-12) and one.difference == pytest.approx(two.difference)


@pytest.mark.parametrize("guarantee", ["bound", "betting"])
def test_what_is_better_is_chosen(guarantee):
    draw = np.random.default_rng(0)
    truth = draw.integers(2, size=60)
    y = np.where(np.arange(60) < 40, truth, -1)
    pls = bpls.BPLS(reference.logistic(draw.normal(size=(60, 2)), y), index=pd.Index([f"r{i}" for i in range(60)], name="name"))
    told = []

    def watched(labels, random_seed):
        told.append(labels)
        return oracle(truth)(labels, random_seed)

    found = pls.choose({"oracle": watched, **TRAIN}, loss="brier", guarantee=guarantee, repeats=2, random_seed=0, **QUIET)
    assert found.name == "oracle" and found.verdict.startswith('Use "oracle": ')
    assert found.result.dims == ("row", "class") and found.result["class"].values.tolist() == [0, 1]
    assert found.result["name"].values[0] == "r0" and (found.result.values.argmax(axis=1) == truth).all()
    assert len(told) == 11 and told[0].index.name == "name" and 0 < told[0].notna().sum() < 40 == told[-1].notna().sum()
    if guarantee == "betting":
        assert found.table.loc["oracle", "e_value"] >= found.threshold == 20
        d = found.losses["loss"].sel(pipeline="supervised") - found.losses["loss"].sel(pipeline="oracle")
        expected = np.mean([np.exp(log_wealth(part.to_numpy() / 2)[-1]) for _, part in d.groupby("repeat")])
        assert found.table.loc["oracle", "e_value"] == pytest.approx(expected)
    else:
        assert found.table.loc["oracle", "bound"] > 0


class Spy(Pipeline):
    """Predicts a half, and keeps the tables that it was told."""

    def __init__(self):
        self.tables = []

    def fit(self, learner, random_seed, **told):
        self.tables.append(learner.problem.table)

    def predict(self, learner, result, rows):
        return np.full((len(rows), 2), 0.5)


def test_unlabeled_rows_of_a_group_and_test_rows_are_no_candidates(small, table):
    spy, groups = Spy(), np.arange(26) % 6
    small.choose({"spy": spy}, groups=groups, folds=3, repeats=1, test=([24, 25], table[2][24:]), random_seed=0, **QUIET)
    for seen in spy.tables:
        assert set(groups[seen.labeled]).isdisjoint(groups[np.setdiff1d(np.arange(12), seen.labeled)])
        assert set(groups[seen.candidates]) == set(groups[seen.labeled]) and 24 not in seen.candidates


def test_ctrl_c_leaves_the_decision_to_what_is_done(small, table):
    calls = []

    def impatient(labels, random_seed):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return oracle(table[2])(labels, random_seed)

    found = small.choose({"mine": impatient}, folds=3, repeats=2, random_seed=0, **QUIET)
    assert "Interrupted after 3 of 6 folds, which decided." in str(found) and set(found.losses["fold"].values) == {0, 1, 2}
    whole = small.choose({"mine": oracle(table[2])}, folds=3, repeats=1, random_seed=0, **QUIET)
    assert found.table.loc["mine", "bound"] == pytest.approx(whole.table.loc["mine", "bound"])
    del calls[3:]
    with pytest.raises(KeyboardInterrupt):
        small.choose({"mine": impatient}, folds=3, random_seed=0, **QUIET)


def test_a_pipeline_that_is_refused_is_never_chosen(small, table):
    few = {"held": bpls.Train("probability", stop=bpls.NoGain(0.01)), "mine": oracle(table[2])}
    found = small.choose(few, folds=3, repeats=1, random_seed=0, **QUIET)
    assert found.table.loc["held"].isna().all() and '"held" was refused in a fold: NoGain(rows=0.01)' in str(found)


def test_what_a_pipeline_of_one_s_own_raises_is_named_and_leaves_the_rest(small, table):
    calls = []

    def failing(labels, random_seed):
        calls.append(1)
        if len(calls) == 2:
            raise ZeroDivisionError("division by zero")
        return oracle(table[2])(labels, random_seed)

    both = {"failing": failing, "mine": oracle(table[2], 0.99)}
    found = small.choose(both, folds=3, repeats=1, random_seed=0, **QUIET)
    why = "A pipeline of your own raised ZeroDivisionError: division by zero. Mend it, or leave it out."
    assert (
        found.table.loc["failing"].isna().all() and f'"failing" was refused in a fold: {why}' in found.notes and len(calls) == 3
    )
    alone = small.choose({"mine": both["mine"]}, folds=3, repeats=1, random_seed=0, **QUIET).table.loc["mine"]
    row = found.table.loc["mine"]
    assert row.difference == alone.difference and row.standard_error == alone.standard_error
    by_hand = row.difference - t.ppf(1 - 0.1 / 2, 2) * row.standard_error  # the refused one counts: labels decided on it
    assert row.bound == pytest.approx(by_hand) and row.bound < alone.bound


def test_infinite_losses_are_fair_and_said(small, table):
    wrong, right = oracle(1 - table[2], 1.0), oracle(table[2], 0.9)
    found = small.choose({"wrong": wrong, "right": right}, folds=3, repeats=1, random_seed=0, **QUIET)
    row = found.table.loc["wrong"]
    assert row.loss == np.inf and row.difference == -np.inf and np.isnan(row.standard_error) and row.bound == -np.inf
    why = "since a true class had probability 0, and a difference from it has no bound"
    assert (
        found.notes == [f'The log loss of "wrong" is infinite in some rows, {why}. loss="brier" compares them.']
        and '"right"' in found.verdict
    )
    bpls.plot_choice(found).figure.canvas.draw()
    plt.close("all")
    alone = small.choose({"wrong": wrong}, folds=3, repeats=1, random_seed=0, **QUIET)
    assert "12 labels prove no other pipeline better, since infinite losses have no bound." in alone.verdict
    every = small.choose({"right": right}, loss=lambda p, truth: np.full(len(truth), np.inf), folds=3, repeats=1, **QUIET)
    assert every.name == "supervised" and 'of "supervised", "right" is infinite' in str(every)


def test_the_bound_of_infinite_differences_is_none():
    fine, dealt = np.tile([0.1, 0.3, 0.2, 0.1], 5), dealt_in_turn(20, 4)
    for values in ([np.inf], [-np.inf], [np.inf, -np.inf], [np.nan]):
        found, other = lower_bounds(np.array([[*values, *fine[len(values) :]], fine]), dealt, 0.1)
        assert found.lower == -np.inf
        assert other.lower == pytest.approx(lower_bounds(fine[None], dealt, 0.05)[0].lower)


def test_a_dozen_labels_have_no_bound_and_it_is_said(small, monkeypatch):
    monkeypatch.setattr(bound, "FEWEST", 20)
    found = small.choose(TRAIN, folds=3, repeats=1, random_seed=0, **QUIET)
    assert found.name == "supervised" and np.isfinite(found.table.loc["probability", "difference"])
    assert found.verdict.startswith("Use the supervised model: a proof takes 20 labels at least, and there are 12. The best on")


def test_too_few_labels_of_a_class_have_no_bound_and_it_is_said(small, monkeypatch):
    counts = np.bincount(small.problem.labeled.codes)
    monkeypatch.setattr(bound, "FEWEST_OF_CLASS", counts.min() + 1)
    found = small.choose({"mine": bpls.Train("random", rounds=4)}, folds=3, repeats=1, random_seed=0, **QUIET)
    assert found.name == "supervised" and found.table.loc["mine", "bound"] == -np.inf
    rarest = f"{counts.min() + 1} labels of each class at least, and class {counts.argmin()} has {counts.min()}. The best on"
    assert found.verdict.startswith(f"Use the supervised model: a proof takes {rarest}")


def test_a_class_that_no_label_has_is_said_and_nothing_is_left_for_a_wider_prior():
    """40 labels of one class, of a model of two: a wider prior predicts these labels better, and all others worse."""
    draw = np.random.default_rng(0)
    X, y = draw.normal(size=(60, 2)), np.where(np.arange(60) < 40, 0, -1)
    with pytest.warns(bpls.BPLSWarning, match="no labeled row of class"):
        pls, wide = (bpls.BPLS(reference.logistic(X, y, scale=scale)) for scale in (2.5, 10.0))
    pipelines = {"wide": bpls.Train(rounds=0, scorer=wide)}
    for how in ({}, {"guarantee": "betting", "loss": "brier"}):
        found = pls.choose(pipelines, random_seed=0, **how, **QUIET)
        assert found.name == "supervised"
        assert "no labeled rows can be set aside to judge others, since class 1 has no label. Label more" in found.verdict


def test_too_few_labels_are_said(table):
    X, y, _ = table
    one_each = np.where(np.isin(np.arange(26), [np.argmax(y == 0), np.argmax(y == 1)]), y, -1)
    pls = bpls.BPLS(reference.logistic(X, one_each))
    for options in ({}, {"guarantee": "betting", "loss": "zero_one"}):
        found = pls.choose(TRAIN, random_seed=0, **options, **QUIET)
        assert found.name == "supervised" and "no labeled rows can be set aside to judge others, since" in found.verdict
        with pytest.raises(bpls.CriterionError, match="Nothing was judged"):
            bpls.plot_choice(found)


@pytest.mark.slow
def test_pipelines_of_another_model(table):
    X, y, _ = table
    tight = bpls.BPLS(reference.logistic(X, y, flat=False))
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 2, shape=2)
        label = pm.Bernoulli("label", 0.5 * np.ones(26), observed=y)
        pm.Normal("x", mean[label], 1, observed=X[:, 1])
    other = bpls.BPLS(model, target="label")
    found = tight.choose({"integrated": bpls.Marginalize(0.5, scorer=other)}, folds=2, repeats=1, random_seed=0, **QUIET)
    rows = found.losses["row"].values[found.losses["fold"] == 0]
    hidden = other.hiding(rows)
    p = hidden.predict_proba(rows, result=hidden.marginalize(0.5, **QUIET)).to_numpy()
    expected = -np.log(p[np.arange(len(rows)), y[rows]])
    np.testing.assert_allclose(found.losses["loss"].sel(pipeline="integrated").values[found.losses["fold"] == 0], expected)
    assert list(other.choose(folds=2, repeats=1, random_seed=0, **QUIET).table.index)[-2:] == [
        "marginalize(0.1)",
        "marginalize(1)",
    ]


def test_a_set_chooses_alike(table):
    X, y, _ = table
    robust = bpls.ModelSet(bpls.prior_set(reference.logistic(X, y), "b", scale=[0.5, 1.0]))
    found = robust.choose({"ppp": bpls.Train("ppp", rounds=2)}, folds=2, repeats=1, random_seed=0, **QUIET)
    rows = found.losses["row"].values[found.losses["fold"] == 0]
    p = robust.hiding(rows).predict_proba(rows).to_numpy()
    expected = -np.log(p[np.arange(len(rows)), y[rows]])
    np.testing.assert_allclose(found.losses["loss"][0].values[found.losses["fold"] == 0], expected)
    with pytest.raises(bpls.ModelError, match="A ModelSet integrates no labels out"):
        robust.choose({"pool": bpls.Marginalize()}, folds=2, repeats=1, **QUIET)


def test_runs_take_it_in_a_word(small, table):
    run = small.self_train("probability", rounds=3, choose=True, random_seed=0, **QUIET)
    plain = small.self_train("probability", rounds=0, **QUIET)
    assert run.attrs["choice"] == "supervised" and run.attrs["choice_verdict"].startswith("Use the supervised model")
    assert run["history"].sizes["step"] == 0
    np.testing.assert_allclose(run["unconstrained"]["mode"], plain["unconstrained"]["mode"])
    assert "Use the supervised model" in str(bpls.summary(run))
    sure = small.self_train("probability", rounds=3, choose={"mine": oracle(table[2], 0.99)}, random_seed=0, **QUIET)
    assert sure.attrs["choice"] == "mine" and sure.sizes == {"row": 26, "class": 2}
    assert "choice" not in small.self_train("probability", rounds=1, choose=False, **QUIET).attrs


@pytest.mark.slow
def test_the_run_that_is_chosen_is_the_plain_one(small, table):
    """Beside a model that predicts class 1 whatever the labels."""
    X, y, _ = table
    with pm.Model() as model:
        pm.Bernoulli("label", logit_p=X @ pm.Normal("b", [6, 0], 0.1, shape=2), observed=y)
    wrong = bpls.BPLS(model)
    better = {"other model": bpls.Train("probability", rounds=2, scorer=small)}
    run = wrong.self_train("probability", rounds=1, choose=better, random_seed=4, **QUIET)
    plain = small.self_train("probability", rounds=2, random_seed=4, **QUIET)
    assert run.attrs["choice"] == "other model"
    np.testing.assert_array_equal(run["history"]["candidate"], plain["history"]["candidate"])
    np.testing.assert_array_equal(small.predict(result=run), small.predict(result=plain))


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"loss": "log", "guarantee": "betting"}, bpls.CriterionError, 'loss="log" has no bound, and bets need one'),
        ({"loss": "hinge"}, bpls.CriterionError, "loss='hinge' is unknown"),
        ({"loss": lambda p, truth: 1.0}, bpls.CriterionError, r"loss= returned shape \(\)"),
        (
            {"loss": lambda p, truth: np.full(len(truth), np.nan)},
            bpls.CriterionError,
            'is nan at row . as "supervised" predicts it',
        ),
        (
            {"loss": lambda p, truth: np.full(len(truth), -np.inf)},
            bpls.CriterionError,
            "Return a number for each row, or inf where",
        ),
        ({"guarantee": "hope"}, bpls.CriterionError, 'guarantee="hope" is unknown'),
        ({"folds": 1}, bpls.CriterionError, "folds=1 is no number of folds"),
        ({"repeats": 0}, bpls.CriterionError, "repeats=0 is no number of repetitions"),
        ({"alpha": 1.0}, bpls.CriterionError, "alpha=1.0 is no probability"),
        ({"groups": [1, 2]}, bpls.RowError, "groups= has 2 entries, and there are 26 rows"),
        ({"pipelines": {}}, bpls.CriterionError, "pipelines={} are none"),
        ({"pipelines": {"supervised": bpls.Train()}}, bpls.CriterionError, '"supervised" is always among'),
        ({"pipelines": {"a": "ppp"}}, bpls.CriterionError, r'pipelines\["a"\] is a str'),
        ({"pipelines": {"a": lambda labels, seed: np.ones((26, 2))}}, bpls.CriterionError, "A pipeline of your own returned"),
    ],
)
def test_refusals(small, options, error, words):
    with pytest.raises(error, match=words):
        small.choose(**{"pipelines": TRAIN, "folds": 2, "repeats": 1, **options}, **QUIET)


def test_a_lazy_pool_is_refused(table):
    dask = pytest.importorskip("dask.array")
    X, _, truth = table
    with pm.Model() as model:
        data = pm.Data("X", X)
        pm.Bernoulli("label", logit_p=data @ pm.Normal("b", 0, 2.5, shape=2), observed=truth)
    lazy = bpls.BPLS(model, pool={"X": dask.from_array(X, chunks=(13, 2))})
    with pytest.raises(bpls.CriterionError, match="The pool is lazy, and this needs all of its rows at once"):
        lazy.self_train("probability", choose=True, **QUIET)


def test_more_refusals(small, table, sim1_informed):
    with pytest.raises(bpls.CriterionError, match=r"Marginalize\(test=…\) is for choose to say"):
        bpls.Marginalize(test=1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'test'"):
        bpls.Train(test=1)
    for wrong in ("ppp", bpls.Marginalize()):
        with pytest.raises(bpls.CriterionError, match=r"which describes no run\. Give bpls\.Train"):
            small.run(wrong, **QUIET)
    with pytest.raises(bpls.RowError, match="has other labels, candidates or classes"):
        small.choose({"other": bpls.Train(scorer=sim1_informed)}, **QUIET)
    for wrong, words in ((3, "names no pipelines"), ({"probability": ByUser(oracle(table[2]))}, "as the run itself is called")):
        with pytest.raises(bpls.CriterionError, match=words):
            small.self_train("probability", choose=wrong, **QUIET)
    with pytest.raises(bpls.CriterionError, match="A int is no choice"):
        bpls.plot_choice(3)


# --- the figure -------------------------------------------------------------------------------------------------------------


def test_the_figure_of_bounds(small, table, no_style_is_changed):
    found = small.choose({**TRAIN, "mine": oracle(table[2], 0.99)}, folds=3, random_seed=0, **QUIET)
    panel = bpls.plot_choice(found)
    assert [label.get_text() for label in panel.get_yticklabels()] == ["probability", "mine"]
    ends = [line.get_xdata() for line in panel.lines if len(line.get_xdata()) == 2 and line.get_linestyle() == "-"]
    np.testing.assert_allclose(ends, found.table.loc[["probability", "mine"], ["bound", "difference"]])
    assert panel.get_title(loc="left") == 'Use "mine"'
    said = [text.get_text() for text in panel.get_legend().get_texts()]
    assert said == ["to its lower bound, 90% sure", "mean difference", "supervised model"]


def test_the_figure_of_wealth(small, no_style_is_changed):
    found = small.choose(TRAIN, loss="brier", guarantee="betting", repeats=2, folds=3, random_seed=0, **QUIET)
    _, axes = plt.subplots()
    panel = bpls.plot_choice(found, axes=axes)
    assert panel is axes and panel.get_yscale() == "log" and panel.lines[0].get_ydata()[0] == 10
    dots = [line for line in panel.lines if line.get_marker() == "o"]
    np.testing.assert_allclose([dot.get_ydata()[0] for dot in dots], found.table["e_value"].dropna())
    assert panel.get_title(loc="left") == "Use the supervised model"
