"""The study of rivals: its measures, populations, R's methods, and the report of known records."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.neighbors import KNeighborsClassifier
from sklearn.semi_supervised import LabelSpreading

from validation.rivals import __main__ as command
from validation.rivals import in_r
from validation.rivals.comparisons import OF_OTHERS, OWN, compared, corrected, of_method, of_sign
from validation.rivals.designs import DESIGNS, INDEPENDENT_NORMAL, simulate
from validation.rivals.headline import bar, headline
from validation.rivals.measures import ACCURACY, COVERAGE, ECE, LOG_SCORE, SECONDS, SIZE, SURENESS, class_sets, measure
from validation.rivals.methods import (
    ALONE as MODELS_ALONE,
)
from validation.rivals.methods import (
    CHOICE,
    CONDITIONAL,
    CONDITIONAL_ALONE,
    NEAREST,
    NEIGHBOURS,
    PPP,
    REGRESSION,
    SELF_TRAINING,
    SPREADING,
    SUPERVISED,
    WHOLE,
    Models,
    alone,
    could_choose,
    repeat,
    rivals_of,
)
from validation.rivals.report import write
from validation.rivals.settings import CODE, MADE_BY_CLASSES, QUICK, REAL, SETTINGS, SIMULATED, Setting
from validation.rivals.splits import draw_split
from validation.rivals.store import ALONE, CHOOSING, PYTHON, R_ALONE, R, stores
from validation.rivals.summary import Summary, merged, pooled
from validation.study.command import VALIDATION

GAUSSIAN, CARS = MADE_BY_CLASSES[0], REAL[0]


def test_measures_of_known_probabilities():
    p = np.array([[0.95, 0.05], [0.75, 0.25], [0.75, 0.25], [0.35, 0.65]])
    y = np.array([0, 0, 1, 1])
    found = measure(p, y)
    assert (found[ACCURACY], found[COVERAGE], found[SIZE]) == (0.75, 1.0, 1.75)
    assert found[SURENESS] == pytest.approx((0.95 + 2 * 0.75 + 0.65) / 4)
    assert found[LOG_SCORE] == pytest.approx(-log_loss(y, p))
    # one row each in two bins, and two in another, of which one is right
    assert found[ECE] == pytest.approx((0.05 + 2 * 0.25 + 0.35) / 4)
    assert class_sets(np.array([[0.5, 0.45, 0.05], [0.02, 0.9, 0.08]])).tolist() == [[True, True, False], [False, True, False]]
    # sure and wrong
    wrong = measure(np.array([[1.0, 0.0]]), np.array([1]))
    assert (wrong[COVERAGE], wrong[LOG_SCORE], wrong[ECE]) == (0.0, np.log(1e-6), 1.0)


def test_calibrated_probabilities_have_little_calibration_error_and_cover():
    rng = np.random.default_rng(0)
    one = rng.uniform(size=100_000)
    found = measure(np.column_stack([1 - one, one]), (rng.uniform(size=len(one)) < one).astype(int))
    assert found[ECE] < 0.01 and found[COVERAGE] > 0.9


@pytest.mark.parametrize(("name", "distance"), [("separated", 3.0), ("overlapping", 1.5), ("dependent_features", None)])
def test_populations_are_as_hard_as_their_distance_says(name, distance):
    X, y = simulate(name, 40_000, 4, np.random.default_rng(1))
    if distance is None:
        # along the vector of ones, noise has the variance ρ + (1 − ρ)/q
        distance = 1.5 / np.sqrt(4) / np.sqrt(0.8 + 0.2 / 4)
    best = LogisticRegression().fit(X[:20_000], y[:20_000]).score(X[20_000:], y[20_000:])
    assert best == pytest.approx(norm.cdf(distance / 2), abs=0.01) and y.mean() == pytest.approx(0.5, abs=0.02)
    assert set(DESIGNS) == {each.source for each in MADE_BY_CLASSES}


def test_splits_are_those_of_their_repetition_and_hide_labels():
    one, again, other = draw_split(GAUSSIAN, 0), draw_split(GAUSSIAN, 0), draw_split(GAUSSIAN, 1)
    assert np.array_equal(one.X, again.X) and not np.array_equal(one.X, other.X)
    assert (len(one.labeled), len(one.candidates), len(one.test)) == (10, 90, 1000)
    assert (one.known[one.labeled] == one.y[one.labeled]).all() and (one.known >= 0).sum() == 10
    train = np.r_[one.labeled, one.candidates]
    np.testing.assert_allclose([one.X[train].mean(axis=0), one.X[train].std(axis=0)], [[0] * 4, [1] * 4], atol=1e-9)
    assert WHOLE in rivals_of(GAUSSIAN) and WHOLE not in rivals_of(Setting(CODE, 100, 60))


def test_label_spreading_alone_is_the_vote_of_the_nearest_labels_but_for_its_smoothing():
    """Which goes with α: label spreading of rows that all have labels is then that of their nearest neighbours."""
    drawn = draw_split(GAUSSIAN, 0)
    X, y, test = drawn.X[drawn.labeled], drawn.y[drawn.labeled], drawn.X[drawn.test]
    votes = KNeighborsClassifier(NEAREST).fit(X, y).predict_proba(test)
    hard = LabelSpreading(kernel="knn", n_neighbors=NEAREST, alpha=1e-9, max_iter=200).fit(X, y).predict_proba(test)
    np.testing.assert_allclose(hard, votes, atol=1e-8)
    found = MODELS_ALONE[NEIGHBOURS](Models(drawn, 0))
    np.testing.assert_allclose(found, votes, atol=0.1)
    assert (found.argmax(axis=1) == votes.argmax(axis=1)).mean() > 0.99
    # three labels are all neighbours there are
    few = draw_split(CARS, 0)
    shares = np.bincount(few.y[few.labeled]) / len(few.labeled)
    np.testing.assert_allclose(MODELS_ALONE[NEIGHBOURS](Models(few, 0)), [shares] * len(few.test), atol=0.1)


@pytest.mark.slow
def test_models_alone_predict_by_the_approximations_of_what_they_are_compared_with():
    """A run of no rounds, and draws of a pool that says nothing; Laplace's Gaussian is another model of the same posterior."""
    drawn = draw_split(GAUSSIAN, 0)
    models = Models(drawn, 0)
    for name, pls, other in [(SUPERVISED, models.logistic, 0.1), (CONDITIONAL, models.conditional, 0.0)]:
        found = (MODELS_ALONE | CONDITIONAL_ALONE)[name](models)
        by_laplace = pls.scorer.with_predictor("laplace")
        laplace = np.exp(by_laplace.log_probabilities(by_laplace.fit(pls.labeled), drawn.test))
        assert np.abs(found - laplace).max() > other and (found.argmax(axis=1) == laplace.argmax(axis=1)).mean() > 0.98
    run = models.logistic.self_train("ppp", rounds=0, progressbar=False)
    assert (
        run.attrs["approximation"]
        == models.logistic.self_train("ppp", rounds=1, progressbar=False).attrs["approximation"]
        == "ep"
    )


