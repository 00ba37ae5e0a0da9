"""The joint log-likelihood L of some rows of a table, for rows that depend on each other given θ.

L(θ; rows) is the model's log-likelihood as if it had been declared on these rows alone, in the table's order: data with a value
for each row is taken at these rows, a matrix with a value for each pair of rows in both directions, and whatever is computed
from labels or parameters (a lag, a covariance) is computed anew. As for rows that are independent, what the model computes from
data alone (a mean of a column) is that of the whole table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.tensor.basic import Join
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.subtensor import IncSubtensor, Subtensor

from pymc_bpls.compute.store import Store
from pymc_bpls.errors import BPLSError, ModelError
from pymc_bpls.model.data.labels import Classes
from pymc_bpls.model.graphs.jaxify import jaxify
from pymc_bpls.model.graphs.slicing import (
    PLAIN,
    Source,
    constant,
    evaluate,
    frontier,
    remake,
    table_graph,
    trailing,
    unchecked,
    wide,
)

_ALONG_ROWS = (DimShuffle, Elemwise, SpecifyShape, Subtensor, IncSubtensor, Join)
_CASES = 3
_ROUNDING = 1e-8
DEPENDENT = "The rows are dependent given the parameters"


@dataclass(frozen=True)
class SubTables:
    """L of any rows; `axes` says for each leaf in how many of its leading dimensions rows are taken (0: none).

    What was made for a number of rows is kept in `functions` (JAX's), `plain_functions` (PyTensor's) and `stores` (compiled).
    """

    source: Source
    log_lik: Variable
    values: Mapping[Variable, Any]
    axes: Mapping[Variable, int]
    class_values: np.ndarray
    functions: dict[int, Any] = field(default_factory=dict)
    plain_functions: dict[int, Any] = field(default_factory=dict)
    stores: dict[int, Store] = field(default_factory=dict)

    @property
    def leaves(self) -> list[Variable]:
        """The leaves with a value for each row, or for each pair of rows."""
        return [leaf for leaf, axes in self.axes.items() if axes]

    @cached_property
    def table(self) -> tuple[np.ndarray, ...]:
        """The values of `leaves`, each with N as its leading dimension."""
        return tuple(np.array(self.values[leaf], dtype=wide(leaf)) for leaf in self.leaves)

    @property
    def data(self) -> tuple[np.ndarray, ...]:
        """Row positions and the values of `leaves`."""
        return np.arange(self.source.n_rows), *self.table

    def at(self, positions: Any, table: Sequence[Any]) -> list[Any]:
        """The values of `leaves` at rows (n,), out of `table`."""
        axes = (self.axes[leaf] for leaf in self.leaves)
        return [
            values[positions] if axis == 1 else values[positions[:, None], positions[None, :]]
            for axis, values in zip(axes, table, strict=True)
        ]

    def graph(self, size: int, *, checked: bool = True) -> tuple[list[Variable], list[Variable]]:
        """θ, labels and the inputs for `leaves`, and L of `size` rows as a graph of them."""
        theta, parts = self.source.theta()
        label = pt.tensor("label", dtype=self.source.label.type.dtype, shape=(size, *trailing(self.source.label)))
        inputs = {
            leaf: pt.tensor(
                dtype=wide(leaf), shape=(*(size,) * self.axes[leaf], *np.shape(self.values[leaf])[self.axes[leaf] :])
            )
            for leaf in self.leaves
        }
        fixed = {leaf: constant(leaf, value) for leaf, value in self.values.items() if leaf not in inputs}
        [out] = remake(
            [self.log_lik],
            {**fixed, **inputs, **parts, self.source.label: label},
            row_inputs={label, *inputs.values()},
            lengths=self.source.lengths,
            size=size,
            check=None if checked else unchecked,
        )
        return [theta, label, *inputs.values()], [out.sum()]

    def plain(self, theta: np.ndarray, codes: np.ndarray, positions: np.ndarray) -> float:
        """L at θ of rows with class codes, by PyTensor without rewrites."""
        size = len(positions)
        if size not in self.plain_functions:
            inputs, outputs = self.graph(size, checked=False)
            self.plain_functions[size] = pytensor.function(inputs, outputs, mode=PLAIN, on_unused_input="ignore")
        with np.errstate(all="ignore"):
            return float(self.plain_functions[size](theta, self.class_values[codes], *self.at(positions, self.table))[0])

    def sums_of_one(self, theta: np.ndarray) -> np.ndarray:
        """Σ_y exp L of each row with class y, as if it were the whole table (N,): 1 where L is a probability of the labels."""

        at, table = jnp.asarray(theta), tuple(map(jnp.asarray, self.table))

        def one(position: jax.Array) -> jax.Array:
            values = [self(at, jnp.array([code]), position[None], table) for code in range(len(self.class_values))]
            return jnp.exp(jax.scipy.special.logsumexp(jnp.array(values)))

        return np.asarray(jax.jit(lambda rows: jax.lax.map(one, rows))(jnp.arange(self.source.n_rows)))

    def __call__(self, theta: jax.Array, codes: jax.Array, positions: jax.Array, table: Sequence[jax.Array]) -> jax.Array:
        """L at θ of rows (n,) of `table`, in this order, with class codes (n,), as a JAX function."""
        size = positions.shape[0]
        if size not in self.functions:
            with jax.ensure_compile_time_eval():  # constants of the graph belong to no trace
                self.functions[size] = jaxify(*self.graph(size))
        labels = jnp.asarray(self.class_values)[codes]
        return self.functions[size](theta, labels, *self.at(positions, table))[0]

    def log_lik_graph(self, theta: Variable, codes: np.ndarray, positions: np.ndarray) -> Variable:
        """L of rows (n,), in this order, with class codes (n,), as a PyTensor graph of θ."""
        inputs, outputs = self.graph(len(positions))
        given = [theta, pt.constant(self.class_values[codes]), *map(pt.constant, self.at(positions, self.table))]
        [made] = remake(outputs, dict(zip(inputs, given, strict=True)))
        return made


def find_subtables(
    source: Source, log_lik: Variable, classes: Classes, start: np.ndarray, marginal: Callable[..., float] | None
) -> SubTables:
    """How rows are to be taken out of the table's data so that its log-likelihood can be made for any number of rows.

    Every reading that can be made for fewer rows, and that for all rows reproduces the whole table, has to give the same L.
    `marginal(theta, labels, positions)` is L of some rows where that is known otherwise; readings of another L are left out.

    Raises
    ------
    ModelError
        There is no such reading, or there are several that differ.
    """
    values = _leaves(source, log_lik)
    found: list[tuple[SubTables, list[float]]] = []
    problems: list[str] = []
    probe: _Probe | None = None
    for axes in _readings(values, source.n_rows):
        reading = SubTables(source, log_lik, values, axes, classes.values)
        try:
            probe = probe or _Probe(source, log_lik, classes, start, marginal)
            found.append((reading, probe.values_by(reading)))
        except BPLSError:
            raise
        except (TypeError, ValueError, AssertionError, IndexError, np.linalg.LinAlgError) as error:
            problems.append(str(error).splitlines()[0])
    if not found:
        raise ModelError(_no_reading(source, values, problems))
    reading, expected = found[0]
    for other, differing in found[1:]:
        if not np.allclose(differing, expected, rtol=_ROUNDING, atol=_ROUNDING):
            leaf = next(leaf for leaf, axes in other.axes.items() if axes != reading.axes[leaf])
            raise ModelError(
                f"{DEPENDENT}, and data of shape {np.shape(values[leaf])} can be cut to fewer of them in ways that differ. "
                "Declare a covariance by values for pairs of rows, and a table whose number of rows no other dimension has."
            )
    return reading


class _Probe:
    """L of the whole table and of some of its rows at random parameters and labels."""

    def __init__(
        self,
        source: Source,
        log_lik: Variable,
        classes: Classes,
        start: np.ndarray,
        marginal: Callable[..., float] | None,
    ) -> None:
        self.marginal = marginal
        rng = np.random.default_rng(0)
        table = table_graph(source, log_lik, checked=False)
        whole = pytensor.function([table.theta, table.label], table.log_lik.sum(), mode=PLAIN, on_unused_input="ignore")
        n = source.n_rows
        self.everything = np.arange(n)
        self.cases = []
        for _ in range(_CASES):
            theta = start + 0.3 * rng.normal(size=len(start))
            codes = rng.integers(0, len(classes), n)
            with np.errstate(all="ignore"):
                self.cases.append((theta, codes, float(whole(theta, classes.values[codes]))))
        smaller = max(n // 2, 1)
        self.some = [np.sort(rng.choice(n, size=size, replace=False)) for size in {smaller, min(smaller + 1, n)}]

    def values_by(self, reading: SubTables) -> list[float]:
        """L of some rows; an error where the whole table is not reproduced."""
        for theta, codes, expected in self.cases:
            found = reading.plain(theta, codes, self.everything)
            if not np.isclose(found, expected, rtol=_ROUNDING, atol=_ROUNDING, equal_nan=True):
                raise ValueError("the log-likelihood of all rows is not reproduced")
        fewer = [(theta, codes[rows], rows) for theta, codes, _ in self.cases for rows in self.some]
        values = [reading.plain(*case) for case in fewer]
        if not np.isfinite(values).any():
            raise ValueError("it is not finite at random labels")
        if self.marginal is not None:
            known = [self.marginal(theta, reading.class_values[codes], rows) for theta, codes, rows in fewer]
            if not np.allclose(values, known, rtol=_ROUNDING, atol=_ROUNDING, equal_nan=True):
                raise ValueError("it is not the marginal of that of all rows, as where a precision matrix is cut")
        return values


def _leaves(source: Source, log_lik: Variable) -> dict[Variable, Any]:
    """What depends on neither parameters nor labels, with its values. Parts of data along the rows (`X[:-1]`) are no leaves:
    the data is.
    """
    leaves = frontier([log_lik], source.dynamic())
    below = _along_rows(leaves)
    values = dict(zip(below, evaluate(below, source.givens), strict=True))
    kept: dict[Variable, Any] = {}
    for leaf in leaves:
        kept.update((variable, values[variable]) for variable in _cut(leaf, values, source.n_rows) or [leaf])
    return kept


def _along_rows(leaves: list[Variable]) -> list[Variable]:
    """The leaves and what they are made of by operations along the rows."""
    found = dict.fromkeys(leaves)
    for variable in (queue := list(leaves)):
        if variable.owner is not None and isinstance(variable.owner.op, _ALONG_ROWS):
            queue.extend(new for new in variable.owner.inputs if new not in found)
            found.update(dict.fromkeys(variable.owner.inputs))
    return list(found)


def _cut(leaf: Variable, values: Mapping[Variable, Any], n_rows: int) -> list[Variable]:
    """The row data that a part of it is made of, with what else goes into that; nothing where it is made of none."""
    shape = np.shape(values[leaf])
    turned = leaf.owner is not None and isinstance(leaf.owner.op, DimShuffle)
    if shape[:1] == (n_rows,) and not (turned and shape[1:2] == (n_rows,)):
        return [leaf]
    if not shape or leaf.owner is None or not isinstance(leaf.owner.op, _ALONG_ROWS):
        return []
    parts = [(variable, _cut(variable, values, n_rows)) for variable in leaf.owner.inputs]
    along = any(cut and (turned or np.ndim(values[variable]) == len(shape)) for variable, cut in parts)
    return [part for variable, cut in parts for part in cut or [variable]] if along else []


def _readings(values: Mapping[Variable, Any], n_rows: int) -> Iterator[dict[Variable, int]]:
    """The most likely reading, those in which one leaf is read in another way, and matrices all taken by rows alone."""
    ways = {leaf: _ways(np.shape(value), n_rows) for leaf, value in values.items()}
    first = {leaf: options[0] for leaf, options in ways.items()}
    yield first
    yield from ({**first, leaf: other} for leaf, options in ways.items() for other in options[1:])
    by_rows = {leaf: min(axes, 1) for leaf, axes in first.items()}
    if sum(by_rows[leaf] != axes for leaf, axes in first.items()) > 1:
        yield by_rows


def _ways(shape: tuple[int, ...], n_rows: int) -> tuple[int, ...]:
    """In how many leading dimensions data of a shape may hold rows, the most likely first."""
    if shape[:1] != (n_rows,):
        return (0,)
    return (2, 1, 0) if shape[1:2] == (n_rows,) else (1, 0)


def _no_reading(source: Source, values: Mapping[Variable, Any], problems: list[str]) -> str:
    grown = [str(variable.name) for variable, (_, shape) in source.values.items() if source.lengths & set(shape)]
    if grown:
        return (
            f'{DEPENDENT}, and "{grown[0]}" has a value for each of them. '
            "Declare a likelihood that factorises over the rows, or parameters whose number does not grow with them."
        )
    near = [np.shape(value) for value in values.values() if np.ndim(value) and 0 < source.n_rows - len(value) <= 3]
    where = f"data of shape {near[0]} has no entry for some of them" if near else problems[0]
    return (
        f"{DEPENDENT}, and their log-likelihood cannot be made for fewer of them ({where}). Build lags and matrices in the "
        "model, from labels and from data with an entry for each row, or declare rows that are independent."
    )
