"""The table: which rows are labeled, which are candidates, and how a pool is appended to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

from pymc_bpls.errors import LabelError, RowError
from pymc_bpls.model.data.index import RowNames, as_index, find_rows, is_list_of_rows, is_one_value
from pymc_bpls.model.data.labels import UNLABELED
from pymc_bpls.model.data.missing import as_numbers, not_numbers
from pymc_bpls.model.data.named_axes import NamedAxes
from pymc_bpls.model.data.row_words import RowWords

_SHOWN = 5
_FEWEST_PADDED = 64
#: What to do where no row is a candidate.
HOW_TO_MARK = "Mark unlabeled rows with -1 among whole numbers (as a boolean it is True), or give pool=."
#: The dim of rows in a PyMC model that Bambi built.
ROWS_OF_BAMBI = "__obs__"
_OF_BAMBI = 'Predict them by Bambi: model.predict(pls.sample(), kind="response_params", data=rows).'
#: What to do about data of no numbers.
AS_NUMBERS = (
    "Convert its columns to numbers: texts by pd.Categorical(values, categories=levels).codes, with the levels in the order of "
    "the model's."
)


@dataclass(frozen=True)
class Table:
    """All rows: `codes` (N,) with −1 where not labeled, `candidates` (m,) positions that may get a pseudo-label.

    `names` is the user's index, or the rows' positions where they have no names (`named` is False).
    """

    codes: np.ndarray
    candidates: np.ndarray
    names: RowNames
    named: bool = True

    @property
    def index(self) -> pd.Index:
        """The user's index of the rows."""
        return self.names.index

    @property
    def labeled(self) -> np.ndarray:
        """Positions of the labeled rows."""
        return np.flatnonzero(self.codes >= 0)

    @property
    def used(self) -> np.ndarray:
        """Positions of labeled rows and candidates: the rows that must be finite."""
        return np.union1d(self.labeled, self.candidates)

    def without(self, positions: np.ndarray) -> Table:
        """The same table, in which `positions` are no candidates."""
        return replace(self, candidates=np.setdiff1d(self.candidates, positions))


@dataclass(frozen=True)
class Labeled:
    """Rows of D with their classes and real weights: labeled rows weigh 1, pseudo-labeled rows what the user says."""

    positions: np.ndarray
    codes: np.ndarray
    weights: np.ndarray

    def __len__(self) -> int:
        return len(self.positions)

    def with_rows(self, positions: np.ndarray, codes: np.ndarray, weight: float) -> Labeled:
        """D with pseudo-labeled rows added."""
        return Labeled(
            np.r_[self.positions, positions],
            np.r_[self.codes, codes],
            np.r_[self.weights, np.full(len(positions), weight)],
        )

    def first(self, n: int) -> Labeled:
        """The first n rows of D."""
        return Labeled(self.positions[:n], self.codes[:n], self.weights[:n])

    def without(self, positions: np.ndarray) -> Labeled:
        """D without some of its rows."""
        kept = ~np.isin(self.positions, positions)
        return Labeled(self.positions[kept], self.codes[kept], self.weights[kept])

    def padded(self) -> Labeled:
        """D with its first row repeated at weight 0 up to a power of two, at least 64, so that shapes change rarely.

        The padding repeats a row that is in D: zero times a finite number is zero, which 0·∞ is not.
        """
        extra = max(_FEWEST_PADDED, 1 << (len(self) - 1).bit_length()) - len(self)
        return self.with_rows(np.repeat(self.positions[:1], extra), np.repeat(self.codes[:1], extra), 0.0)


@dataclass(frozen=True)
class Unlabeled:
    """Rows whose labels are integrated out, with real weights λ: they add Σ_u λ_u log Σ_y exp ℓ_u(y; θ) to a log-density."""

    positions: np.ndarray
    weights: np.ndarray

    def __len__(self) -> int:
        return len(self.positions)


@dataclass(frozen=True)
class Pool:
    """Rows appended to a model's data containers: `givens` holds each container with them, `size` is their number."""

    givens: dict[Variable, np.ndarray]
    size: int
    index: pd.Index | None


NO_POOL = Pool({}, 0, None)


def containers(model: pm.Model) -> dict[str, SharedVariable]:
    """The model's `pm.Data` containers by name."""
    return {variable.name: variable for variable in model.data_vars if isinstance(variable, SharedVariable)}


def by_container(rows: Any, model: pm.Model, called: str) -> Any:
    """A DataFrame with a column for data containers as a mapping from their names; anything else as it is.

    Raises
    ------
    RowError
        They are new rows of a model that Bambi built, whose formula makes its data.
    """
    if not isinstance(rows, pd.DataFrame | Mapping) or set(rows) & set(containers(model)):
        return {name: rows[name] for name in rows} if isinstance(rows, pd.DataFrame) else rows
    if ROWS_OF_BAMBI in model.coords:
        cure = _OF_BAMBI if called == "rows" else "Put these rows into the frame of the model, and name them there."
        raise RowError(f"{called}= holds new rows, and the data of this model is what Bambi makes of a frame. {cure}")
    return rows


