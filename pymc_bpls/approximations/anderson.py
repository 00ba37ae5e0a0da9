"""Anderson's acceleration of a fixed-point iteration x → g(x) (Anderson 1965; Walker and Ni 2011)."""

from __future__ import annotations

import numpy as np

_REMEMBERED = 6


class Mixing:
    """Where to go next: the combination of recent steps whose combined miss g(x) − x is the smallest.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bpls.approximations.anderson import Mixing
    >>> mixing, x = Mixing(), np.array([1.0, 0.5])
    >>> for _ in range(8):
    ...     x = mixing(x, np.cos(x))
    >>> bool(np.abs(x - np.cos(x)).max() < 1e-10)
    True
    """

    def __init__(self) -> None:
        self._points: list[np.ndarray] = []
        self._misses: list[np.ndarray] = []

    def __call__(self, point: np.ndarray, ahead: np.ndarray) -> np.ndarray:
        """From x and g(x)."""
        self._points = [*self._points, point][-_REMEMBERED:]
        self._misses = [*self._misses, ahead - point][-_REMEMBERED:]
        if len(self._points) == 1:
            return ahead
        steps, changes = np.diff(self._points, axis=0).T, np.diff(self._misses, axis=0).T
        shares = np.linalg.lstsq(changes, self._misses[-1], rcond=1e-10)[0]
        return ahead - (steps + changes) @ shares
