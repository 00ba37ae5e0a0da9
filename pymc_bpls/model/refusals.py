"""What a model must be so that its rows can be pseudo-labeled: checks, each with its sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.random.type import RandomType

from pymc_bpls.errors import ModelError

IMPROPER = ("FlatRV", "HalfFlatRV")
_NO_GRADIENT = ("BART",)


def check_model(model: pm.Model, target: str | Variable | None = None) -> None:
    """Refuse what has no Laplace approximation at all: missing values as parameters, discrete or tree-valued variables; and
    variables of `pymc.dims`. `target` is as in `find_target`.
    """
    for rv in (*model.free_RVs, *model.observed_RVs):
        if type(rv.type).__name__ == "XTensorType":
            raise ModelError(
                f'"{rv.name}" is declared with pymc.dims, whose variables have dimensions by name and no axis of rows. '
                "Declare the model with pm.Normal and the like in place of pymc.dims."
            )
    names = {rv.name for rv in model.free_RVs}
    _refuse_missing(model, target)
    if not names:
        raise ModelError("The model has no free variable. Give at least one parameter a prior.")
    for rv in model.free_RVs:
        kind = type(rv.owner.op).__name__
        if any(kind.startswith(name) for name in _NO_GRADIENT):
            raise ModelError(f'"{rv.name}" is a {kind}, which has no gradient. Use a spline or a Gaussian process.')
        if np.dtype(rv.dtype).kind in "biu":
            raise ModelError(
                f'"{rv.name}" is a discrete free variable, so that there is no Hessian. '
                "Marginalise it (pm.Mixture, or pymc_extras.marginalize)."
            )


def _refuse_missing(model: pm.Model, target: str | Variable | None) -> None:
    """Refuse observed values that are missing: labels and features each with their cure."""
    free = {rv.name: rv for rv in model.free_RVs}
    only = model.observed_RVs[0].name if len(model.observed_RVs) == 1 else None
    named = getattr(target, "name", target) or only
    for observed in model.observed_RVs:
        stem = observed.name.removesuffix("_observed")
        rv = free.get(f"{stem}_unobserved")
        if stem == observed.name or rv is None:
            continue
        are_labels = np.dtype(rv.dtype).kind in "biu" if named is None else named in (stem, observed.name)
        cure = (
            "Mark unlabeled rows with -1 instead, as encode_labels does."
            if are_labels
            else "Impute them, leave these rows out, or declare a pm.CustomDist whose logp is 0 where a value is missing."
        )
        raise ModelError(f'"{stem}" holds missing values, which PyMC turns into free variables. {cure}')


def find_target(model: pm.Model, target: str | Variable | None) -> Variable:
    """The observed variable that holds the labels."""
    observed = {rv.name: rv for rv in model.observed_RVs}
    if not observed:
        where = ", ".join(f'"{potential.name}"' for potential in model.potentials)
        raise ModelError(
            f"The model has no observed variable{f', only the Potential {where}' if where else ''}. "
            "Declare the labels with observed=, -1 where unlabeled (pm.CustomDist takes any log-likelihood)."
        )
    name = getattr(target, "name", target)
    if name is None and len(observed) > 1:
        raise ModelError(
            f"The model has {len(observed)} observed variables: {_quoted(observed)}. Say which holds the labels with target=."
        )
    if name is not None and name not in observed:
        raise ModelError(f'target="{name}" is no observed variable of the model. Use one of {_quoted(observed)}.')
    return observed[name] if name is not None else next(iter(observed.values()))


def check_target(model: pm.Model, target: Variable) -> None:
    """Refuse a likelihood that is rescaled to a total size, or whose labels are drawn at random."""
    if type(target.owner.op).__name__ == "MinibatchRandomVariable":
        raise ModelError(
            f'"{target.name}" has total_size=, which rescales its likelihood whatever rows are in it. Declare it without.'
        )
    _check_fixed(target, model.rvs_to_values[target])


def check_likelihood(model: pm.Model, target: Variable, log_lik: Variable) -> None:
    """Refuse a likelihood whose data are drawn at random, or sparse."""
    _check_fixed(target, log_lik)
    sparse = [variable for variable in ancestors([log_lik]) if isinstance(variable.type, SparseTensorType)]
    if sparse:
        name = next((f' "{variable.name}"' for variable in sparse if variable in model.data_vars), "")
        raise ModelError(
            f'The likelihood of "{target.name}" uses a sparse matrix{name}, whose rows cannot be taken one by one. '
            "Give it dense: X.toarray()."
        )


def _check_fixed(target: Variable, of: Variable) -> None:
    if draws(of):
        raise ModelError(
            f'The data of "{target.name}" are drawn at random each time, as by pm.Minibatch. '
            "Declare it on the whole table, with every row in its place."
        )


def refuse_random_numbers(model: pm.Model) -> None:
    """Refuse a model one of whose densities holds random numbers that are no variables of it.

    Raises
    ------
    ModelError
        Names the variable in whose density they are.
    """
    for variable in (*model.observed_RVs, *model.free_RVs, *model.potentials):
        try:
            drawn = draws(model.logp(vars=[variable], sum=False)[0])
        except ValueError as error:
            drawn = "Random variables detected" in str(error)
        if drawn:
            raise ModelError(
                f'"{variable.name}" depends on random numbers that are no variable of the model (a .dist or pt.random in its '
                "formula). Give them a name and a prior, as pm.Normal(name, ...), or draw them once, as data, with pm.draw."
            )


def draws(of: Variable) -> bool:
    """Whether a graph draws random numbers."""
    return any(isinstance(variable.type, RandomType) for variable in ancestors([of]))


def _quoted(names: Any) -> str:
    return ", ".join(f'"{name}"' for name in names)
