"""The structure of figures of scores and audits."""

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

import pymc_bpls as bpls
from pymc_bpls.plots.panels import legend_above

matplotlib.use("agg")


pytestmark = pytest.mark.usefixtures("no_style_is_changed")


@pytest.fixture(scope="module")
def audit(sim1, sim1_informed):
    values = {"log_ppp": sim1.candidates["grid_log_ppp"].to_numpy(), "pseudo_label": sim1.pseudo, "mcse": np.full(sim1.m, 1e-3)}
    exact = xr.Dataset({name: ("candidate", value) for name, value in values.items()}, {"candidate": sim1.pool})
    return sim1_informed.audit(["ppp", "ibpls", "variance", "likelihood", "ubpls"], exact=exact, random_seed=0)


def points(panel):
    """Points that are drawn as circles, filled and open together."""
    lines = [line for line in panel.get_lines() if line.get_marker() == "o"]
    return np.concatenate([np.asarray(line.get_xydata()) for line in lines])


def test_an_audit_is_a_column_of_values_and_errors_for_each_criterion(audit):
    grid = bpls.plot_audit(audit)
    assert grid.shape == (2, 3)
    assert [panel.get_title().split(":")[0] for panel in grid[0]] == ["ppp", "ibpls", "likelihood"]
    found = audit.candidates.sel(criterion="ibpls")
    exact, error = found["log_ppp"].to_numpy(), found["centred"].to_numpy()
    for panel, values in ((grid[0, 1], exact + error), (grid[1, 1], error)):
        drawn = points(panel)
        np.testing.assert_allclose(np.sort(drawn, axis=0), np.sort(np.column_stack([exact, values]), axis=0))
        assert panel.containers
    assert "25 candidates" in grid[1, 0].get_xlabel()
    assert "nats" in grid[0, 0].get_ylabel()


def test_what_all_candidates_share_is_said_and_not_drawn(sim1, sim1_informed):
    exact = sim1.candidates["grid_log_ppp"].to_numpy()
    right, off = (sim1_informed.audit(["ppp"], exact=exact + shift, random_seed=0) for shift in (0.0, 0.75))
    for name in ("centred", "centred_mcse"):
        np.testing.assert_allclose(off.candidates[name], right.candidates[name], atol=1e-12)
    errors = [audit.candidates["error"] - audit.candidates["centred"] for audit in (right, off)]
    np.testing.assert_allclose(errors[0] - errors[1], 0.75)
    below = bpls.plot_audit(off)[1, 0]
    assert points(below)[:, 1].mean() == pytest.approx(0, abs=1e-12)
    assert below.get_title(loc="right") == f"shared by all, left out: −{-errors[1].to_numpy().mean():.2g}"


def test_one_criterion_is_named_by_itself_and_what_names_none_is_refused(audit):
    assert bpls.plot_audit(audit, criteria="ibpls")[0, 0].get_title().startswith("ibpls")
    with pytest.raises(bpls.CriterionError, match=r"criteria= is a int\. Give names"):
        bpls.plot_audit(audit, criteria=3)
    with pytest.raises(TypeError, match="axes= holds a str, which is no Axes"):
        bpls.plot_audit(audit, criteria=["ppp"], axes=["top", "bottom"])


def test_flagged_candidates_are_open(audit):
    panel = bpls.plot_audit(audit, criteria=["ppp"])[0, 0]
    opened = [line for line in panel.get_lines() if line.get_label() == "flagged candidate"]
    assert len(opened[0].get_xdata()) == (audit.candidates["flags"] != "").sum()
    assert opened[0].get_markerfacecolor() == "white"


def test_given_axes_come_back(audit):
    figure, axes = plt.subplots(2, 1)
    assert (bpls.plot_audit(audit, criteria=["ubpls"], axes=axes).ravel() == axes).all()
    assert len(figure.axes) == 2
    with pytest.raises(ValueError, match="axes= holds 2 panels and the figure needs 2 by 3"):
        bpls.plot_audit(audit, axes=axes)


def test_what_has_no_errors_is_not_drawn(audit):
    with pytest.raises(bpls.CriterionError, match=r"criteria= names \['variance'\], which have no errors"):
        bpls.plot_audit(audit, criteria=["variance"])


def test_scores_are_ranked_beside_each_other(sim1_informed):
    scores = {"ppp": sim1_informed.score(labels="all", approximation="laplace"), "ibpls": sim1_informed.score("ibpls")}
    grid = bpls.plot_scores(scores, top=6)
    assert grid.shape == (2,)
    first, second = grid[0].get_lines()
    assert len(first.get_xdata()) == 6
    assert first.get_xdata()[0] == 0
    assert (np.diff(first.get_xdata()) <= 0).all()
    assert first.get_marker() != second.get_marker()
    best = int(np.argmax(scores["ppp"]["score"].max("label").to_numpy()))
    name = scores["ppp"]["index"].to_numpy()[best]
    assert grid[0].get_yticklabels()[0].get_text() == f"{name}: {scores['ppp']['pseudo_label'].to_numpy()[best]}"
    assert "class-sum error" in grid[1].get_xlabel()
    said = [text.get_text() for text in grid[0].get_legend().get_texts()]
    assert said == ["ppp", "ibpls", "known ties of ppp, by class sums"]
    assert bpls.plot_scores(scores["ibpls"]).shape == (1,)


