"""The audit along a self-training run: as D grows, do approximations get better, does regret add up, and would exact selection
have ended with another model?
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.stats import linregress, t

from pymc_bpls.audit import sentences as verdicts
from pymc_bpls.audit.make import Bench, make_audit
from pymc_bpls.audit.report import Audit, Report
from pymc_bpls.audit.truth import Truth, from_tree
from pymc_bpls.engine.mode import Mode
from pymc_bpls.errors import CriterionError
from pymc_bpls.model.table import Labeled
from pymc_bpls.montecarlo.averages import average_options
from pymc_bpls.scoring.exact import Method, exact_tree
from pymc_bpls.scoring.scorer import Pairs, Scorer, Settings, Warm
from pymc_bpls.scoring.settings import Form, find_settings
from pymc_bpls.selftraining.run import CALLABLE, ClassBalance, HeldOut, Plan, Run, read_weight
from pymc_bpls.selftraining.tree import History, check_table, history_dataset, read_history, start_of

#: What is audited along a run by default.
ALONG = ("ppp", "ppp[ep]", "ppp[vi]", "ibpls")
_TOP = 5
_FEWEST_FOR_SLOPE = 3


class AuditAlong(Report):
    """What `BPLS.audit_along` found; `print` it first.

    `tree` holds `/rounds` over `step` (pseudo-labels in D) and `criterion`, `/final`, the run's last model beside that of exact
    selection, and `/exact_run`, the history of the latter.
    """

    @property
    def rounds(self) -> xr.Dataset:
        """Agreement over `criterion`, and the regret of the run's own choice, over `step`."""
        return self.tree["rounds"].to_dataset()

    @property
    def final(self) -> xr.Dataset:
        """The run's last model beside that of exact selection."""
        return self.tree["final"].to_dataset()

    def table(self) -> pd.DataFrame:
        """As text, a row a step."""
        rounds = self.rounds
        own = zip(rounds["run_regret"].values, rounds["run_regret_mcse"].values, strict=True)
        columns: dict[str, Any] = {
            "labeled": rounds["n_labeled"].to_numpy(),
            "regret of the run": [verdicts.plus_minus(*pair) for pair in own],
        }
        for label in rounds["criterion"].to_numpy().tolist():
            of = rounds.sel(criterion=label)
            triples = zip(of["tau"].values, of["tau_low"].values, of["tau_high"].values, strict=True)
            columns[f"tau of {label}"] = [verdicts.with_interval(*triple) for triple in triples]
        return pd.DataFrame(columns, index=pd.Index(rounds["step"].to_numpy(), name="pseudo-labels"))

    def sentences(self) -> list[str]:
        """The verdict, then an answer to each question."""
        return [self.verdict, *str(self.tree.attrs["answers"]).split("\n")]


@dataclass(frozen=True)
class ExactScorer(Scorer):
    """Scores by log E[p(ŷ | x, θ)] over draws of p_2, so that a run selects as the exact criterion does."""

    method: Method

    @classmethod
    def like(cls, scorer: Scorer, method: Method) -> ExactScorer:
        """Of the same problem."""
        return cls(**{field.name: getattr(scorer, field.name) for field in fields(Scorer)}, method=method)

    def score(
        self, settings: Settings, labeled: Labeled, mode: Mode, candidates: np.ndarray, warm: Warm = None
    ) -> tuple[xr.Dataset, Warm]:
        """Exact scores of `candidates`, up to a constant."""
        options = self.options(settings.rule, labeled, mode, candidates)
        averages, codes = average_options(self.engine, self.method(self, labeled, 2).draws, options)
        score = Pairs.of(candidates, codes).variable(averages.log_mean)
        return self._finished(xr.Dataset({"score": score}), replace(options, codes=codes)), warm


@dataclass(frozen=True)
class Track:
    """A run that is over: from where it started, and what it did."""

    scorer: Scorer
    settings: Settings
    plan: Plan
    start: Labeled
    end: Labeled
    pool: np.ndarray
    history: History

    def at(self, step: int) -> tuple[Labeled, np.ndarray]:
        """D and the candidates left with `step` pseudo-labels."""
        n = len(self.start) + step
        D = Labeled(self.end.positions[:n], self.end.codes[:n], self.end.weights[:n])
        return D, np.setdiff1d(self.pool, D.positions)

    def rounds(self, every: int) -> list[int]:
        """The steps at which every so many rounds began, as long as there was something to choose between."""
        numbers = np.array([step["round"] for step in self.history.steps], dtype=int)
        begun = np.flatnonzero(np.r_[True, np.diff(numbers) > 0]) if len(numbers) else np.empty(0, int)
        steps = [int(step) for step in begun[::every] if len(self.pool) - step > 1]
        if not steps:
            raise CriterionError("run= has no round with a choice to audit. Give a run that added pseudo-labels.")
        return steps


