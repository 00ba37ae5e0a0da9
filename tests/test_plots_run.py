"""The structure of figures of a run and of decisions."""

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

import pymc_bpls as bpls
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.plots.decision import _with_label
from pymc_bpls.plots.panels import COLOURS, class_colours

matplotlib.use("agg")

TEST = np.arange(20, 26)


pytestmark = pytest.mark.usefixtures("no_style_is_changed")


@pytest.fixture(scope="module")
def run(small, table):
    test = (TEST, table[2][TEST])
    return small.self_train("probability", test=test, stop=bpls.NoGain([0, 3], 20), progressbar=False)


def labels(panel):
    return [text.get_text() for text in panel.get_legend().get_texts()]


def line(panel, label):
    [found] = [each for each in panel.get_lines() if each.get_label() == label]
    return found


def test_a_run_is_accuracy_log_score_scores_gaps_and_classes(run):
    grid = bpls.plot_self_training(run)
    assert [panel.get_ylabel() for panel in grid] == [
        "accuracy on 6 test rows\n(share right)",
        "mean log score\n(nats a row)",
        'score of the chosen row\n("probability", probability)',
        "gap to the next best row\n(probability)",
        "pseudo-labels of a class\n(dotted: labeled share)",
    ]
    assert {panel.get_xlabel() for panel in grid} == {"pseudo-labels added"}
    assert len({panel.get_xlim() for panel in grid}) == 1
    np.testing.assert_array_equal(line(grid[0], "self-training").get_ydata(), run["curve"]["accuracy"])
    assert set(line(grid[0], "supervised").get_ydata()) == {float(run["curve"]["accuracy"][0])}
    np.testing.assert_array_equal(line(grid[1], "6 test rows").get_ydata(), run["curve"]["log_score"])
    low, high = grid[1].get_ylim()
    held = [run["curve"][name].to_numpy() for name in ("log_score", "held_out_log_score")]
    assert low < np.min(held) and np.max(held) <= high <= 0 and high - low < np.ptp(held) / 0.45 + 0.1
    np.testing.assert_array_equal(line(grid[1], "2 rows set aside").get_ydata(), run["curve"]["held_out_log_score"])
    np.testing.assert_array_equal(grid[2].get_lines()[0].get_ydata(), run["history"]["score"])
    np.testing.assert_array_equal(grid[3].get_lines()[0].get_ydata(), run["history"]["gap"])


def test_the_band_is_the_standard_error_of_the_paired_difference(small, table):
    run = small.self_train(test=(TEST, table[2][TEST]), progressbar=False, approximation="laplace")
    right = run["test"]["right_before"].to_numpy(), run["test"]["right_after"].to_numpy()
    assert (right[0] != right[1]).any()
    panel = bpls.plot_self_training(run)[0]
    difference = right[1].astype(float) - right[0]
    error = np.sqrt(difference.var() / (len(difference) - 1))
    ends = panel.collections[0].get_paths()[0].vertices
    ends = np.unique(ends[ends[:, 0] == run["curve"]["n_pseudo"].to_numpy()[-1], 1])
    accuracy = float(run["curve"]["accuracy"][-1])
    np.testing.assert_allclose(ends, [accuracy - error, accuracy + error], atol=1e-12)


def test_classes_are_counted_beside_the_labeled_rows_shares(run):
    panel = bpls.plot_self_training(run)[-1]
    added, labeled = run["history"]["pseudo_label"].to_numpy(), run["labeled"]["label"].to_numpy()[:10]
    for name, text, drawn, share in zip((0, 1), labels(panel), panel.get_lines()[::2], panel.get_lines()[1::2], strict=True):
        count = int((added == name).sum())
        assert text == f"{name}: {count} ({count / len(added):.0%}; labeled {(labeled == name).mean():.0%})"
        assert drawn.get_ydata()[-1] == count
        assert len(added) < drawn.get_xdata()[-1] <= panel.get_xlim()[1]
        assert share.get_ydata()[-1] == pytest.approx((labeled == name).mean() * len(added))


def test_what_a_run_does_not_have_is_not_drawn(small, table):
    without = small.self_train("probability", rounds=3, progressbar=False)
    assert [panel.get_ylabel().split("\n")[0] for panel in bpls.plot_self_training(without)] == [
        "score of the chosen row",
        "gap to the next best row",
        "pseudo-labels of a class",
    ]
    test = (np.arange(12, 25), table[2][12:25])
    one = small.self_train("probability", test=test, progressbar=False)  # one candidate has no gap
    assert len(bpls.plot_self_training(one)) == 4
    [panel] = bpls.plot_self_training(small.self_train("probability", rounds=0, progressbar=False))
    assert "0 rounds are done" in panel.texts[0].get_text()


