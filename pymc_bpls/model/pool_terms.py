"""Which terms of a declared model unlabeled rows enter besides their own likelihoods: found in its graph, checked by numbers.

The graph names the data with a value a row from which a term is computed. The term is then computed again with other values in
the unlabeled rows: it depends on these rows where it changes as a function of θ. What was computed before it came into the model
is a constant there and leaves no trace, so that all of this is about the model as declared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.tensor.shape import Shape, Shape_i

from pymc_bpls.model.density import Density
from pymc_bpls.model.graphs.slicing import PLAIN, Source, evaluate, frontier, remake, table_graph, wide

_SAME = 1e-9  # relative: above rounding in sums over rows, below what one row of a large table changes
_POINTS, _NEAR = 3, 0.3  # values of θ at which terms are compared, and how far they are from the start
#: What PyTensor and PyMC raise where other rows have no density: a matrix without a factor, a parameter out of its range.
_NOT_THERE = (ValueError, AssertionError, np.linalg.LinAlgError)
_FAR = 3.0  # standard deviations by which numbers are moved: beyond the range of most data

LIKELIHOODS = "the likelihoods of labeled rows, whose data the model computes from all rows"


@dataclass(frozen=True)
class PoolTerms:
    """Where unlabeled rows enter a model as declared, besides their own likelihoods.

    `reached` are the observed variables, besides the target, that labels reach: log Σ_y exp ℓ_u(y; θ) then depends on θ. Of
    these, `mechanism` say who was labeled (1 in labeled rows alone). `observed` are observed variables that labels do not reach,
    with a term of θ for each row. `elsewhere` are all other terms that depend on unlabeled rows, in words.
    """

    reached: tuple[str, ...] = ()
    mechanism: tuple[str, ...] = ()
    observed: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()

    def __add__(self, other: PoolTerms) -> PoolTerms:
        """Of two models on one table."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return PoolTerms(*(tuple(dict.fromkeys((*mine, *its))) for mine, its in pairs))

    @property
    def places(self) -> str:
        """The terms that every posterior has, in words; empty where there are none."""
        densities = [f'the density of "{name}"' for name in self.observed]
        return " and ".join([*densities, *self.elsewhere])


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
        data = {variable: held for variable in values_below(outputs) if (held := self._row_data(variable)) is not None}
        for far in (False, True) if data else ():
            replace = {variable: pt.constant(self._changed(held, far), dtype=wide(variable)) for variable, held in data.items()}
            yield remake(outputs, replace)

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
        before = self.along(term, part)
        return any(not _same(before, self.along(other, part)) for [other] in self.others([term]))

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


def find_pool_terms(
    names: Sequence[str],
    prior_terms: Sequence[Variable],
    reached: Mapping[str, Variable],
    log_lik: Variable,
    density: Density,
    rows: UnlabeledRows,
    observed: Mapping[str, Any],
) -> PoolTerms:
    """Where unlabeled rows enter.

    Parameters
    ----------
    names : sequence of str
        What the `prior_terms` are of, in words, in their order.
    prior_terms : sequence of Variable
        The terms of log π.
    reached : mapping of str to Variable
        The rows' terms that labels reach, of the target first; `log_lik` is their sum.
    observed : mapping of str to array
        The values of observed variables.
    """
    others = tuple(list(reached)[1:])
    outside = len(rows.labeled) < rows.source.n_rows
    if not outside:
        return PoolTerms(others)
    own, elsewhere = [], []
    for name, term in zip(names, prior_terms, strict=True):
        if name in observed and _has_rows(term, rows):
            own.append(name)
        elif rows.change(term):
            elsewhere.append(name if name not in observed else f'the density of "{name}"')
    if _changes_labeled(log_lik, density, rows):
        elsewhere.append(LIKELIHOODS)
    mechanism = tuple(name for name in others if _says_who(observed[name], rows))
    return PoolTerms(others, mechanism, tuple(own), tuple(elsewhere))


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
        before = _of_labeled(log_lik, density, rows)
        return any(not _same(before, _of_labeled(other, density, rows)) for [other] in rows.others([log_lik]))
    leaves = frontier([log_lik], rows.source.dynamic())
    of_rows = set(density.graph.leaves)

    def parts(outputs: Sequence[Variable]) -> list[np.ndarray]:
        held = evaluate(outputs, rows.source.givens)
        if density.joint is not None:
            return [rows.of_labeled(value, every_axis=True) for value in held]
        return [rows.of_labeled(value) if leaf in of_rows else value for leaf, value in zip(leaves, held, strict=True)]

    before = parts(leaves)
    return any(not all(map(_same, before, parts(other))) for other in rows.others(leaves))


def _of_labeled(log_lik: Variable, density: Density, rows: UnlabeledRows) -> np.ndarray:
    """ℓ of labeled rows, each with the first class, at values of θ."""
    graph = table_graph(rows.source, log_lik, checked=False)
    function = pytensor.function([graph.theta, graph.label], graph.log_lik, mode=PLAIN, on_unused_input="ignore")
    label = np.repeat(density.class_values[:1], rows.source.n_rows, axis=0).astype(graph.label.type.dtype)
    try:
        return np.array([rows.of_labeled(function(theta, label)) for theta in rows.thetas])
    except _NOT_THERE:
        return np.full((_POINTS, len(rows.labeled)), np.nan)


def _says_who(values: Any, rows: UnlabeledRows) -> bool:
    """Whether an observed variable is 1 in labeled rows and 0 in all others."""
    held = np.asarray(values)
    return held.shape == (rows.source.n_rows,) and np.array_equal(
        held, np.isin(np.arange(rows.source.n_rows), rows.labeled).astype(held.dtype)
    )


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return np.shape(one) == np.shape(other) and np.allclose(one, other, rtol=_SAME, atol=_SAME, equal_nan=True)
