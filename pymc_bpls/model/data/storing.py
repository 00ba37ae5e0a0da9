"""What a result holds can be written to a file from the start: values, names and attributes as netCDF has them.

netCDF knows numbers, texts and times. An index of another kind (periods, intervals, categories, times with a zone, mixed types)
is held as the texts or numbers that it shows, beside a note of what it takes to have it back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bpls.compute.files import write_whole
from pymc_bpls.errors import CriterionError
from pymc_bpls.text.literals import can_be_kept, kept, read, write

#: The attribute of a coordinate that holds the note, as JSON.
NOTE = "pandas"
_ENDINGS = ("", ".nc", ".nc4", ".netcdf", ".h5", ".hdf5")
#: What else writes a result, by the ending of other formats.
_OTHER_WAYS = {
    ".csv": "; for text take its frame, as scores.to_dataframe().to_csv(path)",
    ".zarr": "; xarray's to_zarr writes zarr",
}
_LATEST = 4.6e9  # seconds from 1970: times of 1824 to 2115, whose differences in nanoseconds a file can hold
_TRIED = (TypeError, ValueError, OverflowError, AttributeError, KeyError, IndexError, NotImplementedError)


class Stored(NamedTuple):
    """An index with one level as an array that a file can hold, and what `restore` needs beside it."""

    values: np.ndarray
    note: dict[str, Any]


def store(index: pd.Index) -> Stored:
    """An index with one level, of any kind, as a file can hold it; `restore` gives back what is equal to it.

    Objects of types that `literals` does not know become their text, and stay that.
    """
    for way in (_categories, _numbers, _times, _strings, _texts, _literals):
        try:
            stored = way(index)
            if stored is not None and _equal(restore(*stored), index):
                return Stored(stored.values, {} if _needs_no_note(stored.values, index) else stored.note)
        except _TRIED:
            continue
    return Stored(np.array([write(value) for value in index], dtype=str), {})


def restore(values: np.ndarray, note: Mapping[str, Any]) -> pd.Index:
    """The index that was stored, from its values, all or some of them and in any order, and its note."""
    if "categories" in note:
        levels = _as(note["of"], [read(text) for text in note["categories"]])
        return pd.CategoricalIndex(restore(values, note["values"]), categories=levels, ordered=note["ordered"])
    if "dtype" not in note:
        return pd.Index(values, tupleize_cols=False)
    dtype = note["dtype"]
    if note.get("as") == "texts":
        return _parsed(np.asarray(values, dtype=str), dtype)
    return _as(dtype, [read(text) for text in np.asarray(values, dtype=str).tolist()] if "as" in note else values)


def _as(dtype: str, values: Any) -> pd.Index:
    """Values as an index of a dtype, of the one that pandas infers where the name of the dtype says nothing to it."""
    if dtype.startswith("timedelta64"):
        values = np.asarray(values).astype(dtype)
    try:
        return pd.Index(values, dtype=dtype, tupleize_cols=False)
    except _TRIED:
        return pd.Index(values, tupleize_cols=False)


def _equal(one: pd.Index, other: pd.Index) -> bool:
    alike = str if isinstance(one.dtype, pd.DatetimeTZDtype) else lambda dtype: dtype  # two zones of one name are one zone
    return alike(one.dtype) == alike(other.dtype) and one.equals(other)


def _needs_no_note(values: np.ndarray, index: pd.Index) -> bool:
    """Whether what a file brings back is this index without a note; times come back in nanoseconds."""
    return (values.dtype.kind in "biufU" or values.dtype == "datetime64[ns]") and _equal(restore(values, {}), index)


def _numbers(index: pd.Index) -> Stored | None:
    values = index.to_numpy()
    if not isinstance(index.dtype, np.dtype) or index.dtype == object:
        kinds = {type(value) for value in index}
        if index.hasnans or len(kinds) != 1 or not issubclass(kinds.pop(), bool | int | float | np.bool_ | np.number):
            return None
        values = np.array(index.tolist())
    return Stored(values, {"dtype": str(index.dtype)}) if values.dtype.kind in "biuf" else None


def _times(index: pd.Index) -> Stored | None:
    if not isinstance(index.dtype, np.dtype) or index.dtype.kind not in "mM":
        return None
    times = index.to_numpy()
    if not fit_in_a_file(times):
        return Stored(times.astype(np.int64), {"dtype": str(index.dtype)}) if index.dtype.kind == "m" else None
    return Stored(times, {"dtype": str(index.dtype)})


def fit_in_a_file(times: np.ndarray) -> bool:
    """Whether a file can hold these times without loss."""
    seconds = times[~np.isnat(times)].astype(f"{times.dtype.kind}8[s]").astype(float)
    return bool((np.abs(seconds) < _LATEST).all())


def _strings(index: pd.Index) -> Stored | None:
    held = index.tolist()
    if not all(type(value) in (str, np.str_) and can_be_kept(value) for value in held):
        return None
    return Stored(np.array(held, dtype=str), {"dtype": str(index.dtype)})


def _categories(index: pd.Index) -> Stored | None:
    if not isinstance(index, pd.CategoricalIndex):
        return None
    levels = index.categories
    shown = pd.Index(index.tolist(), dtype=object if index.hasnans else levels.dtype, tupleize_cols=False)
    values, note = store(shown)
    texts = [write(value) for value in levels]
    return Stored(
        values,
        {"categories": texts, "of": str(levels.dtype), "ordered": bool(index.ordered), "values": note},
    )


def _texts(index: pd.Index) -> Stored | None:
    """As pandas shows the values where it can also read them."""
    if isinstance(index.dtype, np.dtype):
        if index.dtype.kind != "M":
            return None
        return Stored(np.datetime_as_string(index.to_numpy()), {"dtype": str(index.dtype), "as": "texts"})
    if not isinstance(index.dtype, pd.PeriodDtype | pd.IntervalDtype | pd.DatetimeTZDtype):
        return None
    return Stored(np.array([str(value) for value in index]), {"dtype": _name_of(index.dtype), "as": "texts"})


def _name_of(dtype: Any) -> str:
    """A dtype by a name that pandas knows; zones of dateutil go by their file."""
    zone = getattr(getattr(dtype, "tz", None), "_filename", None)
    return str(dtype) if zone is None else f"datetime64[{dtype.unit}, dateutil/{zone}]"


def _parsed(texts: np.ndarray, dtype: str) -> pd.Index:
    """What pandas shows as these texts."""
    kind = pd.api.types.pandas_dtype(dtype)
    if isinstance(kind, pd.DatetimeTZDtype):
        return pd.to_datetime(texts, utc=True, format="ISO8601").as_unit(kind.unit).tz_convert(kind.tz)
    if isinstance(kind, pd.IntervalDtype):
        ends = [text[1:-1].split(", ") if text != "nan" else (None, None) for text in texts.tolist()]
        left, right = ([end[side] for end in ends] for side in (0, 1))
        arrays: list[Any] = [_from_text(side, kind.subtype) for side in (left, right)]
        return pd.IntervalIndex.from_arrays(arrays[0], arrays[1], dtype=kind)
    if isinstance(kind, pd.PeriodDtype):
        return pd.PeriodIndex(texts, dtype=kind)
    return pd.Index(texts.astype(kind) if isinstance(kind, np.dtype) and kind.kind == "M" else texts, dtype=kind)


def _from_text(texts: Iterable[str | None], dtype: Any) -> pd.Index:
    """Ends of intervals."""
    held: Any = list(texts)
    if isinstance(dtype, pd.DatetimeTZDtype):
        return pd.to_datetime(held, utc=True, format="ISO8601").as_unit(dtype.unit).tz_convert(dtype.tz)
    if dtype.kind in "iuf":
        numbers = [float("nan") if text is None else read(text) for text in held]
        return pd.Index(numbers) if dtype.kind == "f" or None in held else pd.Index(numbers, dtype=dtype)
    return pd.Index(pd.to_datetime(held, format="ISO8601") if dtype.kind == "M" else pd.to_timedelta(held)).astype(dtype)


def _literals(index: pd.Index) -> Stored:
    return Stored(np.array([write(value) for value in index], dtype=str), {"dtype": str(index.dtype), "as": "literals"})


def note_of(attrs: Mapping[Any, Any]) -> dict[str, Any]:
    """The note that a coordinate's attributes hold, empty where there is none."""
    return json.loads(attrs[NOTE]) if NOTE in attrs else {}


