"""Stop rules: small objects that look at a run so far and say in a sentence why to stop, or None."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bpls.arguments import count, number, require
from pymc_bpls.errors import CriterionError, LabelError, RowError
from pymc_bpls.model.data.index import as_index
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.model.problem import Problem
from pymc_bpls.selftraining.held_out import HeldOut
from pymc_bpls.text.numbers import rounds_done

Stop = Callable[[xr.Dataset], str | None]


class StopRule(ABC):
    """When a run stops, and which labeled rows it holds out to know.

    A rule is called before every round with a Dataset: the run's history over `step` (`candidate`, `pseudo_label`, `score`,
    `gap`, `round`, `n_labeled`) and its models over `n_pseudo` (`weight`, and where there are any `log_evidence` and
    `held_out_log_score`; see `BPLS.self_train`); attrs hold the `criterion`. The test curve is not in it: test rows that choose
    where a run ends would not be test rows.

    A rule of one's own is a subclass, or a function of that Dataset. Only a subclass can hold rows out, and only one of a run.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_bpls as bpls
    >>> class Sure(bpls.StopRule):
    ...     def held_out(self, labeled, rng):
    ...         return rng.choice(labeled.positions, 2, replace=False)
    ...
    ...     def __call__(self, history):
    ...         score = history["held_out_log_score"].values[-1]
    ...         return f"the log score of the rows held out is {score:.1f}" if score > -1 else None
    >>> X = np.column_stack([np.ones(24), np.linspace(-2, 2, 24)])
    >>> y = np.where(np.arange(24) % 2, -1, X[:, 1] + np.tile([0.9, -0.9], 12) > 0)
    >>> with pm.Model() as model:
    ...     label = pm.Bernoulli("label", logit_p=X @ pm.Normal("b", 0, 2.5, shape=2), observed=y)
    >>> run = bpls.BPLS(model).self_train("probability", stop=Sure(), random_seed=0, progressbar=False)
    >>> run.attrs["stop_kind"], run.attrs["stop_rule"], run["held_out"].sizes["row"]
    ('rule', 'Sure', 2)
    """

    @abstractmethod
    def __call__(self, history: xr.Dataset) -> str | None:
        """Why to stop, in a sentence, or None."""

    def held_out(self, labeled: Labeled, rng: np.random.Generator) -> Any:
        """Labeled rows that no model of the run may see, by position, a mask or names of the index; none by default.

        `labeled` holds the labeled rows of the table (`positions`, `codes`, `weights`). Rows that are drawn are drawn from
        `rng`, the run's own; the run keeps them. Rows that are not have to be the same when a run goes on.
        """
        return np.empty(0, dtype=int)


@dataclass(frozen=True)
class MaxRounds(StopRule):
    """Stop after `n` rounds in all; `rounds=` of `BPLS.resume` counts new ones only.

    Parameters
    ----------
    n : int
        0 or more.

    Raises
    ------
    CriterionError
        It is no number of rounds.

    See Also
    --------
    Threshold, NoGain, EvidenceDrop : stop by what the run found.

    Examples
    --------
    >>> import xarray as xr, pymc_bpls as bpls
    >>> bpls.MaxRounds(2)(xr.Dataset({"round": ("step", [1, 2])}))
    'MaxRounds: 2 rounds are done'
    """

    n: int

    def __post_init__(self) -> None:
        require(self.n, count(0), "MaxRounds({value!r}) is no number of rounds. Give 0 or more.")

    def __call__(self, history: xr.Dataset) -> str | None:
        """Why to stop, or None."""
        done = int(history["round"].to_numpy().max(initial=0))
        return f"MaxRounds: {rounds_done(done)}" if done >= self.n else None


@dataclass(frozen=True)
class Threshold(StopRule):
    """Stop once the last chosen score is below `value`; the row that it chose is in D already.

    Scores of "probability", "predictive" and "entropy" keep their scale along a run. Those of Laplace criteria are log
    densities of all of D, which fall with every row; by "ep" and "vi" they lack the constant that the candidates of a round
    share.

    Parameters
    ----------
    value : float
        On the scale of the run's criterion.

    Raises
    ------
    CriterionError
        It is no finite number.

    See Also
    --------
    MaxRounds, NoGain, EvidenceDrop : the other rules.

    Examples
    --------
    >>> import xarray as xr, pymc_bpls as bpls
    >>> bpls.Threshold(0.8)(xr.Dataset({"score": ("step", [0.93, 0.72])}, attrs={"criterion": "probability"}))
    'Threshold: the last score of "probability" is 0.72, below 0.8'
    """

    value: float

    def __post_init__(self) -> None:
        require(self.value, number(), "Threshold({value!r}) is no finite number. Give a score of the run's criterion.")

    def __call__(self, history: xr.Dataset) -> str | None:
        """Why to stop, or None."""
        scores = history["score"].to_numpy()
        if not len(scores) or scores[-1] >= self.value:
            return None
        criterion = history.attrs["criterion"]
        return f'Threshold: the last score of "{criterion}" is {scores[-1]:.4g}, below {self.value:.4g}'


@dataclass(frozen=True)
class NoGain(StopRule):
    """Stop once models have not predicted labeled rows that were set aside better for `patience` rounds.

    The run sets these rows aside: they are in none of its models, the supervised one included, and in no table of scores. What
    is compared is the mean log probability of their labels, `held_out_log_score` of the run's `/curve`; the supervised model is
    the first best. The run ends `patience` rounds after the best model, which the reason names.

    Parameters
    ----------
    rows : float or array_like, default 0.2
        Their share of the labeled rows, drawn by the run's `random_seed` within each class, one at least of a class that has
        two, and leaving each class a row; or their positions in the table, a mask of the table, or names of the index.
    patience : int, default 5
        Rounds.

    Raises
    ------
    CriterionError
        A share is not between 0 and 1, nothing names rows, or the patience is no number of rounds. The run refuses rows
        that are not labeled, and to be left without a class (`RowError`).

    See Also
    --------
    EvidenceDrop : needs no rows to be held out.

    Examples
    --------
    >>> import xarray as xr, pymc_bpls as bpls
    >>> history = xr.Dataset({"held_out_log_score": ("n_pseudo", [-0.6, -0.5, -0.7])}, {"n_pseudo": [0, 1, 2]})
    >>> bpls.NoGain(patience=1)(history)
    'NoGain: the log score on labeled rows set aside was best with 1 pseudo-labels, -0.5, and is -0.7 after 1 more rounds'
    """

    rows: Any = 0.2
    patience: int = 5

    def __post_init__(self) -> None:
        require(self.patience, count(1), "NoGain(patience={value!r}) is no number of rounds. Give 1 or more.")
        if isinstance(self.rows, float | int | np.number):
            if not 0 < self.rows < 1:
                raise CriterionError(f"NoGain(rows={self.rows!r}) is no share of the labeled rows. Give one between 0 and 1.")
            return
        try:
            rows = as_index(self.rows, "rows=")
        except RowError:
            rows = pd.Index([])
        if not len(rows) or rows.dtype.kind == "f":
            raise CriterionError(
                f"NoGain(rows={self.rows!r}) names no rows. Give a share, or labeled rows by position, a mask or their index."
            )
        positions = rows.dtype.kind in "iu" and not isinstance(self.rows, pd.Index)
        object.__setattr__(self, "rows", tuple(rows.tolist()) if positions else rows)

    def __call__(self, history: xr.Dataset) -> str | None:
        """Why to stop, or None."""
        scores = np.nan_to_num(history["held_out_log_score"].to_numpy(), nan=-np.inf)
        best = int(scores.argmax())
        waited = len(scores) - 1 - best
        if waited < self.patience:
            return None
        return (
            f"NoGain: the log score on labeled rows set aside was best with {int(history['n_pseudo'][best])} pseudo-labels, "
            f"{scores[best]:.4g}, and is {scores[-1]:.4g} after {waited} more rounds"
        )

    def held_out(self, labeled: Labeled, rng: np.random.Generator) -> Any:
        """The rows to set aside: positions in the table, ascending, or the names or the mask that were given."""
        if isinstance(self.rows, pd.Index):
            return self.rows.to_numpy() if self.rows.dtype.kind == "b" else self.rows
        if isinstance(self.rows, tuple):
            _check_labeled(np.asarray(self.rows), labeled, "NoGain(rows=)")
            return np.sort(np.asarray(self.rows))
        counts = np.bincount(labeled.codes)
        if not np.round(self.rows * counts).any() or counts.max() < 2:
            raise RowError(f"NoGain(rows={self.rows}) is less than a row of any class. Give a larger share, or positions.")
        chosen = []
        for code in np.flatnonzero(counts):
            rows = labeled.positions[labeled.codes == code]
            chosen.append(rng.permutation(rows)[: min(max(1, round(self.rows * len(rows))), len(rows) - 1)])
        return np.sort(np.concatenate(chosen))


@dataclass(frozen=True)
class EvidenceDrop(StopRule):
    """Stop once the log evidence per row of D is more than `by` below the highest so far.

    Of the model with t pseudo-labels that is log p(D_t) / Σ_j w_j, with w_j the weights of D's rows. At weights of 1 it is the
    mean log probability of each label given those before it, so that it drops where pseudo-labels are less plausible than the
    labels that D holds: they have become a guess, which is not to say that they are wrong. log p(D_t), by Laplace's method
    (EP's log Z or the ELBO where there is no mode to verify), and Σ w_j are `log_evidence` and `weight` of the run's `/curve`.

    Parameters
    ----------
    by : float
        Nats a row, 0 or more.

    Raises
    ------
    CriterionError
        It is no such number. The run refuses a model with an improper prior, which has no evidence.

    See Also
    --------
    NoGain : stops by labeled rows that are held out.

    References
    ----------
    .. [1] Dawid, A. P. (1984). Statistical theory: the prequential approach. JRSS A 147, 278-292.
       https://doi.org/10.2307/2981683

    Examples
    --------
    >>> import xarray as xr, pymc_bpls as bpls
    >>> models = {"log_evidence": ("n_pseudo", [-6.0, -6.1, -8.4]), "weight": ("n_pseudo", [10.0, 11.0, 12.0])}
    >>> bpls.EvidenceDrop(0.1)(xr.Dataset(models, {"n_pseudo": [0, 1, 2]}))
    'EvidenceDrop: the log evidence per row of D is -0.7, 0.1455 below its highest, with 1 pseudo-labels'
    """

    by: float

    def __post_init__(self) -> None:
        refusal = "EvidenceDrop({value!r}) is no drop of the log evidence. Give nats a row, 0 or more."
        require(self.by, number(lambda value: value >= 0), refusal)

    def __call__(self, history: xr.Dataset) -> str | None:
        """Why to stop, or None."""
        if "log_evidence" not in history:
            raise CriterionError("EvidenceDrop needs proper priors, without which there is no evidence. Use another stop rule.")
        per_row = history["log_evidence"].to_numpy() / history["weight"].to_numpy()
        best = int(per_row.argmax())
        drop = per_row[best] - per_row[-1]
        if not drop > self.by:
            return None
        return (
            f"EvidenceDrop: the log evidence per row of D is {per_row[-1]:.4g}, {drop:.4g} below its highest, with "
            f"{int(history['n_pseudo'][best])} pseudo-labels"
        )


def read_rules(stop: Any) -> list[Stop]:
    """One rule or several as a list.

    Raises
    ------
    CriterionError
        One of them cannot be called, or two set rows aside.
    """
    rules = [] if stop is None else list(stop) if isinstance(stop, list | tuple) else [stop]
    wrong = [rule for rule in rules if not callable(rule) or isinstance(rule, type)]
    if wrong:
        raise CriterionError(
            f"stop= holds {wrong[0]!r}, which is no rule. "
            "Give objects as MaxRounds(5), or functions from the history to a reason or None."
        )
    twice = [name_of(rule) for rule in rules if holds_rows_out(rule)]
    if len(twice) > 1:
        held = f"{twice[0]} more than once" if twice[0] == twice[1] else f"{twice[0]} and {twice[1]}"
        raise CriterionError(f"stop= holds {held}, and a run sets rows aside once. Give one of them.")
    return rules


def holds_rows_out(rule: Stop) -> TypeGuard[StopRule]:
    """Whether a rule says itself which labeled rows it holds out."""
    return isinstance(rule, StopRule) and type(rule).held_out is not StopRule.held_out


def name_of(rule: Stop) -> str:
    """Its function's or its class's name."""
    return str(getattr(rule, "__name__", type(rule).__name__))


def first_reason(rules: Sequence[Stop], history: xr.Dataset) -> tuple[str, str] | None:
    """What the first rule that wants to stop says, and the rule's name.

    Raises
    ------
    CriterionError
        A rule returns something that nobody can read.
    """
    for rule in rules:
        reason = rule(history)
        if reason is None:
            continue
        if not isinstance(reason, str) or not reason.strip():
            raise CriterionError(f"A rule in stop= returned {reason!r}. Return a sentence that says why to stop, or None.")
        return reason, name_of(rule)
    return None


def rows_to_hold_out(rules: Sequence[Stop], problem: Problem, rng: np.random.Generator) -> HeldOut | None:
    """The labeled rows that a rule holds out, in ascending order; None where no rule does.

    Raises
    ------
    RowError, LabelError
        Rows are not labeled, or D would be left without one of its classes.
    """
    rule = next(filter(holds_rows_out, rules), None)
    if rule is None:
        return None
    labeled, name = problem.labeled, name_of(rule)
    rows = named_rows(rule, problem, rng)
    if not rows.size:
        return None
    _check_labeled(rows, labeled, f"{name}.held_out")
    lost = np.setdiff1d(labeled.codes, labeled.without(rows).codes)
    if lost.size:
        names = ", ".join(map(str, problem.classes.names[lost]))
        raise LabelError(f"{name} leaves no labeled row of class {names}. Leave one of each class in D.")
    return HeldOut(rows, problem.table.codes[rows])


def named_rows(rule: StopRule, problem: Problem, rng: np.random.Generator) -> np.ndarray:
    """Positions of the rows that a rule names, ascending."""
    rows = rule.held_out(problem.labeled, rng)
    return np.sort(problem.positions(rows, f"{name_of(rule)}.held_out")) if len(rows) else np.empty(0, dtype=int)


def _check_labeled(rows: np.ndarray, labeled: Labeled, what: str) -> None:
    """All are labeled, none is named twice."""
    strange = np.setdiff1d(rows, labeled.positions)
    if strange.size:
        raise RowError(f"{what} names rows {strange[:5].tolist()}, which have no label. Name labeled rows.")
    names, counts = np.unique(rows, return_counts=True)
    if (counts > 1).any():
        raise RowError(f"{what} names rows {names[counts > 1][:5].tolist()} more than once. Name each once.")
