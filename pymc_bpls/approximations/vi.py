"""The variational Gaussian for p_k(θ) ∝ p(D | θ)^k π(θ): the q = N(μ, S) with the largest ELBO = E_q[log p_k] + entropy.

At its maximum (Opper and Archambeau 2009)

    E_q[∇ log p_k] = 0,      S⁻¹ = −E_q[∇² log p_k],

which damped natural-gradient steps reach; with Λ = S⁻¹, E = −E_q[∇² log p_k] and a step ρ, the update
Λ + ρ(E − Λ) + ½ρ² (E − Λ) S (E − Λ) is positive definite whatever E is (Lin, Schmidt and Khan 2020). Expectations are taken by
the trapezoid rule where rows have one linear predictor; over fixed antithetic Sobol draws otherwise: of each row's own
η ~ N(Aμ + b, ASA') where it has a few, by the symmetric square root, which does not depend on the order of θ, and else of θ.
How far a fit by fixed draws is off is told by fits with others (`again`). Where D's rows are fewer than parameters and the
prior is Gaussian, θ is replaced by the coordinates of the rows (`engine.row_space`): the maximum is N(m, P⁻¹) beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from pymc_bpls.approximations.anderson import Mixing
from pymc_bpls.approximations.gaussians.gaussian import Gaussian, trapezoid
from pymc_bpls.approximations.predictions.predictive import antithetic_draws, symmetric_roots
from pymc_bpls.engine.engine import Engine
from pymc_bpls.engine.modes.mode import Mode
from pymc_bpls.engine.newton import kernels
from pymc_bpls.engine.newton.batched_newton import Function
from pymc_bpls.engine.newton.marginals import weighted_marginal
from pymc_bpls.engine.priors.gaussian_priors import GaussianPrior
from pymc_bpls.engine.rows.affine_rows import Block
from pymc_bpls.engine.rows.marginal_rows import Marginal
from pymc_bpls.engine.rows.reduced_rows import Coordinates, ReducedRows
from pymc_bpls.engine.rows.separable_priors import SeparablePrior
from pymc_bpls.errors import ApproximationError
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.model.structure import Rows, Structure

_NODES, _HALF_WIDTH = (161, 321, 641, 1281, 2561, 5121), 8.5
_MOST_STEPS = 500
_MOMENTS, _ELBO = 1e-7, 1e-9
_LEAST_STEP = 1e-3
_WORSE = 2.0
_NARROWINGS = 8
_FARTHEST = 3.0
_DRAWS_OF_THETA, _DRAWS_OF_PREDICTORS, _DRAWS_AT_ONCE, _ROWS_AT_ONCE = 512, 1024, 32, 2**14
_AGAIN = 4
_NAMED = 3


class Expectations(NamedTuple):
    """E_q of a log density, of its gradient (q,) and of minus its Hessian (q, q)."""

    value: float
    gradient: np.ndarray
    curvature: np.ndarray

    def __add__(self, other: Any) -> Expectations:
        return Expectations(*(mine + its for mine, its in zip(self, other, strict=True)))

    @property
    def finite(self) -> bool:
        """Whether all of it is."""
        return all(bool(np.isfinite(part).all()) for part in self)


class Moments(NamedTuple):
    """μ (q,), S (q, q) and its lower Cholesky factor."""

    mean: np.ndarray
    covariance: np.ndarray
    factor: np.ndarray

    @property
    def precision(self) -> np.ndarray:
        """S⁻¹."""
        return scipy.linalg.cho_solve((self.factor, True), np.eye(len(self.mean)))


Expect = Callable[[Moments], Expectations]


class Draws(NamedTuple):
    """Which fixed draws: a share of as many as a fit takes, and the seed of their scrambling."""

    share: float = 1.0
    seed: int = 0

    def of_theta(self, dimension: int) -> np.ndarray:
        """Standard normal draws (draws, q)."""
        return antithetic_draws(dimension, int(self.share * _DRAWS_OF_THETA) // 2, self.seed)

    def of_predictors(self, dimension: int) -> np.ndarray:
        """Standard normal draws (draws, p)."""
        return antithetic_draws(dimension, int(self.share * _DRAWS_OF_PREDICTORS) // 2, self.seed)


def fit(
    engine: Engine, labeled: Labeled, k: int, mode: Mode | None, start: Gaussian | None, *, to_rank: bool = False
) -> Gaussian:
    """The variational Gaussian of p_k; `log_z` is its ELBO.

    Raises
    ------
    ApproximationError
        It does not converge: the parameters that do not settle are named.
    """
    return _fit(engine, labeled, k, mode, start, Draws())


def again(engine: Engine, labeled: Labeled, k: int, q: Gaussian) -> list[Gaussian]:
    """Four fits from q, each by a quarter of as many draws; none where expectations need no draws.

    Half the standard deviation of what they say is the standard error of what q says, by draws that are independent; Sobol
    draws come nearer to each other with their number than that.

    Raises
    ------
    ApproximationError
        One of them does not settle.
    """
    if not _needs_draws(engine):
        return []
    return [_fit(engine, labeled, k, None, q, Draws(1 / _AGAIN, seed)) for seed in range(1, _AGAIN + 1)]


def _needs_draws(engine: Engine) -> bool:
    model = engine.affine_rows
    return engine.marginal is not None or model is None or model.map.size > 1 or engine.separable_prior is None


def _fit(engine: Engine, labeled: Labeled, k: int, mode: Mode | None, start: Gaussian | None, draws: Draws) -> Gaussian:
    rows = _rows(engine, labeled)
    expect = _expectations(engine, labeled, k, draws) if rows is None else _expectations_in_rows(rows, labeled, k, draws)
    now, at = _finite_start(expect, _first(engine, rows, mode, start))
    step, mixing, miss = 1.0, Mixing(), np.inf
    elbo = _elbo(now, at)
    scale = np.sqrt(np.diag(now.covariance))
    if not at.finite:
        raise ApproximationError(
            "The expected log-density is not finite: a density that is 0 somewhere has no variational Gaussian. "
            "Replace a hard bound by a smooth prior, or use exact()."
        )
    for steps in range(1, _MOST_STEPS + 1):
        try:
            ahead = _mixed(mixing, now, _moved(now, at, step), scale)
        except np.linalg.LinAlgError:
            break
        expectations = expect(ahead)
        if not expectations.finite:
            if step <= _LEAST_STEP:
                break
            mixing, step = Mixing(), 0.5 * step
            continue
        last_elbo, last_miss = elbo, miss
        elbo, miss = _elbo(ahead, expectations), _miss(ahead, expectations)
        if miss <= _MOMENTS and abs(elbo - last_elbo) <= _ELBO * (1 + abs(elbo)):
            beyond = 0.0 if rows is None else rows.log_volume
            return Gaussian(ahead.mean, ahead.covariance, float(elbo) + beyond, steps, rows=rows)
        if not elbo >= last_elbo - _ELBO * (1 + abs(last_elbo)) and not miss < _WORSE * last_miss and step > _LEAST_STEP:
            mixing, step, elbo, miss = Mixing(), 0.5 * step, last_elbo, last_miss
            continue
        step = min(1.0, 1.1 * step)
        now, at = ahead, expectations
    raise ApproximationError(
        f"The variational fit did not settle in {steps} steps; {_widest(engine, rows, now)} are the most uncertain. "
        'Use approximation="ep" where rows have one linear predictor, exact(method="nuts"), or tighter priors.'
    )


def _finite_start(expect: Expect, now: Moments) -> tuple[Moments, Expectations]:
    """The start, narrowed until expectations are finite."""
    for _ in range(_NARROWINGS):
        at = expect(now)
        if at.finite:
            break
        now = Moments(now.mean, 0.25 * now.covariance, 0.5 * now.factor)
    return now, at


def _elbo(now: Moments, at: Expectations) -> float:
    return float(at.value + np.log(np.diag(now.factor)).sum() + 0.5 * len(now.mean) * (1 + np.log(2 * np.pi)))


def _miss(now: Moments, at: Expectations) -> float:
    """By how much the two conditions are missed, in standard deviations and as a share of the curvature."""
    mismatch = np.abs(now.factor.T @ at.curvature @ now.factor - np.eye(len(now.mean))).max()
    return max(float(np.linalg.norm(now.factor.T @ at.gradient)), float(mismatch))


def _mixed(mixing: Mixing, now: Moments, ahead: Moments, scale: np.ndarray) -> Moments:
    """An accelerated step in μ and S⁻¹, or the step itself where that leaves no Gaussian."""
    packed = np.tril_indices(len(scale))
    both = np.outer(scale, scale)[packed]

    def vector(at: Moments) -> np.ndarray:
        return np.concatenate([at.mean / scale, at.precision[packed] * both])

    mixed = mixing(vector(now), vector(ahead))
    precision = np.zeros_like(now.covariance)
    precision[packed] = mixed[len(scale) :] / both
    try:
        factor = scipy.linalg.cho_factor(precision, lower=True)
        covariance = scipy.linalg.cho_solve(factor, np.eye(len(scale)))
        return Moments(mixed[: len(scale)] * scale, covariance, np.linalg.cholesky(covariance))
    except np.linalg.LinAlgError:
        return ahead


def _rows(engine: Engine, labeled: Labeled) -> ReducedRows | None:
    """The coordinates of D's rows, where these are fewer than parameters."""
    rows = engine.coordinates(labeled) if engine.marginal is None else None
    return rows if isinstance(rows, ReducedRows) else None


