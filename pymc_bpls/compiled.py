"""Ahead-of-time compilation of JAX functions, counted and timed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np


@dataclass(frozen=True)
class Compilation:
    """One compilation: what, for which shapes, and its seconds."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    seconds: float


@dataclass
class Compiler:
    """Compiles each function once for each set of shapes, and keeps the record in `log`.

    `announce` is called with a sentence before each compilation.
    """

    announce: Callable[[str], None] | None = None
    log: list[Compilation] = field(default_factory=list)
    _held: dict[Any, Callable[..., Any]] = field(default_factory=dict)

    def __call__(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """`function(*arguments)`, compiled; `name` identifies the function. Returns NumPy arrays."""
        leaves = jax.tree.leaves(arguments)
        shapes = tuple(np.shape(leaf) for leaf in leaves)
        key = (name, shapes)
        if key not in self._held:
            self._held[key] = self._compile(name, function, arguments, shapes)
        return jax.tree.map(np.asarray, self._held[key](*arguments))

    def _compile(
        self, name: str, function: Callable[..., Any], arguments: Any, shapes: tuple[tuple[int, ...], ...]
    ) -> Callable[..., Any]:
        if self.announce is not None:
            self.announce(f"compiling {name}")
        start = time.perf_counter()
        compiled = jax.jit(function).lower(*arguments).compile()
        self.log.append(Compilation(name, shapes, time.perf_counter() - start))
        return compiled

    @property
    def seconds(self) -> float:
        """Time spent compiling so far."""
        return sum(entry.seconds for entry in self.log)
