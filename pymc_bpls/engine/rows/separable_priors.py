"""A log prior as a quadratic function plus functions of single coefficients: log π(θ) = Q(θ) + Σ_c h_c(θ_c).

Found numerically, by values alone, so that a kink (Laplace) or a heavy tail (Student-t, Cauchy) is as good as any h.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pymc_bpls.engine.priors.gaussian_priors import GaussianPrior, spreads
from pymc_bpls.engine.priors.precisions import Precision
from pymc_bpls.engine.rows.affine_rows import AffineRows

_TRIED = np.array([-50.0, -7.0, -2.5, -0.3, 0.6, 3.0, 20.0])
_SPREADS = (0.5, 1.0, 2.0, 5.0, 20.0)
_TOLERANCE = 1e-9
_MANY, _SMALL = 500, 64
_SCALES = np.logspace(-4, 6, 101)


@dataclass(frozen=True)
class SeparablePrior:
    """Q, with no entry for the `coordinates` (C,), and the h_c of those, h_c(θ₀_c) = 0; `spreads` (C,) are by curvature."""

    quadratic: GaussianPrior
    coordinates: np.ndarray
    spreads: np.ndarray
    log_prior: Callable[[np.ndarray], np.ndarray]

    def of(self, which: np.ndarray) -> SeparablePrior:
        """With some of its coefficients' priors alone."""
        return replace(self, coordinates=self.coordinates[which], spreads=self.spreads[which])

    def along(self, values: np.ndarray, which: np.ndarray) -> np.ndarray:
        """h_c at values (G,) of the coefficients `which` (G,), places in `coordinates`: shape (G,)."""
        start = self.quadratic.start
        points = np.repeat(start[None], len(values), axis=0)
        points[np.arange(len(values)), self.coordinates[which]] = values
        return self.log_prior(points) - self.quadratic.value

    def scales(self) -> np.ndarray:
        """How far each coefficient goes from θ₀ until h_c has fallen by ½, as a normal density's does within one sd (C,)."""
        both, count = np.concatenate([-_SCALES[::-1], _SCALES]), len(self.coordinates)
        values = self.quadratic.start[self.coordinates, None] + self.spreads[:, None] * both
        along = self.along(values.ravel(), np.repeat(np.arange(count), len(both))).reshape(values.shape)
        fallen = along <= np.nanmax(along, axis=1, keepdims=True) - 0.5
        distance = np.where(fallen, np.abs(both), np.inf).min(axis=1)
        return self.spreads * np.where(np.isfinite(distance), distance, _SCALES[-1])


def find_separable(model: AffineRows) -> SeparablePrior | None:
    """The prior in this form, or None where coefficients' non-Gaussian priors depend on each other or are 0 somewhere."""
    start = model.density.start

    def log_prior(points: np.ndarray) -> np.ndarray:
        return model.log_prior(points)[0]

    value = float(log_prior(start[None])[0])
    if model.gaussian_prior is not None:
        return SeparablePrior(model.gaussian_prior, np.empty(0, dtype=int), np.empty(0), log_prior)
    if not np.isfinite(value) or (len(start) > _MANY and scales_others(model)):
        return None
    scale = spreads(start, model.prior_products)
    with np.errstate(invalid="ignore"):
        bent = np.flatnonzero(~_quadratic_along_axes(log_prior, start, value, scale))
    coordinates = np.union1d(bent, model.density.components.coordinates).astype(int)
    rest = np.setdiff1d(np.arange(len(start)), coordinates)
    precision, slope = np.zeros((len(start), len(start))), np.zeros(len(start))
    if rest.size:
        precision[np.ix_(rest, rest)] = model.prior_precision(start[None])[0][np.ix_(rest, rest)]
        slope[rest] = model.log_prior(start[None])[1][0][rest]
    quadratic = GaussianPrior(start, value, slope, Precision.of_matrix(precision))
    separable = SeparablePrior(quadratic, coordinates, scale[coordinates], log_prior)
    with np.errstate(invalid="ignore"):
        return separable if _is_the_prior(separable, log_prior, scale, model.density.components.at(start).points) else None


def scales_others(model: AffineRows) -> bool:
    """Whether small variables change the curvature in the others, as scales of groups do: told at the price of two products."""
    sizes, rng = model.variable_sizes, np.random.default_rng(0)
    small = np.repeat(np.array(sizes) <= _SMALL, sizes)
    vector = np.where(small, 0.0, rng.uniform(0.5, 1.0, len(small)))
    first, second = (model.prior_products(model.base + move * small, vector[None])[0] for move in (0.3, 0.9))
    return bool((np.abs(first - second)[~small] > _TOLERANCE * np.abs(first).max()).any())


def _quadratic_along_axes(
    log_prior: Callable[[np.ndarray], np.ndarray], start: np.ndarray, value: float, scale: np.ndarray
) -> np.ndarray:
    """In which coefficients log π is quadratic, the others at their start (q,)."""
    q = len(start)
    steps = np.concatenate([[1.0, -1.0], _TRIED])
    points = (start + steps[:, None, None] * np.diag(scale)[None]).reshape(-1, q)
    along = log_prior(points).reshape(len(steps), q) - value
    slope, bend = 0.5 * (along[0] - along[1]), 0.5 * (along[0] + along[1])
    expected = _TRIED[:, None] * slope + _TRIED[:, None] ** 2 * bend
    return np.isclose(along[2:], expected, rtol=_TOLERANCE, atol=1e-9).all(axis=0)


def _is_the_prior(
    separable: SeparablePrior, log_prior: Callable[[np.ndarray], np.ndarray], scale: np.ndarray, centres: np.ndarray
) -> bool:
    """Whether the parts add up to log π at random points, and at the centres (B, q) of mixtures' components."""
    start = separable.quadratic.start
    draws = np.random.default_rng(1).normal(size=(len(_SPREADS), len(start)))
    points = np.vstack([start + np.array(_SPREADS)[:, None] * draws * scale, centres])
    count = len(separable.coordinates)
    along = separable.along(points[:, separable.coordinates].ravel(), np.tile(np.arange(count), len(points)))
    parts = separable.quadratic.at(points)[0] + along.reshape(len(points), count).sum(axis=1)
    whole = log_prior(points)
    return bool(np.isfinite(whole).all() and np.allclose(parts, whole, rtol=_TOLERANCE, atol=1e-8))
