"""Bambi models: the PyMC model that Bambi builds, and its labels, rows and parameters in Bambi's own terms."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.sparse import SparseTensorType

from pymc_bpls.errors import LabelError, ModelError, RowError
from pymc_bpls.model.data.index import as_index, check_order, is_one_value
from pymc_bpls.model.data.labels import KNOWN, UNLABELED, as_labels
from pymc_bpls.model.data.table import ROWS_OF_BAMBI, candidate_mask
from pymc_bpls.model.density import held_constant
from pymc_bpls.model.graphs.jaxify import jaxify
from pymc_bpls.model.graphs.slicing import remake
from pymc_bpls.model.problem import Problem

_GROUPS = "__factor_dim"  # ends of the names of Bambi's dims


@dataclass(frozen=True)
class BambiModel:
    """What `declare` takes of a Bambi model, and `reported`, its parameters as they are in Bambi's posterior.

    `classes` are the response's levels by class code, or None where they are 0 and 1. `unlabeled` are the candidates, `labeled`
    the rows whose label was given and counts, `hidden` how many candidates have one.
    """

    model: pm.Model
    target: str
    classes: np.ndarray | None
    index: pd.Index
    unlabeled: np.ndarray
    labeled: np.ndarray
    hidden: int
    reported: dict[str, Variable]

    def restate(self, problem: Problem) -> Problem:
        """The problem, with the labels that were given, and results in Bambi's parameters instead of its PyMC model's."""
        theta, parts = problem.source.theta()
        orders = {name: _order(self.model, name) for name in self.reported}
        ordered = [pt.transpose(variable, orders[name]) for name, variable in self.reported.items()]
        outputs = self.model.replace_rvs_by_values(ordered)
        constrain = jaxify([theta], remake(outputs, {**held_constant(outputs, problem.source), **parts}))
        dims = {name: tuple(_dims(self.model, name)[axis] for axis in order) for name, order in orders.items()}
        held = problem.density.parameters
        parameters = replace(held, variables=tuple(self.reported), constrain=constrain, dims=dims)
        table = replace(problem.table, codes=np.where(self.labeled, problem.table.codes, UNLABELED))
        return replace(problem, table=table, hidden=self.hidden, density=replace(problem.density, parameters=parameters))


def is_bambi(model: Any) -> bool:
    """Whether `model` is a `bambi.Model`; Bambi is not imported for that."""
    bambi = sys.modules.get("bambi")
    return bambi is not None and isinstance(model, bambi.Model)


def from_bambi(model: Any, observed: Any, unlabeled: Any = UNLABELED, classes: Any = None, index: Any = None) -> BambiModel:
    """Build a `bambi.Model` where it is not built, and read what `BPLS` needs.

    Parameters
    ----------
    model : bambi.Model
    observed : array_like, shape (rows,)
        The labels as in the frame, with None, NaN, `pd.NA`, a mask or −1 where there is none. Bambi wants a valid label in each
        row: what its frame holds there is a stand-in, and never used.
    unlabeled : mask of bool, positions, or names of the index, optional
        Which rows are candidates, by default all without a label. Others without one are held out.
    classes, index : array_like, optional
        The user's own classes, and index of the rows where it is not the frame's.

    Returns
    -------
    BambiModel

    Raises
    ------
    ModelError
        Bambi cannot build the model or holds it sparse, or its family is no classifier.
    LabelError
        `observed` is not given, or holds another label than the frame.
    RowError
        Bambi dropped rows of the data frame, or `unlabeled` does not fit its rows.

    Examples
    --------
    >>> import bambi, numpy as np, pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"x": rng.normal(size=20), "spam": [0, 1] * 4 + [None] * 12})
    >>> model = bambi.Model("spam ~ x", frame.fillna(0).astype({"spam": int}), family="bernoulli")
    >>> read = from_bambi(model, observed=frame["spam"])
    >>> read.target, list(read.reported), int(read.unlabeled.sum())
    ('spam', ['Intercept', 'x'], 12)
    """
    built, response = _build(model), _response(model)
    name, n = response.alias or response.name, len(response.data)
    kind = type(built[name].owner.op).__name__
    if kind not in KNOWN and classes is None:
        raise ModelError(
            f'"{name}" has the family "{model.family.name}", which is no classifier. '
            'Use family="bernoulli", "categorical" or "cumulative".'
        )
    if any(isinstance(variable.type, SparseTensorType) for variable in ancestors([built[name]])):
        raise ModelError(
            f'"{name}" takes its group effects from a sparse matrix, which cannot be taken row by row. '
            'Set bambi.config["SPARSE_DOT"] = False, then model.build().'
        )
    if n != len(model.data):
        raise RowError(_dropped(name, n, model.data, response.name))
    known = _given(observed, name, response, model.data, unlabeled if is_one_value(unlabeled) else UNLABELED)
    names = model.data.index if index is None else as_index(index, "index=")
    if is_one_value(unlabeled):
        mask = ~known
    else:
        mask, _ = candidate_mask(unlabeled, np.empty(n), 0, names)
    labeled, hidden = known & ~mask, int((known & mask).sum())
    return BambiModel(built, name, _classes(response, model.data), names, mask, labeled, hidden, _reported(model))


def _dropped(name: str, n: int, data: pd.DataFrame, response: str) -> str:
    what = f'"{name}" has {n} rows and its data frame {len(data)}, since Bambi drops incomplete rows (dropna=True). '
    if response in data and data[response].isna().any():
        return f'{what}Fill missing labels, as frame.fillna({{"{response}": ...}}), and give the labels in observed=.'
    return f"{what}Drop or impute them before giving the frame to Bambi."


def _given(observed: Any, name: str, response: Any, data: pd.DataFrame, mark: Any) -> np.ndarray:
    """Which rows (rows,) have a label in `observed`, which has to be the frame's; `mark` is none, unless the frame has it.

    Raises
    ------
    LabelError
    """
    held = data[response.name].tolist() if response.name in data else np.asarray(response.data).reshape(len(data), -1)[:, 0]
    if observed is None:
        raise LabelError(
            f'Bambi holds a label in each of the {len(data)} rows of "{name}", and cannot say which were made up. '
            "Give the labels in observed=, with None, NaN or -1 where there is none."
        )
    check_order(observed, data.index, "observed=")
    labels = as_labels(observed)
    if labels is None or len(labels) != len(data):
        raise LabelError(f'"{name}" has {len(data)} rows and observed= the shape {np.shape(observed)}. Give one label a row.')
    marks = (None,) if mark in held else (None, mark)
    known = np.array([label not in marks for label in labels], dtype=bool)
    strange = [row for row in np.flatnonzero(known).tolist() if labels[row] != held[row]]
    if strange:
        row = strange[0]
        raise LabelError(
            f'observed= holds other labels than the frame of "{name}" in {len(strange)} rows, the first is '
            f"{labels[row]} for {held[row]} in row {data.index[row]}. Give Bambi the same labels, filled where missing."
        )
    return known


def _build(model: Any) -> pm.Model:
    if not model.built:
        try:
            model.build()
        except Exception as error:  # whatever a version of Bambi says that does not go with PyMC's
            first = str(error).splitlines()[0].rstrip(".") if str(error) else "no message"
            raise ModelError(
                f"Bambi {sys.modules['bambi'].__version__} cannot build the model with PyMC {pm.__version__} "
                f'({type(error).__name__}: {first}). Check model.build(), and that "pymc-bpls[bambi]" is installed.'
            ) from error
    return model.backend.model


def _response(model: Any) -> Any:
    """Bambi's response term; what was `response_component` until 0.20 warns from 0.21 on."""
    return model.response_term if hasattr(type(model), "response_term") else model.response_component.term


