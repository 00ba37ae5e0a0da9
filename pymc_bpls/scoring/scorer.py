"""What scores a pool, as a protocol: fits on D, predictions, scores and exact values of the candidates' classes.

There is one for a model (`scoring.one_model`), whether its rows are independent or not, and one for a set (`scoring.members`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
import xarray as xr

from pymc_bpls.compute.compiler import Compiler
from pymc_bpls.compute.executors import Executor
from pymc_bpls.errors import ApproximationError, CriterionError, ModeError, holding_warnings, warn
from pymc_bpls.model.data.table import Labeled, Table
from pymc_bpls.model.problem import Problem
from pymc_bpls.montecarlo.averages import Averages
from pymc_bpls.montecarlo.bridge import LogRatio
from pymc_bpls.montecarlo.references import Method
from pymc_bpls.rules.label_rules import LabelRule, Options, read_options
from pymc_bpls.scoring.fitted import Fitted, Warm
from pymc_bpls.scoring.results import Scores
from pymc_bpls.scoring.settings import AUTO, Settings


@dataclass(frozen=True)
class ExactValues:
    """Averages of what `codes` (m,) or (m, K) stand for, log Z of what they lack, or None, and where they are from.

    `absolute_error` is the standard error of both together. Where they are `absolute`, they lack nothing.
    """

    averages: Averages
    codes: np.ndarray
    normaliser: LogRatio | None
    groups: dict[str, xr.Dataset]
    reasons: list[str]
    source: str
    proposal: str | None = None
    absolute_error: np.ndarray | None = None
    absolute: bool = False


class Scorer(Protocol):
    """Scores the candidates of one table, whatever D is by now.

    `problem` is the declared model that names rows, classes and parameters, of a set its first member's; `compilers` are what
    compiles for it.
    """

    @property
    def problem(self) -> Problem: ...

    @property
    def compilers(self) -> tuple[Compiler, ...]: ...

    @property
    def how_it_predicts(self) -> str:
        """How the predictor gives class probabilities, in words."""
        ...

    @property
    def predictor_name(self) -> str:
        """The predictor as results name it."""
        ...

    def how_it_predicted(self, fit: Any) -> str:
        """How class probabilities by a fit come about, in words."""
        ...

    def fit(self, labeled: Labeled, start: np.ndarray | None = None, centre_of: str | None = None) -> Any:
        """The mode of ℓ_D + log π, looked for from `start`.

        Where the log-posterior has a kink, and so no mode to verify, the centre of the approximation `centre_of` will do.

        Raises
        ------
        ModeError
            There is no trustworthy mode, and no `centre_of` to take its place.
        """
        ...

    def centre(self, labeled: Labeled, approximation: str) -> Any:
        """The centre of an approximation, without a look for a mode."""
        ...

    def log_probabilities(self, fit: Any, positions: np.ndarray) -> np.ndarray:
        """The predictor's log class probabilities, shape (rows, K)."""
        ...

    def rejection(self, fit: Any, positions: np.ndarray) -> str | None:
        """What PyMC rejects, at the mode, of the parameters of rows of the predictor's table, and what to do."""
        ...

    def score(self, settings: Settings, fit: Any, options: Options, warm: Warm = None) -> tuple[Scores, Warm]:
        """Scores of the candidates' classes, and what the next round may start from, which is `warm` there."""
        ...

    def exact_values(self, labeled: Labeled, k: int, method: Method, options: Options) -> ExactValues:
        """Exact values of the candidates' classes, or of their combination, from draws of p_k by `method`."""
        ...

    def record(self, fit: Any) -> dict[str, Any]:
        """What a run keeps of a fit besides its predictions."""
        ...

    def approximations(self, labeled: Labeled) -> tuple[str, ...]:
        """Those to take for D where the user names none, in order (`approximations.automatic`)."""
        ...

    def with_rows(self, rows: Mapping[str, Any], called: str = "rows") -> tuple[Self, np.ndarray]:
        """The same on the table with `rows` of the data containers appended, and the positions of these rows.

        Messages call what they are given in `called`.
        """
        ...

    def with_table(self, table: Table) -> Self:
        """The same on the same rows, others of which are labeled or candidates."""
        ...

    def with_predictor(self, predictor: str) -> Self:
        """The same with predictions at the mode ("map"), or averaged over p(θ | D) by "auto", "laplace", "ep" or "vi"."""
        ...

    def with_factor(self, candidate: str) -> Self:
        """The same where candidates of a class-conditional model bring p(y | x, θ), or p(x, y | θ) ("joint")."""
        ...

    def with_memory(self, chunk_bytes: int) -> Self:
        """The same with so much memory for refits that are done together."""
        ...

    def with_executor(self, executor: Executor | None) -> Self:
        """The same where an executor runs chunks of refits and of averages over draws."""
        ...


