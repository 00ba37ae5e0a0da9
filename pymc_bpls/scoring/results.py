"""Pairs (candidate, class), and scores of them: pseudo-labels, what has no finite score, and the Dataset that a user gets.

A round of a run needs arrays alone; a Dataset, with coords and descriptions, is made of them where somebody sees it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr

from pymc_bpls.errors import warn
from pymc_bpls.rules.label_rules import Options, Weighing
from pymc_bpls.rules.ranking import best_classes, best_first, tied_with_best

if TYPE_CHECKING:
    from pymc_bpls.model.problem import Problem

FEWEST_SUMS = 3
DESCRIPTIONS = {
    "score": "the criterion, larger is better",
    "pseudo_label": "the class that the score is of, the best one where several are scored",
    "log_lik_labeled": "log-likelihood of D at the candidate's own mode",
    "log_lik_pseudo": "log of what the candidate with its pseudo-label brings to the density at that mode",
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


#: Its dims and its values.
Variable = tuple[tuple[str, ...], np.ndarray]


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

    def variable(self, values: np.ndarray) -> Variable:
        """Values of the flat pairs as a variable of a Dataset."""
        return self.dims, values.reshape(self.shape)


@dataclass(frozen=True)
class Values:
    """Variables by name, `score` among them, and attrs, as a Dataset has them."""

    variables: Mapping[str, Variable]
    attrs: Mapping[str, Any] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self.variables

    def __getitem__(self, name: str) -> np.ndarray:
        """The values of a variable."""
        return self.variables[name][1]


@dataclass(frozen=True)
class Scores(Values):
    """Scores of `candidates` that may get `codes` (m,), or (m, K), each with the pseudo-label `chosen` (m,), a code too."""

    candidates: np.ndarray = field(kw_only=True)
    codes: np.ndarray = field(kw_only=True)
    chosen: np.ndarray = field(kw_only=True)
    coords: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    def dataset(self, problem: Problem) -> xr.Dataset:
        """As the user sees them."""
        (dims, score), names = self.variables["score"], problem.classes.names
        variables = {
            "score": (dims, score),
            "pseudo_label": ("candidate", names[self.chosen]),
            **{name: value for name, value in self.variables.items() if name != "score"},
        }
        described = {name: (*value, {"description": DESCRIPTIONS[name]}) for name, value in variables.items()}
        return xr.Dataset(described, {**problem.coords(self.candidates, self.codes), **self.coords}, self.attrs)


def largest_error(errors: np.ndarray) -> dict[str, float]:
    """As attrs: the largest standard error of scores that are averages over draws; nothing where a rule was exact."""
    known = errors[np.isfinite(errors)]
    return {"score_error": float(known.max())} if (known > 0).any() else {}


def finished(
    problem: Problem,
    result: Values,
    options: Options,
    weighing: Weighing | None = None,
    *,
    theta: np.ndarray | None = None,
    told: bool = False,
) -> Scores:
    """The result with pseudo-labels; rows without a finite score are reported.

    `weighing` is how classes were combined, where they were; `theta` is the mode of D, at which causes are looked for.
    Scores of −∞ are warned of where they are `told`: in a run they are no news.
    """
    dims, scores = result.variables["score"]
    candidates, codes = options.candidates, options.codes
    usable, chosen = judged(result, options, weighing)
    _warn_of_lost(problem, options, usable, theta)
    if told:
        _warn_of_zeros(problem, options, usable & np.isneginf(scores))
    variables = {**result.variables, "score": (dims, np.where(usable, scores, np.nan))}
    return Scores(variables, result.attrs, candidates=candidates, codes=codes, chosen=chosen)


def judged(result: Values, options: Options, weighing: Weighing | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Which scores can be used, in their shape, and the pseudo-label of each candidate, a code."""
    scores = result["score"]
    usable = ~(np.isnan(scores) | np.isposinf(scores))
    if "converged" in result:
        converged = result["converged"]
        usable = usable & (converged if weighing is None else converged.all(axis=1))
    if weighing is not None:
        return usable, weighing.codes
    if options.codes.ndim == 1:
        return usable, options.codes
    return usable, best_classes(np.where(usable, scores, -np.inf), options.preference)


def _warn_of_lost(problem: Problem, options: Options, usable: np.ndarray, theta: np.ndarray | None) -> None:
    """Warn of candidates without a score, and why."""
    if usable.all():
        return
    candidates = options.candidates
    bad = candidates[~usable.reshape(len(candidates), -1).all(axis=1)]
    rejected = None if theta is None else problem.density.checks.sentence(theta, bad, "at the mode")
    warn(
        f"{bad.size} of {len(candidates)} candidates have no finite score"
        f"{' for some class' * (options.codes.ndim == 2)} (the first: {problem.words.one(bad[0])}). "
        + (rejected or "They are never selected with it; look for far-away values in these rows.")
    )


def _warn_of_zeros(problem: Problem, options: Options, zero: np.ndarray) -> None:
    """Warn of candidates whose score is −∞."""
    if not zero.any():
        return
    candidates = options.candidates
    pairs = np.argwhere(zero.reshape(len(candidates), -1))
    row, column = pairs[0]
    codes = options.codes if zero.ndim == options.codes.ndim else None
    which = "" if codes is None else f", class {problem.classes.names[codes.reshape(len(candidates), -1)[row, column]]}"
    warn(
        f"{len(np.unique(pairs[:, 0]))} of {len(candidates)} candidates have a class with probability 0 under the model "
        f"(the first: {problem.words.one(candidates[row])}{which}). With it their score is -inf, and they are never selected."
    )


def rank_pairs(values: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (candidate position, class) from best to worst, and their scores `values`; `codes` (m,) are pseudo-labels.

    Scores within 1e-10 of each other are tied, and the first candidate wins; a NaN never takes part. Of the classes of a row
    that tie for its best score only the pseudo-label does: a criterion that rates them alike has no say in which it is.
    """
    if values.ndim == 1:
        order, _ = best_first(values)
        return np.column_stack([order, codes[order]]), values[order]
    others = tied_with_best(values)
    others[np.arange(len(codes)), codes] = False
    flat = np.where(others, np.nan, values).ravel()
    order, _ = best_first(flat)
    return np.column_stack(np.divmod(order, values.shape[1])), flat[order]


def own_error(scores: xr.Dataset | Values) -> float | None:
    """How far a difference between two candidates' scores is off, where class sums or draws tell it; else None.

    √2 times the standard deviation of `class_sum_error` over the candidates, since exact class sums are all the same; or what
    they said of the best candidates (`own_error` in attrs). It assumes that the sums are about as wrong as their largest term,
    the class that a candidate competes with. Of averages over draws, √2 times their largest standard error.
    """
    known = scores.attrs.get("own_error")
    errors = np.asarray(scores["class_sum_error"]) if "class_sum_error" in scores else np.empty(0)
    if known is None and len(errors) >= FEWEST_SUMS:
        known = np.sqrt(2) * float(errors.std(ddof=1))
    if known is None and "score_error" in scores.attrs:
        known = np.sqrt(2) * scores.attrs["score_error"]
    return None if known is None else float(known)
