"""What the package refuses, and the two sentences it says: what is wrong, then what to do; and what it warns of."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType

_PACKAGE = str(Path(__file__).parent)
_held: ContextVar[list[str] | None] = ContextVar("_held", default=None)


class BPLSError(ValueError):
    """Base class of every refusal of this package."""


class ModelError(BPLSError):
    """The declared model cannot be scored: a variable or an operation of it is named."""


class LabelError(BPLSError):
    """The labels are not classes: the offending values and their number are named."""


class RowError(BPLSError):
    """The table or the pool has rows that cannot be used: rows and columns are named."""


class ModeError(BPLSError):
    """There is no trustworthy mode: the parameters along the bad direction are named."""


class ApproximationError(BPLSError):
    """A Gaussian approximation is not defined for this model, or does not converge: what is to blame is named."""


class CriterionError(BPLSError):
    """The criterion is not defined for this model or this call."""


class SizeError(BPLSError):
    """The model and its table take more memory than there is: what is too large is named, with its size."""


class DataUnavailableError(BPLSError):
    """A data set can be neither read nor fetched here."""


class BPLSWarning(UserWarning):
    """Something that a user should know, and that does not stop the work."""


def warn(message: str) -> None:
    """Warn with a `BPLSWarning` that points at the user's line: the innermost one outside this package."""
    held = _held.get()
    if held is not None:
        held.append(message)
        return
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, BPLSWarning, stacklevel=level)


@contextmanager
def holding_warnings() -> Iterator[list[str]]:
    """What `warn` would say inside, for the caller to say or to leave, as where a refusal says it."""
    held: list[str] = []
    token = _held.set(held)
    try:
        yield held
    finally:
        _held.reset(token)
