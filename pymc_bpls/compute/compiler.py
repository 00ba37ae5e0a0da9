"""Compilation of kernels: functions of JAX arrays that are known by what they are, counted and timed.

A *kernel* is a function of a module,

    def kernel(structure, *arrays, **static): …

with the structure of a model first, then arrays, and by keyword what decides which code is compiled (numbers, names). It is
compiled once for each structure, each choice of `static` and all shapes of the arrays. Since it sees nothing else, no closure
and no object that carries a table, the code that is kept serves any table of the structure and keeps none alive.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import jax
import numpy as np

from pymc_bpls.compute.memory import refused_when_exhausted
from pymc_bpls.compute.precision import require_double
from pymc_bpls.compute.store import Store
from pymc_bpls.text.progress import stage

Kernel = Callable[..., Any]
_PLAIN = (bool, int, float, str, type(None))


class Structure(Protocol):
    """What depends on the structure of a model alone. Arrays of its table that all rows need come and go as `shared`."""

    @property
    def store(self) -> Store:
        """What was compiled for it."""

    @property
    def shared(self) -> Any:
        """Arrays of the table, or a tree of them."""

    def sharing(self, shared: Any) -> Any:
        """The same structure with these arrays."""


@dataclass(frozen=True)
class Compilation:
    """One compilation: what, for which shapes, and the seconds that it took with the first run."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    seconds: float


@dataclass
class Compiler:
    """Runs kernels, and keeps the record of what was compiled in `log`."""

    log: list[Compilation] = field(default_factory=list)

    def __call__(self, kernel: Kernel, structure: Structure, *arrays: Any, **static: Any) -> Any:
        """`kernel(structure, *arrays, **static)`, compiled, as NumPy arrays.

        Raises
        ------
        TypeError
            The kernel is no function of a module, or a static argument is neither a number nor a name.
        SizeError
            It takes more memory than there is.
        ModelError
            JAX computes in single precision.
        """
        require_double()
        code = (kernel, tuple(sorted(static.items())))
        compiled = structure.store.functions.get(code)
        if compiled is None:
            check_kernel(kernel, static)
            function = jax.jit(partial(_run, kernel, structure.sharing(()), static))
            compiled = structure.store.functions.setdefault(code, function)
        arguments = (structure.shared, *arrays)
        shapes = tuple(leaf.shape for leaf in jax.tree.leaves(arguments))
        with refused_when_exhausted(f'"{describe(*code)}"'):
            if (code, shapes) in structure.store.seen:
                return jax.tree.map(np.asarray, compiled(*arguments))
            return jax.tree.map(np.asarray, self._first(compiled, arguments, code, shapes, structure.store))

    def _first(self, compiled: Callable[..., Any], arguments: Any, code: Any, shapes: Any, store: Store) -> Any:
        name = describe(*code)
        start = time.perf_counter()
        with stage(f"compiling {name}"):
            result = jax.block_until_ready(compiled(*arguments))
        self.log.append(Compilation(name, shapes, time.perf_counter() - start))
        store.seen.add((code, shapes))
        return result

    @property
    def seconds(self) -> float:
        """Time spent compiling so far."""
        return sum(entry.seconds for entry in self.log)


def _run(kernel: Kernel, structure: Structure, static: dict[str, Any], shared: Any, *arrays: Any) -> Any:
    return kernel(structure.sharing(shared), *arrays, **static)


def check_kernel(kernel: Kernel, static: dict[str, Any]) -> None:
    """Refuse what could carry more than its name says."""
    if not inspect.isfunction(kernel) or kernel.__closure__ or "<" in kernel.__qualname__:
        name = getattr(kernel, "__qualname__", type(kernel).__name__)
        raise TypeError(f"{name} is no function of a module. Compile one, and give it what it needs as arguments.")
    wrong = [name for name, value in static.items() if not _is_plain(value)]
    if wrong:
        raise TypeError(f'"{wrong[0]}" of {kernel.__qualname__} is no number or name. Give arrays by position.')


def _is_plain(value: Any) -> bool:
    return all(map(_is_plain, value)) if isinstance(value, tuple) else isinstance(value, _PLAIN)


def describe(kernel: Kernel, static: tuple[tuple[str, Any], ...]) -> str:
    """A kernel in words, by the first line of its docstring, and its static arguments."""
    words = inspect.getdoc(kernel) or kernel.__name__
    which = ", ".join(f"{name} = {value}" for name, value in static)
    return words.splitlines()[0].rstrip(".") + (f" ({which})" if which else "")
