"""A density in its linear predictors: η_j = A_j θ + b_j with few entries, ℓ_j = g(η_j), and a prior of θ."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from weakref import ref

import numpy as np

from pymc_bpls.compute.chunks import map_rows
from pymc_bpls.compute.compiler import Compiler, Kernel
from pymc_bpls.compute.threads import IN_TURN
from pymc_bpls.engine.newton import kernels
from pymc_bpls.engine.priors.gaussian_priors import GaussianPrior, find_gaussian_prior
from pymc_bpls.engine.rows.design import Design
from pymc_bpls.engine.rows.row_table import RowTable

if TYPE_CHECKING:
    from pymc_bpls.model.data.table import Labeled
    from pymc_bpls.model.density import Density
    from pymc_bpls.model.graphs.affine_maps import AffineMap

_ROWS_AT_ONCE = 1024
_DESIGN_BYTES = 2**28
# pieces of these lengths alone, whatever number of rows or of θ there is, so that few functions are compiled
_FEW_ROWS, _MANY_ROWS = 2**9, 2**11
_PRIORS, _FEW_PRIORS, _MANY_PRIORS, _ENTRIES, _FEW_PARAMETERS = 2**6, 2**10, 2**11, 2**16, 32
_MOST_VALUES, _MOST_DERIVATIVES, _MOST_TABLES = 2**18, 2**15, 8


class RowDerivatives(NamedTuple):
    """Of g at some η: value (…,), gradient (…, p) and Hessian (…, p, p)."""

    value: np.ndarray
    gradient: np.ndarray
    hessian: np.ndarray


@dataclass(frozen=True)
class Block:
    """Rows with their classes, weights and design, as the derivatives take them.

    In the coordinates of a row space, `residual` is R (n, p, p) of each row: its predictors are `matrix` u + R e + `offset`,
    e standard normal and of that row alone. In the parameters themselves there is none.
    """

    matrix: np.ndarray
    offset: np.ndarray
    weights: np.ndarray
    codes: np.ndarray
    inputs: tuple[np.ndarray, ...]
    residual: np.ndarray | None = None

    @property
    def flat(self) -> np.ndarray:
        """A as one matrix (n · p, q)."""
        return self.matrix.reshape(-1, self.matrix.shape[-1])

    @property
    def vectors(self) -> np.ndarray:
        """A' of all rows, a predictor a row (n · p, q)."""
        return self.flat

    def eta(self, theta: np.ndarray) -> np.ndarray:
        """Each row's η (n, p) at its own θ (n, q)."""
        return self.own(theta[:, None])[:, :, 0] + self.offset

    def own(self, vectors: np.ndarray) -> np.ndarray:
        """A_j v of each row's own vectors (n, R, q): shape (n, p, R)."""
        return self.matrix @ vectors.transpose(0, 2, 1)

    def own_back(self, slopes: np.ndarray) -> np.ndarray:
        """A_j' s_j of each row's slopes (n, p): shape (n, q)."""
        return np.asarray((slopes[:, None, :] @ self.matrix)[:, 0])

    def every_eta(self, theta: np.ndarray) -> np.ndarray:
        """η (sets, n, p) of all rows at each θ (sets, q)."""
        return (theta @ self.flat.T + self.offset.ravel()).reshape(-1, *self.offset.shape)

    def back(self, slopes: np.ndarray) -> np.ndarray:
        """Σ_j A_j' s_j of slopes (sets, n, p): shape (sets, q)."""
        return np.asarray(slopes.reshape(len(slopes), -1) @ self.flat)

    def take(self, rows: np.ndarray) -> Block:
        """Some of its rows."""
        inputs = tuple(values[rows] for values in self.inputs)
        residual = None if self.residual is None else self.residual[rows]
        return Block(self.matrix[rows], self.offset[rows], self.weights[rows], self.codes[rows], inputs, residual)


