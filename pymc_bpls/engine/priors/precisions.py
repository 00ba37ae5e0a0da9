"""The precision matrix of a Gaussian prior in the parts that it is made of, and the prior whitened by them.

P is block diagonal (diagonal where parameters are independent, dense where the model itself holds a dense matrix), bordered by
the rows of a few coordinates that any others may depend on, as slopes do on their common mean:

    P = [[P_r, P_rb], [P_br, P_b]],   L = [[L_r, 0], [M, L_b]],   L_r L_r' = P_r,  M = P_br L_r^{-T},  L_b L_b' = P_b − M M'.

Nothing of size q × q is made. Coordinates whose row of P is zero are *flat*: they have an improper prior and are kept apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg


@dataclass(frozen=True)
class Diagonal:
    """A block of P = L L' whose coordinates (c,) are independent."""

    coordinates: np.ndarray
    values: np.ndarray

    @property
    def matrix(self) -> np.ndarray:
        """The block (c, c)."""
        return np.diag(self.values)

    @property
    def flat(self) -> np.ndarray:
        """Which of its rows are zero (c,)."""
        return self.values == 0

    def times(self, rows: np.ndarray) -> np.ndarray:
        """`rows` (…, c) times the block."""
        return rows * self.values

    def at(self, places: np.ndarray) -> Diagonal:
        """Some of its rows and columns."""
        return Diagonal(self.coordinates[places], self.values[places])

    def over(self, scale: np.ndarray) -> Diagonal:
        """The block over s s' for scales s (c,)."""
        return Diagonal(self.coordinates, self.values / scale**2)

    @cached_property
    def _root(self) -> np.ndarray:
        if not (self.values > 0).all():
            raise np.linalg.LinAlgError("a diagonal entry is not positive")
        return np.sqrt(self.values)

    def whiten(self, rows: np.ndarray) -> np.ndarray:
        """`rows` (R, c) L^{-T}."""
        return rows / self._root

    def unwhiten(self, rows: np.ndarray) -> np.ndarray:
        """L^{-T} of each of `rows` (R, c)."""
        return rows / self._root

    @property
    def log_det(self) -> float:
        """log det of the block."""
        return float(2 * np.log(self._root).sum())

    @property
    def variances(self) -> np.ndarray:
        """The diagonal of its inverse (c,)."""
        return 1 / self.values


@dataclass(frozen=True)
class Dense:
    """A block of P = L L' whose coordinates (c,) depend on each other."""

    coordinates: np.ndarray
    matrix: np.ndarray

    @property
    def flat(self) -> np.ndarray:
        """Which of its rows are zero (c,)."""
        return np.asarray(~self.matrix.any(axis=0))

    def times(self, rows: np.ndarray) -> np.ndarray:
        """`rows` (…, c) times the block."""
        return rows @ self.matrix

    def at(self, places: np.ndarray) -> Dense:
        """Some of its rows and columns."""
        return Dense(self.coordinates[places], self.matrix[np.ix_(places, places)])

    def over(self, scale: np.ndarray) -> Dense:
        """The block over s s' for scales s (c,)."""
        return Dense(self.coordinates, self.matrix / np.outer(scale, scale))

    @cached_property
    def _factor(self) -> np.ndarray:
        return scipy.linalg.cholesky(self.matrix, lower=True)

    def whiten(self, rows: np.ndarray) -> np.ndarray:
        """`rows` (R, c) L^{-T}."""
        return scipy.linalg.solve_triangular(self._factor, rows.T, lower=True).T

    def unwhiten(self, rows: np.ndarray) -> np.ndarray:
        """L^{-T} of each of `rows` (R, c)."""
        return scipy.linalg.solve_triangular(self._factor, rows.T, lower=True, trans="T").T

    @property
    def log_det(self) -> float:
        """log det of the block."""
        return float(2 * np.log(np.diag(self._factor)).sum())

    @property
    def variances(self) -> np.ndarray:
        """The diagonal of its inverse (c,)."""
        inverse = scipy.linalg.solve_triangular(self._factor, np.eye(len(self._factor)), lower=True)
        return (inverse**2).sum(axis=0)


Part = Diagonal | Dense


