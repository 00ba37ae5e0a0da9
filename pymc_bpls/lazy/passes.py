"""One pass over the partitions of a pool: a task for each, some at a time, by threads or wherever an executor runs them.

What all tasks share goes to the workers of Dask once. Dask gives the task of a lost worker to another one; what they share is
sent again where it was lost.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, CancelledError
from dataclasses import dataclass
from time import sleep
from typing import Any, TypeVar

from pymc_bpls.compute.threads import Executor, side_by_side_threads
from pymc_bpls.errors import BPLSError
from pymc_bpls.lazy.parts import Part

_A_WORKER = 4
_UNKNOWN = 16
_SENT, _WAIT = 5, 2.0
_Result = TypeVar("_Result")


class WorkerError(BPLSError):
    """Workers died on a partition: which one is named."""


def over_parts(
    function: Callable[[Any, Part], _Result], shared: Any, parts: Iterable[Part], executor: Executor | None = None
) -> Iterator[_Result]:
    """`function(shared, part)` of each partition, in their order; no more are under way than workers can be kept busy with.

    Raises
    ------
    WorkerError
        A worker process died, or several of Dask's on the same partition.
    """
    runner = _runner(executor, shared)
    waiting: deque[tuple[Part, Any]] = deque()
    source = iter(parts)
    try:
        while True:
            while len(waiting) < runner.at_once and (part := next(source, None)) is not None:
                waiting.append((part, runner.submit(function, part)))
            if not waiting:
                return
            part, future = waiting.popleft()
            yield runner.result(function, part, future)
    finally:
        for _, future in waiting:
            future.cancel()


@dataclass
class _Anywhere:
    """Any executor: what is shared goes with every task, of which a process that has it makes nothing again."""

    executor: Any
    shared: Any
    at_once: int

    def submit(self, function: Callable[..., Any], part: Part) -> Any:
        return self.executor.submit(function, self.shared, part)

    def result(self, function: Callable[..., Any], part: Part, future: Any) -> Any:
        try:
            return future.result()
        except BrokenExecutor as error:
            raise WorkerError(_died(part, "its pool of processes is gone")) from error


@dataclass
class _OnDask:
    """A cluster of Dask: what is shared is sent once, to all workers, as its executor says (`how`)."""

    client: Any
    shared: Any
    at_once: int
    how: Mapping[str, Any]

    def __post_init__(self) -> None:
        self._send()

    def _send(self) -> None:
        for left in reversed(range(_SENT)):
            try:
                self.sent = self.client.scatter(self.shared, broadcast=True, hash=False)
                return
            except (TimeoutError, ValueError):  # no worker is running at the moment: they start again, or wait for memory
                if not left:
                    raise
                sleep(_WAIT)

    def submit(self, function: Callable[..., Any], part: Part) -> Any:
        return self.client.submit(function, self.sent, part, **{"pure": False, **self.how})

    def result(self, function: Callable[..., Any], part: Part, future: Any) -> Any:
        from distributed.scheduler import KilledWorker

        for _ in range(_SENT):
            try:
                return future.result()
            except KilledWorker as error:
                raise WorkerError(_died(part, "several workers did, one after the other")) from error
            except CancelledError:  # what was sent is lost with the workers that had it
                self._send()
                future = self.submit(function, part)
        return future.result()


def _died(part: Part, how: str) -> str:
    return (
        f"A worker died on partition {part.number} of the pool ({part.n:,} rows), and {how}. "
        "Give workers more memory or smaller partitions, and call again."
    )


def _runner(executor: Any, shared: Any) -> _Anywhere | _OnDask:
    if executor is None:
        executor = side_by_side_threads()
    client = _client_of(executor)
    if client is not None:
        return _OnDask(client, shared, _A_WORKER * max(1, sum(client.nthreads().values())), getattr(executor, "_kwargs", {}))
    workers = getattr(executor, "_max_workers", None)
    return _Anywhere(executor, shared, _UNKNOWN if workers is None else workers + 1)


def _client_of(executor: Any) -> Any:
    """The Dask client that an executor is, or stands for."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    client = getattr(executor, "_client", executor)
    return client if isinstance(client, distributed.Client) else None
