"""Rows of groups that no labeled row is in are scored by the prior of their effects: against NUTS of PyMC alone."""

import json
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
from data.unseen_levels import GROUP, ITEM, LABELED, LABELS, PERSON, declare, predictor

import pymc_bpls as bpls

EXACT = json.loads((Path(__file__).parent / "data" / "unseen_levels.json").read_text())
NEW_GROUP = ~np.isin(GROUP, GROUP[LABELED])[~LABELED]
NEW = {
    "groups": NEW_GROUP,
    "known": NEW_GROUP,
    "crossed": ~(np.isin(PERSON, PERSON[LABELED]) & np.isin(ITEM, ITEM[LABELED]))[~LABELED],
}


@pytest.fixture(
    scope="module", params=["known", *(pytest.param(name, marks=pytest.mark.slow) for name in ("groups", "crossed"))]
)
def held(request):
    with pm.Model() as model:
        declare(request.param)
        eta = predictor(request.param, np.arange(len(LABELED)))
        pm.Bernoulli("label", logit_p=eta, observed=np.where(LABELED, LABELS[request.param], -1))
    assert 0 < NEW[request.param].sum() < len(NEW[request.param])
    return request.param, bpls.BPLS(model)


def largest(name, k, values):
    """The largest distance to log E[p] given D held k times, less four standard errors: of new groups, and of the others."""
    log_mean, error = (np.array(EXACT[name][str(k)][part]) for part in ("log_mean", "error"))
    beyond = np.maximum(np.abs(values - log_mean) - 4 * error, 0)
    return beyond[NEW[name]].max(), beyond[~NEW[name]].max()


def scores(pls, criterion, approximation):
    return pls.score(criterion, labels="all", approximation=approximation)[
        "log_ppp" if criterion == "ppp" else "score"
    ].to_numpy()


def levelled(name, values):
    """Without what all values have in common beyond log E[p], which is log Z_2 − log Z_1."""
    return values - (values - np.array(EXACT[name]["2"]["log_mean"])).mean()


def test_one_fit_scores_and_predicts_as_nuts_does(held):
    name, pls = held
    assert max(largest(name, 2, levelled(name, scores(pls, "ppp", "ep")))) < 0.004
    assert max(largest(name, 1, scores(pls, "predictive", "ep"))) < 0.004


@pytest.mark.parametrize("held", ["known"], indirect=True)
def test_refits_do_where_no_scale_is_to_be_found(held):
    name, pls = held
    assert max(largest(name, 2, levelled(name, scores(pls, "ppp", "laplace")))) < 0.03


@pytest.mark.parametrize("held", ["known"], indirect=True)
def test_probabilities_average_over_the_prior_of_new_groups(held):
    name, pls = held
    candidates = np.flatnonzero(~LABELED)
    at = {by: np.log(pls.predict_proba(candidates, by=by).to_numpy()) for by in ("gaussian", "mode")}
    assert largest(name, 1, at["gaussian"])[0] < 0.04
    assert largest(name, 1, at["mode"])[0] > 0.05
