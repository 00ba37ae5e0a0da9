"""Lazy pools on a cluster of this machine: the same numbers, flat memory, small replies, and lost workers."""

import os
import pickle
import signal
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pymc as pm
import pytest
import xarray as xr
from distributed import Client, LocalCluster

import pymc_bpls as bpls
from pymc_bpls.lazy import scoring
from validation.accept.splits import Setting
from validation.study.compute import at_hand, fill, workers
from validation.study.store import Store

N, Q = 40, 20
COLUMNS = [f"x{i}" for i in range(Q)]
QUIET = {"progressbar": False, "other_modes": False}
LIMIT = 700e6
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame:pandas.errors.Pandas4Warning"),
    pytest.mark.filterwarnings("ignore:Sending large graph:UserWarning"),
]


def _rows(n, seed):
    return np.random.default_rng(seed).normal(size=(n, Q))


@pytest.fixture(scope="module")
def model():
    X = _rows(N, 0)
    y = (X[:, 0] + np.random.default_rng(1).logistic(size=N) > 0).astype(int)
    with pm.Model(coords={"feature": COLUMNS}) as model:
        b = pm.Normal("b", 0, 1, dims="feature")
        pm.Bernoulli("label", logit_p=pm.Data("X", X, dims=("row", "feature")) @ b, observed=y)
    return model


@contextmanager
def _cluster(n, memory):
    """Workers without Bambi's `sparse`, which Dask imports where it is, and Numba (80 MB) with it."""
    settings = {"n_workers": n, "threads_per_worker": 1, "memory_limit": memory, "dashboard_address": ":0"}
    settings["preload"] = ['import sys; sys.modules["sparse"] = None']
    with LocalCluster(**settings) as cluster, Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def client():
    with _cluster(2, "700MB") as client:
        yield client


@pytest.fixture(scope="module")
def alone():
    """One worker, with memory for PyMC."""
    with _cluster(1, "2GB") as client:
        yield client


@pytest.fixture(scope="module")
def hundred_thousand(model):
    rows = _rows(100_000, 2)
    return rows, bpls.BPLS(model, pool={"X": rows}).score("ppp", **QUIET)


def _pool(rows, chunk):
    return {"X": da.from_array(rows, chunks=(chunk, Q))}


def _same(found, scores):
    best = np.sort(scores.score.values)[::-1][: found.sizes["candidate"]]
    own = scores.sel(candidate=found.candidate)
    np.testing.assert_allclose(found.score, best, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.score, own.score, rtol=0, atol=1e-12)
    assert (found.pseudo_label.values == own.pseudo_label.values).all()
    assert found.attrs["n_rows"] == scores.sizes["candidate"]


@pytest.mark.parametrize("chunk", [7_777, 50_000])
def test_the_same_numbers_wherever_partitions_are_scored(model, client, hundred_thousand, chunk):
    rows, scores = hundred_thousand
    pls = bpls.BPLS(model, pool=_pool(rows, chunk))
    one_worker = client.get_executor(workers=[next(iter(client.nthreads()))])
    with ThreadPoolExecutor(2) as threads, ProcessPoolExecutor(1, get_context("spawn")) as processes:
        executors = [None, threads, client, client.get_executor(), one_worker, *([processes] if chunk > 10_000 else [])]
        for executor in executors:
            _same(pls.score("ppp", top=1000, executor=executor, **QUIET), scores)


def test_workers_need_no_pymc(client):
    def held(names):
        import sys

        return sorted(set(names) & set(sys.modules))

    loaded = client.run(held, ["jax", "pymc", "pytensor", "arviz", "matplotlib"])
    assert set(map(tuple, loaded.values())) == {("jax",)}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peaks of memory are read from /proc")
