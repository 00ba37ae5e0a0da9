"""What a run did until now."""

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
