"""Pieces of work side by side: by threads or another executor, each with as many BLAS threads as its matrices are worth."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from functools import cache
from itertools import chain, islice
from threading import current_thread, main_thread
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from pymc_bpls.compute.executors import Executor, over_pieces
from pymc_bpls.compute.travel import Travelling

_SMALL = 512
_Result = TypeVar("_Result")
_in_worker: ContextVar[bool] = ContextVar("_in_worker", default=False)


class InTurn:
    """In place of an executor: one piece after the other in the caller's thread, where several would take too much memory."""


IN_TURN = InTurn()


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def for_matrices_of(q: int) -> AbstractContextManager[Any]:
    """One BLAS thread while matrices are q × q with small q, as many as there are otherwise."""
    return _controller().limit(limits=1, user_api="blas") if q <= _SMALL else nullcontext()


def one_thread_each(pieces: int) -> AbstractContextManager[Any]:
    """One BLAS thread for each of some pieces that run side by side, where there are several."""
    return _controller().limit(limits=1, user_api="blas") if pieces > 1 else nullcontext()


@cache
def side_by_side_threads() -> ThreadPoolExecutor:
    """The threads that work is done by where no executor is given: one a core."""
    return ThreadPoolExecutor(os.cpu_count() or 1)


@contextmanager
def as_worker() -> Iterator[None]:
    """What is done inside is done by one thread: others work beside it.

    In the main thread, that of a process which is a worker, with one BLAS thread too; threads share how many there are.
    """
    token = _in_worker.set(True)
    try:
        with one_thread_each(2 if current_thread() is main_thread() else 1):
            yield
    finally:
        _in_worker.reset(token)


def side_by_side(
    function: Callable[[Any], _Result], pieces: Iterable[Any], executor: Executor | InTurn | None = None
) -> Iterator[_Result]:
    """`function` of each piece, in order; several at a time by `executor`, by default threads.

    Inside a worker, one after the other: a worker that waits for others could wait for ever.

    Raises
    ------
    WorkerError
        Workers died on a piece.
    """
    ahead = iter(pieces)
    few = list(islice(ahead, 2))
    if isinstance(executor, InTurn) or len(few) < 2 or _in_worker.get():
        yield from map(function, chain(few, ahead))
        return
    tasks = (_Task(number, piece) for number, piece in enumerate(chain(few, ahead), 1))
    how = executor or side_by_side_threads()
    yield from over_pieces(_done, Travelling(function), tasks, how, lambda task: f"piece {task.number} of the work")


class _Task:
    """A piece in the context in which the task was made, NumPy's `errstate` included.

    In another process, where contexts cannot go, it is that of the process.
    """

    def __init__(self, number: int, piece: Any) -> None:
        self.number, self.piece = number, piece
        self.context = copy_context()

    def __reduce__(self) -> Any:
        return _Task, (self.number, self.piece)


def _done(function: Travelling, task: _Task) -> Any:
    return task.context.run(_as_worker, function.value, task.piece)


def _as_worker(function: Callable[[Any], Any], piece: Any) -> Any:
    with as_worker():
        return function(piece)
