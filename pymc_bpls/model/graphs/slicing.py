"""Row slicing by frontier folding: the log-likelihood of *one* row as a graph of its own.

A PyMC model computes the log-likelihood of its whole table at once. Here the graph is cut at its *frontier*, the maximal
subgraphs that depend on neither parameters nor labels; these are evaluated once, on the whole table, and those whose
leading dimension is the number of rows become inputs with one row. Every node above is made anew, so that static shapes
are inferred again. What a table statistic (a mean, a standard deviation) contributes is therefore that of the whole table.

Parameter-dependent vectors over the rows (a latent value for each row) are gathered at the row's position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import Alloc
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape
from pytensor.tensor.subtensor import IncSubtensor, Subtensor

from pymc_bpls.compute.memory import refused_when_exhausted
from pymc_bpls.model.graphs.indexing import GATHERS, SCATTERS, array_indices, takes_every_row
from pymc_bpls.model.graphs.parameter_checks import Condition, conditions_of, where_they_hold

PLAIN = Mode(linker="py", optimizer=None)
_MOST_AMBIGUOUS = 5


@dataclass(frozen=True)
class RowGraph:
    """Row log-likelihoods as a graph: `log_lik` (rows,) of `theta` (q,), `label` (rows, ...) and the inputs `rows`.

    `data` holds the table's values of `rows`, each with N as its leading dimension: first the positions, then the values of
    `leaves`. `sliced` says whether the inputs take one row (leading dimension 1) or the graph is that of the whole table, which
    has PyMC's `conditions` on parameters by row.
    """

    theta: Variable
    label: Variable
    rows: tuple[Variable, ...]
    leaves: tuple[Variable, ...]
    data: tuple[np.ndarray, ...]
    log_lik: Variable
    sliced: bool
    gathers: bool = False
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True)
class Source:
    """The parts of a model's log-density graph that later vary: the parameters and the labels.

    `values` maps a value variable to (start, shape) in the joined vector; `label` is the root that holds the labels;
    `givens` replaces data containers by the arrays of the extended table, which has `n_rows` rows where the model was declared
    on `declared`. One of each entry of the joined vector is `units` (q,) of the value variable's own, which are None while they
    are not known.
    """

    values: Mapping[Variable, tuple[int, tuple[int, ...]]]
    label: Variable
    givens: Mapping[Variable, np.ndarray]
    n_rows: int
    declared: int
    units: np.ndarray | None = None

    @property
    def dimension(self) -> int:
        """q, the number of unconstrained parameters."""
        return sum(self.sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the value variables in the joined vector, in their order."""
        return tuple(int(np.prod(shape, dtype=int)) for _, shape in self.values.values())

    @property
    def lengths(self) -> frozenset[int]:
        """What the number of rows is in the model's graph."""
        return frozenset((self.n_rows, self.declared))

    def dynamic(self) -> set[Variable]:
        """The roots on which the frontier must not depend."""
        return {*self.values, self.label}

    def theta(self) -> tuple[Variable, dict[Variable, Variable]]:
        """A joined parameter vector and what each value variable becomes in terms of it."""
        theta = pt.tensor("theta", dtype="float64", shape=(self.dimension,))
        parts: dict[Variable, Variable] = {}
        for variable, (start, shape) in self.values.items():
            size = int(np.prod(shape, dtype=int))
            part = theta[start : start + size].reshape(shape) if shape else theta[start]
            parts[variable] = self._in_own_numbers(part, start, size, shape).astype(variable.type.dtype)
        return theta, parts

    def at(self, theta: np.ndarray) -> dict[Variable, np.ndarray]:
        """The value variables at one θ (q,)."""
        own, places = theta * (1.0 if self.units is None else self.units), zip(self.values.items(), self.sizes, strict=True)
        return {variable: own[start : start + size].reshape(shape) for (variable, (start, shape)), size in places}

    def _in_own_numbers(self, part: Variable, start: int, size: int, shape: tuple[int, ...]) -> Variable:
        units = np.ones(size) if self.units is None else self.units[start : start + size]
        if (units == 1).all():
            return part
        # one number where it is one for all: an array with an entry a row would be taken for data of the rows
        return part * pt.constant(units[0] if (units == units[0]).all() else units.reshape(shape))


