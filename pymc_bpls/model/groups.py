"""Group indices must point at a level: JAX clamps what lies outside, and pandas writes −1 for a group it has not seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors, io_toposort

from pymc_bpls.errors import RowError
from pymc_bpls.model.data.row_words import RowWords
from pymc_bpls.model.graphs.indexing import GATHERS, SCATTERS, array_indices
from pymc_bpls.model.graphs.slicing import Source, depends, evaluate, remake
from pymc_bpls.model.refusals import draws

_SHOWN = 5
_FEW = 2  # indices that count from the end beside others that do not, as in a[[0, -1]]


def check_groups(model: pm.Model, source: Source, log_lik: Variable, words: RowWords) -> None:
    """Refuse an index that points outside the levels of what it indexes, listing both, and rows in `words`.

    Each index of a gather is held against the axis that it is on. With a value a row, it may not count from the end.
    """
    for index, size in group_indices(source, log_lik):
        values = np.asarray(evaluate([index], source.givens)[0])
        by_row = values.shape[:1] == (source.n_rows,)
        _check(model, index, values, size, words=words if by_row else None)


def group_indices(source: Source, log_lik: Variable) -> Iterator[tuple[Variable, int]]:
    """Each index that depends on no parameter, and how many levels there are on the axis that it is on, where that is known."""
    moving = depends([log_lik], source.dynamic())
    _, parts = source.theta()
    for levels, axis, index in _gathers([log_lik]):
        if index not in moving:
            size = _size(levels, axis, parts, source, moving)
            if size is not None:
                yield index, size


def check_groups_of_priors(model: pm.Model) -> None:
    """The same for indices in the priors and Potentials, as of a group of groups."""
    for levels, axis, index in _gathers([*model.free_RVs, *model.potentials]):
        size = levels.type.shape[axis]
        if size is not None and not draws(index):
            _check(model, index, np.asarray(evaluate([index], {})[0]), size)


def _gathers(outputs: Sequence[Variable]) -> Iterator[tuple[Variable, int, Variable]]:
    """What is indexed, on which axis, and by what, for each index of a gather or scatter in a graph."""
    for node in io_toposort([], outputs):
        if isinstance(node.op, (*GATHERS, *SCATTERS)):
            for axis, place in array_indices(node.op, node.inputs):
                yield node.inputs[0], axis, node.inputs[place]


def _size(levels: Variable, axis: int, parts: Mapping[Variable, Variable], source: Source, moving: set[Variable]) -> int | None:
    """How many levels an axis has, None where the graph does not say."""
    [sized] = remake([levels], parts)
    size = sized.type.shape[axis]
    if size is None and levels not in moving:
        return int(np.shape(evaluate([levels], source.givens)[0])[axis])
    return size


def _check(model: pm.Model, index: Variable, values: np.ndarray, size: int, words: RowWords | None = None) -> None:
    """`words` name rows where there is a value for each."""
    groups = words is not None or (values.size > _FEW and bool((values >= 0).any()))
    outside = (values < (0 if groups else -size)) | (values >= size)
    if not outside.any():
        return
    strange = np.unique(values[outside])[:_SHOWN].tolist()
    rows = np.flatnonzero(outside.reshape(len(outside), -1).any(axis=1))
    where = "" if words is None else f" in {words.some(rows)}"
    raise RowError(
        f"{name_of_group(model, index)} holds {strange}{where}, outside its {size} levels "
        f"({levels_of_group(model, size)}). Give a group without labeled rows a level of its own, or leave these rows out."
    )


def name_of_group(model: pm.Model, index: Variable) -> str:
    above = set(ancestors([index]))
    below = [f'"{data.name}"' for data in model.data_vars if data in above]
    return f"The group index {' with '.join(below)}" if below else "A group index"


def levels_of_group(model: pm.Model, size: int) -> str:
    """The levels by the model's coords of that length, else their range."""
    names: Any = next((values for values in model.coords.values() if values is not None and len(values) == size), None)
    if names is None:
        return f"0 to {size - 1}"
    return ", ".join(map(str, names[:_SHOWN])) + (", …" if size > _SHOWN else "")
