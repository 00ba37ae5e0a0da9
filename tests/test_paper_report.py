"""The study of the paper: summaries, verdicts and the report of known records."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from validation.paper import __main__ as command
from validation.paper.figure import figures
from validation.paper.flat import flat
from validation.paper.hypotheses import hypotheses
from validation.paper.report import write
from validation.paper.settings import (
    CURVED,
    EP,
    GLM,
    GLM_PROBABILITY,
    GLM_RANDOM,
    GRID,
    INFORMATIVE,
    ORIGINAL,
    PROBABILITY,
    QUICK,
    RANDOM,
    REAL,
    SETTINGS,
    SPLINE,
    TABLE_1,
    WEAK,
    Setting,
)
from validation.paper.summary import ALONG, FINAL, ORACLE, ORACLE_FRESH, STOPPED, SUPERVISED, Summary, pooled
from validation.paper.tables import columns, load
from validation.paper.verdicts import NOT, SUPPORTED, UNDECIDED, Comparison, all_above, all_small, some_above
from validation.study.intervals import Interval

CARS = Setting("cars", 32)


@pytest.mark.parametrize(
    "setting", [REAL[0], REAL[3], REAL[7], Setting(CURVED, 60, 3, basis=SPLINE)], ids=lambda each: each.key
)
def test_summaries_know_how_many_parameters_there_are(setting):
    design, _ = columns(load(setting.source, setting.features).X, setting.basis)
    assert Summary(setting, {}).parameters == design.shape[1]


def fake(setting, number, gains):
    """A record in which methods gain so many points along a straight line, but for noise; all start alike."""
    rng = np.random.default_rng([setting.n, number])
    m, noise = setting.sizes.candidates, rng.normal(0, 0.3, size=3)
    points = len(np.unique(np.round(np.linspace(0, m, 21)).astype(int)))
    runs = {}
    for method in setting.methods:
        end = gains.get(method, 0.0) + noise[0]
        right, fresh = (np.linspace(60, 60 + end, points) * n / 100 for n in (setting.sizes.test, 1000))
        best = [m, right.max(), fresh.max()]
        runs[method] = {"right": right.tolist(), "fresh": fresh.tolist() if setting.features else None, "best": best, "true": m}
        runs[method] |= {"mean": [right.mean(), fresh.mean()], "stop": [0, right[0], fresh[0]], "log_score": [-1.0, -1.0]}
    values = {"infinite": 90, "finite": 9, "failed": 1, "first": m, "since": 0}
    return {"separated": True, "runs": runs} | ({"values": values} if ORIGINAL in setting.methods else {})


def summaries(gains, settings=SETTINGS, repetitions=5):
    return {each.key: Summary(each, {number: fake(each, number, gains) for number in range(repetitions)}) for each in settings}


def test_measures_of_known_numbers():
    setting = TABLE_1[0]
    summary = Summary(setting, {number: fake(setting, number, {EP: 5.0, RANDOM: 2.0}) for number in range(6)})
    assert summary.mean(SUPERVISED) == pytest.approx(60)
    for measure, factor in ((FINAL, 1), (ALONG, 0.5), (ORACLE, 1), (ORACLE_FRESH, 1), (STOPPED, 0)):
        gap = summary.difference(EP, RANDOM, measure)
        assert gap.mean == pytest.approx(3 * factor) and gap.half == pytest.approx(0, abs=1e-9)
    gain = summary.values(EP, FINAL) - 60
    found = summary.difference(EP, SUPERVISED)
    assert (found.low, found.high) == pytest.approx(stats.t.interval(0.95, 5, gain.mean(), stats.sem(gain)))
    assert summary.original == pytest.approx({"values": 600, "infinite": 90, "failed": 1, "first": 100, "since": 1})


def test_pooled_differences_are_means_of_settings_in_every_repetition():
    held = list(summaries({EP: 4.0}, TABLE_1[:2]).values())
    each = np.mean([one.values(EP, FINAL) - one.values(SUPERVISED, FINAL) for one in held], axis=0)
    found = pooled(held, EP, SUPERVISED)
    assert (found.mean, found.half) == pytest.approx((Interval.of(each).mean, Interval.of(each).half))


@pytest.mark.parametrize(
    ("gains", "verdicts"),
    [
        ({EP: 5.0}, [SUPPORTED, UNDECIDED, SUPPORTED, SUPPORTED, SUPPORTED, SUPPORTED]),
        ({PROBABILITY: 5.0}, [NOT, UNDECIDED, SUPPORTED, NOT, NOT, NOT]),
        ({"likelihood": 5.0}, [NOT, UNDECIDED, NOT, NOT, NOT, NOT]),
    ],
)
def test_verdicts_follow_the_numbers(gains, verdicts):
    held = summaries(gains)
    main = [held[each.key] for each in (*TABLE_1, *REAL, *GRID)]
    # no supervised model is good in these records, so that nothing speaks for or against H1b
    assert [each.verdict.word for each in hypotheses(held, main)] == verdicts


def between(low, high):
    """A comparison whose interval widens by half when it is corrected."""
    mean, half = (low + high) / 2, (high - low) / 2
    one, wide = (Interval(*map(np.array, (mean, width, half / 2))) for width in (half, 1.5 * half))
    return Comparison(EP, RANDOM, FINAL, 1, one, wide)


@pytest.mark.parametrize(
    ("judge", "intervals", "word", "against"),
    [
        # all have to hold: each at the full level
        (all_above, [(0.1, 4), (1, 3)], SUPPORTED, 0),
        (all_above, [(-0.1, 4), (1, 3)], UNDECIDED, 0),
        # that one fails has to be clear after correction
        (all_above, [(-0.9, 0.9), (1, 3)], UNDECIDED, 0),
        (all_above, [(-0.5, 0.5), (1, 3)], NOT, 1),
        (some_above, [(0.1, 4), (-3, 3)], UNDECIDED, 0),
        (some_above, [(1, 4), (-3, 3)], SUPPORTED, 0),
        (some_above, [(-0.9, 0.9), (-2, 0.5)], NOT, 2),
        (all_small, [(-3, 0.9)], SUPPORTED, 0),
        (all_small, [(-3, 1.1)], UNDECIDED, 0),
        (all_small, [(1.1, 3)], UNDECIDED, 0),
        (all_small, [(2, 3)], NOT, 1),
        (all_above, [], UNDECIDED, 0),
        (some_above, [], UNDECIDED, 0),
        (all_small, [], UNDECIDED, 0),
    ],
)
def test_verdicts_on_known_intervals(judge, intervals, word, against):
    verdict = judge([between(*each) for each in intervals])
    assert verdict.word == word and len(verdict.against) == against


def test_a_verdict_by_another_approximation_is_on_the_settings_that_have_both():
    held = summaries({EP: 0.0, "ppp": 5.0})
    main = [held[each.key] for each in (*TABLE_1, *REAL, *GRID)]
    h1a, _, _, h2b, h3, _ = hypotheses(held, main)
    assert [h1a.by(method, FINAL, EP, "ppp").word for method in (EP, "ppp")] == [NOT, SUPPORTED]
    assert h2b.by(EP, ALONG).word == h2b.verdict.word and h3.by("ppp", FINAL, EP, "ppp") is None
    assert len([each for each in h1a.summaries if each.has("ppp")]) < len(h1a.summaries)


def test_the_first_of_a_random_order_is_taken_by_chance():
    summary = Summary(CARS, {})
    rng = np.random.default_rng(0)
    firsts = [np.mean([rng.integers(left) == 0 for left in range(CARS.sizes.candidates, 0, -1)]) for _ in range(20_000)]
    assert summary.first_by_chance == pytest.approx(100 * np.mean(firsts), abs=0.4) and summary.rounds_valued == 1


def test_the_report_says_what_the_records_hold(tmp_path):
    held = summaries({EP: 5.0, ORIGINAL: 1.0, GLM_RANDOM: 1.0})
    drawn = {each.key: held[each.key] for each in (TABLE_1[0], REAL[1])}
    write(held, tmp_path / "paper.md", figures(drawn, tmp_path))
    text = (tmp_path / "paper.md").read_text()
    assert not re.search(r"\bnan\b", text) and "supported: H1a, H2a, H2b, H3, Table 1" in text
    tables = [part for part in text.split("\n\n") if part.startswith("| setting ")]
    assert len(tables) > 10 and all("| R |" in part.splitlines()[0] for part in tables)
    assert f"| {REAL[1].title} | 5 | 5 of 5 | 7 of 140 | 500 | 90.0 | 1.0 | 100.0 | 3.9 | 1 of 140 |" in text
    assert "PPP is **5.0" in text and "points above** the supervised model" in text
    for address in ("paper_curves.png", "paper_original.png", "paper_region.png"):
        assert f"]({address})" in text and (tmp_path / address).stat().st_size > 10_000
    priors = [line for line in text.splitlines() if line.startswith(f"| {INFORMATIVE[0].title} |")]
    assert any("around the truth, sd 0.1" in line for line in priors)


def test_the_advantage_of_the_original_ppp_is_split_into_that_of_random_selection_and_its_own(tmp_path):
    held = summaries({ORIGINAL: 3.0, GLM_RANDOM: 2.0, GLM_PROBABILITY: 1.0}, (REAL[0], REAL[3]))
    write(held, tmp_path / "paper.md", {})
    text = (tmp_path / "paper.md").read_text()
    # noise is that of a repetition, not of a method
    parts = " | ".join(f"**+{points}.0 [+{points}.0, +{points}.0]**" for points in (2, 1, 1))
    assert f"| all | probability by `glm` | 2 | {parts} | {parts} |" in text
    assert "by the oracle's stop **1.0 [1.0, 1.0] points above** random selection by the same `glm`." in text


def test_the_flat_table_has_a_row_for_every_method_against_its_own_kind():
    (setting,) = (each for each in QUICK if each.source == "cars")
    held = Summary(setting, {number: fake(setting, number, {EP: 5.0, RANDOM: 2.0, GLM_RANDOM: 1.0}) for number in range(4)})
    table = flat([held]).set_index("method")
    assert list(table.index) == list(setting.methods) and (table["R"] == 4).all() and (table["parameters"] == 3).all()
    gained = table.loc[[EP, ORIGINAL], ["minus_random", "minus_random_low", "minus_random_high"]]
    np.testing.assert_allclose(gained, [[3.0] * 3, [-1.0] * 3], atol=2e-3)
    assert table.loc[EP, "final"] - table.loc[EP, "minus_supervised"] == pytest.approx(60, abs=2e-3)
    assert table["stopped"].isna().to_dict() == {name: name in GLM for name in setting.methods}


def test_the_command_computes_what_is_missing_and_writes_the_report(tmp_path, monkeypatch, capsys):
    cells = []

    def once(setting, number):
        if len(cells) == 4:
            raise KeyboardInterrupt
        cells.append((setting.key, number))
        return fake(setting, number, {EP: 1.0})

    monkeypatch.setattr(command, "figures", lambda *_: {})
    monkeypatch.setattr(command, "repeat", once)
    with pytest.raises(SystemExit) as status:
        command.main(["--quick", "--folder", str(tmp_path)])
    assert status.value.code == 130
    assert "Interrupted" in capsys.readouterr().out and (tmp_path / "reports" / "paper.md").exists()
    assert len(pd.read_csv(tmp_path / "reports" / "paper.csv")) == sum(len(each.methods) for each in QUICK)
    monkeypatch.setattr(command, "repeat", lambda *cell: cells.append((cell[0].key, cell[1])) or fake(*cell, {EP: 1.0}))
    command.main(["--quick", "--folder", str(tmp_path)])
    assert sorted(cells) == sorted((each.key, number) for each in QUICK for number in range(2))
    assert WEAK in {each.prior for each in QUICK}
