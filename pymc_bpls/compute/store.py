"""What was compiled of one structure of a model, and tables of its functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Store:
    """Compiled kernels by kernel and static arguments, for which shapes they were compiled, and tables of functions by name."""

    functions: dict[Any, Callable[..., Any]] = field(default_factory=dict)
    seen: set[Any] = field(default_factory=set)
    tables: dict[str, Any] = field(default_factory=dict)

    def __reduce__(self) -> Any:
        """Another process compiles for itself."""
        return Store, ()