def with_note(note: Mapping[str, Any]) -> dict[str, str]:
    """Attributes of a coordinate that hold a note, where there is one."""
    return {NOTE: json.dumps(note)} if note else {}


def safe_name(name: Any, *, blanks: bool = True) -> str:
    """A name under which a file can hold a variable: `_` for a slash and for what is no text, and for blanks where they may not
    be, as in the name of a coordinate. The parts of a tuple are joined by `_`.

    Examples
    --------
    >>> from pymc_bpls.model.data.storing import safe_name
    >>> safe_name("site/row"), safe_name(("a", 1)), safe_name("first name", blanks=False)
    ('site_row', 'a_1', 'first_name')
    """
    text = "_".join(map(str, name)) if isinstance(name, tuple) else str(name)
    text = re.sub("[/\0\ud800-\udfff]" if blanks else "[/\0\ud800-\udfff\\s]", "_", text)
    return text if text.strip(".") else "_" * max(1, len(text))


def free_name(name: str, taken: Iterable[str]) -> str:
    """The name, with a number where it is taken."""
    held, number, free = set(taken), 2, name
    while free in held:
        free, number = f"{name}_{number}", number + 1
    return free


def storable(dataset: xr.Dataset) -> xr.Dataset:
    """The Dataset with names, values and attributes that a file can hold; what it can hold already is as it was."""
    names: dict[Any, str] = {}
    for name in (*dataset.dims, *dataset.variables):
        blanks = name not in dataset.coords or name in dataset.dims
        if name not in names and name != (safe := safe_name(name, blanks=blanks)):
            names[name] = free_name(safe, {*map(str, dataset.variables), *map(str, dataset.dims), *names.values()})
    dataset = dataset.rename(names) if names else dataset
    changed = {name: _storable(variable) for name, variable in dataset.variables.items() if not _is_storable(variable)}
    coords = {name: variable for name, variable in changed.items() if name in dataset.coords}
    if coords:
        dataset = dataset.drop_vars(list(coords)).assign_coords(coords)
    dataset = dataset.assign({name: variable for name, variable in changed.items() if name not in coords})
    return dataset.assign_attrs({str(name): _attribute(value) for name, value in dataset.attrs.items()})


