"""Along which axis of a log-density the rows go, found by labels in which some rows have another class.

Two labelings that differ in every row are mixed by the binary digits of the rows' numbers. Any two rows differ in a digit, so
that an entry which depends on a row other than its own is found in at most ⌈log₂ N⌉ evaluations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

_ROUNDING = 1e-9


class RowAxes:
    """What a function of the labels (N, ...) of a table has to do with its rows.

    `of_labels` gives its entries; `one` and `other` are labelings that differ in every row.
    """

    def __init__(self, of_labels: Callable[[np.ndarray], np.ndarray], one: np.ndarray, other: np.ndarray) -> None:
        self.n_rows = len(one)
        self.one, self.other = of_labels(one), of_labels(other)
        self.mixed = [
            (digit, of_labels(np.where(digit.reshape(-1, *(1,) * (one.ndim - 1)), other, one)))
            for digit in binary_digits(self.n_rows)
        ]

    @property
    def axis(self) -> int | None:
        """The first axis whose entries depend on the labels of their own rows alone; None where there is none."""
        axes = (axis for axis, length in enumerate(self.one.shape) if length == self.n_rows)
        return next((axis for axis in axes if self._goes_along(axis)), None)

    @property
    def by_lines(self) -> bool:
        """Whether every entry depends on one row at most, and some entry on one."""
        one_row = all((_same(mixed, self.one) | _same(mixed, self.other)).all() for _, mixed in self.mixed)
        return one_row and not _same(self.one, self.other).all()

    def _goes_along(self, axis: int) -> bool:
        shape = [self.n_rows if place == axis else 1 for place in range(self.one.ndim)]
        return all(_same(mixed, np.where(digit.reshape(shape), self.other, self.one)).all() for digit, mixed in self.mixed)


def binary_digits(n: int) -> Iterator[np.ndarray]:
    """Each binary digit of 0 … n − 1, as bool (n,)."""
    for digit in range(max((n - 1).bit_length(), 1)):
        yield (np.arange(n) >> digit) % 2 == 1


def _same(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    return np.isclose(values, others, rtol=_ROUNDING, atol=_ROUNDING, equal_nan=True)
