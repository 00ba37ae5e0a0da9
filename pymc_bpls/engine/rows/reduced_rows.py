"""A density with linear predictors and a Gaussian prior, in the coordinates of the rows of D (`row_space`).

What is an `AffineRows` in the parameters θ is a `ReducedRows` here: rows as blocks, a prior, the likelihood in predictors.
Modes, refits and Gaussians are the same code on either. A row beside D has, besides its loadings on the coordinates, a residual
of its own; `with_own` makes coordinates of it, for work on D and one row more.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from pymc_bpls.compute.compiler import Compiler
from pymc_bpls.compute.threads import for_matrices_of
from pymc_bpls.engine.priors.gaussian_priors import GaussianPrior
from pymc_bpls.engine.priors.precisions import Diagonal, Precision
from pymc_bpls.engine.rows.affine_rows import AffineRows, Block, RowDerivatives
from pymc_bpls.engine.rows.loadings import Loadings
from pymc_bpls.engine.rows.row_space import RowSpace, residuals

if TYPE_CHECKING:
    from pymc_bpls.model.data.table import Labeled
    from pymc_bpls.model.density import Density
    from pymc_bpls.model.graphs.affine_maps import AffineMap

_REMEMBERED = 2
_CHEAP = 64 * 2**20


@dataclass(frozen=True)
class ReducedRows:
    """The rows `model` in the coordinates of `space`, and in `own` more that one row beside D has to itself, 0 or p."""

    model: AffineRows
    space: RowSpace
    loadings: Loadings
    own: int = 0

    @classmethod
    def spanned_by(cls, model: AffineRows, labeled: Labeled) -> ReducedRows:
        """In the coordinates of D's rows.

        Raises
        ------
        LinAlgError
            The prior's precision is not positive definite, flat coordinates apart.
        """
        assert model.gaussian_prior is not None
        space = RowSpace.spanned_by(model.gaussian_prior, model.design.take(np.unique(labeled.positions))[0])
        return cls(model, space, Loadings(model.design, space))

    @property
    def density(self) -> Density:
        """In θ."""
        return self.model.density

    @property
    def compiler(self) -> Compiler:
        """What compiles for it."""
        return self.model.compiler

    @property
    def map(self) -> AffineMap:
        """From θ and a row to the row's linear predictors."""
        return self.model.map

    @property
    def dimension(self) -> int:
        """Of the coordinates."""
        return self.space.dimension + self.own

    @property
    def log_volume(self) -> float:
        """What the log integral of a density is in θ beyond what it is in these coordinates."""
        return self.space.log_volume - 0.5 * self.own * np.log(2 * np.pi)

    @property
    def log_det_prior(self) -> float:
        """What log det of a Hessian is in θ beyond what it is in these coordinates."""
        return self.space.log_det_prior

    def theta(self, points: np.ndarray) -> np.ndarray:
        """θ (S, q) at coordinates (S, d)."""
        return self.space.theta(points)

    def point_beside(self, theta: np.ndarray, position: int) -> np.ndarray:
        """θ (q,) as coordinates (d + p,), with those of its own that a row of the table has."""
        row, inside = np.array([position]), self.space.points(theta[None])
        block = self.block(row, row, row)
        matrix, offset = self.model.design.take(row)
        assert block.residual is not None
        left = matrix[0] @ theta + offset[0] - block.matrix[0] @ inside[0] - block.offset[0]
        return np.append(inside, np.linalg.pinv(block.residual[0]) @ left)

    @property
    def with_own(self) -> ReducedRows:
        """With coordinates e (p,) of a row beside D."""
        return replace(self, own=self.map.size)

    @cached_property
    def gaussian_prior(self) -> GaussianPrior:
        """log π(θ) by the coordinates, θ being the prior's mean in what they leave open."""
        prior, d = self.space.prior, self.dimension
        if not self.own:
            return prior
        precision = np.append(np.diag(prior.precision), np.ones(self.own))
        structure = Precision((Diagonal(np.arange(d), precision),), np.empty(0, dtype=int), np.empty((0, d)))
        return GaussianPrior(np.zeros(d), prior.value, np.append(prior.slope, np.zeros(self.own)), structure)

    def log_prior(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log π (sets,) and its gradient (sets, d)."""
        return self.gaussian_prior.at(points)

    def prior_precision(self, points: np.ndarray) -> np.ndarray:
        """−∇² log π (d, d)."""
        return self.gaussian_prior.precision

    def keep(self, positions: np.ndarray) -> None:
        """Make the design of these rows at once."""
        self.model.keep(positions)

    def has_cheaply(self, positions: np.ndarray) -> bool:
        """Whether the design of these rows is there, or small."""
        new = self.model.design.place[positions] < 0
        return bool(8 * new.sum() * self.map.size * self.model.dimension <= _CHEAP)

    def block(self, positions: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Block:
        """Rows of the table beside D, each with its residual."""
        matrix, spread, offset = self.loadings.take(positions, self.space.dimension)
        inputs = tuple(self.density.data[i][positions] for i in self.map.inputs)
        residual = residuals(spread, matrix, self.space.flat)
        if not self.own:
            return Block(matrix, offset, weights, codes, inputs, residual)
        return Block(np.concatenate([matrix, residual], axis=2), offset, weights, codes, inputs)

    def labeled_block(self, labeled: Labeled, k: float = 1.0) -> Block:
        """D, its weights times k."""
        positions = labeled.positions
        matrix, _, offset = self.loadings.take(positions, self.space.dimension)
        inputs = tuple(self.density.data[i][positions] for i in self.map.inputs)
        matrix = np.pad(matrix, ((0, 0), (0, 0), (0, self.own))) if self.own else matrix
        return Block(matrix, offset, k * labeled.weights, labeled.codes, inputs)

    def log_lik_at(self, eta: np.ndarray, codes: np.ndarray, inputs: tuple[np.ndarray, ...]) -> np.ndarray:
        """g at η (rows, p), shape (rows,)."""
        return self.model.log_lik_at(eta, codes, inputs)

    def derivatives_at(self, eta: np.ndarray, codes: np.ndarray, inputs: tuple[np.ndarray, ...]) -> RowDerivatives:
        """g and its derivatives at η (rows, p)."""
        return self.model.derivatives_at(eta, codes, inputs)

    def gradient_at(self, eta: np.ndarray, codes: np.ndarray, inputs: tuple[np.ndarray, ...]) -> np.ndarray:
        """The gradient of g alone, (rows, p)."""
        return self.model.gradient_at(eta, codes, inputs)


#: The coordinates that D is worked on in.
Coordinates = AffineRows | ReducedRows


@dataclass
class RowSpaces:
    """The spaces of the last few D; that of a D which holds an earlier one's rows grows from it, so that a run never jumps."""

    model: AffineRows
    last: list[tuple[np.ndarray, ReducedRows]] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def of(self, labeled: Labeled, *, remember: bool = True) -> ReducedRows | None:
        """D in the coordinates of its rows; None where these, with one more row, are no fewer than parameters.

        What is not to be remembered is nothing that a later D grows from.
        """
        p, q = self.model.map.size, self.model.dimension
        if (len(labeled) + 1) * p >= q or not self._admitted:
            return None
        rows = np.unique(labeled.positions)
        with self.lock, for_matrices_of((len(labeled) + 1) * p):
            for known, reduced in self.last:
                if np.array_equal(known, rows):
                    return reduced
            reduced = self._made(rows, remember)
            if remember:
                self.last = [(rows, reduced), *self.last[: _REMEMBERED - 1]]
            return reduced

    @cached_property
    def _admitted(self) -> bool:
        """Whether the prior is Gaussian, flat coordinates apart."""
        prior = self.model.gaussian_prior
        try:
            return prior is not None and prior.structure.whitening is not None
        except np.linalg.LinAlgError:
            return False

    def _made(self, rows: np.ndarray, extends: bool) -> ReducedRows:
        prior = self.model.gaussian_prior
        assert prior is not None
        for known, reduced in self.last:
            if np.isin(known, rows).all():
                space = reduced.space.grown(self.model.design.take(np.setdiff1d(rows, known))[0])
                if extends and reduced.loadings.space is reduced.space:
                    reduced.loadings.space = space
                    return ReducedRows(self.model, space, reduced.loadings)
                return ReducedRows(self.model, space, Loadings(self.model.design, space))
        space = RowSpace.spanned_by(prior, self.model.design.take(rows)[0])
        return ReducedRows(self.model, space, Loadings(self.model.design, space))
