"""One scoring of all candidates: a fit on D, pairs (candidate, class), their terms, and the Dataset of the result."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import xarray as xr

from pymc_bpls.approximations.gaussian import Gaussian
from pymc_bpls.approximations.predictive import Predictive, log_softmax
from pymc_bpls.compute.compiler import Compiler
from pymc_bpls.engine.mode import Mode
from pymc_bpls.engine.refits import Engine
from pymc_bpls.errors import BPLSWarning, CriterionError, ModeError
from pymc_bpls.model.problem import Problem
from pymc_bpls.model.table import Labeled
from pymc_bpls.rules.label_rules import LabelRule, Options, Weighing, read_options
from pymc_bpls.rules.ranking import best_first
from pymc_bpls.scoring.by_ep_and_vi import ABSOLUTE, FITS, RefitFree, warn_of_constant
from pymc_bpls.scoring.criteria import TERMS, Criterion, FitCriterion, FittedView

Warm = np.ndarray | dict[int, Gaussian] | None
DESCRIPTIONS = {
    "score": "the criterion, larger is better",
    "pseudo_label": "the class that the score is of, the best one where several are scored",
    "log_lik_labeled": "log-likelihood of D at the candidate's own mode",
    "log_lik_pseudo": "log-likelihood of the candidate with its pseudo-label at that mode",
    "log_prior": "log prior density, with Jacobian, at that mode",
    "log_det": "log determinant of minus the Hessian at that mode",
    "converged": "whether that mode is verified",
    "log_ppp": "log p(D, i | D), absolute",
    "log_evidence": "log p(D, i), absolute",
    "log_ppp_member": "log p(D, i | D) under each member",
    "log_evidence_member": "log p(D, i) under each member",
    "decided_by": "the member whose value the score is",
    "gamma_maximin": "the smallest value over the members",
    "class_sum_error": "log of the classes' PPP added up minus log Z_2/Z_1, both by Laplace's method",
}


@dataclass(frozen=True)
class Settings:
    """How to score: the criterion, whether it expands with the prior, the label rule, and by which approximation.

    Without `absolute`, scores without refits are left without the constant that all candidates share.
    """

    criterion: Criterion | FitCriterion
    with_prior: bool
    rule: LabelRule
    rng: np.random.Generator
    approximation: str = "laplace"
    absolute: bool = True

    @property
    def refits(self) -> bool:
        """Whether the criterion is taken by Laplace's method, at the mode or with a refit of every candidate."""
        return self.approximation == "laplace"


