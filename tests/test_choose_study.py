"""The study of choosing: its report on known records, a repetition of each part, and that stored ones hold what is promised."""

from itertools import product

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binomtest
from sklearn.linear_model import LogisticRegression

from pymc_bpls.choosing import bound
from pymc_bpls.choosing.bound import FEWEST
from pymc_bpls.choosing.folds import Units
from pymc_bpls.choosing.pipelines import SUPERVISED
from validation.choose import rare
from validation.choose.cases import ALPHA, NULL, PAPER, PARTS, POOLED, POWER, SIZE, protocol
from validation.choose.fast import averaged, fit
from validation.choose.rare_report import total
from validation.choose.repetition import BETTING, BOUND, repeat
from validation.choose.report import gain, left_for_worse, upper_bound, write
from validation.choose.tables import draw
from validation.paper.store import protocol as paper_protocol
from validation.study.command import VALIDATION
from validation.study.ratios import Ratio
from validation.study.store import Store

STORED = Store(VALIDATION / "results" / "choose", protocol)


RARE_STORED = Store(STORED.folder, rare.protocol)


def made_up(chosen, worse):
    judged = {SUPERVISED: {"log": 0.5, "brier": 0.4, "zero_one": 0.2}}
    judged["ppp"] = {"log": 0.6 if worse else 0.4, "brier": 0.4, "zero_one": 0.3 if worse else 0.1}
    judged["class-conditional"] = judged["ppp"]
    rule = {"chosen": chosen, "proof": {"ppp": 1.0}, "difference": {"ppp": 0.0}}
    return {BOUND: rule, BETTING: rule, "judged": judged}


def test_leaving_for_a_worse_one_is_told_by_the_rule_s_own_loss():
    assert left_for_worse(made_up("ppp", True), BOUND) and not left_for_worse(made_up("ppp", True), BETTING)
    assert not left_for_worse(made_up("ppp", False), BOUND) and not left_for_worse(made_up(SUPERVISED, True), BOUND)
    assert gain(made_up("ppp", True), "ppp") == pytest.approx(-0.1)


def test_the_report_counts(tmp_path):
    store, case = Store(tmp_path / "results" / "choose", protocol), PARTS[SIZE][0][0]
    assert write(store, tmp_path / "choose.md") is None
    for number in range(10):
        store.add(case, number, made_up("ppp" if number < 4 else SUPERVISED, number < 3))
    text = write(store, tmp_path / "choose.md").read_text()
    assert "| logistic | ppp, class-conditional | bound, log | 10 | 40% | 30% | 60.7% |" in text
    assert "| betting, brier | 10 | 40% | 0% | 25.9% |" in text
    assert "In 0 of 2 rows that is below 10%. Whether integrating the pool's labels out does harm" in text


def test_a_probability_is_bounded_from_above_by_counts():
    assert upper_bound(3, 10) == pytest.approx(binomtest(3, 10, alternative="less").proportion_ci(0.95).high)
    assert upper_bound(10, 10) == 1


def test_settings_that_cannot_be_left_are_shown_apart(tmp_path):
    store = Store(tmp_path / "results" / "choose", protocol)
    few, many = (
        next(case for case, _ in PARTS[PAPER] if (case.setting.sizes.labeled >= FEWEST) is enough) for enough in (False, True)
    )
    published, curve = Store(tmp_path / "results" / "paper", paper_protocol), {"fresh": [500, 490], "right": [5, 4]}
    for case, chosen in ((few, SUPERVISED), (many, "ppp")):
        for number in range(2):
            store.add(case, number, made_up(chosen, False))
            published.add(case.setting, number, {"runs": {"ppp_ep": curve}})
    text = write(store, tmp_path / "choose.md").read_text()
    assert "| all of these | 2 | 2 of 4 | +5.00 ± 0.00 | 1, 0 |" in text and "| 20 labels or more | 1 | 2 of 2 |" in text
    assert "| fewer than 20 labels | 1 | 0 of 2 |" in text and many.setting.title + ": 2 of 2 times" in text


def test_a_ratio_is_proven_where_its_interval_ends_above():
    rng = np.random.default_rng(0)
    below = rng.normal(4, 1, size=400)
    ratio = Ratio.of(0.7 * below + rng.normal(0, 0.1, size=400), below)
    # paired, so that what both share is not in the interval: its half is 1.96 · 0.1/√400/4
    assert ratio.value == pytest.approx(0.7, abs=0.01) and ratio.high - ratio.low == pytest.approx(0.0049, rel=0.15)
    assert Ratio.of(below, below) == Ratio(1, 1, 1)


def test_the_report_is_that_of_the_stored_results(tmp_path):
    """Beside them the results of the study of the paper, from which it takes PPP to the end."""
    text = write(STORED, tmp_path / "choose.md").read_text()
    assert text == (VALIDATION / "reports" / "choose.md").read_text()


@pytest.mark.parametrize(("source", "judging"), [("noise", 10_000), ("sonar", 208 - 80)])
def test_tables_have_labels_a_pool_and_rows_that_judge(source, judging):
    drawn = draw(source, 40, 40, 5, np.random.default_rng(0))
    assert len(drawn.judging) == judging and (drawn.labels >= 0).sum() == 40 and len(drawn.pool) == 40
    again = draw(source, 40, 40, 5, np.random.default_rng(0))
    np.testing.assert_array_equal(drawn.X, again.X)


