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


@dataclass
class Store:
    """Compiled functions by name, and for which shapes they were compiled."""

    functions: dict[str, Callable[..., Any]] = field(default_factory=dict)
    seen: set[Any] = field(default_factory=set)


@dataclass(frozen=True)
class Structure:
    """Graphs of a model as functions of `inputs`, and the values that stand for its classes."""

    inputs: list[Variable]
    outputs: list[Variable]
    class_values: np.ndarray

    def same_as(self, other: Structure) -> bool:
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
    """What was made of the structures seen last."""

    shelf: deque[tuple[Structure, Any]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))

    def get(self, structure: Structure, make: Callable[[], Any]) -> Any:
        """What was made of the same structure before, or else `make()`."""
        for known, made in self.shelf:
            if structure.same_as(known):
                return made
        made = make()
        self.shelf.append((structure, made))
        return made


#: Functions of one row, and everything that is made of them and the prior.
ROWS, LIBRARY = Library(), Library()
