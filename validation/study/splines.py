"""A spline's basis in which a penalty on roughness is a normal prior with one scale."""

from __future__ import annotations

import numpy as np


def by_roughness(basis: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A spline's basis as its straight part (N, 1) and columns of equal roughness (N, K − 2), all centred."""
    size = basis.shape[1]
    differences = np.diff(np.eye(size), 2, axis=0)
    wiggly = basis @ differences.T @ np.linalg.inv(differences @ differences.T)
    straight = basis @ np.linspace(-1, 1, size)[:, None]
    return straight - straight.mean(axis=0), wiggly - wiggly.mean(axis=0)
