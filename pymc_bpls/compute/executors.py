"""Pieces of work by an executor: some at a time and in order; what all of them share goes to the workers of Dask once.

Dask gives the task of a lost worker to another one; what tasks share is sent again where it was lost.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, CancelledError
from dataclasses import dataclass
from time import sleep
from typing import Any, Protocol, TypeVar

from pymc_bpls.errors import BPLSError

_A_WORKER = 4
_UNKNOWN = 16
_SENT, _WAIT = 5, 2.0
_Piece = TypeVar("_Piece")
_Result = TypeVar("_Result")


class Executor(Protocol):
    """Anything that runs functions elsewhere, as `concurrent.futures` and a Dask client do."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """A future, whose `result()` is `function(*arguments)`, and which `cancel()` may stop."""


class WorkerError(BPLSError):
    """Workers died on a piece of work: which one is named."""


def over_pieces(
    function: Callable[[Any, _Piece], _Result],
    shared: Any,
    pieces: Iterable[_Piece],
    executor: Executor,
    name: Callable[[_Piece], str],
) -> Iterator[_Result]:
    """`function(shared, piece)` of each piece, in their order; no more are under way than workers can be kept busy with.

    Raises
    ------
    WorkerError
        A worker process died, or several of Dask's on the same piece, which `name` puts into words.
    """
    runner = _runner(executor, shared)
    waiting: deque[tuple[_Piece, Any]] = deque()
    source = iter(pieces)
    try:
        while True:
            while len(waiting) < runner.at_once and (piece := next(source, None)) is not None:
                waiting.append((piece, runner.submit(function, piece)))
            if not waiting:
                return
            piece, future = waiting.popleft()
            try:
                yield runner.result(function, piece, future)
            except _DiedError as died:
                raise WorkerError(
                    f"A worker died on {name(piece)}, and {died}. Give workers more memory or smaller pieces, and call again."
                ) from died.__cause__
    finally:
        for _, future in waiting:
            future.cancel()


class _DiedError(Exception):
    """How workers died, in words."""


@dataclass
class _Anywhere:
    """Any executor: what is shared goes with every task, of which a process that has it makes nothing again."""

    executor: Any
    shared: Any
    at_once: int

    def submit(self, function: Callable[..., Any], piece: Any) -> Any:
        return self.executor.submit(function, self.shared, piece)

    def result(self, function: Callable[..., Any], piece: Any, future: Any) -> Any:
        try:
            return future.result()
        except BrokenExecutor as error:
            raise _DiedError("its pool of processes is gone") from error


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

    def submit(self, function: Callable[..., Any], piece: Any) -> Any:
        return self.client.submit(function, self.sent, piece, **{"pure": False, **self.how})

    def result(self, function: Callable[..., Any], piece: Any, future: Any) -> Any:
        from distributed.scheduler import KilledWorker

        for _ in range(_SENT):
            try:
                return future.result()
            except KilledWorker as error:
                raise _DiedError("several workers did, one after the other") from error
            except CancelledError:  # what was sent is lost with the workers that had it
                self._send()
                future = self.submit(function, piece)
        return future.result()


def _runner(executor: Any, shared: Any) -> _Anywhere | _OnDask:
    client = client_of(executor)
    if client is not None:
        return _OnDask(client, shared, _A_WORKER * max(1, sum(client.nthreads().values())), getattr(executor, "_kwargs", {}))
    workers = getattr(executor, "_max_workers", None)
    return _Anywhere(executor, shared, _UNKNOWN if workers is None else workers + 1)


def client_of(executor: Any) -> Any:
    """The Dask client that an executor is, or stands for."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    client = getattr(executor, "_client", executor)
    return client if isinstance(client, distributed.Client) else None