@pytest.mark.parametrize("kind", ["zarr", "parquet"])
def test_memory_is_flat_and_replies_are_small(model, client, tmp_path, kind, monkeypatch):
    pools = {n: _stored(tmp_path / str(n), kind, n) for n in (200_000, 2_000_000)}
    client.restart()
    sizes, peaks = [], []
    original = scoring.over_parts

    def weighed(*arguments):
        for reply in original(*arguments):
            sizes.append(len(pickle.dumps(reply)))
            yield reply

    def peak():  # of a worker, which would import this module for a function of it
        from pathlib import Path

        [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
        return 1024 * int(line.split()[1])

    monkeypatch.setattr(scoring, "over_parts", weighed)
    for n, pool in pools.items():
        found = bpls.BPLS(model, pool=pool).score("ppp", top=1000, executor=client, **QUIET)
        assert found.attrs["n_rows"] == n
        peaks.append(max(client.run(peak).values()))
    print(f"{kind}: peaks of workers {[f'{peak / 1e6:.0f} MB' for peak in peaks]}, replies up to {max(sizes):,} bytes")
    assert peaks[1] < LIMIT
    assert peaks[1] - peaks[0] < 80e6
    assert max(sizes) < 2**20
    assert sum(sizes) < 20e6


def _stored(folder, kind, n):
    """Rows of partitions with uneven lengths, one of them empty."""
    if kind == "zarr":
        lazily = da.random.default_rng(3).normal(size=(n, Q), chunks=(20_000, Q))
        xr.Dataset({"X": (("row", "feature"), lazily)}).to_zarr(folder, zarr_format=2, consolidated=False)
        return xr.open_zarr(folder, consolidated=False)
    folder.mkdir()
    ends = np.r_[0, 0, np.sort(np.random.default_rng(4).integers(1, n, 2 + n // 20_000)), n]
    for number, (first, last) in enumerate(pairwise(ends)):
        table = pa.table(dict(zip(COLUMNS, _rows(last - first, number).T, strict=True)))
        pq.write_table(table, folder / f"{number:03d}.parquet", row_group_size=25_000)
    return dd.read_parquet(folder, split_row_groups=True)


@contextmanager
def _first_worker_killed(client, monkeypatch):
    """In the middle of a pass; yields the processes that were killed."""
    killed, original = [], scoring.over_parts

    def murderous(*arguments):
        for reply in original(*arguments):
            if not killed:
                killed.append(next(iter(client.cluster.workers.values())).pid)
                os.kill(killed[0], signal.SIGKILL)
            yield reply

    with monkeypatch.context() as patched:
        patched.setattr(scoring, "over_parts", murderous)
        yield killed


def test_a_lost_worker_makes_no_difference(model, client, hundred_thousand, monkeypatch):
    rows, scores = hundred_thousand
    pls = bpls.BPLS(model, pool=_pool(rows, 5_000))
    with _first_worker_killed(client, monkeypatch) as killed:
        found = pls.score("ppp", top=1000, executor=client, **QUIET)
    assert len(killed) == 1
    _same(found, scores)


def test_the_loss_of_the_only_worker_makes_no_difference_either(model, alone, hundred_thousand, monkeypatch):
    rows, scores = hundred_thousand
    pls = bpls.BPLS(model, pool=_pool(rows[:50_000], 5_000))
    with _first_worker_killed(alone, monkeypatch) as killed:
        found = pls.score("ppp", top=1000, executor=alone, **QUIET)
    assert len(killed) == 1
    _same(found, scores.isel(candidate=slice(50_000)))


def test_a_nan_in_the_seventh_partition_is_named(model, client, hundred_thousand, tmp_path):
    rows = hundred_thousand[0].copy()
    rows[7 * 5_000 + 12, 3] = np.nan
    pls = bpls.BPLS(model, pool=_pool(rows, 5_000))
    with pytest.raises(bpls.RowError, match=r'Partition 7 .*"X" is not finite in rows \[12\] .*\[35012\]') as caught:
        pls.score("ppp", to=tmp_path / "scores.zarr", executor=client, **QUIET)
    print(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["scores.zarr.partial"]


def test_self_training_on_a_cluster_is_that_of_threads(model, client, hundred_thousand):
    rows = hundred_thousand[0][:20_000]
    pls = bpls.BPLS(model, pool=_pool(rows, 5_000))
    runs = [pls.self_train("ppp", batch_size=100, rounds=2, executor=executor, **QUIET) for executor in (client, None)]
    assert runs[0]["history"].candidate.values.tolist() == runs[1]["history"].candidate.values.tolist()


def test_refits_averages_and_repetitions_are_the_same_on_a_cluster(model, alone, hundred_thousand, tmp_path):
    rows = hundred_thousand[0][:800]
    pls = bpls.BPLS(model, pool={"X": rows})
    how = {"approximation": "laplace", "chunk_bytes": 2**20, **QUIET}
    xr.testing.assert_allclose(pls.score("ppp", executor=alone, **how), pls.score("ppp", **how), rtol=0, atol=1e-12)
    by = {"method": "psis", "absolute": False, "random_seed": 0, "progressbar": False}
    one, two = (pls.exact("ppp", executor=executor, **by)["exact"].to_dataset() for executor in (alone, None))
    xr.testing.assert_allclose(one, two, rtol=0, atol=1e-12)
    settings = [(Setting(name, 40), 2) for name in ("cars", "sonar")]
    store = Store(tmp_path, lambda setting: {})
    with workers(alone.scheduler.address) as executor:
        fill(store, settings, _numbers, at_hand, executor=executor)
    assert all(store.read(setting) == {i: _numbers(setting, i) for i in range(2)} for setting, _ in settings)


def _numbers(setting, number):
    return {"numbers": np.random.default_rng([len(setting.name), number]).random(3).tolist()}
