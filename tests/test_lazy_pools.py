"""Pools that are read by partitions: the same scores as in memory, whatever the partitions and whoever scores them."""

import errno
import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import dask.array as da
import dask.dataframe as dd
import jax
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
import zarr
from elsewhere import Elsewhere
from hypothesis import given, settings
from hypothesis import strategies as st
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.jax.dispatch import jax_funcify

import pymc_bpls as bpls
from pymc_bpls.compute.files import write_whole
from pymc_bpls.lazy import part_scorer, scoring, stores
from pymc_bpls.lazy.containers import read_partitions
from pymc_bpls.lazy.row_graph import containers_of
from pymc_bpls.lazy.statistics import Histogram

N, M, Q = 40, 600, 4
COLUMNS = list("abcd")
QUIET = {"progressbar": False}
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame:pandas.errors.Pandas4Warning")


def _data(m=M, seed=0):
    rng = np.random.default_rng(seed)
    X, group = rng.normal(size=(N + m, Q)), rng.integers(0, 3, N + m)
    y = (X @ np.array([1.0, -1.0, 0.5, 0.0]) + rng.logistic(size=N + m) > 0).astype(int)
    return X, group, y


def _model(X, group, y, *, several=False):
    with pm.Model(coords={"feature": COLUMNS, "group": ["u", "v", "w"]}) as model:
        x = pm.Data("X", X[:N], dims=("row", "feature"))
        g = pm.Data("g", group[:N].astype("int32"), dims="row")
        if several:
            b = pm.Normal("b", 0, 1, shape=(Q, 3))
            labels = (y[:N] + (X[:N, 0] > 1)).astype(int)
            pm.Categorical("label", p=pm.math.softmax(x @ b, axis=1), observed=labels)
        else:
            b, z = pm.Normal("b", 0, 1, dims="feature"), pm.Normal("z", 0, 1, dims="group")
            pm.Bernoulli("label", logit_p=x @ b + z[g], observed=y[:N], dims="row")
    return model


@pytest.fixture(scope="module")
def data():
    return _data()


@pytest.fixture(scope="module")
def in_memory(data):
    X, group, _ = data
    return bpls.BPLS(_model(*data), pool={"X": X[N:], "g": group[N:]})


@pytest.fixture(scope="module")
def lazy(data):
    X, group, _ = data
    return bpls.BPLS(
        _model(*data), pool={"X": da.from_array(X[N:], chunks=(170, 3)), "g": da.from_array(group[N:], chunks=100)}
    )


def _best(scores, k):
    order = np.argsort(-scores.score.values, kind="stable")[:k]
    return scores.isel(candidate=order)


def _same(found, scores, k):
    """The same best rows, up to ties, and values."""
    expected = _best(scores, k)
    np.testing.assert_allclose(found.score, expected.score, rtol=0, atol=1e-12)
    own = scores.sel(candidate=found.candidate)
    np.testing.assert_allclose(found.score, own.score, rtol=0, atol=1e-12)
    assert (found.pseudo_label.values == own.pseudo_label.values).all()


@pytest.mark.parametrize(
    "how",
    [
        {"criterion": "ppp"},
        {"criterion": "predictive", "approximation": "laplace"},
        {"criterion": "probability"},
        {"criterion": "variance"},
        {"criterion": "entropy"},
        {"criterion": "random", "random_seed": 3},
        {"criterion": "ppp", "labels": "expected"},
        {"criterion": "ppp", "labels": bpls.Hurwicz(0.7), "approximation": "vi"},
    ],
    ids=lambda how: "-".join(map(str, how.values())),
)
def test_the_best_rows_are_those_in_memory(in_memory, lazy, how):
    _same(lazy.score(top=50, **how, **QUIET), in_memory.score(**how, **QUIET), 50)


