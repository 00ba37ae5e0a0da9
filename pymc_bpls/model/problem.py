"""A model on its table, captured once: what the front door checks, and everything that scoring needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
from pymc.initial_point import make_initial_point_expression
from pymc.pytensorf import find_rng_nodes, replace_rng_nodes, reseed_rngs
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorConstant

from pymc_bpls.compute.precision import require_double
from pymc_bpls.errors import BPLSError, LabelError, ModelError, RowError
from pymc_bpls.model import fingerprints
from pymc_bpls.model.data.index import check_order, find_rows
from pymc_bpls.model.data.labels import Classes, as_labels, find_classes, is_probability
from pymc_bpls.model.data.missing import as_numbers
from pymc_bpls.model.data.named_axes import NamedAxes
from pymc_bpls.model.data.row_words import RowWords
from pymc_bpls.model.data.table import (
    Labeled,
    Pool,
    Table,
    candidate_mask,
    check_finite,
    containers,
    read_pool,
    row_names,
)
from pymc_bpls.model.density import (
    Density,
    hierarchical,
    label_root,
    make_density,
    make_source,
    split_terms,
    unconstrained_start,
)
from pymc_bpls.model.fingerprints import Declared
from pymc_bpls.model.graphs.parameter_checks import ParameterChecks
from pymc_bpls.model.graphs.slicing import PLAIN, Source, evaluate, table_graph
from pymc_bpls.model.groups import check_groups, check_groups_of_priors
from pymc_bpls.model.marginals import find_marginal
from pymc_bpls.model.pool_terms import PoolTerms, Term, UnlabeledRows, find_pool_terms
from pymc_bpls.model.prior_sets import Variant
from pymc_bpls.model.refusals import IMPROPER, check_likelihood, check_model, check_target, find_target
from pymc_bpls.model.terms import refuse_numbered_rows, sum_all, sum_terms


@dataclass(frozen=True)
class Problem:
    """A declared model on its table.

    `reached` are the terms that labels reach, by their variables, the target first; `log_lik` is their sum. `proper` is False
    where a free variable has an improper prior; `hidden` counts candidates that hold a label. `pool_terms` say where unlabeled
    rows enter. `beside` are the other members of a set that share the table.
    """

    model: pm.Model
    name: str
    table: Table
    classes: Classes
    density: Density
    source: Source
    log_lik: Variable
    reached: dict[str, Variable]
    prior_terms: list[Variable]
    proper: bool
    hidden: int
    pool_terms: PoolTerms
    beside: tuple[Problem, ...] = ()

    @cached_property
    def fingerprint(self) -> str:
        """Of the table's data and labels and of the model: what a result has to share to be one of this table and model."""
        return fingerprints.fingerprint(self._declared)

    def has_fingerprint(self, stored: Any) -> bool:
        """Whether a fingerprint that a result keeps, in whatever form, is of this table and model."""
        if _is_of_today(stored):
            return bool(stored == self.fingerprint)
        return bool(stored == fingerprints.earlier_fingerprint(self._declared))

    @cached_property
    def parts(self) -> dict[str, str]:
        """Fingerprints of what `fingerprint` is of, each by itself."""
        return fingerprints.parts(self._declared)

    def parts_as_in(self, stored: Any) -> dict[str, str]:
        """`parts` in the form of a fingerprint that a result keeps."""
        return self.parts if _is_of_today(stored) else fingerprints.earlier_parts(self._declared)

    @property
    def _declared(self) -> list[Declared]:
        return [
            Declared(each.table, each.classes, each.density, each.source, each.prior_terms) for each in (self, *self.beside)
        ]

    @property
    def class_conditional(self) -> bool:
        """Whether labels reach another observed variable, so that Σ_y exp ℓ_u(y; θ) depends on θ."""
        return bool(self.pool_terms.reached)

    @property
    def pool_terms_of_all(self) -> PoolTerms:
        """Where unlabeled rows enter the model, or another of its set."""
        return sum((problem.pool_terms for problem in self.beside), self.pool_terms)

    @property
    def distribution(self) -> str:
        """What kind of random variable the target is."""
        return type(self.model[self.name].owner.op).__name__

    @property
    def label(self) -> Variable:
        """What holds the labels in the model's graph."""
        return self.source.label

    @property
    def lags_hidden_labels(self) -> bool:
        """Whether a row's data is the label of the row before, −1 for those that have none."""
        codes, values = self.table.codes, self.classes.values
        if values.ndim != 1 or (codes[:-1] >= 0).all():
            return False
        labels = np.where(codes >= 0, values[codes], -1)[:-1]
        return any(data.ndim == 1 and np.array_equal(data[1:], labels) for data in self.density.data[1:])

    @cached_property
    def hierarchy(self) -> list[tuple[str, str]]:
        """Free variables whose prior density depends on another free variable."""
        return hierarchical(self.model)

    @property
    def labeled(self) -> Labeled:
        """D: the labeled rows, each with weight 1."""
        rows = self.table.labeled
        return Labeled(rows, self.table.codes[rows], np.ones(len(rows)))

    def coords(self, candidates: np.ndarray, codes: np.ndarray) -> dict[str, Any]:
        """Coords of a result over `candidate` (and `label`): positions, class names and the user's index."""
        labels = {"label": self.classes.names} if codes.ndim == 2 else {}
        return {"candidate": candidates, **self.table.names.coords("candidate", candidates), **labels}

    def positions(self, rows: Any, name: str) -> np.ndarray:
        """Positions of the rows that are named by position, by a mask or by the user's index, in the user's order."""
        return find_rows(rows, self.table.index if self.table.named else None, self.source.n_rows, name)

    def has_finite_data(self, positions: np.ndarray) -> np.ndarray:
        """Of which rows (rows,) the data is finite: rows that are held out may hold anything, new ones are checked before."""
        finite = np.ones(len(positions), dtype=bool)
        inside = positions < self.source.n_rows
        for array in self.density.data:
            if array.dtype.kind == "f":
                finite[inside] &= np.isfinite(array[positions[inside]]).all(axis=tuple(range(1, array.ndim)))
        return finite

    def codes(self, labels: np.ndarray) -> np.ndarray:
        """Class codes of labels as results show them; an unknown one is a KeyError."""
        codes = self.classes.find(labels, shown=True)
        if (codes < 0).any():
            raise KeyError(np.asarray(labels)[codes < 0].tolist()[0])
        return codes

    def encode(self, labels: Any, n: int, names: pd.Index | None = None) -> np.ndarray:
        """Class codes of `n` labels given in the user's classes; `names` are those of their rows."""
        check_order(labels, names, "the labels of test=")
        known = as_labels(labels)
        if known is None or len(known) != n:
            raise LabelError(f"test= has {n} rows and labels of shape {np.shape(labels)}. Give one label a row.")
        codes = self.classes.find(known)
        strange = np.flatnonzero(codes < 0)
        if strange.size:
            raise LabelError(
                f"test= has {len(strange)} labels outside the classes {self.classes.names.tolist()}, the first is "
                f"{known[strange[0]]}. Give the true class of each test row."
            )
        return codes

    @property
    def words(self) -> RowWords:
        """How messages name rows."""
        return words_of(self.table, self.source)

    def with_rows(self, rows: Mapping[str, Any], called: str = "rows") -> tuple[Density, np.ndarray]:
        """The density on the table with `rows` of the data containers appended, and the positions of these rows.

        Messages call what they are given in `called`.
        """
        n = self.source.n_rows
        if not self.density.graph.sliced:
            raise RowError(
                "New rows of this model cannot be evaluated apart from its table. Put them into the table, and name them by "
                "position."
            )
        pool = read_pool(self.model, rows, self.label, self.log_lik, self.source.declared, called)
        givens = dict(self.source.givens)
        for variable, extended in pool.givens.items():
            if np.ndim(extended):
                table = givens.get(variable, variable.get_value())
                givens[variable] = np.concatenate([table, extended[len(extended) - pool.size :]])
            else:
                givens[variable] = np.asarray(n + pool.size)
        longer = replace(self.source, givens=givens, n_rows=n + pool.size)
        check_groups(self.model, longer, self.log_lik, replace(self.words, new=f"{called}=", new_names=pool.index))
        leaves = evaluate(self.density.graph.leaves, givens)
        data = (np.arange(n + pool.size), *(np.asarray(value) for value in leaves))
        for old, new in zip(self.density.data, data, strict=True):
            if len(new) != n + pool.size or not np.array_equal(old, new[:n], equal_nan=True):
                raise RowError(
                    "Appending new rows changes the data of the table (a statistic of it, or data outside its containers). "
                    "Put them into the table, and name them by position."
                )
        positions = np.arange(n, n + pool.size)
        words, new = RowWords(None, 0, 0, new_names=pool.index), np.arange(pool.size)
        held, columns = {}, {}
        for variable, extended in pool.givens.items():
            if np.ndim(extended):
                name = f'{called}["{variable.name}"]'
                held[name] = extended[len(extended) - pool.size :]
                columns[name] = NamedAxes.of(self.model, str(variable.name), extended.ndim).columns
        check_finite(held, columns, new, words)
        check_finite({f"New data of shape {array.shape}": array[n:] for array in data}, {}, new, words)
        return replace(self.density, data=data, checks=self._checks_on(longer)), positions

    def _checks_on(self, longer: Source) -> ParameterChecks:
        """PyMC's checks, on a table with more rows."""
        checks = self.density.checks
        if not checks.conditions:
            return checks
        table = table_graph(longer, self.log_lik)
        return replace(checks, theta=table.theta, label=table.label, conditions=table.conditions, n_rows=longer.n_rows)


