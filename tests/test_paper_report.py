"""The study of the paper: summaries, verdicts and the report of known records."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from validation.paper import __main__ as command
from validation.paper.hypotheses import hypotheses
from validation.paper.report.document import write
from validation.paper.report.figure import figures
from validation.paper.report.flat import flat
from validation.paper.runs.tables import columns, load
from validation.paper.settings import (
    CURVED,
    EP,
    GLM,
    GLM_LIKELIHOOD,
    GLM_PROBABILITY,
    GLM_RANDOM,
    GLM_SUPERVISED,
    GRID,
    INFORMATIVE,
    LIKELIHOOD,
    NO_PRIOR,
    ORIGINAL,
    PROBABILITY,
    QUICK,
    RANDOM,
    REAL,
    SETTINGS,
    SPLINE,
    SUPERVISED,
    TABLE_1,
    TRUTH,
    TWENTY,
    VARIANCE,
    WEAK,
    WINNERS,
    WITHOUT_PRIOR,
    Setting,
)
from validation.paper.summary import ALONG, FINAL, ORACLE, ORACLE_FRESH, STOPPED, Summary, enough, joined, pooled
from validation.paper.verdicts import NOT, SUPPORTED, UNDECIDED, Comparison, all_above, all_small, some_above
from validation.paper.winners import AGREES, CANNOT_TELL, CONTRADICTS, counted, judge, leads, matches
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
        runs[method] |= {"moved": [np.abs(each - each[0]).mean() for each in (right, fresh)]}
        runs[method] |= {"alike": [1 - abs(end) / 100] * 3, "divergence": [abs(end) / 100] * 3}
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


def test_pooled_differences_weigh_settings_alike_and_those_on_the_same_rows_share_their_splits():
    held = list(summaries({EP: 4.0}, TABLE_1[:2]).values())
    gaps = [one.values(EP, FINAL) - one.values(SUPERVISED, FINAL) for one in held]
    found, expected = pooled(held, EP, SUPERVISED), Interval.of_groups(gaps, [1, 1])
    assert (found.mean, found.half) == pytest.approx((expected.mean, expected.half))
    # two priors on the same rows are one group
    same = list(summaries({EP: 4.0}, INFORMATIVE[:2]).values())
    each = np.mean([one.values(EP, FINAL) - one.values(SUPERVISED, FINAL) for one in same], axis=0)
    found = pooled(same, EP, SUPERVISED)
    assert (found.mean, found.half) == pytest.approx((Interval.of(each).mean, Interval.of(each).half))


NAMES = ["H1a", "H1b", "H2a (accuracy)", "H2a (classes)", "H2a (KL)", "H2b"]
NAMES += ["H3 (rivals without the prior)", "H3 (rivals with the same prior)", "Table 1"]
NAMES += ["EEG", "sonar", "cars", "banknote", "breast cancer", "mushrooms", "ionosphere", "abalone"]
S, N, U = SUPPORTED, NOT, UNDECIDED


@pytest.mark.parametrize(
    ("gains", "verdicts"),
    [
        # no supervised model is good in these records, so that nothing speaks for or against H1b
        ({EP: 5.0}, [S, U, U, U, U, S, S, S, S, S, S, S, N, N, N, N, N]),
        ({PROBABILITY: 5.0}, [N, U, U, U, U, S, N, N, N, N, N, N, S, S, N, N, N]),
        ({LIKELIHOOD: 5.0}, [N, U, N, N, N, N, N, N, N, N, N, N, N, N, S, S, N]),
        # the likelihood stays where it is, and all others move
        ({EP: 3.0, VARIANCE: -3.0, PROBABILITY: 3.0}, [N, U, S, S, S, S, S, N, N, N, N, N, N, N, S, S, N]),
        # with a prior PPP gains nothing on its own kind, but everything on models without one
        ({name: -5.0 for name in WITHOUT_PRIOR}, [N, U, U, U, U, S, S, N, N, N, N, N, N, N, S, S, S]),
    ],
)
def test_verdicts_follow_the_numbers(gains, verdicts):
    held = summaries(gains)
    found = hypotheses(held, [held[each.key] for each in (*TABLE_1, *TWENTY, *REAL, *GRID)])
    assert {each.name: each.verdict.word for each in found} == dict(zip(NAMES, verdicts, strict=True))


def test_models_without_a_prior_stand_beside_those_with_one_on_the_same_splits():
    prior, none = TRUTH[0], NO_PRIOR[0]
    one, other = (
        Summary(each, {k: fake(each, k, {EP: 2.0}) for k in numbers})
        for each, numbers in ((prior, (0, 1, 2)), (none, (1, 2, 5)))
    )
    both = joined(one, other)
    assert list(both.records) == [1, 2] and both.has(EP, GLM_LIKELIHOOD, SUPERVISED, GLM_SUPERVISED)
    assert both.difference(EP, GLM_LIKELIHOOD).mean == pytest.approx(2)
    assert (prior.n, prior.unlabeled, prior.basis) == (none.n, none.unlabeled, none.basis)


def gap(low, high):
    """An interval at the table's level, and half as wide again at the corrected one."""
    mean, half = (low + high) / 2, (high - low) / 2
    return tuple(Interval(*map(np.array, (mean, width, half / 2))) for width in (half, 1.5 * half))


