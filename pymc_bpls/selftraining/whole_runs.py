"""Where a run must be whole: an error that is not of this package ends it, instead of leaving a shorter run.

Where a rule of the user's fails, `self_train` warns and returns what the run had until then. An estimator that is fitted, a
fold that judges a pipeline and a split that compares criteria cannot use half a run. An exception that ends them, such as a
time-out of the user's, reaches the caller.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_WANTED: ContextVar[bool] = ContextVar("whole_runs", default=False)


@contextmanager
def whole_runs() -> Iterator[None]:
    """Within, a run that fails raises what it failed with.

    Examples
    --------
    >>> from pymc_bpls.selftraining.whole_runs import are_whole, whole_runs
    >>> with whole_runs():
    ...     are_whole()
    True
    >>> are_whole()
    False
    """
    before = _WANTED.set(True)
    try:
        yield
    finally:
        _WANTED.reset(before)


def are_whole() -> bool:
    """Whether runs have to be whole here."""
    return _WANTED.get()