def _is_of_today(stored: Any) -> bool:
    return isinstance(stored, str) and stored.startswith(fingerprints.FORM)


def words_of(table: Table, source: Source) -> RowWords:
    """How messages name rows of a table."""
    return RowWords(table.index if table.named else None, source.declared, source.n_rows)


def declare(
    model: pm.Model,
    *,
    target: Any,
    pool: Mapping[str, Any] | None,
    unlabeled: Any,
    classes: Any,
    index: Any,
    initvals: Mapping[str, Any] | None,
    variant: Variant | None = None,
) -> Problem:
    """Check a model, its prior changed by `variant`, and capture it with its data.

    See `BPLS` for the parameters and `errors` for what is refused.
    """
    require_double()
    check_model(model, target)
    rv = find_target(model, target)
    check_target(model, rv)
    label = label_root(model.rvs_to_values[rv])
    observed = np.asarray(evaluate([label], {})[0])
    terms, prior_terms = split_terms(model, rv, label)
    everything = sum_all(terms)
    check_likelihood(model, rv, everything)
    if variant is not None:
        prior_terms = variant.changed(prior_terms)
    rows = read_pool(model, pool, label, everything, len(observed))
    check_groups_of_priors(model)
    initial = initial_point(model, initvals)
    _check_latent(model, initial, rows, len(observed))
    found = find_classes(rv, classes, _evaluator(model, initial), observed.shape[1:], label.type.dtype)
    table = _table(model, rv, observed, found, rows, unlabeled, index)
    source = make_source(model, label, rows.givens, len(observed) + rows.size, len(observed), initial)
    check_groups(model, source, everything, words_of(table, source))
    start = unconstrained_start(model, initial)
    with _row_by_row(rv.name):
        reached = sum_terms(rv, terms, source, found, start)
        log_lik = sum(reached.values())
        density = make_density(
            model,
            rv.name,
            log_lik,
            prior_terms,
            source,
            found,
            initial,
            find_marginal(model, rv, source),
            must_add_up=len(terms) == 1 and is_probability(rv),
        )
        if density.joint is not None:
            refuse_numbered_rows(rv, terms, density.joint, density.start, found)
    _check_data(model, label, density, rows, table, words_of(table, source))
    source = replace(source, units=density.parameters.units)
    proper = not any(type(free.owner.op).__name__ in IMPROPER for free in model.free_RVs)
    hidden = int((found.match(observed)[table.candidates[table.candidates < len(observed)]] >= 0).sum())
    pool_terms = _find_pool_terms(model, density, table, source, log_lik, reached, prior_terms)
    return Problem(model, rv.name, table, found, density, source, log_lik, reached, prior_terms, proper, hidden, pool_terms)


