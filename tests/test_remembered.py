"""What a model has fitted it does not fit again: between scores and predictions, of the same D."""

import pickle
from dataclasses import replace

import numpy as np
import pymc as pm
import pytest

import pymc_bpls as bpls
from pymc_bpls.approximations.by_name import APPROXIMATIONS
from pymc_bpls.engine.engine import Engine

rng = np.random.default_rng(4)
X = rng.normal(size=(30, 2))
Y = np.where(np.arange(30) < 12, X[:, 0] > 0, -1).astype(int)


def declare():
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=X @ pm.Normal("b", 0, 1.5, shape=2), observed=Y)
    return bpls.BPLS(model)


@pytest.fixture
def fits(monkeypatch):
    """Names of what is fitted, as it is."""
    made = []

    def counting(name, do):
        return lambda *given, **named: made.append(name) or do(*given, **named)

    monkeypatch.setattr(Engine, "fit", counting("mode", Engine.fit))
    for name, held in list(APPROXIMATIONS.items()):
        monkeypatch.setitem(APPROXIMATIONS, name, replace(held, fit=counting(name, held.fit)))
    return made


def test_predictions_after_a_score_and_scores_after_predictions_fit_nothing(fits):
    pls = declare()
    first = pls.score(progressbar=False)
    assert fits == ["mode", "ep", "ep"]  # p_1 for the pseudo-labels, p_2 for the scores
    p = pls.predict_proba()
    again = pls.score(progressbar=False)
    pls.score("predictive", progressbar=False)
    assert fits == ["mode", "ep", "ep"]
    np.testing.assert_array_equal(first.score, again.score)
    other = declare()
    fits.clear()
    np.testing.assert_array_equal(other.predict_proba(), p)
    other.score(progressbar=False)
    assert fits == ["mode", "ep", "ep"]


def test_another_d_has_fits_of_its_own(fits):
    pls = declare()
    pls.score(progressbar=False)
    run = pls.self_train(rounds=2, progressbar=False)
    fits.clear()
    of_run = pls.predict_proba(result=run)
    assert "mode" in fits and np.abs(of_run - pls.predict_proba()).max() > 1e-4


def test_nothing_of_it_is_sent_to_workers():
    pls = declare()
    pls.score(progressbar=False)
    assert len(pls.scorer.remembered.fits) == 1
    assert not pickle.loads(pickle.dumps(pls.scorer.remembered)).fits


def test_what_takes_much_memory_is_not_kept(monkeypatch):
    monkeypatch.setattr("pymc_bpls.scoring.remembered._BYTES", 10)
    pls = declare()
    pls.score(progressbar=False)
    assert not pls.scorer.remembered.fits
