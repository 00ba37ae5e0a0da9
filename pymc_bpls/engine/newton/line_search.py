"""The line search of Newton's method, along a step of each of some sets of parameters at once.

θ is (sets, q) in whatever coordinates, and the curvatures of S are kept in whatever form.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

import numpy as np

SLACK = 1e-12


class Point(Protocol):
    """What is known of S at θ (sets, q)."""

    @property
    def theta(self) -> np.ndarray:
        """θ (sets, q)."""

    @property
    def value(self) -> np.ndarray:
        """S (sets,)."""

    @property
    def gradient(self) -> np.ndarray:
        """∇S (sets, q)."""

    @property
    def finite(self) -> np.ndarray:
        """Whether all that is known of each set is (sets,)."""


P = TypeVar("P", bound=Point)


class Function(Protocol[P]):
    """S of some sets."""

    def at(self, theta: np.ndarray) -> P:
        """Value and gradient at θ (sets, q)."""

    def take(self, sets: np.ndarray) -> Function[P]:
        """For some of the sets."""


def search_line(
    function: Function[P], point: P, step: np.ndarray, decrement: np.ndarray, halvings: int
) -> tuple[np.ndarray, np.ndarray, P | None]:
    """Each set's step, halved until S increases as its slope promises (Armijo's rule).

    Returns
    -------
    tuple
        θ (sets, q) there, for which sets S does increase (sets,), and the point itself, where all sets take a step of one size.
    """
    size, floor = np.ones(len(step)), point.value - SLACK * (1 + np.abs(point.value))
    moved, undecided, whole = np.zeros(len(step), dtype=bool), np.arange(len(step)), None
    for _ in range(halvings):
        ahead = function.take(undecided).at(point.theta[undecided] + size[undecided, None] * step[undecided])
        good = ahead.finite & (ahead.value >= (floor + 1e-4 * size * decrement**2)[undecided])
        moved[undecided] = good
        whole = ahead if len(undecided) == len(step) and good.all() else None
        undecided = undecided[~good]
        if not undecided.size:
            break
        size[undecided] *= 0.5
    return point.theta + size[:, None] * step, moved, whole