def _find_pool_terms(
    model: pm.Model,
    density: Density,
    table: Table,
    source: Source,
    log_lik: Variable,
    reached: dict[str, Variable],
    prior_terms: list[Variable],
) -> PoolTerms:
    """Where unlabeled rows enter, by the names of variables."""
    kinds = {
        "the prior of": model.free_RVs,
        "the Potential": model.potentials,
        "the density of": [rv for rv in model.observed_RVs if rv.name not in reached],
    }
    named = [(variable, f'{kind} "{variable.name}"') for kind, variables in kinds.items() for variable in variables]
    prior = [Term(*each, term) for each, term in zip(named, prior_terms, strict=True)]
    of_labels = [Term(model[name], name, term) for name, term in reached.items()]
    return find_pool_terms(model, prior, of_labels, log_lik, density, UnlabeledRows(source, table.labeled, density.start))


@contextmanager
def _row_by_row(name: str) -> Iterator[None]:
    """A likelihood that cannot be taken row by row is refused in words."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if isinstance(error, BPLSError):
            raise
        raise ModelError(
            f'The log-likelihood of "{name}" cannot be taken row by row ({str(error).splitlines()[0]}). '
            "Declare its parameters and labels with one entry a row."
        ) from error


def _evaluator(model: pm.Model, initial: Mapping[str, Any]) -> Callable[[Variable], Any]:
    """The value of a variable of the model at the initial point; nothing is drawn."""
    start = {variable: np.asarray(initial[variable.name]) for variable in model.value_vars}

    def value(variable: Variable) -> Any:
        return evaluate(model.replace_rvs_by_values([variable]), start)[0]

    return value


def initial_point(model: pm.Model, initvals: Mapping[str, Any] | None) -> dict[str, Any]:
    """PyMC's initial point, with `initvals` (of variables on their own scale) in place of the model's own."""
    if initvals is not None and not isinstance(initvals, Mapping):
        raise ModelError(f"initvals= is a {type(initvals).__name__}. Give a mapping from names of variables to their starts.")
    unknown = set(initvals or {}) - {rv.name for rv in model.free_RVs}
    if unknown:
        raise ModelError(f"initvals= names {sorted(unknown)}, which are no free variables. Use names of the model.")
    for name, value in (initvals or {}).items():
        array = as_numbers(value)
        if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
            raise ModelError(f'The start of "{name}" is not finite. Give finite numbers in initvals=.')
    try:
        start = _initial_values(model, {model[name]: value for name, value in (initvals or {}).items()})
    except (TypeError, ValueError) as error:
        names = ", ".join(f'"{name}"' for name in initvals or {})
        raise ModelError(
            f"The start of {names} has another shape than the variable. Give initvals= of its own shape."
        ) from error
    for name in initvals or {}:
        value = start[model.rvs_to_values[model[name]].name]
        if not np.isfinite(value).all():
            raise ModelError(f'The start of "{name}" is outside its support. Give a value inside it in initvals=.')
    return start


def _initial_values(model: pm.Model, overrides: dict[Variable, Any]) -> dict[str, Any]:
    """Values of the value variables; evaluated without a compiler, since PyTensor's takes a second to be imported."""
    expressions = make_initial_point_expression(
        free_rvs=model.free_RVs,
        rvs_to_transforms=model.rvs_to_transforms,
        initval_strategies={**model.rvs_to_initial_values, **overrides},
        return_transformed=True,
    )
    function = pytensor.function([], replace_rng_nodes(expressions), mode=PLAIN)
    reseed_rngs(find_rng_nodes(function.maker.fgraph.outputs), 0)
    return {model.rvs_to_values[rv].name: value for rv, value in zip(model.free_RVs, function(), strict=True)}