def test_axes_that_are_given_come_back(small):
    run = small.self_train("variance", rounds=2, progressbar=False)
    figure, axes = plt.subplots(1, 3)
    assert (bpls.plot_self_training(run, axes=axes) == axes).all()
    assert len(figure.axes) == 3
    with pytest.raises(ValueError, match="axes= holds 1 panels and the figure needs 3"):
        bpls.plot_self_training(run, axes=axes[0])
    for wrong, kind in ((3, "int"), ("ax", "str"), (figure, "Figure"), ([axes[0], axes[1], None], "NoneType")):
        with pytest.raises(TypeError, match=f"axes= holds a {kind}, which is no Axes"):
            bpls.plot_self_training(run, axes=wrong)


def test_no_text_of_a_run_s_figure_lies_on_another(run):
    grid = bpls.plot_self_training(run)
    figure = grid[0].figure
    figure.canvas.draw()
    whole, boxes = figure.bbox, [panel.get_tightbbox() for panel in grid]
    for place, box in enumerate(boxes):
        assert whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0 and box.y1 <= whole.y1
        assert not any(box.overlaps(other) for other in boxes[place + 1 :])


@pytest.fixture(scope="module")
def two():
    """Two features in a container: pls, X (30, 2), 10 labeled rows, 15 candidates, 5 rows held out."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 2))
    y = np.where(np.arange(30) < 10, X[:, 0] + 0.5 * rng.normal(size=30) > 0, -1)
    with pm.Model() as model:
        data = pm.Data("X", X)
        pm.Bernoulli("label", logit_p=data @ pm.Normal("b", 0, 2.5, shape=2), observed=y)
    return bpls.BPLS(model, unlabeled=np.arange(10, 25), classes=["no", "yes"], predictor="map"), X, y


def scatter(panel, label):
    [found] = [each for each in panel.collections if str(each.get_label()).startswith(label)]
    return found


def test_rows_without_a_label_have_the_colour_of_their_probability(two):
    pls, X, _ = two
    panel = bpls.plot_decision(pls, pd.Series(X[:, 0], name="width (mm)"), X[:, 1])
    candidates = scatter(panel, "candidate (15)")
    np.testing.assert_array_equal(candidates.get_offsets(), X[10:25])
    np.testing.assert_allclose(candidates.get_array(), pls.predict_proba(np.arange(10, 25))[:, 1])
    np.testing.assert_array_equal(scatter(panel, "held-out row (5)").get_offsets(), X[25:])
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("width (mm)", "y")
    assert panel.figure.axes[1].get_ylabel() == "probability of class yes"
    other = bpls.plot_decision(pls, X[:, 0], X[:, 1], label="no")
    np.testing.assert_allclose(scatter(other, "candidate").get_array(), pls.predict_proba(np.arange(10, 25))[:, 0])


def test_a_run_s_rows_and_its_last_model_are_shown(two):
    pls, X, y = two
    run = pls.self_train("probability", rounds=5, progressbar=False)
    panel = bpls.plot_decision(pls, X[:, 0], X[:, 1], run=run)
    rows, added = run["labeled"]["row"].to_numpy(), run["history"]["pseudo_label"].to_numpy()
    for name, code in (("no", 0), ("yes", 1)):
        labeled = line(panel, f"labeled {name} ({(y == code).sum()})")
        np.testing.assert_array_equal(labeled.get_xydata(), X[:10][y[:10] == code])
        chosen = rows[10:][added == name]
        if len(chosen):
            drawn = line(panel, f"pseudo-labeled {name} ({len(chosen)})")
            np.testing.assert_array_equal(drawn.get_xydata(), X[chosen])
            assert drawn.get_markerfacecolor() == "white"
    numbers = {text.get_text(): text.xy for text in panel.texts}
    assert "1" in numbers
    for number, place in numbers.items():
        np.testing.assert_array_equal(place, X[rows[9 + int(number)]])
    left = np.setdiff1d(np.arange(10, 25), rows)
    b = run["final"]["b"].to_numpy()
    np.testing.assert_allclose(scatter(panel, "candidate").get_array(), 1 / (1 + np.exp(-X[left] @ b)), atol=1e-9)


def test_a_grid_of_new_rows_is_a_map_with_the_line_of_one_half(two):
    pls, X, _ = two
    gx, gy = np.linspace(-2, 2, 9), np.linspace(-3, 3, 7)
    points = np.stack(np.meshgrid(gx, gy), axis=-1).reshape(-1, 2)
    panel = bpls.plot_decision(pls, X[:, 0], X[:, 1], grid=(gx, gy, {"X": points}))
    b = pls.fit().mode["b"].to_numpy()
    on_the_line = np.concatenate([path.vertices for path in panel.collections[1].get_paths()])
    np.testing.assert_allclose(on_the_line @ b, 0, atol=0.15)
    assert len(on_the_line) > 3
    with pytest.raises(bpls.RowError, match="grid= has 62 new rows for 9 by 7 points"):
        bpls.plot_decision(pls, X[:, 0], X[:, 1], grid=(gx, gy, {"X": points[:-1]}))


def test_what_cannot_be_mapped_is_refused(two, small, table):
    pls, X, _ = two
    with pytest.raises(bpls.RowError, match=r"y= is of shape \(29,\) .* the table has 30 rows"):
        bpls.plot_decision(pls, X[:, 0], X[1:, 1])
    with pytest.raises(bpls.LabelError, match=r"label='maybe' is none of the classes"):
        bpls.plot_decision(pls, X[:, 0], X[:, 1], label="maybe")
    run = small.self_train("probability", rounds=1, progressbar=False)
    with pytest.raises(bpls.CriterionError, match="no run of this table"):
        bpls.plot_decision(pls, X[:, 0], X[:, 1], run=run)


def test_axes_that_are_given_are_drawn_on(small, table):
    _, panel = plt.subplots()
    assert bpls.plot_decision(small, table[0][:, 0], table[0][:, 1], axes=panel) is panel
    scores = small.score("probability")
    with pytest.raises(TypeError, match=r"axes= holds a int, which is no Axes of Matplotlib\. Give what plt\.subplots"):
        bpls.plot_scores(scores, axes=3)
    with pytest.raises(TypeError, match=r"axes= holds a str, which is no Axes"):
        bpls.plot_decision(small, table[0][:, 0], table[0][:, 1], axes="right")
    for top in (0, -1, "a"):
        with pytest.raises(bpls.CriterionError, match="is no number of candidates"):
            bpls.plot_scores(scores, top=top)


def test_more_than_two_classes_have_a_shape_and_a_colour_each():
    _, panel = plt.subplots()
    D = Labeled(np.arange(12), np.arange(12) % 3, np.ones(12))
    _with_label(panel, np.random.default_rng(0).normal(size=(12, 2)), D, 12, ["a", "b", "c"])
    drawn = [line(panel, f"labeled {name} (4)") for name in "abc"]
    assert len({each.get_marker() for each in drawn}) == len({each.get_markerfacecolor() for each in drawn}) == 3


@pytest.fixture(scope="module")
def three():
    """Three classes around three centres, named in an order that is not alphabetical: pls, X (40, 2), a run."""
    rng = np.random.default_rng(4)
    truth = np.arange(40) % 3
    X = rng.normal(size=(40, 2)) + np.array([[0, 3], [-3, -2], [3, -2]])[truth]
    with pm.Model() as model:
        data = pm.Data("X", X)
        p = data @ pm.Normal("b", 0, 2, shape=(2, 3)) + pm.Normal("a", 0, 2, shape=3)
        pm.Categorical("label", logit_p=p, observed=np.where(np.arange(40) < 12, truth, -1))
    pls = bpls.BPLS(model, classes=["wine", "beer", "cider"], predictor="map")
    return pls, X, pls.self_train("probability", rounds=6, progressbar=False)


def colour_of(panel, label):
    [found] = [each for each in panel.get_lines() if str(each.get_label()).startswith(label)]
    return matplotlib.colors.to_rgb(found.get_color())


def test_a_class_has_the_same_colour_in_every_figure(three, two):
    pls, X, run = three
    classes, decision = bpls.plot_self_training(run)[-1], bpls.plot_decision(pls, X[:, 0], X[:, 1], run=run)
    other = bpls.plot_decision(pls, X[:, 0], X[:, 1], label="beer")
    colours = {name: colour_of(classes, f"{name}:") for name in ("wine", "beer", "cider")}
    assert list(colours.values()) == [matplotlib.colors.to_rgb(colour) for colour in COLOURS[:3]]
    for name, colour in colours.items():
        assert colour_of(decision, f"labeled {name}") == colour_of(other, f"labeled {name}") == colour
    pls, X, _ = two
    run = pls.self_train("probability", rounds=2, progressbar=False)
    classes = bpls.plot_self_training(run)[-1]
    for label in (None, "no", "yes"):
        panel = bpls.plot_decision(pls, X[:, 0], X[:, 1], run=run, label=label)
        candidates = scatter(panel, "candidate")
        for name, end in (("no", 0.0 if label != "no" else 1.0), ("yes", 1.0 if label != "no" else 0.0)):
            assert colour_of(panel, f"labeled {name}") == colour_of(classes, f"{name}:")
            np.testing.assert_allclose(candidates.get_cmap()(end)[:3], colour_of(classes, f"{name}:"), atol=0.01)


def test_a_class_without_a_row_keeps_the_colours_of_the_others(three, tmp_path):
    _, _, run = three
    changed = run.copy()
    changed["labeled"] = run["labeled"].to_dataset().assign_attrs(classes=["none", "wine", "beer", "cider"])
    changed.to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    panel = bpls.plot_self_training(xr.open_datatree(tmp_path / "run.nc", engine="h5netcdf"))[-1]
    assert colour_of(panel, "cider:") == matplotlib.colors.to_rgb(COLOURS[3])
    assert colour_of(panel, "none: 0") == matplotlib.colors.to_rgb(COLOURS[0])


@pytest.mark.parametrize("count", [2, 7, 8, 30])
def test_no_two_classes_have_one_colour(count):
    assert len({matplotlib.colors.to_hex(colour) for colour in class_colours(range(count))}) == count


def test_three_classes_are_shaded_by_the_one_that_is_predicted(three):
    pls, X, _ = three
    side = np.linspace(-5, 5, 11)
    points = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    panel = bpls.plot_decision(pls, X[:, 0], X[:, 1], grid=(side, side, {"X": points}))
    b, a = (pls.fit().mode[name].to_numpy() for name in "ba")
    eta = points @ b + a
    p = np.exp(eta - eta.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    shown = np.asarray(panel.collections[0].get_array()).reshape(-1, 3)
    full = np.array([matplotlib.colors.to_rgb(colour) for colour in COLOURS[:3]])
    for rgb, of_row in zip(shown, p, strict=True):
        darkness = 1 - full[of_row.argmax()]  # the colour is white minus a share of the class's own
        share = (1 - rgb) / darkness
        np.testing.assert_allclose(share[darkness > 0.05], np.mean(share[darkness > 0.05]), atol=1e-9)
    strength = np.max(1 - shown, axis=1) / np.max(1 - full[p.argmax(axis=1)], axis=1)
    assert (np.diff(strength[np.argsort(p.max(axis=1))]) >= -1e-12).all()
    assert panel.figure.axes[1].get_ylabel() == "probability of the predicted class"
    beer = bpls.plot_decision(pls, X[:, 0], X[:, 1], label="beer")
    np.testing.assert_allclose(scatter(beer, "candidate").get_array(), pls.predict_proba(np.arange(12, 40))[:, 1])


def test_scores_without_an_error_bar_are_not_enlarged(small, table):
    run = small.self_train(rounds=3, test=(TEST, table[2][TEST]), progressbar=False, approximation="laplace")
    accuracy, log_score, scores, gaps, _ = bpls.plot_self_training(run)
    assert log_score.get_ylim()[1] <= 0
    for panel in (accuracy, log_score, scores, gaps):
        assert np.ptp(panel.get_ylim()) >= 0.1 - 1e-12
    probable = bpls.plot_self_training(small.self_train("probability", rounds=2, progressbar=False))[0]
    assert np.ptp(probable.get_ylim()) >= 0.1 - 1e-12 and probable.get_ylim()[1] < 1.02


def test_a_gap_within_the_scores_own_error_is_drawn_as_a_tie(small):
    run = small.self_train(labels="all", rounds=3, progressbar=False, approximation="laplace")
    sums = small.score(labels="all", approximation="laplace")["class_sum_error"].to_numpy()
    assert float(run["history"]["own_error"][0]) == pytest.approx(np.sqrt(2) * sums.std(ddof=1))
    assert labels(bpls.plot_self_training(run)[1]) == ["known ties, by class sums"]
    said = str(bpls.summary(run))
    gap, error = run["history"]["gap"].to_numpy(), run["history"]["own_error"].to_numpy()
    tied = (gap < error).sum()
    ties = f"{tied} of 3 are ties: they were ahead by less than the error of a difference by class sums"
    assert (ties in said) == (tied > 0) and "Only audit_along measures how far scores are off." in said
    again = small.resume(run, rounds=1, progressbar=False)
    np.testing.assert_array_equal(again["history"]["own_error"][:3], error)
    assert "own_error" not in small.self_train(rounds=1, progressbar=False, approximation="laplace")["history"]


def test_what_is_no_model_is_not_drawn(small):
    with pytest.raises(bpls.CriterionError, match=r"pls= is a Model\. Give the BPLS"):
        bpls.plot_decision(small.scorer.problem.model, [0.0], [0.0])
