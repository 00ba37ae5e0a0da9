"""Whole pipelines tried on rows that are set aside, and the choice among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bpls.arguments import check
from pymc_bpls.choosing.choice import Choice
from pymc_bpls.choosing.evidence import BETTING, BOUND, Evidence, Judged, best_proven, judge
from pymc_bpls.choosing.folds import Fold, NoFolds, Units, cross_fitting, one_after_the_other, read_groups
from pymc_bpls.choosing.losses import Loss, find_loss
from pymc_bpls.choosing.pipelines import SUPERVISED, Learner, PipelineFailure
from pymc_bpls.choosing.sentences import (
    say_choice,
    say_infinite,
    say_interrupted,
    say_predictions,
    say_refused,
    say_too_few,
    say_undealt,
)
from pymc_bpls.compute.executors import Executor
from pymc_bpls.compute.threads import IN_TURN, side_by_side
from pymc_bpls.errors import ApproximationError, CriterionError, LabelError, ModeError, RowError
from pymc_bpls.model.problem import Problem
from pymc_bpls.selftraining.pipeline import Pipeline
from pymc_bpls.selftraining.train import Train
from pymc_bpls.text.progress import Tell

_REFUSALS = (ModeError, ApproximationError, LabelError, RowError, PipelineFailure)
_DEALS = {BOUND: cross_fitting, BETTING: one_after_the_other}
_MOST = 2**31


@dataclass(frozen=True)
class Trial:
    """How pipelines are tried: how rows are set aside, by which loss they are judged, and what counts as a proof."""

    loss: Loss
    folds: int
    repeats: int
    alpha: float
    guarantee: str
    groups: np.ndarray | None

    @classmethod
    def read(cls, problem: Problem, loss: Any, folds: int, repeats: int, alpha: float, guarantee: str, groups: Any) -> Trial:
        """As the user says it.

        Raises
        ------
        CriterionError
            The loss or the guarantee is unknown, or one needs another.
        RowError
            Groups are not one a row.
        """
        if not isinstance(guarantee, str) or guarantee not in _DEALS:
            raise CriterionError(f'guarantee="{guarantee}" is unknown. Use "{BOUND}" or "{BETTING}".')
        check(folds=folds, repeats=repeats, alpha=alpha)
        found = find_loss(loss, problem.classes.names, bounded=guarantee == BETTING)
        return cls(found, folds, repeats, alpha, guarantee, read_groups(groups, problem.source.n_rows))

    def deal(self, units: Units, rng: np.random.Generator) -> list[Fold]:
        """What is set aside, in turn."""
        return _DEALS[self.guarantee](units, self.folds, self.repeats, rng)

    def unseen(self, problem: Problem, fold: Fold) -> np.ndarray:
        """Rows that the pipelines of a fold do not see: hidden labels, and unlabeled rows of their groups."""
        if self.groups is None:
            return fold.hidden
        same = np.flatnonzero(np.isin(self.groups, self.groups[fold.hidden]))
        return np.r_[fold.hidden, np.intersect1d(same, problem.table.candidates)]


def make_choice(
    learner: Learner,
    pipelines: Mapping[str, Pipeline],
    trial: Trial,
    *,
    never: np.ndarray,
    random_seed: Any,
    executor: Executor | None,
    told: Mapping[str, Any],
    tell: Tell,
) -> Choice:
    """Try the pipelines on rows that are set aside, and fit the one to use on all labels, with the arguments `told`.

    `never` are candidates that no trial may use, as test rows of the fit.
    `tell` hears of every fold that is done. Ctrl-C leaves the decision to the folds that are.
    """
    rng = np.random.default_rng(random_seed)
    problem = learner.problem
    labeled, names = problem.labeled, problem.classes.names
    units = Units.of(labeled.positions, labeled.codes, names, trial.groups)
    every: dict[str, Pipeline] = {SUPERVISED: Train("ppp", rounds=0), **pipelines}
    try:
        folds = trial.deal(units, rng)
    except NoFolds as reason:
        return _fitted(learner, every, trial, _Found({}, [], say_undealt(str(reason))), random_seed, told)
    seeds = rng.integers(_MOST, size=len(folds)).tolist()
    judged: list[Judged] = []
    work = partial(_try_fold, learner, every, trial, units, never)
    try:
        for fold in side_by_side(work, list(zip(folds, seeds, strict=True)), executor or IN_TURN):
            judged.append(fold)
            tell(1)
    except KeyboardInterrupt:
        if not judged:
            raise
    return _fitted(learner, every, trial, _decide(judged, list(pipelines), trial, units, len(folds)), random_seed, told)


@dataclass(frozen=True)
class _Found:
    """What the folds say: evidence by pipeline, the folds, and the verdict; `chosen` is None for the supervised model."""

    evidence: Mapping[str, Evidence]
    judged: Sequence[Judged]
    verdict: str
    chosen: str | None = None
    notes: Sequence[str] = ()


def _try_fold(
    learner: Learner,
    pipelines: Mapping[str, Pipeline],
    trial: Trial,
    units: Units,
    never: np.ndarray,
    piece: tuple[Fold, int],
) -> Judged:
    """Losses of all pipelines in one fold."""
    fold, seed = piece
    unseen = np.union1d(trial.unseen(learner.problem, fold), never)
    place = {row: place for place, row in enumerate(units.rows.tolist())}
    places = [place[row] for row in fold.test.tolist()]
    codes = units.codes[places]
    losses: dict[str, np.ndarray] = {}
    right: dict[str, np.ndarray] = {}
    refused: dict[str, str] = {}
    for name, pipeline in pipelines.items():
        try:
            p = _predict(pipeline, (pipeline.scorer or learner).hiding(unseen), seed, fold.test)
        except _REFUSALS as error:
            if name == SUPERVISED:
                raise
            refused[name] = str(error)
        else:
            losses[name], right[name] = _losses_of_rows(trial.loss, name, p, codes, fold.test), p.argmax(axis=1) == codes
    return Judged(fold.test, codes, units.unit[places], fold.repeat, len(units.rows) - len(fold.hidden), losses, right, refused)


def _losses_of_rows(loss: Loss, name: str, p: np.ndarray, codes: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """What a pipeline loses by row: a number, or ∞."""
    losses = loss.of_rows(p, codes)
    bad = np.flatnonzero(np.isnan(losses) | np.isneginf(losses))
    if bad.size:
        raise CriterionError(
            f'loss="{loss.name}" is {losses[bad[0]]} at row {rows[bad[0]]} as "{name}" predicts it. '
            "Return a number for each row, or inf where nothing could be worse."
        )
    return losses


def _predict(pipeline: Pipeline, learner: Any, seed: int, rows: np.ndarray) -> np.ndarray:
    """Class probabilities of rows by a pipeline that was told less; one that Ctrl-C ended is none."""
    result = pipeline.fit(learner, seed, progressbar=False, other_modes=False)
    if isinstance(result, xr.DataTree) and result.attrs.get("stop_kind") == "interrupted":
        raise KeyboardInterrupt
    p = pipeline.predict(learner, result, rows)
    if np.isnan(p).any():
        raise RowError(f"Row {rows[np.isnan(p).any(axis=1)][0]} has no class probabilities. Look for far-away values in it.")
    return p


def _decide(judged: list[Judged], names: Sequence[str], trial: Trial, units: Units, planned: int) -> _Found:
    """The pipeline with the best proof, where one has a proof."""
    n, n_classes, largest = len(units.rows), len(units.names), trial.loss.largest
    evidence = judge(judged, names, SUPERVISED, trial.guarantee, largest=largest, n=n, n_classes=n_classes, alpha=trial.alpha)
    best = best_proven(evidence, trial.guarantee, trial.alpha, len(names))
    refused = {name: reason for fold in reversed(judged) for name, reason in fold.refused.items()}
    infinite = [name for name in (SUPERVISED, *names) if any(np.isinf(fold.losses.get(name, 0.0)).any() for fold in judged)]
    notes = [
        *([say_interrupted(len(judged), planned)] if len(judged) < planned else []),
        *say_infinite(infinite, trial.loss),
        *say_refused(refused),
    ]
    few = say_too_few(units) if trial.guarantee == BOUND else ""
    verdict = say_choice(best, evidence, trial.loss, trial.guarantee, trial.alpha, n, len(names), few)
    return _Found(evidence, judged, verdict, best, notes)


def _fitted(
    learner: Learner,
    pipelines: Mapping[str, Pipeline],
    trial: Trial,
    found: _Found,
    random_seed: Any,
    told: Mapping[str, Any],
) -> Choice:
    """The choice, its pipeline fitted on all labels."""
    name = SUPERVISED if found.chosen is None else found.chosen
    pipeline = pipelines[name]
    result = pipeline.fit(pipeline.scorer or learner, random_seed, **told)
    others = len(pipelines) - 1
    return Choice(
        name=name,
        result=result,
        table=_table(found, list(pipelines), trial.guarantee),
        verdict=found.verdict,
        losses=_losses(found.judged, list(pipelines)),
        evidence=found.evidence,
        loss=trial.loss.name,
        guarantee=trial.guarantee,
        alpha=trial.alpha,
        threshold=0.0 if trial.guarantee == BOUND else others / trial.alpha,
        notes=found.notes,
        predicted=say_predictions({each: pipelines[each].how_it_predicts(learner) for each in pipelines}),
    )


def _table(found: _Found, names: Sequence[str], guarantee: str) -> pd.DataFrame:
    """A row a pipeline, NaN where it was refused."""
    proof = "bound" if guarantee == BOUND else "e_value"
    rows = []
    for name in names:
        whole = bool(found.judged) and all(name in fold.losses for fold in found.judged)
        row: dict[str, float] = {}
        if whole:
            row["loss"] = float(np.concatenate([fold.losses[name] for fold in found.judged]).mean())
            row["accuracy"] = float(np.concatenate([fold.right[name] for fold in found.judged]).mean())
        if name in found.evidence:
            each = found.evidence[name]
            row |= {"difference": each.difference, "standard_error": each.error, proof: each.proof}
        rows.append(row)
    columns = ["loss", "accuracy", "difference", "standard_error", proof]
    return pd.DataFrame(rows, index=pd.Index(names, name="pipeline"), columns=columns, dtype=float)


def _losses(judged: Sequence[Judged], names: Sequence[str]) -> xr.Dataset:
    """The loss of every prediction, NaN where a pipeline was refused."""
    sizes = [len(fold.rows) for fold in judged]
    loss = [[fold.losses.get(name, np.full(size, np.nan)) for fold, size in zip(judged, sizes, strict=True)] for name in names]
    of_fold = {"fold": np.arange(len(judged)), "repeat": np.array([fold.repeat for fold in judged], dtype=int)}
    rows = np.concatenate([np.empty(0, dtype=int), *(fold.rows for fold in judged)])
    return xr.Dataset(
        {"loss": (("pipeline", "prediction"), np.array([np.concatenate([np.empty(0), *each]) for each in loss]))},
        coords={
            "pipeline": list(names),
            "row": ("prediction", rows),
            **{name: ("prediction", np.repeat(values, sizes)) for name, values in of_fold.items()},
        },
    )
