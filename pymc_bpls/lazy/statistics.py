"""What is known of all scores of a pool without keeping them: counts, a histogram, and which rows have none.

Bins of the histogram are the cells of a dyadic grid, [i 2^e, (i + 1) 2^e), with the smallest e that puts all scores into 64 of
them. A grid is a coarsening of the next finer one, so that merging gives what one pass over all rows would.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_BINS = 64
_FINEST, _LARGEST = -40, 2.0**52


@dataclass(frozen=True)
class Histogram:
    """`counts` of scores in cells `first`, `first` + 1, … of the grid with width 2^`exponent`."""

    exponent: int
    first: int
    counts: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> Histogram:
        """Of finite values."""
        if not len(values):
            return cls(_FINEST, 0, np.zeros(0, dtype=np.int64))
        low, high = float(values.min()), float(values.max())
        exponent = _FINEST
        while not _fits(np.floor(np.ldexp(low, -exponent)), np.floor(np.ldexp(high, -exponent))):
            exponent += 1
        cells = np.floor(np.ldexp(values, -exponent)).astype(np.int64)
        first = int(cells.min())
        return cls(exponent, first, np.bincount(cells - first).astype(np.int64))

    def __add__(self, other: Histogram) -> Histogram:
        """Of both, on the finest grid that holds all in 64 cells.

        Examples
        --------
        >>> import numpy as np
        >>> from pymc_bpls.lazy.statistics import Histogram
        >>> values = np.random.default_rng(0).normal(size=100)
        >>> whole, parts = Histogram.of(values), Histogram.of(values[:30]) + Histogram.of(values[30:])
        >>> whole.exponent == parts.exponent, bool((whole.counts == parts.counts).all())
        (True, True)
        """
        if not len(self.counts) or not len(other.counts):
            return self if len(self.counts) else other
        exponent = max(self.exponent, other.exponent)
        one, two = self._coarser(exponent), other._coarser(exponent)
        while max(one._last, two._last) - min(one.first, two.first) >= _BINS:
            exponent += 1
            one, two = one._coarser(exponent), two._coarser(exponent)
        first = min(one.first, two.first)
        counts = np.zeros(max(one._last, two._last) - first + 1, dtype=np.int64)
        for each in (one, two):
            counts[each.first - first : each._last - first + 1] += each.counts
        return Histogram(exponent, first, counts)

    @property
    def _last(self) -> int:
        return self.first + len(self.counts) - 1

    def _coarser(self, exponent: int) -> Histogram:
        cells = (self.first + np.arange(len(self.counts))) >> (exponent - self.exponent)
        return Histogram(exponent, int(cells[0]), np.bincount(cells - cells[0], self.counts).astype(np.int64))

    @property
    def edges(self) -> np.ndarray:
        """The left edge of each bin, and the right one of the last."""
        return np.ldexp((self.first + np.arange(len(self.counts) + 1)).astype(float), self.exponent)


def _fits(first: float, last: float) -> bool:
    """Whether cells are few, and their numbers whole in double precision."""
    return last - first < _BINS and max(-first, last) < _LARGEST


@dataclass(frozen=True)
class Statistics:
    """Of all rows: how many, with which pseudo-labels (K,), the histogram of finite scores, and how many have none.

    `lost` rows have no score for some class, the first of them number `first_lost`; `impossible` ones have −∞. `error` is the
    largest standard error of a score that is an average over draws.
    """

    n: int
    labels: np.ndarray
    histogram: Histogram
    lost: int = 0
    first_lost: int = -1
    impossible: int = 0
    first_impossible: int = -1
    error: float = 0.0

    @classmethod
    def none(cls, n_classes: int) -> Statistics:
        """Of no rows."""
        return cls(0, np.zeros(n_classes, dtype=np.int64), Histogram.of(np.empty(0)))

    @classmethod
    def of(cls, scores: np.ndarray, codes: np.ndarray, numbers: np.ndarray, n_classes: int, error: float) -> Statistics:
        """Of rows by their `numbers` with scores (n,) or (n, K), NaN where there is none, and pseudo-labels (n,)."""
        each = scores.reshape(len(scores), -1)
        lost, impossible = (np.flatnonzero(rows) for rows in (np.isnan(each).any(axis=1), np.isneginf(each).any(axis=1)))
        return cls(
            len(scores),
            np.bincount(codes, minlength=n_classes),
            Histogram.of(each[np.isfinite(each)]),
            len(lost),
            int(numbers[lost[0]]) if len(lost) else -1,
            len(impossible),
            int(numbers[impossible[0]]) if len(impossible) else -1,
            error,
        )

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(
            self.n + other.n,
            self.labels + other.labels,
            self.histogram + other.histogram,
            self.lost + other.lost,
            _first(self.first_lost, other.first_lost),
            self.impossible + other.impossible,
            _first(self.first_impossible, other.first_impossible),
            max(self.error, other.error),
        )


def _first(one: int, two: int) -> int:
    """The smaller of two row numbers, −1 being none."""
    return min(one, two) if min(one, two) >= 0 else max(one, two)
