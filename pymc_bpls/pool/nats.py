"""Nats of what predictions depend on, and the number of labels that would bring as many.

In coordinates in which the posterior of θ given D has covariance I, M is the information that comes in, so that the covariance
becomes (I + M)⁻¹, and G (rows, q) are the gradients of the rows' log-odds at the mode. With B = G'G / rows and a small ε,

    nats = ½ log det(I + B/ε²) − ½ log det(I + B (I + M)⁻¹/ε²) → ½ log(det Σ_bb / det Σ'_bb)    (ε → 0),

b = V'θ being what log-odds depend on, with V the range of G': by how much the log-odds of the rows, each seen with error ε, are
better known. Directions that move log-odds by less than ε in root mean square, as those of parameters that no prediction
depends on, do not count, and no rank has to be decided.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from scipy.optimize import brentq

#: ε: a log-odds that is known to .001 gives a probability that is known to .00025.
_PRECISION = 1e-3
_NARROWED = 0.01  # nats of one parameter that are worth a word
_ROOT = 1e-6  # of the number of rows: far below what is shown


@dataclass(frozen=True)
class Predictions:
    """What predictions depend on: B (q, q), the mean square of gradients of the rows' log-odds, where θ has covariance I."""

    squares: np.ndarray

    @cached_property
    def _root(self) -> np.ndarray:
        """R with R R' = B/ε²."""
        values, vectors = scipy.linalg.eigh(self.squares)
        return vectors * np.sqrt(np.maximum(values, 0.0)) / _PRECISION

    @cached_property
    def projector_root(self) -> np.ndarray:
        """P^½ with P = B (ε² I + B)⁻¹, which keeps what predictions depend on: nats = ½ tr(P M) to first order."""
        values, vectors = scipy.linalg.eigh(self.squares)
        values = np.maximum(values, 0.0)
        return vectors * np.sqrt(values / (_PRECISION**2 + values))

    def nats(self, information: np.ndarray) -> float:
        """By how much information M (q, q) narrows what predictions depend on; below 0 where that becomes wider."""
        R, eye = self._root, np.eye(len(information))
        narrowed = R.T @ scipy.linalg.solve(eye + information, R, assume_a="sym")
        return 0.5 * (_log_det(eye + R.T @ R) - _log_det(eye + narrowed))

    def other_nats(self, information: np.ndarray) -> float:
        """The nats of M about everything else, given what predictions depend on."""
        return 0.5 * _log_det(np.eye(len(information)) + information) - self.nats(information)

    def narrowed_unused(self, information: np.ndarray, factor: np.ndarray) -> Callable[[slice], bool]:
        """Whether a part of θ is narrowed by M and moves no log-odds, L being `factor`."""
        back = scipy.linalg.solve_triangular(factor, np.eye(len(factor)), lower=True)
        before = (factor**2).sum(axis=1)
        moved = before * np.einsum("ik,ij,jk->k", back, self.squares, back)
        after = np.einsum("ki,ik->k", factor, scipy.linalg.solve(np.eye(len(factor)) + information, factor.T, assume_a="sym"))
        narrowed = 0.5 * np.log(before / after) > _NARROWED
        return lambda part: bool((moved[part] < _PRECISION**2).all() and narrowed[part].any())

    def equivalent_labels(self, nats: float, labeled: np.ndarray, n: int) -> float:
        """How many of n labeled rows, which together bring the information `labeled` (q, q), bring so many nats: the one root.

        The nats of m rows grow with m, and all n bring at least those of the same rows without labels.
        """

        def missing(m: float) -> float:
            return self.nats(m / n * labeled) - nats

        if nats <= 0 or n == 0:
            return 0.0
        return float(n) if missing(n) <= 0 else float(brentq(missing, 0.0, n, xtol=_ROOT * n))


def _log_det(matrix: np.ndarray) -> float:
    return float(np.linalg.slogdet(matrix)[1])
