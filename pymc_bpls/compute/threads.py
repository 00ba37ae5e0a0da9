"""Threads: many small matrices go one BLAS thread each, several side by side; a large one takes all BLAS threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

_SMALL = 128
_Result = TypeVar("_Result")


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def for_matrices_of(q: int) -> AbstractContextManager[Any]:
    """One BLAS thread while matrices are q × q with small q, as many as there are otherwise."""
    return _controller().limit(limits=1, user_api="blas") if q <= _SMALL else nullcontext()


@cache
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count() or 1)


def side_by_side(function: Callable[[Any], _Result], pieces: Iterable[Any]) -> list[_Result]:
    """`function` of each piece, in order, several at a time where it lets go of the interpreter, as BLAS does.

    Each runs in the caller's context, NumPy's `errstate` included.
    """
    tasks = [(copy_context(), piece) for piece in pieces]
    return list(_workers().map(lambda task: task[0].run(function, task[1]), tasks))
