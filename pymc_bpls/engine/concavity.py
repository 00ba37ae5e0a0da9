"""In which parameters a log-posterior may fail to be concave, so that it may have several modes.

Where rows have linear predictors, ℓ_j = g(A_j θ + b_j), and log π is a quadratic plus functions of single coefficients, S is
concave in all parameters but those that have such a function and those that load on predictors which have to be fixed for g to
be concave in the others. S has one mode for each value of these, so that they tell its modes apart. A logistic regression with
normal priors has none; a hierarchy a + x'β + σ z_g has one, log σ.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from pymc_bpls.engine.engine import Engine
from pymc_bpls.engine.rows.affine_rows import AffineRows, GaussianPrior
from pymc_bpls.model.data.table import Labeled

_PROBES, _NEAREST, _FARTHEST = 512, 0.1, 40.0
_MOST_FIXED = 2
_ROUNDING = 1e-9


def nonconcave_parameters(engine: Engine, labeled: Labeled) -> np.ndarray:
    """Which parameters (f,) tell the modes of k ℓ_D + log π apart: all where nothing is known, none where S is concave."""
    every = np.arange(engine.density.dimension)
    rows = engine.affine_rows
    if engine.sparse_rows is not None and engine.hierarchy is not None:
        given = engine.hierarchy.at(engine.density.start[engine.hierarchy.outer])
        prior = given.gaussian_prior
        concave = _fixed_predictors(_curvatures(given, labeled)) == () and prior is not None and _is_concave(prior)
        return engine.hierarchy.outer if concave else every
    if rows is None:
        return every
    fixed = _fixed_predictors(_curvatures(rows, labeled))
    separable = engine.separable_prior if fixed is not None else None
    if fixed is None or separable is None or not _is_concave(separable.quadratic):
        return every
    if not fixed:
        return separable.coordinates
    matrix, _ = rows.design.take(labeled.positions)
    loading = np.flatnonzero(matrix[:, list(fixed)].any(axis=(0, 1)))
    return np.union1d(separable.coordinates, loading).astype(int)


def is_concave_in(rows: AffineRows, labeled: Labeled, predictors: np.ndarray) -> bool:
    """Whether g is concave in some of the predictors, (i,) by number, wherever the others are."""
    curvatures = _curvatures(rows, labeled)
    return 2 * len(curvatures) >= _PROBES and _are_concave(curvatures, predictors)


def _curvatures(rows: AffineRows, labeled: Labeled) -> np.ndarray:
    """Hessians of g at points near and far, with the classes and inputs of D's rows: (probes, p, p), the finite ones."""
    p, some = rows.map.size, np.resize(np.arange(len(labeled)), _PROBES)
    rng = np.random.default_rng(0)
    if p == 1:
        eta = rng.permutation(np.linspace(-_FARTHEST, _FARTHEST, _PROBES))[:, None]
    else:
        radius = np.geomspace(_NEAREST, _FARTHEST, _PROBES)[:, None]
        directions = rng.normal(size=(_PROBES, p))
        eta = radius * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    inputs = tuple(rows.density.data[i][labeled.positions[some]] for i in rows.map.inputs)
    hessian = rows.derivatives_at(eta, labeled.codes[some], inputs).hessian
    return hessian[np.isfinite(hessian).all(axis=(1, 2))]


def _fixed_predictors(curvatures: np.ndarray) -> tuple[int, ...] | None:
    """The fewest predictors that have to be fixed for g to be concave in the others; None where more than two have to."""
    p = curvatures.shape[-1]
    if 2 * len(curvatures) < _PROBES:
        return None
    for count in range(min(_MOST_FIXED, p) + 1):
        for fixed in combinations(range(p), count):
            others = np.setdiff1d(np.arange(p), fixed)
            if _are_concave(curvatures, others):
                return fixed
    return None


def _are_concave(curvatures: np.ndarray, predictors: np.ndarray) -> bool:
    values = np.linalg.eigvalsh(curvatures[:, predictors[:, None], predictors])
    return bool((values <= _ROUNDING * (1e-3 + np.abs(values).max(axis=1, initial=0.0, keepdims=True))).all())


def _is_concave(prior: GaussianPrior) -> bool:
    """Whether the smallest eigenvalue of its precision is not negative, by Lanczos' method."""
    q = len(prior.start)

    def times(vector: np.ndarray) -> np.ndarray:
        return prior.slope - prior.at((prior.start + np.ravel(vector))[None])[1][0]

    start = np.random.default_rng(0).normal(size=q)
    scale = np.linalg.norm(times(start)) / np.linalg.norm(start)
    if q == 1 or scale == 0:
        return bool(times(np.ones(q))[0] >= 0)
    try:
        smallest = eigsh(LinearOperator((q, q), times), k=1, which="SA", v0=start, tol=1e-6, return_eigenvectors=False)
    except ArpackError:
        return False
    return bool(smallest[0] >= -1e-9 * scale)
