"""The study of the paper: R's `glm` and the authors' runs emulated, splits, priors and repetitions."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import reference
from scipy.special import expit, log_expit
from scipy.stats import entropy
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from pymc_bpls.model.data.table import Labeled
from pymc_bpls.selftraining.held_out import HeldOut
from validation.paper import __main__ as command
from validation.paper.runs import methods, original
from validation.paper.runs.curves import divergence
from validation.paper.runs.glm import fit
from validation.paper.runs.original import SELECTIONS, Original, Round
from validation.paper.runs.repetition import repeat, separated
from validation.paper.runs.tables import Table, centre, columns, declare, load
from validation.paper.settings import (
    CODE,
    CURVED,
    EP,
    GLM,
    GLM_LIKELIHOOD,
    GLM_PROBABILITY,
    GLM_RANDOM,
    GLM_VARIANCE,
    LINEAR,
    ORIGINAL,
    PROBABILITY,
    QUICK,
    RANDOM,
    SPLINE,
    SUPPLEMENT,
    VARIANCE,
    Prior,
    Setting,
)
from validation.paper.store import protocol
from validation.study.splits import Sizes, Split, draw
from validation.study.store import Store

DATA = Path(__file__).parent / "data"


IN_R = json.loads((DATA / "glm.json").read_text())


CARS = Setting("cars", 32)


NOBODY = np.empty(0, dtype=int)


class InOrder:
    """A generator that leaves candidates in their order."""

    def permutation(self, rows):
        return rows


@cache
def case(name):
    """A split of the study as R had it: D, its labels, the pool in order, and the table with the split."""
    source, n = name.rsplit("_", 1)
    table, sizes = load(source, 60 if source == CODE else None), Sizes.of(int(n), 0.8)
    split = draw(table.y, sizes, np.random.default_rng([int(n), 0]))
    rows = np.column_stack([np.ones(len(table.X)), table.X])
    pool = np.random.default_rng([int(n), 0, 1]).permutation(split.candidates)
    return rows[split.labeled.positions], split.labeled.codes, rows[pool], table, split


def first_round(name):
    X, y, pool, _, _ = case(name)
    fitted = fit(X, y)
    return Round(0, X, y, fitted, pool, (fitted.logit(pool) > 0).astype(int))


@pytest.mark.parametrize("name", IN_R)
def test_fits_are_those_of_r_where_separated_and_where_columns_depend(name):
    at, found = first_round(name), IN_R[name]
    assert at.codes.tolist() == found["labels"]
    refits = [fit(np.vstack([at.X, x]), np.append(at.y, code)) for x, code in zip(at.candidates[:8], at.codes[:8], strict=True)]
    assert [len(each.kept) for each in refits] == found["rank"]
    np.testing.assert_allclose([each.log_lik for each in refits], found["log_lik"], rtol=1e-3)
    assert [each.invertible for each in refits] == [value is not None for value in found["log_det"]]
    exact = [2 * np.log(np.abs(np.diag(each.triangle))).sum() for each in refits if each.invertible]
    np.testing.assert_allclose(exact, [value for value in found["log_det"] if value is not None], rtol=0, atol=1e-3)


def test_the_determinant_underflows_as_in_r():
    below = first_round("ionosphere_350").fit
    assert np.linalg.slogdet(below.information)[1] < -745 and below.log_det == -np.inf
    above = first_round("banknote_200").fit
    assert above.log_det == pytest.approx(np.linalg.slogdet(above.information)[1], abs=1e-3)


def test_a_whole_run_is_that_of_the_criterion_in_r():
    _, _, _, table, split = case("code_60")
    curve, _ = original.self_train(ORIGINAL, table, split, NOBODY, np.random.default_rng([60, 0, 1]))
    pool = np.random.default_rng([60, 0, 1]).permutation(split.candidates)
    assert curve.order.tolist() == pool[IN_R["code_60"]["order"]].tolist()
    assert curve.right.tolist() == IN_R["code_60"]["right"]


@pytest.mark.parametrize("name", reference.NAMES)
@pytest.mark.parametrize(
    ("method", "stored"), [(ORIGINAL, "ppp05"), (GLM_PROBABILITY, "prob_score"), (GLM_VARIANCE, "pred_variance")]
)
def test_whole_runs_are_those_of_the_authors_code(name, method, stored):
    held = reference.read(name)
    y = np.r_[held.y[: held.n], np.zeros(held.m, int), held.truth]
    labeled = Labeled(np.arange(held.n), held.y[: held.n], np.ones(held.n))
    split = Split(labeled, held.pool, HeldOut(*held.test), NOBODY)
    curve, _ = original.self_train(method, Table(held.X[:, 1:], y), split, NOBODY, InOrder())
    order = np.argsort(held.candidates[f"order_{stored}"].to_numpy())
    assert (curve.order - held.n).tolist() == order.tolist()
    assert curve.right[-1] / len(held.truth) == pytest.approx(held.meta["final_model_test_acc"][stored])


def test_shares_of_infinite_values_are_those_found_in_the_authors_code():
    _, _, _, table, split = case("ionosphere_350")
    curve, values = original.self_train(ORIGINAL, table, split, NOBODY, np.random.default_rng(7))
    assert (values.finite, values.failed, values.since) == (0, 0, 0) and values.first == 140 and values.infinite == 560
    assert curve.order.tolist() == np.random.default_rng(7).permutation(split.candidates).tolist()


@pytest.mark.parametrize(("name", "most_failed"), [("code_400", 0.1), ("breast_cancer_400", 0.5)])
def test_every_candidate_that_has_a_value_has_an_infinite_one(name, most_failed):
    select = Original()
    at = first_round(name)
    select(at)
    assert select.counts.finite == 0 and select.counts.infinite > (1 - most_failed) * len(at.candidates)


@pytest.mark.parametrize(("number", "infinite"), [(15, False), (35, True)])
def test_values_become_infinite_on_the_way(number, infinite):
    """In the authors' code the first row was always taken from round 29 on."""
    X, y, _, table, split = case("code_100")
    curve, _ = original.self_train(GLM_RANDOM, table, split, NOBODY, np.random.default_rng([100, 0, 1]))
    rows = np.column_stack([np.ones(len(table.X)), table.X])[curve.order]
    X, y = np.vstack([X, rows[:number]]), np.append(y, curve.codes[:number])
    at = Round(number, X, y, fit(X, y), rows[number:], curve.codes[number:])
    assert all((value == np.inf) == infinite for value in at.values())


