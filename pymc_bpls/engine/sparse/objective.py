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

    def take(self, sets: np.ndarray) -> SparseObjective:
        """For some of the candidates."""
        assert self.pairs is not None
        made = {name: self.__dict__[name] for name in ("_sums",) if name in self.__dict__}
        some = replace(self, pairs=self.pairs.take(sets))
        some.__dict__.update(made)
        return some

    @cached_property
    def _sums(self) -> tuple[np.ndarray, sp.csr_array]:
        """Slots of D's pairs, (n · T,), and the matrix (S + 1, n · T) that adds up what goes to each slot."""
        slots = self.labeled.slots(self.order).ravel()
        ones = np.ones(len(slots))
        return slots, sp.csr_array((ones, (slots, np.arange(len(slots)))), shape=(self.order.size, len(slots)))

    @cached_property
    def _prior_slots(self) -> np.ndarray:
        pairs = self.rows.prior.pairs
        return self.order.slots(pairs[:, 0], pairs[:, 1])

    def at(self, theta: np.ndarray) -> SparsePoint:
        """Value, gradient and derivatives at θ (q, sets)."""
        D, model, sets = self.labeled, self.rows.model, theta.shape[1]
        n, p = D.offset.shape
        eta = (D.design @ theta).reshape(n, p, sets).transpose(2, 0, 1) + D.offset
        every, codes = eta.reshape(-1, p), np.tile(D.codes, sets)
        inputs = tuple(np.tile(values, (sets, *(1,) * (values.ndim - 1))) for values in D.inputs)
        if self.pairs is not None:
            every, codes = np.concatenate([every, self.pairs.eta(theta)]), np.concatenate([codes, self.pairs.codes])
            inputs = tuple(np.concatenate(both) for both in zip(inputs, self.pairs.inputs, strict=True))
        found = model.derivatives_at(every, codes, inputs)
        split = sets * n
        labeled = RowDerivatives(*(part[:split].reshape(sets, n, *part.shape[1:]) for part in found))
        slopes = (labeled.gradient * D.weights[:, None]).reshape(sets, n * p).T
        log_prior, prior_gradient = self.rows.log_prior(theta)
        gradient = D.design.T @ slopes + prior_gradient
        log_lik = labeled.value @ D.weights
        value, pseudo = log_lik + log_prior, None
        if self.pairs is not None:
            pseudo = RowDerivatives(*(part[split:] for part in found))
            value = value + pseudo.value
            gradient = gradient + (self.pairs.design.T @ _by_set(pseudo.gradient)).toarray()
        return SparsePoint(theta, value, gradient, log_lik, labeled, pseudo, log_prior)

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
        values = self._sums[1] @ D.curvature(inner).reshape(sets, -1).T
        values[self._prior_slots] += self.rows.prior.values(point.theta)
        if self.pairs is not None and point.pseudo is not None:
            slots, own = self.pairs.slots(self.order), self.pairs.curvature(-point.pseudo.hessian)
            np.add.at(values, (slots.ravel(), np.repeat(np.arange(sets), slots.shape[1])), own.ravel())
        values[-1] = 0.0
        return values


def _by_set(gradient: np.ndarray) -> sp.csc_array:
    """Gradients (sets, p) of each candidate's own row as a matrix (sets · p, sets)."""
    sets, p = gradient.shape
    return sp.csc_array((gradient.ravel(), (np.arange(sets * p), np.repeat(np.arange(sets), p))), shape=(sets * p, sets))
