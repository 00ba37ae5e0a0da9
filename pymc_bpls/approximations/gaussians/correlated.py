"""Correlations of rows' predictors under a sparse Gaussian, summed over D in powers, as EP's corrections take them.

A row's predictor is f = a'x, x with precision H. By H's elimination A H⁻¹ A' = V V' + G G' (`Factor.halves`): V is sparse, and
two rows share an entry of it where they touch the same group; G has a column for each parameter that nearly every row touches.
With v and g those of a row, divided by its sd, ρ_ij = v_i'v_j + g_i'g_j, and

    Σ_j c_j ρ_ij^l = φ_l(g_i)' Σ_j c_j φ_l(g_j) + Σ_{j: v_i'v_j ≠ 0} c_j [ρ_ij^l − (g_i'g_j)^l],

φ_l being the monomials of degree l, so scaled that φ_l(g)'φ_l(h) = (g'h)^l. Nothing here grows with the number of pairs of
rows. Where there are more monomials than rows, all pairs are taken instead; and so they are for the second order, of few rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations_with_replacement
from math import comb, factorial, prod

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from pymc_bpls.approximations.gaussians.gaussian import Shape
from pymc_bpls.approximations.gaussians.second_order import MOST_FACTORS, Change, second_order
from pymc_bpls.approximations.quadrature.tilted import ORDERS
from pymc_bpls.engine.sparse.elimination import Factor

_ROWS_AT_ONCE = 1024
_MOST_TERMS = 2000
_NO_SPREAD = 1e-200


@dataclass(frozen=True)
class Standardised:
    """Rows' predictors in units of their `sd` (n,): `sparse` v (n, E) and `dense` g (n, C)."""

    sd: np.ndarray
    sparse: sp.csr_array
    dense: np.ndarray

    @classmethod
    def of(cls, design: sp.csr_array, factor: Factor) -> Standardised:
        """Of the rows of a design (n, q), under the Gaussian whose precision has this factor."""
        sparse, dense = factor.halves(design)
        sd = np.sqrt(np.asarray(sparse.multiply(sparse).sum(axis=1)).ravel() + (dense**2).sum(axis=1))
        scale = np.maximum(sd, _NO_SPREAD)
        return cls(sd, sp.csr_array(sp.diags_array(1 / scale) @ sparse), dense / scale[:, None])

    def pieces(self) -> Iterator[tuple[slice, Standardised]]:
        """So many rows as are worked on together."""
        for first in range(0, len(self.sd), _ROWS_AT_ONCE):
            some = slice(first, first + _ROWS_AT_ONCE)
            yield some, Standardised(self.sd[some], self.sparse[some], self.dense[some])


