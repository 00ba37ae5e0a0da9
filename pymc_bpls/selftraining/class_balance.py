"""Shares of the classes that a user forces on pseudo-labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_bpls.arguments import number
from pymc_bpls.errors import LabelError
from pymc_bpls.model.problem import Problem

_ROUNDED = 1e-6  # what shares as three times 0.3333333 leave of 1


@dataclass(frozen=True)
class ClassBalance:
    """Shares of the classes among pseudo-labels: the class that is furthest below its share comes first."""

    shares: np.ndarray

    def due(self, added: np.ndarray) -> np.ndarray:
        """The classes, the most wanted first; `added` (K,) counts pseudo-labels so far."""
        return np.argsort(-(self.shares * (added.sum() + 1) - added), kind="stable")

    def reorder(self, pairs: np.ndarray, added: np.ndarray) -> np.ndarray:
        """Positions in `pairs` (ranked) with the most wanted class first; `added` (K,) counts pseudo-labels so far."""
        place = np.argsort(self.due(added))
        return np.argsort(place[pairs[:, 1]], kind="stable")

    def missed(self, codes: np.ndarray) -> int:
        """How many of the pseudo-labels `codes`, in the order in which they were added, are of another class than was due."""
        added, missed = np.zeros(len(self.shares), dtype=int), 0
        for code in codes:
            missed += int(code != self.due(added)[0])
            added[code] += 1
        return missed


def read_balance(class_balance: Any, problem: Problem) -> ClassBalance | None:
    """Shares of the classes: None, "labeled" (as among the labeled rows) or a mapping from class to share, else 0."""
    if class_balance is None:
        return None
    if isinstance(class_balance, str) and class_balance == "labeled":
        counts = np.bincount(problem.labeled.codes, minlength=len(problem.classes)).astype(float)
        return ClassBalance(counts / counts.sum())
    names = problem.classes.names.tolist()
    if not isinstance(class_balance, Mapping) or (problem.classes.find(class_balance) < 0).any():
        raise LabelError(
            f"class_balance={class_balance!r} does not give shares of the classes {names}. "
            'Use "labeled" or a mapping from class to share.'
        )
    codes, given = problem.classes.find(class_balance), list(class_balance.values())
    if len(np.unique(codes)) < len(given):
        raise LabelError(f"class_balance={class_balance!r} names a class twice. Give each of {names} one share.")
    if not all(map(number(lambda share: share >= 0), given)):
        raise LabelError(
            f"class_balance={class_balance!r} has shares that are no numbers from 0 to 1. Give numbers that make 1."
        )
    if abs(sum(given) - 1) > _ROUNDED:
        raise LabelError(
            f"The shares of class_balance={class_balance!r} add up to {sum(given):g}. Give numbers from 0 to 1 that make 1."
        )
    shares = np.zeros(len(names))
    shares[codes] = given
    return ClassBalance(shares / shares.sum())