def test_the_best_pairs_are_those_in_memory(in_memory, lazy):
    scores = in_memory.score("probability", labels="all", **QUIET)
    found = lazy.score("probability", labels="all", top=M, **QUIET)
    np.testing.assert_allclose(found.score, np.sort(scores.score.values.ravel())[::-1][:M], rtol=0, atol=1e-12)
    found_pairs = zip(found.candidate.values, found.pseudo_label.values, strict=True)
    own = [scores.score.sel(candidate=i, label=c).item() for i, c in found_pairs]
    np.testing.assert_allclose(found.score, own, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:k-hat of the constant")
def test_a_model_of_several_predictors_and_one_of_none_are_scored_alike(data):
    X, _, y = data
    with pm.Model() as network:
        x = pm.Data("X", X[:N])
        hidden = pm.math.tanh(x @ pm.Normal("w", 0, 1, shape=(Q, 3)))
        pm.Bernoulli("label", logit_p=hidden @ pm.Normal("v", 0, 1, shape=3), observed=y[:N])
    with pm.Model() as of_features:
        mean, label = pm.Normal("mean", 0, 1, shape=(2, Q)), pm.Bernoulli("label", 0.4, observed=y[:N])
        x = pm.Data("X", X[:N])
        pm.Normal("features", mean[label], 1.0, observed=x)
    for model, how in [
        (_model(*data, several=True), {"approximation": "vi"}),
        (network, {"approximation": "vi"}),
        (of_features, {"approximation": "vi", "candidate": "joint"}),
        (of_features, {"approximation": "vi"}),
    ]:
        target = {"target": "label"} if model is of_features else {}
        held = bpls.BPLS(model, pool={"X": X[N : N + 200]}, **target).score("ppp", other_modes=False, **how, **QUIET)
        parts = bpls.BPLS(model, pool={"X": da.from_array(X[N : N + 200], chunks=(90, Q))}, **target)
        _same(parts.score("ppp", top=20, other_modes=False, **how, **QUIET), held, 20)


def test_few_labels_and_many_features_are_scored_in_the_coordinates_of_the_labels():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 60)), rng.integers(0, 2, 120)
    with pm.Model() as model:
        pm.Bernoulli("label", logit_p=pm.Data("X", X[:20]) @ pm.Normal("b", 0, 0.3, shape=60), observed=y[:20])
    scores = bpls.BPLS(model, pool={"X": X[20:]}).score("ppp", **QUIET)
    assert scores.attrs["space"] == "rows"
    _same(bpls.BPLS(model, pool={"X": da.from_array(X[20:], chunks=(33, 60))}).score("ppp", top=30, **QUIET), scores, 30)


@settings(max_examples=6)
@given(ends=st.lists(st.integers(0, M), max_size=6), k=st.integers(1, 40))
def test_chunks_make_no_difference(in_memory, lazy, data, ends, k):
    X, group, _ = data
    ends = [0, *sorted(ends), M]
    parts = [{"X": X[N + a : N + b], "g": group[N + a : N + b]} for a, b in pairwise(ends)]
    whole, found = lazy._lazy, lazy.score("probability", top=M, **QUIET)
    other = bpls.BPLS.__new__(bpls.BPLS)
    other.__dict__.update(lazy.__dict__)
    other._lazy = replace(whole, partitions=read_partitions(parts, containers_of(lazy._problem)))
    again = other.score("probability", top=k, **QUIET)
    np.testing.assert_allclose(again.score, found.score[:k], rtol=0, atol=1e-12)
    assert again.candidate.values.tolist() == found.candidate.values[:k].tolist()
    assert again.rows_by_label.values.tolist() == found.rows_by_label.values.tolist()
    assert again.histogram.values.tolist() == found.histogram.values.tolist()


@given(st.lists(st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), max_size=9), max_size=6))
def test_histograms_of_parts_add_up(parts):
    whole = Histogram.of(np.array([value for part in parts for value in part]))
    together = Histogram.of(np.empty(0))
    for part in parts:
        together = together + Histogram.of(np.array(part))
    assert together.counts.tolist() == whole.counts.tolist()
    assert together.edges.tolist() == whole.edges.tolist()
    assert whole.counts.sum() == sum(map(len, parts))


