"""Class probabilities of rows: at one θ, and averaged over a Gaussian approximation q(θ) = N(θ̂, Σ).

Where each row depends on θ through one linear predictor f = a'θ + b, the average is an integral over f ~ N(a'θ̂ + b, a'Σa),
taken by quadrature, refined until averages settle to 1e-9 of themselves (`node_averages`), or for 20,000 rows and more, where
a row has no other input, by a table (`pool_table`). Rows with a few, η = Aθ + b, take up to 16,384 fixed Sobol draws of their
own η ~ N(Aθ̂ + b, AΣA') by its symmetric square root, which does not depend on the order of θ; any other row takes up to 4,096
of θ. Draws come with the error that they leave (`replicates`). Where PyMC rejects a row's parameters it has no p(y | x, θ), so
that averages of these are up to a factor that classes share: the probability of what is left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from scipy.special import ndtri

from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.approximations.gaussians.mixture import Mixture
from pymc_bpls.approximations.gaussians.sparse_part import SparsePart
from pymc_bpls.approximations.predictions.node_averages import NodeAverages, average_at_nodes, average_densely
from pymc_bpls.approximations.predictions.pool_table import PoolTable
from pymc_bpls.approximations.predictions.replicates import Averages, average, standard_error
from pymc_bpls.approximations.quadrature.tilted import ORDERS, Marginals
from pymc_bpls.compute.chunks import map_rows
from pymc_bpls.compute.threads import IN_TURN, for_matrices_of
from pymc_bpls.engine.modes.mode import Mode
from pymc_bpls.engine.rows.affine_rows import AffineRows, Block
from pymc_bpls.engine.rows.reduced_rows import Coordinates
from pymc_bpls.model.rejections import nothing_if_rejected
from pymc_bpls.text.progress import stage

if TYPE_CHECKING:
    from pymc_bpls.engine.engine import Engine
    from pymc_bpls.model.density import Density
    from pymc_bpls.model.structure import Structure

#: What is averaged of each class: exp ℓ, p(y | x, θ), or −p log p, whose sum over classes is the entropy.
LIKELIHOOD, PROBABILITY, SURPRISE = "likelihood", "probability", "surprise"
_DRAWS = 256
_MOST_OF_PREDICTORS, _MOST_OF_THETA, _FEW_DRAWS = 2**14, 2**12, 2**10
_ROWS_AT_ONCE = 1024
_PREDICTED_AT_ONCE, _FEWEST_ROWS = 2**13, 32
#: Rows that are worth a table of averages.
FEWEST_BY_TABLE = 20_000
_FINEST, _CHANGE = 64, 1e-9
_FAR = 1e100  # of a row's coefficients: their squares are numbers, and its classes are as certain as they get


@dataclass(frozen=True)
class Predictive:
    """Predictions of one engine for rows of its table."""

    engine: Engine

    @property
    def density(self) -> Density:
        """The density that is predicted from."""
        return self.engine.density

    def log_lik(self, theta: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """ℓ_j(θ) of each class, shape (rows, K)."""
        model = self.by_one_predictor
        if model is None or model.row_table is None or not len(positions):
            return self.engine.log_lik(theta, positions)
        classes = np.arange(len(self.density.class_values))

        def some(rows: np.ndarray) -> np.ndarray:
            block = model.block(positions[rows], rows, rows)
            eta = block.matrix @ theta + block.offset
            return np.stack([model.log_lik_at(eta, np.full(len(rows), code), ()) for code in classes], axis=1)

        return map_rows(some, len(positions), (_PREDICTED_AT_ONCE, _PREDICTED_AT_ONCE), padded=False)

    def log_probabilities(self, theta: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """log of the softmax over classes of ℓ_j(θ), shape (rows, K)."""
        return log_softmax(self.log_lik(theta, positions))

    def log_probabilities_at(self, mode: Mode, positions: np.ndarray) -> np.ndarray:
        """The same at a mode, from its coordinates where the rows have theirs already or are few."""
        rows = mode.rows
        if rows is None or not len(positions) or not rows.has_cheaply(positions):
            return self.log_probabilities(mode.theta, positions)
        classes = np.arange(len(self.density.class_values))
        block = rows.block(positions, positions, positions)
        eta = block.matrix @ mode.point + block.offset
        each = [rows.log_lik_at(eta, np.full(len(eta), code), block.inputs) for code in classes]
        return log_softmax(np.stack(each, axis=1))

    def log_odds_gradient(self, theta: np.ndarray, positions: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """∇[log p_y − log(1 − p_y)] at θ of each row's class y, shape (rows, q)."""
        return self.engine.map_positions(log_odds_gradients, positions, theta, codes=codes)

    @cached_property
    def by_one_predictor(self) -> AffineRows | None:
        """The density in its linear predictors, where rows have one."""
        model = self.engine.affine_rows
        return model if model is not None and model.map.size == 1 else None

    @cached_property
    def by_few_predictors(self) -> AffineRows | None:
        """The density in its linear predictors, where rows have several."""
        model = self.engine.affine_rows
        return model if model is not None and model.map.size > 1 else None

    def log_mean_lik(self, q: Gaussian | Mixture, positions: np.ndarray, *, normalised: bool = False) -> np.ndarray:
        """log E_q[exp ℓ_j] of each class, or of the class probabilities with `normalised`; (rows, K)."""
        return self.mean_lik(q, positions, normalised=normalised).log_mean

    def log_mean_lik_of(self, q: Gaussian | Mixture, positions: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """log E_q of what pairs (row, class y) bring as candidates, exp ℓ or p(y | x, θ), shape (pairs,)."""
        return self.mean_lik_of(q, positions, codes).log_mean

    def mean_lik(self, q: Gaussian | Mixture, positions: np.ndarray, *, normalised: bool = False) -> Averages:
        """The same as `log_mean_lik`, with its error."""
        return self._means(q, positions, PROBABILITY if normalised else LIKELIHOOD)

    def mean_surprise(self, q: Gaussian | Mixture, positions: np.ndarray) -> Averages:
        """log E_q[−p log p] of each class, whose sum is the mean entropy of p(y | x, θ); (rows, K)."""
        return self._means(q, positions, SURPRISE)

    def log_mean_probabilities_at(self, marginals: Marginals, positions: np.ndarray) -> np.ndarray:
        """log E[p(y | f)] of each class for rows whose predictors are f ~ N(mean, variance), (rows,) each; (rows, K)."""
        model = self.by_one_predictor
        assert model is not None
        block = model.block(positions, np.zeros(len(positions), dtype=int), np.ones(len(positions)))
        sd = np.sqrt(marginals.variance)
        return self._at_nodes(block, marginals.mean, sd, self.refinement, each=True, of=PROBABILITY).log_mean

    def _means(self, q: Gaussian | Mixture, positions: np.ndarray, of: str) -> Averages:
        if isinstance(q, Mixture):
            return self._mixed(q, lambda own, part: own._means(part, positions, of))
        if self.by_one_predictor is not None:
            return Averages(self._over_nodes(q, positions, None, of)[None])
        wanted = np.ones((len(positions), len(self.density.class_values)), dtype=bool)
        return self._over_draws(q, positions, wanted, of=of, by_log=of == LIKELIHOOD)

    def mean_lik_of(self, q: Gaussian | Mixture, positions: np.ndarray, codes: np.ndarray, *, few: bool = False) -> Averages:
        """The same as `log_mean_lik_of`, with its error; by a `few` draws, where only differences between Gaussians count."""
        if isinstance(q, Mixture):
            return self._mixed(q, lambda own, part: own.mean_lik_of(part, positions, codes))
        conditional = self.engine.conditional
        if self.by_one_predictor is not None and not conditional:
            return Averages(self._over_nodes(q, positions, codes)[None])
        rows, place = np.unique(positions, return_inverse=True)
        if self.by_one_predictor is not None:
            return Averages(self.mean_lik(q, rows, normalised=True).log_means[:, place, codes])
        wanted = np.zeros((len(rows), len(self.density.class_values)), dtype=bool)
        wanted[place, codes] = True
        of, most = PROBABILITY if conditional else LIKELIHOOD, _FEW_DRAWS if few else None
        averages = self._over_draws(q, rows, wanted, of=of, by_log=True, most=most)
        return Averages(averages.log_means[:, place, codes])

    @cached_property
    def of_hierarchy(self) -> Predictive:
        """The predictions of rows with one predictor, where this is linear once a few parameters are fixed."""
        assert self.engine.hierarchy is not None
        return Predictive(replace(self.engine, density=self.engine.hierarchy.density))

    def _mixed(self, q: Mixture, average: Callable[[Predictive, Any], Averages]) -> Averages:
        """Averages over a mixture, from those over its parts."""
        return Averages(q.average([average(self.of_hierarchy, part).log_means[0] for part in q.parts])[None])

    def _over_draws(
        self,
        q: Gaussian,
        positions: np.ndarray,
        wanted: np.ndarray,
        *,
        of: str,
        by_log: bool,
        most: int | None = None,
    ) -> Averages:
        """Over draws, until the largest error of the `wanted` classes' means is small, or of their logarithms."""

        def error_of(log_means: np.ndarray, rows: np.ndarray) -> np.ndarray:
            error = standard_error(log_means if by_log else np.exp(log_means))
            return np.where(wanted[rows], error, 0.0).max(axis=1)

        def at_theta(z: np.ndarray, rows: np.ndarray) -> np.ndarray:
            return self.engine.map_positions(mean_liks_over_draws, positions[rows], q.mean + z @ q.factor.T, of=of)

        if self.by_few_predictors is None:
            return average(at_theta, error_of, len(q.mean), len(positions), most or _MOST_OF_THETA)
        self.by_few_predictors.keep(positions)
        arrays = self._predictors(q.rows or self.by_few_predictors, q, positions)

        def at_predictors(z: np.ndarray, rows: np.ndarray) -> np.ndarray:
            def some(places: np.ndarray) -> np.ndarray:
                own = (values[rows[places]] for values in arrays)
                return self.engine.compiler(mean_liks_over_predictors, self.density.structure, z, *own, of=of)

            return map_rows(some, len(rows), (_FEWEST_ROWS, _ROWS_AT_ONCE))

        return average(at_predictors, error_of, self.by_few_predictors.map.size, len(positions), most or _MOST_OF_PREDICTORS)

    def _predictors(self, model: Coordinates, q: Gaussian, positions: np.ndarray) -> tuple[np.ndarray, ...]:
        """Of each row the mean (p,) and the symmetric square root (p, p) of the covariance of η under q, and g's inputs."""

        def some(rows: np.ndarray) -> tuple[np.ndarray, ...]:
            block = _in_reach(model.block(positions[rows], np.zeros(len(rows), dtype=int), np.ones(len(rows))))
            with np.errstate(over="ignore", invalid="ignore"):
                spread, mean = block.matrix @ q.factor, block.matrix @ q.mean + block.offset
            spread = spread if block.residual is None else np.concatenate([spread, block.residual], axis=2)
            return (mean, symmetric_roots(spread), *block.inputs)

        return map_rows(some, len(positions), (_ROWS_AT_ONCE, _ROWS_AT_ONCE), IN_TURN, padded=False)

    def _over_nodes(
        self, q: Gaussian | SparsePart, positions: np.ndarray, codes: np.ndarray | None, of: str = LIKELIHOOD
    ) -> np.ndarray:
        """Log averages over f ~ N(a'μ + b, a'Sa) of each row: of its class, (rows,), or of every class, (rows, K)."""
        if not len(positions):
            return np.empty(0)
        shaped = isinstance(q, SparsePart) or q.shape is not None
        known = q.predictors(positions) if isinstance(q, SparsePart) else None
        each = codes is None or (shaped and len(self.density.class_values) > 2)
        by_table = not each and self.are_many(len(positions)) and self.pool_table is not None

        def some(rows: np.ndarray) -> np.ndarray:
            own_codes = np.zeros(len(rows), dtype=int) if codes is None else codes[rows]
            if isinstance(q, SparsePart):
                assert known is not None
                block, (mean, sd, tilt) = self._without_design(positions[rows], own_codes), (part[rows] for part in known)
            else:
                block, mean, sd, tilt = self._marginals(q, positions[rows], own_codes)

            def moved(some: np.ndarray, by: np.ndarray) -> np.ndarray:
                own, centre = block.take(some), mean[some] + by
                if by_table:
                    return self._by_table(own, centre, sd[some]).shaped(tilt[some])
                return self._at_nodes(own, centre, sd[some], self.refinement, each=each, of=of).shaped(tilt[some])

            averages = moved(np.arange(len(rows)), np.zeros(len(rows)))
            if isinstance(q, Gaussian) and q.untouched is not None:
                averages = q.untouched.average(block.matrix[:, 0, :], moved, averages)
            return averages if codes is None or not each else averages[np.arange(len(rows)), own_codes]

        with for_matrices_of(len(q.mean)):
            return map_rows(some, len(positions), (_PREDICTED_AT_ONCE, _PREDICTED_AT_ONCE), padded=False)

    def _marginals(
        self, q: Gaussian, positions: np.ndarray, codes: np.ndarray
    ) -> tuple[Block, np.ndarray, np.ndarray, np.ndarray]:
        """Rows, mean and sd (rows,) of their predictors under q, without coefficients that D does not touch, and the
        coefficients (rows, L) of their shape.
        """
        model = q.rows or self.by_one_predictor
        assert model is not None
        block = _in_reach(model.block(positions, codes, np.ones(len(positions))))
        A = block.matrix[:, 0, :]
        if q.untouched is not None:
            A = A.copy()
            A[:, q.untouched.coordinates] = 0.0
        spread = A @ q.covariance
        own = 0.0 if block.residual is None else block.residual[:, 0, 0] ** 2
        mean, sd = A @ q.mean + block.offset[:, 0], np.sqrt((spread * A).sum(axis=1) + own)
        return block, mean, sd, _tilt(q, spread, sd)

    def _without_design(self, positions: np.ndarray, codes: np.ndarray) -> Block:
        """Rows whose predictors are known otherwise."""
        assert self.by_one_predictor is not None
        inputs, n = tuple(self.density.data[i][positions] for i in self.by_one_predictor.map.inputs), len(positions)
        return Block(np.empty((n, 1, 0)), np.zeros((n, 1)), np.ones(n), codes, inputs)

    def are_many(self, n: int) -> bool:
        """Whether so many rows are worth a table."""
        return n >= FEWEST_BY_TABLE

    def _at_nodes(
        self, block: Block, mean: np.ndarray, sd: np.ndarray, refinement: int, *, each: bool = False, of: str = LIKELIHOOD
    ) -> NodeAverages:
        """Averages of a block's rows: of its classes' likelihoods, or `of` each class."""
        model, classes = self.by_one_predictor, np.arange(len(self.density.class_values))
        assert model is not None

        def of_classes(rows: np.ndarray, f: np.ndarray, codes: np.ndarray) -> np.ndarray:
            inputs = tuple(np.repeat(values[rows], f.shape[1], axis=0) for values in block.inputs)
            return model.log_lik_at(f.reshape(-1, 1), np.repeat(codes, f.shape[1]), inputs).reshape(f.shape)

        def log_lik(rows: np.ndarray, f: np.ndarray) -> np.ndarray:
            if not each:
                return of_classes(rows, f, block.codes[rows])
            values = np.stack([of_classes(rows, f, np.full(len(rows), code)) for code in classes], axis=2)
            if of == LIKELIHOOD:
                return values
            if of == SURPRISE:
                return _log_surprise(log_softmax(values))
            log_p = _log_probabilities(values)
            cut[rows] |= np.isneginf(log_p.max(axis=2)).any(axis=1)
            return log_p

        cut = np.zeros(len(mean), dtype=bool)  # rows of which PyMC rejects some f
        found = average_at_nodes(log_lik, mean, sd, refinement, classes=(len(classes),) if each else ())
        some = np.flatnonzero(cut)
        if some.size:
            found.log_mean[some], found.shapes[some] = average_densely(log_lik, some, mean[some], sd[some])
        return found

    def _by_table(self, block: Block, mean: np.ndarray, sd: np.ndarray) -> NodeAverages:
        """The same of the rows' classes by the table, and at nodes where that is not verified."""
        assert self.pool_table is not None
        values, usable = self.pool_table(mean, sd, block.codes)
        rest = np.flatnonzero(~usable)
        log_mean, shapes = values[:, 0], values[:, 1:]
        if rest.size:
            log_mean[rest], shapes[rest] = self._at_nodes(block.take(rest), mean[rest], sd[rest], self.refinement)
        return NodeAverages(log_mean, shapes)

    @cached_property
    def pool_table(self) -> PoolTable | None:
        """A table of averages for large pools, where a row has one predictor and no other input."""
        model, tables = self.by_one_predictor, self.density.structure.store.tables
        if model is None or model.row_table is None:
            return None
        if "pool" not in tables:
            with stage("a table of averages over predictors"):
                tables["pool"] = PoolTable.of(self._exact_averages, len(self.density.class_values))
        return tables["pool"]

    def _exact_averages(self, mean: np.ndarray, sd: np.ndarray, code: int) -> np.ndarray:
        """Twice as many nodes as a row of a pool gets, so that their number, which changes with the spread, does not show."""
        block = Block(np.empty((len(mean), 1, 0)), np.zeros((len(mean), 1)), np.ones(len(mean)), np.full(len(mean), code), ())
        log_mean, shapes = self._at_nodes(block, mean, sd, 2 * self.refinement)
        return np.column_stack([log_mean, shapes])

    @cached_property
    def refinement(self) -> int:
        """By what factor the nodes are closer than the rules say, so that a likelihood narrower in f than the logistic is seen.

        Found on a few rows: doubled until the next doubling changes no average by more than 1e-9 of it; 0 where none of them
        is enough, as for likelihoods with a kink.
        """
        model = self.by_one_predictor
        assert model is not None
        if model.map.inputs:
            return self._find_refinement(model)
        tables = self.density.structure.store.tables
        if "refinement" not in tables:
            tables["refinement"] = self._find_refinement(model)
        return tables["refinement"]

    def _find_refinement(self, model: AffineRows) -> int:
        rows = np.random.default_rng(0).integers(0, len(self.density.data[0]), _FEWEST_ROWS)
        rows = np.tile(rows, len(self.density.class_values))
        block = self._without_design(rows, np.repeat(np.arange(len(self.density.class_values)), _FEWEST_ROWS))
        mean = np.resize(np.linspace(-4, 4, _FEWEST_ROWS), len(rows))

        def at(factor: int) -> np.ndarray:
            return self._at_nodes(block, mean, np.ones(len(rows)), factor).log_mean

        factor, coarse = 1, at(1)
        while factor < _FINEST:
            fine = at(2 * factor)
            usable = np.isfinite(coarse) & np.isfinite(fine)
            if (np.abs(fine[usable] - coarse[usable]) <= _CHANGE).all():
                return factor
            factor, coarse = 2 * factor, fine
        return 0


def log_odds_gradients(structure: Structure, theta: jax.Array, codes: jax.Array, rows: Any) -> jax.Array:
    """Gradients of log-odds."""

    def log_odds(theta: jax.Array, code: jax.Array, row: Any) -> jax.Array:
        log_lik = structure.log_lik_classes(theta, jax.tree.map(lambda values: values[None], row))[0]
        others = jnp.where(jnp.arange(len(log_lik)) == code, -jnp.inf, log_lik)
        return log_lik[code] - jax.scipy.special.logsumexp(others)

    return jax.vmap(jax.grad(log_odds), (None, 0, 0))(theta, codes, rows)


def mean_liks_over_draws(structure: Structure, draws: jax.Array, rows: Any, *, of: str) -> jax.Array:
    """Mean likelihoods over draws."""
    return _log_means(lambda theta: structure.log_lik_classes(theta, rows), draws, of)


def mean_liks_over_predictors(
    structure: Structure, z: jax.Array, mean: jax.Array, root: jax.Array, *inputs: jax.Array, of: str
) -> jax.Array:
    """Mean likelihoods over draws of linear predictors."""
    classes = jnp.arange(len(structure.class_values))

    def log_lik(z: jax.Array) -> jax.Array:
        def of_row(mean: jax.Array, root: jax.Array, *inputs: jax.Array) -> jax.Array:
            eta = mean + root @ z
            return jax.vmap(lambda y: structure.log_lik_at(eta, y, *inputs))(classes)

        return jax.vmap(of_row)(mean, root, *inputs)

    return _log_means(log_lik, z, of)


def _log_means(log_lik: Callable[[jax.Array], jax.Array], draws: jax.Array, of: str) -> jax.Array:
    """log means of `log_lik` (rows, K), over the draws (R, n, …) of each of R replicates: shape (rows, R, K)."""

    def step(total: jax.Array, draw: jax.Array) -> tuple[jax.Array, None]:
        values = log_lik(draw)
        if of != LIKELIHOOD:
            values = jax.nn.log_softmax(nothing_if_rejected(values.T).T, axis=1)
        if of == PROBABILITY:
            values = jnp.where(jnp.isnan(values), -jnp.inf, values)
        if of == SURPRISE:
            surprise = values + jnp.log(jnp.maximum(-values, 0.0))
            values = jnp.where(jnp.isneginf(values), -jnp.inf, surprise)
        return jnp.logaddexp(total, values), None

    start = jnp.full(jax.eval_shape(log_lik, draws[0, 0]).shape, -jnp.inf)
    sums = jax.lax.map(lambda replicate: jax.lax.scan(step, start, replicate)[0], draws)
    return jnp.moveaxis(sums, 0, 1) - jnp.log(draws.shape[1])


def _in_reach(block: Block) -> Block:
    """Rows whose predictors' squares overflow, nearer in the same direction: the averages are the limit in either place."""
    size = np.abs(block.matrix).max(axis=(1, 2), initial=0.0)
    if not (size > _FAR).any():
        return block
    by = np.where(size > _FAR, _FAR / np.maximum(size, _FAR), 1.0)[:, None, None]
    residual = None if block.residual is None else block.residual * by
    return replace(block, matrix=block.matrix * by, offset=block.offset * by[:, :, 0], residual=residual)


def _tilt(q: Gaussian, spread: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """Coefficients (rows, L) of the Hermite polynomials of each predictor, from AS (rows, q) and its sd; 0 without a shape."""
    if q.shape is None:
        return np.zeros((len(sd), len(ORDERS)))
    return q.shape.tilt((spread / np.where(sd > 0, sd, 1.0)[:, None]) @ q.shape.directions.T)


def symmetric_roots(spread: np.ndarray) -> np.ndarray:
    """The symmetric square roots (rows, p, p) of B B', for B = `spread` (rows, p, d); NaN where that is not finite."""
    n, p, _ = spread.shape
    root = np.full((n, p, p), np.nan)
    finite = np.isfinite(spread).all(axis=(1, 2))
    left, scale, _ = np.linalg.svd(spread[finite], full_matrices=False)
    root[finite] = (left * scale[:, None, :]) @ left.transpose(0, 2, 1)
    return root


def antithetic_draws(dimension: int, n: int = _DRAWS, seed: int = 0) -> np.ndarray:
    """Fixed standard normal draws (2 n, q), n a power of two: a scrambled Sobol sequence and its mirror image."""
    points = ndtri(scipy.stats.qmc.Sobol(dimension, rng=np.random.default_rng(seed)).random(n))
    return np.concatenate([points, -points])


def _log_probabilities(log_lik: np.ndarray) -> np.ndarray:
    """The log softmax over the last axis, −∞ where PyMC rejects the parameters of all classes."""
    log_p = log_softmax(log_lik)
    if not np.isnan(log_p).any():
        return log_p
    log_p = log_softmax(np.where(np.isnan(log_lik), -np.inf, log_lik))
    return np.where(np.isnan(log_p), -np.inf, log_p)


def _log_surprise(log_p: np.ndarray) -> np.ndarray:
    """log of −p log p; −∞ where p is 0 or 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.isneginf(log_p), -np.inf, log_p + np.log(np.maximum(-log_p, 0.0)))


def log_softmax(log_lik: np.ndarray) -> np.ndarray:
    """log of the softmax over the last axis; a row of −inf only becomes NaN."""
    with np.errstate(invalid="ignore"):
        return log_lik - np.logaddexp.reduce(log_lik, axis=-1, keepdims=True)
