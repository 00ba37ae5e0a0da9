"""A budget of time for runs: where it is spent, the round that would come next is not begun."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic

_ENDS: ContextVar[float | None] = ContextVar("end of the budget", default=None)


class OutOfTime(Exception):
    """The budget is spent."""


@contextmanager
def within_seconds(seconds: float) -> Iterator[None]:
    """Within, a run that starts another round after so many seconds raises `OutOfTime`.

    Examples
    --------
    >>> from pymc_bpls.compute.budget import OutOfTime, check_budget, within_seconds
    >>> with within_seconds(60):
    ...     check_budget()
    >>> try:
    ...     with within_seconds(0):
    ...         check_budget()
    ... except OutOfTime:
    ...     print("no round is begun")
    no round is begun
    """
    before = _ENDS.set(monotonic() + seconds)
    try:
        yield
    finally:
        _ENDS.reset(before)


def check_budget() -> None:
    """Before a round.

    Raises
    ------
    OutOfTime
        There is no time left for it.
    """
    ends = _ENDS.get()
    if ends is not None and monotonic() >= ends:
        raise OutOfTime
