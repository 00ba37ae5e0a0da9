"""Compilation of JAX functions, counted and timed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np


@dataclass(frozen=True)
class Compilation:
    """One compilation: what, for which shapes, and the seconds that it took with the first run."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    seconds: float


@dataclass
class Compiler:
    """Compiles each function once for each set of shapes, and keeps the record in `log`.

    A name stands for one function: the first that comes under it is kept. `announce` is called with a sentence before each
    compilation.
    """

    announce: Callable[[str], None] | None = None
    log: list[Compilation] = field(default_factory=list)
    _functions: dict[str, Callable[..., Any]] = field(default_factory=dict)
    _seen: set[Any] = field(default_factory=set)

    def __call__(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """`function(*arguments)`, compiled, as NumPy arrays."""
        jitted = self._functions.get(name)
        if jitted is None:
            jitted = self._functions[name] = jax.jit(function)
        leaves = jax.tree.leaves(arguments)
        key = (name, *(leaf.shape for leaf in leaves))
        result = jitted(*arguments) if key in self._seen else self._first(name, jitted, arguments, key)
        return jax.tree.map(np.asarray, result)

    def _first(self, name: str, jitted: Callable[..., Any], arguments: Any, key: Any) -> Any:
        if self.announce is not None:
            self.announce(f"compiling {name}")
        start = time.perf_counter()
        result = jax.block_until_ready(jitted(*arguments))
        self.log.append(Compilation(name, key[1:], time.perf_counter() - start))
        self._seen.add(key)
        return result

    @property
    def seconds(self) -> float:
        """Time spent compiling so far."""
        return sum(entry.seconds for entry in self.log)
