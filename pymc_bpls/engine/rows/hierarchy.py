"""Hierarchies: rows with one predictor that is linear in all parameters but a few, whose prior is Gaussian given these few.

These few are called ψ: scales and correlations of groups, length-scales, discriminations. They are found numerically, as whole
variables: those in which the predictor itself is not linear, and those that it does not depend on and whose density is not
quadratic. Declaring groups by z scaled or by their own scale makes no difference.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from pymc_bpls.compute.compiler import Compiler
from pymc_bpls.engine.rows.affine_rows import AffineRows
from pymc_bpls.engine.rows.conditional_rows import ConditionalRows

if TYPE_CHECKING:
    from pymc_bpls.model.density import Density

MOST_FIXED = 5
_ROWS, _POINTS = 32, 3
_STEPS = np.array([0.0, 1.0, -0.6, 2.3])
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Hierarchy:
    """A density whose predictor stands in for linear ones, and which entries of θ are `outer` (m,), that is ψ."""

    density: Density
    compiler: Compiler
    outer: np.ndarray
    sizes: tuple[int, ...]

    @cached_property
    def inner(self) -> np.ndarray:
        """The entries of θ that are x (d,)."""
        return np.setdiff1d(np.arange(self.density.dimension), self.outer)

    def at(self, psi: np.ndarray, *, verified: bool = True) -> ConditionalRows:
        """The rows given ψ (m,); `verified` as of `ConditionalRows`."""
        fixed = self.density.start.copy()
        fixed[self.outer] = psi
        return ConditionalRows(self.density, self.compiler, fixed, self.inner, self.sizes, verified)


def find_hierarchy(density: Density, compiler: Compiler) -> Hierarchy | None:
    """The hierarchy that a density is, or None."""
    structure = None if density.joint is not None else density.structure.by_single_predictor
    if structure is None:
        return None
    model = AffineRows(replace(density, structure=structure), compiler)
    variables = np.split(np.arange(density.dimension), np.cumsum(density.parameters.sizes)[:-1])
    tests = _Tests(model)
    bent, free = tests.bends(variables, predictor=True), tests.bends(variables, predictor=False)
    if bent is None or free is None:
        return None
    each = zip(bent, free, tests.unused(variables), strict=True)
    fixed = [nonlinear or (unused and not_quadratic) for nonlinear, not_quadratic, unused in each]
    outer = np.concatenate([np.empty(0, dtype=int), *(v for v, is_fixed in zip(variables, fixed, strict=True) if is_fixed)])
    if len(outer) > min(MOST_FIXED, density.dimension - 1):
        return None
    sizes = tuple(len(v) for v, is_fixed in zip(variables, fixed, strict=True) if not is_fixed)
    hierarchy = Hierarchy(model.density, compiler, outer, sizes)
    if tests.bends([hierarchy.inner], predictor=True) != [False]:
        return None
    points = tests.points[:2, outer]
    return hierarchy if all(hierarchy.at(psi, verified=False).gaussian_prior is not None for psi in points) else None


class _Tests:
    """How predictors of some rows and the log prior change along random directions within sets of coordinates."""

    def __init__(self, model: AffineRows) -> None:
        rng, density = np.random.default_rng(0), model.density
        self.model, self.rng = model, rng
        self.rows = density.take(rng.integers(0, len(density.data[0]), _ROWS))
        self.points = density.start + 0.5 * rng.normal(size=(_POINTS, density.dimension))

    def _along(self, coordinates: np.ndarray, predictor: bool) -> np.ndarray:
        """Values (points, steps, R) along a line through each point."""
        direction = np.zeros(self.points.shape[1])
        direction[coordinates] = self.rng.uniform(0.5, 1.0, len(coordinates)) * self.rng.choice([-1, 1], len(coordinates))
        theta = (self.points[:, None] + _STEPS[:, None] * direction).reshape(-1, len(direction))
        values = self.model.predictors(theta, self.rows) if predictor else self.model.log_prior_at_few(theta)[0]
        return values.reshape(_POINTS, len(_STEPS), -1)

    def bends(self, sets: list[np.ndarray], *, predictor: bool) -> list[bool] | None:
        """Whether predictors are not linear, or the log prior not quadratic, in each of the sets; None where not finite."""
        degree = 1 if predictor else 2
        fit = np.linalg.lstsq(_powers(_STEPS[: degree + 1], degree), np.eye(degree + 1), rcond=None)[0]
        found = []
        for coordinates in sets:
            values = self._along(coordinates, predictor)
            if not np.isfinite(values).all():
                return None
            miss = values - np.einsum("tk,nkr->ntr", _powers(_STEPS, degree) @ fit, values[:, : degree + 1])
            found.append(bool((np.abs(miss) > _TOLERANCE * (1e-3 + np.abs(values).max(axis=1, keepdims=True))).any()))
        return found

    def unused(self, sets: list[np.ndarray]) -> list[bool]:
        """Whether no predictor depends on each of the sets."""
        return [bool((np.ptp(self._along(coordinates, True), axis=1) == 0).all()) for coordinates in sets]


def _powers(steps: np.ndarray, degree: int) -> np.ndarray:
    return np.vander(steps, degree + 1, increasing=True)
