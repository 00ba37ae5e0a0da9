"""Integrate the labels of the pool out, judge the model by test rows beside the supervised one, and keep what it came to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from pymc_bpls.engine.rows.marginal_rows import Marginal
from pymc_bpls.errors import ModelError, RowError
from pymc_bpls.model.data.storing import as_tree
from pymc_bpls.model.data.table import Labeled, Unlabeled
from pymc_bpls.model.problem import Problem
from pymc_bpls.montecarlo.nuts import named_draws
from pymc_bpls.pool.information import Information, find_information
from pymc_bpls.pool.judged import Judged
from pymc_bpls.pool.posterior import FITS, Posterior, Target, find_target
from pymc_bpls.pool.verdict import say_verdict
from pymc_bpls.scoring.fitted import ModelFit
from pymc_bpls.scoring.one_model import ModelScorer
from pymc_bpls.selftraining.held_out import HeldOut
from pymc_bpls.selftraining.history import won_and_lost
from pymc_bpls.text.progress import stage
from pymc_bpls.trained.draws import probabilities_over_draws
from pymc_bpls.trained.result import ROWS, THETA, Trained
from pymc_bpls.trained.sample import draws_of_theta, rows_of

#: Rows that are summed over wherever they are, each with a weight, for a fit on D.
Summed = Callable[[ModelFit, float], Marginal]


def marginalize(
    scorer: ModelScorer,
    weight: float,
    approximation: str,
    test: HeldOut | None,
    options: Mapping[str, Any],
    summed: Summed | None = None,
) -> xr.DataTree:
    """The posterior given D and the candidates that are no test rows, with what it says of them; or given rows that are
    `summed` over, of which nothing is said one by one.

    `scorer` is on the table with the test rows; `options` are those of `pm.sample`.

    Raises
    ------
    ModelError
        Rows of the model depend on each other.
    ModeError
        There is no mode.
    """
    problem = scorer.problem
    if problem.density.joint is not None:
        raise ModelError(
            f'Rows of "{problem.name}" depend on each other, so that their labels cannot be integrated out one by one. '
            "Use self_train, or declare rows that are independent given the parameters."
        )
    table = problem.table if test is None else problem.table.without(test.positions)
    labeled, candidates = problem.labeled, table.candidates
    if not len(candidates) and summed is None:
        raise RowError("test= names every candidate, so that no row is left to integrate out. Leave some of them in the pool.")
    fit = scorer.fit(labeled, centre_of="vi")
    information, pool = _informing(replace(problem, table=table), fit, float(weight), summed)
    # g_u = 0 up to rounding in a model of y given x, as `find_information` has checked
    engine = replace(fit.engine, pool=pool if problem.class_conditional else None)
    target = find_target(problem, engine, labeled, fit.mode)
    posterior = FITS[approximation](target, options)
    labels = {} if summed is not None else {"/labels": _labels(scorer, labeled, candidates, posterior)}
    judged = None
    if test is not None:
        supervised = FITS[approximation](find_target(problem, fit.engine, labeled, fit.mode), options)
        judged = [_judge(scorer, test, each) for each in (supervised, posterior)]
    in_table = np.empty(0, dtype=int) if test is None else test.in_table(problem)
    trained = Trained(labeled, np.zeros(len(labeled), dtype=int), in_table, approximation, pooled=True)
    attrs = {
        "approximation": approximation,
        "weight": float(weight),
        "n_pool": len(pool),
        "modes": len(target.search.modes),
        "mode_share": float(target.search.mass[0]),
        "nats": information.nats,
        "equivalent_labels": information.equivalent_labels,
        "table": problem.fingerprint,
        "reliable": int(not posterior.reasons),
        "reasons": list(posterior.reasons),
        "verdict": say_verdict(problem, information, judged, target.search, posterior.reasons, weight),
    }
    return as_tree(
        {
            "/": xr.Dataset(attrs={**attrs, **_of_weights(problem, posterior)}),
            **labels,
            **_posterior_groups(problem, posterior),
            THETA: draws_of_theta(problem, trained, posterior.theta, posterior.log_weights),
            ROWS: rows_of(problem, trained),
            "/modes": _modes(target),
            **({} if judged is None or test is None else _test_groups(problem, test, judged, len(pool))),
        }
    )


def _informing(
    problem: Problem, fit: ModelFit, weight: float, summed: Summed | None
) -> tuple[Information, Unlabeled | Marginal]:
    """What the candidates, or the rows that are summed over, can tell, and these rows with their weight."""
    if summed is not None:
        return find_information(problem, fit, summed(fit, 1.0)), summed(fit, weight)
    candidates = problem.table.candidates
    return find_information(problem, fit), Unlabeled(candidates, np.full(len(candidates), weight))


def _judge(scorer: ModelScorer, test: HeldOut, posterior: Posterior) -> Judged:
    """How a posterior predicts the test rows."""
    labeled = scorer.problem.labeled
    p = probabilities_over_draws(scorer, labeled, posterior.flat, test.positions, posterior.log_weights)
    return Judged.by(p.mean, test.codes)


def _of_weights(problem: Problem, posterior: Posterior) -> dict[str, Any]:
    """As attrs: how draws count, and what their weights say."""
    if posterior.weighted is None or posterior.log_z is None:
        return {"draws": "of NUTS, which count equally"}
    attrs = {
        "draws": "importance sampling around the Gaussian: they count by exp(log_weight)",
        "pareto_k": posterior.weighted.pareto_k,
        "ess": posterior.weighted.ess,
    }
    return attrs | ({"log_z": posterior.log_z.value, "log_z_error": posterior.log_z.error} if problem.proper else {})


def _labels(scorer: ModelScorer, labeled: Labeled, candidates: np.ndarray, posterior: Posterior) -> xr.Dataset:
    """Class probabilities of the candidates with their spread and, of weighted draws, error; the most probable class."""
    problem, names, by_weights = scorer.problem, scorer.problem.classes.names, posterior.weighted is not None
    with stage("probabilities of the pool"):
        p = probabilities_over_draws(scorer, labeled, posterior.flat, candidates, posterior.log_weights)
    codes = p.mean.argmax(axis=1)
    coords = {"class": names, **problem.coords(candidates, codes)}
    error = (("candidate", "class"), p.mcse, {"description": "Monte Carlo standard error of the probability"})
    return xr.Dataset(
        {
            "probability": (("candidate", "class"), p.mean, {"description": "posterior mean of the probability"}),
            "probability_sd": (("candidate", "class"), p.sd, {"description": "its posterior standard deviation"}),
            **({"probability_mcse": error} if by_weights else {}),
            "label": ("candidate", names[codes], {"description": "the most probable class"}),
        },
        coords=coords,
    )


def _posterior_groups(problem: Problem, posterior: Posterior) -> dict[str, xr.Dataset]:
    """Named draws of NUTS with its statistics, or a Gaussian's centre by name and in θ, with what the weighted draws give."""
    parameters = problem.density.parameters
    names = list(parameters.labels)
    if posterior.gaussian is None:
        stats = xr.Dataset() if posterior.sample_stats is None else posterior.sample_stats
        return {"/posterior": named_draws(parameters, posterior.theta), "/sample_stats": stats}
    assert posterior.weighted is not None
    (mean, covariance), units = posterior.weighted.moments(), parameters.units
    gaussian = xr.Dataset(
        {
            "mean": ("parameter", units * mean, {"description": "posterior mean by the weighted draws"}),
            "sd": ("parameter", units * np.sqrt(np.diag(covariance)), {"description": "posterior standard deviation by them"}),
            "mode": ("parameter", units * posterior.gaussian.mean),
            "covariance": (("parameter", "parameter_bis"), np.outer(units, units) * posterior.gaussian.covariance),
        },
        coords={"parameter": names, "parameter_bis": names},
    )
    return {"/final": parameters.named(posterior.gaussian.mean), "/unconstrained": gaussian}


