"""Means over repetitions with 95% t intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

LEVEL = 0.95


def corrected(n_intervals: int) -> float:
    """The level of each of so many intervals that all hold at once with 95% (Bonferroni)."""
    return 1 - (1 - LEVEL) / n_intervals


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

    @classmethod
    def of_groups(cls, groups: Sequence[np.ndarray], weights: Sequence[float], level: float = LEVEL) -> Interval:
        """Of the weighted mean of independent groups' means, with Welch and Satterthwaite's degrees of freedom [1]_.

        References
        ----------
        .. [1] Satterthwaite, F. E. (1946). An approximate distribution of estimates of variance components. Biometrics
           Bulletin 2, 110-114. https://doi.org/10.2307/3002019
        """
        sizes = np.array([len(each) for each in groups])
        shares = np.asarray(weights) / np.sum(weights)
        means = np.array([each.mean() for each in groups])
        if (sizes < 2).any():
            return cls(shares @ means, np.asarray(np.nan), np.asarray(np.nan))
        variances = shares**2 * np.array([each.var(ddof=1) for each in groups]) / sizes
        total = variances.sum()
        # where all variances are 0, so is the width, whatever the degrees of freedom
        freedom = total**2 / (variances**2 / (sizes - 1)).sum() if total > 0 else 1.0
        error = np.sqrt(total)
        return cls(shares @ means, stats.t.ppf(0.5 + level / 2, freedom) * error, error)

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
