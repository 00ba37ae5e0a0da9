"""PyTensor graphs as JAX functions in float64, with the conversions that PyTensor lacks or that overflow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
from pytensor.compile.mode import get_mode
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.link.jax.dispatch.basic import jax_funcify, jax_typify
from pytensor.link.utils import fgraph_to_python
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar.basic import Composite, Log, Log1p, Switch
from pytensor.scalar.math import Erfcx, Log1mexp, Softplus
from pytensor.tensor.elemwise import Elemwise

from pymc_bpls.errors import ModelError
from pymc_bpls.model.graphs.indexing import SCATTERS

_TINY = np.finfo(float).tiny


class NoJaxVersionError(ModelError):
    """An operation of the model cannot be converted."""

    def __init__(self, operation: Any) -> None:
        self.operation = type(operation).__name__
        super().__init__(
            f"The operation {self.operation} of the model has no JAX version. Rewrite that part of the model with another one."
        )


@jax.custom_jvp
def _erfcx(x: jax.Array) -> jax.Array:
    """exp(x²) erfc(x): by its continued fraction where x > 5, where erfc underflows, directly elsewhere."""
    far = jnp.maximum(x, 5.0)
    tail = far
    for k in range(24, 0, -1):
        tail = far + 0.5 * k / tail
    near = jnp.minimum(x, 5.0)
    return jnp.where(x > 5.0, 1.0 / (jnp.sqrt(jnp.pi) * tail), jnp.exp(near * near) * jax.scipy.special.erfc(near))


@_erfcx.defjvp
def _erfcx_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    """erfcx' = 2 x erfcx − 2/√π."""
    (x,), (slope,) = primals, tangents
    value = _erfcx(x)
    return value, (2.0 * x * value - 2.0 / jnp.sqrt(jnp.pi)) * slope


@jax.custom_jvp
def _slope_of_log(x: jax.Array) -> jax.Array:
    """1/x, and 0 where x = 0: a branch that a switch did not take then adds 0 · 0 to a gradient, not 0 · ∞.

    Where the logarithm of 0 was taken, the density is −∞, which is seen in its value.
    """
    nothing = jnp.abs(x) < _TINY
    return jnp.where(nothing, 0.0, 1.0 / jnp.where(nothing, 1.0, x))


@_slope_of_log.defjvp
def _slope_of_log_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    """−dx/x², in an order that does not overflow where dx is small as well."""
    (x,), (step,) = primals, tangents
    inverse = _slope_of_log(x)
    return inverse, -(inverse * step) * inverse


@jax.custom_jvp
def _log(x: jax.Array) -> jax.Array:
    return jnp.log(x)


@_log.defjvp
def _log_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    (x,), (step,) = primals, tangents
    return _log(x), _slope_of_log(x) * step


@jax.custom_jvp
def _log1p(x: jax.Array) -> jax.Array:
    return jnp.log1p(x)


@_log1p.defjvp
def _log1p_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    (x,), (step,) = primals, tangents
    return _log1p(x), _slope_of_log(1.0 + x) * step


def _log1mexp(x: jax.Array) -> jax.Array:
    """log(1 − exp x) for x ≤ 0."""
    return jnp.where(x < jnp.log(0.5), _log1p(-jnp.exp(x)), _log(-jnp.expm1(x)))


CONVERSIONS: dict[type, Callable[..., Any]] = {
    Softplus: jax.nn.softplus,  # PyTensor's overflows in the gradient beyond |x| = 709
    Erfcx: _erfcx,
    Switch: jnp.where,
    Log: lambda x: _log(jnp.asarray(x, dtype=float)),
    Log1p: lambda x: _log1p(jnp.asarray(x, dtype=float)),
    Log1mexp: _log1mexp,
}


def _constant(data: Any, dtype: Any = None, **kwargs: Any) -> Any:
    """A constant of a graph, put where JAX computes as it is: PyTensor's own way compiles a function for each shape."""
    if isinstance(data, np.ndarray) and data.ndim:
        return jax.device_put(np.array(data, dtype=dtype))
    return jax_typify(data, dtype=dtype, **kwargs)


def _composite(op: Composite) -> Callable[..., Any]:
    parts = fgraph_to_python(op.fgraph, _convert, type_conversion_fn=_constant, fgraph_name="composite")
    return lambda *inputs: parts(*inputs)[0] if op.nout == 1 else parts(*inputs)


def _check(*arguments: Any) -> Any:
    """A value whose conditions hold, NaN where one does not: JAX cannot raise, and must not make up a number."""
    value, *conditions = arguments
    if not jnp.issubdtype(jnp.asarray(value).dtype, jnp.floating):
        return value
    holds = jnp.all(jnp.stack([jnp.all(jnp.asarray(condition)) for condition in conditions]))
    return jnp.where(holds, value, jnp.nan)


def _scatter(converted: Callable[..., Any]) -> Callable[..., Any]:
    """PyTensor's own, which takes no plain number to set."""
    return lambda values, new, *indices: converted(values, jnp.asarray(new), *indices)


def _convert(op: Any, node: Any = None, **kwargs: Any) -> Callable[..., Any]:
    scalar_op = op.scalar_op if isinstance(op, Elemwise) else op
    if isinstance(scalar_op, Composite):
        return _composite(scalar_op)
    if isinstance(op, CheckAndRaise):
        return _check
    known = CONVERSIONS.get(type(scalar_op))
    if known is not None:
        return known
    try:
        converted = jax_funcify(op, node=node, **kwargs)
        return _scatter(converted) if isinstance(op, SCATTERS) else converted
    except NotImplementedError as error:
        raise NoJaxVersionError(scalar_op) from error


def jaxify(inputs: Sequence[Variable], outputs: Sequence[Variable]) -> Callable[..., tuple[jax.Array, ...]]:
    """A JAX function of `inputs` that returns `outputs`, after PyTensor's rewrites for JAX.

    Raises
    ------
    ModelError
        `floatX` is not float64, or an operation has no JAX version (it is named).
    """
    if pytensor.config.floatX != "float64":
        raise ModelError(
            f'pytensor.config.floatX is "{pytensor.config.floatX}", too coarse for a Hessian. Set it to "float64".'
        )
    graph = FunctionGraph(inputs=list(inputs), outputs=list(outputs), clone=True)
    get_mode("JAX").optimizer.rewrite(graph)
    return fgraph_to_python(graph, _convert, type_conversion_fn=_constant, fgraph_name="log_density")
