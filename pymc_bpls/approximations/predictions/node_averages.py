"""log E[p(y | f)] over f ~ N(m, s²) of many rows by quadrature, and how it depends on the shape of f's density.

By the trapezoid rule on m ± 8 s where that resolves p, which is taken to change over one unit of f. Rows with a larger s, and
those whose integral is not within ±8 s (a class that is not to be expected there), have nodes of their own (`panels`).

With z = (f − m)/s, a density φ(z)[1 + Σ_l t_l He_l(z)] has the average E[p](1 + Σ_l t_l r_l), r_l = E[p He_l(z)]/E[p].
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial.hermite_e import hermeval

from pymc_bpls.approximations.gaussians.gaussian import trapezoid
from pymc_bpls.approximations.quadrature.panels import resolve
from pymc_bpls.approximations.quadrature.tilted import ORDERS

_HALF_WIDTH = 8.0
# up to which standard deviation of the predictor how many nodes are taken: at most 1.07 apart
_SPREADS = np.array([1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0, 11.2, 16.0, 22.4, 32.0])
_NODES = (16, 22, 31, 43, 61, 85, 121, 169, 241, 337, 481)
_FLOATS_AT_ONCE, _PANELLED_AT_ONCE = 2**18, 2**8
_DENSE = 2**14 + 1  # nodes of a row of which p ends in jumps: s/1024 apart
_BEYOND = 1e-10
_SMALLEST = 1e-200
_MOST_CHANGE = 0.5

#: log p(y | f) of rows (B,) by number at f (B, G): shape (B, G), or (B, G, K) for every class.
LogLik = Callable[[np.ndarray, np.ndarray], np.ndarray]


class NodeAverages(NamedTuple):
    """log E[p] (rows, …) and r_l (rows, …, L)."""

    log_mean: np.ndarray
    shapes: np.ndarray

    def shaped(self, tilt: np.ndarray) -> np.ndarray:
        """log averages (rows, …) over densities with t_l (rows, L).

        A change of an average by a share x of it is taken as it is for |x| ≤ ½. Beyond it fades, where the series tells little,
        so that a quarter of the average stays at least and twice of it at most; the other classes make up for the rest. Where
        averages are of one class a row, the other one's change is −p/(1 − p) times its own.
        """
        change = (self.shapes * tilt.reshape(len(tilt), *(1,) * (self.shapes.ndim - 2), -1)).sum(axis=-1)
        p = np.exp(self.log_mean)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            if change.ndim > 1:
                beyond = (p * (_ratio(change) - 1 - change)).sum(axis=1, keepdims=True) / p.sum(axis=1, keepdims=True)
            else:
                others = -np.expm1(self.log_mean)
                of_others = np.where(others > 0, -p / others * change, 0.0)
                beyond = p * (_ratio(change) - 1 - change) + others * (_ratio(of_others) - 1 - of_others)
            return self.log_mean + np.log(_ratio(change)) - np.log1p(np.nan_to_num(beyond))


def _ratio(change: np.ndarray) -> np.ndarray:
    """1 + change for |change| ≤ ½, and from there on, with as steep a start, towards ¼ and 2."""
    beyond = np.maximum(np.abs(change) - _MOST_CHANGE, 0.0)
    lower, upper = 0.25 - 0.25 * np.exp(-4 * beyond), 0.5 - 0.5 * np.exp(-2 * beyond)
    near = np.clip(change, -_MOST_CHANGE, _MOST_CHANGE)
    return 1 + near + np.where(change < 0, -lower, upper)


def average_at_nodes(
    log_lik: LogLik, mean: np.ndarray, sd: np.ndarray, refinement: int, *, classes: tuple[int, ...] = ()
) -> NodeAverages:
    """Averages of rows with means and standard deviations (rows,), with as many nodes as each one's spread asks for.

    `refinement` is by what factor nodes are closer where p changes over less than one unit of f; 0 gives every row nodes of its
    own. `classes` is (K,) where `log_lik` gives every class.
    """
    log_mean = np.empty((len(mean), *classes))
    shapes = np.empty((len(mean), *classes, len(ORDERS)))
    whole = np.zeros(len(mean), dtype=bool)
    rule = np.searchsorted(_SPREADS, np.nan_to_num(sd, nan=0.0, posinf=0.0))
    for number in np.unique(rule[rule < len(_NODES)] if refinement else []):
        nodes = (_NODES[number] - 1) * refinement + 1
        z, weights, polynomials = _rule(nodes)
        same = np.flatnonzero(rule == number)
        size = max(1, _FLOATS_AT_ONCE // (nodes * max(1, *classes, 1)))
        for first in range(0, len(same), size):
            rows = same[first : first + size]
            values = log_lik(rows, mean[rows, None] + sd[rows, None] * z)
            log_mean[rows], shapes[rows], whole[rows] = _averages(np.moveaxis(values, 1, -1), weights, polynomials)
    rest = np.flatnonzero(~whole)
    for first in range(0, len(rest), _PANELLED_AT_ONCE):
        rows = rest[first : first + _PANELLED_AT_ONCE]
        log_mean[rows], shapes[rows] = _by_panels(log_lik, rows, mean[rows], sd[rows])
    return NodeAverages(log_mean, shapes)


def average_densely(log_lik: LogLik, rows: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> NodeAverages:
    """The same of `rows`, with so many nodes that jumps of p are seen wherever they are, up to s/1024."""
    z, weights, polynomials = _rule(_DENSE)
    parts = []
    for first in range(0, len(rows), _FLOATS_AT_ONCE // _DENSE):
        some = slice(first, first + _FLOATS_AT_ONCE // _DENSE)
        values = log_lik(rows[some], mean[some, None] + sd[some, None] * z)
        parts.append(_averages(np.moveaxis(values, 1, -1), weights, polynomials)[:2])
    log_means, shapes = zip(*parts, strict=True)
    return NodeAverages(np.concatenate(log_means), np.concatenate(shapes))


def _averages(log_lik: np.ndarray, weights: np.ndarray, polynomials: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log E[p] (…) and r_l (…, L) from log p at the nodes (…, G), over their highest value where p itself is out of range.

    And of which rows next to nothing lies beyond the outermost nodes.
    """
    with np.errstate(over="ignore"):
        terms = np.exp(log_lik)
    terms *= weights
    total = terms.sum(axis=-1)
    highest = np.zeros_like(total)
    if not ((total > _SMALLEST) & (total < 1 / _SMALLEST)).all():
        top = log_lik.max(axis=-1)
        highest = np.where(np.isfinite(top), top, 0.0)
        terms = np.exp(log_lik - highest[..., None]) * weights
        total = terms.sum(axis=-1)
    spacing = 2 * _HALF_WIDTH / (len(weights) - 1)
    beyond = np.maximum(terms[..., 0], terms[..., -1]) > _BEYOND * spacing * total
    with np.errstate(divide="ignore", invalid="ignore"):
        shapes = np.nan_to_num((terms @ polynomials) / total[..., None])
        return highest + np.log(total), shapes, ~beyond.reshape(len(beyond), -1).any(axis=1)


