"""Weighted draws, and how they are cut into batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

_BATCHES = 100


@dataclass(frozen=True)
class Weighted:
    """Draws θ (S, q) with log weights (S,); `groups` says how many equally long, independent sequences they are.

    `pareto_k` is k-hat of importance weights, of those that draws with equal weights came from too.
    """

    theta: np.ndarray
    log_weights: np.ndarray
    groups: int
    pareto_k: float | None

    @property
    def batches(self) -> np.ndarray:
        """S split into consecutive batches within sequences, shape (batches, length); a rest is left out."""
        length = len(self.theta) // self.groups
        per_group = max(2, _BATCHES // self.groups)
        size = max(1, length // per_group)
        starts = np.arange(self.groups)[:, None] * length + np.arange(length // size)[None, :] * size
        return starts.reshape(-1, 1) + np.arange(size)

    @property
    def ess(self) -> float:
        """Kish's effective number of draws by their weights, (Σ w)² / Σ w²."""
        return float(np.exp(2 * logsumexp(self.log_weights) - logsumexp(2 * self.log_weights)))

    @property
    def sd(self) -> np.ndarray:
        """Standard deviation of each parameter (q,)."""
        weights = np.exp(self.log_weights - logsumexp(self.log_weights))
        return np.asarray(np.sqrt(weights @ (self.theta - weights @ self.theta) ** 2))

    def moments(self, power: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        """Mean (q,) and covariance (q, q), with the weights to a power."""
        log_weights = power * self.log_weights
        weights = np.exp(log_weights - logsumexp(log_weights))
        mean = weights @ self.theta
        centred = self.theta - mean
        return mean, (centred.T * weights) @ centred
