"""Scores by Laplace's method: every pair's own mode (`engine.refits`), the criterion's formula, and absolute values."""

from __future__ import annotations

import numpy as np
import xarray as xr

from pymc_bpls.engine.modes.mode import Mode
from pymc_bpls.errors import CriterionError
from pymc_bpls.model.problem import Problem
from pymc_bpls.scoring.criteria import ABSOLUTE, TERMS, Criterion
from pymc_bpls.scoring.fitted import ModelFit
from pymc_bpls.scoring.results import Pairs, Values
from pymc_bpls.text.progress import stage


def score_by_laplace(
    problem: Problem, criterion: Criterion, with_prior: bool, fit: ModelFit, pairs: Pairs, begin: np.ndarray | None
) -> tuple[Values, np.ndarray]:
    """Scores of the pairs with their terms, and the mode of k ℓ_D (+ log π) from which all of them start.

    `begin` is where that mode is looked for: an earlier round's.
    """
    with np.errstate(all="ignore"):
        start = _shared_mode(problem, criterion, with_prior, fit, begin)
        refits = fit.engine.refit(fit.labeled, pairs.rows, pairs.codes, start, k=criterion.k, prior=with_prior)
        # of the density in PyMC's own numbers
        volume = {"log_prior": -problem.density.parameters.log_volume, "log_det": -2 * problem.density.parameters.log_volume}
        terms = xr.Dataset({name: pairs.variable(getattr(refits, name) + volume.get(name, 0.0)) for name in TERMS})
        result = terms[list(criterion.terms)].assign(
            score=_combined(criterion, terms).transpose(*pairs.dims), converged=pairs.variable(refits.converged)
        )
        if with_prior and problem.proper:
            sums = fit.engine.conditional or not problem.class_conditional
            result = result.assign(_absolute(criterion, terms, fit.mode, start, class_sums=sums))
    return Values({str(name): (pairs.dims[: value.ndim], value.to_numpy()) for name, value in result.items()}), start.theta


def _shared_mode(problem: Problem, criterion: Criterion, with_prior: bool, fit: ModelFit, begin: np.ndarray | None) -> Mode:
    """The mode of k ℓ_D (+ log π): it has to exist before any of the candidates'."""
    if criterion.k == 1 and with_prior:
        return fit.mode
    if not with_prior and problem.hierarchy:
        child, parent = problem.hierarchy[0]
        raise CriterionError(
            f'"{criterion.name}" is taken without the prior, and the density of "{child}" depends on "{parent}": '
            'dropping it would drop the model. Use a criterion with the prior, as "ppp".'
        )
    with stage("the mode that refits start from"):
        return fit.engine.fit(fit.labeled, fit.mode.theta if begin is None else begin, k=criterion.k, prior=with_prior)


def _absolute(
    criterion: Criterion, terms: xr.Dataset, mode: Mode, shared: Mode, *, class_sums: bool
) -> dict[str, xr.DataArray]:
    """log PPP_i (k = 2) or log p(D ∪ i) (k = 1) by Laplace's method, and how far `class_sums` are from what they should be."""
    value = (criterion.k * terms.log_lik_labeled + terms.log_lik_pseudo + terms.log_prior - 0.5 * terms.log_det) + 0.5 * len(
        mode.theta
    ) * np.log(2 * np.pi)
    if criterion.k == 1:
        return {ABSOLUTE[1]: value}
    log_ppp = value - mode.log_integral
    absolute = {ABSOLUTE[2]: log_ppp}
    if class_sums and "label" in log_ppp.dims:
        total = xr.apply_ufunc(np.logaddexp.reduce, log_ppp, input_core_dims=[["label"]], kwargs={"axis": -1})
        absolute["class_sum_error"] = total - (shared.log_integral - mode.log_integral)
    return absolute


def _combined(criterion: Criterion, terms: xr.Dataset) -> xr.DataArray:
    try:
        score = criterion.combine(terms)
    except (AttributeError, KeyError) as error:
        raise CriterionError(
            f'The formula of criterion "{criterion.name}" asks for what is no term ({error}). Use {", ".join(TERMS)}.'
        ) from error
    if not isinstance(score, xr.DataArray) or set(score.dims) != set(terms["log_lik_labeled"].dims):
        raise CriterionError(
            f'The formula of criterion "{criterion.name}" gives no value for each candidate. Combine the terms, as {TERMS[0]}.'
        )
    return score
