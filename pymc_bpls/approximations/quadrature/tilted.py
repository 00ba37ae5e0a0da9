"""Moments of tilted densities, cavity × factor, of many factors at once: by quadrature at nodes that are kept.

Nodes lie on ±9 sd of q's marginal of each factor's linear function f. Factors are evaluated where nodes are placed; as long as
a marginal stays near, its nodes and the factor's values there serve again, in later steps of a fit and in later fits. Factors
with as many nodes stand below each other in one matrix, so that a step is a few operations on whole matrices. The rule is the
trapezoid one with nodes close enough for the likelihood; where that would take too many of them, and for priors of single
coefficients, which may have a kink, every factor has nodes of its own (`panels`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Protocol

import numpy as np

from pymc_bpls.approximations.quadrature.panels import resolve

#: Of the Hermite polynomials that say how a density differs from a Gaussian.
ORDERS = (3, 4)
_HALF_WIDTH = 9.0
_COUNTS = np.array([41, 61, 91, 137, 205, 307, 461, 691])
_OWN = 0  # in place of a count: nodes of its own
_DRIFT = 0.1
# panels are halved for factor × N(f; m, s²)^½, in whose range the tilted density changes as long as nodes serve
_GAUSSIAN = 0.5


class LogFactors(Protocol):
    """Functions of one number each, of which the first `n` are smooth."""

    @property
    def n(self) -> int:
        """How many are smooth."""
        ...

    @property
    def apart(self) -> float:
        """How far apart in f nodes may be to see them; 0 where no equal distance will do."""
        ...

    def log_values(self, f: np.ndarray, owner: np.ndarray) -> np.ndarray:
        """Logs of the functions `owner` (G,), in ascending order, at f (G,)."""
        ...

    def places(self, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Around which f some of them change, and over which distance."""
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
    def count(self) -> int:
        """By which groups are told apart: the number of nodes."""
        return self.log_values.shape[1]

    @property
    def spacing(self) -> float:
        """Of the nodes, in sd."""
        return 2 * _HALF_WIDTH / (self.log_values.shape[1] - 1)

    @property
    def z(self) -> np.ndarray:
        """The nodes, in sd (G,)."""
        return _powers(self.log_values.shape[1])[1]

    def quadratics(self, bends: np.ndarray) -> np.ndarray:
        """b₁ z + b₂ z² at the nodes (B, G), for coefficients (B, 2)."""
        return bends @ _powers(self.log_values.shape[1])[1:]

    def sums(self, p: np.ndarray) -> np.ndarray:
        """Σ p, Σ p z and Σ p z² (B, 3)."""
        return p @ _powers(self.log_values.shape[1]).T

    def take(self, keep: np.ndarray) -> Group:
        """Some of its factors."""
        return self if keep.all() else Group(self.which[keep], self.log_values[keep])

    def renamed(self, which: np.ndarray) -> Group:
        """With other numbers of its factors."""
        return Group(which, self.log_values)

    def joined(self, other: Group) -> Group:
        """With those of another one."""
        return Group(np.append(self.which, other.which), np.vstack([self.log_values, other.log_values]))


@dataclass(frozen=True)
class OwnNodes(Group):
    """The same with every factor's own z (B, G); the weights are in `log_values`, which are −∞ where there is no node."""

    own_z: np.ndarray

    @property
    def count(self) -> int:
        """Of all of its kind."""
        return _OWN

    @property
    def spacing(self) -> float:
        """Is in the weights."""
        return 1.0

    @property
    def z(self) -> np.ndarray:
        """The nodes, in sd (B, G)."""
        return self.own_z

    def quadratics(self, bends: np.ndarray) -> np.ndarray:
        """b₁ z + b₂ z² at the nodes (B, G), for coefficients (B, 2)."""
        return (bends[:, 1:] * self.own_z + bends[:, :1]) * self.own_z

    def sums(self, p: np.ndarray) -> np.ndarray:
        """Σ p, Σ p z and Σ p z² (B, 3)."""
        first = p * self.own_z
        return np.column_stack([p.sum(axis=1), first.sum(axis=1), (first * self.own_z).sum(axis=1)])

    def take(self, keep: np.ndarray) -> Group:
        """Some of its factors."""
        return self if keep.all() else OwnNodes(self.which[keep], self.log_values[keep], self.own_z[keep])

    def renamed(self, which: np.ndarray) -> Group:
        """With other numbers of its factors."""
        return OwnNodes(which, self.log_values, self.own_z)

    def joined(self, other: Group) -> Group:
        """With those of another one."""
        assert isinstance(other, OwnNodes)
        widest = max(self.own_z.shape[1], other.own_z.shape[1])
        z, log_values = (
            np.vstack([_padded(mine, widest, fill), _padded(its, widest, fill)])
            for mine, its, fill in ((self.own_z, other.own_z, 0.0), (self.log_values, other.log_values, -np.inf))
        )
        return OwnNodes(np.append(self.which, other.which), log_values, z)