def depends(outputs: Iterable[Variable], roots: set[Variable]) -> set[Variable]:
    """The variables between `roots` and `outputs` that depend on a root."""
    found = set(roots)
    for node in io_toposort([], list(outputs)):
        if any(variable in found for variable in node.inputs):
            found.update(node.outputs)
    return found


def frontier(outputs: Sequence[Variable], roots: set[Variable]) -> list[Variable]:
    """The maximal variables below `outputs` that depend on no root, in a fixed order."""
    moving = depends(outputs, roots)
    leaves: dict[Variable, None] = {}
    for node in io_toposort([], list(outputs)):
        if not moving.isdisjoint(node.outputs):
            leaves.update((variable, None) for variable in node.inputs if variable not in moving)
    leaves.update((variable, None) for variable in outputs if variable not in moving)
    return list(leaves)


def evaluate(variables: Sequence[Variable], givens: Mapping[Variable, np.ndarray]) -> list[Any]:
    """The values of parameter-free variables, with data containers replaced by `givens`, in double precision.

    PyTensor stores a constant such as 2.5 in single precision, and then takes its logarithm in single precision, which
    costs 3e-8 in a normal density: here constants are widened before anything is computed from them.
    """
    held: dict[Variable, Any] = {v: v.data for v in variables if isinstance(v, Constant)}
    open_ = [variable for variable in variables if variable not in held]
    if open_:
        narrow = [v for v in ancestors(open_) if isinstance(v, Constant) and wide(v) != getattr(v.type, "dtype", None)]
        replace = {variable: constant(variable, value) for variable, value in givens.items()}
        replace.update((variable, constant(variable, variable.data)) for variable in narrow)
        # NaN and infinity are told by their rows, not by NumPy
        with refused_when_exhausted("What the model computes from data alone"), np.errstate(all="ignore"):
            values = pytensor.function([], remake(open_, replace), mode=PLAIN, on_unused_input="ignore")()
        held.update(zip(open_, values, strict=True))
    return [held[variable] for variable in variables]


def remake(
    outputs: Sequence[Variable],
    replace: Mapping[Variable, Variable],
    *,
    row_inputs: Iterable[Variable] = (),
    lengths: frozenset[int] = frozenset(),
    size: int = 1,
    position: Variable | None = None,
    numbered: Iterable[Variable] | None = None,
    check: Callable[[Any, list[Variable]], Variable] | None = None,
) -> list[Variable]:
    """`outputs` with variables replaced and every node above them made anew.

    A node that meets a row input has the table's length (one of `lengths`) in what it allocates or reshapes to replaced by
    `size`, and, where `position` is given, gathers its parameter-dependent inputs of that length at the rows' positions.
    Where `numbered` is given, the row inputs that number the table's rows, an index of rows among rows must be one of them.
    `check(op, inputs)` takes the place of PyMC's checks of parameters, which otherwise stay.
    """
    rows = set(row_inputs)
    numbers = None if numbered is None else set(numbered)
    remaking = _Remaking(dict(replace), rows, set(rows), lengths, size, position, numbers, check)
    for node in io_toposort(list(replace), list(outputs)):
        remaking.take(node)
    return [remaking.known(variable) for variable in outputs]


