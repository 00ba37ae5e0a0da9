"""Variational fits by fixed draws: what the order of parameters changes, and the error that scores come with."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_bpls as bpls
from pymc_bpls.approximations import vi
from pymc_bpls.approximations.predictions.predictive import Predictive

N, K = 60, 3


def softmax(d, scale=1.0, columns=None):
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(N), rng.normal(size=(N, d - 1)) * scale])
    truth = (X @ rng.normal(size=(d, K)) * 1.5 / scale + rng.gumbel(size=(N, K))).argmax(axis=1)
    X = X if columns is None else X[:, columns]
    with pm.Model() as model:
        b = pm.Normal("b", 0, 1.5, shape=(d, K))
        pm.Categorical("y", logit_p=pt.as_tensor(X) @ b, observed=np.where(np.arange(N) < 24, truth, -1))
    return bpls.BPLS(model)


def test_the_order_of_columns_changes_no_average_over_a_softmax():
    scores = [softmax(4, 30.0, columns).score("ppp", approximation="vi") for columns in (None, [3, 2, 1, 0])]
    first, *others = (each.score.values - each.attrs["log_normalizer"] for each in scores)
    for other in others:
        np.testing.assert_allclose(other, first, rtol=0, atol=1e-8)
    constants = [each.attrs["log_normalizer"] for each in scores]  # by draws of θ, in the order of the columns
    assert abs(constants[0] - constants[1]) < 0.03
    assert all(each.attrs["pareto_k"] > 0.4 and "log_normalizer_error" not in each.attrs for each in scores)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:k-hat of the constant")
def test_the_error_of_scores_covers_what_other_draws_change():
    pls = softmax(13)
    scores = pls.score("ppp", approximation="vi")
    q, predictive = vi.fit(pls.engine, pls.labeled, 2, pls.engine.fit(pls.labeled), None), Predictive(pls.engine)
    rows, codes = scores.candidate.values, scores.pseudo_label.values
    by_seed = [vi._fit(pls.engine, pls.labeled, 2, None, q, vi.Draws(1.0, seed)) for seed in range(11, 19)]
    repeated = np.array([predictive.mean_lik_of(each, rows, codes, few=True).log_mean for each in by_seed])
    assert 1e-3 < scores.attrs["score_error"] < 0.02
    assert np.sqrt((repeated.std(axis=0, ddof=1) ** 2).mean()) < scores.attrs["score_error"]
    assert np.abs(repeated - repeated.mean(axis=0)).max() < 3 * scores.attrs["score_error"]
