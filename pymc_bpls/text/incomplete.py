"""What is said of a result that lost a part: of its file, or of what somebody made of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pymc_bpls.errors import BPLSError, CriterionError


@contextmanager
def as_it_was_left(what: str, by: str) -> Iterator[None]:
    """Read a result, the argument `what`, as `by` left it.

    Raises
    ------
    CriterionError
        It lacks what every such result has, or holds what none does.

    Examples
    --------
    >>> from pymc_bpls.text.incomplete import as_it_was_left
    >>> with as_it_was_left("run=", "self_train"):
    ...     {}["verdict"]
    Traceback (most recent call last):
        ...
    pymc_bpls.errors.CriterionError: run= is not as self_train left it (KeyError: verdict). Give what ...
    """
    try:
        yield
    except BPLSError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        words = str(next(iter(error.args), "")).partition(". ")[0]
        raise CriterionError(
            f"{what} is not as {by} left it ({type(error).__name__}: {words:.120}). Give what it returned, or all of its file."
        ) from error