def test_agreement_is_drawn_against_the_rows_in_d(small):
    run = small.self_train("variance", rounds=6, progressbar=False)
    along = small.audit_along(run, every=2, criteria=["ppp", "ibpls"], random_seed=0, progressbar=False)
    left, right = bpls.plot_agreement(along)
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["ppp", "ibpls"]
    drawn = next(line for line in right.get_lines() if line.get_label() == "reliable reference")
    np.testing.assert_allclose(drawn.get_ydata(), along.rounds["run_regret"])
    np.testing.assert_allclose(drawn.get_xdata(), [12, 14, 16, 17])
    low, high = left.get_ylim()
    assert low < along.rounds["tau_low"].min() and high <= 1.01 and np.ptp((low, high)) >= 0.1 - 1e-12
    assert low > along.rounds["tau_low"].min() - 0.15  # no empty room below
    assert np.ptp(right.get_ylim()) >= 0.1 - 1e-12
    lowest = (along.rounds["run_regret"] - 2 * along.rounds["run_regret_mcse"]).min()
    assert min(lowest, 0) - 0.1 * np.ptp(right.get_ylim()) <= right.get_ylim()[0] <= min(lowest, 0)
    with pytest.raises(bpls.CriterionError, match=r"is of type AuditAlong and not .* Draw it by plot_agreement"):
        bpls.plot_audit(along)
    with pytest.raises(bpls.CriterionError, match="scores= is a AuditAlong"):
        bpls.plot_scores(along)
    short = small.self_train("variance", rounds=1, progressbar=False)
    along = small.audit_along(short, every=4, criteria=["ppp"], random_seed=0, progressbar=False)
    for panel in bpls.plot_agreement(along):
        low, high = panel.get_xlim()
        assert low <= 10.1 and high >= 13.9 and all(tick == round(tick) for tick in panel.get_xticks())
    assert "reliable in the audited round." in along.verdict
    assert left.get_xlabel() == right.get_xlabel() == "rows in D"


def test_what_is_no_audit_along_a_run_is_refused(audit):
    with pytest.raises(bpls.CriterionError, match=r"is of type Audit and not .* Draw it by plot_audit"):
        bpls.plot_agreement(audit)
    with pytest.raises(bpls.CriterionError, match=r"is of type dict and not the audit of one D\. Give what audit\(\) returned"):
        bpls.plot_audit({})


def test_errors_without_a_bar_are_not_enlarged(sim1, sim1_informed):
    exact = sim1.candidates["grid_log_ppp"].to_numpy()
    known = sim1_informed.audit(["ppp", "ppp[ep]"], exact=exact, random_seed=0)
    for panel in bpls.plot_audit(known)[1]:
        assert np.ptp(panel.get_ylim()) >= 0.2 * np.ptp(exact) - 1e-12


def test_ties_within_the_scores_own_error_are_shaded(sim1_informed):
    scores = sim1_informed.score(labels="all", approximation="laplace")
    error = np.sqrt(2) * scores["class_sum_error"].to_numpy().std(ddof=1)
    panel = bpls.plot_scores(scores)[0]
    [band] = panel.patches
    np.testing.assert_allclose([band.get_x(), band.get_width()], [-error, error])
    assert panel.get_xlim()[0] <= -0.1
    best = np.sort(scores["score"].max("label").to_numpy())[::-1]
    tied = int((best[0] - best < error).sum())
    said = str(bpls.summary(scores))
    assert (f"The best {tied} are tied" if tied > 1 else "by class sums alone a difference is off by") in said
    assert panel.get_legend().get_texts()[-1].get_text() == "known ties of ppp, by class sums"
    predicted = sim1_informed.score(approximation="laplace")
    of_best = scores["class_sum_error"].to_numpy()[predicted["score"].to_numpy().argsort()[::-1][:8]]
    assert "class_sum_error" not in predicted and "by class sums" in str(bpls.summary(predicted))
    np.testing.assert_allclose(predicted.attrs["own_error"], np.sqrt(2) * of_best.std(ddof=1), rtol=1e-6)


def test_a_legend_is_read_in_rows_in_the_order_of_the_series():
    panel = plt.figure().add_subplot()
    for name in "abcde":
        panel.plot([0], [0], label=name)
    legend_above(panel, 3)
    columns = np.array_split([text.get_text() for text in panel.get_legend().get_texts()], 3)
    assert [list(column) for column in columns] == [["a", "d"], ["b", "e"], ["c"]]
