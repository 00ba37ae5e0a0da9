"""How much of one gain another reaches, with an interval of a ratio of means that are paired by repetition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from validation.study.intervals import LEVEL

DRAWS, SEED = 10_000, 0


@dataclass(frozen=True)
class Ratio:
    """Of two means, and the ends of its interval: quantiles over resampled pairs (the percentile bootstrap)."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, above: np.ndarray, below: np.ndarray) -> Ratio:
        """Of the means of values that are paired by repetition."""
        rows = np.random.default_rng(SEED).integers(len(above), size=(DRAWS, len(above)))
        tail = (1 - LEVEL) / 2
        low, high = np.quantile(above[rows].mean(axis=1) / below[rows].mean(axis=1), [tail, 1 - tail])
        return cls(float(above.mean() / below.mean()), float(low), float(high))
