"""What a model, a fit, scores and a run say of themselves, as text and as HTML."""

import re

import numpy as np
import pandas as pd
import pytest
import reference
import xarray as xr
from sklearn.linear_model import LogisticRegression

import pymc_bpls as bpls
from pymc_bpls.engine.newton.curvature import LocalGaussian, Matrix
from pymc_bpls.text.summary import Summary

TEST = np.arange(20, 26)


@pytest.fixture(scope="module")
def run(small, table):
    return small.self_train("probability", rounds=4, test=(TEST, table[2][TEST]), progressbar=False)


def test_a_model_says_its_rows_classes_and_variables(small, table):
    html, y = small._repr_html_(), table[1]
    lines = repr(small).splitlines()
    assert lines == [
        'BPLS of "label": 12 labeled rows, 14 candidates, 2 classes, 2 unconstrained parameters',
        "As declared, this model describes y given x only: unlabeled rows and pseudo-labels add no information.",
    ]
    assert all(line.replace('"', "&quot;") in html for line in lines)
    found = re.findall(r"<td>(\d+)</td>", html)
    assert [int(count) for count in found] == np.bincount(y[:12]).tolist()
    assert "Free variables: b." in html and "Priors are proper." in html
    assert "Every row is labeled or a candidate." in html


def test_a_model_says_which_code_is_which_class(table):
    X, y, _ = table
    pls = bpls.BPLS(reference.logistic(X, y), classes=["stable", "relapse"])
    assert "2 classes (0 = stable, 1 = relapse), 2 unconstrained" in repr(pls)


