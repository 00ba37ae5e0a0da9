"""Pools that are generated where they are scored, and a cluster of two workers on this machine that scores them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import pymc as pm
from distributed import Client, LocalCluster

import pymc_bpls as bpls
from validation.benchmarks.measure import REPEATS, in_turn, peak_memory
from validation.benchmarks.rivals import seconds

LABELED, BEST = 40, 1000
_ROWS_OF_PARTITION = 25_000
#: Dask imports `sparse` where it is installed, which takes 80 MB of a worker and is not used.
_WITHOUT_SPARSE = 'import sys; sys.modules["sparse"] = None'


def declare(m: int, q: int) -> bpls.BPLS:
    """Logistic regression on 40 labeled rows, with a pool of m rows of q standard normal features that nobody holds."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(LABELED, q))
    y = (X[:, 0] + rng.logistic(size=LABELED) > 0).astype(int)
    with pm.Model() as model:
        coefficients = pm.Normal("coefficients", 0, 1, shape=q)
        pm.Bernoulli("label", logit_p=pm.Data("X", X) @ coefficients, observed=y)
    return bpls.BPLS(
        model, pool={"X": da.random.default_rng(1).normal(size=(m, q), chunks=(_ROWS_OF_PARTITION, q))}, predictor="map"
    )


@contextmanager
def two_workers() -> Iterator[Any]:
    """Processes of one thread and at most 700 MB each."""
    settings: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": "700MB", "dashboard_address": ":0"}
    settings["preload"] = [_WITHOUT_SPARSE]
    with LocalCluster(**settings) as cluster, Client(cluster) as client:
        yield client


def peak_of_workers(client: Any) -> float:
    """Peak resident memory of the larger worker, GiB."""

    def peak() -> int:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    return max(client.run(peak).values()) / 2**20


def lazy(m: str, q: str) -> dict[str, Any]:
    """One scoring by EP of a pool that is generated lazily, by a cluster of two workers of 700 MB: rows a second, memory."""
    with two_workers() as client:
        pls = declare(int(m), int(q))
        pls.score("probability", top=1, executor=client)
        took = seconds(lambda: pls.score("ppp", top=BEST, executor=client))
        peak = peak_of_workers(client)
    return {"seconds": took, "worker_gib": peak, "client_gib": peak_memory()}


def workers(m: str, q: str) -> dict[str, Any]:
    """The same pool by one worker of a cluster and by two, in turn."""
    with two_workers() as client:
        pls = declare(int(m), int(q))
        one = client.get_executor(workers=[next(iter(client.nthreads()))])
        pls.score("ppp", top=BEST, executor=client)
        by = {"one": one, "two": client}
        timed: dict[str, Callable[[], float]] = {
            name: partial(seconds, partial(pls.score, "ppp", top=BEST, executor=executor)) for name, executor in by.items()
        }
        return in_turn(timed, REPEATS)


KINDS: dict[str, Callable[..., dict[str, Any]]] = {"lazy": lazy, "workers": workers}
