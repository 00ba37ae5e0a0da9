"""Class probabilities of any rows under what was trained: at the mode, averaged over q ≈ p(θ | D), or over draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bpls.errors import CriterionError, RowError, warn
from pymc_bpls.model.data.index import RowNames, read_index
from pymc_bpls.scoring.one_model import ModelScorer
from pymc_bpls.scoring.predictors import MAP, OVER_DRAWS
from pymc_bpls.scoring.scorer import Scorer, say_without_probabilities, told_probabilities
from pymc_bpls.scoring.settings import AUTO
from pymc_bpls.trained.draws import probabilities_over_draws
from pymc_bpls.trained.result import Trained

MODE, GAUSSIAN, DRAWS = "mode", "gaussian", "draws"


def class_probabilities(scorer: Scorer, replicates: Sequence[Trained], rows: Any, by: str | None) -> xr.DataArray:
    """p(y | x) over (row, class); `rows` are None for the whole table, rows of it, or new rows of the data containers.

    Without `by`, they are averages over the draws that the result holds; else as the run was predicted, or without a run as the
    model's own predictor says. Of several replicates it is their mean. attrs say how they came about (`predicted`).

    Raises
    ------
    CriterionError
        `by` is unknown, or the result holds no draws.
    """
    scorer, positions, coords = _locate(scorer, rows)
    return probabilities_at(scorer, replicates, positions, coords, by)


def probabilities_at(
    scorer: Scorer, replicates: Sequence[Trained], positions: np.ndarray, coords: dict[str, Any], by: str | None
) -> xr.DataArray:
    """The same of rows by their positions in the scorer's table, over (row, class) with these `coords` of rows."""
    if by not in (None, MODE, GAUSSIAN, DRAWS):
        raise CriterionError(f'by="{by}" is unknown. Use "{MODE}", "{GAUSSIAN}" or "{DRAWS}".')
    finite = scorer.problem.has_finite_data(positions)
    if not finite.all():
        where = scorer.problem.words.some(positions[~finite])
        warn(f"Data is not finite in {where}, which have no class probabilities. Impute these values, or leave the rows out.")
    names, ways = scorer.problem.classes.names, dict[str, None]()
    p = np.full((len(replicates), len(positions), len(names)), np.nan)
    for number, trained in enumerate(replicates if finite.any() else ()):
        p[number, finite], way = _probabilities(scorer, trained, positions[finite], by)
        ways[way] = None
    attrs = {"predicted": "; ".join(ways)}
    return xr.DataArray(p.mean(axis=0), dims=("row", "class"), coords={**coords, "class": names}, attrs=attrs)


def most_probable(p: xr.DataArray) -> xr.DataArray:
    """The most probable class of each row, the first among equals.

    Raises
    ------
    RowError
        A row has no class probabilities.
    """
    none = read_index(p)[p.isnull().any("class").to_numpy()].tolist()
    if none:
        raise RowError(f"Rows {none[:5]} have no class probabilities. Leave them out of rows=, or correct their data.")
    names = p["class"].to_numpy()
    return p.isel({"class": 0}, drop=True).copy(data=names[p.to_numpy().argmax(axis=1)]).rename("class")


def _locate(scorer: Scorer, rows: Any) -> tuple[Scorer, np.ndarray, dict[str, Any]]:
    """The scorer that knows the rows, their positions in its table, and the coords of results over them."""
    problem = scorer.problem
    if isinstance(rows, Mapping):
        scorer, positions = scorer.with_rows(rows)
        return scorer, positions, coords_of_new(rows, len(positions))
    positions = np.arange(len(problem.table.codes)) if rows is None else problem.positions(rows, "rows=")
    return scorer, positions, {"row": positions, **problem.table.names.coords("row", positions)}


def coords_of_new(rows: Mapping[str, Any], n: int) -> dict[str, Any]:
    """Coords over `row` of n new rows: their numbers, and the index of a frame among them."""
    frames = [each for each in rows.values() if isinstance(each, pd.DataFrame | pd.Series)]
    names = RowNames(frames[-1].index).coords("row") if frames else {}
    return {"row": np.arange(n), **names}


def _probabilities(scorer: Scorer, trained: Trained, positions: np.ndarray, by: str | None) -> tuple[np.ndarray, str]:
    """And how they came about."""
    if trained.pooled and by in (MODE, GAUSSIAN):
        raise CriterionError("result= has the pool's labels integrated out, and is known by its draws. Leave by= out.")
    if by is None and trained.theta is not None:
        by = DRAWS
    if by == DRAWS:
        return _over_draws(scorer, trained, positions), OVER_DRAWS
    scorer = trained.predicting(scorer) if by is None else scorer.with_predictor(MAP if by == MODE else AUTO)
    fit = trained.fit(scorer)
    return np.exp(told_probabilities(scorer, fit, positions)), scorer.how_it_predicted(fit)


def _over_draws(scorer: Scorer, trained: Trained, positions: np.ndarray) -> np.ndarray:
    if trained.theta is None or not isinstance(scorer, ModelScorer):
        raise CriterionError(f'by="{DRAWS}" needs draws, and result= holds none. Give result=sample(run), of one model.')
    theta = trained.theta.reshape(-1, trained.theta.shape[-1])
    p = probabilities_over_draws(scorer, trained.labeled, theta, positions, trained.log_weights).mean
    none = positions[np.isnan(p).any(axis=1)]
    if none.size:
        warn(say_without_probabilities(scorer.problem, none))
    return p