class Pairs(NamedTuple):
    """Pairs (row, class), flat, and how values of them are laid out in a Dataset."""

    rows: np.ndarray
    codes: np.ndarray
    shape: tuple[int, ...]
    dims: tuple[str, ...]

    @classmethod
    def of(cls, candidates: np.ndarray, codes: np.ndarray) -> Pairs:
        """Each candidate with its class, codes (m,), or with several, codes (m, K)."""
        dims = ("candidate",) if codes.ndim == 1 else ("candidate", "label")
        return cls(np.repeat(candidates, codes.size // max(len(candidates), 1)), codes.ravel(), codes.shape, dims)

    def variable(self, values: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
        """Values of the flat pairs as a variable of a Dataset."""
        return self.dims, values.reshape(self.shape)


@dataclass(frozen=True)
class Scorer:
    """Scores the candidates of one problem, whatever D is by now."""

    problem: Problem
    engine: Engine
    predictor: str | Callable[[np.ndarray], Any]

    #: Whether there is one posterior, whose Gaussian approximations have a k-hat.
    is_one_model: ClassVar[bool] = True

    @cached_property
    def predictive(self) -> Predictive:
        """Predictions of this engine."""
        return Predictive(self.engine)

    @property
    def compilers(self) -> tuple[Compiler, ...]:
        """What compiles for it."""
        return (self.engine.compiler,)

    def with_rows(self, rows: Mapping[str, Any]) -> tuple[Scorer, np.ndarray]:
        """The same scorer on the table with `rows` of the data containers appended, and the positions of these rows."""
        density, positions = self.problem.with_rows(rows)
        return replace(self, engine=replace(self.engine, density=density)), positions

    def with_memory(self, chunk_bytes: int) -> Scorer:
        """The same scorer with so much memory for refits that are done together."""
        return replace(self, engine=replace(self.engine, chunk_bytes=chunk_bytes))

    def facts(self, mode: Mode) -> dict[str, Any]:
        """What a run records of each model besides its predictions."""
        return {}

    def given(self, labeled: Labeled) -> Scorer:
        """The scorer whose engine knows D: this one, which serves any."""
        return self

    def through(self, change: Callable[[Scorer], Scorer]) -> Scorer:
        """`change` of the scorer for each D."""
        return change(self)

    def fit(self, labeled: Labeled, start: np.ndarray | None = None) -> Mode:
        """The mode of ℓ_D + log π."""
        return self.engine.fit(labeled, start)

    def base(self, settings: Settings, labeled: Labeled, start: np.ndarray | None = None) -> Mode:
        """The mode, or the centre of the approximation where the log-posterior has a kink and so no mode to verify."""
        try:
            return self.fit(labeled, start)
        except ModeError:
            if settings.refits:
                raise
            return FITS[settings.approximation](self.engine, labeled, 1, None, None).as_mode()

    def log_probabilities(self, mode: Mode, positions: np.ndarray) -> np.ndarray:
        """The predictor's log class probabilities, shape (rows, K)."""
        if callable(self.predictor):
            return _checked(self.predictor(positions), positions, len(self.problem.classes))
        if self.predictor == "laplace":
            return log_softmax(self.predictive.log_mean_lik(Gaussian.at_mode(mode), positions, normalised=True))
        return self.predictive.log_probabilities(mode.theta, positions)

    def options(self, rule: LabelRule, labeled: Labeled, mode: Mode, candidates: np.ndarray) -> Options:
        """The classes to score for each candidate, and how they combine."""
        present = np.isin(np.arange(len(self.problem.classes)), labeled.codes)
        return read_options(rule, candidates, self.log_probabilities(mode, candidates), present)

    def score(
        self, settings: Settings, labeled: Labeled, mode: Mode, candidates: np.ndarray, warm: Warm = None
    ) -> tuple[xr.Dataset, Warm]:
        """Scores of `candidates` under D = `labeled`, and what the next round may start from, which is `warm` there."""
        return self.score_options(settings, labeled, mode, self.options(settings.rule, labeled, mode, candidates), warm)

    def score_options(
        self, settings: Settings, labeled: Labeled, mode: Mode, options: Options, warm: Warm = None
    ) -> tuple[xr.Dataset, Warm]:
        """The same for options that are given."""
        pairs = Pairs.of(options.candidates, options.codes)
        to_log = _log_scale(settings) if options.weigh is not None else None
        start: Warm
        if not settings.refits:
            result, start = self._refit_free(settings, labeled, mode, pairs, warm)
        elif isinstance(settings.criterion, FitCriterion):
            view = FittedView(self.predictive, mode, pairs.rows, pairs.codes, settings.rng)
            result = xr.Dataset({"score": pairs.variable(settings.criterion.score(view))})
            start = warm
        else:
            with np.errstate(all="ignore"):
                result, start = self._laplace(settings, labeled, mode, pairs, warm)
        weighing = None
        if options.weigh is not None and to_log is not None:
            result, weighing = _combined_classes(result, options.weigh, to_log)
        return self._finished(result, options, weighing), start

    def _laplace(self, settings: Settings, labeled: Labeled, mode: Mode, pairs: Pairs, warm: Warm) -> tuple[xr.Dataset, Warm]:
        criterion = settings.criterion
        assert isinstance(criterion, Criterion)
        start = self._shared_mode(settings, labeled, mode, warm if isinstance(warm, np.ndarray) else None)
        refits = self.engine.refit(labeled, pairs.rows, pairs.codes, start, k=criterion.k, prior=settings.with_prior)
        terms = xr.Dataset({name: pairs.variable(getattr(refits, name)) for name in TERMS})
        result = terms[list(criterion.terms)].assign(
            score=_combined(criterion, terms).transpose(*pairs.dims), converged=pairs.variable(refits.converged)
        )
        if settings.with_prior and self.problem.proper:
            result = result.assign(self._absolute(criterion, terms, mode, start))
        return result, start.theta

    def _refit_free(
        self, settings: Settings, labeled: Labeled, mode: Mode, pairs: Pairs, warm: Warm
    ) -> tuple[xr.Dataset, Warm]:
        name, proper = settings.criterion.name, self.problem.proper
        found = RefitFree(self.predictive, settings.approximation).score(
            name,
            labeled,
            mode,
            (pairs.rows, pairs.codes),
            warm if isinstance(warm, dict) else {},
            absolute=proper and settings.absolute and name in ABSOLUTE,
        )
        result = xr.Dataset({"score": pairs.variable(found.log_predictive + (found.log_normalizer or 0.0))})
        if found.log_normalizer is not None:
            result[ABSOLUTE[name]] = result["score"]
            result.attrs["log_normalizer"] = found.log_normalizer
        if found.sampled is not None:
            result.attrs["log_normalizer_error"], result.attrs["pareto_k"] = found.sampled
            warn_of_constant(found.sampled[1])
        return result, found.fits

    def _shared_mode(self, settings: Settings, labeled: Labeled, mode: Mode, shared: np.ndarray | None) -> Mode:
        """The mode of k ℓ_D (+ log π), from which all candidates start: it has to exist before any of theirs."""
        criterion = settings.criterion
        assert isinstance(criterion, Criterion)
        if criterion.k == 1 and settings.with_prior:
            return mode
        if not settings.with_prior:
            self._needs_no_prior(criterion)
        begin = mode.theta if shared is None else shared
        return self.engine.fit(labeled, begin, k=criterion.k, prior=settings.with_prior)

    def _needs_no_prior(self, criterion: Criterion) -> None:
        if self.problem.hierarchy:
            child, parent = self.problem.hierarchy[0]
            raise CriterionError(
                f'"{criterion.name}" is taken without the prior, and the density of "{child}" depends on "{parent}": '
                'dropping it would drop the model. Use a criterion with the prior, as "ppp".'
            )

    def _absolute(self, criterion: Criterion, terms: xr.Dataset, mode: Mode, shared: Mode) -> dict[str, xr.DataArray]:
        """log PPP_i (k = 2) or log p(D ∪ i) (k = 1) by Laplace's method, and how far the classes are from adding up."""
        value = (
            criterion.k * terms.log_lik_labeled + terms.log_lik_pseudo + terms.log_prior - 0.5 * terms.log_det
        ) + 0.5 * len(mode.theta) * np.log(2 * np.pi)
        if criterion.k == 1:
            return {"log_evidence": value}
        log_ppp = value - mode.log_integral
        absolute = {"log_ppp": log_ppp}
        if "label" in log_ppp.dims:
            total = xr.apply_ufunc(np.logaddexp.reduce, log_ppp, input_core_dims=[["label"]], kwargs={"axis": -1})
            absolute["class_sum_error"] = total - (shared.log_integral - mode.log_integral)
        return absolute

    def _finished(self, result: xr.Dataset, options: Options, weighing: Weighing | None = None) -> xr.Dataset:
        """The result with pseudo-labels, coords and the user's index; rows without a finite score are reported."""
        names, dims = self.problem.classes.names, result["score"].dims
        candidates, codes, scores = options.candidates, options.codes, result["score"].to_numpy()
        finite = np.isfinite(scores)
        if "converged" in result:
            converged = result["converged"].to_numpy()
            finite = finite & (converged if weighing is None else converged.all(axis=1))
        if weighing is not None:
            chosen = weighing.codes
        else:
            chosen = codes if codes.ndim == 1 else np.where(finite, scores, -np.inf).argmax(axis=1)
        variables = {
            "score": (dims, np.where(finite, scores, np.nan)),
            "pseudo_label": ("candidate", names[chosen]),
            **{str(name): (value.dims, value.to_numpy()) for name, value in result.data_vars.items() if name != "score"},
        }
        described = {name: (*value, {"description": DESCRIPTIONS[name]}) for name, value in variables.items()}
        bad = candidates[~finite.reshape(len(candidates), -1).all(axis=1)]
        if bad.size:
            warnings.warn(
                f"{bad.size} of {len(candidates)} candidates have no finite score{' for some class' * (codes.ndim == 2)} "
                f"(the first: row {bad[0]}). They are never selected with it; look for far-away values in these rows.",
                BPLSWarning,
                stacklevel=5,
            )
        return xr.Dataset(described, coords=self.problem.coords(candidates, codes), attrs=result.attrs)


def _log_scale(settings: Settings) -> Callable[[np.ndarray], np.ndarray]:
    """From scores to logarithms of probabilities or of densities, on which classes combine."""
    criterion = settings.criterion
    if isinstance(criterion, Criterion) or not settings.refits:
        return np.asarray
    if criterion.log_p is None:
        raise CriterionError(
            f'"{criterion.name}" is no probability, so that classes cannot be combined by it. '
            'Use labels="predicted" or "all", or another criterion.'
        )
    return criterion.log_p


def _combined_classes(
    result: xr.Dataset, weigh: Callable[[np.ndarray], Weighing], to_log: Callable[[np.ndarray], np.ndarray]
) -> tuple[xr.Dataset, Weighing]:
    """`score` and the absolute value with their classes combined, as logarithms; terms stay those of each class."""
    with np.errstate(divide="ignore"):
        log_values = to_log(result["score"].to_numpy())
    weighing = weigh(log_values)
    combined = {
        name: ("candidate", weighing.combined(log_values if name == "score" else result[name].to_numpy()))
        for name in ("score", *ABSOLUTE.values())
        if name in result
    }
    return result.drop_vars(list(combined)).assign(combined), weighing


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


def ranking(scores: xr.DataArray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (candidate position in `scores`, class) from best to worst, and their scores.

    Scores within 1e-10 of each other are tied, and the first candidate wins; a NaN never takes part.
    """
    values = scores.to_numpy().reshape(scores.sizes["candidate"], -1)
    flat = values.ravel()
    order, _ = best_first(flat)
    return np.column_stack(np.divmod(order, values.shape[1])), flat[order]
