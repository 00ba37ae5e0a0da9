"""What was trained, from any result that holds it: the labeled rows alone, a run, a sample, or a posterior with a pool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from pymc_bpls.approximations.automatic import nearest_first
from pymc_bpls.errors import CriterionError
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.model.problem import Problem
from pymc_bpls.scoring.predictors import MAP
from pymc_bpls.scoring.scorer import Scorer, fit_on, settled
from pymc_bpls.scoring.settings import AUTO, LAPLACE, find_settings
from pymc_bpls.selftraining.replicates import replicates_of
from pymc_bpls.selftraining.resuming import predicting_as
from pymc_bpls.selftraining.saved_run import REPLICATES, is_run, read_run
from pymc_bpls.text.incomplete import as_it_was_left

#: The group of a sample that holds its draws of θ, and the one that holds D.
THETA, ROWS = "unconstrained_posterior", "labeled"
#: Where the label of a row came from.
GIVEN, PSEUDO, NONE, HELD_OUT, SET_ASIDE = "labeled", "pseudo-labeled", "unlabeled", "held out", "set aside"


@dataclass(frozen=True)
class Trained:
    """D that a model was trained on, and how.

    Attributes
    ----------
    labeled : Labeled
        D, in which `rounds` (n,) says in which round a row got its pseudo-label, 0 for labels.
    test : ndarray of int
        Rows of the table that were no candidates of the run, whatever the model says.
    approximation : str
        That of q ≈ p(θ | D): the run's own, or "auto", the nearest that the model admits.
    predictor : str or None
        What the run was predicted by; None where the model's own predictor says it.
    start : ndarray, shape (q,), or None
        Where to look for the mode from.
    theta : ndarray, shape (chain, draw, q), or None
        Draws from p(θ | D).
    log_weights : ndarray, shape (chain · draw,), or None
        By which they count, where they do not count equally.
    pooled : bool
        Whether the labels of the pool are integrated out of them, so that D alone does not make them again.
    look : callable, or None
        Looks for other modes than that of a fit on D, which it takes, where nobody did when it was trained.
    """

    labeled: Labeled
    rounds: np.ndarray
    test: np.ndarray
    approximation: str = AUTO
    predictor: str | None = None
    start: np.ndarray | None = None
    theta: np.ndarray | None = None
    log_weights: np.ndarray | None = None
    pooled: bool = False
    look: Callable[[Any], Any] | None = None

    def predicting(self, scorer: Scorer) -> Scorer:
        """The scorer that predicts as the run was predicted."""
        return scorer if self.predictor is None else predicting_as(scorer, self.predictor)

    def fit(self, scorer: Scorer) -> Any:
        """The fit on D, without a mode the centre of the approximation that predictions average over, as in the run."""
        at_the_mode = self.approximation == AUTO and scorer.predictor_name == MAP
        asked = find_settings("ppp", LAPLACE if at_the_mode else self.approximation)
        fit = fit_on(scorer, settled(scorer, asked, self.labeled), self.labeled, self.start)
        if self.look is not None:
            self.look(fit)
        return fit.for_scores_by(self.averaged_by(scorer))

    def averaged_by(self, scorer: Scorer) -> str:
        """The approximation that predictions average over by "auto"."""
        if self.approximation != AUTO:
            return self.approximation
        return nearest_first(scorer.approximations(self.labeled))[0]

    def origins(self, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
        """Where the label of each row of the table came from, and in which round, 0 where in none; both (N,)."""
        table = problem.table
        origins, rounds = np.full(len(table.codes), HELD_OUT, dtype=object), np.zeros(len(table.codes), dtype=int)
        origins[np.setdiff1d(table.candidates, self.test)] = NONE
        origins[table.labeled] = SET_ASIDE
        origins[self.labeled.positions] = np.where(self.rounds > 0, PSEUDO, GIVEN)
        rounds[self.labeled.positions] = self.rounds
        return origins, rounds


def read_trained(result: Any, problem: Problem) -> Trained:
    """What a result was trained on: of None the labeled rows alone, of what `self_train`, `resume`, `sample` or
    `marginalize` returned.

    Raises
    ------
    CriterionError
        It is none of these, or none of this table and model.
    """
    if result is None:
        D = problem.labeled
        return Trained(D, np.zeros(len(D), dtype=int), np.empty(0, dtype=int))
    if is_run(result) or (isinstance(result, xr.DataTree) and REPLICATES in result):
        return _of_run(result, problem)
    if _holds(result, THETA) and _holds(result, ROWS):
        with as_it_was_left("result=", "sample"):
            return _of_sample(group(result, THETA), group(result, ROWS), problem)
    if _holds(result, "exact"):
        raise CriterionError(
            "result= holds exact values, and their draws are no posterior where the likelihood counts twice. "
            "Give a run of self_train, or what sample() returned."
        )
    raise CriterionError("result= is neither a run nor a sample. Give what self_train, resume or sample returned, or None.")


def read_each(result: Any, problem: Problem) -> list[Trained]:
    """What each replicate of a run was trained on; of any other result the one that `read_trained` reads."""
    if isinstance(result, xr.DataTree) and REPLICATES in result:
        return [_of_run(part, problem) for part in replicates_of(result)]
    return [read_trained(result, problem)]


def group(result: Any, name: str) -> xr.Dataset:
    """A group of a DataTree, or of an InferenceData, as a Dataset."""
    held = result[name]
    return held.to_dataset() if isinstance(held, xr.DataTree) else held


def _holds(result: Any, name: str) -> bool:
    children = getattr(result, "children", None)
    groups = children if children is not None else getattr(result, "groups", tuple)
    return name in (groups() if callable(groups) else groups)


def _of_run(run: xr.DataTree, problem: Problem) -> Trained:
    saved = read_run(run, problem)
    added = [step["round"] for step in saved.history.steps]
    test = np.empty(0, dtype=int) if saved.test is None else saved.test.positions
    return Trained(
        labeled=saved.labeled,
        rounds=np.r_[np.zeros(len(saved.labeled) - len(added), dtype=int), np.array(added, dtype=int)],
        test=test[test < problem.source.n_rows],
        approximation=saved.settings.averaged_by or AUTO,
        predictor=saved.settings.predictor,
        start=saved.theta,
    )


def _of_sample(draws: xr.Dataset, rows: xr.Dataset, problem: Problem) -> Trained:
    if not problem.has_fingerprint(draws.attrs.get("table")):
        raise CriterionError("result= is no sample of this table and model. Give it to the BPLS that made it.")
    theta = problem.density.parameters.counted(draws["theta"].transpose("chain", "draw", "parameter").to_numpy())
    D = Labeled(rows["row"].to_numpy(), problem.codes(rows["label"].to_numpy()), rows["weight"].to_numpy())
    return Trained(
        labeled=D,
        rounds=rows["round"].to_numpy(),
        test=np.asarray(np.atleast_1d(draws.attrs["test_rows"]), dtype=int),
        approximation=str(draws.attrs["approximation"]),
        start=theta.mean(axis=(0, 1)),
        theta=theta,
        log_weights=draws["log_weight"].transpose("chain", "draw").to_numpy().ravel() if "log_weight" in draws else None,
        pooled=bool(draws.attrs.get("pooled", 0)),
    )
