"""What a run did until now, and whether it helped."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np


@dataclass
class History:
    """What a run did: one entry a pseudo-label, one a model."""

    steps: list[dict[str, Any]] = field(default_factory=list)
    models: list[dict[str, Any]] = field(default_factory=list)
    right: list[np.ndarray] = field(default_factory=list)

    def with_steps(self, steps: list[dict[str, Any]]) -> History:
        """It and the pseudo-labels of one more round."""
        return replace(self, steps=[*self.steps, *steps])

    def with_model(self, model: dict[str, Any], right: np.ndarray | None) -> History:
        """It and one more model, with which test rows that model predicts right."""
        return replace(self, models=[*self.models, model], right=self.right if right is None else [*self.right, right])


def won_and_lost(before: np.ndarray, after: np.ndarray) -> tuple[int, int]:
    """How many rows only the second of two models predicts right, and how many only the first."""
    return int((after & ~before).sum()), int((before & ~after).sum())


def verdict(history: History) -> str:
    """Whether the last model predicts the test rows better than the supervised one, in one sentence.

    Both models are judged on the same rows, so that only rows that one of them predicts right count (McNemar).
    """
    if not history.right:
        return "No test rows were given, so whether self-training helped is unknown."
    before, after = history.right[0], history.right[-1]
    won, lost = won_and_lost(before, after)
    text = (
        f"Test accuracy is {after.mean():.3f} with {history.models[-1]['n_pseudo']} pseudo-labels and {before.mean():.3f} "
        f"without ({won} of {len(after)} rows won, {lost} lost)"
    )
    if abs(won - lost) <= 1.96 * np.sqrt(won + lost):
        return f"{text}: nothing was gained beyond chance."
    return f"{text}: self-training {'helped' if won > lost else 'did harm'}."