def _first(engine: Engine, rows: ReducedRows | None, mode: Mode | None, start: Gaussian | None) -> Moments:
    """An earlier fit or Laplace's, in the coordinates that are worked in; else the model's start, or the prior's mean."""
    for known in (start, None if mode is None else Gaussian.at_mode(mode)):
        q = None if known is None else _into(known, rows)
        if q is not None:
            return Moments(q.mean, q.covariance, q.factor)
    if rows is None:
        return Moments(engine.density.start, *(np.eye(engine.density.dimension),) * 2)
    return Moments(np.zeros(rows.dimension), *(np.eye(rows.dimension),) * 2)


def _into(q: Gaussian, rows: ReducedRows | None) -> Gaussian | None:
    """q in θ, or in the coordinates of `rows`, which grew from its own: those that are new have their prior."""
    if rows is None:
        return q.in_theta
    if q.rows is None or q.rows.loadings is not rows.loadings:
        return None
    new = rows.dimension - len(q.mean)
    covariance = scipy.linalg.block_diag(q.covariance, np.eye(new)) if new else q.covariance
    return Gaussian(np.append(q.mean, np.zeros(new)), covariance)


def _moved(now: Moments, at: Expectations, step: float) -> Moments:
    """A step, of at most three standard deviations a parameter, in the frame where S is the identity."""
    L = now.factor
    change = L.T @ at.curvature @ L - np.eye(len(L))
    precision = np.eye(len(L)) + step * change + 0.5 * step**2 * change @ change
    lower = scipy.linalg.cholesky(precision, lower=True)
    square_root = L @ scipy.linalg.solve_triangular(lower, np.eye(len(L)), lower=True).T
    covariance = square_root @ square_root.T
    ahead = step * covariance @ at.gradient
    farthest = np.abs(ahead / np.sqrt(np.diag(covariance))).max()
    ahead *= min(1.0, _FARTHEST / max(farthest, 1e-300))
    return Moments(now.mean + ahead, covariance, np.linalg.cholesky(covariance))


