"""The study of the paper: R's `glm` and the authors' runs emulated, splits, stores, verdicts and the report."""

import json
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import reference
from scipy import stats
from scipy.special import log_expit
from sklearn.linear_model import LogisticRegression

from pymc_bpls.rows import Labeled
from pymc_bpls.selftraining import HeldOut
from validation.paper import __main__ as command
from validation.paper import methods, original
from validation.paper.figure import figures
from validation.paper.flat import flat
from validation.paper.glm import fit
from validation.paper.hypotheses import hypotheses
from validation.paper.original import Original, Round
from validation.paper.repetition import repeat, separated
from validation.paper.report import write
from validation.paper.settings import (
    CODE,
    CURVED,
    EP,
    GLM,
    GLM_PROBABILITY,
    GLM_RANDOM,
    GLM_VARIANCE,
    GRID,
    INFORMATIVE,
    LINEAR,
    ORIGINAL,
    PROBABILITY,
    QUICK,
    RANDOM,
    REAL,
    SETTINGS,
    SPLINE,
    SUPPLEMENT,
    TABLE_1,
    VARIANCE,
    WEAK,
    Prior,
    Setting,
)
from validation.paper.store import protocol
from validation.paper.summary import ALONG, FINAL, ORACLE, ORACLE_FRESH, STOPPED, SUPERVISED, Summary, pooled
from validation.paper.tables import Table, centre, columns, declare, load
from validation.paper.verdicts import NOT, SUPPORTED, UNDECIDED, Comparison, all_above, all_small, some_above
from validation.study.intervals import Interval
from validation.study.splits import Sizes, Split, draw
from validation.study.store import ResultsError, Store

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
    mode = declared.scorer.fit(split.labeled)
    assert methods.left_out_score(mode, rows, y) == pytest.approx(np.mean(exact), abs=0.01)
    assert abs(log_expit((2 * y - 1) * (rows @ mode.theta)).mean() - np.mean(exact)) > 0.03


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


STUDY = textwrap.dedent(
    """
    import os, random, signal, sys, time
    from pathlib import Path
    import numpy as np
    from validation.paper.settings import Setting
    from validation.study.compute import fill
    from validation.study.store import ResultsError, Store

    SETTINGS = [Setting("cars", n) for n in (32, 30, 28)]

    def repeat(setting, number):
        time.sleep(0.01)
        return {"numbers": np.random.default_rng([setting.n, number]).random(400).tolist()}

    def start(folder):
        child = os.fork()
        if not child:
            fill(Store(folder, lambda setting: {}), [(each, 12) for each in SETTINGS], repeat, lambda source: None)
            os._exit(0)
        return child

    whole, broken = (Path(sys.argv[1]) / name for name in ("whole", "broken"))
    os.waitpid(start(whole), 0)
    child = start(broken)
    while len(list(broken.glob("*.json"))) < 3:
        time.sleep(0.001)
    time.sleep(random.random() / 5)
    os.kill(child, signal.SIGKILL)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1]), "it was finished before it was killed"
    os.waitpid(start(broken), 0)
    """
)


def test_killed_at_a_random_point_and_restarted_it_gives_the_same_files(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    subprocess.run([sys.executable, "-c", STUDY, str(tmp_path)], env=environment, check=True, stdout=subprocess.DEVNULL)
    whole, broken = (sorted((tmp_path / name).glob("*.json")) for name in ("whole", "broken"))
    assert [path.name for path in whole] == [path.name for path in broken]
    assert [path.read_bytes() for path in whole] == [path.read_bytes() for path in broken]
    assert all(path.read_text().count("numbers") == 12 for path in whole)


def test_every_setting_gets_its_first_repetitions_before_any_gets_more(tmp_path):
    store = Store(tmp_path, protocol)
    a, b = (Setting("cars", n) for n in (32, 30))
    store.add(a, 0, {})
    assert store.missing([(a, 3), (b, 2)]) == [(b, 0), (a, 1), (b, 1), (a, 2)]
    assert len({each.key for each in SETTINGS}) == len(SETTINGS) and all(each.repetitions >= 15 for each in SETTINGS)


def test_results_of_another_protocol_are_refused_with_what_differs(tmp_path):
    Store(tmp_path, lambda setting: {"points": 21, "every": 20}).add(CARS, 0, {})
    with pytest.raises(ResultsError, match=r"cars.*\.json is of another protocol: points, draws differ\. Move it away\.$"):
        Store(tmp_path, lambda setting: {"points": 20, "every": 20, "draws": 4}).read(CARS)


@pytest.mark.parametrize(
    "text", ["", "{", "[1, 2]", "{}", '{"protocol": {}}', '{"protocol": {}, "repetitions": {"0": 1}}', "\xff"]
)
def test_results_that_cannot_be_read_are_named(tmp_path, text, capsys):
    path = Store(tmp_path / "results" / "paper", protocol).path(QUICK[0])
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(SystemExit) as status:
        command.main(["--folder", str(tmp_path)])
    said = " ".join(capsys.readouterr().out.split())
    assert status.value.code == 1 and path.name in said.replace(" ", "") and "Move it away." in said


def test_a_number_of_processes_is_one_or_more(capsys):
    with pytest.raises(SystemExit):
        command.main(["--jobs", "0"])
    assert "'0' is no number of processes. Give 1 or more." in capsys.readouterr().err


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