def _modes(target: Target) -> xr.Dataset:
    """Every mode that was found: θ, and its share of the mass by Laplace's method."""
    parameters = target.problem.density.parameters
    theta = parameters.unconstrained(np.array([mode.theta for mode in target.search.modes]))
    return xr.Dataset(
        {
            "theta": (("mode", "parameter"), theta),
            "share": ("mode", target.search.mass),
            "log_integral": ("mode", np.array([mode.log_integral for mode in target.search.modes])),
        },
        coords={"parameter": list(parameters.labels)},
    )


def _test_groups(problem: Problem, test: HeldOut, judged: list[Judged], m: int) -> dict[str, xr.Dataset]:
    """The supervised model (`n_pseudo` 0) and this one (the pool's size) by the test rows, as a run has its first and last."""
    counts = np.array([won_and_lost(judged[0].right, each.right) for each in judged])
    curve = xr.Dataset(
        {
            "accuracy": ("n_pseudo", np.array([each.right.mean() for each in judged])),
            "log_score": ("n_pseudo", np.array([each.log_score for each in judged])),
            "won": ("n_pseudo", counts[:, 0]),
            "lost": ("n_pseudo", counts[:, 1]),
        },
        coords={"n_pseudo": [0, m]},
    )
    rows = xr.Dataset(
        {
            "label": ("row", problem.classes.names[test.codes]),
            "right_before": ("row", judged[0].right),
            "right_after": ("row", judged[1].right),
        },
        coords={"row": test.positions, **test.names_in(problem).coords("row")},
    )
    return {"/curve": curve, "/test": rows}