class _OneByOne:
    """Mappings that come one by one, with their lengths."""

    lengths = (250, 0, M - 250)

    def __init__(self, X, group):
        self.X, self.group = X, group

    def __iter__(self):
        for first, last in [(0, 250), (250, 250), (250, M)]:
            yield {"X": self.X[first:last], "g": self.group[first:last]}


def _parquet(folder, X, group):
    """Files with uneven row groups, one of them empty."""
    frame = pd.DataFrame(X, columns=COLUMNS).assign(g=group, text="no number")
    table, ends = pa.Table.from_pandas(frame, preserve_index=False), [0, 100, 100, 101, 377, len(X)]
    folder.mkdir()
    for number, (first, last) in enumerate(pairwise(ends)):
        pq.write_table(table.slice(first, last - first), folder / f"{number}.parquet", row_group_size=150)
    return dd.read_parquet(folder, split_row_groups=True)


@pytest.mark.parametrize("kind", ["zarr", "zarr without chunks", "frame", "frames", "one by one"])
def test_scores_of_all_rows_are_stored_from_any_container(in_memory, data, tmp_path, kind):
    X, group, _ = data
    if kind.startswith("zarr"):
        dataset = xr.Dataset({"X": (("row", "feature"), X[N:]), "g": ("row", group[N:])})
        encoding = {"X": {"chunks": (170, 3)}, "g": {"chunks": (200,)}}
        dataset.to_zarr(tmp_path / "pool.zarr", zarr_format=2, consolidated=False, encoding=encoding)
        pool = xr.open_zarr(tmp_path / "pool.zarr", consolidated=False, chunks={} if kind == "zarr" else None)
    elif kind == "one by one":
        pool = _OneByOne(X[N:], group[N:])
    else:
        pool = _parquet(tmp_path / "pool", X[N:], group[N:])
        pool = pool if kind == "frame" else {"X": pool[COLUMNS], "g": pool["g"]}
    lazy, scores = bpls.BPLS(_model(*data), pool=pool), in_memory.score("ppp", **QUIET)
    assert lazy._lazy.partitions.n_rows == M
    for store in ("scores.zarr", "scores.parquet"):
        found = lazy.score("ppp", to=tmp_path / store, **QUIET)
        assert not found.score.variable._in_memory
        np.testing.assert_allclose(found.score, scores.score, rtol=0, atol=1e-12)
        assert (found.pseudo_label.values == scores.pseudo_label.values).all()
    with xr.open_zarr(tmp_path / "scores.zarr", consolidated=False) as again:
        np.testing.assert_array_equal(again.score, found.score)
    assert pd.read_parquet(tmp_path / "scores.parquet").candidate.tolist() == list(range(N, N + M))


class _EndsEarly(_OneByOne):
    """The first two of its three partitions, though its lengths say that there are three."""

    def __iter__(self):
        yield from list(super().__iter__())[:2]


EARLY = (
    r"The pool ended after 2 of its 3 partitions, with 250 of 600 rows\. Give one that brings the same partitions each time\."
)


def test_a_pool_that_ends_early_is_refused(data, tmp_path):
    X, group, _ = data
    lazy = bpls.BPLS(_model(*data), pool=_EndsEarly(X[N:], group[N:]))
    for how in ({"top": 500}, {"to": tmp_path / "scores.zarr"}, {"to": tmp_path / "scores.parquet"}):
        with pytest.raises(bpls.RowError, match=EARLY):
            lazy.score("ppp", **how, **QUIET)
    assert not (tmp_path / "scores.zarr").exists() and not (tmp_path / "scores.parquet").exists()
    run = lazy.self_train("ppp", batch_size=300, **QUIET)
    assert run["history"].sizes["step"] == 0 and run.attrs["stop_kind"] == "refused"
    assert re.search(EARLY, run.attrs["stop_reason"])
    whole = bpls.BPLS(_model(*data), pool=_OneByOne(X[N:], group[N:]))
    found = whole.score("ppp", to=tmp_path / "scores.zarr", **QUIET)  # goes on with the partitions that came
    np.testing.assert_array_equal(found.score, whole.score("ppp", to=tmp_path / "anew.zarr", **QUIET).score)


