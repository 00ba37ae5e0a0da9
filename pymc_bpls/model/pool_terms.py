"""Which terms of a declared model unlabeled rows enter besides their own likelihoods: found in its graph, checked by numbers.

The graph names the data, one value a row, from which a term is computed. The term is then computed again with other values in
the unlabeled rows: it depends on these rows where it changes as a function of θ. What was computed before it came into the
model is a constant there and leaves no trace, so that all of this is about the model as declared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.type import TensorType

from pymc_bpls.model.density import Density
from pymc_bpls.model.graphs.slicing import PLAIN, Source, evaluate, frontier, remake, table_graph, wide

_SAME = 1e-9  # relative: above rounding in sums over rows, below what one row of a large table changes
_POINTS, _NEAR = 3, 0.3  # values of θ at which terms are compared, and how far they are from the start
#: What PyTensor and PyMC raise where other rows have no density: a matrix without a factor, a parameter out of its range.
_NOT_THERE = (ValueError, AssertionError, np.linalg.LinAlgError)
_FAR = 3.0  # standard deviations by which numbers are moved: beyond the range of most data

LIKELIHOODS = "the likelihoods of labeled rows"


@dataclass(frozen=True)
class PoolTerms:
    """Where unlabeled rows enter a model as declared, besides their own likelihoods.

    `reached` are the observed variables, besides the target, that labels reach: log Σ_y exp ℓ_u(y; θ) then depends on θ. Of
    these, `mechanism` say who was labeled (1 in labeled rows alone). `observed` are observed variables that labels do not
    reach, with a term of θ for each row. `elsewhere` are all other terms that depend on unlabeled rows, in words. `apart` are
    observed variables that name no row of the table, though they may have been measured in some.
    """

    reached: tuple[str, ...] = ()
    mechanism: tuple[str, ...] = ()
    observed: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()

    def __add__(self, other: PoolTerms) -> PoolTerms:
        """Of two models on one table."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return PoolTerms(*(tuple(dict.fromkeys((*mine, *its))) for mine, its in pairs))

    @property
    def places(self) -> str:
        """The terms that every posterior has, in words; empty where there are none."""
        densities = [f'the density of "{name}"' for name in self.observed]
        return " and ".join([*densities, *self.elsewhere])

    @property
    def as_declared(self) -> str:
        """What the model says besides p(y | x, θ), where its terms depend on no unlabeled row."""
        if not self.apart:
            return "this model describes y given x only"
        names = " and ".join(f'"{name}"' for name in self.apart)
        return f"{names} is observed too and names no row of the table (it may have been measured in unlabeled ones)"


