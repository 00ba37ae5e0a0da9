"""Importance sampling in the coordinates of D's rows, where these are fewer than parameters and the prior is Gaussian.

θ ~ p_k is u ~ p_k(u) ∝ p(D | u)^k N(u; 0, I) with the prior's own draw beside it (`engine.rows.row_space`): weights, moves and
constants need u alone, so that a model of thousands of features is sampled in as many dimensions as there are labeled rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import jax
import numpy as np

from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.engine.engine import Engine
from pymc_bpls.engine.rows.affine_rows import Block
from pymc_bpls.engine.rows.reduced_rows import ReducedRows
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.model.structure import Structure
from pymc_bpls.montecarlo.moves import STEPS, TRANSITIONS, keys_of, walks

_AT_ONCE = 2**18


@dataclass(frozen=True)
class RowTarget:
    """p_k in the coordinates of D's rows; what importance sampling asks of an engine."""

    rows: ReducedRows
    labeled: Labeled

    marginal: ClassVar[None] = None

    @classmethod
    def of(cls, engine: Engine, labeled: Labeled) -> RowTarget | None:
        """None where parameters are as few as rows, or the prior is not Gaussian."""
        rows = engine.coordinates(labeled) if engine.marginal is None else None
        return cls(rows, labeled) if isinstance(rows, ReducedRows) else None

    def within(self, q: Gaussian) -> Gaussian | None:
        """A Gaussian of θ as one of the coordinates; None where it is in others."""
        if q.rows is None or q.rows.loadings is not self.rows.loadings:
            return None
        return replace(q, rows=None, shape=None, sites=None)

    def theta(self, points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draws θ (S, q) at those of the coordinates (S, d), with the prior's beside them."""
        space = self.rows.space
        return space.draws(points, rng.normal(size=(len(points), space.basis.shape[1])))

    def log_prior(self, points: np.ndarray) -> np.ndarray:
        """log π at coordinates (S, d), scaled so that integrals over these are integrals over θ."""
        return self.rows.gaussian_prior.at(points)[0] + self.rows.log_volume

    def log_lik_labeled(self, labeled: Labeled, points: np.ndarray) -> np.ndarray:
        """ℓ_D at coordinates (S, d)."""
        block = self.rows.labeled_block(labeled)
        return np.concatenate([self._log_lik(block, some) for some in self._parts(block, points)])

    def moved(
        self, k: int, points: np.ndarray, factor: np.ndarray, step: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Coordinates (S, d) after Hamiltonian transitions, log p_k (S,) but for constants, and the share that was accepted."""
        block, prior, density = self.rows.labeled_block(self.labeled, k), self.rows.gaussian_prior, self.rows.density
        points, value, accepted = self.rows.model.compiler(
            moves_in_rows,
            density.structure,
            points,
            factor,
            np.float64(step),
            keys_of(len(points), rng),
            (prior.start, prior.slope, prior.precision),
            (block.matrix, block.offset, block.weights),
            (block.codes, *block.inputs),
            n=TRANSITIONS,
            steps=STEPS,
        )
        return points, value, float(accepted.mean())

    def _log_lik(self, block: Block, points: np.ndarray) -> np.ndarray:
        return self.rows.log_lik_at(*self._predictors(block, points)).reshape(len(points), -1) @ block.weights

    def _predictors(self, block: Block, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
        """η (S n, p), classes and inputs of D's rows at each of the coordinates (S, d)."""
        count, p = len(points), block.offset.shape[1]
        eta = (points @ block.flat.T).reshape(count, *block.offset.shape) + block.offset
        inputs = tuple(np.tile(values, (count, *(1,) * (values.ndim - 1))) for values in block.inputs)
        return eta.reshape(-1, p), np.tile(block.codes, count), inputs

    def _parts(self, block: Block, points: np.ndarray) -> list[np.ndarray]:
        size = self._size(block)
        return [points[first : first + size] for first in self._starts(block, points)]

    def _starts(self, block: Block, points: np.ndarray) -> range:
        return range(0, len(points), self._size(block))

    def _size(self, block: Block) -> int:
        return max(1, _AT_ONCE // block.offset.size)


def moves_in_rows(
    structure: Structure,
    points: jax.Array,
    factor: jax.Array,
    step: jax.Array,
    keys: jax.Array,
    prior: tuple[jax.Array, ...],
    design: tuple[jax.Array, ...],
    rows: tuple[jax.Array, ...],
    *,
    n: int,
    steps: int,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Hamiltonian moves in the coordinates of labeled rows.

    `prior` is the quadratic's centre, slope and precision, `design` is D's matrix (n, p, d), offset (n, p) and weights (n,).
    """
    (start, slope, precision), (matrix, offset, weights) = prior, design

    def log_density(point: jax.Array) -> jax.Array:
        move = point - start
        log_lik = jax.vmap(structure.log_lik_at)(matrix @ point + offset, *rows)
        return weights @ log_lik + slope @ move - 0.5 * move @ precision @ move

    return walks(jax.value_and_grad(log_density), points, factor, step, keys, n=n, steps=steps)
