"""Rows of a density that touch few parameters, and its prior, as what is not zero of them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from pymc_bpls.compute.chunks import map_rows
from pymc_bpls.compute.threads import IN_TURN
from pymc_bpls.compute.travel import OfFields
from pymc_bpls.engine.newton import kernels
from pymc_bpls.engine.priors.precisions import Dense, Diagonal
from pymc_bpls.engine.rows.affine_rows import AffineRows, RowDerivatives
from pymc_bpls.engine.sparse.elimination import Elimination
from pymc_bpls.engine.sparse.probing import probe

_ROWS_AT_ONCE, _VECTORS_AT_ONCE = 4096, 16
_LARGEST_BORDER, _REMEMBERED = 64, 4
_NOT_ASKED, _TOUCHES_MANY = -1, -2
_MOST_SETS, _FLOATS = 64, 2**22
_ROUNDING = 1e-12


@dataclass(frozen=True)
class SparseBlock:
    """Rows with their classes and weights: what they touch, `columns` (n, W), and their design there, `matrix` (n, p, W).

    Where a row touches fewer than W parameters, columns are q and the matrix 0.
    """

    q: int
    columns: np.ndarray
    matrix: np.ndarray
    offset: np.ndarray
    weights: np.ndarray
    codes: np.ndarray
    inputs: tuple[np.ndarray, ...]

    def take(self, rows: np.ndarray) -> SparseBlock:
        """Some of its rows."""
        inputs = tuple(values[rows] for values in self.inputs)
        own = (self.columns[rows], self.matrix[rows], self.offset[rows], self.weights[rows], self.codes[rows])
        return SparseBlock(self.q, *own, inputs)

    @cached_property
    def design(self) -> sp.csr_array:
        """A as one matrix (n · p, q)."""
        n, p, width = self.matrix.shape
        rows = np.repeat(np.arange(n * p), width)
        columns = np.repeat(self.columns[:, None], p, axis=1).ravel()
        return sp.csr_array((self.matrix.ravel(), (rows, columns)), shape=(n * p, self.q + 1))[:, : self.q]

    @property
    def vectors(self) -> np.ndarray:
        """A' of all rows, a predictor a row (n · p, q)."""
        return self.design.toarray()

    def eta(self, theta: np.ndarray) -> np.ndarray:
        """Each row's η (n, p) at its own θ (n, q)."""
        return self.own(theta[:, None])[:, :, 0] + self.offset

    def own(self, vectors: np.ndarray) -> np.ndarray:
        """A_j v of each row's own vectors (n, R, q): shape (n, p, R)."""
        padded = np.concatenate([vectors, np.zeros((*vectors.shape[:2], 1))], axis=2)
        return self.matrix @ np.take_along_axis(padded, self.columns[:, None], axis=2).transpose(0, 2, 1)

    def own_back(self, slopes: np.ndarray) -> np.ndarray:
        """A_j' s_j of each row's slopes (n, p): shape (n, q)."""
        total = np.zeros((len(slopes), self.q + 1))
        np.put_along_axis(total, self.columns, np.einsum("npw,np->nw", self.matrix, slopes), axis=1)
        return total[:, :-1]

    def every_eta(self, theta: np.ndarray) -> np.ndarray:
        """η (sets, n, p) of all rows at each θ (sets, q)."""
        n, p = self.offset.shape
        return np.asarray((self.design @ theta.T).reshape(n, p, -1).transpose(2, 0, 1) + self.offset)

    def back(self, slopes: np.ndarray) -> np.ndarray:
        """Σ_j A_j' s_j of slopes (sets, n, p): shape (sets, q)."""
        return np.asarray((self.design.T @ slopes.reshape(len(slopes), -1).T).T)

    @property
    def pairs(self) -> np.ndarray:
        """Pairs (E, 2) of different parameters that a row touches."""
        first, second = np.triu_indices(self.columns.shape[1], 1)
        a, b = self.columns[:, first].ravel(), self.columns[:, second].ravel()
        keys = np.unique(np.minimum(a, b) * (self.q + 1) + np.maximum(a, b))
        pairs = np.column_stack(np.divmod(keys, self.q + 1))
        return pairs[(pairs[:, 1] < self.q) & (pairs[:, 0] != pairs[:, 1])]

    def slots(self, order: Elimination) -> np.ndarray:
        """Of the pairs a ≤ b of what each row touches (n, T)."""
        first, second = np.triu_indices(self.columns.shape[1])
        return order.slots(self.columns[:, first], self.columns[:, second])

    def curvature(self, inner: np.ndarray) -> np.ndarray:
        """A_j' M_j A_j at these pairs, for M (…, n, p, p): shape (…, n, T)."""
        whole = self.matrix.transpose(0, 2, 1) @ (inner @ self.matrix)
        first, second = np.triu_indices(self.columns.shape[1])
        return whole[..., first, second]


