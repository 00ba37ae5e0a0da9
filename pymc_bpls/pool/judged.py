"""How well two models predict the same test rows, and whether one does so better beyond chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_bpls.selftraining.history import won_and_lost

_NORMAL = 1.96


@dataclass(frozen=True)
class Judged:
    """How a model predicts the test rows: which of them right, and the log probabilities of their classes, both (t,)."""

    right: np.ndarray
    log_p: np.ndarray

    @classmethod
    def by(cls, p: np.ndarray, codes: np.ndarray) -> Judged:
        """Class probabilities (t, K) of rows with classes `codes`."""
        with np.errstate(divide="ignore"):
            log_p = np.log(p[np.arange(len(codes)), codes])
        return cls(p.argmax(axis=1) == codes, log_p)

    @property
    def log_score(self) -> float:
        """The mean log probability of the true classes."""
        return float(self.log_p.mean())


def better_by_accuracy(before: Judged, after: Judged) -> int:
    """1 where `after` predicts more rows right beyond chance, −1 where fewer, else 0; by rows that one of them alone does."""
    won, lost = won_and_lost(before.right, after.right)
    return 0 if abs(won - lost) <= _NORMAL * np.sqrt(won + lost) else int(np.sign(won - lost))


def better_by_log_score(before: Judged, after: Judged) -> int:
    """1 where `after` has the larger mean log probability beyond chance, −1 where the smaller, else 0; by paired differences.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bpls.pool.judged import Judged, better_by_log_score
    >>> one, other = (Judged(np.ones(9, dtype=bool), np.log(np.linspace(low, 0.9, 9))) for low in (0.5, 0.8))
    >>> better_by_log_score(one, other), better_by_log_score(other, one), better_by_log_score(one, one)
    (1, -1, 0)
    """
    both = np.isfinite(before.log_p) & np.isfinite(after.log_p)
    if not both.all():  # an infinite mean has no difference
        return 0
    gain = after.log_p - before.log_p
    error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.inf
    return 0 if abs(gain.mean()) <= _NORMAL * error else int(np.sign(gain.mean()))