def settled(scorer: Scorer, settings: Settings, labeled: Labeled) -> Settings:
    """`settings`, with the approximation that the rule takes for D where the user named none."""
    return settings.by(scorer.approximations(labeled)) if settings.approximation == AUTO else settings


def refits_by(scorer: Scorer, executor: Executor | None, settings: Settings) -> Scorer:
    """The scorer whose refits an executor runs, where there is one.

    Raises
    ------
    CriterionError
        By these settings there are no refits.
    """
    if executor is None:
        return scorer
    if not settings.may_refit:
        raise CriterionError(
            f'executor= runs refits, and the partitions of lazy pools; "{settings.criterion.name}" is scored by one fit here. '
            "Leave it out: threads score it."
        )
    return scorer.with_executor(executor)


def fit_on(
    scorer: Scorer,
    settings: Settings,
    labeled: Labeled,
    start: np.ndarray | None = None,
    warm: Warm = None,
    *,
    no_mode: bool = False,
) -> Any:
    """The fit on D for these settings; of a posterior that is known to have `no_mode` it is not looked for again.

    `start` is a mode, and `warm` what was scored from, of an earlier round.

    Where there is no mode, and the approximation that the rule took has no centre either, both are told.
    """
    return _fit_on(scorer, settings, labeled, start, no_mode).for_scores_by(settings.averages_by, warm)


def _fit_on(scorer: Scorer, settings: Settings, labeled: Labeled, start: np.ndarray | None, no_mode: bool) -> Any:
    try:
        if no_mode and settings.centre_of is not None:
            return scorer.centre(labeled, settings.centre_of)
        return scorer.fit(labeled, start, settings.centre_of)
    except ApproximationError as error:
        if not settings.otherwise:
            raise
        try:
            return scorer.fit(labeled, start)
        except ModeError as no_mode:
            also = str(error).split(". ")[0].rstrip(".")
            raise ModeError(f"{str(no_mode).rstrip('.')} ({also[0].lower()}{also[1:]}).") from no_mode


def told_probabilities(scorer: Scorer, fit: Fitted, positions: np.ndarray) -> np.ndarray:
    """`log_probabilities`, with a warning of rows that have none."""
    log_p = scorer.log_probabilities(fit, positions)
    none = positions[np.isnan(log_p).any(axis=1)]
    if none.size:
        warn(scorer.rejection(fit, none) or say_without_probabilities(scorer.problem, none))
    return log_p


def say_without_probabilities(problem: Problem, positions: np.ndarray) -> str:
    """That rows have no class probabilities, where PyMC does not say why."""
    first = problem.words.one(positions[0])
    return f"{positions.size} rows have no class probabilities (the first: {first}). Look for far-away values in them."


def label_options(scorer: Scorer, rule: LabelRule, fit: Fitted, candidates: np.ndarray) -> Options:
    """The classes to score for each candidate by a label rule, and how they combine."""
    present = np.isin(np.arange(len(scorer.problem.classes)), fit.labeled.codes)
    return read_options(rule, candidates, scorer.log_probabilities(fit, candidates), present)


def score_pool(
    scorer: Scorer, settings: Settings, fit: Fitted, candidates: np.ndarray, warm: Warm = None
) -> tuple[Scores, Warm]:
    """Scores of `candidates` under the label rule of `settings`, and what the next round may start from.

    attrs say which approximation they are by, and with `otherwise` why those before it are not. What could not be predicted by
    is told once scores do not say the same.
    """
    with holding_warnings() as held:
        options = label_options(scorer, settings.rule, fit, candidates)
    scores, ahead = _scored(scorer, settings, fit, options, warm)
    told = [reason.partition(": ")[2] for reason in scores.attrs.get("instead_of", ())]
    for message in held:
        if not any(message.endswith(error) for error in told):
            warn(message)
    return scores, ahead


def _scored(scorer: Scorer, settings: Settings, fit: Fitted, options: Options, warm: Warm) -> tuple[Scores, Warm]:
    """By the approximation of `settings`, or the first of those that stand in for it."""
    try:
        scores, ahead = scorer.score(settings, fit, options, warm)
    except (ApproximationError, ModeError) as error:
        if not settings.otherwise:
            raise
        next_one = settings.otherwise[0]
        warn(f'Scores are by "{next_one}" in place of "{settings.approximation}". {error}')
        scores, ahead = _scored(scorer, settings.from_here(next_one), fit, options, None)
        refused = [f"{settings.approximation}: {error}", *scores.attrs.get("instead_of", ())]
        return replace(scores, attrs={**scores.attrs, "instead_of": refused}), ahead
    return replace(scores, attrs={**scores.attrs, "approximation": settings.scored_by}), ahead
