"""Resample-move (Gilks and Berzuini 2001): draws are drawn again by their weights and moved by Hamiltonian transitions.

The transitions leave p_k(θ) ∝ p(D | θ)^k π(θ) as it is, so that what the weights missed of it is filled in, and draws that were
taken twice part. They go on until the mean log-density of the draws stands still.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp

from pymc_bpls.engine.engine import Engine
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.model.structure import Rows, Structure
from pymc_bpls.montecarlo.weighted import Weighted
from pymc_bpls.text.progress import stage

TRANSITIONS, STEPS = 5, 8
_FEWEST_ROUNDS, _MOST_ROUNDS, _MOST_HALVINGS = 2, 12, 6
_LARGEST_STEP, _LEAST_ACCEPTED = 0.6, 0.7
_STILL = 3.0
_AT_ONCE = 256


def hamiltonian_moves(
    structure: Structure,
    theta: jax.Array,
    factor: jax.Array,
    step: jax.Array,
    keys: jax.Array,
    rows: Rows,
    *,
    n: int,
    steps: int,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Hamiltonian moves of draws.

    As `walks` makes them of θ (S, q): θ, the log-density there, and the share of proposals that were accepted.
    """
    at = jax.value_and_grad(lambda theta: structure.log_density(theta, [(1.0, rows)], prior=True))
    return walks(at, theta, factor, step, keys, n=n, steps=steps)


def walks(
    at: Callable[[jax.Array], tuple[jax.Array, jax.Array]],
    points: jax.Array,
    factor: jax.Array,
    step: jax.Array,
    keys: jax.Array,
    *,
    n: int,
    steps: int,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """n transitions of `steps` leapfrog steps each, of each point (S, d), whose scale `factor` makes unit: (d, d), or (d,).

    `at` gives the log-density and its gradient at a point. Returned are points, log-densities (S,), and the shares (S,) of
    proposals that were accepted.
    """

    def scaled(vector: jax.Array) -> jax.Array:
        return factor * vector if factor.ndim == 1 else factor @ vector

    def scaled_back(vector: jax.Array) -> jax.Array:
        return factor * vector if factor.ndim == 1 else vector @ factor

    def walk(start: tuple[jax.Array, jax.Array]) -> Any:
        point, key = start
        (point, value, _, accepted), _ = jax.lax.scan(transition, (point, *at(point), 0.0), jax.random.split(key, n))
        return point, value, accepted / n

    def transition(state: Any, key: jax.Array) -> tuple[Any, None]:
        point, value, gradient, accepted = state
        for_momentum, for_step, for_test = jax.random.split(key, 3)
        momentum = jax.random.normal(for_momentum, point.shape, point.dtype)
        size = step * jax.random.uniform(for_step, (), point.dtype, 0.7, 1.3)

        def leapfrog(state: Any, _: None) -> tuple[Any, None]:
            point, momentum, _, gradient = state
            momentum = momentum + 0.5 * size * scaled_back(gradient)
            point = point + scaled(size * momentum)
            value, gradient = at(point)
            return (point, momentum + 0.5 * size * scaled_back(gradient), value, gradient), None

        (end, last, end_value, end_gradient), _ = jax.lax.scan(leapfrog, (point, momentum, value, gradient), length=steps)
        gain = end_value - value - 0.5 * (last @ last - momentum @ momentum)
        taken = jnp.log(jax.random.uniform(for_test, (), point.dtype)) < gain
        new = (end, end_value, end_gradient)
        point, value, gradient = (jnp.where(taken, a, b) for a, b in zip(new, (point, value, gradient), strict=True))
        return (point, value, gradient, accepted + taken), None

    points, value, accepted = jax.lax.map(walk, (points, keys), batch_size=_AT_ONCE)
    return points, value, accepted


def keys_of(n: int, rng: np.random.Generator) -> np.ndarray:
    """A key of JAX's random numbers for each of n walks."""
    return np.asarray(jax.random.split(jax.random.PRNGKey(int(rng.integers(2**31))), n))


#: Transitions of draws (S, q) with a factor and a step: the draws, their log-densities (S,), and the share that was accepted.
Move = Callable[[np.ndarray, np.ndarray, float, np.random.Generator], tuple[np.ndarray, np.ndarray, float]]


def moved(
    engine: Engine, labeled: Labeled, k: int, draws: Weighted, rng: np.random.Generator, *, apart: bool = False
) -> tuple[np.ndarray, list[str]]:
    """As many draws (S, q) with equal weights, and reasons to distrust them; of many parameters each is scaled `apart`."""
    rows = engine.density.labeled_rows(labeled, k)

    def move(
        theta: np.ndarray, factor: np.ndarray, step: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, float]:
        keys = keys_of(len(theta), rng)
        structure, count = engine.density.structure, {"n": TRANSITIONS, "steps": STEPS}
        theta, value, accepted = engine.compiler(
            hamiltonian_moves, structure, theta, factor, np.float64(step), keys, rows, **count
        )
        return theta, value, float(accepted.mean())

    return moved_by(move, draws, rng, apart=apart)


def moved_by(move: Move, draws: Weighted, rng: np.random.Generator, *, apart: bool = False) -> tuple[np.ndarray, list[str]]:
    """The same by some transitions.

    Draws that came from the same one stay neighbours, so that errors by batches hold what they still have in common.
    """
    theta = resampled(draws, rng)
    factor, step, halvings = (draws.sd if apart else _factor(draws)), _LARGEST_STEP * theta.shape[1] ** -0.25, 0
    before, settled = None, 0
    with stage("moving draws by Hamiltonian transitions", _MOST_ROUNDS) as tell:
        for _ in range(_MOST_ROUNDS):
            theta, value, accepted = move(theta, factor, step, rng)
            tell(1)
            still = before is not None and _stands_still(value - before)
            before = value
            if accepted < _LEAST_ACCEPTED and halvings < _MOST_HALVINGS:
                step, halvings, settled = step / 2, halvings + 1, 0
                continue
            settled += 1
            if settled >= _FEWEST_ROUNDS and still:
                return theta, []
    return theta, ["the draws still drift after they were moved, where NUTS is needed"]


def resampled(draws: Weighted, rng: np.random.Generator) -> np.ndarray:
    """Draws θ (S, q) by their weights, by systematic resampling."""
    n = len(draws.theta)
    shares = np.cumsum(np.exp(draws.log_weights - logsumexp(draws.log_weights)))
    places = np.searchsorted(shares, (np.arange(n) + rng.uniform()) / n)
    return draws.theta[np.minimum(places, n - 1)]


def _factor(draws: Weighted) -> np.ndarray:
    """A Cholesky factor of the draws' covariance, or of its diagonal where too few draws count."""
    covariance = draws.moments()[1]
    variances = np.diag(np.diag(covariance))
    try:
        return np.linalg.cholesky(covariance + 1e-8 * variances)
    except np.linalg.LinAlgError:
        return np.sqrt(variances)


def _stands_still(change: np.ndarray) -> bool:
    return bool(abs(change.mean()) <= _STILL * change.std() / np.sqrt(len(change)))
