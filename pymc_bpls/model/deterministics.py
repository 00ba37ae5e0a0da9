"""A model's `pm.Deterministic` variables, as functions of the unconstrained parameters."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from pytensor.graph.traversal import ancestors

from pymc_bpls.model.density import Parameters, held_constant
from pymc_bpls.model.graphs.jaxify import jaxify
from pymc_bpls.model.graphs.slicing import remake
from pymc_bpls.model.problem import Problem


def deterministics(problem: Problem) -> Parameters:
    """The Deterministics of θ that are no parameters themselves, with their dims and coords.

    What depends on the labels is no function of θ and is left out. A dim whose coords have another length, as that of rows to
    which a pool was added, has the variable's own name instead.

    Raises
    ------
    ModelError
        One of them has an operation without JAX version.
    """
    held, source = problem.density.parameters, problem.source
    known = {rv.name for rv in problem.model.free_RVs} | set(held.variables)
    variables = [variable for variable in problem.model.deterministics if variable.name not in known]
    outputs = problem.model.replace_rvs_by_values(variables)
    of_theta = {v.name: out for v, out in zip(variables, outputs, strict=True) if source.label not in set(ancestors([out]))}
    outputs = list(of_theta.values())
    theta, parts = source.theta()
    compute = jax.jit(jaxify([theta], remake(outputs, {**held_constant(outputs, source), **parts}))) if outputs else _nothing
    shapes = [value.shape for value in jax.eval_shape(compute, problem.density.start)]
    dims = {name: _dims(problem, name, shape) for name, shape in zip(of_theta, shapes, strict=True)}
    return Parameters(tuple(of_theta), held.sizes, (), compute, dims, held.coords, held.units)


def _nothing(_theta: jax.Array) -> tuple[Any, ...]:
    return ()


def _dims(problem: Problem, name: str, shape: tuple[int, ...]) -> tuple[str, ...]:
    coords = problem.density.parameters.coords
    own = [f"{name}_dim_{axis}" for axis in range(len(shape))]
    named = problem.model.named_vars_to_dims.get(name) or own
    return tuple(
        str(dim) if dim is not None and len(coords.get(dim, np.empty(size))) == size else nameless
        for dim, size, nameless in zip(named, shape, own, strict=True)
    )
