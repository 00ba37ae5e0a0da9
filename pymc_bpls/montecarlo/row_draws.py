"""Importance sampling in the coordinates of D's rows, where these are fewer than parameters and the prior is Gaussian.

θ ~ p_k is u ~ p_k(u) ∝ p(D | u)^k N(u; 0, I) with the prior's own draw beside it (`engine.rows.row_space`): weights, moves and
constants need u alone, so that a model of thousands of features is sampled in as many dimensions as there are labeled rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from pymc_bpls.approximations.gaussian import Gaussian
from pymc_bpls.engine.engine import Engine
from pymc_bpls.engine.rows.affine_rows import Block
from pymc_bpls.engine.rows.reduced_rows import ReducedRows
from pymc_bpls.model.data.table import Labeled

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

    def log_density(self, points: np.ndarray, k: int) -> np.ndarray:
        """log p_k but for constants at coordinates (S, d)."""
        return self.rows.gaussian_prior.at(points)[0] + k * self.log_lik_labeled(self.labeled, points)

    def gradient(self, points: np.ndarray, k: int) -> np.ndarray:
        """Of log p_k, at coordinates (S, d)."""
        block, gradients = self.rows.labeled_block(self.labeled, k), self.rows.gaussian_prior.at(points)[1]
        for first, some in zip(self._starts(block, points), self._parts(block, points), strict=True):
            slopes = self.rows.gradient_at(*self._predictors(block, some)).reshape(len(some), *block.offset.shape)
            gradients[first : first + len(some)] += (block.weights[:, None] * slopes).reshape(len(some), -1) @ block.flat
        return gradients

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


def hamiltonian_moves(
    target: RowTarget,
    k: int,
    points: np.ndarray,
    factor: np.ndarray,
    step: float,
    rng: np.random.Generator,
    *,
    n: int,
    steps: int,
) -> tuple[np.ndarray, np.ndarray, float]:
    """n transitions of `steps` leapfrog steps each, as `moves.hamiltonian_moves` makes them of θ, of coordinates (S, d)."""
    value, gradient = target.log_density(points, k), target.gradient(points, k)
    accepted = 0.0
    for _ in range(n):
        momentum = rng.normal(size=points.shape)
        size = step * rng.uniform(0.7, 1.3, size=(len(points), 1))
        at, last, end_gradient = points, momentum, gradient
        for _ in range(steps):
            last = last + 0.5 * size * (end_gradient @ factor)
            at = at + (size * last) @ factor.T
            end_gradient = target.gradient(at, k)
            last = last + 0.5 * size * (end_gradient @ factor)
        end_value = target.log_density(at, k)
        gain = end_value - value - 0.5 * ((last**2).sum(axis=1) - (momentum**2).sum(axis=1))
        taken = np.log(rng.uniform(size=len(points))) < gain
        points, gradient = (np.where(taken[:, None], new, old) for new, old in ((at, points), (end_gradient, gradient)))
        value = np.where(taken, end_value, value)
        accepted += taken.mean() / n
    return points, value, accepted
