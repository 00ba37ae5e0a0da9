"""What a lazy pool may be, and its partitions: Dask's arrays and frames, an xarray Dataset, or mappings that come one by one.

Nothing is read of it but shapes, and the lengths of parquet files from their own statistics.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr

from pymc_bpls.errors import RowError
from pymc_bpls.lazy.parts import GraphPart, HeldPart, Part
from pymc_bpls.lazy.rows import Container
from pymc_bpls.model.data.missing import as_numbers
from pymc_bpls.model.data.named_axes import NamedAxes
from pymc_bpls.model.data.table import AS_NUMBERS

_ROWS_AT_ONCE = 2**16


def is_lazy(pool: Any) -> bool:
    """Whether rows are to be read when they are needed; arrays in memory are none of that."""
    if pool is None or _is_frame_of_dask(pool):
        return pool is not None
    if isinstance(pool, Mapping):
        return any(map(_is_lazy_value, pool.values()))
    return not isinstance(pool, str | np.ndarray) and hasattr(pool, "__iter__")


def _is_lazy_value(value: Any) -> bool:
    if isinstance(value, xr.DataArray):
        return value.chunks is not None or not value.variable._in_memory
    return _is_dask(value)


def _is_dask(value: Any) -> bool:
    return hasattr(value, "__dask_graph__") and not isinstance(value, xr.DataArray)


def _is_frame_of_dask(value: Any) -> bool:
    return hasattr(value, "__dask_graph__") and hasattr(value, "map_partitions") and hasattr(value, "columns")


@dataclass(frozen=True)
class Partitions(ABC):
    """A pool of partitions with `lengths` (P,)."""

    lengths: tuple[int, ...]

    @cached_property
    def first(self) -> np.ndarray:
        """The number of the first row of each partition, and last the number of rows (P + 1,)."""
        return np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])

    @property
    def n_rows(self) -> int:
        """Of all partitions."""
        return int(self.first[-1])

    @abstractmethod
    def parts(self, numbers: Iterable[int]) -> Iterator[Part]:
        """Partitions by their numbers, which ascend."""

    def of_rows(self, rows: np.ndarray) -> dict[int, np.ndarray]:
        """Which of `rows` (ascending numbers of the pool's rows) each partition holds, by their place in it."""
        number = np.searchsorted(self.first, rows, side="right") - 1
        return {int(i): rows[number == i] - self.first[i] for i in np.unique(number)}


@dataclass(frozen=True)
class GraphPartitions(Partitions):
    """Those of Dask: the tasks of all partitions, of which each gets its own; `keys` by container and partition."""

    graph: Mapping[Any, Any]
    keys: Mapping[str, Sequence[Any]]
    columns: Mapping[str, Any]

    def parts(self, numbers: Iterable[int]) -> Iterator[Part]:
        """Each with what it depends on alone."""
        from dask.optimization import cull

        for number in numbers:
            keys = {name: of[number] for name, of in self.keys.items()}
            graph, _ = cull(dict(self.graph), list(keys.values()))
            yield GraphPart(number, int(self.first[number]), self.lengths[number], graph, keys, self.columns)


@dataclass(frozen=True)
class IteratedPartitions(Partitions):
    """Mappings that `source` gives whenever it is iterated over, of which these `containers` are taken."""

    source: Iterable[Mapping[str, Any]]
    containers: Sequence[Container]

    def parts(self, numbers: Iterable[int]) -> Iterator[Part]:
        """In one pass."""
        wanted, number = set(numbers), -1
        for number, rows in enumerate(self.source):
            if number >= len(self.lengths):
                raise RowError(
                    f"The pool has more than the {len(self.lengths)} partitions that it had. Give one that stays the same."
                )
            if number in wanted:
                held = {container.name: container.axes.match(rows[container.name]) for container in self.containers}
                yield HeldPart(number, int(self.first[number]), self.lengths[number], held)
        came = number + 1
        if came < len(self.lengths):
            raise RowError(
                f"The pool ended after {came} of its {len(self.lengths)} partitions, with {self.first[came]:,} of "
                f"{self.n_rows:,} rows. Give one that brings the same partitions each time."
            )


def read_partitions(pool: Any, containers: Sequence[Container]) -> Partitions:
    """The partitions of a pool, with these containers of each row.

    Raises
    ------
    RowError
        Its containers have other shapes, lengths or columns than the model's, or its lengths are not known.
    """
    if _is_frame_of_dask(pool):
        return _of_one_frame(pool, containers)
    if not isinstance(pool, Mapping):
        return _iterated(pool, containers)
    values = {container.name: pool[container.name] for container in containers}
    if any(_is_frame(value) for value in values.values()):
        return _of_frames(values, containers)
    return _of_arrays({container.name: _as_dask(values[container.name], container) for container in containers}, containers)


def names_in(pool: Any, containers: Sequence[Container]) -> list[str]:
    """The containers that a pool has rows for; of a frame, and of what is iterated over, all that the model wants."""
    return [str(name) for name in pool] if isinstance(pool, Mapping) else [container.name for container in containers]


def _is_frame(value: Any) -> bool:
    return _is_dask(value) and hasattr(value, "map_partitions") and not hasattr(value, "chunks")


def _of_one_frame(frame: Any, containers: Sequence[Container]) -> Partitions:
    """Of a frame the column of each container's name, or the columns that the model's coords name."""
    columns: dict[str, Any] = {}
    for container in containers:
        columns[container.name] = list(container.columns or ()) if container.shape else container.name
        names = columns[container.name] if container.shape else [container.name]
        missing = [name for name in names if name not in frame.columns]
        if missing or not names:
            raise RowError(
                f'The pool\'s frame has no columns for "{container.name}"{f", as {missing[:5]}" if missing else ""}. '
                "Name its columns in the model's coords, or give a mapping of frames by container."
            )
        _check_frame(frame[columns[container.name]], container)
    wanted = list(dict.fromkeys(each for of in columns.values() for each in ([of] if isinstance(of, str) else of)))
    graph, keys, lengths = _tasks(frame[wanted])
    return GraphPartitions(lengths, graph, {container.name: keys for container in containers}, columns)


def _iterated(pool: Iterable[Any], containers: Sequence[Container]) -> Partitions:
    if iter(pool) is pool:
        raise RowError("pool= can be iterated over once only. Give a list, or an object that starts anew each time.")
    lengths = getattr(pool, "lengths", None)
    if lengths is None:
        lengths = [len(containers[0].axes.match(rows[containers[0].name])) for rows in pool]
    return IteratedPartitions(tuple(int(length) for length in lengths), pool, containers)


def _as_dask(value: Any, container: Container) -> Any:
    """An array of Dask with the rows first."""
    import dask.array as da

    if isinstance(value, xr.DataArray):
        value = _in_chunks(value, container.axes)
    value = container.axes.match(value)
    if isinstance(value, xr.DataArray):
        value = value.data  # without the indexes, which would travel with every task
    if not _is_dask(value):
        value = da.from_array(as_numbers(value), chunks=(_ROWS_AT_ONCE, *container.shape))
    if value.shape[1:] != container.shape or value.ndim == 0:
        raise RowError(
            f'pool["{container.name}"] has shape {value.shape}, and a row of "{container.name}" {container.shape}. '
            "Give rows of the same number of columns."
        )
    if np.isnan(value.shape[0]):
        raise RowError(f'pool["{container.name}"] has rows whose number is not known. Call its compute_chunk_sizes() first.')
    if value.dtype.kind not in "biuf":
        raise RowError(f'pool["{container.name}"] holds values of type {value.dtype}. {AS_NUMBERS}')
    return value.rechunk({axis: -1 for axis in range(1, value.ndim)})


def _in_chunks(value: xr.DataArray, axes: NamedAxes) -> xr.DataArray:
    """Of rows, before they are matched: what is not read yet is read by chunks as they are stored."""
    if value.chunks is not None or not value.ndim:
        return value
    rows = axes.transpose(value).dims[0]
    variable = value.variable.chunk({rows: value.encoding.get("preferred_chunks", {}).get(rows, _ROWS_AT_ONCE)})
    return value.copy(data=variable.data)


def _of_arrays(arrays: Mapping[str, Any], containers: Sequence[Container]) -> Partitions:
    import dask

    lengths = {name: int(array.shape[0]) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise RowError(f"The pool's containers have different numbers of rows: {lengths}. Give each the same rows.")
    ends = sorted({int(end) for array in arrays.values() for end in np.cumsum(array.chunks[0])} | {0})
    chunks = tuple(after - before for before, after in pairwise(ends)) or (0,)
    empty_too = len(arrays) == 1
    made = {
        name: array if empty_too or array.chunks[0] == chunks else array.rechunk({0: chunks}) for name, array in arrays.items()
    }
    names = list(made)
    optimized = dask.optimize(*made.values())
    graph: dict[Any, Any] = {}
    for array in optimized:
        graph.update(dict(array.__dask_graph__()))
    keys = {name: _flat(array.__dask_keys__()) for name, array in zip(names, optimized, strict=True)}
    lengths_of_chunks = tuple(int(length) for length in next(iter(made.values())).chunks[0])
    return GraphPartitions(lengths_of_chunks, graph, keys, {})


def _flat(keys: Any) -> list[Any]:
    """Keys of an array by its rows alone."""
    return [_innermost(key) for key in keys]


def _innermost(key: Any) -> Any:
    return _innermost(key[0]) if isinstance(key, list) else key


def _of_frames(frames: Mapping[str, Any], containers: Sequence[Container]) -> Partitions:
    graph: dict[Any, Any] = {}
    keys: dict[str, Sequence[Any]] = {}
    all_lengths = set()
    for container in containers:
        frame = frames[container.name]
        if not _is_frame(frame):
            raise RowError(f'pool["{container.name}"] is no frame of Dask, and others are. Give all of one kind.')
        _check_frame(frame, container)
        if container.shape and container.columns is not None:
            frame = frame[list(container.columns)]
        own, keys[container.name], lengths = _tasks(frame)
        graph.update(own)
        all_lengths.add(lengths)
    if len(all_lengths) > 1:
        raise RowError("The pool's frames have different partitions. Take all containers from one frame.")
    return GraphPartitions(all_lengths.pop(), graph, keys, {})


def _tasks(frame: Any) -> tuple[dict[Any, Any], Sequence[Any], tuple[int, ...]]:
    """The tasks of a frame, the keys of its partitions as they were declared, and their lengths."""
    made = frame.expr.simplify().lower_completely()  # not optimized, which puts small partitions together
    return dict(made.__dask_graph__()), list(made.__dask_keys__()), _lengths(frame)


def _check_frame(frame: Any, container: Container) -> None:
    names = list(frame.columns) if hasattr(frame, "columns") and container.shape else [frame.name]
    wanted = [container.name] if not container.shape else list(container.columns or names)
    missing = [name for name in wanted if name not in names] if container.shape else []
    if missing or (container.shape and len(wanted) != container.shape[0]):
        raise RowError(f'pool["{container.name}"] has the columns {names[:5]}, and the model wants {wanted[:5]}. Give these.')
    types = frame.dtypes if container.shape else [frame.dtype]
    strange = [str(each) for each in types if not (getattr(each, "_is_numeric", False) or getattr(each, "kind", "O") in "biuf")]
    if strange:
        raise RowError(f'pool["{container.name}"] holds values of type {strange[0]}. {AS_NUMBERS}')


def _lengths(frame: Any) -> tuple[int, ...]:
    """Rows of each partition: of parquet files by their statistics, without reading them."""
    try:
        from dask.dataframe.dask_expr._collection import new_collection
        from dask.dataframe.dask_expr._expr import Lengths
    except ImportError:
        found = frame.map_partitions(len).compute(scheduler="synchronous")
    else:
        found = new_collection(Lengths(frame.expr)).compute(scheduler="synchronous")
    return tuple(int(length) for length in found)
