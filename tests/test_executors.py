"""Refits of one table and averages over draws by any executor: the same numbers, and no table goes to workers."""

import os
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from elsewhere import Elsewhere

import pymc_bpls as bpls
from pymc_bpls.compute.executors import WorkerError
from pymc_bpls.compute.threads import side_by_side

N, M = 20, 150
QUIET = {"progressbar": False}


def _data(q, m=M):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N + m, q))
    return X, np.where(np.arange(N + m) < N, X[:, 0] + rng.logistic(size=N + m) > 0, -1)


def _logistic(q, m=M):
    X, y = _data(q, m)
    with pm.Model() as model:
        pm.Bernoulli("label", logit_p=X @ pm.Normal("b", 0, 1, shape=q), observed=y)
    return bpls.BPLS(model)


def _curved():
    X, y = _data(1, 70)
    with pm.Model() as model:
        bent = pm.math.tanh(X[:, 0] * pm.Normal("w", 1, 1))
        pm.Bernoulli("label", logit_p=bent * pm.Normal("v", 1, 1), observed=y)
    return bpls.BPLS(model)


def _groups():
    _, y = _data(2)
    group = np.random.default_rng(1).integers(0, 250, N + M)
    with pm.Model() as model:
        pm.Bernoulli("label", logit_p=pm.Normal("a", 0, 1) + pm.Normal("z", 0, 1, shape=250)[group], observed=y)
    return bpls.BPLS(model)


MODELS = {
    "rows": lambda: _logistic(60),
    "by autodiff": _curved,
    "sparse": _groups,
}


def _refits(pls, executor=None):
    return pls.score("ppp", approximation="laplace", chunk_bytes=2**18, other_modes=False, executor=executor, **QUIET)


def _exact(pls, executor=None):
    how = {"method": "psis", "absolute": False, "random_seed": 0, "executor": executor}
    return pls.exact("ppp", **how, **QUIET)["exact"].to_dataset()


def _same(one, two):
    xr.testing.assert_allclose(one, two, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [pytest.param(name, marks=[pytest.mark.slow] * (name != "rows")) for name in MODELS])
def test_refits_are_the_same_elsewhere(kind):
    pls, executor = MODELS[kind](), Elsewhere()
    in_turn = _refits(pls)
    _same(_refits(pls, executor), in_turn)
    assert in_turn.converged.all()
    assert len(executor.sizes) >= 2


@pytest.mark.slow
def test_workers_get_the_rows_of_their_candidates_alone():
    few, many = Elsewhere(), Elsewhere()
    for m, executor in ((M, few), (3000, many)):
        _refits(_logistic(4, m), executor)
    assert len(many.sizes) > 2 * len(few.sizes)
    assert max(many.sizes) < max(few.sizes) + 60_000


@pytest.mark.slow
def test_refits_averages_and_runs_are_the_same_by_threads_and_processes():
    pls = _logistic(4, 800)
    scores, exact = _refits(pls), _exact(pls)
    how = {"approximation": "laplace", "rounds": 2, "other_modes": False, **QUIET}
    run = pls.self_train("ppp", **how)
    with ThreadPoolExecutor(2) as threads, ProcessPoolExecutor(1, get_context("spawn")) as processes:
        for executor in (threads, processes):
            _same(_refits(pls, executor), scores)
            _same(_exact(pls, executor), exact)
            again = pls.self_train("ppp", executor=executor, **how)
            assert again["history"].candidate.values.tolist() == run["history"].candidate.values.tolist()
            longer = pls.resume(again, rounds=1, executor=executor, **QUIET)
            assert longer["history"].sizes["step"] == 3


def test_an_executor_is_refused_where_nothing_is_refitted():
    pls = _logistic(4)
    for ask in (pls.score, pls.self_train):
        with pytest.raises(bpls.CriterionError, match=r'"probability" is scored by one fit here\. Leave it out') as caught:
            ask("probability", executor=Elsewhere(), **QUIET)
        assert len(str(caught.value)) < 320


@pytest.mark.slow
def test_a_pool_of_processes_that_died_is_named():
    with ProcessPoolExecutor(1, get_context("spawn")) as processes, pytest.raises(WorkerError, match="piece 1 of the work"):
        list(side_by_side(os._exit, [1, 1], processes))
