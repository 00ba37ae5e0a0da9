"""What an acceptance says of itself: what was accepted, what that guarantees, and how well confidences are calibrated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from pymc_bpls.acceptance.coverage import Coverage
from pymc_bpls.approximations.automatic import EP
from pymc_bpls.scoring.predictors import MAP
from pymc_bpls.text.numbers import percent

#: Below which one of two tails is beyond chance: 5% in both.
_TAIL = 0.025


@dataclass(frozen=True)
class Hypotheses:
    """Candidates with one bound among them: p-values of those that labeled rows cover, and the number of calibration rows.

    `of` says of which class they are predicted to be, and is empty where one bound is for all.
    """

    p_values: np.ndarray
    n_accepted: int
    n_calibration: int
    of: str = ""


def say_verdict(tested: Sequence[Hypotheses], n: int, alpha: float, coverage: Coverage | None) -> str:
    """How many of the `n` labels are accepted, and why none is where none is: in all, or class by class."""
    accepted = sum(each.n_accepted for each in tested)
    reasons = [(each.of, _say_reason(each, alpha)) for each in tested if not each.n_accepted]
    by_class = any(each.of for each in tested)
    if accepted:
        among, them = ("in each class ", "its accepted labels") if by_class else ("", "them")
        bound = f"{among}at most a share of {alpha:g} of {them} is expected to be wrong"
        sentences = [f"{accepted} of {n} pseudo-labels are accepted: {bound}."]
        sentences += [f"None of {of} is: {reason}." for of, reason in reasons]
        sentences += ["The others are for a person, in the order of rank."] * (accepted < n)
    elif by_class:
        sentences = ["Nothing is accepted.", *(f"Of {of}: {reason}." for of, reason in reasons)]
    else:
        sentences = [f"Nothing is accepted: {reasons[0][1]}."]
    if coverage is not None and not coverage.covered.all():
        sentences.append(say_coverage(coverage))
    return " ".join(sentences)


def _say_reason(tested: Hypotheses, alpha: float) -> str:
    """Why nothing is accepted."""
    n = tested.n_calibration
    if not len(tested.p_values):
        of_it = " that is predicted to be of it" if tested.of else ""
        return f"labeled rows cover no candidate{of_it}"
    if n < 1 / alpha - 1 - 1e-9:
        return (
            f"with {n} calibration label{'' if n == 1 else 's'} no p-value is below 1/{n + 1}, and alpha = {alpha:g} takes "
            f"{ceil(1 / alpha - 1 - 1e-9)} or more"
        )
    smallest = float(np.min(tested.p_values))
    if smallest > alpha:
        too_often = "since predictions that confident were wrong too often"
        return f"the smallest p-value is {smallest:.2g}, above alpha = {alpha:g}, {too_often}"
    return f"too few of the candidates have a p-value as small as {smallest:.2g} for alpha = {alpha:g}"


def say_coverage(coverage: Coverage) -> str:
    """Rows that labeled rows do not cover."""
    count = int((~coverage.covered).sum())
    return (
        f"{count} of {len(coverage.covered)} candidates ({percent(coverage.share)}) have features that the labeled rows do not "
        f"cover (by {coverage.judged_by}), as rows of a class that no label has. {_say_chance(coverage)} Look at them first."
    )


def say_strangers(coverage: Coverage, first: str, n: int) -> str:
    """The same before anything is labeled, of `n` candidates or some of them, the `first` row that is not covered in words."""
    judged = len(coverage.covered)
    of_all = "" if judged == n else f" that were looked at, of {n:,},"
    return (
        f"{(~coverage.covered).sum()} of {judged} candidates{of_all} ({percent(coverage.share)}, the first: {first}) have "
        f"features that the labeled rows do not cover, as rows of a class that no label has. {_say_chance(coverage)} "
        "They would get pseudo-labels all the same: look at them first, or leave them out."
    )


def _say_chance(coverage: Coverage) -> str:
    """How often chance alone brings the alarm."""
    pools = f"{1 / coverage.size:,.0f} pools"
    return f"Exchangeable rows look so in 1 of {pools} at most (here p = {coverage.p_value:.1g})."


_IN_WORDS = {
    EP: "averages over EP's approximation of the posterior",
    "vi": "averages over the variational approximation of the posterior",
    MAP: "those of the model at its mode",
}


def say_approximation(approximation: str, *, in_hierarchy: bool) -> str:
    """What predicted the candidates and the labeled rows."""
    if approximation in _IN_WORDS:
        return f"Pseudo-labels and confidences are {_IN_WORDS[approximation]}."
    far = ", which can be far from the posterior in a hierarchy: the bound holds all the same, and fewer may be accepted"
    return f"Pseudo-labels and confidences are averages over Laplace's Gaussian at the mode{far if in_hierarchy else ''}."


def say_guarantee(by: str, coverage: Coverage | None, *, per_class: bool) -> str:
    """For what, and how exactly, the bound holds."""
    within = "among the accepted labels of each class" if per_class else "among the accepted labels"
    how = (
        f"exact: the expected share of wrong labels {within} is at most alpha in finite samples, if labeled rows and "
        "candidates are exchangeable"
        if by == "split"
        else f"approximate: confidences are those without the row's own label, and the expected share of wrong labels {within} "
        "is about alpha at most, if labeled rows and candidates are exchangeable"
    )
    if coverage is None or coverage.covered.all():
        return f"{how}."
    return f"{how}. They are not: rows that the labeled rows do not cover are never accepted, and it is for the others alone."


def _tails(confidence: np.ndarray, n_right: int) -> tuple[float, float]:
    """Probabilities of so few right predictions and of so many, if each is right with its confidence: Poisson's binomial.

    Errors of confident predictions are too rare for the normal distribution.
    """
    p = np.ones(1)
    for each in confidence:
        p = np.convolve(p, [1 - each, each])
    return float(p[: n_right + 1].sum()), float(p[n_right:].sum())


def say_calibration(confidence: np.ndarray, right: np.ndarray) -> str:
    """Confidence beside accuracy of the calibration rows."""
    n = len(right)
    fewer, more = _tails(confidence, int(right.sum()))
    said = "the two agree, up to chance"
    if min(fewer, more) < _TAIL:
        said = f"the model is {'over' if fewer < more else 'under'}confident, beyond chance"
    return (
        f"Of {n} labeled rows, each predicted without its own label, {right.sum()} ({percent(float(right.mean()))}) are "
        f"predicted right, and their mean confidence is {confidence.mean():.2f}: {said}."
    )
