"""Exact log PPP of candidates, up to the constant that they share, by deterministic quadrature without this package.

All candidates are averages over one density: PPP_i ∝ ∫ p(ŷ_i | x_i, θ) p_2(θ) dθ with p_2 ∝ p(D | θ)² π(θ). Nodes are added
until differences between candidates move no more than the caller tolerates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import scipy.linalg
from scipy.special import expit, log_expit, logsumexp, roots_hermitenorm

K = 2  # how often D counts
_CHUNK = 2**20
_MOST_STEPS = 100
_LARGEST_SPREAD = 9.0  # in prior scales: a HalfNormal holds less than 1e-18 beyond
_SPREADS_A_NODE = 6


class Exact(NamedTuple):
    """log PPP (candidates,) up to a shared constant, with `nodes` an axis.

    `change` is the standard deviation over candidates of the difference from the value with fewer nodes.
    """

    log_ppp: np.ndarray
    nodes: int
    change: float


class Rows(NamedTuple):
    """Features (n, p), classes (n,) and, in a hierarchy, groups (n,)."""

    X: np.ndarray
    codes: np.ndarray
    groups: np.ndarray


class Model(Protocol):
    """A model whose log PPP is integrated with more and more `nodes` an axis."""

    @property
    def nodes(self) -> tuple[int, ...]:
        """Numbers of nodes to try."""
        ...

    def with_nodes(self, labeled: Rows, candidates: Rows, nodes: int) -> np.ndarray:
        """log PPP (candidates,) up to a shared constant with so many nodes an axis."""
        ...


def exact(model: Model, labeled: Rows, candidates: Rows, tolerance: Callable[[np.ndarray], float]) -> Exact:
    """log PPP with ever more nodes, until its `change` is below `tolerance` of the value, or the last number is reached."""
    last = model.with_nodes(labeled, candidates, model.nodes[0])
    for nodes in model.nodes[1:]:
        value = model.with_nodes(labeled, candidates, nodes)
        change = float((value - last).std(ddof=1))
        if change < tolerance(value):
            break
        last = value
    return Exact(value, nodes, change)


@dataclass(frozen=True)
class Softmax:
    """Coefficients Normal(0, `scale`) of classes 1 … K − 1 against class 0; with two classes, logistic regression."""

    n_classes: int
    scale: float
    nodes: tuple[int, ...]

    def with_nodes(self, labeled: Rows, candidates: Rows, nodes: int) -> np.ndarray:
        """log PPP by a Gauss-Hermite grid that the mode and the Hessian of p_2 place."""
        mode, hessian = self.mode(labeled)
        size = max(1, _CHUNK // (len(labeled.codes) * (self.n_classes - 1)))
        parts = [
            (self.log_density(theta, labeled) + log_weight)[:, None] + self.log_lik(theta, candidates)
            for theta, log_weight in gauss_hermite(mode, hessian, nodes, size)
        ]
        return logsumexp(np.concatenate([logsumexp(part, axis=0)[None] for part in parts]), axis=0)

    def log_density(self, theta: np.ndarray, labeled: Rows) -> np.ndarray:
        """2 ℓ_D + log π up to a constant at θ (points, q)."""
        total = theta @ self._statistic(labeled) - self._log_sum(theta, labeled.X).sum(axis=1)
        return K * total - 0.5 * (theta**2).sum(axis=1) / self.scale**2

    def log_lik(self, theta: np.ndarray, rows: Rows) -> np.ndarray:
        """log p(y | x, θ) of each row, shape (points, rows)."""
        own = np.concatenate([np.zeros((len(theta), 1, len(rows.codes))), self._logits(theta, rows.X)], axis=1)
        return own[:, rows.codes, np.arange(len(rows.codes))] - self._log_sum(theta, rows.X)

    def mode(self, labeled: Rows) -> tuple[np.ndarray, np.ndarray]:
        """The maximum of 2 ℓ_D + log π by Newton's method, and minus the Hessian there."""
        X, others = labeled.X, self.n_classes - 1
        statistic, precision = self._statistic(labeled), 1 / self.scale**2
        theta = np.zeros(others * X.shape[1])
        for _ in range(_MOST_STEPS):
            eta = self._logits(theta[None], X)[0]
            p = np.exp(eta - self._log_sum(theta[None], X))
            gradient = K * (statistic - (p @ X).ravel()) - precision * theta
            curvature = p[:, None] * (np.eye(others)[:, :, None] - p[None])
            hessian = K * np.einsum("abj,jc,jd->acbd", curvature, X, X).reshape(len(theta), -1) + precision * np.eye(len(theta))
            step = scipy.linalg.solve(hessian, gradient, assume_a="pos")
            if gradient @ step < 1e-20:
                break
            theta = theta + step / max(1.0, np.abs(step).max())
        return theta, hessian

    def _statistic(self, rows: Rows) -> np.ndarray:
        return np.concatenate([rows.X[rows.codes == code].sum(axis=0) for code in range(1, self.n_classes)])

    def _logits(self, theta: np.ndarray, X: np.ndarray) -> np.ndarray:
        return theta.reshape(len(theta), self.n_classes - 1, -1) @ X.T

    def _log_sum(self, theta: np.ndarray, X: np.ndarray) -> np.ndarray:
        return np.log(1 + np.exp(self._logits(theta, X)).sum(axis=1))


