"""Rows so far away that a class has probability 0 or 1 in double precision."""

from __future__ import annotations

import warnings

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from refusing import logistic, table

import pymc_bpls as bpls
from pymc_bpls import BPLSWarning

LINKS = {
    "probit": pm.math.invprobit,
    "cloglog": lambda eta: 1 - pt.exp(-pt.exp(eta)),
    "sigmoid": pm.math.sigmoid,
}


def far_away(link, distance=1e4):
    """A model whose row 20 is far away."""
    X, y = table()
    X[20, 0] = distance
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.Bernoulli("label", p=LINKS[link](X @ beta), observed=y)
    return model


# row 20 has η near −20,000 or 20,000, where these links are 0 or 1 in double precision: its classes without a score
WITHOUT_SCORE = {
    ("probit", "predicted"): [],
    ("probit", "all"): [0],
    ("cloglog", "predicted"): ["predicted"],
    ("cloglog", "all"): [0, 1],
    ("sigmoid", "predicted"): [],
    ("sigmoid", "all"): [],
}


@pytest.mark.parametrize(("link", "labels"), WITHOUT_SCORE)
def test_a_far_away_row_is_scored_on_the_log_scale_or_reported_and_never_made_up(link, labels):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scores = bpls.BPLS(far_away(link)).score(approximation="laplace", labels=labels)["score"]
    of_row = np.atleast_1d(scores.sel(candidate=20))
    classes = np.array(["predicted"] if labels == "predicted" else [0, 1], dtype=object)
    lost = WITHOUT_SCORE[link, labels]
    assert classes[np.isnan(of_row)].tolist() == lost
    assert np.isfinite(of_row[~np.isnan(of_row)]).all()
    assert [warning.category for warning in caught] == [BPLSWarning] * bool(lost)
    assert all("row 20" in str(warning.message) for warning in caught)
    assert np.isfinite(scores.drop_sel(candidate=20)).all()


def test_a_far_away_row_under_a_sigmoid_has_the_score_of_its_logit():
    X, y = table()
    X[20, 0] = 1e4
    expected = bpls.BPLS(logistic(X, y)).score(approximation="laplace", labels="all")["score"]
    np.testing.assert_allclose(
        bpls.BPLS(far_away("sigmoid")).score(approximation="laplace", labels="all")["score"], expected, rtol=1e-10
    )


@pytest.mark.parametrize("link", LINKS)
def test_a_far_away_row_is_selected_where_it_has_a_score(link):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BPLSWarning)
        run = bpls.BPLS(far_away(link)).self_train(approximation="laplace", progressbar=False)
    assert (20 in run["history"]["candidate"].to_numpy()) == (not WITHOUT_SCORE[link, "predicted"])
    assert np.isfinite(run["history"]["score"]).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_logit_of_800_has_its_exact_value(sign):
    X, y = table()
    model = logistic(X, y)
    slope = float(bpls.BPLS(model).fit().mode["beta"][0])
    X[20] = sign * 800 / slope, 0.0
    pls = bpls.BPLS(logistic(X, y))
    scores = pls.score(approximation="laplace", labels="all").sel(candidate=20)
    right = int(sign > 0)
    # the far row agrees with the labeled ones: at the mode of the doubled likelihood it costs nothing
    np.testing.assert_allclose(scores["log_lik_pseudo"].sel(label=right), 0.0, atol=1e-12)
    assert np.isfinite(scores["score"]).all()
    at_mode = bpls.BPLS(logistic(X, y), predictor="map")
    assert at_mode.predict_proba([20]).sel({"class": right}) == 1.0
    assert np.isfinite(pls.score("variance")["score"]).all()
    assert np.isfinite(pls.score("entropy")["score"]).all()
    assert np.isfinite(pls.score("predictive")["score"]).all()
