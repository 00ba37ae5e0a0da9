"""Rows whose classes are known and never told to a run: test rows, and labeled rows that a stop rule holds out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_bpls.scoring.fitted import Fitted
from pymc_bpls.scoring.scorer import Scorer


@dataclass(frozen=True)
class HeldOut:
    """Rows whose classes are known to the evaluation and never to the run."""

    positions: np.ndarray
    codes: np.ndarray

    def evaluate(self, scorer: Scorer, fit: Fitted) -> tuple[np.ndarray, float]:
        """Which rows are predicted right (t,), and the mean log probability of the true classes."""
        log_p = scorer.log_probabilities(fit, self.positions)
        right = np.nan_to_num(log_p, nan=-np.inf).argmax(axis=1) == self.codes
        return right, float(log_p[np.arange(len(self.codes)), self.codes].mean())
