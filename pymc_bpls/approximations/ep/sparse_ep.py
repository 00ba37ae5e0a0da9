"""Expectation propagation where rows touch few of many parameters: by the sparse factor of q's precision.

A step factors P + Σ τ_j a_j a_j' and takes the variances a_j'S a_j of all rows from the entries of S in the pattern of the
factor (`Factor.inverse`): nothing grows faster than the numbers of rows and of parameters do. The correction of log Z and of
averages takes powers of the correlations of all pairs of rows, which `correlated` sums without the pairs, or none where more
than 2,000 rows have more than a few parameters in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pymc_bpls.approximations.ep.ep import FixedPoint, fixed_point
from pymc_bpls.approximations.ep.parallel import add_parallel
from pymc_bpls.approximations.gaussians.gaussian import Sites
from pymc_bpls.approximations.gaussians.sparse_part import SparseField, SparsePart, SparseState
from pymc_bpls.engine.sparse.rows import SparseBlock, SparseRows
from pymc_bpls.model.data.table import Labeled


@dataclass(frozen=True)
class SparseFactors:
    """The rows of D as factors of p_k; `block` has their weights times k, and nodes are `apart` at most."""

    rows: SparseRows
    labeled: Labeled
    block: SparseBlock
    apart: float

    @property
    def n(self) -> int:
        """How many there are."""
        return len(self.labeled)

    def log_values(self, f: np.ndarray, owner: np.ndarray) -> np.ndarray:
        """Logs of the factors `owner` (G,) at f (G,)."""
        block = self.block
        inputs = tuple(values[owner] for values in block.inputs)
        return block.weights[owner] * self.rows.model.log_lik_at(f[:, None], block.codes[owner], inputs)

    def places(self, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Around which f some of them change, and over which distance (B,)."""
        return np.zeros(len(which)), np.ones(len(which))

    def laplace_sites(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """τ and ν (n,) of Laplace's kind at a point (q,)."""
        block = self.block
        f = block.design @ point + block.offset[:, 0]
        at = self.rows.model.derivatives_at(f[:, None], block.codes, block.inputs)
        tau = np.maximum(-block.weights * at.hessian[:, 0, 0], 0.0)
        return tau, tau * f + block.weights * at.gradient[:, 0]

    def names(self, which: np.ndarray, labels: Sequence[str]) -> str:
        """Some of them, in words."""
        return ", ".join(f"row {self.labeled.positions[j]}" for j in which)


def settle(
    rows: SparseRows,
    labeled: Labeled,
    k: int,
    start: Sites | None,
    names: Sequence[str],
    tolerance: float,
    apart: float,
    *,
    corrected: bool,
) -> SparsePart:
    """EP's Gaussian for rows that touch few parameters, under a Gaussian prior; log Z `corrected` or not.

    Raises
    ------
    ApproximationError
        There is no Gaussian to start from, or EP does not converge.
    """
    block = rows.block(labeled.positions, labeled.codes, k * labeled.weights)
    field = SparseField(rows, rows.order(labeled.positions), block)
    factors = SparseFactors(rows, labeled, block, apart)
    found = fixed_point(factors, field, rows.model.base, start, names, tolerance)
    c = found.tilted.hermite_means(found.state.marginals)
    q = SparsePart(rows, labeled, found.state.mean, found.state.precision, _log_z(field, found), found.steps, found.sites, c)
    if not corrected:
        return q
    of_pairs, parallel = q.correction_of_pairs, add_parallel(factors, block.design, found, c)
    correction = 0.0 if of_pairs is None else of_pairs - parallel.pairs
    return replace(q, log_z=q.log_z + parallel.whole + correction, correction=correction)


def _log_z(field: SparseField, found: FixedPoint[SparseState]) -> float:
    """log Z_k without the correction."""
    sites, state, prior = found.sites, found.state, field.rows.model.gaussian_prior
    assert prior is not None
    b, tau, nu, start = field.block.offset[:, 0], sites.tau, sites.nu, prior.start
    constant = prior.value - prior.slope @ start - 0.5 * start @ prior.structure.times(start[None])[0]
    log_det = float(state.precision.factor.log_det[0])
    whole = 0.5 * state.pull @ state.mean - 0.5 * log_det + 0.5 * len(state.mean) * np.log(2 * np.pi)
    return float(constant + whole + (b * (nu - 0.5 * tau * b)).sum() + found.tilted.log_z().sum())