def _padded(values: np.ndarray, width: int, fill: float) -> np.ndarray:
    return np.pad(values, ((0, 0), (0, width - values.shape[1])), constant_values=fill)


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

        groups = (each.renamed(np.where(each.which < old, each.which, each.which + now - old)) for each in self.groups)
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
        with np.errstate(divide="ignore"):
            wanted = 2 * _HALF_WIDTH * sd[moved] / np.float64(factors.apart)
        count = np.append(_COUNTS, _OWN)[np.searchsorted(_COUNTS, wanted)]
        count[moved >= factors.n] = _OWN
        groups = {each.count: each.take(~far[each.which]) for each in self.groups}
        for size in np.unique(count).tolist():
            which = moved[count == size]
            place = _own_nodes if size == _OWN else _equal_nodes
            new = place(which, mean[which], sd[which], factors, size)
            groups[size] = groups[size].joined(new) if size in groups else new
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
            which = group.which
            log_p = group.quadratics(bends[which])
            log_p += group.log_values
            highest[which] = top = log_p.max(axis=1)
            log_p -= top[:, None]
            densities.append(np.exp(log_p, out=log_p))
            sums[which] = group.sums(log_p)
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
            spacing[group.which] = group.spacing
        return self.constant + self.highest + np.log(self.sums[:, 0] * spacing * self.nodes.sd)

    def hermite_means(self, marginals: Marginals) -> np.ndarray:
        """Means of the Hermite polynomials He_l of f standardised by q's marginal, l = 3, 4: shape (L, J)."""
        scale = 1 / np.sqrt(marginals.variance)
        shift, stretch = (self.nodes.mean - marginals.mean) * scale, self.nodes.sd * scale
        means = np.empty((len(ORDERS), len(shift)))
        for group, p in zip(self.nodes.groups, self.p, strict=True):
            z = shift[group.which, None] + stretch[group.which, None] * group.z
            square = z * z
            for place, he in enumerate((z * (square - 3), square * (square - 6) + 3)):
                means[place, group.which] = np.einsum("ij,ij->i", p, he) / self.sums[group.which, 0]
        return means


def _equal_nodes(which: np.ndarray, mean: np.ndarray, sd: np.ndarray, factors: LogFactors, count: int) -> Group:
    """So many on ±9 sd."""
    f = mean[:, None] + sd[:, None] * _powers(count)[1]
    return Group(which, factors.log_values(f.ravel(), np.repeat(which, count)).reshape(f.shape))


def _own_nodes(which: np.ndarray, mean: np.ndarray, sd: np.ndarray, factors: LogFactors, _: int) -> Group:
    """As many as each factor needs."""

    def log_factor(owner: np.ndarray, f: np.ndarray) -> np.ndarray:
        order = np.argsort(owner, kind="stable")
        values = np.empty(f.shape)
        values[order] = factors.log_values(f[order].ravel(), np.repeat(which[owner[order]], f.shape[1])).reshape(f.shape)
        return values

    nodes = resolve(log_factor, mean, sd, *factors.places(which), gaussian=_GAUSSIAN)
    counts = np.bincount(nodes.owner, minlength=len(which))
    z, log_values = np.zeros((len(which), counts.max())), np.full((len(which), counts.max()), -np.inf)
    place = nodes.owner, np.arange(len(nodes.owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    z[place], log_values[place] = nodes.z, nodes.log_values + nodes.log_weights
    return OwnNodes(which, log_values, z)
