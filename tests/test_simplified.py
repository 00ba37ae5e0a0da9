"""The study of Supplement F: its self-training, its store and its report, on a tiny setting."""

import json
from functools import cache

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_bpls as bpls
from validation.simplified import compute as computing
from validation.simplified.__main__ import main
from validation.simplified.repetition import EVERY, repeat
from validation.simplified.rounds import CRITERIA, FULL, SIMPLIFIED, SelfTraining, choose
from validation.simplified.settings import PRIOR_SD, QUICK, SETTINGS, Setting, declare, load
from validation.simplified.store import protocol
from validation.simplified.summary import Summary
from validation.simplified.verdicts import of_setting, overall, vanishing
from validation.study.intervals import LEVEL, Interval, corrected
from validation.study.store import Store

TINY = Setting("banknote", 40)


@cache
def record():
    """One repetition, as it comes back from disk."""
    return json.loads(json.dumps(repeat(TINY, 0)))


@pytest.fixture
def computed(monkeypatch):
    """The cells that are computed, none of them in truth."""
    cells = []
    monkeypatch.setattr(computing, "repeat", lambda setting, number: cells.append((setting, number)) or fake(setting, number))
    return cells


def fake(setting, number):
    """A record with the lengths of `setting`, in which the full criterion gains and the simplified one does not."""
    n_test, _, candidates = setting.sizes
    start = n_test // 2
    regret = {"pareto_k": 0.3 if number else 0.9, "proposal": "ep", FULL: [0.1, 0.01], SIMPLIFIED: [0.3, 0.02]}
    return {
        "right": {FULL: [start, *[start + 2 + number % 2] * candidates], SIMPLIFIED: [start] * (candidates + 1)},
        "true_labels": dict.fromkeys(CRITERIA, candidates),
        "lost": 0,
        "differ": [1, 0] * (candidates // 2),
        "regret": [{"round": 0, **regret, "difference": [0.2, 0.01]}],
    }


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.key)
def test_sizes_are_the_protocol_s(setting):
    test, labeled, candidates = setting.sizes
    assert test + labeled + candidates == setting.n and abs(test - setting.n / 2) <= 0.5
    assert abs(candidates - 0.8 * (setting.n - test)) <= 0.5


def test_splits_are_disjoint_and_new_in_every_repetition():
    declared = declare(TINY.source)
    splits = [declared.split(TINY, number) for number in range(3)]
    for split in splits:
        rows = np.concatenate([split.labeled.positions, split.candidates, split.test.positions])
        assert len(np.unique(rows)) == TINY.n and set(split.labeled.codes) == {0, 1}
    assert not np.array_equal(splits[0].candidates, splits[1].candidates)


def selector(split):
    """The package's own front door to a split of the table: rows outside it are neither labeled nor candidates."""
    declared, data = declare(TINY.source), load(TINY.source)
    X = data["X"].to_numpy()
    design = np.column_stack([np.ones(len(X)), (X - X.mean(axis=0)) / X.std(axis=0)])
    y = np.full(len(declared.y), -1)
    y[split.labeled.positions] = split.labeled.codes
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=design @ pm.Normal("beta", 0, PRIOR_SD, shape=design.shape[1]), observed=y)
    return bpls.BPLS(model, unlabeled=split.candidates)


def test_shared_refits_choose_as_two_scorings_do():
    declared = declare(TINY.source)
    for number in range(4):
        split = declared.split(TINY, number)
        mode = declared.engine.fit(split.labeled)
        choices = choose(declared.engine, split.labeled, mode, split.candidates, mode.theta)
        pls = selector(split)
        for name in CRITERIA:
            scores = pls.score(name, approximation="laplace")
            np.testing.assert_array_equal(scores["pseudo_label"], choices.codes)
            assert np.nanargmax(scores["score"].to_numpy()) == choices.best[name]


@pytest.mark.parametrize("name", CRITERIA)
def test_runs_are_those_of_the_package(name):
    declared = declare(TINY.source)
    split = declared.split(TINY, 0)
    mine = list(SelfTraining(declared.engine, split).run(name))
    run = selector(split).self_train(
        name, test=(split.test.positions, split.test.codes), progressbar=False, approximation="laplace"
    )
    chosen = [int(each.candidates[each.choices.best[name]]) for each in mine[:-1]]
    assert chosen == run["history"]["candidate"].to_numpy().tolist()
    accuracies = [each.right / len(split.test.positions) for each in mine]
    assert accuracies == pytest.approx(run["curve"]["accuracy"].to_numpy())


def test_a_repetition_end_to_end():
    found, (_, _, candidates) = record(), TINY.sizes
    for name in CRITERIA:
        assert len(found["right"][name]) == candidates + 1
        assert 0 <= found["true_labels"][name] <= candidates
    assert found["right"][FULL][0] == found["right"][SIMPLIFIED][0]
    assert len(found["differ"]) == candidates - 1 and found["lost"] == 0
    assert [each["round"] for each in found["regret"]] == list(range(0, candidates - 1, EVERY))
    for each in found["regret"]:
        (full, error), (simplified, _), (difference, _) = (each[name] for name in (*CRITERIA, "difference"))
        assert full >= 0 and simplified >= 0 and 0 <= error < 0.1
        assert difference == pytest.approx(simplified - full, abs=1e-6)
        assert found["differ"][each["round"]] or difference == 0