def test_information_of_a_pool_that_ends_early_is_refused():
    y, x = np.array([0, 1, 0, 1]), np.random.default_rng(0).normal(size=10)

    class Pool:
        lengths = (3, 3)

        def __iter__(self):
            yield {"x": x[4:7]}

    with pm.Model() as model:
        label = pm.Bernoulli("label", 0.5, observed=y)
        pm.Normal("feature", pm.Normal("mean", 0, 2, shape=2)[label], 1, observed=pm.Data("x", x[:4]))
    with pytest.raises(bpls.RowError, match="ended after 1 of its 2 partitions, with 3 of 6 rows"):
        bpls.BPLS(model, target="label", pool=Pool()).information()


def test_nothing_is_read_until_rows_are_scored(data):
    X, group, _ = data

    def reads(*_, **__):
        raise AssertionError("it was read")

    blocks = da.from_array(X[N:], chunks=(200, Q)).map_blocks(reads, dtype=float, meta=np.empty((0, 0)))
    lazy = bpls.BPLS(_model(*data), pool={"X": blocks, "g": da.from_array(group[N:], chunks=200)})
    with pytest.raises(AssertionError, match="it was read"):
        lazy.score("probability", top=1, **QUIET)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda X, g: X.__setitem__((N + 450, 2), np.nan), r"Partition 7 .*\"X\" is not finite in rows \[30\].*\[450\].*'c'"),
        (lambda X, g: g.__setitem__(N + 430, 7), r"Partition 7 .*\"g\" holds \[7\] in rows \[10\].*3 levels \(u, v, w\)"),
    ],
    ids=["NaN", "a group that is not known"],
)
def test_what_cannot_be_scored_is_named_by_partition_and_row(data, tmp_path, spoil, says):
    X, group, _ = (values.copy() for values in data)
    spoil(X, group)
    model = _model(*data)
    lazy = bpls.BPLS(model, pool={"X": da.from_array(X[N:], chunks=(60, Q)), "g": da.from_array(group[N:], chunks=60)})
    with pytest.raises(bpls.RowError, match=says) as caught:
        lazy.score("probability", to=tmp_path / "scores.zarr", **QUIET)
    assert len(str(caught.value)) < 320
    assert [path.name for path in tmp_path.iterdir()] == ["scores.zarr.partial"]


@pytest.mark.parametrize("store", ["scores.zarr", "scores.parquet"])
def test_a_store_is_gone_on_with_after_ctrl_c(lazy, in_memory, tmp_path, monkeypatch, store):
    scored = []

    def counts(scorer, part):
        scored.append(part.number)
        return part_scorer.score_part(scorer, part)

    def interrupted(*arguments):
        for number, reply in enumerate(scoring_pass(*arguments)):
            yield reply
            if number == 2:
                raise KeyboardInterrupt

    scoring_pass = scoring.over_parts
    monkeypatch.setattr(scoring, "score_part", counts)
    with ThreadPoolExecutor(1) as executor, monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(scoring, "over_parts", interrupted)
        lazy.score("probability", to=tmp_path / store, executor=executor, **QUIET)
    assert not (tmp_path / store).exists()
    with pytest.raises(bpls.CriterionError, match="holds scores by other"):
        lazy.score("variance", to=tmp_path / store, **QUIET)
    found = lazy.score("probability", to=tmp_path / store, **QUIET)
    np.testing.assert_allclose(found.score, in_memory.score("probability", **QUIET).score, rtol=0, atol=1e-12)
    assert sorted(scored) == list(range(len(lazy._lazy.partitions.lengths)))
    assert found.rows_by_label.sum() == M
    assert [path.name for path in tmp_path.iterdir()] == [store]
    with pytest.raises(bpls.CriterionError, match="exists"):
        lazy.score("probability", to=tmp_path / store, **QUIET)


