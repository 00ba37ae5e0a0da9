"""The Gaussian of parameters of which rows touch few, by the sparse factor of its precision, and what it says of rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from pymc_bpls.approximations.gaussians.correlated import Correlated, Standardised
from pymc_bpls.approximations.gaussians.gaussian import Gaussian, Sites
from pymc_bpls.approximations.quadrature.tilted import ORDERS, Marginals
from pymc_bpls.engine.newton.verification import well_explained
from pymc_bpls.engine.sparse.curvature import SparseCurvature
from pymc_bpls.engine.sparse.elimination import Elimination, Factor
from pymc_bpls.engine.sparse.rows import SparseBlock, SparseRows

if TYPE_CHECKING:
    from pymc_bpls.model.data.table import Labeled

_NO_SPREAD = 1e-200


@dataclass(frozen=True)
class SparseState:
    """q for some sites: its precision and mean (q,), what pulls at it, and the marginals of every f."""

    precision: SparseCurvature
    mean: np.ndarray
    pull: np.ndarray
    marginals: Marginals


@dataclass(frozen=True)
class SparseField:
    """The Gaussian prior of a model with the predictors of some rows, in the slots of an `order`."""

    rows: SparseRows
    order: Elimination
    block: SparseBlock

    @cached_property
    def _squares(self) -> tuple[np.ndarray, np.ndarray, sp.csr_array]:
        """Slots and values (n, T) of a_j a_j', and the matrix (S + 1, n · T) that adds up what goes to each slot."""
        slots = self.block.slots(self.order)
        values = self.block.curvature(np.ones((len(slots), 1, 1)))
        ones = np.ones(slots.size)
        return slots, values, sp.csr_array((ones, (slots.ravel(), np.arange(slots.size))), shape=(self.order.size, slots.size))

    @cached_property
    def prior(self) -> np.ndarray:
        """The prior's precision in slots (S + 1,)."""
        prior, values = self.rows.prior, np.zeros(self.order.size)
        assert prior.constant is not None
        values[self.order.slots(prior.pairs[:, 0], prior.pairs[:, 1])] = prior.constant
        values[-1] = 0.0
        return values

    @cached_property
    def prior_pull(self) -> np.ndarray:
        """P m (q,)."""
        prior = self.rows.model.gaussian_prior
        assert prior is not None
        return prior.structure.times(prior.start[None])[0] + prior.slope

    def variances(self, factor: Factor) -> np.ndarray:
        """a_j'S a_j of every row (n,)."""
        slots, values, _ = self._squares
        first, second = np.triu_indices(self.block.columns.shape[1])
        return (factor.inverse()[:, 0][slots] * values * np.where(first == second, 1.0, 2.0)).sum(axis=1)

    def precision(self, tau: np.ndarray) -> SparseCurvature:
        """P + Σ τ_j a_j a_j'."""
        _, values, sums = self._squares
        total = self.prior + sums @ (tau[:, None] * values).ravel()
        total[-1] = 0.0
        return SparseCurvature(self.order, total)

    def gaussian(self, tau: np.ndarray, nu: np.ndarray) -> SparseState | None:
        """q with these sites (n,), or None where they leave no Gaussian."""
        precision, offset = self.precision(tau), self.block.offset[:, 0]
        if not well_explained(precision.factor.shares)[0]:
            return None
        pull = self.prior_pull + self.block.design.T @ (nu - tau * offset)
        mean = precision.solve(pull)
        variance = np.maximum(self.variances(precision.factor), _NO_SPREAD)
        return SparseState(precision, mean, pull, Marginals(self.block.design @ mean + offset, variance))


@dataclass(frozen=True)
class SparsePart:
    """N(mean, S) ≈ p_k of x, S⁻¹ being `precision`; `c` (L, n) is how D's tilted densities differ from Gaussians, or None.

    `correction` is what pairs of rows of different predictors add to `log_z` by that.
    """

    rows: SparseRows
    labeled: Labeled
    mean: np.ndarray
    precision: SparseCurvature
    log_z: float
    steps: int
    sites: Sites
    c: np.ndarray | None
    correction: float = 0.0

    @cached_property
    def _of_labeled(self) -> Correlated | None:
        """D's rows with their shapes."""
        if self.c is None:
            return None
        block = self.rows.block(self.labeled.positions, self.labeled.codes, self.labeled.weights)
        return Correlated.of(Standardised.of(block.design, self.precision.factor), self.c)

    def predictors(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean and sd (rows,) of rows' predictors, and the coefficients (rows, L) of their Hermite polynomials."""
        block = self.rows.block(positions, positions, np.ones(len(positions)))
        own = Standardised.of(block.design, self.precision.factor)
        correlated = self._of_labeled
        mean = block.design @ self.mean + block.offset[:, 0]
        if correlated is None:
            return mean, own.sd, np.zeros((len(positions), len(ORDERS)))
        shift, stretch, tilt = correlated.moments(own)
        return mean + own.sd * shift, own.sd * stretch, tilt

    @property
    def correction_of_pairs(self) -> float | None:
        """What the tilted densities' shapes add to log Z, pair by pair of rows; None where these are too many."""
        correlated = self._of_labeled
        return None if correlated is None else correlated.correction()

    def in_x(self) -> Gaussian:
        """With a matrix over all parameters, and moments to the second order."""
        covariance, correlated = np.linalg.inv(self.precision.matrix), self._of_labeled
        change = None if correlated is None else correlated.change
        if correlated is None or change is None:
            return Gaussian(self.mean, covariance, self.log_z, self.steps)
        design = self.rows.block(self.labeled.positions, self.labeled.codes, self.labeled.weights).design
        spread = covariance @ (design.T / correlated.rows.sd).toarray()
        return Gaussian(
            self.mean + spread @ change.pull, covariance + (spread @ change.pairs) @ spread.T, self.log_z, self.steps
        )

    def theta_draws(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Draws of x (*shape, q)."""
        count = int(np.prod(shape))
        white = rng.normal(size=(len(self.mean), count))
        return (self.mean + self.precision.factor.whiten_back(white).T).reshape(*shape, -1)