BOTH = {(EP, VARIANCE): (1, 2), (PROBABILITY, VARIANCE): (1, 2)}


@pytest.mark.parametrize(
    ("printed", "gaps", "word"),
    [
        ([EP], {(EP, PROBABILITY): (0.1, 3), (EP, VARIANCE): (1, 2)}, AGREES),
        ([EP], {(EP, PROBABILITY): (-0.1, 3), (EP, VARIANCE): (1, 2)}, CANNOT_TELL),
        # that another method is ahead has to be clear after correction for the number of rivals
        ([EP], {(EP, PROBABILITY): (-3, -0.1), (EP, VARIANCE): (1, 2)}, CANNOT_TELL),
        ([EP], {(EP, PROBABILITY): (-3, -1), (EP, VARIANCE): (1, 2)}, CONTRADICTS),
        # two winners: both above the others, and near each other
        ([EP, PROBABILITY], BOTH | {(EP, PROBABILITY): (-0.4, 0.4)}, AGREES),
        ([EP, PROBABILITY], BOTH | {(EP, PROBABILITY): (-2, 2)}, CANNOT_TELL),
        ([EP, PROBABILITY], BOTH | {(EP, PROBABILITY): (2, 3)}, CONTRADICTS),
        ([EP, PROBABILITY], BOTH | {(PROBABILITY, VARIANCE): (-4, -3), (EP, PROBABILITY): (0, 0)}, CONTRADICTS),
    ],
)
def test_printed_winners_on_known_intervals(printed, gaps, word):
    assert judge(printed, {pair: gap(*ends) for pair, ends in gaps.items()}) == word


def test_the_twenty_settings_are_those_of_the_supplement_and_their_words_follow_the_numbers():
    assert len(WINNERS) == len(TWENTY) == 20 and {(each.n, each.features) for each in TWENTY} == set(WINNERS)
    assert len({each.key for each in (*TWENTY, *GRID, *TABLE_1)}) == 20 + len(GRID) + len(TABLE_1)
    ahead = matches(summaries({EP: 5.0}, (*TABLE_1, *TWENTY)))
    words = {(end.summary.setting.n, end.summary.setting.features): (one.word, end.word) for one, end in ahead["text"]}
    assert words[60, 60] == (AGREES, AGREES) and words[100, 60] == (AGREES, CONTRADICTS)
    assert words[1000, 60] == words[1000, 10] == (CONTRADICTS, CONTRADICTS)
    # two winners that are 5 points apart
    assert words[300, 10] == (CONTRADICTS, CONTRADICTS)
    assert [one.word for one, _ in ahead["code"]] == [AGREES, AGREES, AGREES, CONTRADICTS]
    assert counted([end.word for _, end in ahead["code"]]) == {AGREES: 2, CONTRADICTS: 2, CANNOT_TELL: 0}
    # where the supervised model is printed, there is no word among the methods that select
    assert [end.among_selectors for _, end in ahead["code"]] == [AGREES, None, AGREES, CONTRADICTS]
    none = matches(summaries({}, (*TABLE_1, *TWENTY)))
    assert counted([one.word for one, _ in none["text"]]) == {AGREES: 0, CONTRADICTS: 0, CANNOT_TELL: 20}
    assert leads([one for one, _ in none["text"]]) == (0, 20, 20) and leads([one for one, _ in ahead["text"]]) == (20, 0, 20)