def _widest(engine: Engine, rows: ReducedRows | None, at: Moments) -> str:
    variances = np.diag(at.covariance) if rows is None else rows.space.variances(at.covariance)
    widest = np.argsort(-variances)[:_NAMED]
    return ", ".join(f'"{engine.density.parameters.labels[i]}"' for i in widest)


def _expectations(engine: Engine, labeled: Labeled, k: int, draws: Draws) -> Expect:
    """E_q of k ℓ_D + log π, and of Σ λ_u g_u where the engine has a pool, by the best rule for each part."""
    of_labeled = _expectations_of_labeled(engine, labeled, k, draws)
    if engine.marginal is None:
        return of_labeled
    of_pool = _by_autodiff_of_marginal(engine.marginal, engine.density.dimension, draws)
    return lambda at: of_labeled(at) + of_pool(at)


def _expectations_in_rows(rows: ReducedRows, labeled: Labeled, k: int, draws: Draws) -> Expect:
    """The same in the coordinates of D's rows, where the prior is Gaussian."""
    block = rows.labeled_block(labeled, k)
    likelihood = _by_nodes(rows, block) if block.matrix.shape[1] == 1 else _by_predictors(rows, block, draws)
    prior = _of_gaussian(rows.gaussian_prior)
    return lambda at: likelihood(at) + prior(at)