def refuse_no_pool(pool: Any, model: pm.Model) -> None:
    """Refuse what is no mapping, as a DataFrame none of whose columns is a data container.

    Raises
    ------
    RowError
    """
    if pool is None or isinstance(pool, Mapping):
        return
    names = _quoted(list(containers(model))) or "none"
    what = "DataFrame without a column for" if isinstance(pool, pd.DataFrame) else f"{type(pool).__name__} without the names of"
    raise RowError(
        f"pool= is a {what} the model's data containers ({names}). "
        'Give columns of their names, or a mapping as {"X": frame[columns]}.'
    )


def read_pool(
    model: pm.Model, pool: Mapping[str, Any] | None, label: Variable, used_by: Variable, n: int, called: str = "pool"
) -> Pool:
    """The containers of `model` with the rows of `pool` appended, which messages call `called`.

    `used_by` is the likelihood: each of its containers with a value for each of the `n` declared rows must be in `pool`.
    """
    if pool is None:
        return NO_POOL
    held = containers(model)
    check_pool_names(model, list(pool), label, used_by, n, called)
    arrays = {name: _as_rows(model, name, rows, held[name], called) for name, rows in pool.items()}
    frames = [rows for rows in pool.values() if isinstance(rows, pd.DataFrame | pd.Series)]
    sizes = {name: len(array) for name, array in arrays.items()}
    if len(set(sizes.values())) > 1:
        raise RowError(f"The containers in {called}= have different numbers of rows: {sizes}. Give each the same rows.")
    size = next(iter(sizes.values()), 0)
    givens: dict[Variable, np.ndarray] = {
        held[name]: np.concatenate([held[name].get_value(), array.astype(held[name].type.dtype)])
        for name, array in arrays.items()
    }
    for name in pool:
        dim = (model.named_vars_to_dims.get(name) or (None,))[0]
        if dim is not None:
            givens[model.dim_lengths[dim]] = np.asarray(n + size)
    return Pool(givens, size, frames[-1].index if frames else None)


def row_containers(model: pm.Model, label: Variable, used_by: Variable, n: int) -> dict[str, SharedVariable]:
    """The data containers below the likelihood `used_by` that have a value for each of the `n` declared rows."""
    below = set(ancestors([used_by]))
    return {
        name: data
        for name, data in containers(model).items()
        if data in below and data is not label and data.ndim and len(data.get_value(borrow=True)) == n
    }


def check_pool_names(
    model: pm.Model, names: list[str], label: Variable, used_by: Variable, n: int, called: str = "pool"
) -> None:
    """Refuse a pool that names what is no container of the likelihood, or lacks one with a value for each declared row."""
    held, below = containers(model), set(ancestors([used_by]))
    in_use = {name: data for name, data in held.items() if data in below and data is not label}
    _check_names(names, held, in_use, called)
    missing = [name for name in row_containers(model, label, used_by, n) if name not in names]
    if missing:
        raise RowError(
            f"{called}= misses {_quoted(missing)}, which {'has' if len(missing) == 1 else 'have'} a value for each of the "
            f"{n} declared rows. Give the new rows' values too."
        )


def _check_names(pool: list[str], held: Mapping[str, Any], in_use: Mapping[str, Any], called: str) -> None:
    unknown = [name for name in pool if name not in held]
    if unknown:
        raise RowError(
            f"{called}= names {_quoted(unknown)}, and the model's data containers are {_quoted(list(held)) or 'none'}. "
            "Use these names; declare other row data with pm.Data, or put all rows into one table."
        )
    unused = [name for name in pool if name not in in_use]
    if unused:
        raise RowError(
            f"The likelihood does not use {_quoted(unused)}. Use the container in the model, or leave it out of {called}=."
        )


def _as_rows(model: pm.Model, name: str, rows: Any, data: SharedVariable, called: str) -> np.ndarray:
    shape = np.shape(data.get_value(borrow=True))
    axes = NamedAxes.of(model, name, len(shape))
    rows = axes.match(rows, called)
    try:
        array = as_numbers(rows)
    except ValueError:
        raise RowError(
            f'{called}["{name}"] has rows of different lengths, and "{name}" the shape {shape}. '
            "Give rows of the same number of columns."
        ) from None
    if array.ndim != len(shape) or array.shape[1:] != shape[1:]:
        raise RowError(
            f'{called}["{name}"] has shape {array.shape} and "{name}" {shape}. Give rows of the same number of columns.'
        )
    if array.dtype.kind not in "biuf":
        raise RowError(f'{called}["{name}"] holds values of type {_no_numbers(rows, array, axes.columns)}. {AS_NUMBERS}')
    whole = np.dtype(data.type.dtype).kind in "biu"
    if whole:
        what = f'{called}["{name}"]'
        check_finite({what: array}, {what: axes.columns}, np.arange(len(array)), RowWords(None, 0, 0))
    if whole and not np.array_equal(array, np.round(array)):
        raise RowError(
            f'{called}["{name}"] holds fractions and "{name}" whole numbers. Declare "{name}" with floats, or round.'
        )
    return array