def test_a_supervised_model_with_a_prior_can_be_all_that_contradicts_a_winner():
    """All methods that select rows lose alike, so that nothing tells them apart."""
    (found,) = matches(summaries(dict.fromkeys((EP, PROBABILITY, VARIANCE, LIKELIHOOD, RANDOM), -5.0), TWENTY[:1]))["text"]
    assert found[1].word == CONTRADICTS and found[1].among_selectors == CANNOT_TELL


def test_independent_groups_have_welchs_interval():
    rng = np.random.default_rng(3)
    a, b = rng.normal(1, 1, size=12), rng.normal(-2, 4, size=7)
    welch = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.9)
    found = Interval.of_groups([a, -b], [1, 1], 0.9)
    assert (2 * found.low, 2 * found.high) == pytest.approx((welch.low, welch.high))
    assert Interval.of_groups([a, b], [3, 1]).mean == pytest.approx((3 * a.mean() + b.mean()) / 4)
    one = Interval.of_groups([a], [1])
    assert (one.low, one.high) == pytest.approx((Interval.of(a).low, Interval.of(a).high))
    assert np.isnan(Interval.of_groups([a, b[:1]], [1, 1]).half)


def test_settings_of_few_repetitions_wait_where_others_have_more():
    many = summaries({}, TABLE_1[:2], 6)
    few = summaries({}, TABLE_1[2:3], 4)
    assert list(enough(many | few)) == list(many) and list(enough(few)) == list(few) and enough({}) == {}


def between(low, high, room=50.0):
    """A comparison whose interval widens by half when it is corrected."""
    mean, half = (low + high) / 2, (high - low) / 2
    one, wide = (Interval(*map(np.array, (mean, width, half / 2))) for width in (half, 1.5 * half))
    return Comparison(EP, RANDOM, FINAL, 1, one, wide, room=room)


