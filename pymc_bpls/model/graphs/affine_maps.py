"""Linear predictors: the few affine functions of θ through which one row's log-likelihood depends on it.

In the graph of one row, a variable is affine in θ where it passes a numerical test at random points; nothing is declared.
The *cut* consists of the affine variables that feed something that is not affine, without those that are functions of the
others. Then ℓ_j(θ) = g(η_j), η_j = A_j θ + b_j with A_j of shape (p, q): a logistic or probit regression has p = 1, a softmax
p = K, a hierarchy η = a + x'β + σ z_g with free σ p = 3, an ordinal model with free cutpoints one more than it has cutpoints.
Derivatives in η (p of them, elementwise) and matrix products then replace derivatives in θ (q of them).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.tensor.elemwise import Elemwise

from pymc_bpls.compute.travel import OfFields
from pymc_bpls.model.graphs.indexing import GATHERS
from pymc_bpls.model.graphs.jaxify import jaxify
from pymc_bpls.model.graphs.slicing import PLAIN, RowGraph, depends, remake

MOST_PREDICTORS = 64
_PAIRS = 4
_ROWS = 6
_MIXES = (0.3, -0.7, 2.5)
_TOLERANCE = 1e-9
_LARGEST = 1e100


@dataclass(frozen=True)
class AffineMap(OfFields):
    """ℓ = `log_lik(eta, label, *some)`, η = `eta(theta, *rows)` of shape (p,), for one row (leading dimension 1).

    `inputs` says which of the row's inputs `some` are.
    """

    eta: Callable[..., jax.Array]
    log_lik: Callable[..., jax.Array]
    size: int
    inputs: tuple[int, ...]

    @cached_property
    def _eta_of_rows(self) -> Callable[..., jax.Array]:
        return jax.jit(jax.vmap(lambda theta, row: self.eta(theta, *(values[None] for values in row)), (None, 0)))

    def holds_on(self, graph: RowGraph, start: np.ndarray) -> bool:
        """Whether η is affine in θ on the rows of `graph`, which may be of another table than that on which it was found."""
        rng = np.random.default_rng(0)
        some = rng.choice(_usable_rows(graph), _ROWS)
        rows = tuple(values[some] for values in graph.data)
        for first, second in _far_pairs(rng, start):
            at_first, at_second = (np.asarray(self._eta_of_rows(theta, rows)) for theta in (first, second))
            for t in _MIXES:
                mixed = np.asarray(self._eta_of_rows(t * first + (1 - t) * second, rows))
                if not all(_is_mix(*row, t) for row in zip(mixed, at_first, at_second, strict=True)):
                    return False
        return True


def _far_pairs(rng: np.random.Generator, start: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of points around the start, near and far."""
    for _ in range(_PAIRS):
        first, second = (start + rng.normal(size=len(start)) * rng.choice([0.5, 3.0]) for _ in range(2))
        yield first, second


def _is_mix(mixed: np.ndarray, first: np.ndarray, second: np.ndarray, t: float) -> bool:
    """Whether a value at tθ + (1 − t)θ' is the same mixture of those at θ and θ'."""
    scale = 1e-300 + np.abs(first).max() + np.abs(second).max()
    return bool(np.abs(mixed - (t * first + (1 - t) * second)).max() <= _TOLERANCE * scale)


def find_affine_map(graph: RowGraph, start: np.ndarray) -> AffineMap | None:
    """The linear predictors of one row, or None where there are more than 64, or not fewer than parameters."""
    if not graph.sliced:
        return None
    graph = replace(graph, log_lik=gather_first(graph.log_lik))
    cut = _cut(graph, start)
    if not cut:
        return None
    size = sum(map(size_of, cut))
    if size > 1 and 2 * size > min(2 * MOST_PREDICTORS, len(start)):
        return None
    return map_through(graph, cut)


def map_through(graph: RowGraph, cut: Sequence[Variable]) -> AffineMap | None:
    """ℓ of one row as a function of the variables `cut`, and these as functions of θ; None where θ reaches ℓ otherwise."""
    sizes = [size_of(variable) for variable in cut]
    flat = pt.concatenate([variable.ravel() for variable in cut])
    eta = jaxify([graph.theta, *graph.rows], [flat])
    vector = pt.tensor("eta", dtype="float64", shape=(sum(sizes),))
    ends = np.cumsum(sizes)
    parts = {
        variable: vector[end - size : end].reshape(_static_shape(variable)).astype(variable.type.dtype)
        for variable, size, end in zip(cut, sizes, ends, strict=True)
    }
    [above] = remake([graph.log_lik], parts)
    if graph.theta in set(ancestors([above])):
        return None
    needed = set(ancestors([above]))
    inputs = tuple(i for i, row in enumerate(graph.rows) if row in needed)
    log_lik = jaxify([vector, graph.label, *(graph.rows[i] for i in inputs)], [above])
    return AffineMap(
        eta=lambda theta, *rows: jnp.atleast_1d(eta(theta, *rows)[0]),
        log_lik=lambda eta, label, *some: log_lik(eta, label, *some)[0][0],
        size=sum(sizes),
        inputs=inputs,
    )


