"""New rows are matched by name, whatever carries the names: a frame's columns, or dims and coordinates of an xarray array."""

import dask.array as da
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

import pymc_bpls as bpls
from pymc_bpls.lazy.row_graph import containers_of
from pymc_bpls.lazy.rows import read_rows

N, COLUMNS, QUIET = 20, ["a", "b"], {"progressbar": False}
rng = np.random.default_rng(0)
X = rng.normal(size=(N + 9, 2))
P, P_FRAME = X[N:], pd.DataFrame(X[N:], columns=COLUMNS)
Y = (X[:N, 0] + rng.logistic(size=N) > 0).astype(int)


def _model():
    with pm.Model(coords={"f": COLUMNS}) as model:
        x = pm.Data("X", X[:N], dims=("row", "f"))
        pm.Bernoulli("label", logit_p=x @ pm.Normal("b", [3, 0], 1, dims="f"), observed=Y, dims="row")
    return model


def _array(values, dims, columns=None):
    return xr.DataArray(values, dims=dims, coords={} if columns is None else {dims[dims.index("f")]: columns})


ARRAYS = {
    "other order": _array(P[:, ::-1], ("row", "f"), ["b", "a"]),
    "transposed": _array(P.T, ("f", "row"), COLUMNS),
    "transposed, without coordinates": _array(P.T, ("f", "row")),
    "rows of another name": _array(P[:, ::-1].T, ("f", "sample"), ["b", "a"]),
    "coordinates on a dim of another name": xr.DataArray(P[:, ::-1], dims=("x", "y"), coords={"y": ["b", "a"]}),
    "nothing named": xr.DataArray(P, dims=("x", "y")),
}


@pytest.fixture(scope="module")
def of_frame():
    pls = bpls.BPLS(_model(), pool={"X": P_FRAME[["b", "a"]]})
    return pls, pls.score("probability", **QUIET)


def test_an_xarray_pool_is_matched_as_a_frame_is(of_frame):
    found = bpls.BPLS(_model(), pool={"X": ARRAYS["other order"]}).score("probability", **QUIET)
    np.testing.assert_array_equal(found["score"], of_frame[1]["score"])


@pytest.mark.parametrize("rows", ARRAYS.values(), ids=list(ARRAYS))
def test_so_are_new_rows(of_frame, rows):
    pls, _ = of_frame
    np.testing.assert_array_equal(pls.predict_proba({"X": rows}), pls.predict_proba({"X": P_FRAME}))
    assert not np.allclose(pls.predict_proba({"X": P[:, ::-1]}), pls.predict_proba({"X": P_FRAME}))


def _read(pool):
    """All rows of a lazy pool, as workers read them."""
    lazy = bpls.BPLS(_model(), pool=pool)._lazy
    parts = lazy.partitions.parts(range(len(lazy.partitions.lengths)))
    return np.concatenate([read_rows(part, containers_of(lazy.problem))["X"] for part in parts])


def _stored(rows, folder):
    dataset = xr.Dataset({"X": rows})
    dataset.to_zarr(folder / "pool.zarr", zarr_format=2, consolidated=False, encoding={"X": {"chunks": (2, 2)}})
    return xr.open_zarr(folder / "pool.zarr", consolidated=False, chunks=None)


LAZY = {
    "chunks": lambda rows, _: {"X": rows.chunk(3)},
    "stored": _stored,
    "iterated": lambda rows, _: [{"X": rows.isel({dim: part for dim in rows.dims if rows.sizes[dim] == 9})} for part in PARTS],
}
PARTS = [slice(0, 4), slice(4, 9)]


@pytest.mark.parametrize("kind", LAZY)
@pytest.mark.parametrize("rows", [ARRAYS["other order"], ARRAYS["rows of another name"]], ids=["other order", "transposed"])
def test_so_are_partitions_of_a_lazy_pool(rows, kind, tmp_path):
    np.testing.assert_array_equal(_read(LAZY[kind](rows, tmp_path)), P)


def test_so_are_frames_that_come_one_by_one():
    np.testing.assert_array_equal(_read([{"X": P_FRAME[["b", "a"]].iloc[part]} for part in PARTS]), P)


def test_a_lazy_pool_is_scored_as_a_frame_is(of_frame):
    pool = {"X": ARRAYS["rows of another name"].chunk(3)}
    found = bpls.BPLS(_model(), pool=pool).score("probability", top=9, **QUIET)
    np.testing.assert_allclose(found.sortby("candidate")["score"], of_frame[1]["score"], rtol=1e-9)


def test_so_are_test_rows(of_frame):
    pls, truth = of_frame[0], (P[:, 0] > 0).astype(int)
    frame, array, by_place = (
        pls.self_train("probability", rounds=1, test=({"X": rows}, truth), **QUIET)["curve"]["log_score"]
        for rows in (P_FRAME, ARRAYS["rows of another name"], P[:, ::-1])
    )
    np.testing.assert_array_equal(array, frame)
    assert not np.allclose(by_place, frame)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (["a", "c"], 'lacks "b" and has unknown "c". Give the columns "a", "b".'),
        (["a", "a"], 'lacks "b" and repeats "a". Give the columns "a", "b".'),
        ([0, 1], 'lacks "a", "b" and has unknown "0", "1". Give the columns "a", "b".'),
    ],
)
@pytest.mark.parametrize("lazy", [False, True])
def test_other_coordinates_are_refused(columns, words, lazy):
    rows = _array(da.from_array(P, chunks=3) if lazy else P, ("row", "f"), columns)
    with pytest.raises(bpls.RowError) as error:
        bpls.BPLS(_model(), pool={"X": rows})
    assert str(error.value) == f'pool["X"] {words}'


def test_missing_columns_are_refused():
    with pytest.raises(bpls.RowError, match='lacks "b"'):
        bpls.BPLS(_model(), pool={"X": _array(P[:, :1], ("row", "f"), ["a"])})
    with pytest.raises(bpls.RowError, match=r"has shape \(9, 1\)"):
        bpls.BPLS(_model(), pool={"X": _array(P[:, :1], ("row", "f"))})