@dataclass
class _Remaking:
    """A graph on the way to being made anew, as `remake` says: what stands for each variable, and which of it meets `rows`."""

    made: dict[Variable, Variable]
    rows: set[Variable]
    of_row: set[Variable]
    lengths: frozenset[int]
    size: int
    position: Variable | None
    numbers: set[Variable] | None
    check: Callable[[Any, list[Variable]], Variable] | None

    def known(self, variable: Variable) -> Variable:
        """What stands for a variable: itself, where nothing above it is replaced."""
        return self.made.setdefault(variable, variable)

    def take(self, node: Any) -> None:
        """One more node; a graph within it is laid open where its inputs are replaced."""
        if isinstance(node.op, OpFromGraph) and any(self.known(variable) is not variable for variable in node.inputs):
            self._lay_open(node)
        else:
            self._visit(node, self.made)

    def _lay_open(self, node: Any) -> None:
        inner = dict(zip(node.op.inner_inputs, (self.known(variable) for variable in node.inputs), strict=True))
        for inner_node in io_toposort(node.op.inner_inputs, node.op.inner_outputs):
            self._visit(inner_node, inner)
        for outer, variable in zip(node.outputs, node.op.inner_outputs, strict=True):
            self.made[outer] = inner.get(variable, variable)

    def _visit(self, node: Any, memo: dict[Variable, Variable]) -> None:
        inputs = [memo.get(variable, variable) for variable in node.inputs]
        if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
            for variable in node.outputs:
                memo.setdefault(variable, variable)
        elif isinstance(node.op, SpecifyShape):
            memo[node.outputs[0]] = inputs[0]
        elif isinstance(node.op, CheckAndRaise) and self.check is not None:
            memo[node.outputs[0]] = self.check(node.op, inputs)
            if inputs[0] in self.of_row:
                self.of_row.add(memo[node.outputs[0]])
        else:
            self._make(node, inputs, memo)

    def _make(self, node: Any, inputs: list[Variable], memo: dict[Variable, Variable]) -> None:
        meets_rows = any(variable in self.of_row for variable in inputs)
        if meets_rows:
            inputs = _of_rows(node.op, inputs, self.of_row, self.lengths, self.size, self.position)
            if self.numbers is not None:
                inputs = _among_rows(node.op, inputs, self.of_row, self.size, self.rows, self.numbers)
        for old, new in zip(node.outputs, node.op.make_node(*inputs).outputs, strict=True):
            memo.setdefault(old, new)
            if meets_rows:
                self.of_row.add(memo[old])


def _of_rows(
    op: Any, inputs: list[Variable], of_row: set[Variable], lengths: frozenset[int], size: int, position: Variable | None
) -> list[Variable]:
    """The inputs of a node that meets a row input, with the table's length taken out of them."""
    if isinstance(op, Alloc):
        return [inputs[0], *(_shorten(length, lengths, size) for length in inputs[1:2]), *inputs[2:]]
    if isinstance(op, Reshape):
        return [inputs[0], _shorten(inputs[1], lengths, size)]
    if isinstance(op, Subtensor):
        return [inputs[0], *(_from_end(index, lengths, size) for index in inputs[1:])]
    if position is None:
        return inputs
    return [_gather(variable, of_row, lengths, position) for variable in inputs]


def _among_rows(
    op: Any,
    inputs: list[Variable],
    of_row: set[Variable],
    size: int,
    inputs_of_rows: set[Variable],
    numbers: set[Variable],
) -> list[Variable]:
    """The inputs of an index of rows among rows: `M[np.arange(n), j]` takes each row's own entry, however many rows there are.

    Raises
    ------
    ValueError
        Rows are named in another way, so that some depend on others, or one of them is changed by its number.
    """
    if not isinstance(op, (*GATHERS, *SCATTERS, IncSubtensor)) or inputs[0] not in of_row or inputs[0].type.shape[0] != size:
        return inputs
    inputs = list(inputs)
    named = isinstance(op, IncSubtensor) and not takes_every_row(op)
    for axis, place in () if isinstance(op, IncSubtensor) else array_indices(op, inputs):
        index = inputs[place]
        if axis == 0 and index in numbers:
            inputs[place] = pt.shape_padright(pt.arange(size), index.type.ndim - 1)
        elif axis == 0:
            named |= _has_values_of(index, inputs_of_rows) or (isinstance(index, Constant) and isinstance(op, SCATTERS))
    if named:
        raise ValueError("rows are named by their number")
    return inputs