@dataclass(frozen=True)
class UnlabeledRows:
    """The rows outside D, `labeled` being its positions, and other values for them: what depends on them is asked here."""

    source: Source
    labeled: np.ndarray
    start: np.ndarray
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    @cached_property
    def thetas(self) -> list[np.ndarray]:
        """The start, and values of θ near it."""
        steps = _NEAR * self.rng.normal(size=(_POINTS - 1, len(self.start)))
        return [self.start, *(self.start + steps)]

    def others(self, outputs: Iterable[Variable]) -> Iterator[list[Variable]]:
        """`outputs` with other values in unlabeled rows of the data below: those of labeled rows, and far ones."""
        outputs = list(outputs)
        data = self.data_below(outputs)
        for far in (False, True) if data else ():
            replace = {variable: pt.constant(self._changed(held, far), dtype=wide(variable)) for variable, held in data.items()}
            yield remake(outputs, replace)

    def data_below(self, outputs: Iterable[Variable]) -> dict[Variable, np.ndarray]:
        """Data that differ between rows, from whose values `outputs` are computed."""
        return {variable: held for variable in values_below(outputs) if (held := self._row_data(variable)) is not None}

    def _row_data(self, variable: Variable) -> np.ndarray | None:
        """What a variable holds, if it is data that differ between rows."""
        held = data_of(variable, self.source.givens)
        axis = None if held is None or variable is self.source.label else self.axis(np.shape(held))
        if held is None or axis is None:
            return None
        return None if (held == np.take(held, [0], axis=axis)).all() else held

    def axis(self, shape: Sequence[int]) -> int | None:
        """The first axis that is as long as the table."""
        return next((axis for axis, size in enumerate(shape) if size in self.source.lengths), None)

    def _changed(self, held: np.ndarray, far: bool) -> np.ndarray:
        axis = self.axis(held.shape)
        values = np.moveaxis(np.array(held), axis or 0, 0)
        inside = self.labeled[self.labeled < len(values)]
        outside = np.setdiff1d(np.arange(len(values)), inside)
        if inside.size:
            values[outside] = values[self.rng.choice(inside, len(outside))]
        if far and values.dtype.kind == "f":
            spread = np.nan_to_num(np.nanstd(held)) or 1.0
            values[outside] += _FAR * spread * self.rng.normal(size=values[outside].shape)
        return np.moveaxis(values, 0, axis or 0)

    def of_labeled(self, values: Any, *, every_axis: bool = False) -> np.ndarray:
        """The part of an array that belongs to labeled rows: of its first axis of rows, or of every one."""
        array = np.asarray(values)
        axes = [axis for axis, size in enumerate(array.shape) if size in self.source.lengths]
        for axis in axes if every_axis else axes[:1]:
            array = np.take(array, self.labeled[self.labeled < array.shape[axis]], axis=axis)
        return array

    def change(self, term: Variable, part: Callable[[np.ndarray], np.ndarray] = np.sum) -> bool:
        """Whether they change part of a term as a function of θ, beyond a constant."""
        return self.differ([term], lambda terms: [self.along(terms[0], part)])

    def differ(self, outputs: Sequence[Variable], compute: Callable[[list[Variable]], list[np.ndarray]]) -> bool:
        """Whether they change what is computed from `outputs`; nothing is computed where no data of rows is below these."""
        before: list[np.ndarray] | None = None
        for other in self.others(outputs):
            before = compute(list(outputs)) if before is None else before
            if not all(map(_same, before, compute(other))):
                return True
        return False

    def along(self, term: Variable, part: Callable[[np.ndarray], np.ndarray] = np.sum) -> np.ndarray:
        """Part of a term at values of θ, less that at the first; NaN where it cannot be computed."""
        try:
            values = [part(np.asarray(evaluate([term], {**self.source.givens, **self.source.at(at)})[0])) for at in self.thetas]
        except _NOT_THERE:
            return np.full(_POINTS, np.nan)
        with np.errstate(invalid="ignore"):
            return np.asarray(values) - values[0]


def values_below(outputs: Iterable[Variable]) -> list[Variable]:
    """Variables from whose values, and not from their shapes alone, `outputs` are computed."""
    found: dict[Variable, None] = {}
    stack = list(outputs)
    while stack:
        variable = stack.pop()
        if variable in found:
            continue
        found[variable] = None
        if variable.owner is not None and not isinstance(variable.owner.op, (Shape, Shape_i)):
            stack.extend(variable.owner.inputs)
    return list(found)


def data_of(variable: Variable, givens: Mapping[Variable, np.ndarray]) -> np.ndarray | None:
    """What a constant or a data container holds, None of anything else."""
    if variable in givens:
        return np.asarray(givens[variable])
    if isinstance(variable, SharedVariable):
        held = np.asarray(variable.get_value(borrow=True))
    elif isinstance(variable, Constant):
        held = np.asarray(variable.data)
    else:
        return None
    return held if held.dtype.kind in "biuf" else None


@dataclass(frozen=True)
class Term:
    """One term of a model: the variable that it is of, what it is called, and its density in the graph."""

    variable: Variable
    words: str
    density: Variable


def find_pool_terms(
    model: pm.Model, prior: Sequence[Term], reached: Sequence[Term], log_lik: Variable, density: Density, rows: UnlabeledRows
) -> PoolTerms:
    """Where unlabeled rows enter the terms of log π, `prior`, and those that labels reach, the target's first.

    `log_lik` is the sum of the latter.
    """
    others = tuple(term.variable.name for term in reached[1:])
    if len(rows.labeled) == rows.source.n_rows:
        return PoolTerms(others)
    observed, elsewhere, apart = [], [], []
    for term in prior:
        folded = _changes_folded(model, term, rows, of_rows=term.variable in model.observed_RVs)
        if term.variable in model.observed_RVs and not folded and _has_rows(term.density, rows):
            observed.append(term.variable.name)
        elif folded or rows.change(term.density):
            elsewhere.append(term.words)
        elif term.variable in model.observed_RVs:
            apart.append(term.variable.name)
    if _changes_labeled(log_lik, density, rows) or any(_changes_folded(model, term, rows, of_rows=True) for term in reached):
        elsewhere.append(LIKELIHOODS)
    mechanism = tuple(term.variable.name for term in reached[1:] if _says_who(model.rvs_to_values[term.variable], rows))
    return PoolTerms(others, mechanism, tuple(observed), tuple(elsewhere), tuple(apart))


