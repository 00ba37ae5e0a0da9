"""What factors of one and the same linear function add to EP's log Z, to all orders: rows of a cell or a group, and its prior.

With p_k ∝ q Π_j (1 + ε_j) the correction of log Z takes factors pair by pair, up to the powers ρ³ and ρ⁴ of their correlations.
Where functions are proportional, ρ is ±1 and that series tells little, but their product is a function of one number z:

    log E_q Π_j (1 + ε_j) = log ∫ φ(z) Π_j [factor_j / (site_j Z_j)](z) dz

is one integral, by quadrature. A cell that no other row depends on has its exact constant so. Pairs of factors of different
functions stay as they are.
"""

from __future__ import annotations

from math import factorial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from pymc_bpls.approximations.quadrature.panels import resolve
from pymc_bpls.approximations.quadrature.tilted import ORDERS

if TYPE_CHECKING:
    from pymc_bpls.approximations.ep.ep import FixedPoint, SiteFactors

#: By how much directions of length 1 may differ along a random line: a thousand times what rounding leaves.
_SAME = 1e-10
#: A share of q's precision that is rounding: nothing but the set depends on its number.
_NOTHING = 1e-12


class Added(NamedTuple):
    """What parallel factors add to log Z, to all orders, and what pairs of them say."""

    whole: float
    pairs: float


def add_parallel(factors: SiteFactors, directions: Any, found: FixedPoint[Any], c: np.ndarray) -> Added:
    """For `directions` (J, d), dense or sparse, and means `c` (L, J) of Hermite polynomials under the tilted densities."""
    order, sign, first = _in_sets(directions)
    if not len(first):
        return Added(0.0, 0.0)
    size = np.diff(np.append(first, len(order)))
    signed = c[:, order] * np.stack([sign**power for power in ORDERS])
    weight = np.array([0.5 / factorial(power) for power in ORDERS])
    pairs = weight @ (np.add.reduceat(signed, first, axis=1) ** 2 - np.add.reduceat(signed**2, first, axis=1))
    (mean, variance), (tau, nu) = found.state.marginals, (found.sites.tau, found.sites.nu)
    sd = np.sqrt(variance)
    # φ over all sites of a set is exp(constant + slope z − ½ rest z²)
    rest = 1 - np.add.reduceat((tau * variance)[order], first)
    slope = np.add.reduceat((sign * sd[order]) * (tau * mean - nu)[order], first)
    constant = np.add.reduceat(((0.5 * tau * mean - nu) * mean - found.tilted.log_z())[order], first)
    rest, slope = (np.where(rest > _NOTHING, each, 0.0) for each in (rest, slope))

    def log_product(which: np.ndarray, z: np.ndarray) -> np.ndarray:
        """log of φ(z) Π_j factor_j / (site_j Z_j), but for φ's constant, of some sets (P,) at z (P, G)."""
        members = np.repeat(first[which] - np.cumsum(size[which]) + size[which], size[which]) + np.arange(size[which].sum())
        ascending = np.argsort(order[members], kind="stable")
        own, panel = order[members][ascending], np.repeat(np.arange(len(which)), size[which])[ascending]
        f = mean[own, None] + (sign[members][ascending] * sd[own])[:, None] * z[panel]
        values = factors.log_values(f.ravel(), np.repeat(own, z.shape[1])).reshape(f.shape)
        total = constant[which, None] + (slope[which, None] - 0.5 * rest[which, None] * z) * z
        np.add.at(total, panel, values)
        return total

    centre, width = (each / sd[order] for each in factors.places(order))
    narrowest = np.array([place + np.argmin(width[place : place + count]) for place, count in zip(first, size, strict=True)])
    origin = (sign * (centre - mean[order] / sd[order]))[narrowest]
    nodes = resolve(log_product, np.zeros(len(first)), np.ones(len(first)), origin, width[narrowest], gaussian=0.0)
    starts = np.searchsorted(nodes.owner, np.arange(len(first)))
    of_sets = np.split(nodes.log_values + nodes.log_weights, starts[1:])
    whole = np.array([logsumexp(each) for each in of_sets]) - 0.5 * np.log(2 * np.pi)
    return Added(float(whole.sum()), float(pairs.sum()))


def _in_sets(directions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The factors that are not alone, set by set (F,), the signs of their directions in it, and where each set begins.

    Columns are compared at the same length: beside one in small units, others would be rounding.
    """
    squares = directions**2
    column = np.sqrt(np.asarray(squares.sum(axis=0)).ravel())
    column[column == 0] = 1.0
    norm = np.sqrt(np.asarray(squares @ column**-2.0).ravel())
    lines = np.random.default_rng(0).normal(size=(directions.shape[1], 2)) / column[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        along = (directions @ lines) / (norm[:, None] * np.sqrt(directions.shape[1]))
    sign = np.sign(along[:, 0])
    along *= sign[:, None]
    order = np.argsort(along[:, 0], kind="stable")
    order = order[norm[order] > 0]
    begins = np.append(True, np.abs(np.diff(along[order], axis=0)).max(axis=1) > _SAME)[: len(order)]
    number = np.cumsum(begins) - 1
    several = np.bincount(number, minlength=1)[number] > 1
    order, number = order[several], number[several]
    return order, sign[order], np.flatnonzero(np.append(True, np.diff(number) > 0)[: len(order)])
