"""The log-density of a PyMC model on its table, in the unconstrained parameter vector θ ∈ R^q.

Its functions (`structure`) are those of one row and of the prior; here they are made from the model's graph, checked against
the whole table, and put together with the table's data. Potentials and observed variables that the labels do not reach are part
of log π.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import xarray as xr
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

from pymc_bpls.compute.library import CONSTRAINTS, LIBRARY, Graphs
from pymc_bpls.errors import ModelError, RowError
from pymc_bpls.model.components import Components, find_components
from pymc_bpls.model.data.labels import Classes
from pymc_bpls.model.data.storing import free_name, store, with_note
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.model.graphs.affine_maps import find_affine_map
from pymc_bpls.model.graphs.jaxify import NoJaxVersionError, jaxify
from pymc_bpls.model.graphs.parameter_checks import ParameterChecks
from pymc_bpls.model.graphs.row_functions import TableCheck, refuse_sums, verified_row
from pymc_bpls.model.graphs.slicing import (
    PLAIN,
    RowGraph,
    Source,
    constant,
    constants_of_length,
    evaluate,
    frontier,
    remake,
    table_graph,
    unchecked,
)
from pymc_bpls.model.graphs.subtables import SubTables, find_subtables
from pymc_bpls.model.refusals import draws, refuse_random_numbers
from pymc_bpls.model.structure import Rows, Structure
from pymc_bpls.model.units import find_units


@dataclass(frozen=True)
class Parameters:
    """The unconstrained vector: where each variable sits in it, and how to read it in the user's own terms.

    `sizes` are those of the value variables in it, in their order; one of each entry is `units` (q,) in PyMC's numbers.
    """

    variables: tuple[str, ...]
    sizes: tuple[int, ...]
    labels: tuple[str, ...]
    constrain: Callable[[Any], tuple[jax.Array, ...]]
    dims: dict[str, tuple[str, ...]]
    coords: dict[str, np.ndarray]
    units: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def log_volume(self) -> float:
        """log of the volume in PyMC's numbers of a cube of one unit."""
        return float(np.log(self.units).sum())

    def unconstrained(self, theta: np.ndarray) -> np.ndarray:
        """θ (…, q) in PyMC's own numbers."""
        return theta * self.units

    def counted(self, unconstrained: np.ndarray) -> np.ndarray:
        """θ (…, q) of PyMC's own numbers."""
        return unconstrained / self.units

    def named(self, theta: np.ndarray) -> xr.Dataset:
        """θ (q,) as the model's free variables on their own scale, with dims and coords.

        A dim that is called as a variable has `_dim` after its name.
        """
        values = self.constrain(theta)
        variables: dict[str, Any] = {}
        axes: dict[str, str] = {}
        for name, value in zip(self.variables, values, strict=True):
            array = np.asarray(value)
            dims = self.dims.get(name) or tuple(f"{name}_dim_{axis}" for axis in range(array.ndim))
            axes |= {dim: free_name(f"{dim}_dim", self.variables) if dim in self.variables else dim for dim in dims}
            variables[name] = (tuple(axes[dim] for dim in dims), array)
        stored = {axes[dim]: store(pd.Index(held, tupleize_cols=False)) for dim, held in self.coords.items() if dim in axes}
        return xr.Dataset(variables, {dim: (dim, held, with_note(note)) for dim, (held, note) in stored.items()})