def _expectations_of_labeled(engine: Engine, labeled: Labeled, k: int, draws: Draws) -> Expect:
    model = engine.affine_rows
    if model is None:
        return _by_autodiff(engine, [engine.density.labeled_rows(labeled, k)], draws)
    block = model.labeled_block(labeled, k)
    rows = _by_nodes(model, block) if block.matrix.shape[1] == 1 else _by_predictors(model, block, draws)
    separable = engine.separable_prior
    prior = _by_autodiff(engine, [], draws) if separable is None else _of_separable(separable)
    return lambda at: rows(at) + prior(at)


def _by_nodes(model: Coordinates, block: Block) -> Expect:
    """Rows with one linear predictor f ~ N(a'μ + b, a'Sa): one-dimensional integrals of ℓ, ℓ' and ℓ''."""
    A = block.matrix[:, 0, :]

    def expect(at: Moments) -> Expectations:
        sd = np.linalg.norm(A @ at.factor, axis=1)
        z, weights = _nodes(sd.max())
        codes = np.repeat(block.codes, len(z))
        inputs = tuple(np.repeat(values, len(z), axis=0) for values in block.inputs)
        f = (A @ at.mean + block.offset[:, 0])[:, None] + sd[:, None] * z
        derivatives = model.derivatives_at(f.reshape(-1, 1), codes, inputs)
        value, slope, bend = (part.reshape(f.shape) @ weights * block.weights for part in derivatives)
        return Expectations(float(value.sum()), A.T @ slope, -(A.T * bend) @ A)

    return expect


