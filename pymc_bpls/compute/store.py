"""What was compiled of one structure of a model, and tables of its functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4
from weakref import WeakValueDictionary


@dataclass
class Store:
    """Compiled kernels by kernel and static arguments, for which shapes they were compiled, and tables of functions by name.

    `key` is that of the structure, by which another process knows what it compiled for it.
    """

    functions: dict[Any, Callable[..., Any]] = field(default_factory=dict)
    seen: set[Any] = field(default_factory=set)
    tables: dict[str, Any] = field(default_factory=dict)
    key: str = field(default_factory=lambda: uuid4().hex)

    def __reduce__(self) -> Any:
        """Another process compiles for itself."""
        return _of_this_process, (self.key,)


_received: WeakValueDictionary[str, Store] = WeakValueDictionary()


def _of_this_process(key: str) -> Store:
    return _received.setdefault(key, Store(key=key))