@pytest.mark.parametrize(("store", "fails_at"), [("scores.zarr", "open_group"), ("scores.parquet", "_whole.json")])
def test_a_full_disk_at_the_end_of_a_store_costs_no_partition(lazy, tmp_path, monkeypatch, store, fails_at):
    def full(*arguments, **_):
        if fails_at == "open_group" or arguments[0].name == fails_at:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_whole(*arguments)

    def never(*_):
        raise AssertionError("it was scored before")

    with monkeypatch.context() as patched, pytest.raises(OSError, match=r"No space|disk is full") as caught:
        patched.setattr(*((zarr, "open_group", full) if fails_at == "open_group" else (stores, "write_whole", full)))
        lazy.score("probability", to=tmp_path / store, **QUIET)
    assert caught.value.errno == errno.ENOSPC and not (tmp_path / store).exists()
    monkeypatch.setattr(scoring, "score_part", never)
    assert lazy.score("probability", to=tmp_path / store, **QUIET).sizes["candidate"] == M
    assert [path.name for path in tmp_path.iterdir()] == [store]


@pytest.mark.parametrize(
    "how",
    [{"batch_size": 5}, {"criterion": "probability", "labels": "all"}, {"criterion": "random", "random_seed": 1}],
    ids=str,
)
def test_self_training_adds_the_rows_that_it_adds_in_memory(in_memory, lazy, data, how):
    X, group, y = data
    test = ({"X": X[-30:], "g": group[-30:]}, y[-30:])
    one, two = (pls.self_train(rounds=3, test=test, **how, **QUIET) for pls in (in_memory, lazy))
    assert two["history"].candidate.values.tolist() == one["history"].candidate.values.tolist()
    assert two["labeled"].row.values.tolist() == one["labeled"].row.values.tolist()
    assert two["test"].row.values.tolist() == one["test"].row.values.tolist()
    for name in ("accuracy", "log_score", "log_evidence", "invented_information"):
        np.testing.assert_allclose(two["curve"][name], one["curve"][name], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(two["history"].gap, one["history"].gap, rtol=0, atol=1e-6)


def test_a_run_is_gone_on_with_from_its_file(lazy, tmp_path):
    whole = lazy.self_train("probability", batch_size=4, rounds=4, **QUIET)
    bpls.save(lazy.self_train("probability", batch_size=4, rounds=2, **QUIET), tmp_path / "run.nc")
    with xr.open_datatree(tmp_path / "run.nc") as tree:
        longer = lazy.resume(tree.load(), rounds=2, **QUIET)
    assert longer["history"].candidate.values.tolist() == whole["history"].candidate.values.tolist()
    np.testing.assert_allclose(longer["curve"].log_evidence, whole["curve"].log_evidence, rtol=1e-12)


def test_a_run_predicts_what_the_run_in_memory_predicts(in_memory, lazy, data):
    X, group, _ = data
    new = {"X": X[-7:] + 0.5, "g": group[-7:]}
    runs = [pls.self_train("probability", batch_size=4, rounds=2, **QUIET) for pls in (in_memory, lazy)]
    for rows in (new, [3, N + 450, N + 2, *runs[1]["history"].candidate.values[:3]]):
        for by in ("mode", "gaussian"):
            one, two = (pls.predict_proba(rows, result=run, by=by) for pls, run in zip((in_memory, lazy), runs, strict=True))
            np.testing.assert_allclose(two, one, rtol=0, atol=1e-9)
            assert two.row.values.tolist() == one.row.values.tolist()
        assert (lazy.predict(rows, result=runs[1]) == in_memory.predict(rows, result=runs[0])).all()
    np.testing.assert_allclose(lazy.predict_proba([N + 5]), in_memory.predict_proba([N + 5]), rtol=0, atol=1e-12)
    one, two = (pls.labels(run) for pls, run in zip((in_memory, lazy), runs, strict=True))
    assert two.index.tolist() == [*range(N), *sorted(runs[1]["history"].candidate.values)]
    same = one.loc[two.index]
    assert two["class"].tolist() == same["class"].tolist() and two.origin.tolist() == same.origin.tolist()
    assert two["round"].fillna(0).tolist() == same["round"].fillna(0).tolist()
    np.testing.assert_allclose(two.probability, same.probability, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda pls: pls.score("ppp"), "Give top= for the best, or to="),
        (lambda pls: pls.score("ibpls", top=3), "refits the model for each row"),
        (lambda pls: pls.score("ppp", approximation="laplace", top=3), 'Use approximation="ep" or "vi"'),
        (lambda pls: pls.score("ppp", to="scores.txt"), "End its name with .zarr or .parquet"),
        (lambda pls: pls.score("ppp", to="scores.zarr", labels="all"), "Use it with top="),
        (lambda pls: pls.score("ppp", top=0), "top=0"),
        (lambda pls: pls.exact("ppp"), "all of its rows at once"),
        (lambda pls: pls.audit(), "all of its rows at once"),
        (lambda pls: pls.marginalize(approximation="nuts"), 'Use "laplace", which sums over'),
        (lambda pls: pls.self_train("probability", class_balance="labeled"), "class_balance="),
        (lambda pls: pls.self_train("ibpls"), "refits the model for each row"),
        (lambda pls: pls.self_train("probability", choose=True), "all of its rows at once"),
        (lambda pls: pls.accept(), "a random part of its rows"),
        (lambda pls: pls.sample(pls.self_train("probability", rounds=1, **QUIET)), "predict_proba takes the run"),
    ],
)
def test_what_needs_all_rows_at_once_is_refused(lazy, ask, says):
    with pytest.raises(bpls.CriterionError, match=re.escape(says)) as caught:
        ask(lazy)
    assert len(str(caught.value)) < 320