def test_a_fit_shows_modes_and_standard_deviations(small, table):
    X, y, _ = table
    fit = LogisticRegression(C=2.5**2, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(X[:12], y[:12])
    p = fit.predict_proba(X[:12])[:, 1]
    sd = np.sqrt(np.diag(np.linalg.inv((X[:12].T * (p * (1 - p))) @ X[:12] + np.eye(2) / 2.5**2)))
    text = str(small.fit())
    for name, mode, width in zip(("b[0]", "b[1]"), fit.coef_[0], sd, strict=True):
        shown = re.search(rf"^{re.escape(name)} +(\S+) +(\S+)$", text, flags=re.MULTILINE)
        np.testing.assert_allclose([float(part) for part in shown.groups()], [mode, width], atol=1e-3)
    assert "converged" in text and "condition number" in text
    assert repr(small.fit()) == text
    assert "<td>" in small.fit()._repr_html_()


def test_a_long_fit_stays_on_one_screen():
    q = 40
    values = xr.DataArray(np.arange(q, dtype=float), dims="parameter", coords={"parameter": [f"b[{i}]" for i in range(q)]})
    gaussian = LocalGaussian(values.to_numpy(), Matrix(np.eye(q)))
    fit = bpls.LaplaceFit(
        xr.Dataset(), values, gaussian, None, True, {"decrement": 0.0, "steps": 3.0, "condition": 1.0}, "none found"
    )
    assert len(str(fit).splitlines()) < 25
    assert "25 more parameters" in str(fit) and "none (improper prior)" in str(fit)


def test_scores_show_the_best_candidates_in_order(small):
    scores = small.score("probability")
    said = bpls.summary(scores)
    best = scores.to_dataframe().nlargest(8, "score", keep="first")
    assert said.table["pseudo-label"].tolist() == best["pseudo_label"].tolist()
    np.testing.assert_allclose([float(value) for value in said.table["score"]], best["score"], atol=1e-3)
    assert said.table.index.tolist() == best.index.tolist()
    counts = scores["pseudo_label"].to_pandas().value_counts()
    assert f"{counts[0]} of class 0" in str(said) and f"{counts[1]} of class 1" in str(said)
    assert str(said).startswith('"probability" (mode, labels "predicted") of 14 candidates, the best 8:')


def test_scores_of_all_classes_show_the_class_sum_error(small):
    scores = small.score(labels="all", approximation="laplace")
    best = int(scores["score"].max("label").to_numpy().argmax())
    shown = float(bpls.summary(scores).table["class_sum_error"].iloc[0])
    assert shown == pytest.approx(float(scores["class_sum_error"][best]), rel=0.05)


def test_candidates_without_a_score_are_counted(small):
    scores = small.score("probability")
    scores["score"][:9] = np.nan
    said = str(bpls.summary(scores))
    assert "9 candidates have no finite score" in said and "the best 5:" in said


def test_a_run_shows_its_verdict_its_ends_and_what_it_added(run):
    said = bpls.summary(run)
    curve = run["curve"].isel(n_pseudo=[0, -1])
    assert str(said).startswith(run.attrs["verdict"])
    assert said.table.index.tolist() == ["supervised", "4 pseudo-labels"]
    assert said.table["rows in D"].tolist() == [12, 16]
    np.testing.assert_allclose(said.table["accuracy"].astype(float), curve["accuracy"], atol=1e-3)
    np.testing.assert_allclose(said.table["log score"].astype(float), curve["log_score"], atol=1e-3)
    per_row = curve["log_evidence"] / [12, 16]
    np.testing.assert_allclose(said.table["log evidence a row"].astype(float), per_row, atol=1e-3)
    assert 'Ended after 4 rounds of "probability" (mode): 4 rounds are done.' in str(said)
    ones = int((run["history"]["pseudo_label"] == 1).sum())
    assert f"{ones} of class 1 ({ones / 4:.0%}; labeled rows " in str(said)
    assert len(str(said).splitlines()) < 20


def test_a_run_without_pseudo_labels_has_one_model(small):
    said = bpls.summary(small.self_train("probability", rounds=0, progressbar=False))
    assert said.table.index.tolist() == ["supervised"]
    assert "Pseudo-labels" not in str(said)


@pytest.mark.parametrize("result", [xr.Dataset(), xr.DataTree(), None])
def test_what_is_no_result_is_refused(result):
    with pytest.raises(bpls.CriterionError, match="is no result that can be summarised"):
        bpls.summary(result)


@pytest.mark.parametrize("labels", ["predicted", "all"])
def test_exact_values_show_the_best_with_their_errors(small, labels):
    exact = small.exact(method="psis", labels=labels, random_seed=0, progressbar=False)
    said, held = bpls.summary(exact), exact["exact"].to_dataset()
    value = held["log_ppp"] if labels == "predicted" else held["log_ppp"].max("label")
    assert said.table.index.tolist() == value["candidate"].to_numpy()[np.argsort(-value.to_numpy())][:8].tolist()
    np.testing.assert_allclose(said.table["log ppp"].astype(float), np.sort(value)[::-1][:8], atol=1e-3)
    assert "No diagnostic speaks against it." in str(said)
    exact.attrs["reasons"] = ["k-hat is large"]
    assert "Not to be trusted: k-hat is large." in str(bpls.summary(exact))


def test_a_comparison_shows_each_criterion_s_gain(small):
    compared = bpls.compare(small, ["probability", "random"], 3, rounds=2, random_seed=0, progressbar=False)
    said = bpls.summary(compared)
    assert said.sentences[0] == compared.attrs["verdict"] and said.table.index.tolist() == ["probability", "random"]
    gain = compared.sel(against="supervised", measure="accuracy", criterion="random")
    mean, low, high = (float(gain[name]) for name in ("difference", "low", "high"))
    assert f"{mean:+.3f} ({low:+.3f} to {high:+.3f})" in str(said)
    columns = ["accuracy − supervised", "accuracy − supervised, low", "accuracy − supervised, high"]
    np.testing.assert_allclose(said.table.loc["random", columns].astype(float), [mean, low, high])
    assert "Runs ended: 6 by rounds." in str(said)


def test_a_posterior_with_the_pool_shows_what_it_rests_on(small, table):
    tree = small.marginalize(test=(TEST, table[2][TEST]), progressbar=False)
    said = bpls.summary(tree)
    assert said.sentences[0] == tree.attrs[
        "verdict"
    ] and "Labels of 8 rows integrated out by laplace (weight 1); one mode" in str(said)
    assert [float(each) for each in said.table["accuracy"]] == tree["curve"]["accuracy"].round(3).values.tolist()
    least = tree["labels"].probability.max("class").min().item()
    assert f"the least certain one with {least:.3f}" in str(said)
    assert bpls.summary(small.marginalize(progressbar=False)).table.empty


def test_replicates_show_their_mixture_and_how_they_ended(small):
    run = small.self_train("probability", labels="sampled", rounds=2, replicates=3, random_seed=0, progressbar=False)
    said = bpls.summary(run)
    assert said.sentences[0] == run.attrs["verdict"] and said.table["replicates"].tolist() == [3]


def test_html_is_escaped_and_holds_what_the_text_holds():
    said = Summary(["a < b", "then & there"], pd.DataFrame({"<i>": [1]}))
    html = said._repr_html_()
    assert "a &lt; b" in html and "<li>then &amp; there</li>" in html and "<i>" not in html
    assert "<table" not in Summary(["nothing"], pd.DataFrame())._repr_html_()
    assert str(Summary(["nothing"], pd.DataFrame())) == repr(Summary(["nothing"], pd.DataFrame())) == "nothing"


def test_a_set_s_summaries_name_its_rule_and_members(table):
    X, y, _ = table
    robust = bpls.ModelSet(bpls.prior_set(reference.logistic(X, y), "b", scale=[0.5, 1]), bpls.GammaMaximin())
    said = "By GammaMaximin() over 2 members: b: scale × 0.5, b: scale × 1."
    scores = robust.score(approximation="laplace")
    assert said in str(bpls.summary(scores)) and said in str(bpls.summary(robust.score(labels="all", approximation="laplace")))
    assert said in str(bpls.summary(robust.self_train(rounds=1, progressbar=False, approximation="laplace")))
    frame = scores.drop_dims("member").to_dataframe()
    assert len(frame) == 14 and frame["score"].tolist() == scores["score"].to_numpy().tolist()


def test_a_run_s_tables_are_frames(run):
    frame = run["history"].to_dataset().to_dataframe()
    assert frame.index.tolist() == [1, 2, 3, 4] and frame["candidate"].tolist() == run["history"]["candidate"].values.tolist()
    assert len(run["curve"].to_dataset().to_dataframe()) == 5


def test_a_close_choice_is_said_to_be_one(small, run):
    gaps = np.median(run["history"]["gap"])
    assert f"Choices were ahead of the next best row by {gaps:.2g} (median)." in str(bpls.summary(run))
    assert "less than scores are off" not in str(bpls.summary(run))  # a probability is what it says
    by_ppp = small.self_train(rounds=3, approximation="ep", progressbar=False)
    median = np.median(by_ppp["history"]["gap"])
    assert f"ahead of the next best row by {median:.2g} (median). Only audit_along measures" in str(bpls.summary(by_ppp))
    assert "ahead" not in str(bpls.summary(small.score("probability")))


@pytest.mark.parametrize(
    "how", [{"approximation": "ep"}, {"criterion": "marginal_likelihood", "approximation": "laplace"}], ids=str
)
def test_a_lead_whose_error_nothing_tells_is_left_to_the_audit(small, how):
    scores = small.score(**how)
    ahead = np.diff(np.sort(scores["score"].to_numpy()))[-1]
    assert f"The best is {ahead:.2g} ahead. Only audit measures how far scores are off." in str(bpls.summary(scores))


def test_class_sums_call_no_lead_safe_that_is_a_tie_by_quadrature(sim1, sim1_informed):
    """Whatever class sums say: a lead that is beyond their error, and within that of Laplace's method by exact values."""
    scores = sim1_informed.score(approximation="laplace")
    off = scores["log_ppp"].to_numpy() - sim1.candidates["grid_log_ppp"].to_numpy()
    error = np.sqrt(2) * off.std()
    scores = scores.assign(score=("candidate", np.r_[0.5 * error, np.full(len(off) - 1, 0.0)]))
    said = str(bpls.summary(scores.assign_attrs(own_error=error / 470)))
    assert f"by class sums alone a difference is off by {error / 470:.2g}. Only audit measures how far scores are off." in said
    assert "more than" not in said and "are tied" not in said


def test_ties_of_predicted_classes_are_told_by_the_class_sums_of_the_best(small):
    scores, every = small.score(approximation="laplace"), small.score(labels="all", approximation="laplace")
    best = np.argsort(-scores["score"].to_numpy(), kind="stable")[:7]  # 14 refits, as many as the pool takes
    error = np.sqrt(2) * every["class_sum_error"].to_numpy()[best].std(ddof=1)
    assert scores.attrs["own_error"] == pytest.approx(error, rel=1e-6)
    behind = scores["score"].max().item() - scores["score"].to_numpy()
    tied = int((behind < error).sum())
    tie = f"The best {tied} are tied: they are nearer to each other than the error of a difference by class sums ({error:.2g})."
    alone = f"by class sums alone a difference is off by {error:.2g}. Only audit measures how far scores are off."
    assert (tie if tied > 1 else alone) in str(bpls.summary(scores))
    run = small.self_train(rounds=1, approximation="laplace", progressbar=False)
    assert "own_error" not in run["history"]  # which would cost refits in every round


def test_averages_over_draws_that_differ_by_less_than_their_error_are_tied():
    scores = xr.Dataset(
        {"score": ("candidate", [-1.0, -1.0002, -1.3]), "pseudo_label": ("candidate", [0, 1, 1])},
        coords={"candidate": [3, 4, 5]},
        attrs={"criterion": "predictive", "approximation": "laplace", "labels": "predicted", "score_error": 2e-4},
    )
    text = "they are nearer to each other than the error of a difference by its draws (0.00028)."
    assert f"The best 2 are tied: {text}" in str(bpls.summary(scores))
    by_vi = scores.assign_attrs(criterion="ppp", approximation="vi", score_error=1e-5)
    said = "and by its draws alone a difference is off by 1.4e-05. Only audit measures how far scores are off."
    assert said in str(bpls.summary(by_vi))
