"""Stop rules: small objects that look at a run so far and say in a sentence why to stop, or None.

A rule is called before every round with a Dataset: the run's history over `step` (`candidate`, `pseudo_label`, `score`, `gap`,
`round`, `n_labeled`) and its models over `n_pseudo` (`weight`, and where there are any `log_evidence` and `held_out_log_score`;
see `BPLS.self_train`); attrs hold the `criterion`. The test curve is not in it: test rows that choose where a run ends would
not be test rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import xarray as xr

from pymc_bpls.errors import CriterionError, LabelError, RowError
from pymc_bpls.model.problem import Problem
from pymc_bpls.model.table import Labeled

Stop = Callable[[xr.Dataset], str | None]


@dataclass(frozen=True)
class MaxRounds:
    """Stop after `n` rounds in all; `rounds=` of `BPLS.resume` counts new ones only.

    Parameters
    ----------
    n : int
        0 or more.

    Raises
    ------
    CriterionError
        It is no number of rounds.

    Examples
    --------
    >>> import xarray as xr, pymc_bpls as bpls
    >>> bpls.MaxRounds(2)(xr.Dataset({"round": ("step", [1, 2])}))
    'MaxRounds: 2 rounds are done'
    """

    n: int

    def __post_init__(self) -> None:
        if not _is_count(self.n, least=0):
            raise CriterionError(f"MaxRounds({self.n!r}) is no number of rounds. Give 0 or more.")

    def __call__(self, history: xr.Dataset) -> str | None:
        """Why to stop, or None."""
        done = int(history["round"].to_numpy().max(initial=0))
        return f"MaxRounds: {done} rounds are done" if done >= self.n else None


@dataclass(frozen=True)
class Threshold:
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

    Examples
    --------
    >>> import xarray as xr, pymc_bpls as bpls
    >>> bpls.Threshold(0.8)(xr.Dataset({"score": ("step", [0.93, 0.72])}, attrs={"criterion": "probability"}))
    'Threshold: the last score of "probability" is 0.72, below 0.8'
    """

    value: float

    def __post_init__(self) -> None:
        if not _is_finite(self.value):
            raise CriterionError(f"Threshold({self.value!r}) is no finite number. Give a score of the run's criterion.")

    def __call__(self, history: xr.Dataset) -> str | None:
        """Why to stop, or None."""
        scores = history["score"].to_numpy()
        if not len(scores) or scores[-1] >= self.value:
            return None
        criterion = history.attrs["criterion"]
        return f'Threshold: the last score of "{criterion}" is {scores[-1]:.4g}, below {self.value:.4g}'