def test_pools_that_do_not_fit_the_model_are_refused(data, in_memory):
    X, group, y = data
    rows = da.from_array(X[N:], chunks=(200, Q))
    with pytest.raises(bpls.RowError, match='misses "g"'):
        bpls.BPLS(_model(*data), pool={"X": rows})
    with pytest.raises(bpls.RowError, match="same number of columns"):
        bpls.BPLS(_model(*data), pool={"X": rows[:, :2], "g": da.from_array(group[N:])})
    with pytest.raises(bpls.RowError, match="once only"):
        bpls.BPLS(_model(*data), pool=iter([{"X": X[N:], "g": group[N:]}]))
    with pytest.raises(bpls.CriterionError, match="are for lazy pools"):
        in_memory.score("probability", top=3)
    with ThreadPoolExecutor(1) as executor, pytest.raises(bpls.CriterionError, match="scored by one fit"):
        in_memory.score("probability", executor=executor)
    with pytest.raises(bpls.CriterionError, match="lazy"):
        bpls.ModelSet({"one": _model(*data), "two": _model(*data)}, pool={"X": rows, "g": da.from_array(group[N:])})
    with pm.Model() as centred:
        x = pm.Data("X", X[:N])
        pm.Bernoulli("label", logit_p=(x - x.mean(axis=0)) @ pm.Normal("b", 0, 1, shape=Q), observed=y[:N])
    with pytest.raises(bpls.RowError, match="other rows too"):
        bpls.BPLS(centred, pool={"X": rows}).score("probability", top=1, **QUIET)
    with pm.Model() as without_data:
        pm.Bernoulli("label", logit_p=X[:N] @ pm.Normal("b", 0, 1, shape=Q), observed=y[:N])
    with pytest.raises(bpls.RowError):
        bpls.BPLS(without_data, pool={"X": rows})