@dataclass(frozen=True)
class Density:
    """The log-density of one model on one table; `not_finite(theta)` names variables without a density, `checks` are PyMC's.

    `structure` has the functions, `data` are the table's row inputs for them: its positions first, then the values of the
    leaves of `graph`. Where that is not sliced, a row's ℓ is taken out of the whole table's. Where rows depend on each other
    given θ, no row has an ℓ of its own, and `joint` holds that of any rows together. `components` are those of mixtures among
    the priors.
    """

    structure: Structure
    not_finite: Callable[[np.ndarray], list[str]]
    checks: ParameterChecks
    data: tuple[np.ndarray, ...]
    graph: RowGraph
    parameters: Parameters
    start: np.ndarray
    components: Components
    joint: SubTables | None = None

    @property
    def dimension(self) -> int:
        """q, the number of unconstrained parameters."""
        return len(self.parameters)

    @property
    def class_values(self) -> np.ndarray:
        """What the class codes stand for in the likelihood."""
        return self.structure.class_values

    @property
    def without_rows(self) -> Density:
        """The same functions on an empty table."""
        graph = replace(self.graph, leaves=(), data=(), conditions=())
        checks = replace(self.checks, conditions=())
        return replace(self, data=tuple(values[:0] for values in self.data), graph=graph, checks=checks)

    def take(self, positions: np.ndarray) -> Any:
        """The row inputs at `positions`, as the functions of `structure` take them."""
        return tuple(values[positions] for values in self.data)

    def rows(self, positions: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Rows:
        """Rows of the table with classes and weights."""
        return Rows(weights, codes, self.take(positions))

    def labeled_rows(self, labeled: Labeled, k: float = 1.0) -> Rows:
        """D, padded, its weights times k."""
        padded = labeled.padded()
        return self.rows(padded.positions, padded.codes, k * padded.weights)


def label_root(value: Variable) -> Variable:
    """What holds the labels: PyMC casts an integer container, and the container is what must be replaced."""
    while value.owner is not None and len(value.owner.inputs) == 1:
        value = value.owner.inputs[0]
    return value


def make_source(
    model: pm.Model, label: Variable, givens: dict[Variable, np.ndarray], n_rows: int, declared: int, initial: Any
) -> Source:
    """Where each value variable sits in the joined vector, in PyMC's own order."""
    values: dict[Variable, tuple[int, tuple[int, ...]]] = {}
    start = 0
    for variable in model.value_vars:
        shape = np.shape(initial[variable.name])
        values[variable] = (start, shape)
        start += int(np.prod(shape, dtype=int))
    return Source(values, label, givens, n_rows, declared)


def make_density(
    model: pm.Model,
    name: str,
    log_lik: Variable,
    prior_terms: list[Variable],
    source: Source,
    classes: Classes,
    initial: Any,
    marginal: Callable[..., float] | None = None,
    *,
    must_add_up: bool = False,
) -> Density:
    """The JAX functions of `model`, with rows sliced where that reproduces the whole table.

    `name` is the target's, `log_lik` is from `sum_terms`, `prior_terms` are from `split_terms`; `marginal` is as in
    `find_subtables`. With `must_add_up`, Σ_y exp ℓ_j(y) has to be 1 in every row.

    Raises
    ------
    ModelError
        Rows are dependent given θ, and a table of some of them cannot be made; an operation has no JAX version; PyMC rejects
        the parameters of all rows, at the start and near it; likelihoods that must add up to 1 over the classes do not.
    RowError
        A pool is given, and the likelihood holds constants of the declared length.
    """
    if source.declared != source.n_rows:
        _check_constants(source, log_lik, source.declared)
    table = table_graph(source, log_lik)
    checks = ParameterChecks(name, table.theta, table.label, table.conditions, classes.values[0], source.n_rows, source.n_rows)
    start = unconstrained_start(model, initial) / (1.0 if source.units is None else source.units)
    tried = TableCheck(source, table, classes, start) if log_lik.ndim else None
    if tried is not None:
        tried.refuse(checks, classes if must_add_up else None)
    by_row = verified_row(source, log_lik, table, classes, tried) if tried is not None else None
    joint = find_subtables(source, log_lik, classes, start, marginal) if by_row is None else None
    if joint is not None and must_add_up:
        refuse_sums(name, classes, joint.sums_of_one(start))
    graph, function = by_row or (table, None)
    theta, terms = _in_theta(source, prior_terms)
    if source.units is None:
        rows = tried.log_lik_by(*by_row) if tried is not None and by_row is not None else None
        units = find_units(start, source.sizes, rows, _log_prior(theta, terms))
        source = replace(source, units=units)
        if (units != 1).any():
            return make_density(model, name, log_lik, prior_terms, source, classes, initial, marginal, must_add_up=must_add_up)
    names = [v.name for v in (*model.free_RVs, *model.potentials)]
    parameters = _parameters(model, source)
    terms = [*terms, pt.constant(parameters.log_volume)]

    def make() -> Structure:
        priors = _jaxify_priors(theta, terms, names)
        one_row = replace(graph, leaves=(), data=(), conditions=()) if graph.sliced else None
        row = _no_row if function is None else function.row
        return Structure(row, priors, classes.values, find_affine_map(graph, start), one_row)

    graphs = Graphs([theta, graph.theta, graph.label, *graph.rows], [*terms, graph.log_lik], classes.values)
    structure: Structure = LIBRARY.get(graphs, make) if graph.sliced else make()
    if structure.affine_map is not None and not structure.affine_map.holds_on(graph, start):
        structure = make()

    def not_finite(theta: np.ndarray) -> list[str]:
        values = jax.jit(structure.priors)(theta)
        return [name for name, term in zip(names, values, strict=False) if not np.isfinite(term).all()]

    return Density(
        structure=structure,
        not_finite=not_finite,
        checks=checks,
        data=graph.data if joint is None else joint.data,
        graph=graph,
        parameters=parameters,
        start=start,
        components=find_components(model, source),
        joint=joint,
    )


def jaxify_priors(source: Source, terms: list[Variable]) -> Callable[..., Any]:
    """Terms of log π as a JAX function of θ."""
    return _jaxify_priors(*_in_theta(source, terms), [])


def _in_theta(source: Source, terms: list[Variable]) -> tuple[Variable, list[Variable]]:
    """θ, and terms of log π as functions of it, all else held constant."""
    theta, parts = source.theta()
    return theta, remake(terms, {**held_constant(terms, source), **parts}, check=_but_for_zero_sums)


def _but_for_zero_sums(op: Any, inputs: list[Variable]) -> Variable:
    """PyMC's check, but for that of zero-sum values: transforms make them add up to 0, and it asks for 1e-9 in any units."""
    return inputs[0] if "n_zerosum_axes" in op.msg else op(*inputs)


def _log_prior(theta: Variable, terms: list[Variable]) -> Callable[[np.ndarray], np.ndarray]:
    """log π (1,) by PyTensor, so that nothing is compiled for it; NaN where PyMC rejects what priors depend on."""
    free = remake(terms, {theta: (at := theta.type("theta"))}, check=unchecked)
    function = pytensor.function([at], pt.stack([term.sum() for term in free]), mode=PLAIN, on_unused_input="ignore")
    return lambda theta: np.asarray(function(theta)).sum(keepdims=True)


def _jaxify_priors(theta: Variable, terms: list[Variable], names: list[str]) -> Callable[..., Any]:
    """The terms of log π as a JAX function; a term without JAX version is refused by the name of its variable."""
    try:
        return jaxify([theta], terms)
    except NoJaxVersionError:
        for name, term in zip(names, terms, strict=False):
            try:
                jaxify([theta], [term])
            except NoJaxVersionError as error:
                raise ModelError(
                    f'The density of "{name}" has no JAX version, for its operation {error.operation}. '
                    "Give it a distribution without that operation (a mixture, say, in place of pm.Interpolated)."
                ) from error
        raise


NO_ROW = (
    "Rows of this model depend on each other, so that none has a log-likelihood of its own. "
    "Use BPLS and its methods, which take D and a candidate together."
)


def _no_row(*_: Any) -> jax.Array:
    raise ModelError(NO_ROW)


def held_constant(outputs: list[Variable], source: Source) -> dict[Variable, Variable]:
    """What `outputs` need besides the parameters, evaluated once."""
    leaves = frontier(outputs, set(source.values))
    return {leaf: constant(leaf, value) for leaf, value in zip(leaves, evaluate(leaves, source.givens), strict=True)}


def unconstrained_start(model: pm.Model, initial: Any) -> np.ndarray:
    """The initial point, 0 where a transform has none (ordered values that start equal)."""
    start = np.concatenate([np.ravel(np.asarray(initial[v.name], dtype=float)) for v in model.value_vars])
    return np.where(np.isfinite(start), start, 0.0)


def _check_constants(source: Source, log_lik: Variable, declared: int) -> None:
    """With a pool, every row value must come from a data container."""
    baked = constants_of_length(source, log_lik, declared)
    if baked:
        shapes = ", ".join(str(array.shape) for array in baked)
        raise RowError(
            f"The likelihood holds constants with a value for each of the {declared} declared rows (shapes {shapes}), so "
            "that pool= cannot add rows. Declare them with pm.Data, or declare all rows in one table, -1 where unlabeled."
        )


def split_terms(model: pm.Model, target: Variable, label: Variable) -> tuple[dict[Variable, Variable], list[Variable]]:
    """Log-likelihood terms that the label reaches, by observed variable, and the terms of log π.

    Raises
    ------
    ModelError
        The prior or a Potential reaches the labels, or the likelihood does not contain them.
    """
    priors = [*model.free_RVs, *model.potentials]
    try:
        observed = model.logp(vars=list(model.observed_RVs), sum=False, jacobian=False)
        prior_terms = model.logp(vars=priors, sum=False, jacobian=True)
    except ValueError as error:
        refuse_random_numbers(model)
        raise ModelError(
            f'The labels of "{target.name}" and its parameters have shapes that do not go together. '
            "Declare both with one entry a row."
        ) from error
    if any(map(draws, prior_terms)):
        refuse_random_numbers(model)
    terms = dict(zip(model.observed_RVs, observed, strict=True))
    reached = {rv: term for rv, term in terms.items() if label in set(ancestors([term]))}
    if target not in reached:
        raise ModelError(
            f'The density of "{target.name}" does not contain its labels. Declare them directly: observed=y or pm.Data.'
        )
    prior_terms = [*prior_terms, *(term for rv, term in terms.items() if rv not in reached)]
    for variable, term in zip(priors, prior_terms, strict=False):
        if label in set(ancestors([term])):
            raise ModelError(
                f'"{variable.name}" depends on the labels, so they would count twice. Move that term into the likelihood.'
            )
    return reached, prior_terms


def _parameters(model: pm.Model, source: Source) -> Parameters:
    theta, parts = source.theta()
    free = list(model.free_RVs)
    outputs = model.replace_rvs_by_values(free)
    constrained = remake(outputs, {**held_constant(outputs, source), **parts})
    graphs = Graphs([theta], constrained, np.empty(0))
    constrain = CONSTRAINTS.get(graphs, lambda: jax.jit(jaxify([theta], constrained)))
    coords = {dim: _one_a_level(values) for dim, values in model.coords.items() if values is not None}
    dims = {rv.name: tuple(model.named_vars_to_dims[rv.name]) for rv in free if rv.name in model.named_vars_to_dims}
    shown = {rv.name: tuple(dim for dim in dims.get(rv.name, ())) for rv in free}
    labels: list[str] = []
    for rv in free:
        value = model.rvs_to_values[rv]
        shape = source.values[value][1]
        labels.extend(_entries(rv.name if value.name == rv.name else value.name, shape, shown[rv.name], coords))
    assert source.units is not None
    return Parameters(tuple(rv.name for rv in free), source.sizes, tuple(labels), constrain, dims, coords, source.units)


def _one_a_level(values: Any) -> np.ndarray:
    """Coords as an array with one entry a level, also where the levels are tuples."""
    array = pd.Index(list(values), tupleize_cols=False) if any(isinstance(value, tuple) for value in values) else values
    return np.asarray(array)


def _entries(name: str, shape: tuple[int, ...], dims: tuple[str, ...], coords: dict[str, np.ndarray]) -> Iterator[str]:
    """Names of the entries of a variable, by its coords where they fit."""
    levels = [
        coords[dim] if dim in coords and len(coords[dim]) == size else np.arange(size)
        for dim, size in zip(dims or (None,) * len(shape), shape, strict=False)
    ]
    for place in np.ndindex(*shape):
        inside = ", ".join(str(level[i]) for level, i in zip(levels, place, strict=True))
        yield f"{name}[{inside}]" if shape else name


def hierarchical(model: pm.Model) -> list[tuple[str, str]]:
    """Pairs (variable, parent) of free variables whose prior density depends on another free variable."""
    values = {model.rvs_to_values[rv]: rv.name for rv in model.free_RVs}
    terms = model.logp(vars=list(model.free_RVs), sum=False, jacobian=True)
    return [
        (rv.name, parent)
        for rv, term in zip(model.free_RVs, terms, strict=True)
        for value, parent in values.items()
        if parent != rv.name and value in set(ancestors([term]))
    ]
