"""S_i(θ) = Σ_D w_j ℓ_j + ℓ_i + log π and its derivatives for some candidates i at once, by what is not zero of them.

The same as `modes.objective`, with curvatures in the slots of an elimination in place of matrices. θ is (q, sets).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from pymc_bpls.engine.rows.affine_rows import RowDerivatives
from pymc_bpls.engine.sparse.curvature import SparseCurvature
from pymc_bpls.engine.sparse.elimination import Elimination
from pymc_bpls.engine.sparse.rows import SparseBlock, SparseRows


@dataclass(frozen=True)
class SparsePoint:
    """S (sets,), its gradient (q, sets) and what its curvature is made of."""

    theta: np.ndarray
    value: np.ndarray
    gradient: np.ndarray
    log_lik: np.ndarray
    labeled: RowDerivatives
    pseudo: RowDerivatives | None
    log_prior: np.ndarray


@dataclass(frozen=True)
class SparseObjective:
    """Of D alone, or for candidates `pairs`, one each set."""

    rows: SparseRows
    order: Elimination
    labeled: SparseBlock
    pairs: SparseBlock | None = None

    def beside(self, pairs: SparseBlock) -> SparseObjective:
        """For candidates, one each set, with what is made of D already."""
        some = replace(self, pairs=pairs)
        some.__dict__["_assembly"] = self._assembly
        return some

    def take(self, sets: np.ndarray) -> SparseObjective:
        """For some of the candidates."""
        assert self.pairs is not None
        return self.beside(self.pairs.take(sets))

    @cached_property
    def _assembly(self) -> sp.csr_array:
        """The matrix (S + 1, n · p · p) that makes Σ_j A_j' M_j A_j in slots of all M_j."""
        D, slots = self.labeled, self.labeled.slots(self.order)
        n, p, width = D.matrix.shape
        first, second = np.triu_indices(width)
        entries = []
        for a, b in np.ndindex(p, p):
            products = D.matrix[:, a, first] * D.matrix[:, b, second]
            row, pair = np.nonzero(products)
            entries.append((products[row, pair], slots[row, pair], (row * p + a) * p + b))
        values, slot, place = (np.concatenate(parts) for parts in zip(*entries, strict=True))
        return sp.csr_array((values, (slot, place)), shape=(self.order.size, n * p * p))

    @cached_property
    def _prior_slots(self) -> np.ndarray:
        pairs = self.rows.prior.pairs
        return self.order.slots(pairs[:, 0], pairs[:, 1])

    def at(self, theta: np.ndarray) -> SparsePoint:
        """Value, gradient and derivatives at θ (q, sets)."""
        sets, n = theta.shape[1], len(self.labeled.codes)
        found = self.rows.model.derivatives_at(*self._rows_at(theta))
        split = sets * n
        labeled = RowDerivatives(*(part[:split].reshape(sets, n, *part.shape[1:]) for part in found))
        log_prior, prior_gradient = self.rows.log_prior(theta)
        gradient = self._design_times(labeled.gradient) + prior_gradient
        log_lik = labeled.value @ self.labeled.weights
        value, pseudo = log_lik + log_prior, None
        if self.pairs is not None:
            pseudo = RowDerivatives(*(part[split:] for part in found))
            value = value + pseudo.value
            gradient = self.pairs.added(gradient, pseudo.gradient)
        return SparsePoint(theta, value, gradient, log_lik, labeled, pseudo, log_prior)

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """∇S alone at θ (q, sets)."""
        n, p = self.labeled.offset.shape
        eta, codes, inputs = self._rows_at(theta)
        slopes = self.rows.model.gradient_at(eta, codes, inputs)
        split = theta.shape[1] * n
        gradient = self._design_times(slopes[:split].reshape(-1, n, p))
        gradient += self.rows.log_prior(theta)[1]
        return gradient if self.pairs is None else self.pairs.added(gradient, slopes[split:])

    def _rows_at(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
        """η (rows, p) of D's rows, one θ after the other, and then of each candidate, with codes and inputs."""
        D, sets = self.labeled, theta.shape[1]
        n, p = D.offset.shape
        eta = ((D.design @ theta).reshape(n, p, sets).transpose(2, 0, 1) + D.offset).reshape(-1, p)
        codes = np.tile(D.codes, sets)
        inputs = tuple(np.tile(values, (sets, *(1,) * (values.ndim - 1))) for values in D.inputs)
        if self.pairs is None:
            return eta, codes, inputs
        inputs = tuple(np.concatenate(both) for both in zip(inputs, self.pairs.inputs, strict=True))
        return np.concatenate([eta, self.pairs.eta(theta)]), np.concatenate([codes, self.pairs.codes]), inputs

    def _design_times(self, slopes: np.ndarray) -> np.ndarray:
        """Σ_j w_j A_j' s_j of slopes (sets, n, p): shape (q, sets)."""
        weighted = slopes * self.labeled.weights[:, None]
        return np.asarray(self.labeled.design.T @ weighted.reshape(len(slopes), -1).T)

    def curvature_at(self, theta: np.ndarray) -> SparseCurvature:
        """The same at one θ (q,)."""
        return SparseCurvature(self.order, self.curvature(self.at(theta[:, None]))[:, 0])

    @property
    def floats_a_candidate(self) -> int:
        """How many numbers a candidate of a chunk takes about."""
        pairs = sum(stage.beside.shape[0] * (1 + stage.beside.shape[1]) ** 2 for stage in self.order.stages)
        core, width = len(self.order.core), self.labeled.matrix.shape[2]
        return int(3 * pairs + 3 * core**2 + 8 * self.order.q + 2 * len(self.labeled.codes) * width**2)

    def curvature(self, point: SparsePoint) -> np.ndarray:
        """−∇²S in slots (S + 1, sets)."""
        D, sets = self.labeled, point.theta.shape[1]
        inner = -D.weights[:, None, None] * point.labeled.hessian
        values = self._assembly @ np.ascontiguousarray(inner.reshape(sets, -1).T)
        values[self._prior_slots] += self.rows.prior.values(point.theta)
        if self.pairs is not None and point.pseudo is not None:
            slots, own = self.pairs.slots(self.order), self.pairs.curvature(-point.pseudo.hessian)
            np.add.at(values, (slots.ravel(), np.repeat(np.arange(sets), slots.shape[1])), own.ravel())
        values[-1] = 0.0
        return values