def fake(number, values):
    """A record of methods with these accuracies but for noise, which they share, and log scores that follow them."""
    noise = np.random.default_rng(number).normal(0, 0.01, size=2)
    return {
        name: {ACCURACY: value + noise[0], LOG_SCORE: value - 1 + noise[1], ECE: 0.1, COVERAGE: 0.9, SIZE: 1.2, SECONDS: 1.0}
        for name, value in values.items()
    }


def of_known(setting, values, repetitions=8):
    return Summary(setting, {number: fake(number, values) for number in range(repetitions)})


def test_every_method_is_compared_with_its_own_model():
    assert {OWN[PPP], OWN[CHOICE]} == {SUPERVISED} and OWN[SPREADING] == NEIGHBOURS and OWN[WHOLE] == CONDITIONAL
    assert set(OF_OTHERS) == {method for method, own in OWN.items() if own != SUPERVISED}
    # a gain over a poor model of its own is a loss against another
    summary = of_known(GAUSSIAN, {SUPERVISED: 0.8, NEIGHBOURS: 0.6, SPREADING: 0.7})
    (own,), (other,) = (compared([summary], each, ACCURACY) for each in (OWN, OF_OTHERS))
    assert (own.against, own.gap.sign, other.against, other.gap.sign) == (NEIGHBOURS, 1, SUPERVISED, -1)
    assert corrected(20) == pytest.approx(0.9975)
    assert not compared([of_known(GAUSSIAN, {SUPERVISED: 0.8, PPP: 0.7}, repetitions=4)], OWN, ACCURACY)


def test_the_choice_is_compared_only_where_it_can_leave():
    few, enough = (of_known(each, {SUPERVISED: 0.8, CHOICE: 0.8}) for each in (GAUSSIAN, REAL[1]))
    assert [each.summary.setting for each in compared([few, enough], OWN, ACCURACY)] == [enough.setting]
    assert not could_choose(GAUSSIAN) and could_choose(REAL[1])


