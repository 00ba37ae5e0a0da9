"""Moments of tilted densities, cavity × factor, of many factors at once: by the trapezoid rule at nodes that are kept.

Nodes lie on ±9 sd of q's marginal of each factor's linear function f. Factors are evaluated where nodes are placed; as long as
a marginal stays near, its nodes and the factor's values there serve again, in later steps of a fit and in later fits. Factors
with as many nodes stand below each other in one matrix, so that a step is a few operations on whole matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Protocol

import numpy as np

#: Of the Hermite polynomials that say how a density differs from a Gaussian.
ORDERS = (3, 4)
_HALF_WIDTH = 9.0
# nodes are at most this far apart in f, unless that takes more of them than there may be; always so many at kinks of a prior
_APART, _COUNTS, _AT_KINKS = 1.0, np.array([41, 61, 91, 137, 205, 307, 461, 691, 1037, 1555, 2333, 4001]), 641
_DRIFT = 0.1


class LogFactors(Protocol):
    """Functions of one number each, of which the first `n` are smooth."""

    @property
    def n(self) -> int:
        """How many are smooth."""
        ...

    def log_values(self, f: np.ndarray, owner: np.ndarray) -> np.ndarray:
        """Logs of the functions `owner` (G,), in ascending order, at f (G,)."""
        ...


class Marginals(NamedTuple):
    """Mean and variance (J,) of each factor's f under q."""

    mean: np.ndarray
    variance: np.ndarray


@cache
def _powers(nodes: int) -> np.ndarray:
    """z⁰, z¹ and z² (3, nodes) of nodes on ±9."""
    return np.linspace(-_HALF_WIDTH, _HALF_WIDTH, nodes) ** np.arange(3)[:, None]


@dataclass(frozen=True)
class Group:
    """Factors `which` (B,) with as many nodes: z (G,) in sd of their marginals, and the factors' logarithms there (B, G)."""

    which: np.ndarray
    log_values: np.ndarray

    @property
    def powers(self) -> np.ndarray:
        """z⁰, z¹ and z² (3, G)."""
        return _powers(self.log_values.shape[1])

    def take(self, keep: np.ndarray) -> Group:
        """Some of its factors."""
        return self if keep.all() else Group(self.which[keep], self.log_values[keep])


@dataclass(frozen=True)
class Nodes:
    """Where every factor is evaluated, f = mean + sd z for the marginals (J,) at the time; sd is 0 where it is not yet."""

    mean: np.ndarray
    sd: np.ndarray
    groups: tuple[Group, ...] = ()

    @classmethod
    def none(cls, factors: int) -> Nodes:
        """No factor is evaluated yet."""
        return cls(np.zeros(factors), np.zeros(factors))

    def of_more_rows(self, old: int, now: int) -> Nodes:
        """For `now` rows instead of `old` ones; nodes of the new rows are missing."""

        def more(values: np.ndarray) -> np.ndarray:
            return np.concatenate([values[:old], np.zeros(now - old), values[old:]])

        groups = (
            Group(np.where(each.which < old, each.which, each.which + now - old), each.log_values) for each in self.groups
        )
        return Nodes(more(self.mean), more(self.sd), tuple(groups))

    def at(self, now: Marginals, factors: LogFactors) -> Nodes:
        """Placed anew where a mean has moved by more than a tenth of a sd, or a sd by more than 5%."""
        sd = np.sqrt(now.variance)
        far = np.abs(now.mean - self.mean) > _DRIFT * self.sd
        far |= np.abs(sd - self.sd) > 0.5 * _DRIFT * self.sd
        if not far.any():
            return self
        mean, sd = np.where(far, now.mean, self.mean), np.where(far, sd, self.sd)
        moved = np.flatnonzero(far)
        count = _COUNTS[np.searchsorted(_COUNTS[:-1], 2 * _HALF_WIDTH * sd[moved] / _APART)]
        count[moved >= factors.n] = _AT_KINKS
        groups = {each.log_values.shape[1]: each.take(~far[each.which]) for each in self.groups}
        for size in np.unique(count).tolist():
            which = moved[count == size]
            f = mean[which, None] + sd[which, None] * _powers(size)[1]
            log_values = factors.log_values(f.ravel(), np.repeat(which, size)).reshape(f.shape)
            if size in groups:
                before = groups[size]
                which, log_values = np.append(before.which, which), np.vstack([before.log_values, log_values])
            groups[size] = Group(which, log_values)
        return Nodes(mean, sd, tuple(each for each in groups.values() if len(each.which)))

    def tilted(self, marginals: Marginals, tau: np.ndarray, nu: np.ndarray) -> TiltedDensities:
        """The tilted densities at the nodes, f = m + s z, for sites exp(ν f − ½ τ f²).

        The marginal N(μ, v) over the site is exp{[(μ − m)/v − ν + τ m] s z − ½ (1/v − τ) s² z²} but for a constant.
        """
        mean, variance = marginals
        pull = ((mean - self.mean) / variance - nu + tau * self.mean) * self.sd
        bends = np.column_stack([pull, -0.5 * (1 / variance - tau) * self.sd**2])
        constant = -0.5 * (mean - self.mean) ** 2 / variance - (nu - 0.5 * tau * self.mean) * self.mean
        highest, densities = np.zeros(len(self.mean)), []
        sums = np.tile(
            [1.0, 0.0, 1.0], (len(self.mean), 1)
        )  # of a factor that is not evaluated: mean and variance of the nodes
        for group in self.groups:
            powers, which = group.powers, group.which
            log_p = bends[which] @ powers[1:]
            log_p += group.log_values
            highest[which] = top = log_p.max(axis=1)
            log_p -= top[:, None]
            densities.append(np.exp(log_p, out=log_p))
            sums[which] = log_p @ powers.T
        return TiltedDensities(self, constant - 0.5 * np.log(2 * np.pi * variance), highest, densities, sums)


@dataclass(frozen=True)
class TiltedDensities:
    """Every factor's tilted density p over its highest value, by groups of nodes (B, G); Σ p, Σ p z and Σ p z² (J, 3)."""

    nodes: Nodes
    constant: np.ndarray
    highest: np.ndarray
    p: list[np.ndarray]
    sums: np.ndarray

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of f (J,)."""
        total, first, second = self.sums.T
        shift = first / total
        return self.nodes.mean + self.nodes.sd * shift, self.nodes.sd**2 * (second / total - shift**2)

    def log_z(self) -> np.ndarray:
        """log ∫ N(f; μ, v) factor / site df (J,)."""
        spacing = np.empty(len(self.highest))
        for group in self.nodes.groups:
            spacing[group.which] = 2 * _HALF_WIDTH / (group.log_values.shape[1] - 1)
        return self.constant + self.highest + np.log(self.sums[:, 0] * spacing * self.nodes.sd)

    def hermite_means(self, marginals: Marginals) -> np.ndarray:
        """Means of the Hermite polynomials He_l of f standardised by q's marginal, l = 3, 4: shape (L, J)."""
        scale = 1 / np.sqrt(marginals.variance)
        shift, stretch = (self.nodes.mean - marginals.mean) * scale, self.nodes.sd * scale
        means = np.empty((len(ORDERS), len(shift)))
        for group, p in zip(self.nodes.groups, self.p, strict=True):
            z = shift[group.which, None] + stretch[group.which, None] * group.powers[1]
            square = z * z
            for place, he in enumerate((z * (square - 3), square * (square - 6) + 3)):
                means[place, group.which] = np.einsum("ij,ij->i", p, he) / self.sums[group.which, 0]
        return means