def gather_first(log_lik: Variable) -> Variable:
    """The graph with f(z)[g] written as f(z[g]): a row then depends on its own group's entries of z alone."""

    def gather(vector: Variable, index: Variable) -> Variable:
        node = vector.owner
        if node is None or not isinstance(node.op, Elemwise):
            return vector[index]
        return node.op(*(part if part.type.broadcastable == (True,) else gather(part, index) for part in node.inputs))

    lifted = {
        node.outputs[0]: gather(node.inputs[0], node.inputs[1])
        for node in io_toposort([], [log_lik])
        if isinstance(node.op, GATHERS)
        and len(node.inputs) == 2
        and node.inputs[0].type.ndim == 1
        and node.inputs[1].type.ndim == 1
    }
    [out] = remake([log_lik], lifted)
    return out


def _static_shape(variable: Variable) -> tuple[int, ...]:
    return tuple(-(10**9) if length is None else length for length in variable.type.shape)


def _cut(graph: RowGraph, start: np.ndarray) -> list[Variable]:
    """Affine variables that feed a variable that is not affine or depends on the label."""
    of_theta, of_label = depends([graph.log_lik], {graph.theta}), depends([graph.log_lik], {graph.label})
    nodes = io_toposort([], [graph.log_lik])
    tested = [
        variable
        for node in nodes
        for variable in node.outputs
        if variable in of_theta
        and variable not in of_label
        and getattr(variable.type, "dtype", None) == "float64"
        and None not in variable.type.shape
    ]
    affine = {graph.theta, *_affine(graph, tested, start)}
    cut: dict[Variable, None] = {}
    for node in nodes:
        if any(output in of_theta and output not in affine for output in node.outputs):
            cut.update((_narrowest(variable, affine, graph.theta), None) for variable in node.inputs if variable in affine)
    return _independent(list(cut), graph.theta)


def _narrowest(variable: Variable, affine: set[Variable], theta: Variable) -> Variable:
    """The affine variable with the fewest entries through which alone `variable` depends on θ."""
    size = size_of(variable)
    for below in ancestors([variable]):
        narrower = below in affine and below is not theta and size_of(below) < size
        if narrower and theta not in set(ancestors([variable], blockers=[below])):
            return _narrowest(below, affine, theta)
    return variable


def size_of(variable: Variable) -> int:
    """How many numbers it has."""
    return int(np.prod(_static_shape(variable), dtype=int))


def _affine(graph: RowGraph, tested: Sequence[Variable], start: np.ndarray) -> list[Variable]:
    """Variables v with v(tθ + (1 − t)θ') = t v(θ) + (1 − t) v(θ') at random θ, θ' and rows."""
    if not tested:
        return []
    function = pytensor.function([graph.theta, *graph.rows], list(tested), mode=PLAIN, on_unused_input="ignore")
    rng = np.random.default_rng(0)
    passed = np.ones(len(tested), dtype=bool)
    with np.errstate(all="ignore"):
        for row in rng.choice(_usable_rows(graph), _ROWS):
            inputs = [values[row : row + 1] for values in graph.data]
            for first, second in _far_pairs(rng, start):
                at_first, at_second = function(first, *inputs), function(second, *inputs)
                for t in _MIXES:
                    mixed = function(t * first + (1 - t) * second, *inputs)
                    for i, (value, v1, v2) in enumerate(zip(mixed, at_first, at_second, strict=True)):
                        passed[i] &= _is_mix(value, v1, v2, t)
    return [variable for variable, good in zip(tested, passed, strict=True) if good]


def _usable_rows(graph: RowGraph) -> np.ndarray:
    """Positions of rows whose data are finite and do not overflow in products; all rows where there are none."""
    usable = np.ones(len(graph.data[0]), dtype=bool)
    for values in graph.data:
        with np.errstate(invalid="ignore"):
            usable &= (np.abs(values.reshape(len(values), -1).astype(float)) < _LARGEST).all(axis=1)
    return np.flatnonzero(usable) if usable.any() else np.arange(len(usable))


def _independent(cut: list[Variable], theta: Variable) -> list[Variable]:
    """The cut without variables that depend on θ only through its other variables."""
    kept = list(cut)
    for variable in reversed(cut):
        others = [other for other in kept if other is not variable]
        if variable is not theta and theta not in set(ancestors([variable], blockers=others)):
            kept = others
    return kept
