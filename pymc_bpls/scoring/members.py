"""How a set of models scores: the members' absolute values, a label rule within each, and a model rule over all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import xarray as xr

from pymc_bpls.approximations.automatic import order_for_all
from pymc_bpls.compute.compiler import Compiler
from pymc_bpls.compute.executors import Executor
from pymc_bpls.errors import BPLSError, CriterionError, ModeError
from pymc_bpls.model.data.table import Labeled, Table
from pymc_bpls.model.problem import Problem
from pymc_bpls.montecarlo.averages import Averages
from pymc_bpls.montecarlo.pair_modes import missed_classes
from pymc_bpls.montecarlo.references import Method, Reference
from pymc_bpls.montecarlo.tails import average_options, bad_averages
from pymc_bpls.rules.label_rules import Options, Weighing
from pymc_bpls.rules.model_rules import Decision, Members, ModelRule
from pymc_bpls.scoring.criteria import WITH_ABSOLUTE
from pymc_bpls.scoring.fitted import ModelFit, SetFit, Warm
from pymc_bpls.scoring.one_model import ModelScorer
from pymc_bpls.scoring.results import Scores, Values, Variable, finished
from pymc_bpls.scoring.scorer import ExactValues
from pymc_bpls.scoring.settings import Settings

BEST = "best"
_APART = ", "
T = TypeVar("T")


@dataclass(frozen=True)
class SetScorer:
    """Scores by the members' absolute values and a rule; predictions are those of one member."""

    problem: Problem
    members: tuple[ModelScorer, ...]
    names: tuple[str, ...]
    rule: ModelRule
    predicts: str

    @classmethod
    def of(cls, members: Mapping[str, ModelScorer], rule: ModelRule, predicts: str) -> SetScorer:
        """Of members that were checked to share a table."""
        first, *others = [member.problem for member in members.values()]
        problem = replace(first, beside=tuple(others))
        return cls(problem, tuple(members.values()), tuple(members), rule, predicts)

    @property
    def compilers(self) -> tuple[Compiler, ...]:
        """Those of all members."""
        return tuple(compiler for member in self.members for compiler in member.compilers)

    @property
    def dimension(self) -> np.ndarray:
        """dim θ of each member."""
        return np.array([member.problem.density.dimension for member in self.members])

    @property
    def predictor_name(self) -> str:
        """That of all members, or one after the other where they differ."""
        names = [member.predictor_name for member in self.members]
        return names[0] if len(set(names)) == 1 else _APART.join(names)

    @property
    def how_it_predicts(self) -> str:
        """As the members do, where they differ one after the other."""
        return "; ".join(dict.fromkeys(member.how_it_predicts for member in self.members))

    def how_it_predicted(self, fit: SetFit) -> str:
        """As the member that predicts does."""
        return self.members[fit.predicts].how_it_predicted(fit.members[fit.predicts])

    def approximations(self, labeled: Labeled) -> tuple[str, ...]:
        """Those that all members can take."""
        return order_for_all([member.approximations(labeled) for member in self.members])

    def with_rows(self, rows: Mapping[str, Any], called: str = "rows") -> tuple[SetScorer, np.ndarray]:
        """All members on the longer table."""
        extended = [member.with_rows(rows, called) for member in self.members]
        return replace(self, members=tuple(scorer for scorer, _ in extended)), extended[0][1]

    def with_factor(self, candidate: str) -> SetScorer:
        """For each member."""
        return replace(self, members=tuple(member.with_factor(candidate) for member in self.members))

    def with_memory(self, chunk_bytes: int) -> SetScorer:
        """For each member."""
        return replace(self, members=tuple(member.with_memory(chunk_bytes) for member in self.members))

    def with_executor(self, executor: Executor | None) -> SetScorer:
        """For each member."""
        return replace(self, members=tuple(member.with_executor(executor) for member in self.members))

    def with_table(self, table: Table) -> SetScorer:
        """For all members."""
        members = tuple(member.with_table(table) for member in self.members)
        return replace(self, problem=replace(self.problem, table=table), members=members)

    def with_predictor(self, predictor: str) -> SetScorer:
        """For each member: one for all, or their own as `predictor_name` has them."""
        names = predictor.split(_APART)
        each = names if len(names) > 1 else names * len(self.members)
        of_each = zip(self.members, each, strict=True)
        return replace(self, members=tuple(member.with_predictor(name) for member, name in of_each))

    def of_each(self, do: Callable[[int, ModelScorer], T]) -> list[T]:
        """`do` of the members and their numbers; what one of them refuses is refused in its name."""
        results = []
        for number, member in enumerate(self.members):
            with in_the_name_of(self.names[number]):
                results.append(do(number, member))
        return results

    def fit(self, labeled: Labeled, start: np.ndarray | None = None, centre_of: str | None = None) -> SetFit:
        """The members' modes, each from its model's own start, or centres of approximations."""
        fits = self.of_each(lambda _, member: member.fit(labeled, centre_of=centre_of))
        return self._together(fits)

    def centre(self, labeled: Labeled, approximation: str) -> SetFit:
        """The members' centres."""
        return self._together(self.of_each(lambda _, member: member.centre(labeled, approximation)))

    def _together(self, fits: Sequence[ModelFit]) -> SetFit:
        by_evidence = int(np.argmax([fit.mode.log_integral for fit in fits]))
        return SetFit(tuple(fits), by_evidence if self.predicts == BEST else self.names.index(self.predicts))

    def log_probabilities(self, fit: SetFit, positions: np.ndarray) -> np.ndarray:
        """Of the member that predicts."""
        return self.members[fit.predicts].log_probabilities(fit.members[fit.predicts], positions)

    def rejection(self, fit: SetFit, positions: np.ndarray) -> str | None:
        """At the mode of the member that predicts."""
        return self.members[fit.predicts].rejection(fit.members[fit.predicts], positions)

    def record(self, fit: SetFit) -> dict[str, Any]:
        """log p(D) of each member, and which of them predicts."""
        log_evidence = np.array([member.mode.log_integral for member in fit.members])
        return {"member_log_evidence": log_evidence, "predictor": fit.predicts}

    def score(self, settings: Settings, fit: SetFit, options: Options, warm: Warm = None) -> tuple[Scores, Warm]:
        """Scores by the rule, with the members' own values, which start anew in every round."""
        name = _absolute_name(settings)
        own, apart = replace(settings, absolute=True, told=False), replace(options, weigh=None)
        results = self.of_each(lambda number, member: member.score(own, fit.members[number], apart)[0])
        dims = results[0].variables["score"][0]
        values = np.stack([result[name] for result in results])
        combined, weighing, decision = self._decide(values, options, fit.labeled)
        variables, attrs = self._variables(name, dims if weighing is None else ("candidate",), combined, decision)
        if "converged" in results[0]:
            variables["converged"] = dims, np.logical_and.reduce([result["converged"] for result in results])
        attrs |= {"rule": self.rule.name, "predictor": self.names[fit.predicts]}
        theta = fit.members[0].mode.theta
        scores = finished(self.problem, Values(variables, attrs), options, weighing, theta=theta, told=settings.told)
        return replace(scores, coords={"member": list(self.names)}), warm

    def _decide(self, values: np.ndarray, options: Options, labeled: Labeled) -> tuple[np.ndarray, Weighing | None, Decision]:
        """The members' values (M, ...) after their classes were combined, the pseudo-labels then, and the rule's decision.

        Classes combine within each member; the label is the one that the label rule gives to the rule's value of each class.
        """
        members = self._members(labeled)
        decision = self.rule.decide(values, members)
        if options.weigh is None:
            return values, None, decision
        weighing = options.weigh(decision.value(values))
        combined = np.stack([options.weigh(each).combined(each) for each in values])
        return combined, weighing, self.rule.decide(combined, members)

    def _members(self, labeled: Labeled) -> Members:
        if not self.rule.at_mle:
            return Members(self.dimension)
        try:
            mle = self.members[0].engines.of(labeled).engine.fit(labeled, prior=False).theta
            own = self.members[0].problem.density.parameters.unconstrained(mle)
        except ModeError as error:
            raise CriterionError(
                f"{self.rule.name} needs a maximum likelihood estimate of D, and there is none: rows are separated, or the "
                "likelihood does not identify all parameters. Use GammaMaximin()."
            ) from error
        densities = [member.problem.density for member in self.members]
        log_prior = [
            float(each.structure.compiled_log_prior(each.parameters.counted(own))) - each.parameters.log_volume
            for each in densities
        ]
        return Members(self.dimension, np.array(log_prior))

    def _variables(
        self, name: str, dims: tuple[str, ...], values: np.ndarray, decision: Decision
    ) -> tuple[dict[str, Variable], dict[str, Any]]:
        """Those of the rule's value, the members' values and what the rule says of them, and attrs."""
        value = decision.value(values)
        variables: dict[str, Variable] = {
            "score": (dims, value),
            name: (dims, value),
            f"{name}_member": (("member", *dims), values),
        }
        if (decision.member >= 0).all():
            variables["decided_by"] = dims, np.array(self.names)[decision.member]
        if not self.rule.at_mle:
            return variables, {}
        variables["gamma_maximin"] = dims, values.min(axis=0)
        return variables, {"disagreement": _disagreement(value, values)}

    def exact_values(self, labeled: Labeled, k: int, method: Method, options: Options) -> ExactValues:
        """The rule's value of the members' exact ones; their runs are independent, and their normalisers have errors too."""
        engines = [member.engines.of(labeled).engine for member in self.members]
        runs = self.of_each(lambda number, member: method(member.problem, engines[number], labeled, k))
        apart = replace(options, weigh=None)
        levels = [run.normaliser for run in runs if run.normaliser is not None]
        if len(levels) < len(runs):
            raise CriterionError("Members are compared by absolute values. Use absolute=True.")
        averages, missed = [], []
        for engine, run, level in zip(engines, runs, levels, strict=True):
            of_member, _ = average_options(engine, labeled, k, run, apart)
            averages.append(of_member.plus(level, run.draws.batches))
            missed.append(missed_classes(engine, labeled, run.search, run.draws, *options.pairs))
        shape = options.codes.shape
        values = np.stack([each.log_mean.reshape(shape) for each in averages])
        combined, weighing, decision = self._decide(values, options, labeled)
        if options.weigh is not None:
            averages = [each.combined(options.weigh(own)) for each, own in zip(averages, values, strict=True)]
        codes = options.codes if weighing is None else weighing.codes
        result = _averaged(averages, decision, combined)
        return ExactValues(
            result,
            codes,
            None,
            self._groups(runs, combined, options.candidates, codes),
            [
                f"of {name}: {reason}"
                for name, run, more in zip(self.names, runs, missed, strict=True)
                for reason in (*run.reasons, *more)
            ]
            + bad_averages(result, *runs),
            f"{len(runs)} members, each by {runs[0].source}",
            absolute=True,
        )

    def _groups(
        self, runs: Sequence[Reference], values: np.ndarray, candidates: np.ndarray, codes: np.ndarray
    ) -> dict[str, xr.Dataset]:
        """The members' own runs, and their exact values."""
        groups = {
            f"/members/{name}{group}": held
            for name, run in zip(self.names, runs, strict=True)
            for group, held in run.groups.items()
        }
        groups["/member_values"] = xr.Dataset(
            {"value": (("member", "candidate", "label")[: values.ndim], values)},
            coords={"member": list(self.names), **self.problem.coords(candidates, codes)},
        )
        return groups