def _by_panels(log_lik: LogLik, rows: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same of rows with nodes of their own."""
    nodes = resolve(lambda some, f: log_lik(rows[some], f), mean, sd, np.zeros(len(mean)), np.ones(len(mean)))
    first = np.searchsorted(nodes.owner, np.arange(len(mean)))
    gaussian = nodes.log_weights - 0.5 * nodes.z**2
    log_terms = nodes.log_values + gaussian.reshape(-1, *(1,) * (nodes.log_values.ndim - 1))
    top = np.maximum.reduceat(log_terms, first)
    highest = np.where(np.isfinite(top), top, 0.0)
    terms = np.exp(log_terms - highest[nodes.owner])
    total = np.add.reduceat(terms, first)
    with np.errstate(divide="ignore", invalid="ignore"):
        shapes = [
            np.add.reduceat(terms * hermeval(nodes.z, np.eye(order + 1)[order]).reshape(-1, *(1,) * (terms.ndim - 1)), first)
            for order in ORDERS
        ]
        ratios = np.nan_to_num(np.stack(shapes, axis=-1) / total[..., None])
        return highest + np.log(total) - 0.5 * np.log(2 * np.pi), ratios


@cache
def _rule(nodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes of a standard normal variable, their weights, and He_l there (nodes, L)."""
    z, _ = trapezoid(nodes, _HALF_WIDTH)
    weights = np.exp(-0.5 * z**2)
    return z, weights / weights.sum(), np.column_stack([hermeval(z, np.eye(order + 1)[order]) for order in ORDERS])
