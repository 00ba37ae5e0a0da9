"""A posterior without a mode, of a centered hierarchy: EP trains on it, and does not look for the mode in every round."""

import numpy as np
import pymc as pm
import pytest

import pymc_bpls as bpls
from pymc_bpls.engine.modes import mode

QUIET = {"progressbar": False}


@pytest.fixture(scope="module")
def centered():
    rng = np.random.default_rng(0)
    x, group = rng.normal(size=30), np.arange(30) % 4
    y = np.where(np.arange(30) < 16, rng.random(30) < 1 / (1 + np.exp(-x)), -1).astype(int)
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        effects = pm.Normal("effects", 0, scale, shape=4)
        pm.Bernoulli("y", logit_p=effects[group] + x, observed=y)
    return bpls.BPLS(model)


def test_a_mode_that_labels_alone_do_not_have_is_not_looked_for_in_every_round(centered, monkeypatch, nothing_remembered):
    searches, found = [], mode.find_mode
    monkeypatch.setattr(
        "pymc_bpls.engine.engine.find_mode", lambda *given, **named: searches.append(1) or found(*given, **named)
    )
    counts = []
    for rounds in (1, 3):
        searches.clear()
        centered.self_train("ppp", rounds=rounds, other_modes=False, **QUIET)
        counts.append(len(searches))
    assert counts == [1, 1]


def test_a_run_without_a_mode_goes_on_as_the_whole_one(centered):
    whole = centered.self_train("ppp", rounds=3, **QUIET)
    later = centered.resume(centered.self_train("ppp", rounds=1, **QUIET), rounds=2, **QUIET)
    np.testing.assert_array_equal(whole["history"]["candidate"], later["history"]["candidate"])
    np.testing.assert_allclose(whole["curve"]["log_evidence"], later["curve"]["log_evidence"], rtol=1e-9)