def _has_values_of(variable: Variable, roots: set[Variable]) -> bool:
    """Whether a variable is computed from the values of some roots, and not from their shapes alone."""
    if variable in roots:
        return True
    node = variable.owner
    return node is not None and not isinstance(node.op, (Shape, Shape_i)) and any(_has_values_of(v, roots) for v in node.inputs)


def _shorten(length: Variable, lengths: frozenset[int], size: int) -> Variable:
    """A shape, or its leading entry, with the table's length replaced by `size`."""
    if not isinstance(length, Constant):
        return length
    shape = np.array(length.data)
    first = np.atleast_1d(shape)
    if first.size and int(first.flat[0]) in lengths:
        first.flat[0] = size
        return pt.constant(first.reshape(shape.shape), dtype=length.type.dtype)
    return length


def _from_end(index: Variable, lengths: frozenset[int], size: int) -> Variable:
    """The end of the table, or its last row, as the end or the last row of `size` rows."""
    if not isinstance(index, Constant) or index.data is None:
        return index
    off = next((off for off in (0, 1) if int(index.data) + off in lengths), None)
    return index if off is None else type(index)(index.type, index.type.filter(size - off))


def _gather(variable: Variable, of_row: set[Variable], lengths: frozenset[int], position: Variable) -> Variable:
    """A parameter-dependent value for each row, taken at the row's position; anything else as it is."""
    shape = getattr(variable.type, "shape", ())
    if variable in of_row or isinstance(variable, Constant) or not shape or shape[0] not in lengths:
        return variable
    row = variable[position]
    of_row.add(row)
    return row


def unchecked(op: Any, inputs: list[Variable]) -> Variable:
    """A value without its checks."""
    return inputs[0]


def table_graph(source: Source, log_lik: Variable, *, checked: bool = True) -> RowGraph:
    """The log-likelihoods of the whole table, its labels and parameters as inputs.

    PyMC's checks of parameters count in the rows that fail them (`parameter_checks`), or are left out without `checked`: as
    they are, one row, which may be outside D, would make them refuse the whole table.
    """
    theta, parts = source.theta()
    label = pt.tensor("label", dtype=source.label.type.dtype, shape=(source.n_rows, *trailing(source.label)))
    leaves = frontier([log_lik], source.dynamic())
    values = evaluate(leaves, source.givens)
    held = {leaf: constant(leaf, value) for leaf, value in zip(leaves, values, strict=True)}
    rows = [held[leaf] for leaf, value in zip(leaves, values, strict=True) if np.ndim(value) and len(value) == source.n_rows]
    conditions: list[Condition] = []

    def by_row(op: Any, inputs: list[Variable]) -> Variable:
        value, *checks = inputs
        if value.type.dtype not in ("float32", "float64"):
            return value
        found = list(conditions_of(op.msg, checks, source.n_rows))
        conditions.extend(found)
        return where_they_hold(value, found)

    [out] = remake(
        [log_lik],
        {**held, **parts, source.label: label},
        row_inputs={label, *rows},
        lengths=source.lengths,
        size=source.n_rows,
        check=by_row if checked else unchecked,
    )
    return RowGraph(theta, label, (), (), (np.arange(source.n_rows),), out, sliced=False, conditions=tuple(conditions))


