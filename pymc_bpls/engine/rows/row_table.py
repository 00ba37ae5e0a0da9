"""One row's log-likelihood ℓ = g(f), with f its only linear predictor and its only input, as a table of polynomials.

In each cell of length 1/32, polynomials of degree five through neighbouring points give g (by value, slope and curvature at
both ends), g' and g'' (by their own values at six points), with errors of some 1e-14 and 1e-11 where g is as smooth as a
logistic function. They are verified in the middle of every cell, and the table ends where that fails. What lies outside is
left to JAX, from which a call for a few numbers costs five to ten times as much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

_PER_UNIT, _REACH, _LEAST = 32, 256, 8
_TOLERANCES = (1e-12, 1e-10, 1e-10)
_POWERS = np.arange(6)
_SCALE = float(_PER_UNIT) ** -np.arange(3)

#: From (value, slope, curvature) at 0 and at 1, and from values at −2, …, 3, to coefficients of t⁰, …, t⁵.
_BY_ENDS = np.linalg.inv(np.vstack([np.eye(2, 6), 2 * np.eye(1, 6, 2), np.ones(6), _POWERS, _POWERS * (_POWERS - 1)]))
_BY_VALUES = np.linalg.inv(np.vander(np.arange(-2.0, 4.0), increasing=True))

Derivatives = tuple[np.ndarray, np.ndarray, np.ndarray]
#: g, g' and g'' at f (G,) of one class, by its code.
Exact = Callable[[np.ndarray, int], Derivatives]


@dataclass(frozen=True)
class RowTable:
    """g of every class on (lowest, highest): coefficients (K · cells, 6) of g, g' and g'' in the distance into the cell.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.special import expit, log_expit
    >>> from pymc_bpls.engine.rows.row_table import RowTable
    >>> def exact(f, code):
    ...     return log_expit(f), expit(-f), -expit(f) * expit(-f)
    >>> table = RowTable.of(exact, classes=1)
    >>> f = np.linspace(-100, 100, 1001)
    >>> found = table.derivatives(f, np.zeros(1001, dtype=int))
    >>> [bool(np.abs(mine - its).max() < 1e-11) for mine, its in zip(found, exact(f, 0))]
    [True, True, True]
    """

    lowest: float
    highest: float
    cells: int
    coefficients: tuple[np.ndarray, np.ndarray, np.ndarray]

    @classmethod
    def of(cls, exact: Exact, classes: int) -> RowTable | None:
        """The table, or None where g is not smooth enough around 0 for one."""
        f = np.linspace(-_REACH, _REACH, 2 * _REACH * _PER_UNIT + 1)
        pieces: list[list[np.ndarray]] = [[], [], []]
        good = np.ones(len(f) - 1, dtype=bool)
        with np.errstate(invalid="ignore", over="ignore"):
            for code in range(classes):
                at, half = exact(f, code), exact(0.5 * (f[:-1] + f[1:]), code)
                for order, own in enumerate(_polynomials(at)):
                    miss = np.abs(own @ 0.5**_POWERS - half[order])
                    good &= miss <= _TOLERANCES[order] * (1 + np.abs(half[order]))
                    pieces[order].append(own)
        bad, middle = np.flatnonzero(~good), len(good) // 2
        first = int(bad[bad < middle].max(initial=-1)) + 1
        last = int(bad[bad >= middle].min(initial=len(good)))
        if min(middle - first, last - middle) < _LEAST * _PER_UNIT:
            return None
        value, slope, bend = (np.concatenate([own[first:last] for own in each]) for each in pieces)
        return cls(float(f[first]), float(f[last]), last - first, (value, slope, bend))

    def holds(self, f: np.ndarray) -> bool:
        """Whether all of f is inside; NaN is not."""
        return bool(((f > self.lowest) & (f < self.highest)).all())

    def _place(self, f: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The piece of each f (G,) of a class, and the distance into its cell (G,)."""
        place = (f - self.lowest) * _PER_UNIT
        cell = place.astype(int)
        return cell + codes * self.cells, place - cell

    def value(self, f: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """g at f (G,), which the table holds."""
        piece, t = self._place(f, codes)
        return _horner(self.coefficients[0].take(piece, axis=0), t)

    def slope(self, f: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """g' at f (G,)."""
        piece, t = self._place(f, codes)
        return _horner(self.coefficients[1].take(piece, axis=0), t)

    def derivatives(self, f: np.ndarray, codes: np.ndarray) -> Derivatives:
        """g, g' and g'' at f (G,)."""
        piece, t = self._place(f, codes)
        value, slope, bend = (_horner(each.take(piece, axis=0), t) for each in self.coefficients)
        return value, slope, bend


def _polynomials(at: Derivatives) -> Derivatives:
    """Coefficients (cells, 6) of g, g' and g'' from their values at the points; NaN where neighbours are missing."""
    scaled = np.stack(at, axis=1) * _SCALE
    value = np.hstack([scaled[:-1], scaled[1:]]) @ _BY_ENDS.T
    slope, bend = (np.full_like(value, np.nan) for _ in range(2))
    for own, values in zip((slope, bend), at[1:], strict=True):
        own[2:-2] = np.lib.stride_tricks.sliding_window_view(values, 6) @ _BY_VALUES.T
    return value, slope, bend


def _horner(c: np.ndarray, t: np.ndarray) -> np.ndarray:
    value = c[:, 5] * t
    for power in range(4, 0, -1):
        value += c[:, power]
        value *= t
    return value + c[:, 0]
