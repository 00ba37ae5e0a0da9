"""What a posterior with the pool's labels integrated out says of itself."""

from __future__ import annotations

from collections.abc import Sequence

from pymc_bpls.model.problem import Problem
from pymc_bpls.montecarlo.other_modes import Search
from pymc_bpls.pool.information import Information
from pymc_bpls.pool.judged import Judged, better_by_accuracy, better_by_log_score
from pymc_bpls.selftraining.history import won_and_lost
from pymc_bpls.text.numbers import percent

_MASS = 0.05


def say_verdict(
    problem: Problem,
    information: Information,
    judged: Sequence[Judged] | None,
    search: Search,
    reasons: Sequence[str],
    weight: float,
) -> str:
    """Whether the pool helped, by how the supervised model and this one predict the test rows, and what to doubt."""
    gained = _say_gain(judged) if problem.class_conditional else _say_same(information, judged)
    hedged = f" Its rows count {weight:g} times." if weight != 1 and problem.class_conditional else ""
    several = f" {len(search.modes)} modes were found, the largest with {percent(float(search.mass[0]))} of their mass."
    modes = several if search.mass[0] < 1 - _MASS else ""
    doubts = f" It is not to be trusted: {'; '.join(reasons)}." if reasons else ""
    return f"{gained}{hedged}{modes}{doubts}"


def _say_same(information: Information, judged: Sequence[Judged] | None) -> str:
    accuracy = "" if judged is None else f" Test accuracy is {judged[1].right.mean():.3f} with the pool and without it."
    return f"{information.verdict}{accuracy}"


def _say_gain(judged: Sequence[Judged] | None) -> str:
    if judged is None:
        return "No test rows were given, so whether the pool helped is unknown."
    before, after = judged
    won, lost = won_and_lost(before.right, after.right)
    accuracy, accuracy_before = after.right.mean(), before.right.mean()
    said = (
        f"Test accuracy is {accuracy:.3f} with the pool's labels integrated out and {accuracy_before:.3f} without the pool "
        f"({won} of {len(after.right)} rows won, {lost} lost), and the mean log score is {after.log_score:.3g} and "
        f"{before.log_score:.3g}"
    )
    return f"{said}: {_say_whether(better_by_accuracy(before, after), better_by_log_score(before, after))}."


def _say_whether(by_accuracy: int, by_log_score: int) -> str:
    """What two comparisons say together, each of them 1, 0 or −1."""
    by = {by_accuracy, by_log_score}
    if by == {0}:
        return "nothing was gained beyond chance"
    if by == {1, -1}:
        better, worse = ("classes", "probabilities") if by_accuracy > 0 else ("probabilities", "classes")
        return f"with the pool {better} are better and {worse} worse, beyond chance"
    of = "" if by_accuracy else ", by its probabilities"
    return f"the pool helped{of}" if 1 in by else f"the pool did harm{of}, so that the model of the features is likely wrong"