def read_track(run: xr.DataTree, scorer: Scorer) -> Track:
    """A run as `self_train` returned it; where a function weighted its pseudo-labels, exact selection takes their mean weight.

    Raises
    ------
    CriterionError
        It is none of this model's table.
    """
    problem = scorer.problem
    check_table(run, problem)
    history, end = read_history(run, problem)
    held_out = run["test"]["row"].to_numpy() if "test" in run else np.empty(0, int)
    inside = len(held_out) > 0 and held_out.max() < problem.source.n_rows
    test = HeldOut(held_out, problem.codes(run["test"]["label"].to_numpy())) if inside else None
    attrs, shares = run.attrs, run.attrs["class_balance"]
    balance = None if isinstance(shares, str) else ClassBalance(np.asarray(shares, dtype=float))
    start = start_of(run, problem)
    weights = end.weights[len(start) :]
    by_function = attrs["pseudo_weight"] == CALLABLE and len(weights) > 0
    weight = float(weights.mean()) if by_function else read_weight(attrs["pseudo_weight"], None)
    plan = Plan(None, int(attrs["batch_size"]), [], balance, weight, test)
    settings = find_settings("ppp", "vi", "map", attrs["labels"], None)
    pool = np.setdiff1d(problem.table.candidates, held_out)
    return Track(scorer, settings, plan, start, end, pool, history)


def audit_step(track: Track, forms: Sequence[Form], method: Method, step: int, seed: int) -> tuple[Audit, xr.Dataset]:
    """The audit at one step, and what is kept of it."""
    scorer = track.scorer
    labeled, candidates = track.at(step)
    mode = scorer.base(track.settings, labeled)
    options = scorer.options(track.settings.rule, labeled, mode, candidates)
    tree = exact_tree(scorer, labeled, "ppp", method, options, np.random.default_rng(seed))
    truth, codes = from_tree(tree, scorer.problem, candidates)
    audit = make_audit(Bench(scorer, labeled, mode, None, options, codes, truth, _TOP, seed), forms)
    regret, error = _own_regret(track, truth, Pairs.of(candidates, codes), step)
    kept = audit.agreement.drop_vars(["verdict", "choice_label"], errors="ignore").astype(float)
    kept = kept.assign(
        n_labeled=len(labeled),
        n_candidates=len(candidates),
        run_regret=regret,
        run_regret_mcse=error,
        reliable=int(audit.reliable),
        source=truth.source,
    )
    return audit, kept.expand_dims(step=[step])


def _own_regret(track: Track, truth: Truth, pairs: Pairs, step: int) -> tuple[float, float]:
    """The exact log PPP that the run's own choice lost, with its error."""
    chosen = track.history.steps[step]
    same = pairs.rows == chosen["candidate"]
    if len(pairs.shape) == 2:
        same &= pairs.codes == chosen["code"]
    place = int(np.flatnonzero(same)[0])
    return float(truth.value[truth.best] - truth.value[place]), float(truth.difference_error(truth.best, place))


def exact_run(track: Track, method: Method, tell: Callable[[int], None]) -> Run:
    """The same run, from the same start, with exact selection."""
    rounds = track.history.steps[-1]["round"] - track.history.steps[0]["round"] + 1
    plan = replace(track.plan, rounds=rounds, stop=[])
    run = Run(
        track.scorer.through(partial(ExactScorer.like, method=method)), track.settings, plan, track.start, track.pool, History()
    )
    run.go(tell)
    return run


def compare_ends(track: Track, exact: Run) -> xr.Dataset:
    """How far the run's last model and that of exact selection differ, on the test rows or else on the pool."""
    scorer, test = track.scorer, track.plan.test
    rows = track.pool if test is None else test.positions
    ends = (track.end, exact.labeled)
    predicted = [scorer.log_probabilities(scorer.base(track.settings, end), rows).argmax(axis=1) for end in ends]
    added = [set(zip(end.positions.tolist(), end.codes.tolist(), strict=True)) for end in ends]
    start = set(zip(track.start.positions.tolist(), track.start.codes.tolist(), strict=True))
    values: dict[str, Any] = {
        "n_added": len(added[0] - start),
        "n_same_added": len((added[0] & added[1]) - start),
        "n_rows": len(rows),
        "n_predicted_differently": int((predicted[0] != predicted[1]).sum()),
    }
    if test is not None:
        for name, codes in zip(("run_accuracy", "exact_accuracy"), predicted, strict=True):
            values[name] = float((codes == test.codes).mean())
    return xr.Dataset(values)


