"""Work on many rows, cut into pieces: the one place where it is cut, padded, handed to workers and put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from pymc_bpls.compute.executors import Executor
from pymc_bpls.compute.threads import InTurn, side_by_side


def map_rows(
    function: Callable[[Any], Any],
    n: int,
    size: tuple[int, int],
    executor: Executor | InTurn | None = None,
    *,
    padded: bool = True,
    take: Callable[[np.ndarray], Any] | None = None,
    tell: Callable[[int], None] | None = None,
) -> Any:
    """What `function` makes of rows 0, …, n − 1, taken in pieces.

    Parameters
    ----------
    function : callable
        Takes row numbers (length,), integers, and returns an array, or a tree of arrays (tuples, dicts), with as many entries
        along the first axis, each of which depends on its own row alone.
    n : int
        Number of rows. If it is 0, `function` is called with no row, so that shapes are known.
    size : tuple of int
        The fewest and the most rows of a piece, whose length is the smallest power of two that holds all n within these.
    executor : optional
        Runs all pieces but the first, which compiles what they share: anything with `submit`, by default threads; `IN_TURN`
        runs one after the other. Inside a worker that is done in any case.
    padded : bool, default True
        Whether the last piece is filled up, by repeating its rows, to the length of the others: what is compiled for a length
        then serves for all. Without it the last piece is shorter, as suits NumPy.
    take : callable, optional
        What `function` is given of a piece in place of its row numbers, taken here, so that a worker needs no other rows.
    tell : callable, optional
        Called with the number of rows of each piece that is done.

    Returns
    -------
    array or tree of arrays
        As from `function`, with n entries along the first axis.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bpls.compute.chunks import map_rows
    >>> x = np.arange(10.0)
    >>> map_rows(lambda rows: x[rows] ** 2, 10, (4, 4))
    array([ 0.,  1.,  4.,  9., 16., 25., 36., 49., 64., 81.])
    """
    length = piece_length(n, size)
    pieces = [np.arange(first, min(first + length, n)) for first in range(0, n, length)] or [np.arange(0)]
    filled = [np.resize(rows, length) if padded and n else rows for rows in pieces]
    given = filled if take is None else map(take, filled)
    parts = _each(function, iter(given), executor)
    first = next(parts)
    if tell is not None:
        tell(len(pieces[0]))
    if len(pieces) == 1:
        return jax.tree.map(lambda array: array[:n], first)
    whole = jax.tree.map(lambda array: np.empty((n, *array.shape[1:]), array.dtype), first)
    _put(whole, pieces[0], first)
    for rows, part in zip(pieces[1:], parts, strict=True):
        _put(whole, rows, part)
        if tell is not None:
            tell(len(rows))
    return whole


def _each(function: Callable[[Any], Any], pieces: Iterator[Any], executor: Executor | InTurn | None) -> Iterator[Any]:
    """The first piece here, and then the others by the executor."""
    yield function(next(pieces))
    yield from side_by_side(function, pieces, executor)


def piece_length(n: int, size: tuple[int, int]) -> int:
    """The smallest power of two that holds n rows, within the bounds `size`."""
    fewest, most = size
    return min(most, max(fewest, 1 << (n - 1).bit_length())) if n else fewest


def _put(whole: Any, rows: np.ndarray, part: Any) -> None:
    """Into the places of `rows`, which are consecutive, the first entries of a piece."""
    for array, values in zip(jax.tree.leaves(whole), jax.tree.leaves(part), strict=True):
        array[rows[0] : rows[-1] + 1] = values[: len(rows)]