def test_the_headline_names_gains_and_losses_beyond_chance(tmp_path):
    better = of_known(GAUSSIAN, {SUPERVISED: 0.8, PPP: 0.8, CONDITIONAL: 0.8, WHOLE: 0.9})
    worse = of_known(CARS, {SUPERVISED: 0.8, PPP: 0.7, CONDITIONAL: 0.8, WHOLE: 0.8})
    found = compared([better, worse], OWN, ACCURACY)
    signs = {(each.method, each.summary.setting.source): each.gap.sign for each in found}
    assert signs == {(PPP, "separated"): 0, (PPP, "cars"): -1, (WHOLE, "separated"): 1, (WHOLE, "cars"): 0}
    text = "\n".join(headline([better, worse]))
    assert "4 comparisons of a measure" in bar([better, worse]) and "2 comparisons with supervised" in bar([better, worse])
    assert "in 1 of 4 comparisons, on 1 table, none of them real: labels integrated out, λ = 1 (separated)." in text
    assert (
        "(PPP to the end) against the same on the labels alone, on 2 tables: accuracy is higher on none and lower on 1" in text
    )
    assert "on 1 simulated table where that model is right, accuracy is higher on 1 and lower on none" in text
    assert "gains on none, losses on 1 (cars: -10.0 [-10.0, -10.0] points); by log score" in text
    assert "Where the class-conditional model is right but for its priors (separated)" in text
    write([better, worse], tmp_path / "rivals.md")
    text = (tmp_path / "rivals.md").read_text()
    assert "| PPP to the end | supervised | 2 | +0 −1 | +0 −1 | – | – |" in text
    assert (
        "| PPP to the end | supervised | +0.0 [+0.0, +0.0] (1; 0 up, 0 down) | **-10.0 [-10.0, -10.0]** (1; 0 up, 1 down) |"
        in text
    )
    assert "| labels integrated out, λ = 1 | class-conditional | separated | accuracy | +10.0 [+10.0, +10.0] points |" in text


def test_the_headline_says_whether_the_supervised_model_is_as_sure_as_right():
    summary = of_known(GAUSSIAN, {SUPERVISED: 0.8, PPP: 0.9, REGRESSION: 0.85})
    for record in summary.records.values():
        record[SUPERVISED][SURENESS] = record[SUPERVISED][ACCURACY] - 0.1
    said = headline([summary])[-1]
    assert "less sure than right on 1 (separated: -10.0 [-10.0, -10.0] points) and surer than right on none, of 1 table" in said
    assert "on 1 (separated: +0.050 [+0.050, +0.050] nats)" in said and said.endswith(
        "and on 1 `LogisticRegression` alone has a higher one too."
    )


def test_the_interval_of_a_mean_over_settings_needs_no_independence():
    """Settings that share their noise in full say as much as one of them."""
    noise = np.random.default_rng(1).normal(size=6)

    def summary(setting, numbers):
        return Summary(setting, {k: {PPP: {ACCURACY: noise[k]}, SUPERVISED: {ACCURACY: 0.0}} for k in numbers})

    held = [summary(GAUSSIAN, range(6)), summary(CARS, range(1, 6))]
    found, one = pooled(held, PPP, SUPERVISED, ACCURACY), held[1].difference(PPP, SUPERVISED, ACCURACY)
    assert (found.mean, found.half) == (pytest.approx(one.mean), pytest.approx(one.half))
    assert one.mean == pytest.approx(noise[1:].mean())


def test_parts_are_merged_by_repetition():
    summary = merged(
        CARS, [{0: fake(0, {PPP: 0.5}), 1: fake(1, {PPP: 0.5})}, {1: fake(1, {"glm": 0.4}), 2: fake(2, {"glm": 0.4})}]
    )
    assert list(summary.records) == [0, 1] and not summary.has(PPP, "glm") and summary.has(PPP)
    assert summary.gaps(PPP, "glm", ACCURACY) == pytest.approx({1: 0.1})


def test_the_command_computes_what_is_missing_by_any_executor_and_writes_the_report(tmp_path, monkeypatch):
    cells = []

    def once(setting, number):
        cells.append((setting.key, number))
        return fake(number, {SUPERVISED: 0.8, PPP: 0.7})

    monkeypatch.setattr(command, "repeat", once)
    monkeypatch.setattr(command, "alone", lambda setting, number: fake(number, {REGRESSION: 0.75}))
    monkeypatch.setattr(command, "choose", lambda setting, number: pytest.fail("of too few labels"))
    monkeypatch.setattr(in_r, "available", lambda: True)
    monkeypatch.setattr(
        in_r, "compute", lambda setting, numbers, methods: {k: fake(k, dict.fromkeys(methods, 0.6)) for k in numbers}
    )
    command.main(["--quick", "--folder", str(tmp_path)])
    assert sorted(cells) == sorted((each.key, number) for each in QUICK for number in range(2))
    text = (tmp_path / "reports" / "rivals.md").read_text()
    assert (
        "| PPP to the end |" in text and "R's `glm`" in text and "mclust alone" in text and "`LogisticRegression` alone" in text
    )
    assert "No method has been compared in 5 repetitions yet." in text
    command.main(["--quick", "--folder", str(tmp_path)])
    assert len(cells) == 4
    with ThreadPoolExecutor(2) as executor:
        command.compute(QUICK, 3, stores(tmp_path / "again"), executor)
    one, again = (stores(folder)[PYTHON].read(QUICK[0]) for folder in (tmp_path, tmp_path / "again"))
    assert [one[k] == again[k] for k in (0, 1)] == [True, True] and len(again) == 3
    assert set(stores(tmp_path)) == {PYTHON, CHOOSING, R, ALONE, R_ALONE}


