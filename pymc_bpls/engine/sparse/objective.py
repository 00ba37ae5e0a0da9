"""S_i(θ) for some candidates i at once, with curvatures as what is not zero of them, in the slots of an elimination."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp

from pymc_bpls.engine.newton.verification import well_explained
from pymc_bpls.engine.rows.objective import RowObjective, RowPoint
from pymc_bpls.engine.sparse.curvature import SparseCurvature
from pymc_bpls.engine.sparse.elimination import Elimination, Factor
from pymc_bpls.engine.sparse.rows import SparseBlock, SparseRows

_CHORDS = 12


@dataclass(frozen=True)
class SparseFactors:
    """The factors H_i = L D L' of some candidates."""

    factor: Factor

    @property
    def log_det(self) -> np.ndarray:
        """log det H_i (sets,)."""
        return self.factor.log_det

    @property
    def definite(self) -> np.ndarray:
        """Which are positive definite and well conditioned (sets,)."""
        return np.asarray(well_explained(self.factor.shares))

    def solve(self, vectors: np.ndarray) -> np.ndarray:
        """H_i⁻¹ times a vector of each candidate (sets, q)."""
        return self.factor.solve(vectors.T).T

    def take(self, sets: np.ndarray) -> SparseFactors:
        """Of some of the candidates."""
        return SparseFactors(self.factor.take(sets))


@dataclass(frozen=True, kw_only=True)
class SparseObjective(RowObjective):
    """With curvatures in the slots of an `order`, that of log π among them."""

    model: SparseRows
    labeled: SparseBlock
    order: Elimination
    pairs: SparseBlock | None = None

    kept: ClassVar[slice] = slice(0)

    @property
    def chords(self) -> int:
        """A factor takes about as long as so many gradients."""
        return _CHORDS

    def beside(self, pairs: SparseBlock) -> Self:
        """With other candidates, and what is made of D already."""
        some = replace(self, pairs=pairs)
        some.__dict__["_assembly"] = self._assembly
        return some

    def factors(self, point: RowPoint) -> SparseFactors:
        """Of −∇²S at a point."""
        return SparseFactors(self.order.factor(self._curvatures(point)))

    def curvature(self, point: RowPoint) -> SparseCurvature:
        """−∇²S at the point of a single set."""
        return SparseCurvature(self.order, self._curvatures(point)[:, 0])

    @property
    def floats_a_candidate(self) -> int:
        """How many numbers a candidate of a chunk takes about."""
        pairs = sum(stage.beside.shape[0] * (1 + stage.beside.shape[1]) ** 2 for stage in self.order.stages)
        core, width = len(self.order.core), self.labeled.matrix.shape[2]
        return int(3 * pairs + 3 * core**2 + 8 * self.order.q + 2 * len(self.labeled.codes) * width**2)

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
        pairs = self.model.prior.pairs
        return self.order.slots(pairs[:, 0], pairs[:, 1])

    def _curvatures(self, point: RowPoint) -> np.ndarray:
        """−∇²S in slots (S + 1, sets)."""
        D, sets = self.labeled, len(point.theta)
        inner = -D.weights[:, None, None] * point.labeled.hessian
        values = self._assembly @ np.ascontiguousarray(inner.reshape(sets, -1).T)
        values[self._prior_slots] += self.model.prior.values(point.theta)
        if self.pairs is not None and point.pseudo is not None:
            slots, own = self.pairs.slots(self.order), self.pairs.curvature(-point.pseudo.hessian)
            np.add.at(values, (slots.ravel(), np.repeat(np.arange(sets), slots.shape[1])), own.ravel())
        values[-1] = 0.0
        return values