def _classes(response: Any, data: pd.DataFrame) -> np.ndarray | None:
    """The response's levels in the order of its class codes, as the user's values rather than Bambi's strings."""
    values = {str(value): value for value in data[response.name].unique()} if response.name in data else {}
    levels = [str(level) for level in response.levels or values]
    if response.success is None:
        return np.array([values.get(level, level) for level in levels]) if response.levels else None
    if not response.categorical:
        return np.array([False, True]) if response.data.dtype.kind == "b" else None
    success = str(response.success)
    others = [level for level in levels if level != success]
    failure = values.get(others[0], others[0]) if len(others) == 1 else f"not {success}"
    return np.array([failure, values.get(success, success)])


def _reported(model: Any) -> dict[str, Variable]:
    """The parameters in Bambi's posterior: group effects instead of their offsets, intercepts of the data as they are."""
    built = model.backend.model
    derived = {variable.name: variable for variable in built.deterministics if ROWS_OF_BAMBI not in _dims(built, variable.name)}
    free = {rv.name: rv for rv in built.free_RVs if rv.name.removesuffix("_offset") not in derived}
    return {**free, **derived, **_intercepts(model)}


def _intercepts(model: Any) -> dict[str, Variable]:
    """Intercepts where Bambi centers the predictors inside the PyMC model, without that: Intercept − mean(X)β."""
    built, intercepts = model.backend.model, {}
    for component in model.backend.distributional_components.values():
        design = component.design_matrix_without_intercept
        if design is None:
            continue
        name = _name(component.component.intercept_term)
        centered = built[name]
        terms = component.component.common_terms.values()
        slopes = pt.concatenate([pt.reshape(built[_name(term)], (-1, centered.size), ndim=2) for term in terms])
        intercepts[name] = centered - pt.reshape(pt.dot(design.mean(axis=0), slopes), centered.shape, ndim=centered.ndim)
    return intercepts


def _dims(model: pm.Model, name: str) -> tuple[str, ...]:
    return tuple(model.named_vars_to_dims.get(name) or ())


def _order(model: pm.Model, name: str) -> list[int]:
    """The axes of a variable in the order that Bambi's posterior has and its predictions rely on: groups come last."""
    dims, known = _dims(model, name), list(model.coords)
    if not dims:
        return list(range(model[name].ndim))
    return sorted(range(len(dims)), key=lambda axis: (dims[axis].endswith(_GROUPS), known.index(dims[axis])))


def _name(term: Any) -> str:
    return term.alias or term.name
