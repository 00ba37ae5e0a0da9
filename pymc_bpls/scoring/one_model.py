"""How one model scores: by Laplace's method, from the fit on D alone, or by EP or VI; rows may depend on each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pymc_bpls.approximations.automatic import approximations_in_order
from pymc_bpls.approximations.by_name import APPROXIMATIONS
from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.approximations.predictions.predictive import Predictive, log_softmax
from pymc_bpls.compute.compiler import Compiler
from pymc_bpls.compute.executors import Executor
from pymc_bpls.errors import ApproximationError, CriterionError, ModeError, warn
from pymc_bpls.model.data.table import Labeled, Table
from pymc_bpls.model.problem import Problem
from pymc_bpls.montecarlo.pair_modes import missed_classes
from pymc_bpls.montecarlo.references import Method
from pymc_bpls.montecarlo.tails import average_options, bad_averages
from pymc_bpls.rules.label_rules import Options
from pymc_bpls.rules.ranking import best_first
from pymc_bpls.scoring.by_ep_and_vi import score_by_gaussian
from pymc_bpls.scoring.by_fit import combined_classes, log_scale, score_by_fit
from pymc_bpls.scoring.by_laplace import score_by_laplace
from pymc_bpls.scoring.criteria import ABSOLUTE, FitCriterion
from pymc_bpls.scoring.engines import Engines
from pymc_bpls.scoring.fitted import ModelFit, Warm
from pymc_bpls.scoring.predictors import FUNCTION, MAP, say_predictor
from pymc_bpls.scoring.remembered import Remembered
from pymc_bpls.scoring.results import FEWEST_SUMS, Pairs, Scores, Values, finished, own_error
from pymc_bpls.scoring.scorer import ExactValues
from pymc_bpls.scoring.settings import AUTO, Settings
from pymc_bpls.text.progress import stage

_SUMMED, _MOST_REFITS = 8, 40


@dataclass(frozen=True)
class ModelScorer:
    """Scores the candidates of one model; `predictor` is as in `BPLS`."""

    problem: Problem
    engines: Engines
    predictor: str | Callable[[np.ndarray], Any]
    remembered: Remembered = field(default_factory=Remembered, repr=False, compare=False, kw_only=True)

    @property
    def compilers(self) -> tuple[Compiler, ...]:
        """The one of its engines."""
        return (self.engines.compiler,)

    def approximations(self, labeled: Labeled) -> tuple[str, ...]:
        """By the engine that serves D."""
        return approximations_in_order(self.engines.of(labeled).engine, len(labeled))

    def with_rows(self, rows: Mapping[str, Any], called: str = "rows") -> tuple[ModelScorer, np.ndarray]:
        """On the longer table."""
        density, positions = self.problem.with_rows(rows, called)
        return self._with_engines(density=density), positions

    def with_factor(self, candidate: str) -> ModelScorer:
        """With engines that score so."""
        if candidate == "conditional" or not self.problem.class_conditional:
            return self
        return self._with_engines(conditional=False)

    def with_memory(self, chunk_bytes: int) -> ModelScorer:
        """With engines that have so much memory."""
        return self._with_engines(chunk_bytes=chunk_bytes)

    def with_executor(self, executor: Executor | None) -> ModelScorer:
        """With engines whose chunks it runs."""
        return self._with_engines(executor=executor)

    def _with_engines(self, **changes: Any) -> ModelScorer:
        """With other engines, of which nothing is fitted yet."""
        engines = self.engines.change(lambda engine: replace(engine, **changes))
        return replace(self, engines=engines, remembered=Remembered())

    def with_table(self, table: Table) -> ModelScorer:
        """With other rows labeled, and others candidates."""
        return replace(self, problem=replace(self.problem, table=table))

    def with_predictor(self, predictor: str) -> ModelScorer:
        """With another predictor; a function of the user's is what there is."""
        return self if predictor == FUNCTION else replace(self, predictor=predictor)

    @property
    def predictor_name(self) -> str:
        """The predictor as results name it."""
        return FUNCTION if callable(self.predictor) else self.predictor

    @property
    def how_it_predicts(self) -> str:
        """How the predictor gives class probabilities, in words."""
        return say_predictor(self.predictor_name)

    def how_it_predicted(self, fit: ModelFit) -> str:
        """The same with the approximation that "auto" came to."""
        return say_predictor(self.approximation_of(fit) if self.predictor == AUTO else self.predictor_name)

    def averages_over(self, fit: ModelFit) -> Gaussian | None:
        """q ≈ p(θ | D) that the predictor averages over; None at the mode."""
        if self.predictor == MAP or callable(self.predictor):
            return None
        return fit.gaussian(self.approximation_of(fit) if self.predictor == AUTO else self.predictor)

    def approximation_of(self, fit: ModelFit) -> str:
        """What "auto" averages over: of the criterion's own approximation and those of the rule, the first that settles."""
        own = fit.approximation
        if own is not None and self._averages_by(own, fit):
            return own
        *first, last = (name for name in self.approximations(fit.labeled) if name != own)
        return next((name for name in first if self._averages_by(name, fit)), last)

    def _averages_by(self, approximation: str, fit: ModelFit) -> bool:
        """Whether q is there; where it turns out not to be, that is told."""
        if approximation in fit.refused:
            return False
        try:
            fit.gaussian(approximation)
        except ApproximationError as error:
            fit.refused.add(approximation)
            warn(f'Class probabilities are not averaged by "{approximation}", the next approximation stands in. {error}')
        return approximation not in fit.refused

    def record(self, fit: ModelFit) -> dict[str, Any]:
        """Nothing."""
        return {}

    def fit(self, labeled: Labeled, start: np.ndarray | None = None, centre_of: str | None = None) -> ModelFit:
        """The mode of ℓ_D + log π, or the centre of an approximation where there is none. Without a start it is remembered."""
        predictive = self.engines.of(labeled)
        known = self.remembered.of(predictive, labeled, centre_of) if start is None else None
        if known is not None:
            return known
        fit = self._fit(predictive, labeled, start, centre_of)
        return fit if start is not None else self.remembered.keep(fit, centre_of)

    def _fit(self, predictive: Predictive, labeled: Labeled, start: np.ndarray | None, centre_of: str | None) -> ModelFit:
        try:
            with stage(f"the mode of D ({len(labeled):,} rows)"):
                mode = predictive.engine.fit(labeled, start)
        except ModeError:
            if centre_of is None:
                raise
            return self.centre(labeled, centre_of)
        return ModelFit(labeled, mode, predictive)

    def centre(self, labeled: Labeled, approximation: str) -> ModelFit:
        """The centre of an approximation, without a look for a mode."""
        predictive = self.engines.of(labeled)
        q = APPROXIMATIONS[approximation].fit(predictive.engine, labeled, 1, None, None)
        return ModelFit(labeled, q.as_mode(), predictive, known={(approximation, 1): q})

    def log_probabilities(self, fit: ModelFit, positions: np.ndarray) -> np.ndarray:
        """Of the predictor: at the mode, averaged over an approximation, or the user's own."""
        if callable(self.predictor):
            return _checked(self.predictor(positions), positions, len(self.problem.classes))
        predictive = self.engines.of(fit.labeled)
        q = self.averages_over(fit)
        log_p = np.empty((len(positions), len(self.problem.classes)))
        for places in self.engines.alike(fit.labeled, positions):
            some = positions[places]
            if q is None:
                log_p[places] = predictive.log_probabilities_at(fit.mode, some)
            else:
                log_p[places] = log_softmax(predictive.log_mean_lik(q, some, normalised=True))
        return log_p

    def rejection(self, fit: ModelFit, positions: np.ndarray) -> str | None:
        """At the mode of ℓ_D + log π."""
        return fit.engine.density.checks.sentence(fit.mode.theta, positions, "at the mode")

    def score(self, settings: Settings, fit: ModelFit, options: Options, warm: Warm = None) -> tuple[Scores, Warm]:
        """Scores of the candidates' classes, which are combined where the label rule says so."""
        to_log = None if options.weigh is None else log_scale(settings.criterion, by_laplace=settings.by_laplace)
        result, start = self._scores(settings, fit, Pairs.of(options.candidates, options.codes), warm)
        space = fit.mode.space if settings.with_prior else "parameters"
        own_error = self._own_error(settings, fit, options, result, start)
        result = replace(result, attrs={**result.attrs, **own_error, "space": space})
        if options.weigh is None or to_log is None:
            return finished(self.problem, result, options, theta=fit.mode.theta, told=settings.told), start
        combined, weighing = combined_classes(result, options.weigh, to_log)
        return finished(self.problem, combined, options, weighing, theta=fit.mode.theta, told=settings.told), start

    def _scores(self, settings: Settings, fit: ModelFit, pairs: Pairs, warm: Warm) -> tuple[Values, Warm]:
        criterion = settings.criterion
        if not settings.by_laplace:
            begin = warm if isinstance(warm, dict) else {}
            absolute, to_rank = self.problem.proper and settings.absolute, not settings.absolute
            return score_by_gaussian(settings.approximation, criterion, fit, pairs, begin, absolute=absolute, to_rank=to_rank)
        if isinstance(criterion, FitCriterion):
            return score_by_fit(criterion, settings.rng, fit.predictive, fit.mode, pairs), warm
        shared = warm if isinstance(warm, np.ndarray) else None
        return score_by_laplace(self.problem, criterion, settings.with_prior, fit, pairs, shared)

    def _own_error(self, settings: Settings, fit: ModelFit, options: Options, result: Values, start: Warm) -> dict[str, float]:
        """As attrs: the error of a difference by the class sums of the best rows, where one class a row is scored.

        Of fewer rows where there are many classes, whose refits take longest; not where these refits would take longer than
        those of the pool, or be compiled anew.
        """
        one_class = options.codes.ndim == 1 and ABSOLUTE[2] in result and settings.by_laplace
        if not settings.told or not one_class or fit.engine.affine_rows is None:
            return {}
        n_classes = len(self.problem.classes)
        order, _ = best_first(np.where(result["converged"], result["score"], np.nan))
        most = min(_SUMMED, max(FEWEST_SUMS, _MOST_REFITS // n_classes), len(options.candidates) // n_classes)
        best = options.candidates[order[:most]]
        pairs = Pairs.of(best, np.tile(np.arange(n_classes), (len(best), 1)))
        error = own_error(self._scores(settings, fit, pairs, start)[0]) if len(best) >= FEWEST_SUMS else None
        return {} if error is None else {"own_error": error}

    def exact_values(self, labeled: Labeled, k: int, method: Method, options: Options) -> ExactValues:
        """Averages over the method's draws."""
        engine = self.engines.of(labeled).engine
        reference = method(self.problem, engine, labeled, k)
        averages, codes = average_options(engine, labeled, k, reference, options)
        level = reference.normaliser
        return ExactValues(
            averages,
            codes,
            level,
            reference.groups,
            reference.reasons
            + missed_classes(engine, labeled, reference.search, reference.draws, *options.pairs)
            + bad_averages(averages, reference),
            reference.source,
            reference.proposal,
            None if level is None else averages.plus(level, reference.draws.batches).error,
        )


def _checked(probabilities: Any, positions: np.ndarray, n_classes: int) -> np.ndarray:
    values = np.asarray(probabilities, dtype=float)
    shape = (len(positions), n_classes)
    if values.shape != shape or not np.isfinite(values).all() or (values < 0).any():
        raise CriterionError(
            f"predictor= returned an array of shape {values.shape} or values that are not probabilities. "
            f"Return finite class probabilities of shape {shape} for the rows asked for."
        )
    with np.errstate(divide="ignore"):
        return np.log(values)
