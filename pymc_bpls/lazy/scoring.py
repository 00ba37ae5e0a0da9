"""Scores of a lazy pool: one Gaussian fit where D is, a pass over the partitions, and what is merged of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import xarray as xr

from pymc_bpls.approximations.automatic import EP
from pymc_bpls.approximations.gaussians.mixture import Mixture
from pymc_bpls.approximations.hierarchies.scales import admits_plain
from pymc_bpls.compute.executors import Executor
from pymc_bpls.engine.modes.mode import Mode
from pymc_bpls.errors import ApproximationError, CriterionError, ModeError, warn
from pymc_bpls.lazy.best import Best
from pymc_bpls.lazy.part_scorer import Averaging, PoolScorer, Reply, score_part
from pymc_bpls.lazy.passes import over_parts
from pymc_bpls.lazy.pool import LazyPool
from pymc_bpls.lazy.results import best_dataset, counts, warn_of_lost, with_statistics
from pymc_bpls.lazy.statistics import Statistics
from pymc_bpls.lazy.stores import Store, find_store
from pymc_bpls.scoring.by_ep_and_vi import fit_gaussians, log_normalizer_of
from pymc_bpls.scoring.criteria import CRITERIA, Criterion
from pymc_bpls.scoring.fitted import ModelFit
from pymc_bpls.scoring.one_model import ModelScorer
from pymc_bpls.scoring.scorer import fit_on
from pymc_bpls.scoring.settings import AUTO, LAPLACE, Settings
from pymc_bpls.text.progress import stage


@dataclass(frozen=True)
class Scored:
    """What a pass came to: the best pairs, the statistics of all rows, and attrs of the scores."""

    best: Best
    statistics: Statistics
    seconds: float
    attrs: dict[str, Any]


def without_refits(settings: Settings) -> Settings:
    """The same where approximations that refit every row neither lead nor stand in, if the user left the choice."""
    order = [settings.approximation, *settings.otherwise]
    quick = [name for name in order if name != LAPLACE or not isinstance(settings.criterion, Criterion)]
    return settings.by(quick) if settings.otherwise and quick else settings


def refuse_refits(settings: Settings) -> None:
    """Refuse scores that need a refit of every row."""
    if isinstance(settings.criterion, Criterion) and settings.by_laplace:
        raise CriterionError(
            f'"{settings.criterion.name}" by Laplace\'s method refits the model for each row of the pool. '
            'Use approximation="ep" or "vi" with "ppp" or "marginal_likelihood", or take the best rows by top= and refit these.'
        )


def score_lazily(
    pool: LazyPool,
    scorer: ModelScorer,
    settings: Settings,
    fit: ModelFit,
    *,
    top: int = 0,
    store: Store | None = None,
    left_out: np.ndarray | None = None,
    executor: Executor | None = None,
) -> Scored:
    """A pass over the pool, or over what an earlier one left of it in the `store`; the next approximation where one fails."""
    try:
        made, attrs = _pool_scorer(pool, scorer, settings, fit)
    except (ApproximationError, ModeError) as error:
        if not settings.otherwise:
            raise
        next_one, *rest = settings.otherwise
        warn(f'Scores are by "{next_one}" in place of "{settings.approximation}". {error}')
        other = replace(settings, approximation=next_one, otherwise=tuple(rest))
        scored = score_lazily(pool, scorer, other, fit, top=top, store=store, left_out=left_out, executor=executor)
        refused = [f"{settings.approximation}: {error}", *scored.attrs.get("instead_of", ())]
        return replace(scored, attrs={**scored.attrs, "instead_of": refused})
    none = np.empty(0, dtype=np.int64)
    made = replace(made, top=top, store=store, left_out=none if left_out is None else np.sort(left_out))
    attrs["approximation"] = settings.scored_by
    numbers, began = range(len(pool.partitions.lengths)), perf_counter()
    merged = _Merged(top, Statistics.none(len(made.present)))
    if store is not None:
        store.begin(_about(pool, settings, top))
        for reply in store.done(numbers):
            merged.add(reply)
    left, before = [number for number in numbers if number not in merged.numbers], merged.statistics.n
    with stage("partitions", len(numbers)) as tell:
        tell(len(merged.numbers))
        for reply in over_parts(score_part, made, pool.partitions.parts(left), executor):
            merged.add(reply)
            tell(1)
    seconds, statistics = perf_counter() - began, merged.statistics
    if left:
        attrs["rows_per_second"] = (statistics.n - before) / seconds
    if statistics.error > 0:
        attrs["score_error"] = statistics.error
    return Scored(merged.best, statistics, seconds, attrs)


@dataclass
class _Merged:
    """What the partitions with these `numbers` came to together: no more is held of a pool, however many it has."""

    top: int
    statistics: Statistics
    best: Best = field(default_factory=Best.none)
    numbers: set[int] = field(default_factory=set)

    def add(self, reply: Reply) -> None:
        """One more partition."""
        self.best = Best.merged([self.best, reply.best], self.top)
        self.statistics += reply.statistics
        self.numbers.add(reply.number)


def _about(pool: LazyPool, settings: Settings, top: int) -> dict[str, Any]:
    """What parts of one store share."""
    lengths = hashlib.sha256(json.dumps([int(length) for length in pool.partitions.lengths]).encode()).hexdigest()
    return {
        "table": pool.problem.fingerprint,
        "criterion": settings.criterion.name,
        "approximation": settings.approximation,
        "labels": settings.rule.name,
        "absolute": settings.absolute,
        "top": top,
        "lengths": lengths,
    }


def _pool_scorer(pool: LazyPool, scorer: ModelScorer, settings: Settings, fit: ModelFit) -> tuple[PoolScorer, dict[str, Any]]:
    """What workers need for these settings, and attrs of the scores."""
    criterion, problem = settings.criterion, scorer.problem
    averaging: Averaging | None = None
    attrs: dict[str, Any] = {}
    if not settings.by_laplace:
        absolute = problem.proper and settings.absolute and criterion.absolute is not None
        fits = fit_gaussians(settings.approximation, criterion, fit, {}, absolute=absolute, to_rank=False)
        constant = 0.0
        if absolute:
            constant, attrs = log_normalizer_of(settings.approximation, criterion, fit, fits)
            attrs = {"log_normalizer": constant, **attrs}
        assert criterion.k is not None
        averaging = _averaging(fits[criterion.k], constant)
    mode, mode_space = _travelling(fit.mode)
    predictive = fit.predictive
    one_predictor = predictive.by_one_predictor is not None
    return (
        PoolScorer(
            code=pool.code(fit, averages=averaging is not None),
            criterion=criterion.name if criterion is CRITERIA.get(criterion.name) else criterion,
            rule=settings.rule,
            present=np.isin(np.arange(len(problem.classes)), fit.labeled.codes),
            mode=mode,
            mode_space=mode_space,
            averaging=averaging,
            predicted_by=_predicted_by(scorer, fit),
            random_state=settings.rng.bit_generator.state,
            conditional=fit.engine.conditional,
            many=pool.are_many,
            closer=predictive.refinement if one_predictor else 1,
            top=0,
            left_out=np.empty(0, dtype=np.int64),
        ),
        attrs,
    )


def _predicted_by(scorer: ModelScorer, fit: ModelFit) -> Averaging | None:
    if callable(scorer.predictor):
        raise CriterionError(
            'predictor= is a function of rows in the table, which a lazy pool has none of. Use predictor="map" or "auto".'
        )
    if scorer.predictor == AUTO and not admits_plain(fit.engine):
        fit.refused.add(EP)  # its mixtures do not travel, and the next approximation stands in
    q = scorer.averages_over(fit)
    return None if q is None else _averaging(q)


def _averaging(gaussian: Any, constant: float = 0.0) -> Averaging:
    if isinstance(gaussian, Mixture):
        raise ApproximationError(
            "Scales of a hierarchy are not integrated out over a lazy pool. "
            'Use approximation="vi", or take the rows into memory.'
        )
    space = None if gaussian.rows is None else gaussian.rows.space
    return Averaging(replace(gaussian, rows=None, sites=None), space, constant)


def _travelling(mode: Mode) -> tuple[Mode, Any]:
    """A mode without the rows of D, and their space."""
    return (mode, None) if mode.rows is None else (replace(mode, rows=None), mode.rows.space)


def scores_of_pool(
    pool: LazyPool,
    scorer: Any,
    settings: Settings,
    say: Callable[[dict[str, Any], ModelFit], dict[str, Any]],
    *,
    top: int | None,
    to: str | Path | None,
    executor: Executor | None,
) -> xr.Dataset:
    """The best `top` rows with the statistics of all, or all scores in a store, opened lazily.

    `say` makes attrs of these scores and their fit, with what is said of scores wherever their rows are.
    """
    if top is None and to is None:
        raise CriterionError(
            f"The pool is lazy, and its {pool.partitions.n_rows:,} scores are not kept in memory. Give top= for the best, or "
            "to= for a store of all."
        )
    settings = without_refits(settings)
    refuse_refits(settings)
    names = scorer.problem.classes.names
    several = settings.rule.name == "all"
    if to is not None and several:
        raise CriterionError('labels="all" has a score for each class of a row, which to= does not write. Use it with top=.')
    store = None if to is None else find_store(to, names, pool.first_candidate)
    fit = fit_on(scorer, settings, scorer.problem.labeled)
    scored = score_lazily(pool, scorer, settings, fit, top=top or 0, store=store, executor=executor)
    warn_of_lost(scored.statistics, pool)
    attrs = {**scored.attrs, **counts(scored.statistics, pool), "seconds": scored.seconds}
    attrs = say(attrs, fit)
    if store is not None:
        store.finish(pool.partitions.lengths, attrs)
    if top is None and store is not None:
        opened = store.open().assign_attrs(first_candidate=pool.first_candidate)
        return with_statistics(opened, scored.statistics, names, attrs)
    best = best_dataset(scored.best, pool, settings, names)
    if store is not None:
        attrs["to"] = str(store.path)
    return with_statistics(best, scored.statistics, names, attrs)
