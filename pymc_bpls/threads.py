"""BLAS threads: for many small matrices one is faster than several, which wait for each other and for JAX's own."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

_SMALL = 128


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def for_matrices_of(q: int) -> AbstractContextManager[Any]:
    """One BLAS thread while matrices are q × q with small q, as many as there are otherwise."""
    return _controller().limit(limits=1, user_api="blas") if q <= _SMALL else nullcontext()