@pytest.mark.parametrize("repetition", ["3", "4"])
def test_baselines_and_first_selected_rows_are_the_stored_ones(repetition):
    stored = json.loads((DATA / "cars.json").read_text())[repetition]
    declared = declare(CARS)
    split = draw(declared.table.y, CARS.sizes, np.random.default_rng([CARS.n, int(repetition)]))
    found = [rows.tolist() for rows in (split.labeled.positions, split.candidates, split.test.positions)]
    assert found == [stored[name] for name in ("labeled", "candidates", "test")]
    for method, name in ((EP, "ppp"), (PROBABILITY, "probability"), (VARIANCE, "variance")):
        curve = methods.self_train(method, declared, split, NOBODY, np.random.default_rng(0))
        assert (curve.right[0], curve.order[0]) == (stored["right"], stored[name])


def test_left_out_scores_are_those_of_refits():
    declared = declare(CARS)
    split = draw(declared.table.y, Sizes(6, 20, 6), np.random.default_rng(5))
    rows, y = declared.design[split.labeled.positions], split.labeled.codes
    exact = []
    for j in range(len(y)):
        kept = np.arange(len(y)) != j
        refit = LogisticRegression(C=2.5**2, fit_intercept=False, tol=1e-10, max_iter=1000).fit(rows[kept], y[kept])
        exact.append(log_expit((2 * y[j] - 1) * rows[j] @ refit.coef_[0]))
    mode = declared.scorer.fit(split.labeled).mode
    assert methods.left_out_score(mode, rows, y) == pytest.approx(np.mean(exact), abs=0.01)
    assert abs(log_expit((2 * y - 1) * (rows @ mode.theta)).mean() - np.mean(exact)) > 0.03


