"""ℓ of one row as a JAX function: the reading of the model's graph for one row that reproduces the whole table.

Each reading (`slicing`) is compared with PyTensor's own evaluation of the table, at random parameters and labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from itertools import islice

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
from pytensor.graph.basic import Variable
from scipy.special import logsumexp

from pymc_bpls.compute.library import ROWS, Graphs
from pymc_bpls.errors import ModelError
from pymc_bpls.model.data.labels import Classes
from pymc_bpls.model.graphs.jaxify import jaxify
from pymc_bpls.model.graphs.parameter_checks import ParameterChecks
from pymc_bpls.model.graphs.row_axes import RowAxes
from pymc_bpls.model.graphs.slicing import PLAIN, RowGraph, Source, one_row_graphs

_CHECKED_ROWS = 24
_READINGS = 8
_ROUNDING = 1e-9
_OFF = 1e-5


def verified_row(
    source: Source, log_lik: Variable, table: RowGraph, classes: Classes, check: TableCheck
) -> tuple[RowGraph, RowFunction] | None:
    """The first reading of the graph for one row that reproduces the whole table, else the table itself; None where rows depend
    on each other.
    """
    if check.dependent:
        return None
    for graph in islice(one_row_graphs(source, log_lik), _READINGS):
        try:
            graphs = Graphs([graph.theta, graph.label, *graph.rows], [graph.log_lik], classes.values)
            function = ROWS.get(graphs, partial(_row_function, graph, classes))
            if check.passed_by(function, graph.data):
                return graph, function
        except ModelError:
            raise
        except (TypeError, ValueError, IndexError):
            continue
    function = _row_function(table, classes, n_rows=source.n_rows)
    return (table, function) if check.passed_by(function, table.data) else None


@dataclass(frozen=True)
class RowFunction:
    """ℓ of one row, and of many rows, compiled."""

    row: Callable[..., jax.Array]

    @cached_property
    def of_rows(self) -> Callable[..., jax.Array]:
        def one(theta: jax.Array, label: jax.Array, rows: tuple[jax.Array, ...]) -> jax.Array:
            return self.row(theta, label[None], *(values[None] for values in rows))

        return jax.jit(jax.vmap(one, (None, 0, 0)))


def _row_function(graph: RowGraph, classes: Classes, n_rows: int = 0) -> RowFunction:
    function = jaxify([graph.theta, graph.label, *graph.rows], [graph.log_lik])
    if graph.sliced:

        def row(theta: jax.Array, label: jax.Array, position: jax.Array, *rows: jax.Array) -> jax.Array:
            return function(theta, label, position, *rows)[0][0]

    else:
        placeholder = np.repeat(classes.values[:1], n_rows, axis=0)

        def row(theta: jax.Array, label: jax.Array, position: jax.Array, *rows: jax.Array) -> jax.Array:
            labels = jnp.asarray(placeholder).at[position[0]].set(label[0])
            return function(theta, labels)[0][position[0]]

    return RowFunction(row)


def refuse_sums(name: str, classes: Classes, sums: np.ndarray) -> None:
    """Refuse a likelihood whose `sums` over the classes are not 1 in every row."""
    off = np.flatnonzero(np.abs(np.where(np.isfinite(sums), sums, 1.0) - 1) > _OFF)
    if off.size:
        raise ModelError(
            f'The likelihood of "{name}" does not add up to 1 over the classes {classes.names.tolist()} '
            f"(to {sums[off[0]]:.3g} in row {off[0]}), as where it has weights or a power. "
            "Declare each label's own probability, and list every class in classes=."
        )


class TableCheck:
    """Compares a row function with PyTensor's own evaluation of the whole table, at random parameters and labels.

    Rows whose parameters PyMC rejects there have no density by either.
    """

    def __init__(self, source: Source, table: RowGraph, classes: Classes, start: np.ndarray) -> None:
        rng = np.random.default_rng(0)
        self.rows = np.r_[0, rng.integers(0, source.n_rows, _CHECKED_ROWS), source.n_rows - 1]
        whole = pytensor.function(
            [table.theta, table.label],
            [table.log_lik, *(condition.holds for condition in table.conditions)],
            mode=PLAIN,
            on_unused_input="ignore",
        )
        self.start, self.whole = start, whole
        self.cases: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
        for _ in range(3):
            theta = start + 0.3 * rng.normal(size=len(start))
            codes = rng.integers(0, len(classes), source.n_rows)
            with np.errstate(all="ignore"):
                expected, *holds = map(np.asarray, whole(theta, classes.values[codes]))
            if expected.shape != (source.n_rows,):
                raise ModelError(
                    f"The log-likelihood has shape {expected.shape} and the table {source.n_rows} rows. "
                    "Declare data of the same number of rows, or give new rows through pool=."
                )
            rejected = np.isnan(expected) & ~reduce(np.logical_and, holds, np.ones(len(codes), dtype=bool))
            self.cases.append((theta, classes.values[codes[self.rows]], expected[self.rows], rejected[self.rows]))
        another = (codes + 1) % len(classes)
        rows = RowAxes(lambda labels: self._value(theta, labels), classes.values[codes], classes.values[another])
        self.dependent = rows.axis is None

    def _value(self, theta: np.ndarray, labels: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(self.whole(theta, labels)[0])

    def refuse(self, checks: ParameterChecks, adding_up: Classes | None) -> None:
        """Refuse a model whose rows PyMC rejects wherever they were tried, or whose classes `adding_up` to 1 do not."""
        if self.dependent:
            return
        if all(rejected.all() for *_, rejected in self.cases):
            sentence = checks.sentence(self.start, np.arange(checks.n_rows), "at its start")
            if sentence is not None:
                raise ModelError(sentence)
        if adding_up is not None:
            self._refuse_sums(checks, adding_up)

    def _refuse_sums(self, checks: ParameterChecks, classes: Classes) -> None:
        for theta, *_ in self.cases:
            of_class = [np.repeat(value[None], checks.n_rows, axis=0) for value in classes.values]
            with np.errstate(all="ignore"):
                sums = np.exp(logsumexp([self._value(theta, labels) for labels in of_class], axis=0))
            refuse_sums(checks.name, classes, sums)

    def log_lik_by(self, graph: RowGraph, function: RowFunction) -> Callable[[np.ndarray], np.ndarray] | None:
        """From θ to the log-likelihoods of the rows that are compared, with random labels; None where each takes the table."""
        if not graph.sliced:
            return None
        values, labels = tuple(array[self.rows] for array in graph.data), self.cases[0][1]
        return lambda theta: np.asarray(function.of_rows(theta, labels, values))

    def passed_by(self, function: RowFunction, data: tuple[np.ndarray, ...]) -> bool:
        """Whether values agree but for rounding, which PyTensor's 1 − p has in a small p: eps / p in its logarithm."""
        values = tuple(array[self.rows] for array in data)
        for theta, labels, expected, rejected in self.cases:
            found = np.asarray(function.of_rows(theta, labels, values))
            usable = np.isfinite(expected)
            if not np.isnan(found[rejected]).all():
                return False
            with np.errstate(over="ignore", invalid="ignore"):
                rounding = _ROUNDING * (1 + np.abs(expected)) + 4 * np.finfo(float).eps * np.exp(-expected)
                if not (np.abs(found - expected) <= rounding)[usable].all():
                    return False
        return True
