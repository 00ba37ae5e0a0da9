"""What goes to another process: an object's fields. What was compiled or derived of them is made again there."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from threading import RLock
from typing import Any, cast

import cloudpickle


class OfFields:
    """A dataclass that is pickled as its fields alone, without its cached properties."""

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(cast(Any, self))}


@dataclass
class Shelf:
    """What this process has of what came from another one, by keys: the last `kept` that were asked for."""

    kept: int
    held: OrderedDict[str, Any] = field(default_factory=OrderedDict)
    lock: Any = field(default_factory=RLock)

    def get(self, key: str, make: Callable[[], Any]) -> Any:
        """What has this key, made if it is not there."""
        with self.lock:
            if key not in self.held:
                self.held[key] = make()
                while len(self.held) > self.kept:
                    self.held.popitem(last=False)
            self.held.move_to_end(key)
            return self.held[key]


_shelf = Shelf(kept=2)


@dataclass(frozen=True)
class Travelling:
    """What all pieces of some work share: pickled once, by value as PyMC's models can be, and made again once a process."""

    value: Any

    @cached_property
    def _pickled(self) -> tuple[str, bytes]:
        pickled = cloudpickle.dumps(self.value)
        return hashlib.sha256(pickled).hexdigest(), pickled

    def __reduce__(self) -> Any:
        return _travelled, self._pickled


def _travelled(key: str, pickled: bytes) -> Travelling:
    return Travelling(_shelf.get(key, lambda: cloudpickle.loads(pickled)))
