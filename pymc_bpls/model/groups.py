"""Group indices must point at a level: JAX clamps what lies outside, and pandas writes −1 for a group it has not seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors, io_toposort

from pymc_bpls.errors import RowError
from pymc_bpls.model.indexing import GATHERS, SCATTERS, array_indices
from pymc_bpls.model.slicing import Source, depends, evaluate, remake

_SHOWN = 5


def check_groups(model: pm.Model, source: Source, log_lik: Variable) -> None:
    """Refuse an index that points outside the levels of what it indexes, listing both.

    Each index of a gather is held against the axis that it is on. With a value a row, it may not count from the end.
    """
    moving = depends([log_lik], source.dynamic())
    _, parts = source.theta()
    for node in io_toposort([], [log_lik]):
        if not isinstance(node.op, (*GATHERS, *SCATTERS)):
            continue
        for axis, place in array_indices(node.op, node.inputs):
            index = node.inputs[place]
            if index not in moving:
                values = np.asarray(evaluate([index], source.givens)[0])
                size = _size(node.inputs[0], axis, parts, source, moving)
                if size is not None:
                    _check(model, index, values, size, by_row=values.shape[:1] == (source.n_rows,))


def _size(levels: Variable, axis: int, parts: Mapping[Variable, Variable], source: Source, moving: set[Variable]) -> int | None:
    """How many levels an axis has, None where the graph does not say."""
    [sized] = remake([levels], parts)
    size = sized.type.shape[axis]
    if size is None and levels not in moving:
        return int(np.shape(evaluate([levels], source.givens)[0])[axis])
    return size


def _check(model: pm.Model, index: Variable, values: np.ndarray, size: int, *, by_row: bool) -> None:
    lowest = 0 if by_row else -size
    outside = (values < lowest) | (values >= size)
    if not outside.any():
        return
    strange = np.unique(values[outside])[:_SHOWN].tolist()
    rows = np.flatnonzero(outside.reshape(len(values), -1).any(axis=1))[:_SHOWN].tolist() if by_row else []
    raise RowError(
        f"{_name(model, index)} holds {strange}{f' in rows {rows}' if by_row else ''}, outside its {size} levels "
        f"({_levels(model, size)}). Give a group without labeled rows a level of its own, or leave these rows out."
    )


def _name(model: pm.Model, index: Variable) -> str:
    above = set(ancestors([index]))
    below = [f'"{data.name}"' for data in model.data_vars if data in above]
    return f"The group index {' with '.join(below)}" if below else "A group index"


def _levels(model: pm.Model, size: int) -> str:
    """The levels by the model's coords of that length, else their range."""
    names: Any = next((values for values in model.coords.values() if values is not None and len(values) == size), None)
    if names is None:
        return f"0 to {size - 1}"
    return ", ".join(map(str, names[:_SHOWN])) + (", …" if size > _SHOWN else "")
