"""Rows whose classes are known and never told to a run: test rows, and labeled rows that a stop rule holds out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from pymc_bpls.model.data.index import RowNames
from pymc_bpls.model.problem import Problem
from pymc_bpls.scoring.fitted import Fitted
from pymc_bpls.scoring.scorer import Scorer, told_probabilities


@dataclass(frozen=True)
class HeldOut:
    """Rows whose classes are known to the evaluation and never to the run.

    `names` are those of new rows, which have no place in the table.
    """

    positions: np.ndarray
    codes: np.ndarray
    names: RowNames | None = None

    def in_table(self, problem: Problem) -> np.ndarray:
        """Positions of those that are rows of the table."""
        return self.positions[self.positions < problem.source.n_rows]

    def names_in(self, problem: Problem) -> RowNames:
        """The user's index of these rows: the table's, or that of the new rows."""
        if len(self.in_table(problem)) == len(self.positions):
            return RowNames(problem.table.index[self.positions])
        return RowNames(pd.Index(self.positions)) if self.names is None else self.names

    def evaluate(self, scorer: Scorer, fit: Fitted) -> tuple[np.ndarray, float]:
        """Which rows are predicted right (t,), and the mean log probability of the true classes."""
        log_p = told_probabilities(scorer, fit, self.positions)
        right = np.nan_to_num(log_p, nan=-np.inf).argmax(axis=1) == self.codes
        return right, float(log_p[np.arange(len(self.codes)), self.codes].mean())
