"""The rows' terms of observed variables: of those that labels reach some alone, and of the others without some rows.

Both say what a variable tells by itself: p(y, z | x, θ) of one variable z that labels reach, and log π(θ) without the terms of
unlabeled rows in a variable that they do not reach.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from pymc_bpls.compute.store import Store
from pymc_bpls.model.density import Density, jaxify_priors, make_density
from pymc_bpls.model.graphs.slicing import evaluate
from pymc_bpls.model.problem import Problem


def density_of(problem: Problem, names: Sequence[str]) -> Density:
    """The density with the rows' terms of some variables that labels reach, the target among them."""
    if set(names) == set(problem.reached):
        return problem.density
    log_lik = sum(problem.reached[name] for name in names)
    start = problem.density.start
    initial = {variable.name: value for variable, value in problem.source.at(start).items()}
    return make_density(problem.model, problem.name, log_lik, problem.prior_terms, problem.source, problem.classes, initial)


def without_rows(problem: Problem, density: Density, names: Sequence[str], rows: np.ndarray) -> Density:
    """A density whose prior has no terms of `rows` in some observed variables that labels do not reach."""
    terms = _of_observed(problem)
    cut = [terms[name][np.setdiff1d(np.arange(_length(problem, terms[name])), rows)] for name in names]
    others = [term for term in problem.prior_terms if all(term is not terms[name] for name in names)]
    volume = pt.constant(problem.density.parameters.log_volume)
    priors = jaxify_priors(problem.source, [*others, *cut, volume])
    return replace(density, structure=replace(density.structure, priors=priors, store=Store(), graph=None, source=None))


def row_terms(problem: Problem, names: Sequence[str], rows: np.ndarray) -> Callable[[jax.Array], jax.Array]:
    """Terms of `rows` (rows,) in observed variables that labels do not reach, as a function of θ; 0 of rows without one."""
    terms = _of_observed(problem)
    lengths = [_length(problem, terms[name]) for name in names]
    of_rows = [terms[name][rows[rows < length]] for name, length in zip(names, lengths, strict=True)]
    function = jaxify_priors(problem.source, of_rows)

    def of_theta(theta: jax.Array) -> Any:
        added = [values.reshape(len(values), -1).sum(axis=1) for values in function(theta)]
        return sum(jnp.zeros(len(rows)).at[: len(values)].set(values) for values in added)

    return of_theta


def _length(problem: Problem, term: Variable) -> int:
    """How many rows a term has: those of the table, or those that were declared."""
    [held] = evaluate([term], {**problem.source.givens, **problem.source.at(problem.density.start)})
    return len(held)


def _of_observed(problem: Problem) -> dict[str, Variable]:
    names = [rv.name for rv in problem.model.observed_RVs if rv.name not in problem.reached]
    return dict(zip(names, problem.prior_terms[-len(names) :], strict=True)) if names else {}