def test_selection_by_the_likelihood_takes_the_candidate_that_leaves_the_greatest_one():
    rng = np.random.default_rng(2)
    X = np.column_stack([np.ones(48), rng.normal(size=(48, 3))])
    y = (X[:, 1] + rng.logistic(size=48) > 0).astype(int)
    at = Round(0, X[:40], y[:40], fit(X[:40], y[:40]), X[40:], y[40:])
    log_lik = []
    for x, code in zip(at.candidates, at.codes, strict=True):
        rows, labels = np.vstack([at.X, x]), np.append(at.y, code)
        p = LogisticRegression(C=1e9, fit_intercept=False, tol=1e-10, max_iter=1000).fit(rows, labels).predict_proba(rows)
        log_lik.append(-log_loss(labels, p, normalize=False))
    assert SELECTIONS[GLM_LIKELIHOOD](at) == int(np.argmax(log_lik)) != 0


def test_divergence_is_that_of_scipy():
    before, after = np.random.default_rng(1).normal(0, 3, size=(2, 50))
    p, q = (np.column_stack([1 - expit(logit), expit(logit)]) for logit in (before, after))
    assert divergence(before, after) == pytest.approx(entropy(p, q, axis=1).mean())


def test_separation():
    rows = np.column_stack([np.ones(4), [0.0, 1.0, 2.0, 3.0]])
    assert separated(rows, np.array([0, 0, 1, 1])) and not separated(rows, np.array([0, 1, 0, 1]))


@pytest.mark.parametrize(("source", "features", "basis"), [(SUPPLEMENT, 4, LINEAR), (CODE, 60, LINEAR), (CURVED, 3, SPLINE)])
def test_priors_are_centred_on_the_coefficients_that_the_labels_come_from(source, features, basis):
    table = load(source, features)
    design, scale = columns(table.X, basis)
    assert design.shape == (len(table.y), len(scale)) and np.allclose(design[:, 1:].mean(axis=0), 0, atol=1e-9)
    truth, flipped, shifted = (centre(Prior(name), design, table.logit) for name in ("truth", "flipped", "shifted"))
    assert np.square(design @ truth - table.logit).mean() < (1e-15 if basis == LINEAR else 0.02) * table.logit.var()
    np.testing.assert_array_equal(flipped, -truth)
    np.testing.assert_array_equal(shifted, truth + 1)
    # labels follow the logit
    assert np.corrcoef(table.logit, table.y)[0, 1] > 0.5


def test_one_real_repetition_from_the_command_to_the_report(tmp_path, monkeypatch):
    setting = replace(QUICK[0], repetitions=1)
    monkeypatch.setattr(command, "QUICK", (setting,))
    command.main(["--quick", "--folder", str(tmp_path)])
    record = Store(tmp_path / "results" / "paper", protocol).read(setting)[0]
    assert set(record["runs"]) == set(setting.methods) and record["separated"]
    runs = [record["runs"][method] for method in setting.methods if method not in GLM]
    assert len({run["right"][0] for run in runs}) == 1
    assert all(len(run["right"]) == setting.sizes.candidates + 1 for run in runs)
    assert f"| {setting.title} | 1 |" in (tmp_path / "reports" / "paper.md").read_text()
    repeat(replace(setting, methods=(EP,)), 1)
    # the same whatever was computed before
    assert json.loads(json.dumps(repeat(setting, 0))) == record


@pytest.mark.filterwarnings("ignore:The run ended early")
@pytest.mark.parametrize(("error", "raised"), [(KeyboardInterrupt, KeyboardInterrupt), (ZeroDivisionError, RuntimeError)])
def test_a_run_that_is_cut_short_is_no_result(monkeypatch, error, raised):
    """`Run.go` keeps what it has, and a repetition without one of its methods would stay without it."""
    left = [1.0, 1.0]

    def cut(*_):
        if not left:
            raise error
        return left.pop()

    monkeypatch.setattr(methods, "left_out_score", cut)
    with pytest.raises(raised):
        repeat(replace(CARS, methods=(RANDOM,)), 0)