@pytest.mark.parametrize(
    ("judge", "intervals", "word", "against"),
    [
        # all have to hold: each at the full level
        (all_above, [(0.1, 4), (1, 3)], SUPPORTED, 0),
        (all_above, [(-0.1, 4), (1, 3)], UNDECIDED, 0),
        # that one fails has to be clear after correction
        (all_above, [(-0.9, 0.9), (1, 3)], UNDECIDED, 0),
        (all_above, [(-0.5, 0.5), (1, 3)], NOT, 1),
        # within a point of 100% no method can be a point ahead
        (all_above, [(-0.2, 0.2, 0.5)], UNDECIDED, 0),
        (all_above, [(0.1, 0.3, 0.5)], SUPPORTED, 0),
        (some_above, [(-0.2, 0.2, 0.5)], UNDECIDED, 0),
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
    main = [held[each.key] for each in (*TABLE_1, *TWENTY, *REAL, *GRID)]
    h1a, _, h2a, *_ = found = hypotheses(held, main)
    h3 = next(each for each in found if each.name == "H3 (rivals with the same prior)")
    assert [h1a.by(method, FINAL, EP, "ppp").word for method in (EP, "ppp")] == [NOT, SUPPORTED]
    assert h2a.by(EP, ALONG).word == h2a.verdict.word and h3.by("ppp", FINAL, EP, "ppp") is None
    assert len([each for each in h1a.summaries if each.has("ppp")]) < len(h1a.summaries)


def test_by_the_oracle_a_gain_is_what_random_selection_does_not_gain():
    every = (EP, LIKELIHOOD, VARIANCE, PROBABILITY, RANDOM)
    for gains, words in ((dict.fromkeys(every, 5.0), (S, S)), (dict.fromkeys(every[:-1], 5.0), (N, N))):
        held = summaries(gains)
        found = {each.name: each for each in hypotheses(held, [held[each.key] for each in (*TABLE_1, *TWENTY, *REAL, *GRID)])}
        assert (found["abalone"].verdict.word, found["H2b"].by(EP, ORACLE).word) == words
        assert found["H2b"].verdict.word == found["abalone"].by(EP, FINAL).word == N


def test_approximations_are_judged_in_the_repetitions_that_have_both():
    """Where Laplace's PPP was run, neither gains; in the others the one by EP does."""
    held = summaries({})
    for each in held.values():
        for number in (3, 4):
            each.records[number]["runs"] |= fake(each.setting, number, {EP: 40.0})["runs"]
            each.records[number]["runs"].pop("ppp", None)
    h1a, *_ = hypotheses(held, [held[each.key] for each in (*TABLE_1, *TWENTY, *REAL, *GRID)])
    some = [each for each in h1a.summaries if each.has("ppp")]
    assert some and {len(each.with_runs(EP, "ppp").records) for each in some} == {3}
    assert [h1a.by(method, FINAL, EP, "ppp").word for method in (EP, "ppp")] == [N, N]
    assert h1a.verdict.word != N


def test_the_first_of_a_random_order_is_taken_by_chance():
    summary = Summary(CARS, {})
    rng = np.random.default_rng(0)
    firsts = [np.mean([rng.integers(left) == 0 for left in range(CARS.sizes.candidates, 0, -1)]) for _ in range(20_000)]
    assert summary.first_by_chance == pytest.approx(100 * np.mean(firsts), abs=0.4) and summary.rounds_valued == 1


@pytest.mark.slow
def test_the_report_says_what_the_records_hold(tmp_path):
    held = summaries({EP: 5.0, ORIGINAL: 1.0, GLM_RANDOM: 1.0})
    drawn = {each.key: held[each.key] for each in (TABLE_1[0], REAL[1])}
    write(held, tmp_path / "paper.md", figures(drawn, tmp_path))
    text = (tmp_path / "paper.md").read_text()
    supported = "H1a, H2b, H3 (rivals without the prior), H3 (rivals with the same prior), Table 1, EEG, sonar, cars"
    assert not re.search(r"\bnan\b", text) and f"supported: {supported}" in text
    tables = [part for part in text.split("\n\n") if part.startswith("| setting ")]
    assert len(tables) > 10 and all("| R |" in part.splitlines()[0] for part in tables)
    assert f"| {REAL[1].title} | 5 | 5 | 5 of 5 | 7 of 140 | 500 | 90.0 | 1.0 | 100.0 | 3.9 | 1 of 140 |" in text
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
    titles = f"{REAL[0].title}; {REAL[3].title}"
    assert "is the same run as random selection by the same `glm` in 0 of 2 settings." in text
    assert f"along the run, above random selection by `glm` in 2 ({titles}) and below it in 0" in text
    assert "The original PPP is above its supervised model in 2 and below it in 0." in text


def test_the_original_ppp_can_be_the_same_run_as_random_selection(tmp_path):
    write(summaries({ORIGINAL: 2.0, GLM_RANDOM: 2.0}, (REAL[0], REAL[3])), tmp_path / "paper.md", {})
    text = (tmp_path / "paper.md").read_text()
    assert f"random selection by the same `glm` in 2 of 2 settings ({REAL[0].title}; {REAL[3].title})" in text


def test_the_flat_table_has_a_row_for_every_method_against_its_own_kind():
    (setting,) = (each for each in QUICK if each.source == "cars")
    held = Summary(setting, {number: fake(setting, number, {EP: 5.0, RANDOM: 2.0, GLM_RANDOM: 1.0}) for number in range(4)})
    table = flat([held]).set_index("method")
    assert list(table.index) == [*setting.methods, SUPERVISED, GLM_SUPERVISED]
    assert (table["R"] == 4).all() and (table["parameters"] == 3).all()
    gained = table.loc[[EP, ORIGINAL], [f"final_minus_random{end}" for end in ("", "_low", "_high")]]
    np.testing.assert_allclose(gained, [[3.0] * 3, [-1.0] * 3], atol=2e-3)
    for when in ("final", "along", "oracle"):
        ahead = table[when] - table.loc[SUPERVISED, when] - table[f"{when}_minus_supervised"]
        np.testing.assert_allclose(ahead.dropna(), 0, atol=2e-3)
    assert table["stopped"].isna().to_dict() == {name: name in (*GLM, SUPERVISED, GLM_SUPERVISED) for name in table.index}


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
    table = pd.read_csv(tmp_path / "reports" / "paper.csv")
    runs = table[~table["method"].isin((SUPERVISED, GLM_SUPERVISED))]
    assert len(runs) == sum(len(each.methods) for each in QUICK)
    monkeypatch.setattr(command, "repeat", lambda *cell: cells.append((cell[0].key, cell[1])) or fake(*cell, {EP: 1.0}))
    command.main(["--quick", "--folder", str(tmp_path)])
    assert sorted(cells) == sorted((each.key, number) for each in QUICK for number in range(2))
    assert WEAK in {each.prior for each in QUICK}
