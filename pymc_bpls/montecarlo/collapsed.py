"""p_k of a few parameters ψ, the others integrated out one by one: importance sampling of hierarchies with many groups.

Where rows touch few of many parameters, most of these, as the effects of groups, do not depend on each other given the few that
are left, the core ψ: scales and coefficients of all rows. Then

    p_k(ψ) ∝ π(ψ) ∏_r p(y_r | ψ)^k ∏_j Z_j(ψ),      Z_j(ψ) = ∫ ∏_{r in j} p(y_r | ψ, u)^k π(u | ψ) du,

the first product over rows that touch ψ alone. Each Z_j is an integral over one number (`montecarlo.conditionals`), and draws
of u_j are from p_k(u_j | ψ) itself. What is weighted by importance is ψ alone, whatever number of groups there is, where errors
of a Gaussian in each of thousands of groups multiply.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from scipy.special import ndtri

from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.approximations.gaussians.mixture import Mixture
from pymc_bpls.approximations.gaussians.sparse_part import SparsePart
from pymc_bpls.compute.chunks import map_rows
from pymc_bpls.compute.threads import IN_TURN
from pymc_bpls.engine.concavity import is_concave_in
from pymc_bpls.engine.engine import Engine
from pymc_bpls.engine.newton.curvature import LocalGaussian
from pymc_bpls.engine.sparse.rows import SparseBlock
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.model.structure import Structure
from pymc_bpls.montecarlo.conditionals import NODES, Curves
from pymc_bpls.montecarlo.sparse_proposals import Approximation

#: Draws at which integrals over effects are verified.
PROBED = 64
_MOST_CORE, _FILLED = 64, 64
_FLOATS, _MOST_AT_ONCE = 2**22, 256
_PROBES, _FAR = 6, np.array([0.3, 1.0, 3.0, 10.0, 30.0, 100.0])
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Given:
    """At S values of ψ: η (n, S, p) and log π (S,) where all effects are at the start, and the slopes and curvatures (U, S) of
    log π along each of them.
    """

    eta: np.ndarray
    log_prior: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray


@dataclass(frozen=True)
class Collapsed:
    """p_k of the `core` (C,), the `effects` (U,) integrated out; what importance sampling asks of an engine.

    `block` are D's rows, their weights times k, and `own` (n,) says which of the effects each touches, U if none.
    """

    engine: Engine
    block: SparseBlock
    core: np.ndarray
    effects: np.ndarray
    own: np.ndarray

    marginal: ClassVar[None] = None

    @classmethod
    def of(cls, engine: Engine, labeled: Labeled, k: int) -> Collapsed | None:
        """None where rows touch many parameters, more than a few are left, priors of effects given them are not normal, or
        effects may have several modes given them, of which integrals over one number would find one.
        """
        objective = engine.sparse_objective(labeled, k) if engine.marginal is None and not engine.conditional else None
        if objective is None:
            return None
        q, block = engine.density.dimension, objective.labeled
        effects = independent(np.concatenate([objective.model.prior.pairs[q:], block.pairs]), q)
        core = np.setdiff1d(np.arange(q), effects)
        if not 0 < len(core) <= _MOST_CORE:
            return None
        place = np.full(q + 1, len(effects))
        place[effects] = np.arange(len(effects))
        collapsed = cls(engine, block, core, effects, place[block.columns].min(axis=1))
        loaded = np.flatnonzero(collapsed._directions.any(axis=0))
        unimodal = is_concave_in(objective.model.model, labeled, loaded)
        return collapsed if unimodal and collapsed._has_normal_effects() else None

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the core's parameters."""
        return tuple(self.engine.density.parameters.labels[i] for i in self.core)

    def within(self, q: Approximation) -> Gaussian:
        """The Gaussian with an approximation's moments of the core."""
        if isinstance(q, LocalGaussian):
            return Gaussian(q.point[self.core], _block_of_inverse(q.curvature.solve, len(q.point), self.core))
        if isinstance(q, Mixture):
            return self._within_mixture(q)
        q = q.in_theta
        return Gaussian(q.mean[self.core], q.covariance[np.ix_(self.core, self.core)])

    def _within_mixture(self, q: Mixture) -> Gaussian:
        outer, inner = q.hierarchy.outer, q.hierarchy.inner
        linear = np.isin(self.core, inner)
        places = np.searchsorted(inner, self.core[linear])
        shares, means = np.exp(q.log_shares), np.empty((len(q.parts), len(self.core)))
        means[:, ~linear] = q.psi[:, np.searchsorted(outer, self.core[~linear])]
        within = np.zeros((len(self.core), len(self.core)))
        for number, part in enumerate(q.parts):
            assert isinstance(part, SparsePart)
            means[number, linear] = part.mean[places]
            block = _block_of_inverse(part.precision.solve, len(part.mean), places)
            within[np.ix_(linear, linear)] += shares[number] * block
        mean = shares @ means
        return Gaussian(mean, within + ((means - mean).T * shares) @ (means - mean))

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """log p_k at ψ (S, C), with all constants but log Z_k: shape (S,)."""

        def some(rows: np.ndarray) -> np.ndarray:
            given = self._given(points[rows])
            alone = given.log_prior + self._log_lik_of_core(given)
            with np.errstate(all="ignore"):
                of_prior = 0.5 * (np.log(2 * np.pi / given.curvature) + given.slope**2 / given.curvature)
                untouched = of_prior.sum(axis=0) - of_prior[self._touched].sum(axis=0)
                return np.asarray(alone + untouched + self._curves(given).log_integrals.sum(axis=0))

        return map_rows(some, len(points), (self._at_once, self._at_once), IN_TURN)

    def resolves(self, points: np.ndarray) -> bool:
        """Whether the nodes of `conditionals` see the densities of all effects at draws ψ (S, C)."""

        def some(rows: np.ndarray) -> np.ndarray:
            return np.asarray(self._curves(self._given(points[rows])).resolved.all(axis=0))

        return bool(map_rows(some, len(points), (self._at_once, self._at_once), IN_TURN).all())

    def theta(self, points: np.ndarray, length: int, rng: np.random.Generator) -> np.ndarray:
        """Draws of θ (S, q) at ψ (S, C): of effects that no row touches from their prior, of the others from p_k(u | ψ).

        Those of each effect are spread evenly over its density within each batch of so many (`length`), so that batches are
        independent, and errors by batches are those of averages.
        """
        uniform = spread_evenly((len(points), len(self.effects)), length, rng)

        def some(rows: np.ndarray) -> np.ndarray:
            given, shares = self._given(points[rows]), uniform[rows].T
            moves = given.slope / given.curvature + ndtri(shares) / np.sqrt(given.curvature)
            moves[self._touched] = self._curves(given).draws(shares[self._touched])
            theta = np.empty((len(rows), self.engine.density.dimension))
            theta[:, self.core] = points[rows]
            theta[:, self.effects] = self._start + moves.T
            return theta

        return map_rows(some, len(points), (self._at_once, self._at_once), IN_TURN)

    @property
    def _start(self) -> np.ndarray:
        return self.engine.density.start[self.effects]

    @cached_property
    def _touched(self) -> np.ndarray:
        """Effects that a row touches (J,), by their places."""
        return np.unique(self.own[self.own < len(self.effects)])

    @cached_property
    def _rows(self) -> np.ndarray:
        """Rows that touch one, with some of them again, without a weight, so that shapes change rarely."""
        return _filled_up(np.flatnonzero(self.own < len(self.effects)))

    @cached_property
    def _places(self) -> np.ndarray:
        """Which of the touched effects these rows touch (rows,)."""
        return np.searchsorted(self._touched, self.own[self._rows])

    @cached_property
    def _sums(self) -> sp.csr_array:
        """(J, rows) that adds up rows, with their weights, by effects."""
        once = np.arange((self.own < len(self.effects)).sum())
        entries = (self.block.weights[self._rows[once]], (self._places[once], once))
        return sp.csr_array(entries, shape=(len(self._touched), len(self._rows)))

    @cached_property
    def _directions(self) -> np.ndarray:
        """∂η_r/∂u of these rows (rows, p)."""
        block = self.block.take(self._rows)
        mine = block.columns == self.effects[self.own[self._rows]][:, None]
        return np.asarray((block.matrix * mine[:, None]).sum(axis=2))

    @property
    def _at_once(self) -> int:
        """How many ψ are worked on together: a power of two."""
        largest = max(NODES * max(len(self._rows), 1), len(self.block.codes), self.engine.density.dimension)
        return 1 << (max(1, min(_MOST_AT_ONCE, _FLOATS // largest)).bit_length() - 1)

    def _run(self, kernel: Callable[..., Any], *arrays: Any) -> Any:
        return self.engine.compiler(kernel, self.engine.density.structure, *arrays)

    def _given(self, points: np.ndarray) -> Given:
        density = self.engine.density
        theta = np.repeat(density.start[None], len(points), axis=0)
        theta[:, self.core] = points
        n, p = self.block.offset.shape
        eta = (self.block.design @ theta.T).reshape(n, p, len(points)).transpose(0, 2, 1) + self.block.offset[:, None]
        along = np.isin(np.arange(density.dimension), self.effects).astype(float)
        log_prior, slope, bend = self._run(parabolas_of_prior, theta, along)
        return Given(eta, log_prior, slope[:, self.effects].T, -bend[:, self.effects].T)

    def _log_lik_of_core(self, given: Given) -> np.ndarray:
        """Of rows that touch no effect (S,)."""
        once = np.flatnonzero(self.own == len(self.effects))
        if not len(once):
            return np.zeros(len(given.log_prior))
        rows = _filled_up(once)
        block, still = self.block.take(rows), np.zeros((len(rows), len(given.log_prior), 1))
        no_direction = np.zeros(block.offset.shape)
        values = self._run(log_lik_along, given.eta[rows], no_direction, still, block.codes, *block.inputs)
        return np.asarray(self.block.weights[once] @ values[: len(once), :, 0])

    def _curves(self, given: Given) -> Curves:
        """p_k(u | ψ) but for constants, u as moves from the start, of the effects that rows touch."""
        slope, curvature = given.slope[self._touched], given.curvature[self._touched]
        block, eta, own = self.block.take(self._rows), given.eta[self._rows], self._places
        rows = (block.codes, *block.inputs)

        def summed(values: np.ndarray) -> np.ndarray:
            return np.asarray((self._sums @ values.reshape(len(values), -1)).reshape(-1, *values.shape[1:]))

        def bends(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            first, second = self._run(bends_along, eta, self._directions, u[own], *rows)
            return summed(first) + slope - curvature * u, summed(np.maximum(-second, 0.0)) + curvature

        def log_density(u: np.ndarray) -> np.ndarray:
            values = summed(self._run(log_lik_along, eta, self._directions, u[own], *rows))
            values += (slope[:, :, None] - 0.5 * curvature[:, :, None] * u) * u
            return values

        with np.errstate(all="ignore"):
            return Curves.of(bends, log_density, slope / curvature)

    def _has_normal_effects(self) -> bool:
        """Whether log π is a parabola in the effects, none of which moves another's, at some points near and far."""
        rng, density = np.random.default_rng(0), self.engine.density
        points = density.start[self.core] + 0.3 * rng.normal(size=(_PROBES, len(self.core)))
        given = self._given(points)
        if not (given.curvature > 0).all():
            return False
        moves = (_FAR[:, None] * rng.normal(size=(_PROBES, len(self.effects)))).T / np.sqrt(given.curvature)
        theta = np.repeat(density.start[None], _PROBES, axis=0)
        theta[:, self.core], theta[:, self.effects] = points, self._start + moves.T
        expected = given.log_prior + ((given.slope - 0.5 * given.curvature * moves) * moves).sum(axis=0)
        return bool(np.allclose(self.engine.log_prior(theta), expected, rtol=_TOLERANCE, atol=1e-8))


def spread_evenly(shape: tuple[int, int], length: int, rng: np.random.Generator) -> np.ndarray:
    """Uniform numbers (S, U), of which in each column every `length` in turn have one in each of as many equal parts of (0, 1):
    a Latin hypercube [1]_.

    References
    ----------
    .. [1] McKay, M. D., Beckman, R. J. and Conover, W. J. (1979). A comparison of three methods for selecting values of input
       variables in the analysis of output from a computer code. Technometrics 21, 239-245.
    """
    count, columns = shape
    numbers = np.empty(shape)
    for first in range(0, count, length):
        part = numbers[first : first + length]
        places = rng.permuted(np.repeat(np.arange(length)[:, None], columns, axis=1), axis=0)[: len(part)]
        part[:] = (places + rng.uniform(size=part.shape)) / length
    return numbers


def independent(pairs: np.ndarray, q: int) -> np.ndarray:
    """Parameters of which none touches another, by pairs (E, 2) that do: those that touch the fewest are taken first."""
    both = np.concatenate([pairs, pairs[:, ::-1]])
    touching = sp.csr_array((np.ones(len(both)), (both[:, 0], both[:, 1])), shape=(q, q))
    blocked, taken = np.zeros(q, dtype=bool), np.zeros(q, dtype=bool)
    for node in np.argsort(np.bincount(pairs.ravel(), minlength=q), kind="stable"):
        if not blocked[node]:
            taken[node] = True
            blocked[touching.indices[touching.indptr[node] : touching.indptr[node + 1]]] = True
    return np.flatnonzero(taken)


def _filled_up(rows: np.ndarray) -> np.ndarray:
    """Rows, by their numbers, repeated up to a multiple of 64."""
    return np.resize(rows, _FILLED * -(-len(rows) // _FILLED))


def _block_of_inverse(solve: Callable[[np.ndarray], np.ndarray], q: int, places: np.ndarray) -> np.ndarray:
    """The entries of an inverse (q, q) between some places, by its products with a vector (q,)."""
    units = np.zeros((len(places), q))
    units[np.arange(len(places)), places] = 1.0
    block = np.array([solve(unit)[places] for unit in units]).reshape(len(places), len(places))
    return 0.5 * (block + block.T)


def parabolas_of_prior(structure: Structure, theta: jax.Array, along: jax.Array) -> tuple[jax.Array, ...]:
    """Log priors with gradients, and products of Hessians with a vector."""

    def one(theta: jax.Array) -> tuple[jax.Array, ...]:
        gradient = jax.grad(structure.log_prior)
        slope, bend = jax.jvp(gradient, (theta,), (along,))
        return structure.log_prior(theta), slope, bend

    return jax.vmap(one)(theta)


def log_lik_along(
    structure: Structure, eta: jax.Array, directions: jax.Array, moves: jax.Array, codes: jax.Array, *inputs: jax.Array
) -> jax.Array:
    """Log-likelihoods of rows (n, S, M) at moves along their directions."""

    def row(eta: jax.Array, direction: jax.Array, moves: jax.Array, *of_row: jax.Array) -> jax.Array:
        at = lambda eta, move: structure.log_lik_at(eta + move * direction, *of_row)  # noqa: E731
        return jax.vmap(jax.vmap(at, (None, 0)))(eta, moves)

    return jax.vmap(row)(eta, directions, moves, codes, *inputs)


def bends_along(
    structure: Structure, eta: jax.Array, directions: jax.Array, moves: jax.Array, codes: jax.Array, *inputs: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """First and second derivatives of rows' log-likelihoods (n, S) by moves along their directions."""

    def row(eta: jax.Array, direction: jax.Array, moves: jax.Array, *of_row: jax.Array) -> tuple[jax.Array, jax.Array]:
        def at(eta: jax.Array, move: jax.Array) -> tuple[jax.Array, jax.Array]:
            slope = jax.grad(lambda move: structure.log_lik_at(eta + move * direction, *of_row))
            return jax.jvp(slope, (move,), (jnp.ones_like(move),))

        return jax.vmap(at)(eta, moves)

    return jax.vmap(row)(eta, directions, moves, codes, *inputs)
