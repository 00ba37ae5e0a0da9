"""Sums over the rows of one partition, on the worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from pymc_bpls.compute.compiler import Compiler, Kernel
from pymc_bpls.compute.threads import as_worker
from pymc_bpls.lazy.code import Code
from pymc_bpls.lazy.part_scorer import row_inputs_of
from pymc_bpls.lazy.parts import Part
from pymc_bpls.lazy.rows import read_rows

_ROWS_AT_ONCE = 2**10


@dataclass(frozen=True)
class Sums:
    """`kernel(structure, weights, rows, *arrays, **static)` for each of some `arguments`, rows having this `weight`."""

    code: Code
    kernel: Kernel
    arguments: Sequence[tuple[np.ndarray, ...]]
    static: Mapping[str, Any]
    weight: float


def sum_part(wanted: Sums, part: Part) -> list[Any]:
    """Over the rows of a partition, some at a time; the last ones are filled up with rows of weight 0."""
    with as_worker():
        held = list(read_rows(part, wanted.code.containers).values())
        blocks = (_sum_rows(wanted, part, first, held) for first in range(0, part.n, _ROWS_AT_ONCE))
        totals = next(blocks)
        for found in blocks:
            totals = jax.tree.map(np.add, totals, found)
        return totals


def _sum_rows(wanted: Sums, part: Part, first: int, held: Sequence[np.ndarray]) -> list[Any]:
    some = [values[first : first + _ROWS_AT_ONCE] for values in held]
    n = len(some[0])
    filled, weights = np.resize(np.arange(n), _ROWS_AT_ONCE), np.where(np.arange(_ROWS_AT_ONCE) < n, wanted.weight, 0.0)
    rows = tuple(values[filled] for values in row_inputs_of(wanted.code, part, first, some))
    compiler: Any = Compiler()
    functions = wanted.code.functions
    return [compiler(wanted.kernel, functions, weights, rows, *arrays, **wanted.static) for arrays in wanted.arguments]
