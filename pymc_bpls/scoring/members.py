"""How a set of models scores: the members' absolute values, a label rule within each, and a model rule over all."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import jax.numpy as jnp
import numpy as np
import xarray as xr

from pymc_bpls.compute.compiler import Compiler
from pymc_bpls.engine.mode import Mode
from pymc_bpls.errors import BPLSError, CriterionError, ModeError
from pymc_bpls.model.problem import Problem
from pymc_bpls.model.table import Labeled
from pymc_bpls.montecarlo.averages import Averages, average_options
from pymc_bpls.rules.label_rules import Options, Weighing
from pymc_bpls.rules.model_rules import Decision, Members, ModelRule
from pymc_bpls.scoring.by_ep_and_vi import ABSOLUTE
from pymc_bpls.scoring.exact import ExactValues, Method, exact_values
from pymc_bpls.scoring.scorer import Scorer, Settings, Warm

BEST = "best"
T = TypeVar("T")


@dataclass(frozen=True)
class SharedProblem(Problem):
    """The table that all members share, as the first of them holds it."""

    members: tuple[Problem, ...]

    @classmethod
    def of(cls, members: Sequence[Problem]) -> SharedProblem:
        """Of members that were checked to share it."""
        return cls(**{field.name: getattr(members[0], field.name) for field in fields(Problem)}, members=tuple(members))

    @cached_property
    def fingerprint(self) -> str:
        """Of all members."""
        return hashlib.sha256("".join(member.fingerprint for member in self.members).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class SetMode(Mode):
    """The mode of the member that predicts, `best`, and those of all members."""

    members: tuple[Mode, ...]
    best: int


@dataclass(frozen=True)
class SetScorer(Scorer):
    """Scores by the members' absolute values and a rule; predictions are those of one member."""

    members: tuple[Scorer, ...]
    names: tuple[str, ...]
    rule: ModelRule
    predicts: str

    is_one_model: ClassVar[bool] = False

    @property
    def compilers(self) -> tuple[Compiler, ...]:
        """Those of all members."""
        return tuple(compiler for member in self.members for compiler in member.compilers)

    @property
    def dimension(self) -> np.ndarray:
        """dim θ of each member."""
        return np.array([member.engine.density.dimension for member in self.members])

    def with_rows(self, rows: Mapping[str, Any]) -> tuple[Scorer, np.ndarray]:
        """All members on the longer table."""
        extended = [member.with_rows(rows) for member in self.members]
        return replace(self, members=tuple(scorer for scorer, _ in extended)), extended[0][1]

    def with_memory(self, chunk_bytes: int) -> Scorer:
        """For each member."""
        return replace(self, members=tuple(member.with_memory(chunk_bytes) for member in self.members))

    def of_each(self, do: Callable[[int, Scorer], T]) -> list[T]:
        """`do` of the members and their numbers; what one of them refuses is refused in its name."""
        found = []
        for number, member in enumerate(self.members):
            with in_the_name_of(self.names[number]):
                found.append(do(number, member))
        return found

    def fit(self, labeled: Labeled, start: np.ndarray | None = None) -> Mode:
        """The members' modes, each from its model's own start."""
        return self._predicting(self.of_each(lambda _, member: member.fit(labeled)))

    def base(self, settings: Settings, labeled: Labeled, start: np.ndarray | None = None) -> Mode:
        """The members' modes, or centres of approximations."""
        return self._predicting(self.of_each(lambda _, member: member.base(settings, labeled)))

    def _predicting(self, modes: Sequence[Mode]) -> SetMode:
        by_evidence = int(np.argmax([mode.log_integral for mode in modes]))
        best = by_evidence if self.predicts == BEST else self.names.index(self.predicts)
        own = {field.name: getattr(modes[best], field.name) for field in fields(Mode)}
        return SetMode(**own, members=tuple(modes), best=best)

    def log_probabilities(self, mode: Mode, positions: np.ndarray) -> np.ndarray:
        """Of the member that predicts."""
        assert isinstance(mode, SetMode)
        return self.members[mode.best].log_probabilities(mode.members[mode.best], positions)

    def facts(self, mode: Mode) -> dict[str, Any]:
        """log p(D) of each member, and which of them predicts."""
        assert isinstance(mode, SetMode)
        return {"member_log_evidence": np.array([each.log_integral for each in mode.members]), "predictor": mode.best}

    def score_options(
        self, settings: Settings, labeled: Labeled, mode: Mode, options: Options, warm: Warm = None
    ) -> tuple[xr.Dataset, Warm]:
        """Scores by the rule, with the members' own values, which start anew in every round."""
        assert isinstance(mode, SetMode)
        name = _absolute_name(settings)
        settings, apart = replace(settings, absolute=True), replace(options, weigh=None)
        results = self.of_each(lambda number, member: member.score_options(settings, labeled, mode.members[number], apart)[0])
        dims = results[0]["score"].dims
        values = np.stack([result[name].to_numpy() for result in results])
        combined, weighing, decision = self._decide(values, options, labeled)
        found = self._dataset(name, dims if weighing is None else ("candidate",), combined, decision)
        if "converged" in results[0]:
            found["converged"] = dims, np.stack([result["converged"].to_numpy() for result in results]).all(axis=0)
        finished = self._finished(found, options, weighing).assign_coords(member=list(self.names))
        return finished.assign_attrs(rule=self.rule.name, predictor=self.names[mode.best]), warm

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
            mle = self.members[0].given(labeled).engine.fit(labeled, prior=False).theta
        except ModeError as error:
            raise CriterionError(
                f"{self.rule.name} needs a maximum likelihood estimate of D, and there is none: rows are separated, or the "
                "likelihood does not identify all parameters. Use GammaMaximin()."
            ) from error
        log_prior = [float(member.engine.density.prior(jnp.asarray(mle))) for member in self.members]
        return Members(self.dimension, np.array(log_prior))

    def _dataset(self, name: str, dims: tuple[Any, ...], values: np.ndarray, decision: Decision) -> xr.Dataset:
        value = decision.value(values)
        found = xr.Dataset({"score": (dims, value), name: (dims, value), f"{name}_member": (("member", *dims), values)})
        if (decision.member >= 0).all():
            found["decided_by"] = dims, np.array(self.names)[decision.member]
        if self.rule.at_mle:
            found["gamma_maximin"] = dims, values.min(axis=0)
            found.attrs["disagreement"] = _disagreement(value, values)
        return found


