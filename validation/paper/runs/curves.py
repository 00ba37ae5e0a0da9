"""A run of self-training as the study keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, log_expit

DIGITS = 4


@dataclass(frozen=True)
class Curve:
    """Rows in the order of selection and their pseudo-labels (m,); then of the models that hold 0 … m of them: how many test
    rows and how many fresh rows of the population each predicts right. Of Bayesian models also the log score on these rows,
    the approximate leave-one-out log score on the labeled rows, and how near each is to the supervised model on the test and
    fresh rows: the share that both predict alike, and the mean of KL(supervised ‖ model) of their probabilities in nats.
    """

    order: np.ndarray
    codes: np.ndarray
    right: np.ndarray
    fresh: np.ndarray
    log_score: np.ndarray | None = None
    left_out: np.ndarray | None = None
    alike: np.ndarray | None = None
    divergence: np.ndarray | None = None

    def record(self, y: np.ndarray, n_points: int) -> dict[str, Any]:
        """What is stored: points of the curve, and its mean over 1 … m; the test and the fresh rows right at its best by the
        test rows, and where it would be stopped; true labels; and nearness to the supervised model: along, final, at the best.
        """
        points, best = grid(len(self.order), n_points), int(np.argmax(self.right))
        kept = {
            "right": self.right[points].tolist(),
            "fresh": self.fresh[points].tolist() if self.fresh.any() else None,
            "mean": [round(float(counts[1:].mean()), DIGITS) for counts in (self.right, self.fresh)],
            "best": self._at(best),
            "true": int((self.codes == y[self.order]).sum()),
        }
        if self.left_out is None or self.log_score is None or self.alike is None or self.divergence is None:
            return kept
        ends = np.round(self.log_score[[0, -1]], DIGITS).tolist()
        near = {
            "moved": [round(float(np.abs(counts[1:] - counts[0]).mean()), DIGITS) for counts in (self.right, self.fresh)],
            "alike": self._along_final_best(self.alike, best),
            "divergence": self._along_final_best(self.divergence, best),
        }
        return kept | {"stop": self._at(int(np.argmax(self.left_out))), "log_score": ends} | near

    @staticmethod
    def _along_final_best(values: np.ndarray, best: int) -> list[float]:
        return [round(float(value), DIGITS) for value in (values[1:].mean(), values[-1], values[best])]

    def _at(self, n_pseudo: int) -> list[int]:
        return [n_pseudo, int(self.right[n_pseudo]), int(self.fresh[n_pseudo])]


def grid(m: int, n_points: int) -> np.ndarray:
    """At how many pseudo-labels the curve is kept."""
    return np.unique(np.round(np.linspace(0, m, n_points)).astype(int))


def divergence(before: np.ndarray, after: np.ndarray) -> float:
    """Mean KL divergence of class probabilities in nats, from rows' logits by two models: of the second from the first."""
    p = expit(before)
    to_one, to_zero = (log_expit(sign * before) - log_expit(sign * after) for sign in (1, -1))
    return float((p * to_one + (1 - p) * to_zero).mean())
