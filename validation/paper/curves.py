"""A run of self-training as the study keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

POINTS, DIGITS = 21, 4


@dataclass(frozen=True)
class Curve:
    """Rows in the order of selection and their pseudo-labels (m,); then of the models that hold 0 … m of them: how many test
    rows and how many fresh rows of the population each predicts right. Of Bayesian models also the log score on these rows,
    and the approximate leave-one-out log score on the labeled rows.
    """

    order: np.ndarray
    codes: np.ndarray
    right: np.ndarray
    fresh: np.ndarray
    log_score: np.ndarray | None = None
    left_out: np.ndarray | None = None

    def record(self, y: np.ndarray) -> dict[str, Any]:
        """What is stored: 21 points of the curve, and its mean over 1 … m; the test and the fresh rows right at its best by the
        test rows, and where it would be stopped; true labels.
        """
        points, best = grid(len(self.order)), int(np.argmax(self.right))
        kept = {
            "right": self.right[points].tolist(),
            "fresh": self.fresh[points].tolist() if self.fresh.any() else None,
            "mean": [round(float(counts[1:].mean()), DIGITS) for counts in (self.right, self.fresh)],
            "best": self._at(best),
            "true": int((self.codes == y[self.order]).sum()),
        }
        if self.left_out is None or self.log_score is None:
            return kept
        ends = np.round(self.log_score[[0, -1]], DIGITS).tolist()
        return kept | {"stop": self._at(int(np.argmax(self.left_out))), "log_score": ends}

    def _at(self, n_pseudo: int) -> list[int]:
        return [n_pseudo, int(self.right[n_pseudo]), int(self.fresh[n_pseudo])]


def grid(m: int) -> np.ndarray:
    """At how many pseudo-labels the curve is kept."""
    return np.unique(np.round(np.linspace(0, m, POINTS)).astype(int))
