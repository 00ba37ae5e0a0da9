"""Densities of many single numbers on nodes around their modes: integrals, and draws by inverse distribution functions.

Each number u has log f(u) = Σ_r w_r ℓ_r(η_r + a_r u) + s u − ½ P u²: a few rows with weights, whose predictors it moves, and a
normal prior. With σ from the curvature at the mode û, nodes are û + σ b sinh(t/b) at equally spaced t: near together where the
density is, and far enough out for the tails of a prior that is much wider. ∫ f du is the trapezoidal sum over t, whose error
falls faster than any power of the spacing for densities that are smooth; between two nodes it is the integral of the polynomial
through these and two more on each side, and draws there are from a density whose logarithm is a straight line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

_SPACING, _BEND, _FARTHEST = 0.3, 2.5, 15.0
_STEPS, _NEAR = 40, 0.2
#: Of sums over every other node, and of the share of the outermost ones: above these, nodes do not see the density.
_MOST_OFF, _MOST_BEYOND = 3e-3, 1e-4

#: Equally spaced t (M,), the moves from the mode in units of σ, and log dz/dt · spacing there.
_T = _SPACING * np.arange(-(_LAST := int(np.ceil(_BEND * np.arcsinh(_FARTHEST / _BEND) / _SPACING))), _LAST + 1)
_Z, _LOG_WIDTH = _BEND * np.sinh(_T / _BEND), np.log(_SPACING * np.cosh(_T / _BEND))
NODES = len(_T)
#: Of the farthest, the next and the nearest two of six equally spaced nodes in the integral between the nearest two.
_WEIGHTS = (11 / 1440, -93 / 1440, 802 / 1440)

#: Gradient of log f at u (J, S), and its curvature but for rows that are convex there.
Bends = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Curves:
    """Densities of J numbers, in S settings each: modes and σ (J, S), and log f du/dt · spacing at the nodes (J, S, M)."""

    mode: np.ndarray
    sd: np.ndarray
    log_values: np.ndarray

    @classmethod
    def of(cls, bends: Bends, log_density: Callable[[np.ndarray], np.ndarray], start: np.ndarray) -> Curves:
        """Around modes that are looked for from `start` (J, S); `log_density` is log f at u (J, S, M)."""
        mode, sd = _modes(bends, start)
        at_nodes = log_density(mode[:, :, None] + sd[:, :, None] * _Z)
        at_nodes += _LOG_WIDTH
        at_nodes += np.log(sd)[:, :, None]
        return cls(mode, sd, at_nodes)

    def _scaled(self) -> tuple[np.ndarray, np.ndarray]:
        """The highest values (J, S), and all of them over these."""
        top = self.log_values.max(axis=2)
        return top, np.exp(self.log_values - top[:, :, None])

    @property
    def log_integrals(self) -> np.ndarray:
        """log ∫ f du (J, S)."""
        top, values = self._scaled()
        return top + np.log(values.sum(axis=2))

    @property
    def resolved(self) -> np.ndarray:
        """Whether nodes see the density (J, S): every other one gives nearly the same integral, and little is outermost.

        Integrals are then right to about 10⁻⁶. They are not where a likelihood bends within a twentieth of the prior's sd.
        """
        _, values = self._scaled()
        whole = values.sum(axis=2)
        off = np.abs(2 * values[:, :, ::2].sum(axis=2) / whole - 1)
        beyond = np.maximum(values[:, :, 0], values[:, :, -1]) / whole
        return np.asarray((off <= _MOST_OFF) & (beyond <= _MOST_BEYOND))

    def draws(self, uniform: np.ndarray) -> np.ndarray:
        """The quantiles (J, S) at numbers between 0 and 1, of the same shape: draws, where these are uniform."""
        _, values = self._scaled()
        masses = _between(values)
        cumulated = np.cumsum(masses, axis=2)
        wanted = uniform * cumulated[:, :, -1]
        place = np.minimum((cumulated < wanted[:, :, None]).sum(axis=2), NODES - 2)

        def at(array: np.ndarray, places: np.ndarray) -> np.ndarray:
            return np.asarray(np.take_along_axis(array, places[:, :, None], axis=2)[:, :, 0])

        own = at(masses, place)
        share = np.clip(1 - (at(cumulated, place) - wanted) / own, 0.0, 1.0)
        rise = at(self.log_values, place + 1) - at(self.log_values, place)
        t = _T[place] + _SPACING * _along(share, rise)
        return self.mode + self.sd * _BEND * np.sinh(t / _BEND)


def _modes(bends: Bends, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Modes and σ (J, S) by Newton's method, near enough for nodes around them.

    It bisects the bracket that signs of gradients make where a step would leave it, or the last did not halve the gradient.
    """
    u, low, high, before = start, np.full(start.shape, -np.inf), np.full(start.shape, np.inf), np.full(start.shape, np.inf)
    for _ in range(_STEPS):
        gradient, curvature = bends(u)
        size = np.abs(gradient)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            step, root = gradient / curvature, np.sqrt(curvature)
            there = size <= _NEAR * root
            if there.all():
                break
            low, high = np.where(gradient > 0, u, low), np.where(gradient > 0, high, u)
            middle = 0.5 * (low + high)
            trusted = (u + step > low) & (u + step < high) & ((2 * size <= before) | ~np.isfinite(middle))
            ahead = np.where(np.isfinite(step), np.where(trusted, u + step, middle), 0.5 * (u + start))
            u, before = np.where(there, u, ahead), size
    return u, 1 / root


def _between(values: np.ndarray) -> np.ndarray:
    """Integrals between nodes (J, S, M − 1) of polynomials through the six around them, which add up to the trapezoidal sum.

    In tails that fall to a tenth from node to node they go below 0: what is there is less than 10⁻⁵ of the whole, and 0 here.
    """
    count, padded = values.shape[2] - 1, np.pad(values, ((0, 0), (0, 0), (2, 2)))
    pairs = (padded[:, :, first : first + count] + padded[:, :, 5 - first : 5 - first + count] for first in range(3))
    total = np.zeros((*values.shape[:2], count))
    for weight, pair in zip(_WEIGHTS, pairs, strict=True):
        pair *= weight
        total += pair
    return np.maximum(total, 0.0, out=total)


def _along(share: np.ndarray, rise: np.ndarray) -> np.ndarray:
    """Where between 0 and 1 a density whose logarithm rises by `rise` from end to end has that share of its mass before."""
    flat = np.abs(rise) < 1e-6
    rise = np.where(flat, 1.0, rise)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(flat, share, np.log1p(share * np.expm1(rise)) / rise)
