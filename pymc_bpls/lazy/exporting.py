"""A model's code for workers: its kernels exported with a symbolic number of rows, or its own functions where that fails."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import export

from pymc_bpls.approximations.predictions import predictive
from pymc_bpls.approximations.predictions.replicates import DRAWS_AT_ONCE, REPLICATES
from pymc_bpls.compute.compiler import Kernel
from pymc_bpls.engine.engine import Engine
from pymc_bpls.engine.newton import kernels
from pymc_bpls.lazy.code import Code, Exported, Predictors
from pymc_bpls.lazy.row_graph import RowInputs, row_inputs
from pymc_bpls.model.problem import Problem
from pymc_bpls.text.progress import stage

_AVERAGED = tuple({"of": of} for of in (predictive.LIKELIHOOD, predictive.PROBABILITY, predictive.SURPRISE))


def code_of(problem: Problem, engine: Engine) -> Code:
    """The code of a model for rows of its data containers.

    Raises
    ------
    RowError, ModelError
        As `row_inputs`.
    """
    with stage("code for workers"):
        inputs = row_inputs(problem, engine)
        density, affine = engine.density, engine.density.structure.affine_map
        rows: Any = inputs.function
        structure: Any = density.structure
        compiled: Mapping[Any, Exported] = {}
        try:
            rows, compiled = _exported_rows(inputs), _exported_kernels(engine)
            structure = None
        except (NotImplementedError, TypeError, ValueError):  # an operation that JAX does not export
            rows = inputs.function
        digest = hashlib.sha256(problem.fingerprint.encode())
        for each in (*compiled.values(), *([rows] if isinstance(rows, Exported) else [])):
            digest.update(each.digest.encode())
        return Code(
            key=f"{digest.hexdigest()[:16]}{'' if structure is None else '-own'}",
            rows=rows,
            kernels=compiled,
            structure=structure,
            class_values=density.class_values,
            affine_map=None if affine is None else Predictors(affine.size, affine.inputs),
            containers=inputs.containers,
            groups=inputs.groups,
            start=density.start,
        )


def exported_over_rows(engine: Engine, kernel: Kernel, arrays: Sequence[Any], static: Mapping[str, Any]) -> Exported | None:
    """`kernel(structure, weights, rows, *arrays, **static)` for any number of rows, or None where JAX does not export it."""
    n = export.symbolic_shape("n")[0]
    rows = tuple(_array((n, *values.shape[1:]), values.dtype) for values in engine.density.data)
    others = [_array(np.shape(array), np.asarray(array).dtype) for array in arrays]
    try:
        return _export(partial(kernel, engine.density.structure, **static), _array((n,)), rows, *others)
    except (NotImplementedError, TypeError, ValueError):
        return None


def _array(shape: tuple[Any, ...], dtype: Any = float) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, np.dtype(dtype))


def _export(function: Callable[..., Any], *arguments: Any) -> Exported:
    made = export.export(jax.jit(function), platforms=("cpu", "cuda"))(*arguments)
    digest = hashlib.sha256(made.mlir_module().encode()).hexdigest()  # the serialized code has places in source files, too
    return Exported(bytes(made.serialize()), tuple(str(leaf.dtype) for leaf in jax.tree.leaves(arguments)), digest)


def _exported_rows(inputs: RowInputs) -> Exported:
    n = export.symbolic_shape("n")[0]
    wide = [np.dtype(float) if each.dtype.kind == "f" else each.dtype for each in inputs.containers]
    arguments = [_array((n, *each.shape), dtype) for each, dtype in zip(inputs.containers, wide, strict=True)]
    return _export(inputs.function, *arguments)


def _exported_kernels(engine: Engine) -> dict[Any, Exported]:
    """Kernels that rows are predicted and scored by, by what they are known by."""
    density, structure = engine.density, engine.density.structure
    n = export.symbolic_shape("n")[0]
    theta, codes = _array((density.dimension,)), _array((n,), np.int64)
    rows = tuple(_array((n, *values.shape[1:]), values.dtype) for values in density.data)
    draws = REPLICATES, DRAWS_AT_ONCE
    wanted: list[tuple[Any, dict[str, Any], tuple[Any, ...]]] = [
        (kernels.log_lik_classes, {}, (theta, rows)),
        (predictive.log_odds_gradients, {}, (theta, codes, rows)),
    ]
    affine = structure.affine_map
    if affine is None:
        over = _array((*draws, density.dimension))
        wanted += [(predictive.mean_liks_over_draws, static, (over, rows)) for static in _AVERAGED]
    else:
        p, own = affine.size, tuple(rows[i] for i in affine.inputs)
        eta = _array((n, p))
        wanted += [(kernels.design, {}, (theta, rows)), (kernels.log_lik_at, {}, (eta, codes, *own))]
        wanted += [(kernels.derivatives_at, {}, (eta, codes, *own))]
        moments = (_array((*draws, p)), eta, _array((n, p, p)), *own)
        wanted += [(predictive.mean_liks_over_predictors, static, moments) for static in _AVERAGED if p > 1]
    return {
        (kernel, tuple(sorted(static.items()))): _export(partial(kernel, structure, **static), *arguments)
        for kernel, static, arguments in wanted
    }
