"""Label rules: which classes a candidate is scored with, and so which pseudo-labels compete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pymc_bpls.errors import CriterionError


class LabelRule(Protocol):
    """What `score(labels=...)` needs of a rule."""

    @property
    def name(self) -> str:
        """What results call the rule."""
        ...

    def codes(self, log_probabilities: np.ndarray, present: np.ndarray) -> np.ndarray:
        """Classes to score: (m,) for one class a candidate, (m, K) for every class.

        `log_probabilities` is (m, K); `present` (K,) says which classes have a labeled row.
        """
        ...


@dataclass(frozen=True)
class Predicted:
    """Each candidate with its predicted class (Algorithm 1), never one without a labeled row."""

    name: str = "predicted"

    def codes(self, log_probabilities: np.ndarray, present: np.ndarray) -> np.ndarray:
        """The most probable class of each candidate, the first among equals."""
        allowed = np.where(present, np.nan_to_num(log_probabilities, nan=-np.inf), -np.inf)
        allowed = np.where(present & ~np.isfinite(allowed), np.finfo(float).min, allowed)
        return allowed.argmax(axis=1)


@dataclass(frozen=True)
class AllClasses:
    """Every class of every candidate competes (BPLS without predictions, Supplement E)."""

    name: str = "all"

    def codes(self, log_probabilities: np.ndarray, present: np.ndarray) -> np.ndarray:
        """All classes for each candidate."""
        return np.broadcast_to(np.arange(len(present)), log_probabilities.shape).copy()


RULES: dict[str, LabelRule] = {rule.name: rule for rule in (Predicted(), AllClasses())}


def find_rule(labels: str | LabelRule) -> LabelRule:
    """A rule by its name, or as given."""
    if not isinstance(labels, str):
        return labels
    if labels not in RULES:
        raise CriterionError(f'labels="{labels}" is unknown. Use one of {", ".join(map(repr, RULES))}.')
    return RULES[labels]
