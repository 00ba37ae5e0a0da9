"""What a pool can tell a model, before anything is trained on it.

With ℓ_u(y; θ) the log-likelihood of row u with class y, the row without its label says g_u(θ) = log Σ_y exp ℓ_u(y; θ).

- In a model of y given x, Σ_y p(y | x, θ) = 1, so that g_u ≡ 0. Where no other term depends on unlabeled rows (`pool_terms`),
  p(θ | D, pool) = p(θ | D): the pool cannot inform it.
- Where labels reach other observed variables, the gradients of g_u are the scores of the row's features, and the pool is
  expected to bring Ī = Σ_u E[∇g_u ∇g_u'] to a posterior given D with covariance Σ_D, if the model is right [1]_.
- Observed variables that labels do not reach have a term t_u of θ for each row. Every posterior of the model has these terms;
  those of the pool's rows bring T̄ = −E ∇² Σ_u t_u to the one without them, with covariance Σ_D (`baseline`).

With Σ_D = LL' and M = L'(T̄ + Ī)L, `Predictions` says how many nats of it are about what predictions depend on. With labels
the same rows would bring L'(T̄ + J̄)L, J̄ = Σ_u E Σ_y p(y | x_u, θ) ∇ℓ_u(y) ∇ℓ_u(y)' ⪰ Ī: as many of them as bring the same nats
are the equivalent labels [2]_.

References
----------
.. [1] Lindley, D. V. (1956). On a measure of the information provided by an experiment. Annals of Mathematical Statistics 27,
   986-1005. https://doi.org/10.1214/aoms/1177728069
.. [2] Castelli, V. and Cover, T. M. (1996). The relative value of labeled and unlabeled samples in pattern recognition with an
   unknown mixing parameter. IEEE Transactions on Information Theory 42, 2102-2117. https://doi.org/10.1109/18.556600
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.approximations.predictions.predictive import antithetic_draws
from pymc_bpls.engine.rows.marginal_rows import Marginal, MarginalRows
from pymc_bpls.errors import ModelError
from pymc_bpls.model.data.table import Unlabeled
from pymc_bpls.model.observed_rows import density_of
from pymc_bpls.model.problem import Problem
from pymc_bpls.pool.baseline import find_baseline, first_order
from pymc_bpls.pool.nats import Predictions
from pymc_bpls.pool.scores import row_scores, squares_of_log_odds, sums_of_scores
from pymc_bpls.pool.sentences import LEAST_NATS, say_information
from pymc_bpls.scoring.fitted import ModelFit
from pymc_bpls.text.summary import Summary

_DRAWS = 64
_OFF = 1e-5
_COLUMNS = "nats", "equivalent_labels", "nuisance_nats"


@dataclass(frozen=True, repr=False)
class Information:
    """What the pool can tell the model; `print` it first.

    Attributes
    ----------
    informative : bool
        Whether unlabeled rows can tell the model anything about what predictions depend on. True also where they enter a prior,
        a Potential or the data of labeled rows, of which nobody knows what they tell.
    nats : float
        By how much the pool narrows the posterior of what predictions depend on, ½ log(det Σ_bb / det Σ'_bb), if the model is
        right (Lindley's information; 1 nat = 1.44 bits). One nat narrows one parameter's standard deviation to 1/e = .37 of
        what it is. b are the directions of θ in which the log-odds of rows change.
    equivalent_labels : float
        How many labeled rows would bring as many nats; at most the number of candidates.
    sources : xarray.Dataset
        Over `source`, the observed variables through which unlabeled rows enter, each by itself: `nats` and
        `equivalent_labels` as above, and `nuisance_nats`, of parameters that no prediction depends on, given those on which
        predictions depend.
    rows : xarray.Dataset
        Over `candidate`, none of a lazy pool: `nats`, what the row brings by itself to first order, and `nats_with_label`, what
        it would bring with its label.
    verdict : str

    See Also
    --------
    BPLS.information : makes it.
    """

    informative: bool
    nats: float
    equivalent_labels: float
    sources: xr.Dataset
    rows: xr.Dataset
    verdict: str

    @property
    def table(self) -> pd.DataFrame:
        """What the pool as a whole is worth."""
        return pd.DataFrame({"nats": [self.nats], "equivalent_labels": [self.equivalent_labels]}, index=["pool"])

    def __str__(self) -> str:
        return self.verdict

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return Summary([self.verdict], pd.DataFrame())._repr_html_()


@dataclass(frozen=True)
class _Sums:
    """In the coordinates of L: M of g_u, and that of the same rows with labels, (q, q); of each row both to first order, and
    its largest |g_u|, (m,).
    """

    brought: np.ndarray
    with_labels: np.ndarray
    own: np.ndarray
    own_with_label: np.ndarray
    largest: np.ndarray


def find_information(problem: Problem, fit: ModelFit, rows: Marginal | None = None) -> Information:
    """What the candidates, or `rows` that are summed over wherever they are, can tell beyond the `fit` on D.

    Raises
    ------
    ModelError
        Likelihoods do not add up to 1 over the classes of a model of y given x, or rows depend on each other.
    """
    terms = problem.pool_terms
    dependent = problem.density.joint is not None
    if dependent and terms.reached:
        raise ModelError(
            f'Rows of "{problem.name}" depend on each other, so that their labels cannot be integrated out one by one. '
            "Declare features that are independent given the labels."
        )
    if dependent or (rows is not None and not terms.reached):
        nothing = np.zeros(0 if rows is not None else len(problem.table.candidates))
        return _as_information(problem, len(nothing), nothing, nothing)
    return _measured(problem, fit, rows or _candidates(problem, fit))


def _candidates(problem: Problem, fit: ModelFit) -> MarginalRows:
    some = problem.table.candidates
    return MarginalRows(fit.engine.density, fit.engine.compiler, Unlabeled(some, np.ones(len(some))))


def _measured(problem: Problem, fit: ModelFit, pool: Marginal) -> Information:
    """By draws of the posterior that the model has, in the coordinates of the one without the pool."""
    reached, m = problem.pool_terms.reached, len(pool)
    q = Gaussian.at_mode(fit.mode).in_theta
    draws = q.mean + antithetic_draws(len(q.mean), _DRAWS) @ q.factor.T
    baseline = find_baseline(problem, fit, draws)
    at = draws, baseline.without.factor
    predictions = _find_predictions(problem, fit, pool, q.mean, baseline.without.factor)
    sums = _add_up(pool, *at, predictions.projector_root)
    if not reached:
        _check_sums(problem, sums.largest)
    alone = {name: _alone(problem, name, pool, *at, predictions, sums) for name in reached} | dict(baseline.alone)
    of_features = sums.brought if reached else 0.0 * sums.brought
    brought = baseline.gained + of_features
    with_labels = baseline.gained + sums.with_labels
    table = {name: _of_source(predictions, each, with_labels, m) for name, each in alone.items()}
    total = _of_source(predictions, brought, with_labels, m) if alone else (0.0, 0.0, 0.0)
    added = first_order(problem, baseline, draws, predictions.projector_root) if len(sums.own) else sums.own
    own = added + sums.own if reached else added
    unused = _unused(problem, predictions, brought, baseline.without.factor)
    return _as_information(problem, m, 0.5 * own, 0.5 * (added + sums.own_with_label), total, table, unused)


def _find_predictions(problem: Problem, fit: ModelFit, pool: Marginal, mode: np.ndarray, factor: np.ndarray) -> Predictions:
    """From the log-odds of the pool and of D; who was labeled is no part of them."""
    names = [name for name in problem.reached if name not in problem.pool_terms.mechanism]
    density = fit.engine.density if len(names) == len(problem.reached) else density_of(problem, names)
    D = problem.labeled.positions
    labeled = MarginalRows(density, fit.engine.compiler, Unlabeled(D, np.ones(len(D))))
    seen = pool if density is fit.engine.density else pool.under(density)
    squares = sum(rows.sums(squares_of_log_odds, mode, factor) for rows in (labeled, seen))
    return Predictions(squares / (len(labeled) + len(pool)))


def _add_up(pool: Marginal, draws: np.ndarray, factor: np.ndarray, root: np.ndarray) -> _Sums:
    """Over all rows, and of each where they are in memory."""
    if not isinstance(pool, MarginalRows):
        return _Sums(*pool.sums(sums_of_scores, draws, factor, root), *(np.empty(0) for _ in range(3)))
    brought, with_labels, *of_rows = pool.by_block(row_scores, draws, factor, root)
    return _Sums(brought.sum(axis=0), with_labels.sum(axis=0), *(values.ravel()[: len(pool)] for values in of_rows))


def _alone(
    problem: Problem, name: str, pool: Marginal, draws: np.ndarray, factor: np.ndarray, predictions: Predictions, sums: _Sums
) -> np.ndarray:
    """M of rows of which only one variable is seen, with the density of the target and of that variable."""
    if len(problem.pool_terms.reached) == 1:
        return sums.brought
    under = pool.under(density_of(problem, [problem.name, name]))
    return under.sums(sums_of_scores, draws, factor, predictions.projector_root)[0]


def _of_source(predictions: Predictions, brought: np.ndarray, labeled: np.ndarray, m: int) -> tuple[float, float, float]:
    """Nats, equivalent labels, and nats of other parameters."""
    nats = predictions.nats(brought)
    return nats, predictions.equivalent_labels(nats, labeled, m), predictions.other_nats(brought)


def _unused(problem: Problem, predictions: Predictions, brought: np.ndarray, factor: np.ndarray) -> list[str]:
    """Free variables that no prediction depends on, and which the pool narrows."""
    narrowed = predictions.narrowed_unused(brought, factor)
    ends = np.cumsum([0, *problem.density.parameters.sizes])
    parts = [slice(*pair) for pair in pairwise(ends)]
    return [rv.name for rv, part in zip(problem.model.free_RVs, parts, strict=True) if narrowed(part)]


def _check_sums(problem: Problem, largest: np.ndarray) -> None:
    """Refuse a model of y given x whose likelihoods do not add up to 1."""
    off = np.flatnonzero(largest > _OFF)
    if off.size:
        first = problem.words.one(problem.table.candidates[off[0]])
        raise ModelError(
            f'The likelihood of "{problem.name}" does not add up to 1 over its classes (log sum {largest[off[0]]:.3g} in '
            f"{first}), so that rows without a label mean nothing. Declare probabilities of classes."
        )


def _as_information(
    problem: Problem,
    m: int,
    own: np.ndarray,
    with_label: np.ndarray,
    total: tuple[float, float, float] = (0.0, 0.0, 0.0),
    table: Mapping[str, tuple[float, float, float]] | None = None,
    unused: Sequence[str] = (),
) -> Information:
    """With the verdict; of each row where rows are the table's candidates."""
    terms, table, (nats, labels, nuisance) = problem.pool_terms, table or {}, total
    columns = np.array([*table.values()]).reshape(-1, 3).T
    sources = xr.Dataset(
        {name: ("source", values) for name, values in zip(_COLUMNS, columns, strict=True)}, coords={"source": list(table)}
    )
    candidates = problem.table.candidates
    rows = xr.Dataset(
        {"nats": ("candidate", own), "nats_with_label": ("candidate", with_label)},
        coords=problem.coords(candidates, np.zeros(len(candidates), dtype=int)),
    )
    by_source = {name: each[0] for name, each in table.items()}
    unknown = bool(terms.elsewhere) or bool(terms.places and not table)
    verdict = say_information(terms, nats, labels, by_source, (nuisance, unused), m)
    return Information(nats > LEAST_NATS or unknown, nats, labels, sources, rows, verdict)