@dataclass(frozen=True)
class NoGain:
    """Stop once models have not predicted labeled rows that were set aside better for `patience` rounds.

    The run sets these rows aside: they are in none of its models, the supervised one included, and in no table of scores. What
    is compared is the mean log probability of their labels, `held_out_log_score` of the run's `/curve`; the supervised model is
    the first best. The run ends `patience` rounds after the best model, which the reason names.

    Parameters
    ----------
    rows : float or sequence of int, default 0.2
        Their share of the labeled rows, drawn by the run's `random_seed` within each class and leaving each class a row; or
        their positions in the table.
    patience : int, default 5
        Rounds.

    Raises
    ------
    CriterionError
        A share is not between 0 and 1, positions are not integers, or the patience is no number of rounds. The run refuses rows
        that are not labeled, and to be left without a class (`RowError`).

    Examples
    --------
    >>> import xarray as xr, pymc_bpls as bpls
    >>> history = xr.Dataset({"held_out_log_score": ("n_pseudo", [-0.6, -0.5, -0.7])}, {"n_pseudo": [0, 1, 2]})
    >>> bpls.NoGain(patience=1)(history)
    'NoGain: the log score on labeled rows set aside was best with 1 pseudo-labels, -0.5, and is -0.7 after 1 more rounds'
    """

    rows: float | Sequence[int] = 0.2
    patience: int = 5

    def __post_init__(self) -> None:
        if not _is_count(self.patience, least=1):
            raise CriterionError(f"NoGain(patience={self.patience!r}) is no number of rounds. Give 1 or more.")
        if isinstance(self.rows, float | int | np.number):
            if not 0 < self.rows < 1:
                raise CriterionError(f"NoGain(rows={self.rows!r}) is no share of the labeled rows. Give one between 0 and 1.")
            return
        try:
            positions = np.asarray(self.rows)
        except ValueError:
            positions = np.empty(0)
        if positions.ndim != 1 or positions.dtype.kind not in "iu" or not len(positions):
            raise CriterionError(
                f"NoGain(rows={self.rows!r}) names no rows. Give a share or integer positions of labeled rows."
            )
        object.__setattr__(self, "rows", tuple(positions.tolist()))

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

    def positions(self, labeled: Labeled, rng: np.random.Generator) -> np.ndarray:
        """Positions in the table of the rows to set aside, ascending."""
        if isinstance(self.rows, Sequence):
            return np.sort(np.asarray(self.rows))
        chosen = []
        for code in np.unique(labeled.codes):
            rows = labeled.positions[labeled.codes == code]
            chosen.append(rng.permutation(rows)[: min(round(self.rows * len(rows)), len(rows) - 1)])
        return np.sort(np.concatenate(chosen))


@dataclass(frozen=True)
class EvidenceDrop:
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

    Examples
    --------
    >>> import xarray as xr, pymc_bpls as bpls
    >>> models = {"log_evidence": ("n_pseudo", [-6.0, -6.1, -8.4]), "weight": ("n_pseudo", [10.0, 11.0, 12.0])}
    >>> bpls.EvidenceDrop(0.1)(xr.Dataset(models, {"n_pseudo": [0, 1, 2]}))
    'EvidenceDrop: the log evidence per row of D is -0.7, 0.1455 below its highest, with 1 pseudo-labels'
    """

    by: float

    def __post_init__(self) -> None:
        if not (_is_finite(self.by) and self.by >= 0):
            raise CriterionError(f"EvidenceDrop({self.by!r}) is no drop of the log evidence. Give nats a row, 0 or more.")

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
    if sum(isinstance(rule, NoGain) for rule in rules) > 1:
        raise CriterionError("stop= holds NoGain more than once, and a run sets rows aside once. Give one of them.")
    return rules


def reason_to_stop(rules: Sequence[Stop], history: xr.Dataset) -> str | None:
    """What the first rule that wants to stop says.

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
        return reason
    return None


def rows_aside(rules: Sequence[Stop], problem: Problem, rng: np.random.Generator) -> np.ndarray:
    """Positions of the labeled rows that `NoGain` sets aside; none without it.

    Raises
    ------
    RowError, LabelError
        Rows are not labeled, or D would be left without one of its classes.
    """
    rule = next((rule for rule in rules if isinstance(rule, NoGain)), None)
    if rule is None:
        return np.empty(0, dtype=int)
    labeled = problem.labeled
    positions = problem.positions(rule.positions(labeled, rng), "NoGain(rows=)")
    strange = np.setdiff1d(positions, labeled.positions)
    if strange.size:
        raise RowError(f"NoGain(rows=) names rows {strange[:5].tolist()}, which have no label. Name labeled rows.")
    if not positions.size:
        raise RowError(f"NoGain(rows={rule.rows}) is less than a row of any class. Give a larger share, or positions.")
    lost = np.setdiff1d(labeled.codes, labeled.without(positions).codes)
    if lost.size:
        names = ", ".join(map(str, problem.classes.names[lost]))
        raise LabelError(f"NoGain(rows=) leaves no labeled row of class {names}. Leave one of each class in D.")
    return positions


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= least)


def _is_finite(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and bool(np.isfinite(float(value)))
