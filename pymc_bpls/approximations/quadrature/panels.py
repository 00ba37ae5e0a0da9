"""Nodes for integrals of p(f) φ(z), f = m + s z, where p has a scale of its own: a step or a kink beneath a wide Gaussian.

The range is cut into panels: three sd long around m, and around the place where p is expected to change (its origin) at
distances that grow fourfold, so that a Gaussian that is 10⁸ times as wide costs some thirty panels. Each has the 20 nodes of
Gauss and Legendre. A panel is halved until the last coefficients of its Legendre series are below 1e-11 of its row's integral,
and a longer one is put beside the outermost where that holds a share of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import leggauss, legvander

from pymc_bpls.errors import ApproximationError

_NODES, _LAST = 20, 3
_SD_A_PANEL, _PANELS_A_SIDE = 3.0, 3
_GROWTH = 4.0
_RESOLVED, _NOTHING = 1e-11, 1e-13
_ROUNDING = 1e-14  # of a logarithm
_MOST_HALVINGS, _MOST_PANELS = 60, 1000

#: Logs of the integrands of rows (P,) without φ, at f (P, G): shape (P, G), or (P, G, K) of K of them.
LogIntegrand = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Resolved(NamedTuple):
    """Nodes in ascending order of their row, `owner` (G,), at z (G,) with log weights (G,), and what was evaluated (G, …)."""

    owner: np.ndarray
    z: np.ndarray
    log_weights: np.ndarray
    log_values: np.ndarray


class _Panels(NamedTuple):
    """Panels (P,) of rows, between `low` and `high` in sd, and at which end a further one may be needed: −1, 1 or 0."""

    owner: np.ndarray
    low: np.ndarray
    high: np.ndarray
    end: np.ndarray

    def take(self, which: np.ndarray) -> _Panels:
        return _Panels(*(each[which] for each in self))

    def joined(self, other: _Panels) -> _Panels:
        return _Panels(*(np.concatenate(both) for both in zip(self, other, strict=True)))

    def halves(self) -> _Panels:
        middle = 0.5 * (self.low + self.high)
        left = _Panels(self.owner, self.low, middle, np.minimum(self.end, 0))
        return left.joined(_Panels(self.owner, middle, self.high, np.maximum(self.end, 0)))

    def beside(self) -> _Panels:
        """Panels twice as long, beyond the end."""
        length = 2 * (self.high - self.low)
        low = np.where(self.end > 0, self.high, self.low - length)
        return _Panels(self.owner, low, low + length, self.end)


class _Evaluated(NamedTuple):
    """Panels with what was evaluated (P, G, …), and logs (P, K): of their integrals, and of the smallest that they resolve.

    For a row's integral below that the last coefficients of the panel are too large.
    """

    panels: _Panels
    values: np.ndarray
    size: np.ndarray
    resolves: np.ndarray

    def take(self, which: np.ndarray) -> _Evaluated:
        return _Evaluated(self.panels.take(which), *(each[which] for each in self[1:]))

    def joined(self, other: _Evaluated) -> _Evaluated:
        arrays = (np.concatenate(both) for both in zip(self[1:], other[1:], strict=True))
        return _Evaluated(self.panels.joined(other.panels), *arrays)


def resolve(
    log_integrand: LogIntegrand,
    mean: np.ndarray,
    sd: np.ndarray,
    origin: np.ndarray,
    scale: np.ndarray,
    *,
    gaussian: float = 1.0,
) -> Resolved:
    """Nodes for rows (n,) with f ~ N(mean, sd²), whose integrands change around `origin` over some `scale`.

    Panels are halved for p(f) φ(z)^gaussian.

    Raises
    ------
    ApproximationError
        A range is so wide that numbers leave double precision.
    """

    def evaluated(panels: _Panels) -> _Evaluated:
        return _evaluate(log_integrand, panels, mean, sd, gaussian)

    known = evaluated(_first(mean, sd, origin, scale))
    for _ in range(_MOST_HALVINGS):
        panels = known.panels
        total = np.full((len(mean), known.size.shape[1]), -np.inf)
        np.logaddexp.at(total, panels.owner, known.size)
        own = total[panels.owner]
        with np.errstate(invalid="ignore"):
            rough = (known.resolves > own).any(axis=1) & (np.bincount(panels.owner)[panels.owner] < _MOST_PANELS)
            open_ended = (panels.end != 0) & (known.size > own + np.log(_NOTHING)).any(axis=1)
        if not (rough | open_ended).any():
            break
        beyond = panels.take(open_ended).beside()
        known = known._replace(panels=panels._replace(end=np.where(open_ended, 0, panels.end)))
        known = known.take(~rough).joined(evaluated(known.panels.take(rough).halves().joined(beyond)))
    panels, values = known.take(np.lexsort([known.panels.low, known.panels.owner]))[:2]
    x, log_weights, _ = _rule()
    half, middle = 0.5 * (panels.high - panels.low)[:, None], 0.5 * (panels.high + panels.low)[:, None]
    flat = values.reshape(-1, *values.shape[2:])
    return Resolved(np.repeat(panels.owner, _NODES), (middle + half * x).ravel(), (np.log(half) + log_weights).ravel(), flat)


def _first(mean: np.ndarray, sd: np.ndarray, origin: np.ndarray, scale: np.ndarray) -> _Panels:
    """Of each row: ±9 sd, cut every three sd, and at the origin and beside it."""
    by_sd = np.arange(-_PANELS_A_SIDE, _PANELS_A_SIDE + 1) * _SD_A_PANEL
    with np.errstate(over="ignore", invalid="ignore"):
        reach = (np.abs(origin - mean) + by_sd[-1] * sd) / scale
    if not np.isfinite(reach).all():
        raise ApproximationError(
            f"The standard deviation of a predictor is up to {sd.max():.3g}, where numbers leave double precision. "
            "Use priors that reach less far."
        )
    count = max(1, int(np.ceil(np.log(max(float(reach.max(initial=1.0)), _GROWTH)) / np.log(_GROWTH))) + 1)
    beside = np.concatenate([[0.0], _GROWTH ** np.arange(count)])
    steps = np.concatenate([-beside[:0:-1], beside])
    own = (origin[:, None] + scale[:, None] * steps - mean[:, None]) / sd[:, None]
    edges = np.sort(np.hstack([np.clip(own, by_sd[0], by_sd[-1]), np.tile(by_sd, (len(mean), 1))]), axis=1)
    low, high = edges[:, :-1], edges[:, 1:]
    keep = high > low
    end = np.where(high == by_sd[-1], 1, np.where(low == by_sd[0], -1, 0))
    return _Panels(np.nonzero(keep)[0], low[keep], high[keep], end[keep])


def _evaluate(log_integrand: LogIntegrand, panels: _Panels, mean: np.ndarray, sd: np.ndarray, gaussian: float) -> _Evaluated:
    """Panels with their integrals."""
    x, log_weights, last = _rule()
    half, middle = 0.5 * (panels.high - panels.low)[:, None], 0.5 * (panels.high + panels.low)[:, None]
    z = middle + half * x
    values = log_integrand(panels.owner, mean[panels.owner, None] + sd[panels.owner, None] * z)
    log_p = values.reshape(*z.shape, -1) - 0.5 * gaussian * (z * z)[:, :, None]
    highest = log_p.max(axis=1, initial=-np.inf, where=~np.isnan(log_p))
    highest = np.where(np.isfinite(highest), highest, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.exp(log_p - highest[:, None])
        size = np.einsum("pgk,g->pk", p, np.exp(log_weights))
        coefficients = np.abs(np.einsum("pgk,gl->plk", p, last)).sum(axis=1)
        scale, share = highest + np.log(half), np.maximum(_RESOLVED, _ROUNDING * np.abs(highest))
        return _Evaluated(panels, values, scale + np.log(size), scale + np.log(coefficients / share))


def below_nodes(shares: np.ndarray) -> np.ndarray:
    """Of each node (G,) of one row how much of an integral lies below it, from the nodes' `shares` (G,).

    Within a panel by the antiderivative of its Legendre series, ∫ P_l = (P_{l+1} − P_{l−1})/(2l + 1).
    """
    by_panel = shares.reshape(-1, _NODES)
    degrees = legvander(_rule()[0], _NODES)
    before = np.hstack([-np.ones((_NODES, 1)), degrees[:, :-2]])
    within = by_panel @ degrees[:, :-1] @ (0.5 * (degrees[:, 1:] - before)).T
    starts = np.cumsum(by_panel.sum(axis=1)) - by_panel.sum(axis=1)
    return np.asarray((starts[:, None] + within).ravel())


@cache
def _rule() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes on ±1, the logs of their weights, and what gives the last coefficients of a Legendre series (G, L)."""
    x, weights = leggauss(_NODES)
    degrees = np.arange(_NODES - _LAST, _NODES)
    return x, np.log(weights), legvander(x, _NODES - 1)[:, degrees] * weights[:, None] * (degrees + 0.5)