@dataclass(frozen=True)
class Precision:
    """P (q, q): its `parts`, and its rows `beside` (B, q) at the coordinates `border` (B,), which are in none of them."""

    parts: tuple[Part, ...]
    border: np.ndarray
    beside: np.ndarray

    @classmethod
    def of_matrix(cls, matrix: np.ndarray) -> Precision:
        """A dense one."""
        every = np.arange(len(matrix))
        return cls((Dense(every, matrix),), every[:0], np.empty((0, len(matrix))))

    def __len__(self) -> int:
        return self.beside.shape[1]

    def over(self, scale: np.ndarray) -> Precision:
        """P over s s' for scales s (q,): that of a vector which has s for 1."""
        parts = tuple(part.over(scale[part.coordinates]) for part in self.parts)
        return Precision(parts, self.border, self.beside / np.outer(scale[self.border], scale))

    def times(self, rows: np.ndarray) -> np.ndarray:
        """`rows` (…, q) times P."""
        product = rows[..., self.border] @ self.beside
        for part in self.parts:
            at = rows[..., part.coordinates]
            product[..., part.coordinates] += part.times(at)
            product[..., self.border] += at @ self.beside[:, part.coordinates].T
        return product

    @cached_property
    def matrix(self) -> np.ndarray:
        """P as one matrix."""
        whole = np.zeros((len(self), len(self)))
        whole[self.border], whole[:, self.border] = self.beside, self.beside.T
        for part in self.parts:
            whole[np.ix_(part.coordinates, part.coordinates)] = part.matrix
        return whole

    @cached_property
    def whitening(self) -> Whitening:
        """Its factor.

        Raises
        ------
        LinAlgError
            Without the flat coordinates it is not positive definite.
        """
        bound = ~self._flat
        border = np.flatnonzero(bound[self.border])
        parts = tuple(part.at(np.flatnonzero(bound[part.coordinates])) for part in self.parts)
        beside = self.beside[border]
        below = np.hstack([np.empty((len(border), 0)), *(part.whiten(beside[:, part.coordinates]) for part in parts)])
        corner = beside[:, self.border[border]] - below @ below.T
        corner = Dense(self.border[border], corner if border.size else np.empty((0, 0)))
        return Whitening(np.flatnonzero(self._flat), len(self), parts, below, corner)

    @property
    def _flat(self) -> np.ndarray:
        """Which rows are zero (q,)."""
        flat = np.zeros(len(self), dtype=bool)
        flat[self.border] = ~self.beside.any(axis=1)
        for part in self.parts:
            flat[part.coordinates] = part.flat & ~self.beside[:, part.coordinates].any(axis=0)
        return flat


@dataclass(frozen=True)
class Whitening:
    """L of a precision P = L L' without its `flat` coordinates: θ ~ N(m, P⁻¹) is m + L^{-T} w with standard normal w (G,).

    w has the entries of the `parts` in turn, then those of the border; `below` is M, and `corner` P_b − M M'.
    """

    flat: np.ndarray
    q: int
    parts: tuple[Part, ...]
    below: np.ndarray
    corner: Dense

    @property
    def size(self) -> int:
        """G, the number of coordinates that are not flat."""
        return self.q - len(self.flat)

    @property
    def _ends(self) -> np.ndarray:
        return np.cumsum([len(part.coordinates) for part in self.parts])

    def rows(self, rows: np.ndarray) -> np.ndarray:
        """`rows` (R, q) L^{-T}, as functions of w: shape (R, G)."""
        left = [part.whiten(rows[:, part.coordinates]) for part in self.parts]
        if not len(self.below):
            return left[0] if len(left) == 1 else np.hstack([np.empty((len(rows), 0)), *left])
        at = np.hstack([np.empty((len(rows), 0)), *left])
        return np.hstack([at, self.corner.whiten(rows[:, self.corner.coordinates] - at @ self.below.T)])

    def move(self, w: np.ndarray) -> np.ndarray:
        """L^{-T} of each of w (K, G) in the order of θ, 0 where it is flat: shape (K, q)."""
        theta = np.zeros((len(w), self.q))
        split = self.below.shape[1]
        above = w[:, :split]
        if len(self.below):
            theta[:, self.corner.coordinates] = at_border = self.corner.unwhiten(w[:, split:])
            above = above - at_border @ self.below
        for part, own in zip(self.parts, np.split(above, self._ends, axis=1)[:-1], strict=True):
            theta[:, part.coordinates] = part.unwhiten(own)
        return theta

    @cached_property
    def log_det(self) -> float:
        """log det P without the flat coordinates."""
        return sum(part.log_det for part in self.parts) + (self.corner.log_det if len(self.below) else 0.0)

    @cached_property
    def variances(self) -> np.ndarray:
        """The diagonal of P⁻¹ (q,), 0 where it is flat."""
        variances = np.zeros(self.q)
        for part in self.parts:
            variances[part.coordinates] = part.variances
        if len(self.below):
            border = np.hstack([np.zeros((len(self.below), self.below.shape[1])), np.eye(len(self.below))])
            variances += (self.move(border) ** 2).sum(axis=0)
        return variances