def report(rounds: list[xr.Dataset], audits: list[Audit], track: Track, exact: Run | None) -> AuditAlong:
    """Everything in one tree, with a sentence for each question."""
    along = xr.concat(rounds, dim="step", join="outer")
    along = along.assign({name: along[name].astype(int) for name in ("n_labeled", "n_candidates", "reliable")})
    reasons = list(dict.fromkeys(reason for audit in audits for reason in audit.reasons))
    bad = int((along["reliable"] == 0).sum())
    n = len(audits)
    verdict = (
        f"Not reliable: the reference is doubtful in {bad} of {n} audited rounds ({reasons[0]})."
        if bad
        else f"The reference is reliable in all {n} audited rounds."
    )
    answers = [_of_growth(along), _of_regret(along, int(track.history.steps[-1]["round"]))]
    groups: dict[str, xr.Dataset] = {"rounds": along}
    if exact is None:
        answers.append("Interrupted before exact selection was run, so that the last models are not compared.")
        groups["final"] = xr.Dataset()
    else:
        groups |= {
            "final": compare_ends(track, exact),
            "exact_run": history_dataset(exact.history, track.scorer.problem),
        }
        answers.append(_of_ends(groups["final"]))
    verdict = f"{verdict} {answers[-1]}"
    attrs = {"reliable": int(not bad), "reasons": "; ".join(reasons), "verdict": verdict, "answers": "\n".join(answers[:-1])}
    return AuditAlong(xr.DataTree.from_dict({"/": xr.Dataset(attrs=attrs), **groups}))


def _of_growth(along: xr.Dataset) -> str:
    """Does Laplace's ppp get better as D grows?"""
    if "ppp" not in along["criterion"]:
        return "Laplace's ppp was not audited, so that its growth with D is unknown."
    of_ppp, n = along.sel(criterion="ppp"), along["n_labeled"].to_numpy()
    error, spread = of_ppp["max_centred"].to_numpy(), of_ppp["max_centred_mcse"].to_numpy()
    if len(n) < _FEWEST_FOR_SLOPE or not (error > 0).all():
        return "Too few rounds were audited to say whether Laplace's ppp gets better as D grows."
    fit = linregress(np.log(n), np.log(error))
    change = "does not change clearly"
    if abs(fit.slope) > t.ppf(0.975, len(n) - 2) * fit.stderr:
        change = "falls" if fit.slope < 0 else "grows"
    return (
        f"As D grows from {n[0]} to {n[-1]} rows the largest error of Laplace's ppp {change}: from "
        f"{verdicts.plus_minus(error[0], spread[0])} to {verdicts.plus_minus(error[-1], spread[-1])}, "
        f"slope {verdicts.plus_minus(float(fit.slope), float(fit.stderr))} in log-log."
    )


def _of_regret(along: xr.Dataset, n_rounds: int) -> str:
    """Does regret add up?"""
    regret, error = along["run_regret"].to_numpy(), along["run_regret_mcse"].to_numpy()
    total = verdicts.plus_minus(float(regret.sum()), float(np.sqrt((error**2).sum())))
    same = int((regret <= 2 * error).sum())
    return (
        f"In the {len(regret)} audited rounds of {n_rounds} the run's own choices lose {total} of log PPP together; {same} of "
        f"{len(regret)} choices are the exact best candidate or not told from it."
    )


def _of_ends(final: xr.Dataset) -> str:
    """Would exact selection have ended with another model?"""
    added, same = int(final["n_added"]), int(final["n_same_added"])
    rows, different = int(final["n_rows"]), int(final["n_predicted_differently"])
    kind = "test rows" if "run_accuracy" in final else "rows of the pool"
    text = (
        f"Exact selection adds {same} of the run's {added} pseudo-labels; its last model predicts {different} of {rows} {kind} "
    )
    if "run_accuracy" not in final:
        return f"{text}differently."
    return f"{text}differently (accuracy {float(final['exact_accuracy']):.3f} against {float(final['run_accuracy']):.3f})."