def _check_latent(model: pm.Model, initial: Mapping[str, Any], pool: Pool, declared: int) -> None:
    """A parameter for each declared row cannot be extended to the pool's rows."""
    if not pool.size:
        return
    dims = {dim for name in containers(model) for dim in (model.named_vars_to_dims.get(name) or ())[:1]}
    for rv in model.free_RVs:
        value = model.rvs_to_values[rv]
        over_rows = dims & set(model.named_vars_to_dims.get(rv.name) or ())
        if over_rows and declared in np.shape(initial[value.name]):
            raise ModelError(
                f'"{rv.name}" has a value for each declared row, so that pool= cannot add rows to it. '
                "Declare all rows in one table, -1 where unlabeled."
            )


def _table(
    model: pm.Model, rv: Variable, observed: np.ndarray, classes: Classes, pool: Pool, unlabeled: Any, index: Any
) -> Table:
    n, total = len(observed), len(observed) + pool.size
    names, named = row_names(index, pool, _row_coords(model, rv, n), total, name=rv.name)
    mask, sentinel = candidate_mask(unlabeled, observed, pool.size, names.index if named else None)
    codes = classes.codes(observed, rv.name, ~mask[:n], sentinel)
    return Table(np.r_[codes, np.full(pool.size, -1)], np.flatnonzero(mask), names, named)


