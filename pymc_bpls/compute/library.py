"""Functions of models that have the same structure are compiled once in a process, whatever their tables.

A model declared again, on other rows or in a fold of a cross-validation, has the same graph of one row and the same prior.
What was compiled for it then serves again, with the other table's data as arguments.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pytensor.graph.basic import Variable, equal_computations

_REMEMBERED = 32


@dataclass(frozen=True)
class Graphs:
    """Graphs of a model as functions of `inputs`, and the values that stand for its classes."""

    inputs: list[Variable]
    outputs: list[Variable]
    class_values: np.ndarray

    def same_as(self, other: Graphs) -> bool:
        """Whether both compute the same, constants included."""
        return (
            len(self.inputs) == len(other.inputs)
            and len(self.outputs) == len(other.outputs)
            and all(a.type == b.type for a, b in zip(self.inputs, other.inputs, strict=True))
            and np.array_equal(self.class_values, other.class_values)
            and equal_computations(self.outputs, other.outputs, self.inputs, other.inputs)
        )


@dataclass
class Library:
    """What was made of the graphs seen last."""

    shelf: deque[tuple[Graphs, Any]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))

    def get(self, graphs: Graphs, make: Callable[[], Any]) -> Any:
        """What was made of the same graphs before, or else `make()`."""
        for known, made in self.shelf:
            if graphs.same_as(known):
                return made
        made = make()
        self.shelf.append((graphs, made))
        return made


#: Functions of one row, everything that is made of them and the prior, and the way from θ to the model's own variables.
ROWS, LIBRARY, CONSTRAINTS = Library(), Library(), Library()
