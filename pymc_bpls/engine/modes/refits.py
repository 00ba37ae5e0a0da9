"""Refits of many candidates at once: for each, the mode of S_i(θ) = k ℓ_D(θ) + ℓ_i(θ) + log π(θ) and log det H_i there.

All candidates of a chunk start from the mode of k ℓ_D + log π that they share. Where rows have linear predictors
(`affine_rows`), chord steps come first, with the curvature of the start, and one Newton step usually ends the work (`refit`).
Any other model takes Newton steps with derivatives in θ by autodiff (`batched_newton`). Both are verified by the same test as
any mode (`verification`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from pymc_bpls.compute.chunks import map_rows
from pymc_bpls.compute.compiler import Compiler
from pymc_bpls.compute.executors import Executor
from pymc_bpls.compute.memory import ask_memory
from pymc_bpls.compute.threads import IN_TURN
from pymc_bpls.engine.modes.mode import Mode
from pymc_bpls.engine.modes.refit import Start, refit_chunk
from pymc_bpls.engine.newton import kernels
from pymc_bpls.engine.newton.curvature import Matrix
from pymc_bpls.engine.rows.affine_rows import AffineRows, Block
from pymc_bpls.engine.rows.objective import DenseObjective, RowObjective
from pymc_bpls.engine.sparse.objective import SparseObjective
from pymc_bpls.engine.sparse.rows import SparseRows
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.model.density import Density
from pymc_bpls.model.structure import Rows
from pymc_bpls.text.progress import stage

_SMALLEST_CHUNK, _LARGEST_CHUNK, _SPARSE_CHUNK = 32, 1024, 32
_AUTODIFF_WORK, _AFFINE_WORK = 2**18, 2**20


@dataclass(frozen=True)
class Refits:
    """The terms of S_i at θ̃_i for each pair i, all of shape (pairs,), and θ̃_i itself as `points` (pairs, d).

    Points are in θ, or in the coordinates of the rows of the mode that the refits start from, with the pair's own. Pairs
    without a verified mode have `converged` False.
    """

    log_lik_labeled: np.ndarray
    log_lik_pseudo: np.ndarray
    log_prior: np.ndarray
    log_det: np.ndarray
    converged: np.ndarray
    points: np.ndarray


@dataclass(frozen=True)
class Shared:
    """What all refits have in common: D, its multiple k, whether the prior counts, the mode to start from, memory, and what
    runs their chunks: an executor, or None for one after the other."""

    labeled: Labeled
    k: int
    prior: bool
    start: Mode
    chunk_bytes: int
    executor: Executor | None = None


def refit_affine(rows: AffineRows, shared: Shared, positions: np.ndarray, codes: np.ndarray) -> Refits:
    """Refits of pairs (row, class) whose rows have linear predictors, in the coordinates of the mode that they start from."""
    mode = shared.start
    model = rows if mode.rows is None else mode.rows.with_own
    own = model.dimension - len(mode.point)
    curvature = Matrix(block_diag(mode.curvature.matrix, np.eye(own)))
    start = Start(np.pad(mode.point, (0, own)), mode.value, curvature, mode.log_det)
    objective = DenseObjective(model=model, labeled=model.labeled_block(shared.labeled, shared.k), prior=shared.prior)

    def candidates(pairs: np.ndarray) -> Block:
        return model.block(positions[pairs], codes[pairs], np.ones(len(pairs)))

    rows_of_D = objective.labeled.flat.shape[0]
    size = chunk_size(model.dimension, rows_of_D, len(positions), shared.chunk_bytes, _AFFINE_WORK)
    model.keep(positions)
    return _by_chords(objective, start, shared, candidates, len(positions), size)


def refit_sparse_rows(rows: SparseRows, shared: Shared, positions: np.ndarray, codes: np.ndarray) -> Refits:
    """Refits of pairs (row, class) whose rows touch few parameters; their `points` are left out (pairs, 0)."""
    D, mode = shared.labeled, shared.start
    pairs = rows.block(positions, codes, np.ones(len(positions)))
    labeled = rows.block(D.positions, D.codes, shared.k * D.weights)
    objective = SparseObjective(model=rows, labeled=labeled, order=rows.order(D.positions, positions))
    start = Start(mode.point, mode.value, objective.curvature(objective.at(mode.point[None])), mode.log_det)
    size = max(1, min(_SPARSE_CHUNK, shared.chunk_bytes // (8 * objective.floats_a_candidate)))
    return _by_chords(objective, start, shared, pairs.take, len(positions), 1 << (int(size).bit_length() - 1))


def _by_chords(
    objective: RowObjective, start: Start, shared: Shared, candidates: Callable[[np.ndarray], Any], n: int, size: int
) -> Refits:
    """Refits of n candidates beside D, so many at once; chunks may go to other processes, and take no more than they need."""
    k = shared.k

    def chunk(some: Any) -> tuple[np.ndarray, ...]:
        ends = refit_chunk(objective.beside(some), start)
        log_det = ends.log_det + objective.model.log_det_prior
        return ends.log_lik / k, ends.pseudo, ends.log_prior, log_det, ends.done, ends.theta[:, objective.kept]

    return _refitted(chunk, candidates, n, size, shared.executor, padded=False)


def refit_by_autodiff(
    density: Density, compiler: Compiler, shared: Shared, positions: np.ndarray, codes: np.ndarray, *, conditional: bool
) -> Refits:
    """Refits of pairs (row, class) of any model; where `conditional`, S_i has ℓ_i − g_i in place of ℓ_i."""
    rows, structure = density.labeled_rows(shared.labeled), density.structure
    start, log_det = shared.start.theta, np.asarray(shared.start.log_det)
    options = {"k": shared.k, "prior": shared.prior, "conditional": conditional}

    def chunk(candidates: Rows) -> tuple[np.ndarray, ...]:
        return compiler(kernels.refits, structure, start, log_det, candidates, rows, **options)

    def candidates(pairs: np.ndarray) -> Rows:
        return density.rows(positions[pairs], codes[pairs], np.ones(len(pairs)))

    # pieces of one length, whatever number of candidates is left, so that they are compiled once
    size = chunk_size(density.dimension, len(shared.labeled.padded()), _SMALLEST_CHUNK, shared.chunk_bytes, _AUTODIFF_WORK)
    return _refitted(chunk, candidates, len(positions), size, shared.executor, padded=True)


def _refitted(
    chunk: Callable[[Any], tuple[np.ndarray, ...]],
    candidates: Callable[[np.ndarray], Any],
    n: int,
    size: int,
    executor: Executor | None,
    *,
    padded: bool,
) -> Refits:
    """`chunk` of all candidates, so many at once."""
    with stage("refits", n) as tell:
        return Refits(*map_rows(chunk, n, (size, size), executor or IN_TURN, padded=padded, take=candidates, tell=tell))


def chunk_size(q: int, n_rows: int, n_pairs: int, chunk_bytes: int, work: int = _AUTODIFF_WORK) -> int:
    """How many of `n_pairs` with q parameters to refit together: a power of two, within `chunk_bytes`."""
    floats = 6 * q * q + 6 * n_rows * q
    ask_memory(f"The refit of a candidate with {q:,} parameters and {n_rows:,} rows of D", 8 * floats)
    by_memory = max(1, chunk_bytes // (8 * floats))
    by_work = max(_SMALLEST_CHUNK, min(_LARGEST_CHUNK, work // q**2))
    by_pairs = max(_SMALLEST_CHUNK, 1 << (n_pairs - 1).bit_length())
    return 1 << (int(min(by_memory, by_work, by_pairs)).bit_length() - 1)
