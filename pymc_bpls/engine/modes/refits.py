"""Refits of many candidates at once: for each, the mode of S_i(θ) = k ℓ_D(θ) + ℓ_i(θ) + log π(θ) and log det H_i there.

All candidates of a chunk start from the mode of k ℓ_D + log π that they share. Where rows have linear predictors
(`affine_rows`), chord steps come first, with the curvature of the start, and one Newton step usually ends the work (`chords`).
Any other model takes Newton steps with derivatives in θ by autodiff (`batched_newton`). Both are verified by the same test as
any mode (`verification`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import block_diag

from pymc_bpls.compute.chunks import map_rows
from pymc_bpls.compute.compiler import Compiler
from pymc_bpls.compute.memory import ask_memory
from pymc_bpls.compute.threads import IN_TURN
from pymc_bpls.engine.modes.chords import Start, refit_chunk
from pymc_bpls.engine.modes.mode import Mode
from pymc_bpls.engine.modes.objective import Objective
from pymc_bpls.engine.newton import kernels
from pymc_bpls.engine.rows.affine_rows import AffineRows
from pymc_bpls.engine.sparse.curvature import SparseCurvature
from pymc_bpls.engine.sparse.newton import SparseMaximum
from pymc_bpls.engine.sparse.objective import SparseObjective
from pymc_bpls.engine.sparse.refits import refit_sparse
from pymc_bpls.engine.sparse.rows import SparseRows
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.model.density import Density
from pymc_bpls.text.progress import stage

_SMALLEST_CHUNK, _LARGEST_CHUNK = 32, 1024
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
    """What all refits have in common: D, its multiple k, whether the prior counts, the mode to start from, memory."""

    labeled: Labeled
    k: int
    prior: bool
    start: Mode
    chunk_bytes: int


def refit_affine(rows: AffineRows, shared: Shared, positions: np.ndarray, codes: np.ndarray) -> Refits:
    """Refits of pairs (row, class) whose rows have linear predictors, in the coordinates of the mode that they start from."""
    mode = shared.start
    model = rows if mode.rows is None else mode.rows.with_own
    own = model.dimension - len(mode.point)
    start = Start(np.pad(mode.point, (0, own)), mode.value, block_diag(mode.matrix, np.eye(own)), mode.log_det)
    block = model.labeled_block(shared.labeled, shared.k)

    def chunk(pairs: np.ndarray) -> tuple[np.ndarray, ...]:
        candidates = model.block(positions[pairs], codes[pairs], np.ones(len(pairs)))
        ends = refit_chunk(Objective(model, block, candidates, shared.prior), start)
        return ends.log_lik / shared.k, ends.pseudo, ends.log_prior, ends.log_det + model.log_det_prior, ends.done, ends.theta

    size = chunk_size(model.dimension, block.flat.shape[0], len(positions), shared.chunk_bytes, _AFFINE_WORK)
    model.keep(positions)
    return _refitted(chunk, len(positions), size, padded=False)


def refit_sparse_rows(rows: SparseRows, shared: Shared, positions: np.ndarray, codes: np.ndarray) -> Refits:
    """Refits of pairs (row, class) whose rows touch few parameters; their `points` are left out (pairs, 0)."""
    D, mode = shared.labeled, shared.start
    assert isinstance(mode.curvature, SparseCurvature)
    pairs = rows.block(positions, codes, np.ones(len(positions)))
    labeled = rows.block(D.positions, D.codes, shared.k * D.weights)
    objective = SparseObjective(rows, rows.order(D.positions, positions), labeled)
    start = SparseMaximum(mode.point, mode.value, objective.curvature_at(mode.point), mode.log_det, 0.0, 0)

    def chunk(some: np.ndarray) -> tuple[np.ndarray, ...]:
        ends = refit_sparse(replace(objective, pairs=pairs.take(some)), start)
        none = np.empty((len(some), 0))
        return ends.log_lik / shared.k, ends.pseudo, ends.log_prior, ends.log_det, ends.done, none

    size = max(1, min(_LARGEST_CHUNK, shared.chunk_bytes // (8 * objective.floats_a_candidate)))
    return _refitted(chunk, len(positions), 1 << (int(size).bit_length() - 1), padded=False)


def refit_by_autodiff(
    density: Density, compiler: Compiler, shared: Shared, positions: np.ndarray, codes: np.ndarray, *, conditional: bool
) -> Refits:
    """Refits of pairs (row, class) of any model; where `conditional`, S_i has ℓ_i − g_i in place of ℓ_i."""
    rows = density.labeled_rows(shared.labeled)
    start, log_det = shared.start.theta, np.asarray(shared.start.log_det)

    def chunk(pairs: np.ndarray) -> tuple[np.ndarray, ...]:
        candidates = density.rows(positions[pairs], codes[pairs], np.ones(len(pairs)))
        options = {"k": shared.k, "prior": shared.prior, "conditional": conditional}
        return compiler(kernels.refits, density.structure, start, log_det, candidates, rows, **options)

    # pieces of one length, whatever number of candidates is left, so that they are compiled once
    size = chunk_size(density.dimension, len(shared.labeled.padded()), _SMALLEST_CHUNK, shared.chunk_bytes, _AUTODIFF_WORK)
    return _refitted(chunk, len(positions), size, padded=True)


def _refitted(chunk: Callable[[np.ndarray], tuple[np.ndarray, ...]], n: int, size: int, *, padded: bool) -> Refits:
    """`chunk` of all pairs, so many at once."""
    with stage("refits", n) as tell:

        def told(pairs: np.ndarray) -> tuple[np.ndarray, ...]:
            result = chunk(pairs)
            tell(len(np.unique(pairs)))
            return result

        return Refits(*map_rows(told, n, (size, size), IN_TURN, padded=padded))


def chunk_size(q: int, n_rows: int, n_pairs: int, chunk_bytes: int, work: int = _AUTODIFF_WORK) -> int:
    """How many of `n_pairs` with q parameters to refit together: a power of two, within `chunk_bytes`."""
    floats = 6 * q * q + 6 * n_rows * q
    ask_memory(f"The refit of a candidate with {q:,} parameters and {n_rows:,} rows of D", 8 * floats)
    by_memory = max(1, chunk_bytes // (8 * floats))
    by_work = max(_SMALLEST_CHUNK, min(_LARGEST_CHUNK, work // q**2))
    by_pairs = max(_SMALLEST_CHUNK, 1 << (n_pairs - 1).bit_length())
    return 1 << (int(min(by_memory, by_work, by_pairs)).bit_length() - 1)