def _row_coords(model: pm.Model, rv: Variable, n: int) -> tuple[str, Any] | None:
    """The model's coords of the rows with the name of their dim: of the labels, or of a container with a value for each row."""
    names = [name for name, data in containers(model).items() if np.shape(data.get_value(borrow=True))[:1] == (n,)]
    dims = [dim for name in (rv.name, *names) for dim in (model.named_vars_to_dims.get(name) or ())[:1]]
    return next(((dim, model.coords[dim]) for dim in dims if model.coords.get(dim) is not None), None)


def _check_data(model: pm.Model, label: Variable, density: Density, pool: Pool, table: Table, words: RowWords) -> None:
    """Rows in use are finite, in the user's containers (by name and column) and in whatever was computed from them."""
    n = len(table.codes)
    held: dict[str, np.ndarray] = {}
    columns: dict[str, Any] = {}
    for name, data in containers(model).items():
        values = np.asarray(pool.givens.get(data, data.get_value(borrow=True)))
        if values.ndim and len(values) == n and data is not label:
            held[f'"{name}"'] = values
            columns[f'"{name}"'] = NamedAxes.of(model, name, values.ndim).columns
    check_finite(held, columns, table.used, words)
    leaves = density.graph.leaves if density.joint is None else density.joint.leaves
    for leaf, array in zip(leaves, density.data[1:], strict=True):
        if not _chooses_infinity(leaf):
            check_finite({_name_of(model, leaf, array): array}, {}, table.used, words)


def _chooses_infinity(leaf: Variable) -> bool:
    """Whether an infinite number is written in what computes it, as densities do for what cannot be (log p^x of no trials)."""
    numbers = (node.data for node in ancestors([leaf]) if isinstance(node, TensorConstant) and node is not leaf)
    return any(np.ndim(number) == 0 and bool(np.isinf(number)) for number in numbers)


def _name_of(model: pm.Model, leaf: Variable, array: np.ndarray) -> str:
    """Row data by the containers that it is computed from, else by its shape and the observed variable whose density has it."""
    above = set(ancestors([leaf]))
    below = [f'"{data.name}"' for data in model.data_vars if data in above]
    if below:
        return f"What the model computes from {' and '.join(below)}"
    users = [rv for rv in model.observed_RVs if leaf in set(ancestors([rv, model.rvs_to_values[rv]]))]
    of = f' of "{users[0].name}"' if users else ""
    return f"Data{of}, of shape {array.shape},"