def test_the_report_is_that_of_the_stored_results(tmp_path):
    held = stores(VALIDATION)
    assert command.report(held, tmp_path).read_text() == (VALIDATION / "reports" / "rivals.md").read_text()
    assert len({each.key for each in SETTINGS}) == len(SETTINGS) == len(MADE_BY_CLASSES) + len(SIMULATED) + len(REAL)


def test_pages_say_what_the_results_do():
    held = stores(VALIDATION)
    summaries = [merged(each, [store.read(each) for store in held.values()]) for each in SETTINGS]
    own = {measure: compared(summaries, OWN, measure) for measure in (ACCURACY, LOG_SCORE)}

    def on(method, measure, sign):
        return {each.summary.setting for each in of_sign(of_method(own[measure], method), sign)}

    page = " ".join((VALIDATION.parent / "notebooks" / "guide" / "sklearn.md").read_text().split())
    for method, words in [
        (SELF_TRAINING, "over its `LogisticRegression` alone on {}, these notes, and loses on {}, beyond chance; accuracy"),
        (PPP, "over the supervised model on {} and loses on {}; accuracy"),
    ]:
        counts = [len(on(method, measure, sign)) for measure in (LOG_SCORE, ACCURACY) for sign in (1, -1)]
        assert f"gains log score {words} it gains on {{}} and loses on {{}}.".format(*counts) in page
    assert {each.source for each in on(SELF_TRAINING, LOG_SCORE, 1)} == {"banknote"}

    readme = " ".join((VALIDATION.parent / "README.md").read_text().split())
    right = [each for each in MADE_BY_CLASSES if each.source in INDEPENDENT_NORMAL]
    more_accurate, better = (sum(each in on(WHOLE, measure, 1) for each in right) for measure in (ACCURACY, LOG_SCORE))
    assert f"raised accuracy on {more_accurate} of {len(right)} simulated tables and the log score on {better};" in readme
    over_supervised = {(each.method, each.summary.setting) for each in of_sign(compared(summaries, OF_OTHERS, ACCURACY), 1)}
    for each in of_sign(own[ACCURACY], 1):
        setting = each.summary.setting
        assert setting not in REAL or (each.against != SUPERVISED and (each.method, setting) not in over_supervised)


@pytest.mark.slow
@pytest.mark.skipif(not in_r.available(), reason="needs R with mclust")
def test_glm_in_r_is_the_maximum_of_the_likelihood():
    """Of rows that are not separated; mclust learns from the pool what ten labels cannot tell."""
    setting = Setting("overlapping", 400, 4, 0.5)
    drawn = draw_split(setting, 0)
    found = in_r.compute(setting, [0], [in_r.GLM, in_r.MCLUST, in_r.MCLUST_ALONE])[0]
    free = LogisticRegression(C=1e9, tol=1e-10, max_iter=1000).fit(drawn.X[drawn.labeled], drawn.y[drawn.labeled])
    expected = measure(free.predict_proba(drawn.X[drawn.test]), drawn.y[drawn.test])
    assert [found["glm"][name] for name in (ACCURACY, LOG_SCORE, ECE)] == pytest.approx(
        [expected[name] for name in (ACCURACY, LOG_SCORE, ECE)], abs=2e-3
    )
    assert found["mclust"][ACCURACY] > 0.7 and found["mclust_alone"][ACCURACY] > 0.7


@pytest.mark.slow
@pytest.mark.parametrize(("name", "compute_one"), [(PYTHON, repeat), (ALONE, alone)])
def test_a_repetition_is_what_is_stored(name, compute_one):
    stored = stores(VALIDATION)[name].read(CARS)[0]
    again = json.loads(json.dumps(compute_one(CARS, 0)))
    assert set(again) == set(stored)
    for method, values in stored.items():
        np.testing.assert_allclose(
            [again[method][each] for each in (ACCURACY, LOG_SCORE)], [values[each] for each in (ACCURACY, LOG_SCORE)], atol=2e-3
        )