@dataclass(frozen=True)
class Correlated:
    """D's `rows`, and the means `c` (L, n) of Hermite polynomials under their tilted densities."""

    rows: Standardised
    c: np.ndarray

    @classmethod
    def of(cls, rows: Standardised, c: np.ndarray) -> Correlated | None:
        """None where both pairs of rows and monomials are too many."""
        n, size = rows.dense.shape
        few = _monomials(size) <= _MOST_TERMS and (np.diff(rows.sparse.tocsc().indptr) ** 2.0).sum() <= _MOST_TERMS * n
        return cls(rows, c) if few or n <= _MOST_TERMS else None

    @cached_property
    def _sums(self) -> list[np.ndarray] | None:
        """Σ_j c_j φ_l(g_j) of each l, or None where pairs are fewer."""
        n, size = self.rows.dense.shape
        if _monomials(size) > n:
            return None
        totals = [np.zeros(len(_powers(order, size)[1])) for order in ORDERS]
        for some, piece in self.rows.pieces():
            for c, order, total in zip(self.c, ORDERS, totals, strict=True):
                total += c[some] @ _features(piece.dense, order)
        return totals

    @cached_property
    def _roots(self) -> np.ndarray:
        """Whose products are the correlations of D's rows (n, n): shape (n, d), d ≤ n."""
        touched = np.unique(self.rows.sparse.indices)
        whole = np.hstack([self.rows.sparse[:, touched].toarray(), self.rows.dense])
        return whole if whole.shape[1] <= len(whole) else scipy.linalg.qr(whole.T, mode="r")[0][: len(whole)].T

    @cached_property
    def change(self) -> Change | None:
        """How pairs and triples of D's rows change the moments."""
        few = len(self.rows.sd) <= MOST_FACTORS
        return second_order(self.c, self._roots) if few else None

    def moments(self, rows: Standardised) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of some rows' standardised predictors the mean and the sd (rows,) to the second order, and E He_l / l! (rows, L) of
        what is standardised by these.
        """
        if self.change is None:
            return np.zeros(len(rows.sd)), np.ones(len(rows.sd)), self.tilt(rows)
        found = [self._moments(piece, self.change) for _, piece in rows.pieces()]
        if not found:
            return np.empty(0), np.empty(0), np.empty((0, len(ORDERS)))
        shift, sd, tilt = (np.concatenate(each) for each in zip(*found, strict=True))
        return shift, sd, tilt

    def _moments(self, rows: Standardised, change: Change) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rho = self._correlations(rows)
        ahead = rho @ change.pairs
        sd = np.sqrt(1 + (ahead * rho).sum(axis=1))
        now = (rho + ahead @ self._roots @ self._roots.T) / sd[:, None]
        return rho @ change.pull, sd, Shape(self._roots, self.c, self._roots).tilt(now)

    def _correlations(self, rows: Standardised) -> np.ndarray:
        """ρ_ij of some rows i with D's (rows, n)."""
        return np.asarray((rows.sparse @ self.rows.sparse.T).todense()) + rows.dense @ self.rows.dense.T

    def tilt(self, rows: Standardised) -> np.ndarray:
        """Σ_j c_lj ρ_ij^l / l! of some rows i: shape (rows, L)."""
        tilts = [self._tilt(piece) for _, piece in rows.pieces()]
        return np.concatenate(tilts) if tilts else np.zeros((0, len(ORDERS)))

    def _tilt(self, rows: Standardised) -> np.ndarray:
        if self._sums is None:
            rho = self._correlations(rows)
            return np.column_stack([rho**order @ c / factorial(order) for c, order in zip(self.c, ORDERS, strict=True)])
        shared, others = sp.coo_array(rows.sparse @ self.rows.sparse.T), self.rows.dense
        first, second = shared.coords
        by_core = (rows.dense[first] * others[second]).sum(axis=1)
        columns = []
        for c, order, total in zip(self.c, ORDERS, self._sums, strict=True):
            beside = c[second] * ((by_core + shared.data) ** order - by_core**order)
            own = _features(rows.dense, order) @ total + np.bincount(first, beside, len(rows.sd))
            columns.append(own / factorial(order))
        return np.column_stack(columns)

    def correction(self) -> float:
        """Σ_{i<j} Σ_l c_li c_lj ρ_ij^l / l!."""
        alone = np.array([(c @ c) / factorial(order) for c, order in zip(self.c, ORDERS, strict=True)])
        return 0.5 * float((self.c * self.tilt(self.rows).T).sum() - alone.sum())


def _monomials(size: int) -> int:
    """How many monomials there are of so many variables."""
    return sum(comb(size + order - 1, order) for order in ORDERS)


@cache
def _powers(order: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The variables of each monomial (T, order), and the square root of how often it is in a power of a sum (T,)."""
    each = list(combinations_with_replacement(range(size), order))
    counts = [factorial(order) / prod(map(factorial, Counter(one).values())) for one in each]
    return np.array(each, dtype=int).reshape(-1, order), np.sqrt(counts)


def _features(values: np.ndarray, order: int) -> np.ndarray:
    """φ of vectors (n, C): shape (n, T)."""
    variables, scale = _powers(order, values.shape[1])
    features = np.repeat(scale[None], len(values), axis=0)
    for which in variables.T:
        features *= values[:, which]
    return features
