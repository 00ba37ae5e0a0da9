"""The code of a model as a worker runs it: exported kernels of JAX, which need neither the model nor PyMC.

The package calls a kernel by its name (`compute.compiler`); here the exported ones stand where the compiled ones do, so that
what predicts and scores a table does so with a partition too. What JAX cannot export travels as the model's own functions, and
then PyMC has to be on the worker.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax import export

from pymc_bpls.compute.store import Store
from pymc_bpls.compute.travel import Shelf
from pymc_bpls.lazy.rows import Container, Group


@dataclass(frozen=True)
class Exported:
    """A function of arrays, serialized; `dtypes` are those of its arguments' leaves, `digest` says what it computes."""

    code: bytes
    dtypes: tuple[str, ...]
    digest: str

    @cached_property
    def call(self) -> Callable[..., Any]:
        """The function, compiled for each length that comes."""
        made, dtypes = export.deserialize(bytearray(self.code)), self.dtypes

        def cast(*arguments: Any) -> Any:
            leaves, tree = jax.tree.flatten(arguments)
            return made.call(*jax.tree.unflatten(tree, [x.astype(d) for x, d in zip(leaves, dtypes, strict=True)]))

        return jax.jit(cast)

    def __getstate__(self) -> dict[str, Any]:
        return {"code": self.code, "dtypes": self.dtypes, "digest": self.digest}


@dataclass(frozen=True)
class Predictors:
    """How many linear predictors a row has, and which of its inputs its likelihood takes besides."""

    size: int
    inputs: tuple[int, ...]


@dataclass(frozen=True)
class ExportedStructure:
    """In place of a model's structure: what was compiled of it, its classes and its predictors."""

    store: Store
    class_values: np.ndarray
    affine_map: Predictors | None
    shared: tuple[()] = ()


@dataclass(frozen=True)
class Code:
    """Everything of a model that does not change from one fit to the next.

    `rows` gives leaves and group indices from containers; `kernels` are exported ones by kernel and static arguments, and
    `structure` is the model's own where they could not be. `key` names it all: a
    process that has it makes nothing again. `tables` of its functions are those that are there already.
    """

    key: str
    rows: Any
    kernels: Mapping[Any, Exported]
    structure: Any
    class_values: np.ndarray
    affine_map: Predictors | None
    containers: Sequence[Container]
    groups: Sequence[Group]
    start: np.ndarray
    tables: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def functions(self) -> Any:
        """The structure with its kernels, by which engines compute."""
        if self.structure is not None:
            return self.structure
        store = Store({code: _unshared(exported) for code, exported in self.kernels.items()}, tables=dict(self.tables))
        return ExportedStructure(store, self.class_values, self.affine_map)

    @cached_property
    def inputs_of(self) -> Callable[..., tuple[jax.Array, ...]]:
        """From arrays of the containers to leaves and group indices."""
        return self.rows.call if isinstance(self.rows, Exported) else jax.jit(self.rows)

    def with_tables(self, tables: Mapping[str, Any]) -> Code:
        """With tables of the model's functions."""
        return replace(self, tables=dict(tables), key=f"{self.key}-{'-'.join(sorted(tables))}")

    def __reduce__(self) -> Any:
        return _known_or_made, (self.key, self._pickled)

    @cached_property
    def _pickled(self) -> bytes:
        import cloudpickle

        names = [name for name in self.__dataclass_fields__]
        return bytes(cloudpickle.dumps({name: getattr(self, name) for name in names}))


def _unshared(exported: Exported) -> Callable[..., Any]:
    """As the compiler calls it: with the arrays that a structure shares first, of which there are none."""
    return lambda shared, *arrays: exported.call(*arrays)


_shelf = Shelf(kept=2)


def _known_or_made(key: str, pickled: bytes) -> Code:
    return _shelf.get(key, lambda: _made(pickled))


def _made(pickled: bytes) -> Code:
    fields = pickle.loads(pickled)
    jax.config.update("jax_enable_x64", True)
    return Code(**fields)
