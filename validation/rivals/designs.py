"""Populations in which the class comes first and makes the features: what a class-conditional model supposes, or nearly so."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Noise = Callable[[np.random.Generator, np.ndarray, int], np.ndarray]
CORRELATION, WIDER, HEAVY = 0.8, 2.5, 2


def _normal(rng: np.random.Generator, y: np.ndarray, q: int) -> np.ndarray:
    return rng.normal(size=(len(y), q))


def _wider(rng: np.random.Generator, y: np.ndarray, q: int) -> np.ndarray:
    """The second class is wider in every direction."""
    return _normal(rng, y, q) * np.where(y == 1, WIDER, 1.0)[:, None]


def _heavy(rng: np.random.Generator, y: np.ndarray, q: int) -> np.ndarray:
    """Multivariate t: one scale a row."""
    return _normal(rng, y, q) / np.sqrt(rng.chisquare(HEAVY, size=len(y)) / HEAVY)[:, None]


def _correlated(rng: np.random.Generator, y: np.ndarray, q: int) -> np.ndarray:
    """All features correlated alike within a class."""
    shared = rng.normal(size=(len(y), 1))
    return np.sqrt(CORRELATION) * shared + np.sqrt(1 - CORRELATION) * _normal(rng, y, q)


#: How far the classes' means are apart, in standard deviations, and the noise around them.
DESIGNS: dict[str, tuple[float, Noise]] = {
    "separated": (3.0, _normal),
    "overlapping": (1.5, _normal),
    "unequal_covariances": (1.0, _wider),
    "heavy_tails": (3.0, _heavy),
    "dependent_features": (1.5, _correlated),
}
#: Those in which features are independent normals within a class.
INDEPENDENT_NORMAL = ("separated", "overlapping", "unequal_covariances")


def simulate(name: str, n: int, q: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Features (n, q) and classes (n,), which are equally probable; the means differ by the same in every feature."""
    distance, noise = DESIGNS[name]
    y = rng.integers(2, size=n)
    X = (y - 0.5)[:, None] * distance / np.sqrt(q) + noise(rng, y, q)
    return X, y
