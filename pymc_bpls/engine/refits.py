"""Refits of many candidates at once: for each, the mode of S_i(θ) = k ℓ_D(θ) + ℓ_i(θ) + log π(θ) and log det H_i there.

All candidates of a chunk start from the mode of k ℓ_D + log π that they share. Where rows have linear predictors
(`predictors`), chord steps come first, with the curvature of the start, and one Newton step usually ends the work
(`structured`). Any other model takes Newton steps with derivatives in θ by autodiff (`newton`). Both are verified by the
same test as any mode (`laplace`). A candidate that is lost in the batch is tried again by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pymc_bpls.compute.compiler import Compiler
from pymc_bpls.compute.threads import for_matrices_of
from pymc_bpls.engine.affine_rows import Objective, Structured
from pymc_bpls.engine.batched_newton import Function, maximise
from pymc_bpls.engine.chords import refit_chunk
from pymc_bpls.engine.failures import Derivatives
from pymc_bpls.engine.mode import Mode, find_mode
from pymc_bpls.engine.separable_priors import SeparablePrior, find_separable
from pymc_bpls.errors import ModeError, ModelError
from pymc_bpls.model.density import Density
from pymc_bpls.model.table import Labeled

CHUNK_BYTES = 256 * 2**20
_SMALLEST_CHUNK, _LARGEST_CHUNK = 32, 1024
_AUTODIFF_WORK, _STRUCTURED_WORK = 2**18, 2**20


@dataclass(frozen=True)
class Refits:
    """The terms of S_i at θ̃_i for each pair i, all of shape (pairs,), and the modes (pairs, q)."""

    log_lik_labeled: np.ndarray
    log_lik_pseudo: np.ndarray
    log_prior: np.ndarray
    log_det: np.ndarray
    converged: np.ndarray
    theta: np.ndarray


class Rows(NamedTuple):
    """Rows as JAX functions take them: weights (n,), class codes (n,) and the model's row inputs."""

    weights: Any
    codes: Any
    inputs: tuple[Any, ...]


@dataclass
class Route:
    """Whether Hessians by autodiff are compiled apart from everything else, column by column.

    XLA of JAX 0.10 miscompiles the batched derivative of a Cholesky factor on the CPU, so that the first Hessian is compared
    with differences of the gradient. Where they disagree, this slower way is taken, and candidates are refitted in turn.
    """

    apart: bool = False
    checked: bool = False

    def check(self, derivatives: Derivatives, start: np.ndarray) -> None:
        """Compare once, choose the way, and compare again."""
        if self.checked:
            return
        self.checked = True
        self.apart = not _agree(derivatives, start)
        if self.apart and not _agree(derivatives, start):
            raise ModelError(
                "The Hessian of the log-density disagrees with its gradient, which is a fault of this version of JAX. "
                "Install another version of jax and jaxlib."
            )


def by_columns(value: Callable[[jax.Array], jax.Array], theta: jax.Array) -> jax.Array:
    """The Hessian at θ, one column after the other."""
    gradient = jax.grad(value)
    return jax.lax.map(lambda v: jax.jvp(gradient, (theta,), (v,))[1], jnp.eye(theta.shape[0]))


def _agree(derivatives: Derivatives, theta: np.ndarray) -> bool:
    """Whether the Hessian along a direction is the difference of gradients along it, to 1%."""
    rng = np.random.default_rng(0)
    theta = theta + 0.1 * rng.normal(size=len(theta))
    along = rng.normal(size=len(theta))
    _, _, curvature = derivatives(theta)
    above, below = (derivatives(theta + sign * 1e-4 * along)[1] for sign in (1, -1))
    found, expected = -curvature @ along, (above - below) / 2e-4
    usable = np.isfinite(found) & np.isfinite(expected)
    return bool((np.abs(found - expected)[usable] <= 1e-2 * (1e-3 + np.abs(expected).max(initial=0.0))).all())