@dataclass(frozen=True)
class AffineRows:
    """A density whose rows have linear predictors, in its parameters θ (q,).

    `ReducedRows` are the same in the coordinates of the rows of D. In another process they have no table: rows go there as
    blocks.
    """

    density: Density
    compiler: Compiler

    #: What the log integral of a density, and log det of a Hessian, are in θ beyond what they are in these coordinates.
    log_volume: ClassVar[float] = 0.0
    log_det_prior: ClassVar[float] = 0.0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "density": self.density.without_rows}

    @property
    def dimension(self) -> int:
        """Of the coordinates: q."""
        return self.density.dimension

    @property
    def variable_sizes(self) -> tuple[int, ...]:
        """Of the variables that the coordinates consist of, in their order."""
        return self.density.parameters.sizes

    @property
    def base(self) -> np.ndarray:
        """The coordinates of the model's start."""
        return self.density.start

    def moves(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors (V, q) of coordinates as those of θ."""
        return vectors

    def theta(self, points: np.ndarray) -> np.ndarray:
        """θ (S, q) at coordinates (S, q): the same."""
        return points

    def _run(self, kernel: Kernel, *arrays: Any) -> Any:
        return self.compiler(kernel, self.density.structure, *arrays)

    def _run_prior(self, kernel: Kernel, *arrays: Any) -> Any:
        return self.compiler(kernel, self.density.structure.of_prior, *arrays)

    @property
    def map(self) -> AffineMap:
        """From θ and a row to the row's linear predictors."""
        assert self.density.structure.affine_map is not None
        return self.density.structure.affine_map

    def predictors(self, theta: np.ndarray, rows: Any) -> np.ndarray:
        """η (S, n, p) of some rows, as the density takes them, at θ (S, q), linear there or not."""
        return self._run(kernels.predictors, theta, rows)

    @cached_property
    def design(self) -> Design:
        """A_j = ∂η_j/∂θ (p, q) and b_j = η_j(0) (p,) of the rows in use."""
        n, p, q = len(self.density.data[0]), self.map.size, self.density.dimension
        some_rows = 1 << (max(1, _DESIGN_BYTES // (8 * p * q)).bit_length() - 1)
        size = min(_ROWS_AT_ONCE, some_rows, 1 << (max(n, 2) - 1).bit_length())

        here = ref(self)  # a design that held its rows would keep both until the garbage collector comes

        def make(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            model = here()
            assert model is not None
            return map_rows(lambda rows: model._made(positions[rows]), len(positions), (size, size), IN_TURN)

        return Design.empty(make, n, p, self.dimension)

    def _made(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A_j and b_j of some rows."""
        return self._run(kernels.design, self.density.start, self.density.take(positions))

    def keep(self, positions: np.ndarray) -> None:
        """Make the design of these rows at once, of which `block` then takes some."""
        self.design.keep(positions)

    def block(self, positions: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Block:
        """Rows of the table."""
        matrix, offset = self.design.take(positions)
        inputs = tuple(self.density.data[i][positions] for i in self.map.inputs)
        return Block(matrix, offset, weights, codes, inputs)

    def labeled_block(self, labeled: Labeled, k: float = 1.0) -> Block:
        """D, its weights times k."""
        return self.block(labeled.positions, labeled.codes, k * labeled.weights)

    def log_lik_at(self, eta: np.ndarray, codes: np.ndarray, inputs: tuple[np.ndarray, ...]) -> np.ndarray:
        """g at η (rows, p), shape (rows,)."""
        if (table := self._table_for(eta, _MOST_VALUES)) is not None:
            return table.value(eta[:, 0], codes)
        return self._map_rows(kernels.log_lik_at, eta, codes, *inputs)

    def derivatives_at(self, eta: np.ndarray, codes: np.ndarray, inputs: tuple[np.ndarray, ...]) -> RowDerivatives:
        """g and its derivatives at η (rows, p)."""
        if (table := self._table_for(eta, _MOST_DERIVATIVES)) is not None:
            value, slope, bend = table.derivatives(eta[:, 0], codes)
            return RowDerivatives(value, slope[:, None], bend[:, None, None])
        return RowDerivatives(*self._map_rows(kernels.derivatives_at, eta, codes, *inputs))

    def gradient_at(self, eta: np.ndarray, codes: np.ndarray, inputs: tuple[np.ndarray, ...]) -> np.ndarray:
        """The gradient of g alone, (rows, p)."""
        if (table := self._table_for(eta, _MOST_VALUES)) is not None:
            return table.slope(eta[:, 0], codes)[:, None]
        return self._map_rows(kernels.gradient_at, eta, codes, *inputs)

    @cached_property
    def row_table(self) -> RowTable | None:
        """g of every class as a table, where a row has one predictor and no other input, and g is smooth."""
        if self.map.size != 1 or self.map.inputs or len(self.density.class_values) > _MOST_TABLES:
            return None
        tables = self.density.structure.store.tables
        if "row" not in tables:
            tables["row"] = self._make_row_table()
        return tables["row"]

    def _make_row_table(self) -> RowTable | None:
        def exact(f: np.ndarray, code: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            at = self._in_pieces(kernels.derivatives_at, _FEW_ROWS, f[:, None], np.full(len(f), code))
            return at[0], at[1][:, 0], at[2][:, 0, 0]

        return RowTable.of(exact, len(self.density.class_values))

    def _table_for(self, eta: np.ndarray, most: int) -> RowTable | None:
        """The table, where it has all of η (rows, p), and these are no more than it takes longer for than JAX."""
        if len(eta) > most or self.row_table is None or not self.row_table.holds(eta):
            return None
        return self.row_table

    def _map_rows(self, kernel: Kernel, *arrays: np.ndarray) -> Any:
        return self._in_pieces(kernel, _FEW_ROWS if len(arrays[0]) <= _FEW_ROWS else _MANY_ROWS, *arrays)

    def _in_pieces(self, kernel: Kernel, size: int, *arrays: np.ndarray) -> Any:
        return map_rows(lambda rows: self._run(kernel, *(array[rows] for array in arrays)), len(arrays[0]), (size, size))

    def _prior_in_pieces(self, kernel: Kernel, size: int, theta: np.ndarray) -> Any:
        return map_rows(lambda rows: self._run_prior(kernel, theta[rows]), len(theta), (size, size))

    def log_prior(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log π (sets,) and its gradient (sets, q) at θ (sets, q)."""
        if self.gaussian_prior is not None:
            return self.gaussian_prior.at(theta)
        if len(theta) > _FEW_PRIORS:
            size = _power_of_two(_ENTRIES // theta.shape[1], _MANY_PRIORS)
            return self._prior_in_pieces(kernels.log_prior_and_gradient, size, theta)
        return self.log_prior_at_few(theta)

    def log_prior_at_few(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log π (sets,) and its gradient (sets, q) at a few θ (sets, q), by the model's functions whatever the prior is."""
        return self._of_priors(kernels.log_prior_and_gradient, theta)

    def prior_precision(self, theta: np.ndarray) -> np.ndarray:
        """−∇² log π at θ (sets, q): shape (sets, q, q), or (q, q) under Gaussian priors, where it is the same for all θ."""
        if self.gaussian_prior is not None:
            return self.gaussian_prior.precision
        return -self._of_priors(kernels.log_prior_hessian, theta)

    def _of_priors(self, kernel: Kernel, theta: np.ndarray) -> Any:
        n, q = theta.shape
        alone = n == 1 and q > _FEW_PARAMETERS  # as Newton's method asks for it
        return self._prior_in_pieces(kernel, 1 if alone else _power_of_two(_ENTRIES // q**2, _PRIORS), theta)

    @cached_property
    def gaussian_prior(self) -> GaussianPrior | None:
        """The prior, where it is one quadratic function: no mixture, of which probes may see one component."""
        density = self.density
        if density.components.names:
            return None
        return find_gaussian_prior(density.start, density.parameters.sizes, self.log_prior_at_few, self.prior_products)

    def prior_products(self, theta: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """∇² log π at θ (q,) times each of the vectors (V, q)."""
        size = _power_of_two(_ENTRIES // self.density.dimension, _PRIORS)

        def some(rows: np.ndarray) -> np.ndarray:
            return self._run_prior(kernels.log_prior_products, theta, vectors[rows])

        return map_rows(some, len(vectors), (size, size))


def _power_of_two(wanted: int, most: int) -> int:
    """The largest power of two that is neither more than `wanted`, but at least 1, nor more than `most`."""
    return 1 << (max(1, min(wanted, most)).bit_length() - 1)
