"""From the data containers of some rows to what the model computes of these: its row inputs, as a function of rows alone.

In a table in memory what does not depend on parameters is computed once, on all rows. A partition holds some of them, so that
each row's values must be those of its own data: that is compared on the declared rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

from pymc_bpls.engine.engine import Engine
from pymc_bpls.engine.newton import kernels
from pymc_bpls.errors import ModelError, RowError
from pymc_bpls.lazy.rows import Container, Group
from pymc_bpls.model.data.named_axes import NamedAxes
from pymc_bpls.model.data.table import row_containers
from pymc_bpls.model.graphs.jaxify import jaxify
from pymc_bpls.model.graphs.slicing import remake, wide
from pymc_bpls.model.groups import group_indices, levels_of_group, name_of_group
from pymc_bpls.model.problem import Problem

_ROUNDING = 1e-9
_INSTEAD = "Give the pool in memory, or make these values before and declare them with pm.Data"


@dataclass(frozen=True)
class RowInputs:
    """`function(*containers)` gives the leaves of each row and then the indices of `groups`, from arrays (rows, …)."""

    function: Callable[..., tuple[jax.Array, ...]]
    containers: tuple[Container, ...]
    groups: tuple[Group, ...]


def containers_of(problem: Problem) -> tuple[Container, ...]:
    """The data containers with a value a row."""
    model = problem.model
    held = row_containers(model, problem.label, problem.log_lik, problem.source.n_rows)
    return tuple(
        Container(np.dtype(data.type.dtype), data.get_value(borrow=True).shape[1:], NamedAxes.of(model, name, data.ndim))
        for name, data in held.items()
    )


def row_inputs(problem: Problem, engine: Engine) -> RowInputs:
    """The function, compared with what the declared rows have.

    Raises
    ------
    RowError
        Row data is no data container's, or a row's values depend on other rows, as those of a table statistic do.
    ModelError
        The rows of the model depend on each other, or have parameters of their own.
    """
    density, model = problem.density, problem.model
    if density.joint is not None or not density.graph.sliced:
        raise ModelError(
            f'Rows of "{problem.name}" cannot be taken apart from its table, so that a lazy pool cannot be scored by parts. '
            "Give the pool in memory."
        )
    containers, leaves = containers_of(problem), density.graph.leaves
    held = [model[container.name] for container in containers]
    inputs = [
        pt.tensor(dtype=wide(data), shape=(1, *container.shape)) for data, container in zip(held, containers, strict=True)
    ]
    of_rows = set(held)
    baked = [leaf for leaf in leaves if not of_rows & set(ancestors([leaf]))]
    if baked:
        raise RowError(
            f"The likelihood holds constants with a value for each of the {problem.source.n_rows} declared rows, so that pool= "
            "cannot add rows. Declare them with pm.Data."
        )
    found = [
        (index, size) for index, size in group_indices(problem.source, problem.log_lik) if of_rows & set(ancestors([index]))
    ]
    lengths = {model.dim_lengths[dim]: pt.constant(1, dtype="int64") for dim in _row_dims(problem, containers)}
    outputs = remake(
        [*leaves, *(index for index, _ in found)],
        {**dict(zip(held, inputs, strict=True)), **lengths},
        row_inputs=inputs,
        lengths=problem.source.lengths,
    )
    function = _over_rows(inputs, outputs, [values.dtype for values in density.data[1:]])
    made = RowInputs(
        function,
        containers,
        tuple(Group(name_of_group(model, index), size, levels_of_group(model, size)) for index, size in found),
    )
    _compare(made, problem, engine, [np.asarray(data.get_value(borrow=True)) for data in held])
    return made


def _row_dims(problem: Problem, containers: tuple[Container, ...]) -> set[str]:
    """The dims of the rows that the model names."""
    dims = [(problem.model.named_vars_to_dims.get(each.name) or (None,))[0] for each in containers]
    return {dim for dim in dims if dim is not None}


def _over_rows(inputs: list[Variable], outputs: list[Variable], dtypes: list[Any]) -> Callable[..., tuple[jax.Array, ...]]:
    """The graph of one row for many, its first outputs in the dtypes of the table's."""
    of_one = jaxify(inputs, outputs)

    def one(*row: jax.Array) -> tuple[jax.Array, ...]:
        return tuple(values[0] for values in of_one(*(values[None] for values in row)))

    def many(*rows: jax.Array) -> tuple[jax.Array, ...]:
        values = jax.vmap(one)(*rows)
        cast = [leaf.astype(dtype) for leaf, dtype in zip(values, dtypes, strict=False)]
        return (*cast, *values[len(cast) :])

    return many


def _compare(made: RowInputs, problem: Problem, engine: Engine, held: list[np.ndarray]) -> None:
    """Refuse values of a row that are not those of the declared table, or a likelihood that knows a row by its place."""
    density = problem.density
    values = jax.jit(made.function)(*held)
    same = [
        np.allclose(mine, its, _ROUNDING, _ROUNDING, equal_nan=True)
        for mine, its in zip(values, density.data[1:], strict=False)
    ]
    if not all(same):
        raise RowError(
            f'"{problem.name}" depends on the data of other rows too (by a mean of the whole table, say). {_INSTEAD}.'
        )
    theta = density.start + 0.3 * np.random.default_rng(0).normal(size=density.dimension)
    rows = density.take(problem.table.labeled)
    elsewhere = (np.zeros_like(rows[0]), *rows[1:])
    here, there = (engine.compiler(kernels.log_lik_classes, density.structure, theta, each) for each in (rows, elsewhere))
    if not np.allclose(here, there, rtol=_ROUNDING, atol=_ROUNDING, equal_nan=True):
        raise ModelError(
            f'"{problem.name}" has parameters for each declared row, which rows of a pool have none of. '
            "Declare all rows in one table, -1 where unlabeled."
        )
