"""The user's index of the rows: as coordinates of every result, back from them, and as a way to name rows.

A coordinate has the index's own name, one for each level of a MultiIndex. A name that a file cannot hold is changed as
`safe_name` does; one that results use themselves has `index_` before it (`index_score`), so that no variable of a result can be
taken for an index. Without a name it is `index`, a level without one `level_0`, `level_1`, …
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from pandas.api.types import infer_dtype

from pymc_bpls.errors import RowError
from pymc_bpls.model.data.missing import none_where_masked
from pymc_bpls.model.data.storing import Stored, free_name, note_of, restore, safe_name, store, with_note
from pymc_bpls.text.literals import read, write

_MANY = 5
_NAMELESS = "index"
_DIMS = {
    "batch",
    "candidate",
    "chain",
    "class",
    "compilation",
    "criterion",
    "diagnostic",
    "draw",
    "expansion",
    "k",
    "label",
    "member",
    "n_pseudo",
    "parameter",
    "parameter_bis",
    "row",
    "site",
    "step",
}
#: Names that results use themselves.
RESERVED = frozenset(
    _DIMS
    | {
        "approximate",
        "approximation",
        "centred",
        "centred_mcse",
        "class_sum_error",
        "converged",
        "decided_by",
        "deviation",
        "diff_to_best",
        "diff_to_best_mcse",
        "error",
        "error_mcse",
        "ess",
        "flags",
        "gamma_maximin",
        "log_det",
        "log_evidence",
        "log_evidence_member",
        "log_lik_labeled",
        "log_lik_pseudo",
        "log_ppp",
        "log_ppp_member",
        "log_predictive",
        "log_predictive_mcse",
        "log_prior",
        "mcse",
        "pareto_k",
        "prob_best",
        "origin",
        "probability",
        "probability_sd",
        "pseudo_label",
        "score",
        "theta",
        "value",
        "accuracy",
        "gap",
        "held_out_log_score",
        "invented_information",
        "log_score",
        "lost",
        "n_labeled",
        "right_after",
        "right_before",
        "round",
        "weight",
        "won",
    }
)
_ROWS = ("candidate", "step", "row")


@dataclass(frozen=True)
class RowNames:
    """An index of rows, ready to be part of results."""

    index: pd.Index

    @cached_property
    def levels(self) -> dict[str, Stored]:
        """Each level by the name of its coordinate."""
        index, several = self.index, isinstance(self.index, pd.MultiIndex)
        levels: dict[str, Stored] = {}
        for number, own in enumerate(index.names):
            values, note = store(index.get_level_values(number) if several else index)
            name = free_name(_coordinate(own, f"level_{number}" if several else _NAMELESS), levels)
            if several:
                note = {**note, "name": write(own), "level": number}
            elif own != (None if name == _NAMELESS else name):
                note = {**note, "name": write(own)}
            levels[name] = Stored(values, note)
        return levels

    def coords(self, dim: str, rows: np.ndarray | None = None) -> dict[str, Any]:
        """Coordinates over `dim`, of all rows or of those at some positions."""
        return {
            name: (dim, values if rows is None else values[rows], with_note(note))
            for name, (values, note) in self.levels.items()
        }


def _coordinate(own: Any, nameless: str) -> str:
    """The name of a coordinate for the own name of an index or of a level."""
    name = nameless if own is None else safe_name(own, blanks=False)
    return f"index_{name}" if name in RESERVED else name


def read_index(result: xr.Dataset | xr.DataArray | xr.DataTree) -> pd.Index:
    """The index of a result's rows as it was given to `BPLS`, from a result in memory or in a file.

    Parameters
    ----------
    result : Dataset, DataArray or a group of a DataTree
        Over `candidate`, `step` or `row`, as a whole or some of its rows: scores, class probabilities, `exact(...)["exact"]`,
        `run["history"]`, `run["labeled"]`, `run["test"]`, `audit.candidates`.

    Returns
    -------
    pandas.Index
        Of the kind, the dtype and the name that were given, with an entry for each row of the result; row positions where the
        result has no index. Objects of types unknown to this package are the text that they show.

    Raises
    ------
    RowError
        The result is not over rows.

    Examples
    --------
    >>> import numpy as np, pandas as pd, pymc as pm, pymc_bpls as bpls
    >>> months = pd.period_range("2020-01", periods=6, freq="M", name="score")
    >>> with pm.Model() as model:
    ...     slope = pm.Normal("slope", 0, 1)
    ...     label = pm.Bernoulli("label", logit_p=slope * np.arange(-2.0, 4.0), observed=[0, 0, 1, 1, -1, -1])
    >>> scores = bpls.BPLS(model, index=months).score("probability")
    >>> scores["index_score"].values.tolist()
    ['2020-05', '2020-06']
    >>> bpls.read_index(scores)
    PeriodIndex(['2020-05', '2020-06'], dtype='period[M]', name='score')
    """
    if not isinstance(result, xr.Dataset | xr.DataArray | xr.DataTree):
        raise RowError(f'A {type(result).__name__} is no result. Give scores, or a group such as run["history"].')
    held = result.to_dataset() if isinstance(result, xr.DataTree) else result
    dim = next((dim for dim in _ROWS if dim in held.dims), None)
    if dim is None:
        raise RowError(
            f'A result over {list(held.dims) or "nothing"} has no rows. Give scores, or a group such as run["history"].'
        )
    notes = {
        str(name): note_of(coord.attrs) for name, coord in held.coords.items() if coord.dims == (dim,) and name not in RESERVED
    }
    levels = {name: restore(held[name].to_numpy(), note) for name, note in notes.items()}
    own = {name: read(note["name"]) if "name" in note else None if name == _NAMELESS else name for name, note in notes.items()}
    if not levels:
        return held.get_index(dim).rename(None)
    ordered = sorted((note["level"], name) for name, note in notes.items() if "level" in note)
    if ordered:
        return pd.MultiIndex.from_arrays([levels[name] for _, name in ordered], names=[own[name] for _, name in ordered])
    name = next(iter(levels))
    return levels[name].rename(own[name])


def as_index(values: Any, what: str) -> pd.Index:
    """What a user gives as an index: pandas' own as it is, anything with one entry a row as pandas reads it.

    Raises
    ------
    RowError
        It is no list of names.
    """
    if isinstance(values, pd.Index):
        return values
    try:
        held = values if isinstance(values, list | pd.Series | pd.api.extensions.ExtensionArray) else _listed(values)
        alike = isinstance(held, list) and len({len(each) if isinstance(each, tuple) else None for each in held}) == 1
        index = pd.Index(held, tupleize_cols=alike)
        hash(tuple(index))
        return index
    except (TypeError, ValueError):
        shape = np.shape(values) if hasattr(values, "shape") else type(values).__name__
        raise RowError(f"{what} is no index ({shape}). Give a pandas Index, or an array with one entry a row.") from None


def _listed(values: Any) -> Any:
    if isinstance(values, str | bytes | dict | pd.DataFrame | Iterator):  # an iterator would be read once, and be empty then
        raise TypeError
    array = values if hasattr(values, "dtype") or hasattr(values, "__array__") else list(values)
    return array if isinstance(array, list) else np.asarray(none_where_masked(array))


def find_rows(rows: Any, index: pd.Index | None, n: int, what: str) -> np.ndarray:
    """Positions of the rows that a user names, in the user's order: by position, by a mask, or by names of their index.

    Whole numbers are positions, unless they come as a pandas Index, which always holds names. `index` is None where the rows
    have no names but their positions.

    Raises
    ------
    RowError
        Nothing names rows so, or a row is named twice.
    """
    named = isinstance(rows, pd.Index)
    _refuse_features(rows, what)
    held = _as_array(rows, what)
    if held.dtype.kind == "b":
        if len(held) != n:
            raise RowError(f"{what} is a mask of {len(held)} rows and the table has {n}. Give one entry a row.")
        check_order(rows, index, what)
        return np.flatnonzero(held)
    if held.dtype.kind not in "iu" or (named and len(held)):
        held = _find_names(rows if named else held, index, what)
    check_positions(held, n, what)
    return held


def _refuse_features(rows: Any, what: str) -> None:
    """Values of new rows, in place of what names rows."""
    listed = isinstance(rows, list) and bool(rows) and all(isinstance(each, list | np.ndarray) for each in rows)
    if listed or getattr(rows, "ndim", 1) > 1:
        raise RowError(
            f"{what} holds values of shape {np.shape(rows)}, which name no rows. Give row positions, a mask or names of the "
            'index; new rows are a mapping from the names of the model\'s pm.Data to their values, as {"X": frame[columns]}.'
        )


def check_order(values: Any, names: pd.Index | None, what: str) -> None:
    """Refuse a Series whose index names other rows, or in another order, than those that its values are taken for.

    An index of positions names nothing.
    """
    if names is None or not isinstance(values, pd.Series) or isinstance(values.index, pd.RangeIndex):
        return
    if len(values) == len(names) and not values.index.equals(names):
        raise RowError(
            f"{what} is a Series whose index is not that of its rows in their order (the first: {values.index[0]!r} and "
            f"{names[0]!r}). Sort it by .reindex(), or give .to_numpy()."
        )


def is_list_of_rows(rows: Any) -> bool:
    """Whether it names rows one by one, which a mask and a single value do not."""
    return not is_one_value(rows) and _as_array(rows, "unlabeled=").dtype.kind != "b"


def is_one_value(value: Any) -> bool:
    """Whether it is no list."""
    return pd.api.types.is_scalar(value) or (hasattr(value, "ndim") and value.ndim == 0)


def _as_array(rows: Any, what: str) -> np.ndarray:
    """Whole numbers and masks in a dtype of NumPy, names as objects."""
    if is_one_value(rows) or isinstance(rows, dict):
        raise RowError(f"{what} is {rows!r}, which is no list of rows. Give positions, a mask, or names of the index.")
    index = as_index(rows, what)
    if not len(index) and index.dtype.kind != "b":
        return np.empty(0, dtype=np.int64)
    if isinstance(index, pd.MultiIndex):
        return index.to_numpy()
    named = isinstance(rows, pd.Index)
    if index.hasnans and (index.dtype.kind == "b" or (not named and infer_dtype(index) in ("integer", "boolean"))):
        raise RowError(f"{what} has missing entries. Say of each row whether it is meant.")
    if index.dtype == object:
        index = index.infer_objects()
    kind = index.dtype.kind
    if kind in "biu" and not index.hasnans:
        return np.asarray(index, dtype=bool if kind == "b" else np.int64)
    return index.to_numpy() if isinstance(index.dtype, np.dtype) else index.astype(object).to_numpy()


def _find_names(names: Any, index: pd.Index | None, what: str) -> np.ndarray:
    wanted = as_index(names.tolist() if isinstance(names, np.ndarray) and names.dtype == object else names, what)
    if index is None or (wanted.dtype.kind == "f" and index.dtype.kind != "f" and index.dtype != object):
        how = "a pandas index" if isinstance(names, pd.Index) else f"type {wanted.dtype}"
        raise RowError(
            f"{what} names rows by {how}, and the table's rows have no such names. "
            "Give index= to BPLS, or integer row positions or a mask here."
        )
    once = ~index.duplicated(keep="first")
    places = _look_up(index[once], wanted)
    unknown = places < 0
    if unknown.any():
        raise RowError(
            f"{what} names {_shown(wanted[unknown])}, which the index of the table does not have. "
            "Use its names, a mask, or row positions."
        )
    positions = np.flatnonzero(once)[places]
    several = index.duplicated(keep=False)[positions]
    if several.any():
        raise RowError(
            f"{what} names {_shown(wanted[several])}, which more than one row is called. Use row positions or a mask."
        )
    return positions


def _look_up(index: pd.Index, wanted: pd.Index) -> np.ndarray:
    """Places in an index without duplicates, −1 where it has no such name: as the values are, else as its dtype reads them."""
    if isinstance(index, pd.MultiIndex):
        if (
            isinstance(wanted, pd.MultiIndex)
            and set(wanted.names) == set(index.names)
            and len(set(index.names)) == index.nlevels
        ):
            wanted = wanted.reorder_levels(list(index.names)) if index.nlevels > 1 else wanted
        return index.get_indexer(wanted)
    known = pd.Index(index.tolist(), dtype=object, tupleize_cols=False)
    places = known.get_indexer(pd.Index(wanted.tolist(), dtype=object, tupleize_cols=False))
    if (places >= 0).all() or index.dtype == object or wanted.dtype.kind in "iufb":
        return places
    try:
        as_read = wanted.astype(index.categories.dtype if isinstance(index, pd.CategoricalIndex) else index.dtype)
    except (TypeError, ValueError):
        return places
    return np.where(places >= 0, places, known.get_indexer(pd.Index(as_read.tolist(), dtype=object, tupleize_cols=False)))


def _shown(names: pd.Index) -> str:
    more = f" and {len(names) - _MANY} more" if len(names) > _MANY else ""
    return ", ".join(repr(name) if isinstance(name, str) else str(name) for name in names[:_MANY]) + more


def check_positions(positions: np.ndarray, n_rows: int, name: str) -> None:
    """Row positions must be distinct and inside the table."""
    outside = positions[(positions < 0) | (positions >= n_rows)]
    if outside.size:
        raise RowError(
            f"{name} names rows {outside[:_MANY].tolist()} and the table has {n_rows}. Give positions from 0 to {n_rows - 1}, "
            "or names as a pandas Index."
        )
    values, counts = np.unique(positions, return_counts=True)
    if (counts > 1).any():
        raise RowError(f"{name} names rows {values[counts > 1][:_MANY].tolist()} more than once. Name each row once.")