@dataclass(frozen=True)
class SparsePrior:
    """−∇² log π at the `pairs` (E, 2), the diagonal first: of a Gaussian prior its `constant` (E,), of another one at each θ.

    All but the diagonal are rows of the `border` (B,), small variables that others may depend on.
    """

    model: AffineRows
    pairs: np.ndarray
    border: np.ndarray
    constant: np.ndarray | None

    def values(self, theta: np.ndarray) -> np.ndarray:
        """At θ of (sets, q): shape (E, sets), or (E, 1) where it is the same for all."""
        if self.constant is not None:
            return self.constant[:, None]
        q = theta.shape[1]
        products = _products(self.model, theta, _probes(self.border, q))
        diagonal = products[:, -1].copy()
        diagonal[:, self.border] = products[:, np.arange(len(self.border)), self.border]
        place = np.full(q, -1)
        place[self.border] = np.arange(len(self.border))
        of_border = products[:, place[self.pairs[q:, 0]], self.pairs[q:, 1]]
        return np.concatenate([diagonal, of_border], axis=1).T


def _probes(border: np.ndarray, q: int) -> np.ndarray:
    """Units of the border, and a vector of ones elsewhere (B + 1, q)."""
    vectors = np.zeros((len(border) + 1, q))
    vectors[np.arange(len(border)), border] = 1.0
    vectors[-1] = 1.0
    vectors[-1, border] = 0.0
    return vectors


