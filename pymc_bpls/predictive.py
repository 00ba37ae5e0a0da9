"""Class probabilities of rows: at one θ, and averaged over a Gaussian approximation q(θ) = N(θ̂, Σ).

Where each row depends on θ through one linear predictor, the average is a one-dimensional integral and taken by
Gauss–Hermite quadrature along the direction u = Σa / (a'Σa)^½ in which that predictor varies; otherwise over fixed
antithetic Sobol draws, so that scores are deterministic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from scipy.stats import norm, qmc

from pymc_bpls.density import Density
from pymc_bpls.laplace import Mode
from pymc_bpls.refit import Engine

_ROWS_AT_ONCE = 1024
_NODES = 32
_DRAWS = 256
_TESTED_ROWS = 32


@dataclass(frozen=True)
class Predictive:
    """Predictions of one engine for rows of its table."""

    engine: Engine

    @property
    def density(self) -> Density:
        """The density that is predicted from."""
        return self.engine.density

    def over_rows(
        self, name: str, function: Callable[..., Any], positions: np.ndarray, *arguments: Any, codes: Any = None
    ) -> np.ndarray:
        """`function(*arguments, rows)`, or with the rows' `codes` before `rows`, in chunks of one size."""
        total = len(self.density.data[0])
        size = min(_ROWS_AT_ONCE, 1 << (total - 1).bit_length())
        parts = []
        if not len(positions):
            return self.over_rows(
                name, function, np.zeros(1, int), *arguments, codes=None if codes is None else np.zeros(1, int)
            )[:0]
        for first in range(0, len(positions), size):
            picked = np.resize(np.arange(first, min(first + size, len(positions))), size)
            coded = () if codes is None else (codes[picked],)
            part = self.engine.compiler(name, function, *arguments, *coded, self.density.take(positions[picked]))
            parts.append(part[: len(positions) - first])
        return np.concatenate(parts)

    def log_lik(self, theta: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """ℓ_j(θ) of each class, shape (rows, K)."""
        return self.over_rows("predictions", self.density.log_lik_classes, positions, theta)

    def log_probabilities(self, theta: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """log of the softmax over classes of ℓ_j(θ), shape (rows, K)."""
        return log_softmax(self.log_lik(theta, positions))

    def log_odds_gradient(self, theta: np.ndarray, positions: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """∇[log p_y − log(1 − p_y)] at θ of each row's class y, shape (rows, q)."""

        def log_odds(theta: jax.Array, code: jax.Array, row: Any) -> jax.Array:
            log_lik = self.density.log_lik_classes(theta, tuple(values[None] for values in row))[0]
            others = jnp.where(jnp.arange(len(log_lik)) == code, -jnp.inf, log_lik)
            return log_lik[code] - jax.scipy.special.logsumexp(others)

        def gradients(theta: jax.Array, codes: jax.Array, rows: Any) -> jax.Array:
            return jax.vmap(jax.grad(log_odds), (None, 0, 0))(theta, codes, rows)

        return self.over_rows("log-odds gradients", gradients, positions, theta, codes=codes)

    @cached_property
    def one_predictor(self) -> bool:
        """Whether ∇ℓ_j keeps its direction for all θ and labels, tested on some rows: then ℓ_j is a function of a'θ."""
        rng = np.random.default_rng(0)
        positions = rng.permutation(len(self.density.data[0]))[:_TESTED_ROWS]
        start = self.density.start
        gradients = np.stack(
            [self.gradients(start + scale * rng.normal(size=len(start)), positions) for scale in (0.1, 0.5, 0.5, 1.0)]
        )
        stacked = np.moveaxis(gradients, 0, 1).reshape(len(positions), -1, len(start))
        if not np.isfinite(stacked).all():
            return False
        singular = np.linalg.svd(stacked, compute_uv=False)
        return bool(singular.shape[1] < 2 or (singular[:, 1] <= 1e-9 * np.maximum(singular[:, 0], 1e-300)).all())

    def gradients(self, theta: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """∇ℓ_j(θ) of every class, shape (rows, K, q)."""
        gradients = jax.jacfwd(self.density.log_lik_classes)
        return self.over_rows("gradients of rows", gradients, positions, theta)

    def log_mean_lik(self, mode: Mode, positions: np.ndarray, *, normalised: bool) -> np.ndarray:
        """log E_q[exp ℓ_j] of each class under N(θ̂, H⁻¹), or of the class probabilities with `normalised`; (rows, K)."""
        factor = scipy.linalg.cholesky(mode.hessian, lower=True)
        spread = scipy.linalg.solve_triangular(factor, np.eye(len(mode.theta)), lower=True).T
        kind = "probabilities" if normalised else "likelihoods"
        if self.one_predictor:
            covariance = spread @ spread.T
            return self.over_rows(f"mean {kind}", self._by_quadrature(normalised), positions, mode.theta, covariance)
        draws = mode.theta + antithetic_draws(len(mode.theta)) @ spread.T
        return self.over_rows(f"mean {kind} over draws", self._by_draws(normalised), positions, draws)

    def _by_quadrature(self, normalised: bool) -> Callable[..., jax.Array]:
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        log_weights = np.log(weights / weights.sum())

        def of_row(theta: jax.Array, covariance: jax.Array, row: Any) -> jax.Array:
            one = tuple(values[None] for values in row)
            gradients = jax.jacfwd(self.density.log_lik_classes)(theta, one)[0]
            a = gradients[jnp.argmax(jnp.abs(gradients).max(axis=1))]
            a = a / jnp.maximum(jnp.abs(a).max(), 1e-300)
            variance = a @ covariance @ a
            u = covariance @ a / jnp.sqrt(jnp.where(variance > 0, variance, 1.0))
            log_lik = jax.vmap(lambda node: self.density.log_lik_classes(theta + node * u, one)[0])(jnp.asarray(nodes))
            log_lik = jax.nn.log_softmax(log_lik, axis=1) if normalised else log_lik
            return jax.scipy.special.logsumexp(log_lik + log_weights[:, None], axis=0)

        return lambda theta, covariance, rows: jax.vmap(of_row, (None, None, 0))(theta, covariance, rows)

    def _by_draws(self, normalised: bool) -> Callable[..., jax.Array]:
        def over(draws: jax.Array, rows: Any) -> jax.Array:
            def step(total: jax.Array, theta: jax.Array) -> tuple[jax.Array, None]:
                log_lik = self.density.log_lik_classes(theta, rows)
                log_lik = jax.nn.log_softmax(log_lik, axis=1) if normalised else log_lik
                return jnp.logaddexp(total, log_lik), None

            start = jnp.full((rows[0].shape[0], len(self.density.class_values)), -jnp.inf)
            return jax.lax.scan(step, start, draws)[0] - jnp.log(len(draws))

        return over


def antithetic_draws(dimension: int) -> np.ndarray:
    """Fixed standard normal draws (2·256, q): a scrambled Sobol sequence and its mirror image."""
    points = norm.ppf(qmc.Sobol(dimension, rng=np.random.default_rng(0)).random(_DRAWS))
    return np.concatenate([points, -points])


def log_softmax(log_lik: np.ndarray) -> np.ndarray:
    """log of the softmax over the last axis; a row of −inf only becomes NaN."""
    with np.errstate(invalid="ignore"):
        return log_lik - np.logaddexp.reduce(log_lik, axis=-1, keepdims=True)