def _is_storable(variable: xr.Variable) -> bool:
    kind = getattr(variable.dtype, "kind", "O")
    if not isinstance(variable.dtype, np.dtype) or kind not in "biufUmM":
        return False
    if kind == "U":
        return all(map(can_be_kept, variable.to_numpy().ravel().tolist()))
    return kind not in "mM" or fit_in_a_file(variable.to_numpy())


def _storable(variable: xr.Variable) -> xr.Variable:
    values = variable.to_numpy()
    held, note = store(pd.Index(values.ravel(), tupleize_cols=False))
    return xr.Variable(variable.dims, held.reshape(values.shape), {**variable.attrs, **with_note(note)})


def _attribute(value: Any) -> Any:
    """An attribute as a file can hold it."""
    if isinstance(value, bool | np.bool_):
        return int(value)
    if isinstance(value, str):
        return kept(value)
    if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        return [kept(each) for each in value]
    if isinstance(value, int | float | np.number) or (isinstance(value, list | tuple | np.ndarray) and _are_numbers(value)):
        return value
    return write(value)


def _are_numbers(values: Any) -> bool:
    try:
        return np.asarray(values).dtype.kind in "iuf"
    except ValueError:
        return False


def save(result: xr.Dataset | xr.DataArray | xr.DataTree, path: str | Path) -> None:
    """Write a result to a netCDF file, the whole of it or nothing.

    `to_netcdf` empties an older file of the name before it writes, and HDF5 may end the process where the disk is full. This
    makes the file in memory, writes it beside the older one, and puts it in its place once the disk has it.

    Parameters
    ----------
    result : DataTree, Dataset or DataArray
        A run, exact values, scores, class probabilities. Attributes that a file cannot hold are written as text.
    path : str or Path
        The format is netCDF 4, whatever the ending: .nc, .nc4, .netcdf, .h5, .hdf5, or none. Others are refused.

    Raises
    ------
    CriterionError
        It is none of these; what it holds and could be saved is named. Or the ending is that of another format.
    OSError
        The file cannot be written: the disk is full, the folder is missing or read-only, or `path` names a folder. `errno`
        says which. The result is still in memory, and an older file is as it was.

    Examples
    --------
    >>> import tempfile, pathlib, xarray as xr, pymc_bpls as bpls
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "scores.nc"
    >>> bpls.save(xr.Dataset({"score": ("candidate", [0.25])}, attrs={"note": None}), path)
    >>> xr.load_dataset(path).attrs
    {'note': 'None'}
    """
    if not isinstance(result, xr.DataTree | xr.Dataset | xr.DataArray):
        raise CriterionError(_say_parts(result))
    if not isinstance(path, str | Path):
        raise CriterionError(f"path= must be a text or a Path; got a {type(path).__name__}. Name the file to write.")
    ending = Path(path).suffix.lower()
    if ending not in _ENDINGS:
        raise CriterionError(
            f'save writes netCDF, and "{path}" ends in "{ending}". Use one of {", ".join(_ENDINGS[1:])}, or none'
            f"{_OTHER_WAYS.get(ending, '')}."
        )
    if isinstance(result, xr.DataTree):
        result = as_tree({node.path: node.to_dataset(inherit=False) for node in result.subtree})
    elif isinstance(result, xr.Dataset):
        result = storable(result)
    with result.to_netcdf(engine="h5netcdf") as data:
        write_whole(path, data)


def _say_parts(result: Any) -> str:
    """What an object that is no table of xarray holds, and how to keep that."""
    held = getattr(result, "__dict__", {})
    tables = [f".{name}" for name, value in held.items() if isinstance(value, xr.DataTree | xr.Dataset | xr.DataArray)]
    frames = [f".{name}" for name, value in held.items() if isinstance(value, pd.DataFrame)]
    texts = [f".{name}" for name, value in held.items() if isinstance(value, str) and " " in value]
    ways = (("by save", tables), ("by to_csv", frames), ("as text", texts))
    parts = "; ".join(f"{', '.join(names)} {way}" for way, names in ways if names)
    cure = f"Keep its parts: {parts}." if parts else "Give a run, scores, exact values or class probabilities."
    return f"A {type(result).__name__} is no table of xarray, which is what save writes. {cure}"


def as_tree(groups: Mapping[str, xr.Dataset]) -> xr.DataTree:
    """A result of several groups, each as a file can hold it."""
    return xr.DataTree.from_dict({name: storable(dataset) for name, dataset in groups.items()})
