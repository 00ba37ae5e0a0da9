"""What a posterior with the pool's labels integrated out says of itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pymc_bpls.montecarlo.other_modes import Search
from pymc_bpls.pool.information import Information
from pymc_bpls.selftraining.history import won_and_lost
from pymc_bpls.text.numbers import percent

_MASS = 0.05


def say_verdict(
    information: Information, right: Sequence[np.ndarray] | None, search: Search, reasons: Sequence[str], weight: float
) -> str:
    """Whether the pool helped, by which test rows the supervised model and this one predict `right`, and what to doubt."""
    gained = _say_accuracy(right) if information.informative else _say_same(information, right)
    hedged = f" Its rows count {weight:g} times." if weight != 1 and information.informative else ""
    several = f" {len(search.modes)} modes were found, the largest with {percent(float(search.mass[0]))} of their mass."
    modes = several if search.mass[0] < 1 - _MASS else ""
    doubts = f" It is not to be trusted: {'; '.join(reasons)}." if reasons else ""
    return f"{gained}{hedged}{modes}{doubts}"


def _say_same(information: Information, right: Sequence[np.ndarray] | None) -> str:
    accuracy = "" if right is None else f" Test accuracy is {right[1].mean():.3f} with the pool and without it."
    return f"{information.verdict}{accuracy}"


def _say_accuracy(right: Sequence[np.ndarray] | None) -> str:
    if right is None:
        return "No test rows were given, so whether the pool helped is unknown."
    before, after = right
    won, lost = won_and_lost(before, after)
    text = (
        f"Test accuracy is {after.mean():.3f} with the pool's labels integrated out and {before.mean():.3f} without the pool "
        f"({won} of {len(after)} rows won, {lost} lost)"
    )
    if abs(won - lost) <= 1.96 * np.sqrt(won + lost):
        return f"{text}: nothing was gained beyond chance."
    return f"{text}: the pool {'helped' if won > lost else 'did harm, so that the model of the features is likely wrong'}."