def one_row_graphs(source: Source, log_lik: Variable) -> Iterator[RowGraph]:
    """Readings of the graph for one row, the most likely first.

    A leaf is taken for row data where its leading dimension is N. Where another dimension happens to be N as well, that
    can be wrong, so that other readings follow; the caller verifies each against the whole table.
    """
    leaves = frontier([log_lik], source.dynamic())
    values = dict(zip(leaves, evaluate(leaves, source.givens), strict=True))
    long = [leaf for leaf in leaves if np.ndim(values[leaf]) >= 1 and np.shape(values[leaf])[0] == source.n_rows]
    for taken, gathers in product(_subsets(long), (True, False)):
        try:
            yield _reading(source, log_lik, values, taken, gathers=gathers, size=1)
        except (TypeError, ValueError, AssertionError):
            continue


def rows_graph(source: Source, log_lik: Variable, one_row: RowGraph, size: int) -> RowGraph:
    """The reading that `one_row` has, for `size` rows at once."""
    leaves = frontier([log_lik], source.dynamic())
    values = dict(zip(leaves, evaluate(leaves, source.givens), strict=True))
    return _reading(source, log_lik, values, one_row.leaves, gathers=one_row.gathers, size=size)


def _reading(
    source: Source,
    log_lik: Variable,
    values: Mapping[Variable, Any],
    taken: Sequence[Variable],
    *,
    gathers: bool,
    size: int,
) -> RowGraph:
    """The graph for `size` rows, with the leaves `taken` as row data and the other `values` as constants."""
    theta, parts = source.theta()
    position = pt.tensor("position", dtype="int64", shape=(size,))
    label = pt.tensor("label", dtype=source.label.type.dtype, shape=(size, *trailing(source.label)))
    inputs = {leaf: pt.tensor(dtype=wide(leaf), shape=(size, *np.shape(values[leaf])[1:])) for leaf in taken}
    constants = {leaf: constant(leaf, value) for leaf, value in values.items() if leaf not in inputs}
    [out] = remake(
        [log_lik],
        {**constants, **inputs, **parts, source.label: label},
        row_inputs={label, *inputs.values()},
        lengths=source.lengths,
        size=size,
        position=position if gathers else None,
        numbered=[inputs[leaf] for leaf in taken if _numbers_rows(values[leaf])],
    )
    data = (np.arange(source.n_rows), *(np.array(values[leaf], dtype=wide(leaf)) for leaf in taken))
    return RowGraph(theta, label, (position, *inputs.values()), tuple(taken), data, out, sliced=True, gathers=gathers)


def _numbers_rows(values: np.ndarray) -> bool:
    """Whether each row's value is its position."""
    positions = np.arange(len(values)).reshape(-1, *(1,) * (values.ndim - 1))
    return values.dtype.kind in "iu" and values.size > 0 and bool((values == positions).all())


def constants_of_length(source: Source, log_lik: Variable, length: int) -> list[np.ndarray]:
    """Values baked into the likelihood whose leading dimension is `length`."""
    values = evaluate(frontier([log_lik], source.dynamic()), source.givens)
    return [np.asarray(value) for value in values if np.ndim(value) and np.shape(value)[0] == length]


def _subsets(items: Sequence[Variable]) -> Iterator[tuple[Variable, ...]]:
    """All items first, then all but one, and so on; with many items only all of them."""
    smallest = 0 if len(items) <= _MOST_AMBIGUOUS else len(items)
    return chain.from_iterable(combinations(items, size) for size in range(len(items), smallest - 1, -1))


def trailing(label: Variable) -> tuple[int | None, ...]:
    return tuple(label.type.shape[1:])


def constant(leaf: Variable, value: Any) -> Variable:
    """`value` as a constant in place of `leaf`, in double precision."""
    dtype = wide(leaf)
    return (
        leaf if isinstance(leaf, Constant) and dtype == getattr(leaf.type, "dtype", None) else pt.constant(value, dtype=dtype)
    )


def wide(variable: Variable) -> str | None:
    """The variable's dtype, float64 where it is a narrower float, None where it is no tensor."""
    dtype = getattr(variable.type, "dtype", None)
    return "float64" if dtype in ("float16", "float32") else dtype
