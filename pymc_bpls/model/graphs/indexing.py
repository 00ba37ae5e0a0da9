"""Which axis each index of a gather is on, in PyTensor 2 and 3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytensor.tensor.subtensor
from pytensor.graph.basic import Variable
from pytensor.tensor.subtensor import IncSubtensor
from pytensor.tensor.type import TensorType
from pytensor.tensor.type_other import NoneTypeT


def _operations(*names: str) -> tuple[type, ...]:
    """PyTensor 3 has one operation for what were two."""
    found = (getattr(pytensor.tensor.subtensor, name, None) for name in names)
    return tuple(operation for operation in found if operation is not None)


GATHERS = _operations("AdvancedSubtensor", "AdvancedSubtensor1")
SCATTERS = _operations("AdvancedIncSubtensor", "AdvancedIncSubtensor1")


def array_indices(op: Any, inputs: Sequence[Variable]) -> list[tuple[int, int]]:
    """Pairs (axis of what is indexed, place in `inputs`) of the integer indices of a gather or a scatter."""
    first = 1 if isinstance(op, GATHERS) else 2
    entries = getattr(op, "idx_list", None) or range(len(inputs) - first)
    found: list[tuple[int, int]] = []
    axis = 0
    for entry in entries:
        kind = inputs[first + entry].type if isinstance(entry, int) else None
        if isinstance(kind, TensorType) and kind.dtype != "bool":
            found.append((axis, first + entry))
        if isinstance(kind, TensorType) and kind.dtype == "bool":
            axis += kind.ndim
        else:
            axis += not isinstance(kind, NoneTypeT)
    return found


def takes_every_row(op: Any) -> bool:
    """Whether the first index of a scatter is a slice of everything."""
    entries = getattr(op, "idx_list", None)
    first = entries[0] if entries else None
    return isinstance(op, IncSubtensor) and isinstance(first, slice) and first == slice(None)
