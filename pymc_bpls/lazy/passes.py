"""One pass over the partitions of a pool: a task for each, some at a time, by threads or wherever an executor runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from pymc_bpls.compute.executors import Executor, over_pieces
from pymc_bpls.compute.threads import side_by_side_threads
from pymc_bpls.lazy.parts import Part

_Result = TypeVar("_Result")


def over_parts(
    function: Callable[[Any, Part], _Result], shared: Any, parts: Iterable[Part], executor: Executor | None = None
) -> Iterator[_Result]:
    """`function(shared, part)` of each partition, in their order.

    Raises
    ------
    WorkerError
        A worker process died, or several of Dask's on the same partition.
    """
    return over_pieces(function, shared, parts, executor or side_by_side_threads(), _named)


def _named(part: Part) -> str:
    return f"partition {part.number} of the pool ({part.n:,} rows)"