def test_resuming_computes_nothing_twice(tmp_path, computed):
    store = Store(tmp_path, protocol)
    computing.compute(QUICK, 1, store)
    assert computed == [(setting, 0) for setting in QUICK]
    computing.compute(QUICK, 2, store)
    assert computed == [(setting, number) for number in range(2) for setting in QUICK]
    computing.compute(QUICK, 2, store)
    assert len(computed) == 4
    assert store.read(QUICK[0])[1] == fake(QUICK[0], 1)


def test_what_is_finished_survives_an_interruption(tmp_path, monkeypatch, capsys):
    def stop(setting, number):
        if number:
            raise KeyboardInterrupt
        return fake(setting, number)

    monkeypatch.setattr(computing, "repeat", stop)
    with pytest.raises(SystemExit):
        main(["--quick", "--folder", str(tmp_path)])
    store = Store(tmp_path / "results" / "simplified", protocol)
    assert store.missing([(setting, 2) for setting in QUICK]) == [(setting, 1) for setting in QUICK]
    assert "Interrupted" in capsys.readouterr().out
    assert "(no interval)" in (tmp_path / "reports" / "simplified.md").read_text()


def test_results_of_another_protocol_are_refused(tmp_path):
    store = Store(tmp_path, protocol)
    store.add(TINY, 0, fake(TINY, 0))
    path = store.path(TINY)
    path.write_text(path.read_text().replace('"draws":', '"draws":1'))
    with pytest.raises(ValueError, match="another protocol"):
        store.read(TINY)


def test_the_report_is_written_from_the_results(tmp_path, computed):
    main(["--quick", "--folder", str(tmp_path)])
    text = (tmp_path / "reports" / "simplified.md").read_text()
    assert text.startswith("# Simplified versus full\n") and (tmp_path / "reports" / "simplified.png").stat().st_size > 10_000
    headers = [line for line in text.splitlines() if line.startswith("| setting |")]
    assert len(headers) == 3 and all("| repetitions |" in header for header in headers)
    assert f"| {QUICK[0].title} | 2 |" in text and "nan" not in text
    assert "By final accuracy, `ppp` is better in 0 of 2 settings" in text


def test_a_summary_of_known_numbers():
    summary = Summary(TINY, {number: fake(TINY, number) for number in range(4)})
    gains = 100 * np.array([2, 3, 2, 3]) / TINY.sizes[0]
    interval = summary.final_difference
    expected = stats.t.interval(0.95, 3, gains.mean(), stats.sem(gains))
    assert (interval.low, interval.high) == pytest.approx(expected) and interval.sign == 1
    assert summary.gain(SIMPLIFIED).sign == 0 and summary.alike == 0
    assert summary.differ.mean == pytest.approx(50)
    assert (summary.measured, summary.excluded) == (4, 1)
    regret = summary.regret("difference")
    assert regret.interval.mean == pytest.approx(0.2) and regret.monte_carlo == pytest.approx(0.01 / np.sqrt(3))


def test_verdicts_speak_of_the_settings_that_they_count():
    gains = Summary(TINY, {number: fake(TINY, number) for number in range(4)})
    records = {number: fake(TINY, number) for number in range(4)}
    for record in records.values():
        record["right"][FULL] = record["right"][SIMPLIFIED]
        record["regret"][0]["difference"] = [0.0, 0.01]
    alike = Summary(TINY, records)
    assert "by final accuracy `ppp` and `ibpls` are the same in all 4" in of_setting(alike)
    lost = overall([gains, alike])[2]
    assert "in 1 of 2 settings, by 0.2000 to 0.2000 nats a round, less in 0, and in 1" in lost
    assert "uncorrected; after Bonferroni's correction for 2 settings they lose more in 1 and less in 0." in lost
    more = Setting(TINY.source, 80)
    [said] = vanishing([Summary(more, {number: fake(more, number) for number in range(4)}), gains])
    assert said.startswith("We cannot say") and "runs have 16 and 32 rounds, and are judged on 20 and 40 test rows" in said


def test_gains_are_counted_after_correction_too():
    """A gain in four repetitions is beyond 0 by itself and not after correction for 20 settings; in forty it still is."""
    few, many = (Summary(TINY, {number: fake(TINY, number) for number in range(n)}) for n in (4, 40))
    assert corrected(1) == pytest.approx(LEVEL) and corrected(11) == pytest.approx(1 - 0.05 / 11)
    said = overall([few] + [many] * 19)[3]
    assert "improves over the supervised model in 20 of 20 settings" in said
    assert "after Bonferroni's correction for 20 settings it improves in 19 (19)" in said


def test_signs_of_intervals():
    for values, sign in (([1.0, 1.1, 1.2], 1), ([-1.0, 1.0, 0.1], 0), ([-1.0, -1.1, -1.2], -1), ([1.0], 0)):
        assert Interval.of(np.array(values)).sign == sign
