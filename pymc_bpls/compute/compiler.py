"""Compilation of JAX functions, counted and timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from pymc_bpls.compute.library import Store
from pymc_bpls.compute.threads import side_by_side


@dataclass(frozen=True)
class Compilation:
    """One compilation: what, for which shapes, and the seconds that it took with the first run."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    seconds: float


@dataclass
class Compiler:
    """Compiles each function once for each set of shapes, and keeps the record in `log`.

    A name stands for one function: the first that comes under it is kept, in `store`, which models of one structure share.
    `announce` is called with a sentence before each compilation.
    """

    store: Store = field(default_factory=Store)
    announce: Callable[[str], None] | None = None
    log: list[Compilation] = field(default_factory=list)

    def __call__(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """`function(*arguments)`, compiled, as NumPy arrays."""
        jitted = self.store.functions.get(name)
        if jitted is None:
            jitted = self.store.functions[name] = jax.jit(function)
        leaves = jax.tree.leaves(arguments)
        key = (name, *(leaf.shape for leaf in leaves))
        result = jitted(*arguments) if key in self.store.seen else self._first(name, jitted, arguments, key)
        return jax.tree.map(np.asarray, result)

    def _first(self, name: str, jitted: Callable[..., Any], arguments: Any, key: Any) -> Any:
        if self.announce is not None:
            self.announce(f"compiling {name}")
        start = time.perf_counter()
        result = jax.block_until_ready(jitted(*arguments))
        self.log.append(Compilation(name, key[1:], time.perf_counter() - start))
        self.store.seen.add(key)
        return result

    @property
    def seconds(self) -> float:
        """Time spent compiling so far."""
        return sum(entry.seconds for entry in self.log)


def in_pieces(
    compiler: Compiler, name: str, function: Callable[..., Any], arrays: Sequence[np.ndarray], fewest: int, most: int
) -> Any:
    """`function` of rows, for pieces whose lengths are powers of two between `fewest` and `most`, so that few are compiled.

    Pieces after the first go side by side.
    """
    total = len(arrays[0])
    size = min(most, max(fewest, 1 << (total - 1).bit_length()))

    def of(first: int) -> Any:
        piece = [np.resize(array[first : first + size], (size, *array.shape[1:])) for array in arrays]
        return compiler(name, function, *piece)

    parts = [of(0), *side_by_side(of, range(size, total, size))]
    joined = parts[0] if len(parts) == 1 else jax.tree.map(lambda *pieces: np.concatenate(pieces), *parts)
    return jax.tree.map(lambda array: array[:total], joined)