@contextmanager
def in_the_name_of(name: str) -> Iterator[None]:
    """What a member refuses is refused in its name."""
    try:
        yield
    except BPLSError as error:
        raise type(error)(f'Member "{name}": {error}') from error


def _absolute_name(settings: Settings) -> str:
    """What the absolute value of a criterion is called; members are compared by no other."""
    criterion = settings.criterion
    if criterion.absolute is None or (settings.by_laplace and not settings.with_prior):
        raise CriterionError(
            f'"{criterion.name}" has no absolute value{"" if settings.with_prior else " without the prior"}, so that members '
            f"cannot be compared by it. Use {' or '.join(map(repr, WITH_ABSOLUTE))}."
        )
    return criterion.absolute


def _disagreement(value: np.ndarray, values: np.ndarray) -> str:
    """How far the shortcut is from Γ-maximin, in words."""
    smallest = values.min(axis=0)
    other = int((value > smallest).sum())
    same = "the same" if np.nanargmax(value) == np.nanargmax(smallest) else "another"
    return (
        f"Another prior than the chosen one has the smallest PPP for {other} of {value.size} pseudo-samples; "
        f"Γ-maximin would choose {same} one."
    )


def _averaged(averages: Sequence[Averages], decision: Decision, values: np.ndarray) -> Averages:
    """Averages of the rule's values, from runs of the members that are independent of each other."""
    weights = decision.weights.reshape(len(averages), -1)
    blocks = tuple(
        np.where(weight != 0, block * weight, 0.0)
        for each, weight in zip(averages, weights, strict=True)
        for block in each.blocks
    )
    ess, ks = (np.stack([getattr(each, name) for each in averages]) for name in ("ess", "pareto_k"))
    worst = np.where(weights != 0, ess, np.inf).min(axis=0), np.where(weights != 0, ks, -np.inf).max(axis=0)
    return Averages(decision.value(values).ravel(), blocks, *worst)
