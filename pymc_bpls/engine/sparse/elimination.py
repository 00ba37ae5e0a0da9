"""Sparse positive definite matrices of one pattern, factored by eliminating independent parameters together, many at once.

Parameters that do not touch each other, as the effects of different groups, are eliminated in one stage: each leaves the Schur
complement H_rr − h_r h_r'/d of its few neighbours r. Nested groups go in turn, a random walk every second step (cyclic
reduction), and what touches nearly everything is left to the end, a small dense core. Nothing is left out: this is the
Cholesky factorisation H = L D L' in another order (George and Liu 1981, chapters 5 and 8), with stages in place of columns, so
that NumPy does the work, for one matrix or for those of many candidates at once.

Values of a matrix are kept in slots (S,), one for each pair that is ever not zero, and one more for what is padded. Arrays of
several matrices are (S, sets).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse as sp

_SMALL_CORE, _DENSE = 48, 0.3
_CROWDED = 6.0


@dataclass(frozen=True)
class Stage:
    """Parameters `nodes` (E,) that do not touch each other, and their `neighbours` (E, D), q where there are fewer.

    `diagonal` (E,) and `beside` (E, D) are the slots of d and h; `between` (E, D, D) those of pairs of neighbours. The
    products h_a h_b of neighbours a ≤ b, (E · pairs,), add up in the slots `changed` by `gather`; values at neighbours,
    (E · D,), in the parameters `touched` by `spread`.
    """

    nodes: np.ndarray
    neighbours: np.ndarray
    diagonal: np.ndarray
    beside: np.ndarray
    between: np.ndarray
    changed: np.ndarray
    gather: sp.csr_array
    touched: np.ndarray
    spread: sp.csr_array


@dataclass(frozen=True)
class Elimination:
    """The order of elimination for one pattern of q parameters: stages, then a dense `core` (C,) with slots (C, C)."""

    q: int
    stages: tuple[Stage, ...]
    core: np.ndarray
    core_slots: np.ndarray
    keys: np.ndarray

    @classmethod
    def of(cls, pairs: np.ndarray, q: int) -> Elimination:
        """For matrices that are not zero at the pairs (E, 2), both ways, and on the diagonal."""
        order, neighbours, core = _order(pairs, q)
        keys = _all_keys(order, neighbours, core, q)

        def slots(first: np.ndarray, second: np.ndarray) -> np.ndarray:
            return _find(keys, first, second, q)

        groups = [group for nodes in order for group in _alike(nodes, neighbours)]
        stages = tuple(_stage(nodes, neighbours, slots, q) for nodes in groups)
        return cls(q, stages, core, slots(core[:, None], core[None, :]), keys)

    @property
    def size(self) -> int:
        """S + 1."""
        return len(self.keys) + 1

    def slots(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Where entries (first, second) are kept; q stands for what is padded."""
        return _find(self.keys, first, second, self.q)

    @property
    def operations(self) -> int:
        """About how many multiplications a factor takes."""
        stages = sum(stage.neighbours.shape[0] * (1 + stage.neighbours.shape[1]) ** 2 for stage in self.stages)
        return int(stages + len(self.core) ** 3 / 3)

    def factor(self, values: np.ndarray) -> Factor:
        """Of matrices with `values` (S + 1, sets)."""
        left = np.array(values, dtype=float)
        left[-1] = 0.0
        before = left[self._diagonal].copy()
        pivots, slopes = [], []
        with np.errstate(divide="ignore", invalid="ignore"):
            for stage in self.stages:
                d, h = left[stage.diagonal], left[stage.beside]
                slope = h / d[:, None]
                first, second = np.triu_indices(h.shape[1])
                products = (slope[:, first] * h[:, second]).reshape(-1, left.shape[1])
                left[stage.changed] -= stage.gather @ products
                left[-1] = 0.0
                pivots.append(d)
                slopes.append(slope)
            core = np.moveaxis(left[self.core_slots], 2, 0)
            lower = np.stack([_cholesky(matrix) for matrix in core]) if core.size else core
        return Factor(self, tuple(pivots), tuple(slopes), lower, before)

    @property
    def _diagonal(self) -> np.ndarray:
        """Slots of the diagonal in the order of elimination (q,)."""
        return np.concatenate([*(stage.diagonal for stage in self.stages), np.diag(self.core_slots)]).astype(int)

    def times(self, values: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """A matrix with `values` (S + 1,) times vectors (q, R)."""
        return self.matrix(values) @ vectors

    def matrix(self, values: np.ndarray) -> sp.csr_array:
        """The matrix with `values` (S + 1,)."""
        first, second = np.divmod(self.keys, self.q + 1)
        upper = sp.coo_array((values[:-1], (first, second)), shape=(self.q, self.q)).tocsr()
        return sp.csr_array(upper + sp.triu(upper, 1).T)


@dataclass(frozen=True)
class Factor:
    """H = L D L' of some sets: D and L by stages, (E, sets) and (E, D, sets), and the core's Cholesky factors (sets, C, C).

    A set whose H is not positive definite has NaN or pivots that are not positive.
    """

    order: Elimination
    pivots: tuple[np.ndarray, ...]
    slopes: tuple[np.ndarray, ...]
    lower: np.ndarray
    before: np.ndarray

    def take(self, sets: np.ndarray) -> Factor:
        """Of some of the sets."""
        pivots, slopes = tuple(d[:, sets] for d in self.pivots), tuple(slope[:, :, sets] for slope in self.slopes)
        return Factor(self.order, pivots, slopes, self.lower[sets] if len(self.lower) else self.lower, self.before[:, sets])

    @property
    def _all_pivots(self) -> np.ndarray:
        """D in the order of elimination (q, sets)."""
        return np.concatenate([*self.pivots, np.diagonal(self.lower, axis1=1, axis2=2).T ** 2])

    @property
    def log_det(self) -> np.ndarray:
        """log det H (sets,)."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.log(self._all_pivots).sum(axis=0))

    @property
    def shares(self) -> np.ndarray:
        """What of each parameter's curvature those before it do not explain (sets, q): positive where H is definite."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return (self._all_pivots / np.abs(self.before)).T

    def solve(self, vectors: np.ndarray) -> np.ndarray:
        """H⁻¹ times vectors (q, R): R of one set, or one of each set."""
        b = np.concatenate([vectors, np.zeros((1, vectors.shape[1]))])
        for stage, slope in zip(self.order.stages, self.slopes, strict=True):
            moved = slope * b[stage.nodes][:, None]
            b[stage.touched] -= stage.spread @ moved.reshape(-1, moved.shape[-1])
        for stage, d in zip(self.order.stages, self.pivots, strict=True):
            b[stage.nodes] /= d
        core = self.order.core
        if len(core):
            b[core] = self._solve_core(b[core])
        return self._back(b)

    def _solve_core(self, b: np.ndarray) -> np.ndarray:
        if len(self.lower) == 1:
            return np.asarray(scipy.linalg.cho_solve((self.lower[0], True), b, check_finite=False))
        each = (scipy.linalg.lapack.dpotrs(lower, b[:, i], lower=1)[0] for i, lower in enumerate(self.lower))
        return np.stack(list(each), axis=1)

    def _back(self, b: np.ndarray) -> np.ndarray:
        """L'⁻¹ of what stands below each other for parameters (q + 1, R)."""
        for stage, slope in zip(reversed(self.order.stages), reversed(self.slopes), strict=True):
            b[-1] = 0.0
            b[stage.nodes] -= (slope * b[stage.neighbours]).sum(axis=1)
        return b[:-1]

    def whiten_back(self, normal: np.ndarray) -> np.ndarray:
        """Vectors with covariance H⁻¹ from standard normal ones (q, R), of one set."""
        b = np.concatenate([normal, np.zeros((1, normal.shape[1]))])
        for stage, d in zip(self.order.stages, self.pivots, strict=True):
            b[stage.nodes] /= np.sqrt(d)
        if len(self.order.core):
            b[self.order.core] = scipy.linalg.solve_triangular(self.lower[0], b[self.order.core], lower=True, trans="T")
        return self._back(b)

    def halves(self, rows: sp.csr_array) -> tuple[sp.csr_array, np.ndarray]:
        """V (n, q), sparse, and G (n, C) with A H⁻¹ A' = V V' + G G', of one set, for `rows` A (n, q).

        V has what the parameters that are eliminated add, each where it is reached from what a row touches; G is of the core.
        """
        q, left, parts = self.order.q, rows.T.tocsr(), []
        for stage, slope, d in zip(self.order.stages, self.slopes, self.pivots, strict=True):
            own, place = left[stage.nodes], stage.neighbours < q
            column = np.broadcast_to(np.arange(len(stage.nodes))[:, None], place.shape)
            moved = (slope[:, :, 0][place], (stage.neighbours[place], column[place]))
            left = left - sp.csr_array(moved, shape=(q, len(stage.nodes))) @ own
            parts.append(sp.diags_array(1 / np.sqrt(d[:, 0])) @ own)
        eliminated = sp.vstack(parts).T.tocsr() if parts else sp.csr_array((rows.shape[0], 0))
        core = left[self.order.core].toarray()
        if len(core):
            core = scipy.linalg.solve_triangular(self.lower[0], core, lower=True, check_finite=False)
        return sp.csr_array(eliminated), core.T

    def inverse(self) -> np.ndarray:
        """The entries of H⁻¹ in the slots (S + 1, sets), by those of its neighbours (Takahashi, Fagan and Chin 1973)."""
        sets = self.before.shape[1]
        entries = np.zeros((self.order.size, sets))
        if len(self.order.core):
            whole = [scipy.linalg.cho_solve((lower, True), np.eye(len(lower)), check_finite=False) for lower in self.lower]
            entries[self.order.core_slots] = np.moveaxis(np.stack(whole), 0, 2)
        stages = zip(reversed(self.order.stages), reversed(self.slopes), reversed(self.pivots), strict=True)
        for stage, slope, d in stages:
            entries[-1] = 0.0
            moved = np.einsum("eabs,ebs->eas", entries[stage.between], slope)
            entries[stage.beside] = -moved
            entries[stage.diagonal] = 1 / d + (slope * moved).sum(axis=1)
        entries[-1] = 0.0
        return entries


def _cholesky(matrix: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return np.full_like(matrix, np.nan)


def _order(pairs: np.ndarray, q: int) -> tuple[list[list[int]], list[set[int]], np.ndarray]:
    """Sets of parameters to eliminate in turn, the neighbours of each when it is its turn, and what is left as the core."""
    counts = np.bincount(pairs.ravel(), minlength=q)
    late = counts > max(_SMALL_CORE, _CROWDED * np.sqrt(q))
    neighbours: list[set[int]] = [set() for _ in range(q)]
    for a, b in pairs.tolist():
        neighbours[a].add(b)
        neighbours[b].add(a)
    left, order = set(np.flatnonzero(~late).tolist()), []
    while len(left) > _SMALL_CORE:
        degree = {node: len(neighbours[node]) for node in left}
        ordered = sorted(left, key=degree.__getitem__)
        most = degree[ordered[len(ordered) // 2]]
        if degree[ordered[0]] > _DENSE * (len(left) + late.sum()) and degree[ordered[0]] > _SMALL_CORE:
            break
        taken, blocked = [], set()
        for node in ordered:
            if degree[node] > most:
                break
            if node not in blocked:
                taken.append(node)
                blocked |= neighbours[node]
        for node in taken:
            around = neighbours[node]
            for other in around:
                if not late[other]:
                    neighbours[other] |= around
                    neighbours[other] -= {node, other}
        left -= set(taken)
        order.append(taken)
    return order, neighbours, np.array(sorted(left | set(np.flatnonzero(late).tolist())), dtype=int)


def _all_keys(order: list[list[int]], neighbours: list[set[int]], core: np.ndarray, q: int) -> np.ndarray:
    """Sorted keys of all pairs that are ever not zero, smaller parameter first."""
    nodes = np.array([node for taken in order for node in taken], dtype=int)
    counts = np.array([len(neighbours[node]) for node in nodes], dtype=int)
    others = np.fromiter((other for node in nodes for other in neighbours[node]), dtype=int, count=int(counts.sum()))
    first = np.repeat(nodes, counts)
    of_core = np.stack(np.meshgrid(core, core, indexing="ij"), -1).reshape(-1, 2)
    pairs = np.concatenate([np.column_stack([first, others]), np.column_stack([nodes, nodes]), of_core]).astype(int)
    return np.unique(pairs.min(axis=1) * (q + 1) + pairs.max(axis=1))


def _find(keys: np.ndarray, first: np.ndarray, second: np.ndarray, q: int) -> np.ndarray:
    """Places of pairs among the keys; the one after the last for what is padded, or is no pair of the pattern."""
    wanted = np.minimum(first, second) * (q + 1) + np.maximum(first, second)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, place, len(keys))


def _alike(nodes: list[int], neighbours: list[set[int]]) -> Iterable[list[int]]:
    """Parameters of a stage with about as many neighbours, so that little is padded."""
    by_degree: dict[int, list[int]] = {}
    for node in nodes:
        degree = len(neighbours[node])
        by_degree.setdefault(degree if degree <= 4 else 1 << (degree - 1).bit_length(), []).append(node)
    return by_degree.values()


def _stage(nodes: list[int], neighbours: list[set[int]], slots: object, q: int) -> Stage:
    assert callable(slots)
    most = max(len(neighbours[node]) for node in nodes)
    around = np.full((len(nodes), most), q)
    for place, node in enumerate(nodes):
        around[place, : len(neighbours[node])] = sorted(neighbours[node])
    own = np.array(nodes)
    between = slots(around[:, :, None], around[:, None, :])
    first, second = np.triu_indices(most)
    changed, gather = _sums(between[:, first, second].ravel())
    touched, spread = _sums(around.ravel())
    return Stage(own, around, slots(own, own), slots(own[:, None], around), between, changed, gather, touched, spread)


def _sums(targets: np.ndarray) -> tuple[np.ndarray, sp.csr_array]:
    """The distinct targets (U,), and the matrix (U, T) that adds up what goes to each."""
    distinct, place = np.unique(targets, return_inverse=True)
    ones = np.ones(len(targets))
    return distinct, sp.csr_array((ones, (place, np.arange(len(targets)))), shape=(len(distinct), len(targets)))