@pytest.mark.slow
def test_labels_are_integrated_out_as_in_memory(data):
    X, _, y = data
    X = X[: N + 250] + 1.2 * (2 * y[: N + 250, None] - 1)
    with pm.Model() as model:
        mean, label = pm.Normal("mean", 0, 2, shape=(2, Q)), pm.Bernoulli("label", 0.4, observed=y[:N])
        pm.Normal("features", mean[label], 1.0, observed=pm.Data("X", X[:N]))
    pools = {"X": X[N:]}, {"X": da.from_array(X[N:], chunks=((0, 90, 160), Q))}
    held, lazy = (bpls.BPLS(model, target="label", pool=pool) for pool in pools)
    one, two = held.information(), lazy.information(executor=Elsewhere())
    assert two.verdict == one.verdict and two.nats == pytest.approx(one.nats, rel=1e-9)  # sums in another order
    how = {"weight": 0.7, "draws": 100, "test": ({"X": X[:20]}, y[:20]), **QUIET}
    one, two = held.marginalize(**how), lazy.marginalize(executor=Elsewhere(), **how)
    assert two.attrs["verdict"] == one.attrs["verdict"] and two.attrs["n_pool"] == 250
    for name in ("unconstrained", "modes", "unconstrained_posterior"):
        xr.testing.assert_allclose(two[name].to_dataset(), one[name].to_dataset(), rtol=1e-9, atol=1e-9)
    assert "Labels of 250 rows integrated out by laplace (weight 0.7)" in str(bpls.summary(two))
    assert two.attrs["log_z"] == pytest.approx(one.attrs["log_z"], rel=1e-12)
    for rows in ({"X": X[-5:]}, [3, N + 7, N + 200]):
        p = [pls.predict_proba(rows, result=result) for pls, result in ((held, one), (lazy, two))]
        np.testing.assert_allclose(p[1], p[0], rtol=0, atol=1e-9)


def test_a_model_of_labels_given_features_learns_nothing_from_a_lazy_pool(lazy, in_memory):
    assert lazy.information().verdict == in_memory.information().verdict
    assert not lazy.information().informative


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:k-hat of the constant")
def test_a_hierarchy_that_ep_takes_by_a_mixture_is_scored_by_vi(data):
    X, group, y = data
    with pm.Model() as hierarchy:
        x, g = pm.Data("X", X[:N]), pm.Data("g", group[:N].astype("int32"))
        effect = pm.HalfNormal("scale", 1) * pm.Normal("z", 0, 1, shape=3)
        pm.Bernoulli("label", logit_p=x @ pm.Normal("b", 0, 1, shape=Q) + effect[g], observed=y[:N])
    pls = bpls.BPLS(hierarchy, pool={"X": da.from_array(X[N:], chunks=(200, Q)), "g": da.from_array(group[N:], chunks=200)})
    with pytest.raises(bpls.ApproximationError, match='Use approximation="vi"'):
        pls.score("ppp", approximation="ep", top=5, **QUIET)
    with pytest.warns(bpls.BPLSWarning, match='by "vi" in place of "ep"'):
        found = pls.score("ppp", top=5, other_modes=False, **QUIET)
    scores = bpls.BPLS(hierarchy, pool={"X": X[N:], "g": group[N:]}).score(
        "ppp", approximation="vi", other_modes=False, **QUIET
    )
    _same(found, scores, 5)


class Cubed(Op):
    """x³ of data, by NumPy even under JAX, which therefore cannot export it."""

    __props__ = ()

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0] ** 3


@jax_funcify.register(Cubed)
def _cubed_by_numpy(op, **_):
    def cubed(x):
        like = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.pure_callback(lambda values: np.asarray(values) ** 3, like, x, vmap_method="expand_dims")

    return cubed


def test_what_jax_cannot_export_goes_to_workers_as_the_models_own_functions(data):
    X, _, y = data
    with pm.Model() as model:
        cubes = Cubed()(pt.as_tensor(pm.Data("X", X[:N])))
        pm.Bernoulli("label", logit_p=cubes @ pm.Normal("b", 0, 1, shape=Q), observed=y[:N])
    lazy, executor = bpls.BPLS(model, pool={"X": da.from_array(X[N : N + 200], chunks=(90, Q))}), Elsewhere()
    found = lazy.score("ppp", top=30, executor=executor, other_modes=False, **QUIET)
    assert len(executor.sizes) == 3
    assert all(code.structure is not None and not code.kernels for code in lazy._lazy.codes.values())
    scores = bpls.BPLS(model, pool={"X": X[N : N + 200]}).score("ppp", other_modes=False, **QUIET)
    _same(found, scores, 30)


def test_replies_are_small(lazy):
    replies = []
    original = scoring.over_parts

    def kept(*arguments):
        for reply in original(*arguments):
            replies.append(len(pickle.dumps(reply)))
            yield reply

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scoring, "over_parts", kept)
        lazy.score("probability", top=10, **QUIET)
    assert max(replies) < 4096