@contextmanager
def in_the_name_of(name: str) -> Iterator[None]:
    try:
        yield
    except BPLSError as error:
        raise type(error)(f'Member "{name}": {error}') from error


def _absolute_name(settings: Settings) -> str:
    """What the absolute value of a criterion is called; members are compared by no other."""
    name = settings.criterion.name
    if name not in ABSOLUTE or (settings.refits and not settings.with_prior):
        raise CriterionError(
            f'"{name}" has no absolute value{"" if settings.with_prior else " without the prior"}, so that members cannot be '
            f"compared by it. Use {' or '.join(map(repr, ABSOLUTE))}."
        )
    return ABSOLUTE[name]


def _disagreement(value: np.ndarray, values: np.ndarray) -> str:
    """How far the shortcut is from Γ-maximin, in words."""
    smallest = values.min(axis=0)
    other = int((value > smallest).sum())
    same = "the same" if np.nanargmax(value) == np.nanargmax(smallest) else "another"
    return (
        f"Another prior than the chosen one has the smallest PPP for {other} of {value.size} pseudo-samples; "
        f"Γ-maximin would choose {same} one."
    )


@exact_values.register
def _(scorer: SetScorer, labeled: Labeled, k: int, method: Method, options: Options) -> ExactValues:
    """The rule's value of the members' exact ones; the members' runs are independent, and their normalisers have errors too."""
    runs = scorer.of_each(lambda _, member: method(member.given(labeled), labeled, k))
    apart = replace(options, weigh=None)
    found: list[Averages] = []
    for number, member in enumerate(scorer.members):
        averages, _ = average_options(member.given(labeled).engine, runs[number].draws, apart)
        level = runs[number].normaliser
        if level is None:
            raise CriterionError("Members are compared by absolute values. Use absolute=True.")
        found.append(replace(averages, log_mean=averages.log_mean + level.value))
    shape = options.codes.shape
    values = np.stack([each.log_mean.reshape(shape) for each in found])
    combined, weighing, decision = scorer._decide(values, options, labeled)
    if options.weigh is not None:
        found = [each.combined(options.weigh(of)) for each, of in zip(found, values, strict=True)]
    total = _averaged(found, [run.normaliser.error for run in runs if run.normaliser], decision, combined)
    groups = {
        f"/members/{name}{group}": held
        for name, run in zip(scorer.names, runs, strict=True)
        for group, held in run.groups.items()
    }
    codes = options.codes if weighing is None else weighing.codes
    groups["/member_values"] = xr.Dataset(
        {"value": (("member", "candidate", "label")[: combined.ndim], combined)},
        coords={"member": list(scorer.names), **scorer.problem.coords(options.candidates, codes)},
    )
    reasons = [f"of {name}: {reason}" for name, run in zip(scorer.names, runs, strict=True) for reason in run.reasons]
    worst = [run.draws.pareto_k for run in runs if run.draws.pareto_k is not None]
    source = f"{len(runs)} members, each by {runs[0].source}"
    return ExactValues(
        total,
        codes,
        None,
        groups,
        reasons,
        source,
        pareto_k=max(worst) if worst else None,
        absolute=True,
    )


def _averaged(found: Sequence[Averages], level_errors: Sequence[float], decision: Decision, values: np.ndarray) -> Averages:
    """Averages of the rule's values: batches of all members side by side, scaled so that their errors add up.

    The error ε of a member's normaliser is a batch and its mirror image.
    """
    weights = decision.weights.reshape(len(found), -1)
    n = sum(len(each.deviations) + 2 for each in found)
    batches = []
    for each, error, weight in zip(found, level_errors, weights, strict=True):
        own = len(each.deviations)
        batches.append(np.sqrt(n * (n - 1) / (own * (own - 1))) * each.deviations * weight)
        batches.append(np.array([[1.0], [-1.0]]) * np.sqrt(n * (n - 1) / 2) * error * weight)
    ess = np.where(weights != 0, np.stack([each.ess for each in found]), np.inf).min(axis=0)
    return Averages(decision.value(values).ravel(), np.concatenate(batches), ess)
