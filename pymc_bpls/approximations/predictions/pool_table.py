"""Averages E[p(y | f)] over f ~ N(m, s²) of many rows by a table of two numbers, where a row has no input but its predictor.

In u = m/√(1 + π s²/8) and log s, log E[p] is as smooth for wide f as for narrow ones, and so are E[p He_3(z)]/E[p] and
E[p He_4(z)]/E[p], z = (f − m)/s, by which the average is corrected for the shape of a density that is not quite Gaussian:
these are s^l ∂^l E[p]/∂m^l over E[p]. All three are splines of degree five through averages at nodes, on one grid, so that a
row costs 36 multiplications for each of them, in place of an exponential and a likelihood at 16 to 961 nodes. In the middle of
every cell they are compared with nodes: what is off by more than 1e-7 (relative to 1 + |value| for the shapes) is not used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy

_DEGREE = 5
_SHRINK = np.pi / 8
_REACH, _STEP_U = 10.0, 0.2
_LEAST_S, _MOST_S, _STEP_S = 0.05, 60.0, 0.05
_BESIDE = 8  # cells at the ends, where the knots of the spline are not equally spaced
_TOLERANCE = 1e-7

#: Of f ~ N(m, s²), (rows,) each, and one class: log E[p], and E[p He_l(z)]/E[p] for l = 3, 4; shape (rows, 3).
Exact = Callable[[np.ndarray, np.ndarray, int], np.ndarray]


@dataclass(frozen=True)
class PoolTable:
    """Coefficients (K, U, S, 3) of the splines of every class on the grid, and which of the cells are `verified` (U, S)."""

    coefficients: np.ndarray
    verified: np.ndarray

    @classmethod
    def of(cls, exact: Exact, classes: int) -> PoolTable:
        """From averages at nodes."""
        u, log_s = _grid()

        def at(u: np.ndarray, log_s: np.ndarray, code: int) -> np.ndarray:
            both = np.broadcast_to(u[:, None], (len(u), len(log_s))), np.broadcast_to(np.exp(log_s), (len(u), len(log_s)))
            m, s = both[0] * np.sqrt(1 + _SHRINK * both[1] ** 2), both[1]
            return exact(m.ravel(), s.ravel(), code).reshape(len(u), len(log_s), 3)

        middle = 0.5 * (u[1:] + u[:-1]), 0.5 * (log_s[1:] + log_s[:-1])
        verified = np.zeros((len(u) - 1, len(log_s) - 1), dtype=bool)
        inside = slice(_BESIDE, -_BESIDE), slice(_BESIDE, -_BESIDE)
        verified[inside] = True
        coefficients = []
        for code in range(classes):
            own = at(u, log_s, code)
            finite = np.isfinite(own).all()
            for axis, points in enumerate((u, log_s)):
                own = scipy.interpolate.make_interp_spline(points, np.where(np.isfinite(own), own, 0.0), k=_DEGREE, axis=axis).c
                own = np.moveaxis(own, 0, axis)
            coefficients.append(own)
            table, true = cls(own[None], verified), at(middle[0], middle[1], code)
            cells = np.stack(np.meshgrid(*(np.arange(len(each)) for each in middle), indexing="ij"), -1)[inside].reshape(-1, 2)
            found = table._values(cells, np.full((len(cells), 2), 0.5), np.zeros(len(cells), dtype=int))
            miss = np.abs(found - true[inside].reshape(-1, 3))
            close = (miss <= _TOLERANCE * (1 + np.abs(found) * [0.0, 1.0, 1.0])).all(axis=1)
            verified[inside] &= bool(finite) & close.reshape(verified[inside].shape)
        return cls(np.stack(coefficients), verified)

    def __call__(self, m: np.ndarray, s: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log E[p] and the shapes (rows, 3), and which rows are in a verified cell; the others are meaningless."""
        u, log_s = _grid()
        with np.errstate(divide="ignore", invalid="ignore"):
            place = np.column_stack([(m / np.sqrt(1 + _SHRINK * s * s) - u[0]) / _STEP_U, (np.log(s) - log_s[0]) / _STEP_S])
        ends = np.array(self.verified.shape)
        inside = ((place >= 0) & (place < ends)).all(axis=1)
        place[~inside] = 0.5 * ends
        cells = place.astype(int)
        usable = inside & self.verified[cells[:, 0], cells[:, 1]]
        cells[~usable] = ends // 2
        return self._values(cells, place - cells, codes), usable

    def _values(self, cells: np.ndarray, place: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """The splines (rows, 3) at a place (rows, 2) in cells (rows, 2) that are not at the ends."""
        windows = np.lib.stride_tricks.sliding_window_view(self.coefficients, (_DEGREE + 1, _DEGREE + 1), axis=(1, 2))
        own = windows.transpose(0, 1, 2, 4, 5, 3)[codes, cells[:, 0] - 2, cells[:, 1] - 2]
        of_u, of_s = (np.vander(each, _DEGREE + 1, increasing=True) @ _weights() for each in place.T)
        return np.einsum("njc,nj->nc", np.einsum("nijc,ni->njc", own, of_u), of_s)


@cache
def _weights() -> np.ndarray:
    """From 1, t, …, t⁵ to the six splines that are not 0 at t in a cell."""
    t, spline = np.linspace(0, 1, _DEGREE + 1), scipy.interpolate.BSpline.basis_element(np.arange(_DEGREE + 2.0))
    return np.linalg.inv(np.vander(t, increasing=True)) @ np.column_stack([spline(t + _DEGREE - i) for i in range(_DEGREE + 1)])


def _grid() -> tuple[np.ndarray, np.ndarray]:
    """u and log s of the points."""
    beside_u, beside_s = _BESIDE * _STEP_U, _BESIDE * _STEP_S
    count_s = round(np.log(_MOST_S / _LEAST_S) / _STEP_S) + 2 * _BESIDE
    u = np.arange(round(2 * (_REACH + beside_u) / _STEP_U) + 1) * _STEP_U - (_REACH + beside_u)
    return u, np.log(_LEAST_S) - beside_s + np.arange(count_s + 1) * _STEP_S
