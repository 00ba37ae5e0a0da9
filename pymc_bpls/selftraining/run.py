"""Self-training (Algorithm 1): fit, score, add the best candidate with its pseudo-label, and again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import xarray as xr

from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.compute.budget import check_budget
from pymc_bpls.compute.threads import for_matrices_of
from pymc_bpls.errors import BPLSError, CriterionError, RowError, warn
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.rules.label_rules import DrawingRule
from pymc_bpls.scoring.fitted import Fitted, Warm
from pymc_bpls.scoring.results import Scores, own_error, rank_pairs
from pymc_bpls.scoring.scorer import Scorer, fit_on, say_without_probabilities, score_pool
from pymc_bpls.scoring.settings import AUTO, Settings
from pymc_bpls.selftraining.ending import Ending
from pymc_bpls.selftraining.history import History, won_and_lost
from pymc_bpls.selftraining.invented import invented_information
from pymc_bpls.selftraining.planning import Plan
from pymc_bpls.selftraining.saved_run import OF_TEST_ROWS, RunMembers, RunSettings, SavedRun, curve_dataset, history_dataset
from pymc_bpls.selftraining.stop_rules import first_reason
from pymc_bpls.selftraining.whole_runs import are_whole
from pymc_bpls.text.numbers import rounds_done


class Select(Protocol):
    """Scores the candidates of a round, by `score_pool` unless another way of selecting is compared with it."""

    def __call__(
        self, scorer: Scorer, settings: Settings, fit: Fitted, candidates: np.ndarray, warm: Warm
    ) -> tuple[Scores, Warm]: ...


@dataclass
class Run:
    """A run in progress: D with its pseudo-labels, the candidates left, and what happened until now.

    `theta` is where the last fit ended and the next one starts, `supervised` the fit on the labels alone, `random_state` the
    state of the generator. What a round or a fit changes is assigned together when it is done, so that Ctrl-C leaves the run as
    it was before.
    """

    scorer: Scorer
    settings: Settings
    plan: Plan
    labeled: Labeled
    candidates: np.ndarray
    history: History
    fit: Fitted | None = None
    warm: Warm = None
    theta: np.ndarray | None = None
    select: Select = score_pool
    supervised: Fitted | None = None
    random_state: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.random_state = self.settings.rng.bit_generator.state

    def go(self, tell: Callable[[int], None]) -> Ending:
        """Rounds until there is a reason to stop, which is returned; `tell` hears how many pseudo-labels were added."""
        began = self.n_rounds
        try:
            with for_matrices_of(self._size()):
                self._refit()
            while (ending := self._ending(began)) is None:
                check_budget()
                with for_matrices_of(self._size()):
                    added = self._round()
                    if not added:
                        return Ending("scores", "no candidate has a finite score")
                    self._refit()
                tell(added)
            return ending
        except BPLSError as error:
            if not self.history.models or (isinstance(error, CriterionError) and not self.history.steps):
                raise
            return Ending("refused", f"round {self.n_rounds + 1} was refused: {error}")
        except KeyboardInterrupt:
            if not self.history.models:
                raise
            return Ending("interrupted", "interrupted")
        except Exception as error:  # of the user's own rule, weight or formula: what was done is not lost
            if not self.history.steps or are_whole():
                raise
            reason = f"round {self.n_rounds + 1} failed with {type(error).__name__}: {error}"
            warn(f"The run ended early: {reason}. What was done until then is returned.")
            return Ending("failed", reason)

    def _size(self) -> int:
        """Of the matrices that D is worked on with."""
        density = self.scorer.problem.density
        predictors = density.structure.affine_map
        return density.dimension if predictors is None else min(density.dimension, predictors.size * (len(self.labeled) + 1))

    def saved(self, settings: RunSettings, ending: Ending, members: RunMembers | None) -> SavedRun:
        """What is kept of it."""
        assert self.theta is not None
        return SavedRun(
            settings=replace(settings, averaged_by=self.settings.asked_to_average_by),
            history=self.history,
            labeled=self.labeled,
            theta=self.theta,
            warm=self.warm,
            random_state=self.random_state,
            ending=ending,
            test=self.plan.test,
            held_out=self.plan.held_out,
            members=members,
        )

    @property
    def n_left(self) -> int:
        """How many candidates there are yet."""
        return len(self.candidates)

    @property
    def most(self) -> int:
        """How many pseudo-labels it may add."""
        rounds, size = self.plan.rounds, self.plan.batch_size
        return self.n_left if rounds is None else min(self.n_left, rounds * size)

    def _position_of(self, candidate: int) -> int:
        """Of a candidate, as results number the rows."""
        return candidate

    @property
    def n_rounds(self) -> int:
        """How many rounds are done, those before it was resumed included."""
        return self.history.steps[-1]["round"] if self.history.steps else 0

    def _ending(self, began: int) -> Ending | None:
        """Whether to stop now, in a run that was begun or resumed after so many rounds."""
        if not self.n_left:
            return Ending("pool", "the pool is empty")
        if self.plan.rounds is not None and self.n_rounds - began >= self.plan.rounds:
            return Ending("rounds", rounds_done(self.n_rounds))
        found = first_reason(self.plan.stop, self._seen_by_rules()) if self.plan.stop else None
        return None if found is None else Ending("rule", *found)

    def _seen_by_rules(self) -> xr.Dataset:
        """The history, and the curve without the test rows."""
        curve = curve_dataset(self.history).drop_vars(OF_TEST_ROWS, errors="ignore")
        seen = history_dataset(self.history, self.scorer.problem).merge(curve)
        return seen.assign_attrs(criterion=self.settings.criterion.name)

    def _refit(self) -> None:
        """Fit on D and record the model."""
        history, supervised = self.history, self._supervised() if self.history.steps else None
        no_mode = supervised is not None and not supervised.has_mode
        fit = fit_on(self.scorer, self.settings, self.labeled, self.theta, self.warm, no_mode=no_mode)
        if supervised is None:
            self.supervised = fit
        if not history.models or history.models[-1]["n_pseudo"] != len(history.steps):
            history = history.with_model(*self._judge(fit))
        self.fit, self.theta, self.history = fit, fit.mode.theta, history

    def _judge(self, fit: Fitted) -> tuple[dict[str, Any], np.ndarray | None]:
        """What the curve says of a model, and which test rows it predicts right."""
        entry = {"n_pseudo": len(self.history.steps), "weight": self.labeled.weights.sum(), **self.scorer.record(fit)}
        now, before = fit.beside(self._supervised())
        entry["invented_information"] = invented_information(now.mode, before.mode)
        right = None
        if self.scorer.problem.proper:
            entry["log_evidence"] = fit.mode.log_integral
        if self.plan.test is not None:
            right, entry["log_score"] = self.plan.test.evaluate(self.scorer, fit)
            entry["accuracy"] = right.mean()
            entry["won"], entry["lost"] = won_and_lost(self.history.right[0] if self.history.right else right, right)
        if self.plan.held_out is not None:
            _, entry["held_out_log_score"] = self.plan.held_out.evaluate(self.scorer, fit)
        return entry, right

    def _supervised(self) -> Fitted:
        """The fit on the labels alone."""
        if self.supervised is None:
            n = len(self.labeled) - len(self.history.steps)
            self.supervised = fit_on(self.scorer, self.settings, self.labeled.first(n))
        return self.supervised

    @property
    def predicts(self) -> int | None:
        """Which member of a set predicts last."""
        return self.history.models[-1].get("predictor")

    def gaussians(self) -> tuple[Gaussian, Gaussian]:
        """q ≈ p(θ | D) of the model that predicts, and its q given the labels alone, by the run's approximation."""
        assert self.fit is not None
        now, before = (each.gaussian(self.settings.approximation) for each in self.fit.beside(self._supervised()))
        return now, before

    def _round(self) -> int:
        """Score all candidates and add the best; returns how many were added."""
        assert self.fit is not None
        scores, warm = self.select(self.scorer, self.settings, self.fit, self.candidates, self.warm)
        pairs, values = rank_pairs(scores["score"], scores.chosen)
        chosen = self._choose(pairs)
        gaps = self._gaps(pairs, values, chosen)
        pairs = self._with_drawn(pairs, chosen)
        steps, labeled = self._steps(scores, pairs, values, chosen, gaps)
        left, ahead = np.delete(self.candidates, pairs[chosen, 0]), self.fit.ahead(warm)
        settings = self.settings.from_here(scores.attrs.get("approximation", self.settings.approximation))
        history, state = self.history.with_steps(steps), self.settings.rng.bit_generator.state
        self.history, self.labeled, self.candidates, self.warm, self.random_state = history, labeled, left, ahead, state
        self.settings = settings
        return len(chosen)

    def _with_drawn(self, pairs: np.ndarray, chosen: list[int]) -> np.ndarray:
        """The pairs, the chosen ones with classes that are drawn where the label rule draws them."""
        rule = self.settings.rule
        if not isinstance(rule, DrawingRule):
            return pairs
        rows = self.candidates[pairs[chosen, 0]]
        log_p = self.scorer.with_predictor(AUTO).log_probabilities(self.fit, rows)
        none = rows[np.isnan(log_p).any(axis=1)]
        if none.size:
            raise RowError(say_without_probabilities(self.scorer.problem, none))
        drawn = pairs.copy()
        drawn[chosen, 1] = rule.draw(log_p, self.settings.rng)
        return drawn

    def _steps(
        self, scores: Scores, pairs: np.ndarray, values: np.ndarray, chosen: list[int], gaps: list[float]
    ) -> tuple[list[dict[str, Any]], Labeled]:
        """The entries of the chosen places of the ranking, and D with their rows."""
        error, by = own_error(scores), scores.attrs.get("approximation")
        steps, labeled = [], self.labeled
        for place, gap in zip(chosen, gaps, strict=True):
            candidate, code = pairs[place]
            score = float(values[place])
            labeled = labeled.with_rows(self.candidates[[candidate]], np.array([code]), self.plan.weight(score))
            steps.append(
                {
                    "candidate": self._position_of(int(self.candidates[candidate])),
                    "code": int(code),
                    "score": score,
                    "gap": gap,
                    "round": self.n_rounds + 1,
                    "n_labeled": len(labeled),
                    **({} if error is None else {"own_error": error}),
                    **_decided_by(scores, int(candidate), int(code)),
                    **({"approximation": by} if self.settings.automatic and by is not None else {}),
                }
            )
        return steps, labeled

    def _gaps(self, pairs: np.ndarray, values: np.ndarray, chosen: list[int]) -> list[float]:
        """How far each chosen pair is ahead of the best row that is left, with its own class where classes have shares.

        Rows of one batch are chosen together, so that none of them is another's rival. NaN where no rival is left.
        """
        left = ~np.isin(pairs[:, 0], pairs[chosen, 0])
        rivals = (left if self.plan.balance is None else left & (pairs[:, 1] == pairs[place, 1]) for place in chosen)
        best = [values[some].max(initial=-np.inf) if some.any() else np.nan for some in rivals]
        return np.maximum(values[chosen] - best, 0.0).tolist()  # ties to rounding may be a rounding error behind

    def _choose(self, pairs: np.ndarray) -> list[int]:
        """Places in the ranking of the pairs to add, no row twice."""
        added = np.bincount([step["code"] for step in self.history.steps], minlength=len(self.scorer.problem.classes))
        chosen: list[int] = []
        taken: set[int] = set()
        for _ in range(self.plan.batch_size):
            order = np.arange(len(pairs)) if self.plan.balance is None else self.plan.balance.reorder(pairs, added)
            free = [int(place) for place in order if int(pairs[place, 0]) not in taken]
            if not free:
                break
            chosen.append(free[0])
            taken.add(int(pairs[free[0], 0]))
            added[pairs[free[0], 1]] += 1
        return chosen


def _decided_by(scores: Scores, candidate: int, code: int) -> dict[str, str]:
    """The member of a set that decided on a pair, where there is one."""
    if "decided_by" not in scores:
        return {}
    names = scores["decided_by"]
    return {"decided_by": str(names[candidate] if names.ndim == 1 else names[candidate, code])}
