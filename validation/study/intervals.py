"""Means over repetitions with 95% t intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """Means of repetitions with half the width of their t intervals, and their standard errors; of one repetition, no width."""

    mean: np.ndarray
    half: np.ndarray
    error: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, level: float = LEVEL) -> Interval:
        """Along the first axis."""
        n = len(values)
        error = values.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.full(values.shape[1:], np.nan)
        return cls(values.mean(axis=0), stats.t.ppf(0.5 + level / 2, max(n - 1, 1)) * error, error)

    @property
    def low(self) -> np.ndarray:
        """The lower end."""
        return self.mean - self.half

    @property
    def high(self) -> np.ndarray:
        """The upper end."""
        return self.mean + self.half

    @property
    def sign(self) -> int:
        """1 or −1 where the whole interval is above or below 0, else 0."""
        return int(self.low > 0) - int(self.high < 0)

    def text(self, form: str = "{:+.2f}") -> str:
        """As in a report."""
        ends = f" [{form.format(self.low)}, {form.format(self.high)}]" if np.isfinite(self.half) else " (no interval)"
        return form.format(self.mean) + ends