@pytest.mark.parametrize("part", [SIZE, POOLED])
def test_no_rule_leaves_the_supervised_model_for_a_worse_one_too_often(part):
    for case, _ in PARTS[part]:
        records = STORED.read(case).values()
        for rule in (BOUND, BETTING) if records else ():
            worse = np.mean([left_for_worse(record, rule) for record in records])
            assert worse <= ALPHA + 2 * np.sqrt(ALPHA * (1 - ALPHA) / len(records)), (case.key, rule)


def test_e_values_with_nothing_to_win_have_means_of_1_at_most():
    [(case, n)] = PARTS[NULL]
    records = STORED.read(case)
    assert len(records) == n
    for name in ("free", "ppp"):
        assert np.mean([record[BETTING]["proof"][name] for record in records.values()]) <= 1


def test_the_paper_s_settings_lose_nothing_by_it():
    gains = [
        [gain(record, record[BOUND]["chosen"]) for record in records.values()]
        for case, _ in PARTS[PAPER]
        if (records := STORED.read(case))
    ]
    assert len(gains) >= 24  # those whose data needs no download, at least
    flat = np.concatenate(gains)
    assert flat.mean() + 1.96 * flat.std(ddof=1) / np.sqrt(len(flat)) >= 0


@pytest.mark.slow
@pytest.mark.parametrize("part", [NULL, SIZE])
def test_a_repetition_is_as_it_is_stored(part):
    case = PARTS[part][0][0]
    found, stored = repeat(case, 0), STORED.read(case)[0]
    for rule in set(found) & {BOUND, BETTING}:
        assert found[rule]["chosen"] == stored[rule]["chosen"]
        for name, proof in stored[rule]["proof"].items():
            assert found[rule]["proof"][name] == pytest.approx(proof, rel=1e-3)


# --- rare classes -----------------------------------------------------------------------------------------------------------


def test_fits_are_scikit_learn_s():
    rng = np.random.default_rng(0)
    X, y = np.concatenate([np.ones((2, 30, 1)), rng.normal(size=(2, 30, 2))], axis=2), rng.integers(2, size=(2, 30)) * 1.0
    weights = (rng.random((2, 4, 30)) < 0.8) * 1.0
    labels = np.broadcast_to(y[:, None], weights.shape)
    theta, hessian = fit(X, labels, weights, 0.0, np.full(3, 2.0))
    for table, fold in product(range(2), range(4)):
        held = LogisticRegression(C=4.0, fit_intercept=False, tol=1e-10).fit(X[table], y[table], weights[table, fold])
        np.testing.assert_allclose(theta[table, fold], held.coef_[0], atol=1e-5)
        z = np.random.default_rng(1).multivariate_normal(theta[table, fold], np.linalg.inv(hessian[table, fold]), 20_000)
        by_draws = expit(X[table] @ z.T).mean(axis=1)
        np.testing.assert_allclose(averaged(theta, hessian, X)[table, fold], by_draws, atol=0.02)


def test_the_simulation_finds_the_fault_that_it_is_made_for(monkeypatch):
    """Without a minimum of a class the bound left in half of the tables at 3%, where no pipeline is better."""
    cell = rare.Cell(0.03, 40, 3)
    now = rare.repeat(cell, 0)[BOUND]["log"]
    monkeypatch.setattr(bound, "FEWEST_OF_CLASS", 0)
    monkeypatch.setattr(bound, "COMMON", 0)
    monkeypatch.setattr(Units, "refuse_unlabeled_class", lambda units: None)
    monkeypatch.setattr(Units, "lacks", lambda units, rows: np.setdiff1d(units.codes, units.codes[np.isin(units.rows, rows)]))
    monkeypatch.setattr(rare, "LOSSES_OF", {BOUND: ("log",)})
    before = rare.repeat(cell, 0)[BOUND]["log"]
    assert before["left"] > 30 and before["left_for_worse"] > 20 and now["left"] <= 1.2 * ALPHA * rare.TABLES


@pytest.mark.parametrize("cell", rare.CELLS, ids=lambda cell: cell.key)
def test_the_supervised_model_is_left_no_more_often_than_alpha_says(cell):
    """2,000 tables a cell; the upper limit of the probability, with 95% confidence."""
    records = RARE_STORED.read(cell)
    assert len(records) == rare.REPETITIONS
    for guarantee, losses in rare.LOSSES_OF.items():
        for loss in losses:
            left = total(records, guarantee, loss, "left")
            assert upper_bound(left, rare.TABLES * len(records)) <= 1.2 * ALPHA, (guarantee, loss)


@pytest.mark.slow
def test_a_repetition_of_rare_classes_is_as_it_is_stored():
    for cell in rare.CELLS[::7]:
        found, stored = rare.repeat(cell, 0), RARE_STORED.read(cell)[0]
        assert {name: found[name] for name in (BOUND, BETTING)} == {name: stored[name] for name in (BOUND, BETTING)}


def test_keys_are_distinct():
    keys = [case.key for cases in PARTS.values() for case, _ in cases]
    assert len(keys) == len(set(keys)) and len(PARTS[PAPER]) == 33 and PARTS[POWER][0][0].n_labeled == 40