@dataclass(frozen=True)
class Engine:
    """Fits and refits of one density, compiled once for each padded size of D."""

    density: Density
    compiler: Compiler
    chunk_bytes: int = CHUNK_BYTES
    structured: bool = True
    route: Route = field(default_factory=Route)

    @cached_property
    def by_predictors(self) -> Structured | None:
        """The structured path, where the density has linear predictors."""
        if not self.structured or self.density.predictors is None:
            return None
        return Structured(self.density, self.compiler)

    @cached_property
    def separable_prior(self) -> SeparablePrior | None:
        """The prior as a quadratic plus functions of single coefficients, where rows have linear predictors and it is that."""
        return None if self.by_predictors is None else find_separable(self.by_predictors)

    def rows(self, positions: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Rows:
        """Rows of the table with classes and weights."""
        return Rows(weights, codes, self.density.take(positions))

    def labeled_rows(self, labeled: Labeled, k: float = 1.0) -> Rows:
        """D, padded, its weights times k."""
        padded = labeled.padded()
        return self.rows(padded.positions, padded.codes, k * padded.weights)

    def fit(
        self,
        labeled: Labeled,
        start: np.ndarray | None = None,
        *,
        k: int = 1,
        prior: bool = True,
        extra: tuple[int, int] | None = None,
    ) -> Mode:
        """The verified mode of k ℓ_D + log π, and of ℓ_i besides where `extra` is (row, class)."""
        held = labeled if extra is None else labeled.with_rows(np.array([extra[0]]), np.array([extra[1]]), 1.0 / k)
        with for_matrices_of(self.density.dimension):
            return find_mode(
                self._derivatives(held, k, prior),
                self.density.start if start is None else start,
                self.density.parameters.labels,
                prior=prior,
                n_rows=len(held),
                not_finite=self.density.not_finite,
            )

    def _derivatives(self, labeled: Labeled, k: float, prior: bool) -> Derivatives:
        if self.by_predictors is not None:
            return self.by_predictors.derivatives(self.by_predictors.labeled_block(labeled, k), prior)
        rows = self.labeled_rows(labeled, k)

        name = "the log-posterior" if prior else "the likelihood"

        def together(theta: jax.Array, rows: Rows) -> tuple[jax.Array, ...]:
            function = self.weighted([(1.0, rows)], prior)
            return function.value(theta), function.gradient(theta), function.curvature(theta)

        def first_two(theta: jax.Array, rows: Rows) -> tuple[jax.Array, ...]:
            return together(theta, rows)[:2]

        def columns(theta: jax.Array, rows: Rows) -> jax.Array:
            return -by_columns(self.weighted([(1.0, rows)], prior).value, theta)

        def at(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
            if self.route.apart:
                value, gradient = self.compiler(f"{name} and its gradient", first_two, theta, rows)
                return float(value), gradient, self.compiler(f"{name}, its Hessian", columns, theta, rows)
            value, gradient, curvature = self.compiler(name, together, theta, rows)
            return float(value), gradient, curvature

        self.route.check(at, self.density.start)
        return at

    def weighted(self, parts: list[tuple[float, Rows]], prior: bool) -> Function:
        """Σ k ℓ over weighted groups of rows, plus log π, with its derivatives by autodiff."""
        density = self.density

        def value(theta: jax.Array) -> jax.Array:
            total = jnp.zeros(()) if not prior else density.prior(theta)
            for k, rows in parts:
                total += k * (rows.weights @ density.log_lik(theta, rows.codes, rows.inputs))
            return total

        return Function(value, jax.grad(value), lambda theta: -jax.hessian(value)(theta))

    def chunk(self, n_rows: int, n_pairs: int, work: int = _AUTODIFF_WORK) -> int:
        """How many of `n_pairs` to refit together: a power of two, within `chunk_bytes`."""
        q = self.density.dimension
        floats = 6 * q * q + 6 * n_rows * q
        by_memory = max(1, self.chunk_bytes // (8 * floats))
        by_work = max(_SMALLEST_CHUNK, min(_LARGEST_CHUNK, work // q**2))
        by_pairs = max(_SMALLEST_CHUNK, 1 << (n_pairs - 1).bit_length())
        return 1 << (int(min(by_memory, by_work, by_pairs)).bit_length() - 1)

    def refit(self, labeled: Labeled, positions: np.ndarray, codes: np.ndarray, start: Mode, *, k: int, prior: bool) -> Refits:
        """Refit every pair (row `positions[i]`, class `codes[i]`) from the shared mode `start`."""
        if self.route.apart:
            m = len(positions)
            a, b, c, d = np.full((4, m), np.nan)
            lost = Refits(a, b, c, d, np.zeros(m, dtype=bool), np.tile(start.theta, (m, 1)))
            return self._retry(lost, labeled, positions, codes, start.theta, k=k, prior=prior)
        refit = self._autodiff_chunks if self.by_predictors is None else self._structured_chunks
        with for_matrices_of(self.density.dimension):
            parts = list(refit(labeled, positions, codes, start, k, prior))
        refits = Refits(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
        return self._retry(refits, labeled, positions, codes, start.theta, k=k, prior=prior)

    def _structured_chunks(
        self, labeled: Labeled, positions: np.ndarray, codes: np.ndarray, start: Mode, k: int, prior: bool
    ) -> Iterator[tuple[np.ndarray, ...]]:
        model = self.by_predictors
        assert model is not None
        block = model.labeled_block(labeled, k)
        size = self.chunk(block.flat.shape[0], len(positions), _STRUCTURED_WORK)
        for first in range(0, len(positions), size):
            some = slice(first, first + size)
            pairs = model.block(positions[some], codes[some], np.ones(len(codes[some])))
            ends = refit_chunk(Objective(model, block, pairs, prior), start)
            yield ends.log_lik / k, ends.pseudo, ends.log_prior, ends.log_det, ends.done, ends.theta

    def _autodiff_chunks(
        self, labeled: Labeled, positions: np.ndarray, codes: np.ndarray, start: Mode, k: int, prior: bool
    ) -> Iterator[tuple[np.ndarray, ...]]:
        size = self.chunk(len(labeled.padded()), len(positions), _AUTODIFF_WORK)
        for first in range(0, len(positions), size):
            picked = np.resize(np.arange(first, min(first + size, len(positions))), size)
            part = self._autodiff_chunk(labeled, positions[picked], codes[picked], start, k, prior)
            yield tuple(array[: len(positions) - first] for array in part)

    def _autodiff_chunk(
        self, labeled: Labeled, positions: np.ndarray, codes: np.ndarray, start: Mode, k: int, prior: bool
    ) -> tuple[np.ndarray, ...]:
        density = self.density

        def chunk(start: jax.Array, log_det: jax.Array, pairs: Rows, rows: Rows) -> tuple[jax.Array, ...]:
            def one(pair: Rows) -> tuple[jax.Array, ...]:
                candidate = jax.tree.map(lambda array: array[None], pair)
                end = maximise(self.weighted([(float(k), rows), (1.0, candidate)], prior), start, log_det)
                return (
                    rows.weights @ density.log_lik(end.theta, rows.codes, rows.inputs),
                    density.log_lik_row(end.theta, pair.codes, pair.inputs),
                    density.prior(end.theta),
                    end.log_det,
                    end.done & ~end.lost & jnp.isfinite(end.value),
                    end.theta,
                )

            return jax.vmap(one)(pairs)

        name = f"refits (k = {k}, {'with' if prior else 'without'} the prior)"
        pairs = self.rows(positions, codes, np.ones(len(codes)))
        return self.compiler(name, chunk, start.theta, np.asarray(start.log_det), pairs, self.labeled_rows(labeled))

    def _retry(
        self,
        refits: Refits,
        labeled: Labeled,
        positions: np.ndarray,
        codes: np.ndarray,
        start: np.ndarray,
        *,
        k: int,
        prior: bool,
    ) -> Refits:
        """Candidates that the batch lost, one by one; those without a mode have NaN terms and `converged` False."""
        for i in np.flatnonzero(~refits.converged):
            values = np.full(4, np.nan)
            try:
                mode = self.fit(labeled, start, k=k, prior=prior, extra=(int(positions[i]), int(codes[i])))
            except ModeError:
                pass
            else:
                terms = self.terms(mode.theta, labeled, int(positions[i]), int(codes[i]))
                values = np.array([*terms, mode.log_det])
                refits.theta[i], refits.converged[i] = mode.theta, True
            refits.log_lik_labeled[i], refits.log_lik_pseudo[i], refits.log_prior[i], refits.log_det[i] = values
        return refits

    def terms(self, theta: np.ndarray, labeled: Labeled, position: int, code: int) -> tuple[float, float, float]:
        """ℓ_D, ℓ_i and log π at θ."""

        if self.by_predictors is not None:
            pair = self.by_predictors.block(np.array([position]), np.array([code]), np.ones(1))
            return self.by_predictors.terms(theta, labeled, pair)
        density = self.density

        def terms(theta: jax.Array, rows: Rows, pair: Rows) -> tuple[jax.Array, ...]:
            labeled_part, pair_part = (part.weights @ density.log_lik(theta, part.codes, part.inputs) for part in (rows, pair))
            return labeled_part, pair_part, density.prior(theta)

        pairs = self.rows(np.array([position]), np.array([code]), np.ones(1))
        values = self.compiler("terms", terms, theta, self.labeled_rows(labeled), pairs)
        return float(values[0]), float(values[1]), float(values[2])