def _no_numbers(rows: Any, array: np.ndarray, columns: Any) -> str:
    """The type of what is no number, and where it is; `columns` are the container's names of its columns, or None."""
    if isinstance(rows, pd.DataFrame):
        strange = [column for column in rows if not_numbers(rows[column].to_numpy(dtype=object)).any()]
        return f"{array.dtype} in columns {_quoted(strange[:_SHOWN])}"
    if array.dtype != object:
        return str(array.dtype)
    places = np.argwhere(not_numbers(array))
    text = f"{type(array[tuple(places[0])]).__name__} in rows {np.unique(places[:, 0])[:_SHOWN].tolist()}"
    if array.ndim != 2:
        return text
    return f"{text}, columns {_column_names(np.unique(places[:, 1]), columns)}"


def _column_names(numbers: np.ndarray, names: Any) -> list[Any]:
    """The first of some columns, by name where they have names."""
    return [int(number) if names is None else str(names[number]) for number in numbers[:_SHOWN]]


def _quoted(names: list[Any]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def candidate_mask(
    unlabeled: Any, observed: np.ndarray, pool_size: int, index: pd.Index | None = None
) -> tuple[np.ndarray, Any]:
    """Which of the n + m rows are candidates, and the value that marks a row as unlabeled.

    `unlabeled` is that value, a boolean mask, positions, or names of `index`; rows of a pool are always candidates.
    """
    n = len(observed)
    appended = np.ones(pool_size, dtype=bool)
    if is_one_value(unlabeled):
        mark = np.asarray(unlabeled)
        return np.r_[(observed.reshape(n, -1) == mark).all(axis=1), appended], mark[()]
    total = n if not is_list_of_rows(unlabeled) and len(unlabeled) == n else n + pool_size
    rows = find_rows(unlabeled, index, total, "unlabeled=")
    mask = np.zeros(n, dtype=bool)
    mask[rows[rows < n]] = True
    return np.r_[mask, appended], UNLABELED


def row_names(index: Any, pool: Pool, coords: tuple[str, Any] | None, n_rows: int, *, name: str) -> tuple[RowNames, bool]:
    """The user's index of the table, `index=`, else the pool's frame and the model's coords, which have the name of their dim,
    else 0 … N − 1; and whether there was one.
    """
    if index is not None:
        held = as_index(index, "index=")
        if len(held) != n_rows:
            raise RowError(f'index= has {len(held)} entries and "{name}" {n_rows} rows. Give one for each row.')
        return RowNames(held), True
    declared = n_rows - pool.size
    by_coords = coords is not None and len(coords[1]) in (declared, n_rows)
    first = _of_dim(*coords) if coords is not None and by_coords else pd.RangeIndex(declared)
    if len(first) == n_rows:
        return RowNames(first), by_coords
    second = pool.index if pool.index is not None else pd.RangeIndex(declared, n_rows, name=first.name)
    if second.nlevels != first.nlevels:
        first, second = (each.to_flat_index() for each in (first, second))
    return RowNames(first.append(second)), by_coords or pool.index is not None


def _of_dim(dim: str, coords: Any) -> pd.Index:
    held = as_index(list(coords), "coords")
    return held if held.nlevels > 1 else held.rename(dim)


def check_finite(data: Mapping[str, np.ndarray], columns: Mapping[str, Any], rows: np.ndarray, words: RowWords) -> None:
    """Labeled rows and candidates must be finite: names the data, rows and columns that are not."""
    for name, array in data.items():
        if array.dtype.kind != "f":
            continue
        bad = ~np.isfinite(array[rows])
        if bad.any():
            where = rows[bad.reshape(len(rows), -1).any(axis=1)]
            text = f"{name} is not finite in {words.some(where)}"
            if array.ndim == 2:
                names = columns.get(name)
                text += f", columns {_column_names(np.flatnonzero(bad.any(axis=0)), names)}"
            raise RowError(f"{text}. Impute these values, or leave the rows out.")


def check_classes(table: Table, class_names: np.ndarray, name: str) -> list[Any]:
    """Classes without a labeled row; no labeled row at all is an error."""
    if not len(table.labeled):
        raise LabelError(f'"{name}" has no labeled row. Give at least one label of each class.')
    present = set(table.codes[table.labeled].tolist())
    return [class_names[code] for code in range(len(class_names)) if code not in present]