def gauss_hermite(mode: np.ndarray, hessian: np.ndarray, nodes: int, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Points θ (at most `size`, q) and log weights of a tensor grid for the Gaussian at the mode, without its corners.

    Corners lie farther out than the outermost node of an axis.
    """
    z, weight = roots_hermitenorm(nodes)
    q = len(mode)
    index = np.indices((nodes,) * q).reshape(q, -1)
    radius = (z**2)[index].sum(axis=0)
    index = index[:, radius <= z[-1] ** 2 * (1 + 1e-9)]
    log_weight = np.log(weight) + 0.5 * z**2
    factor = scipy.linalg.cholesky(hessian)
    for first in range(0, index.shape[1], size):
        some = index[:, first : first + size]
        yield mode + scipy.linalg.solve_triangular(factor, z[some]).T, log_weight[some].sum(axis=0)


@dataclass(frozen=True)
class Hierarchy:
    """Logistic regression on one feature, slope Normal(0, `scale`), with group effects spread · z, z Normal(0, 1).

    The spread is HalfNormal(1), or `spread` where that is known. Given slope and spread, groups are independent:
    one-dimensional integrals, by Gauss-Hermite at the mode of each. The slope takes Gauss-Hermite too, the spread the
    trapezoidal rule: the integrand is an even, smooth function of the spread, for which that rule converges faster than any
    power of its step.
    """

    n_groups: int
    scale: float
    nodes: tuple[int, ...]
    spread: float | None = None

    def with_nodes(self, labeled: Rows, candidates: Rows, nodes: int) -> np.ndarray:
        """log PPP with so many nodes for slope and effects, and `_SPREADS_A_NODE` times as many spreads."""
        centre, deviation, starts = self._start(labeled)
        z, weight = roots_hermitenorm(nodes)
        spread = self._spreads(nodes)
        slopes = centre + deviation * z
        log_outer = (np.log(weight) + 0.5 * z**2 - 0.5 * slopes**2 / self.scale**2)[:, None] - 0.5 * spread**2
        log_terms = np.empty((nodes, len(spread), len(candidates.codes)))
        for i, slope in enumerate(slopes):
            for group in range(self.n_groups):
                mine, own = labeled.groups == group, candidates.groups == group
                inner = Inner(slope * labeled.X[mine, 0], labeled.codes[mine], spread, starts[group])
                effects, log_mass = inner.nodes(z, np.log(weight) + 0.5 * z**2)
                log_group = logsumexp(log_mass, axis=1)
                log_outer[i] += log_group
                sign = np.where(candidates.codes[own] == 1, 1.0, -1.0)
                log_lik = log_expit(sign * (effects[..., None] + slope * candidates.X[own, 0]))
                log_terms[i][:, own] = logsumexp(log_mass[..., None] + log_lik, axis=1) - log_group[:, None]
        return logsumexp(log_outer[..., None] + log_terms, axis=(0, 1))

    def _spreads(self, nodes: int) -> np.ndarray:
        """Midpoints up to `_LARGEST_SPREAD`, or the known spread alone."""
        if self.spread is not None:
            return np.array([self.spread])
        count = _SPREADS_A_NODE * nodes
        return _LARGEST_SPREAD * (np.arange(count) + 0.5) / count

    def _start(self, labeled: Rows) -> tuple[float, float, np.ndarray]:
        """Slope, its deviation, and effects with their variances (groups, 2), under effects Normal(0, `scale`)."""
        design = np.column_stack([labeled.X[:, 0], np.eye(self.n_groups)[labeled.groups]])
        mode, hessian = Softmax(2, self.scale, ()).mode(labeled._replace(X=design))
        variance = np.diag(np.linalg.inv(hessian))
        return mode[0], np.sqrt(variance[0]), np.column_stack([mode, variance])[1:]


@dataclass(frozen=True)
class Inner:
    """2 ℓ + log Normal(z; 0, 1) of one group's rows as a function of z, for each spread; `offset` is slope · x (rows,)."""

    offset: np.ndarray
    codes: np.ndarray
    spread: np.ndarray
    start: np.ndarray

    def nodes(self, z: np.ndarray, log_weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Effects spread · z at Gauss-Hermite nodes around the mode of each spread, and their log mass (spreads, nodes)."""
        mode, deviation = self._mode()
        at = mode[:, None] + deviation[:, None] * z
        effects = self.spread[:, None] * at
        eta = effects[..., None] + self.offset
        log_lik = self.codes.sum() * effects + self.codes @ self.offset - np.log(1 + np.exp(eta)).sum(axis=-1)
        return effects, K * log_lik - 0.5 * at**2 + log_weight + np.log(deviation)[:, None]

    def _mode(self) -> tuple[np.ndarray, np.ndarray]:
        """The mode in z for each spread, and the standard deviation that the curvature there gives, by Newton's method."""
        effect, variance = self.start
        z = effect * self.spread / (self.spread**2 + variance)
        for _ in range(_MOST_STEPS):
            p = expit((self.spread * z)[:, None] + self.offset)
            gradient = K * self.spread * (self.codes.sum() - p.sum(axis=1)) - z
            curvature = K * self.spread**2 * (p * (1 - p)).sum(axis=1) + 1
            step = gradient / curvature
            if np.abs(step * np.sqrt(curvature)).max() < 1e-6:
                break
            z = z + np.clip(step, -1, 1)
        return z, 1 / np.sqrt(curvature)
