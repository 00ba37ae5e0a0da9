"""Group indices must point at a level: JAX clamps what lies outside, and pandas writes −1 for a group it has not seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import io_toposort

from pymc_bpls.errors import RowError
from pymc_bpls.model.slicing import GATHERS, Source, depends, evaluate, remake

_SHOWN = 5


def check_groups(model: pm.Model, source: Source, log_lik: Variable) -> None:
    """Refuse an index with a value a row that points outside the levels of what it indexes, listing both."""
    moving = depends([log_lik], source.dynamic())
    _, parts = source.theta()
    for node in io_toposort([], [log_lik]):
        if not isinstance(node.op, GATHERS) or len(node.inputs) != 2 or node.inputs[1] in moving:
            continue
        levels, index = node.inputs
        values = np.asarray(evaluate([index], source.givens)[0])
        [sized] = remake([levels], {variable: part for variable, part in parts.items()})
        size = sized.type.shape[0]
        if size is None or values.ndim != 1 or len(values) != source.n_rows or values.dtype.kind not in "iu":
            continue
        outside = np.flatnonzero((values < 0) | (values >= size))
        if outside.size:
            raise RowError(
                f"{_name(model, index)} holds {np.unique(values[outside])[:_SHOWN].tolist()} in rows "
                f"{outside[:_SHOWN].tolist()}, outside its {size} levels ({_levels(model, size)}). "
                "Give a group without labeled rows a level of its own, or leave these rows out."
            )


def _name(model: pm.Model, index: Variable) -> str:
    below = [data.name for data in model.data_vars if data is index or data in _inputs(index)]
    return f'The group index "{below[0]}"' if below else "A group index"


def _inputs(variable: Variable) -> list[Variable]:
    return [] if variable.owner is None else list(variable.owner.inputs)


def _levels(model: pm.Model, size: int) -> str:
    """The levels by the model's coords of that length, else their range."""
    names: Any = next((values for values in model.coords.values() if values is not None and len(values) == size), None)
    if names is None:
        return f"0 to {size - 1}"
    return ", ".join(map(str, names[:_SHOWN])) + (", …" if size > _SHOWN else "")