def _products(model: AffineRows, theta: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """−∇² log π at each θ (sets, q) times vectors (V, q): shape (sets, V, q)."""

    def some(sets: np.ndarray) -> np.ndarray:
        run = model.compiler
        return -run(kernels.log_prior_products_at, model.density.structure, theta[sets], vectors)

    return map_rows(some, len(theta), (1, _sets_at_once(vectors.size)), IN_TURN)


def _sets_at_once(floats: int) -> int:
    """How many sets of so many numbers each are worked on together: a power of two."""
    return 1 << (max(1, min(_MOST_SETS, _FLOATS // floats)).bit_length() - 1)


def find_sparse_prior(model: AffineRows) -> SparsePrior | None:
    """The prior's curvature where it is diagonal but for the rows of small variables, or Gaussian with sparse blocks."""
    q, sizes = model.dimension, model.variable_sizes
    every = np.arange(q)
    diagonal = np.column_stack([every, every])
    if model.gaussian_prior is not None:
        return _of_gaussian(model, diagonal)
    variables = np.split(every, np.cumsum(sizes)[:-1])
    by_size = sorted(variables, key=len)
    small = np.cumsum([len(variable) for variable in by_size]) <= _LARGEST_BORDER
    border = np.sort(np.concatenate([np.empty(0, dtype=int), *by_size[: small.sum()]]))
    rng = np.random.default_rng(0)
    points = model.base + 0.3 * rng.normal(size=(2, q))
    probe = rng.uniform(0.5, 1.0, q)
    probe[border] = 0.0
    products = _products(model, points, np.vstack([_probes(border, q), probe]))
    rest = np.setdiff1d(every, border)
    scale = np.abs(products[:, -2, rest]).max(initial=0.0)
    if (
        not np.isfinite(products).all()
        or (np.abs(products[:, -1] - products[:, -2] * probe)[:, rest] > _ROUNDING * scale).any()
    ):
        return None
    touched = (products[:, : len(border)] != 0).any(axis=0)
    first, second = np.nonzero(touched)
    keep = (border[first] < second) | ~np.isin(second, border)
    keep &= border[first] != second
    return SparsePrior(model, np.concatenate([diagonal, np.column_stack([border[first], second])[keep]]), border, None)


def _of_gaussian(model: AffineRows, diagonal: np.ndarray) -> SparsePrior:
    prior = model.gaussian_prior
    assert prior is not None
    structure, q = prior.structure, len(diagonal)
    pairs, values, on_diagonal = [], [], np.zeros(q)
    for part in structure.parts:
        if isinstance(part, Diagonal):
            on_diagonal[part.coordinates] = part.values
            continue
        assert isinstance(part, Dense)
        on_diagonal[part.coordinates] = np.diag(part.matrix)
        first, second = np.nonzero(np.triu(np.abs(part.matrix) > _ROUNDING * np.abs(part.matrix).max(), 1))
        pairs.append(np.column_stack([part.coordinates[first], part.coordinates[second]]))
        values.append(part.matrix[first, second])
    border, beside = structure.border, structure.beside
    on_diagonal[border] = beside[np.arange(len(border)), border]
    first, second = np.nonzero(beside)
    keep = (border[first] < second) | ~np.isin(second, border)
    keep &= border[first] != second
    pairs.append(np.column_stack([border[first], second])[keep])
    values.append(beside[first, second][keep])
    return SparsePrior(model, np.concatenate([diagonal, *pairs]), border, np.concatenate([on_diagonal, *values]))


@dataclass(frozen=True)
class SparseRows(OfFields):
    """A density with linear predictors of few parameters each, in θ (q,)."""

    model: AffineRows
    prior: SparsePrior
    orders: deque[tuple[np.ndarray, Elimination]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))

    log_det_prior: ClassVar[float] = 0.0

    @cached_property
    def _kept(self) -> dict[str, np.ndarray]:
        n, p = len(self.model.density.data[0]), self.model.map.size
        empty = {"columns": np.empty((0, 1), dtype=int), "matrix": np.empty((0, p, 1)), "offset": np.empty((0, p))}
        return {"place": np.full(n, _NOT_ASKED), **empty}

    def has(self, positions: np.ndarray) -> bool:
        """Make the designs of these rows; whether they are sparse."""
        kept, q = self._kept, self.model.dimension
        place = kept["place"][positions]
        if (place == _TOUCHES_MANY).any():
            return False
        new = np.unique(positions[place == _NOT_ASKED])
        if not len(new):
            return True
        model, density, run = self.model, self.model.density, self.model.compiler
        theta = model.theta(model.base[None])

        def products(vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
            pieces = [vectors[first : first + _VECTORS_AT_ONCE] for first in range(0, len(vectors), _VECTORS_AT_ONCE)]
            moves = [_padded(model.moves(piece)) for piece in pieces]

            def some(places: np.ndarray) -> np.ndarray:
                inputs = density.take(new[rows[places]])
                parts = [run(kernels.design_products, density.structure, theta[0], each, inputs) for each in moves]
                return np.moveaxis(np.concatenate(parts)[: len(vectors)], 0, 1)

            return np.moveaxis(map_rows(some, len(rows), (64, _ROWS_AT_ONCE), IN_TURN), 1, 0)

        found, many = probe(products, len(new), model.variable_sizes)
        if found is None:
            kept["place"][new[many]] = _TOUCHES_MANY
            return False
        columns, matrix = found
        start = np.append(model.base, 0.0)
        eta = map_rows(
            lambda rows: run(kernels.predictors, density.structure, theta, density.take(new[rows]))[0],
            len(new),
            (64, _ROWS_AT_ONCE),
            IN_TURN,
        )
        offset = eta - np.einsum("npw,nw->np", matrix, start[columns])
        width = max(columns.shape[1], kept["columns"].shape[1])
        kept["columns"] = np.concatenate([_wide(kept["columns"], width, q), _wide(columns, width, q)])
        kept["matrix"] = np.concatenate([_wide(kept["matrix"], width, 0.0), _wide(matrix, width, 0.0)])
        kept["offset"] = np.concatenate([kept["offset"], offset])
        kept["place"][new] = len(kept["offset"]) - len(new) + np.arange(len(new))
        return True

    def log_prior(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log π (sets,) and its gradient (sets, q) at θ (sets, q)."""
        model = self.model
        if model.gaussian_prior is not None:
            return model.gaussian_prior.at(theta)

        def some(sets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return model.compiler(kernels.log_prior_and_gradient, model.density.structure, theta[sets])

        return map_rows(some, len(theta), (1, _sets_at_once(theta.shape[1])), IN_TURN)

    def derivatives_at(self, eta: np.ndarray, codes: np.ndarray, inputs: tuple[np.ndarray, ...]) -> RowDerivatives:
        """g and its derivatives at η (rows, p)."""
        return self.model.derivatives_at(eta, codes, inputs)

    def gradient_at(self, eta: np.ndarray, codes: np.ndarray, inputs: tuple[np.ndarray, ...]) -> np.ndarray:
        """The gradient of g alone, (rows, p)."""
        return self.model.gradient_at(eta, codes, inputs)

    def block(self, positions: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> SparseBlock:
        """Rows of the table."""
        self.has(positions)
        kept, density = self._kept, self.model.density
        place = kept["place"][positions]
        inputs = tuple(density.data[i][positions] for i in self.model.map.inputs)
        own = (kept["columns"][place], kept["matrix"][place], kept["offset"][place])
        return SparseBlock(self.model.dimension, *own, weights, codes, inputs)

    def order(self, *positions: np.ndarray) -> Elimination:
        """How curvatures of the prior and of some rows are factored; the last few are remembered."""
        rows = np.unique(np.concatenate(positions))
        for known, order in self.orders:
            if np.array_equal(known, rows):
                return order
        q = self.model.dimension
        pairs = np.concatenate([self.prior.pairs[q:], self.block(rows, rows, rows).pairs])
        order = Elimination.of(np.unique(np.sort(pairs, axis=1), axis=0), q)
        self.orders.appendleft((rows, order))
        return order


def _wide(values: np.ndarray, width: int, fill: float) -> np.ndarray:
    """With so many entries along the last axis."""
    missing = width - values.shape[-1]
    return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, missing)], constant_values=fill) if missing else values


def _padded(vectors: np.ndarray) -> np.ndarray:
    """So many vectors as are compiled for."""
    return np.pad(vectors, ((0, _VECTORS_AT_ONCE - len(vectors)), (0, 0)))