def _by_predictors(model: Coordinates, block: Block, draws: Draws) -> Expect:
    """Rows with several linear predictors: averages over draws of η of ∇g and ∇²g, and one product with the design."""
    n, p, _ = block.matrix.shape
    z = draws.of_predictors(p)
    size = min(len(z), 1 << max(_ROWS_AT_ONCE // n, 1).bit_length() - 1)
    codes = np.tile(block.codes, size)
    inputs = tuple(np.tile(values, (size, *(1,) * (values.ndim - 1))) for values in block.inputs)

    def expect(at: Moments) -> Expectations:
        mean, root = block.matrix @ at.mean + block.offset, symmetric_roots(block.matrix @ at.factor)
        value, slopes, bends = np.zeros(n), np.zeros((n, p)), np.zeros((n, p, p))
        for first in range(0, len(z), size):
            eta = mean + np.einsum("nij,dj->dni", root, z[first : first + size])
            derivatives = model.derivatives_at(eta.reshape(-1, p), codes, inputs)
            for total, part in zip((value, slopes, bends), derivatives, strict=True):
                total += part.reshape(size, *total.shape).sum(axis=0)
        weights = block.weights / len(z)
        curvature = -block.flat.T @ ((weights[:, None, None] * bends) @ block.matrix).reshape(n * p, -1)
        return Expectations(float(value @ weights), block.flat.T @ (weights[:, None] * slopes).ravel(), curvature)

    return expect


def _of_gaussian(prior: GaussianPrior) -> Expect:
    """A quadratic, exactly."""
    precision = prior.precision

    def expect(at: Moments) -> Expectations:
        values, slopes = prior.at(at.mean[None])
        return Expectations(float(values[0] - 0.5 * (precision * at.covariance).sum()), slopes[0], precision)

    return expect


def _of_separable(prior: SeparablePrior) -> Expect:
    """A quadratic, exactly, and functions of single coefficients by their values alone, so that kinks do no harm.

    E[h'] = E[h z]/sd and E[h''] = E[h (z² − 1)]/sd² by parts.
    """
    quadratic = _of_gaussian(prior.quadratic)
    if not prior.coordinates.size:
        return quadratic
    z, weights = _nodes()

    def expect(at: Moments) -> Expectations:
        value, gradient, curvature = quadratic(at)
        gradient, curvature = gradient.copy(), curvature.copy()
        c = prior.coordinates
        sd = np.sqrt(np.diag(at.covariance)[c])
        values = at.mean[c, None] + sd[:, None] * z
        h = prior.along(values.ravel(), np.repeat(np.arange(len(c)), len(z))).reshape(values.shape)
        gradient[c] += h @ (weights * z) / sd
        curvature[c, c] -= h @ (weights * (z**2 - 1)) / sd**2
        return Expectations(value + float((h @ weights).sum()), gradient, curvature)

    return expect


def expectations(
    structure: Structure, mean: jax.Array, factor: jax.Array, z: jax.Array, *rows: Rows, apart: bool
) -> tuple[jax.Array, ...]:
    """Expectations over a Gaussian."""
    function = kernels.log_density(structure, [(1.0, part) for part in rows], prior=True)
    return _means(function, mean, factor, z, apart=apart)


def marginal_expectations(
    structure: Structure, weights: jax.Array, rows: Any, mean: jax.Array, factor: jax.Array, z: jax.Array, *, apart: bool
) -> tuple[jax.Array, ...]:
    """Expectations over a Gaussian of rows without labels."""
    return _means(weighted_marginal(structure, weights, rows), mean, factor, z, apart=apart)


def _means(function: Function, mean: jax.Array, factor: jax.Array, z: jax.Array, *, apart: bool) -> tuple[jax.Array, ...]:
    """Of a function, its gradient and its curvature over draws."""

    def at(theta: jax.Array) -> tuple[jax.Array, ...]:
        curvature = -kernels.hessian_by_columns(function, theta) if apart else function.curvature(theta)
        return function.value(theta), function.gradient(theta), curvature

    def step(total: Any, some: jax.Array) -> tuple[Any, None]:
        theta = mean + some @ factor.T
        derivatives = jax.lax.map(at, theta) if apart else jax.vmap(at)(theta)
        return tuple(sofar + part.mean(axis=0) / len(z) for sofar, part in zip(total, derivatives, strict=True)), None

    q = mean.shape[0]
    return jax.lax.scan(step, (jnp.zeros(()), jnp.zeros(q), jnp.zeros((q, q))), z)[0]


def _by_autodiff(engine: Engine, parts: Sequence[Rows], draws: Draws) -> Expect:
    """Any model, or any prior: averages over draws of θ of derivatives by autodiff."""
    z = draws.of_theta(engine.density.dimension).reshape(-1, _DRAWS_AT_ONCE, engine.density.dimension)

    def expect(at: Moments) -> Expectations:
        value, gradient, curvature = engine.compiler(
            expectations, engine.density.structure, at.mean, at.factor, z, *parts, apart=engine.route.apart
        )
        return Expectations(float(value), gradient, curvature)

    return expect


def _by_autodiff_of_marginal(marginal: Marginal, q: int, draws: Draws) -> Expect:
    """The same of rows whose labels are integrated out."""
    z = draws.of_theta(q).reshape(-1, _DRAWS_AT_ONCE, q)

    def expect(at: Moments) -> Expectations:
        value, gradient, curvature = marginal.sums(marginal_expectations, at.mean, at.factor, z, apart=marginal.apart)
        return Expectations(float(value), gradient, curvature)

    return expect


def _nodes(widest: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for E[f(z)], z standard normal; the wider the predictor, the more of them, up to a limit."""
    wanted = 2 * _HALF_WIDTH * min(widest, 1e6)
    z, _ = trapezoid(next((nodes for nodes in _NODES if nodes >= wanted), _NODES[-1]), _HALF_WIDTH)
    weights = np.exp(-0.5 * z**2)
    return z, weights / weights.sum()