def _changes_folded(model: pm.Model, term: Term, rows: UnlabeledRows, *, of_rows: bool) -> bool:
    """Whether they change what PyMC computed of constants when it made the density, which therefore has no trace of them.

    It is found in the variable's own graph; `of_rows` says that its values for labeled rows count alone.
    """
    rvs = model.basic_RVs
    others = {rv: rv.type() for rv in rvs if rv is not term.variable}
    below = term.variable.owner.inputs if term.variable in rvs else [term.variable]
    outputs = remake([variable for variable in below if isinstance(variable.type, TensorType)], others)
    left = set(values_below([term.density]))
    leaves = [
        leaf for leaf in frontier(outputs, set(others.values())) if any(data not in left for data in rows.data_below([leaf]))
    ]

    def parts(computed: list[Variable]) -> list[np.ndarray]:
        held = evaluate(computed, rows.source.givens)
        return [rows.of_labeled(value) if of_rows else value for value in held]

    return rows.differ(leaves, parts)


def _has_rows(term: Variable, rows: UnlabeledRows) -> bool:
    """Whether a term has a value a row, which of unlabeled rows depends on θ and of labeled rows on no other row."""
    if not term.ndim:
        return False
    held = evaluate([term], {**rows.source.givens, **rows.source.at(rows.start)})[0]
    if len(held) not in rows.source.lengths or rows.change(term, rows.of_labeled):
        return False
    return bool(np.any(rows.along(term, lambda values: np.delete(values, rows.labeled, axis=0)) != 0))


def _changes_labeled(log_lik: Variable, density: Density, rows: UnlabeledRows) -> bool:
    """Whether log-likelihoods of labeled rows depend on data of other rows."""
    if not density.graph.sliced and density.joint is None:
        return rows.differ([log_lik], lambda outputs: [_of_labeled(outputs[0], density, rows)])
    of_rows = set(density.graph.leaves)
    leaves = frontier([log_lik], rows.source.dynamic())
    computed = [leaf for leaf in leaves if leaf not in of_rows or data_of(leaf, rows.source.givens) is None]

    def parts(outputs: list[Variable]) -> list[np.ndarray]:
        held = evaluate(outputs, rows.source.givens)
        if density.joint is not None:
            return [rows.of_labeled(value, every_axis=True) for value in held]
        return [rows.of_labeled(value) if leaf in of_rows else value for leaf, value in zip(computed, held, strict=True)]

    return rows.differ(computed, parts)


def _of_labeled(log_lik: Variable, density: Density, rows: UnlabeledRows) -> np.ndarray:
    """ℓ of labeled rows, each with the first class, at values of θ."""
    graph = table_graph(rows.source, log_lik, checked=False)
    function = pytensor.function([graph.theta, graph.label], graph.log_lik, mode=PLAIN, on_unused_input="ignore")
    label = np.repeat(density.class_values[:1], rows.source.n_rows, axis=0).astype(graph.label.type.dtype)
    try:
        return np.array([rows.of_labeled(function(theta, label)) for theta in rows.thetas])
    except _NOT_THERE:
        return np.full((_POINTS, len(rows.labeled)), np.nan)


def _says_who(values: Variable, rows: UnlabeledRows) -> bool:
    """Whether an observed variable is 1 in labeled rows and 0 in all others."""
    held = np.asarray(evaluate([values], rows.source.givens)[0])
    return held.shape == (rows.source.n_rows,) and np.array_equal(
        held, np.isin(np.arange(rows.source.n_rows), rows.labeled).astype(held.dtype)
    )


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return np.shape(one) == np.shape(other) and np.allclose(one, other, rtol=_SAME, atol=_SAME, equal_nan=True)
