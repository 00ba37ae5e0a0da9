"""log Z_1, log Z_2 and log PPP by quadrature in plain NumPy: given a few numbers, cells are independent integrals.

Nothing here is the package's. A cell with a labels of class 1 and b of class 0 has I(a, b) = ∫ σ(η)^a σ(−η)^b p(η) dη, and its
candidate of class 1 under the doubled likelihood I(2a + 1, 2b).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.special import log_expit, logsumexp

from validation.levels.tables import Table

#: Exponents of σ(η) and of σ(−η) to log integrals at nodes of what cells share, shape (nodes,).
Cells = Callable[[int, int], np.ndarray]
_PANEL, _NODES = 0.5, 16
# of t: at most 0.85 prior sds apart in z, whose trapezoid rule is then exact to 1e-11; z reaches 8.5 sds beyond its centre
_STEP, _SPREADS = 0.1, 17.0


@dataclass(frozen=True)
class Truth:
    """log Z_2 − log Z_1, and log PPP of every candidate's class 0 and 1 (G, 2)."""

    constant: float
    log_ppp: np.ndarray


def truth(table: Table, cells: Cells, log_weights: np.ndarray) -> Truth:
    """From integrals of cells at nodes with `log_weights` of what the cells share."""
    counts = [(int(a), int(b)) for a, b in table.counts]
    once, twice = {each: cells(*each) for each in set(counts)}, {each: cells(2 * each[0], 2 * each[1]) for each in set(counts)}
    log_z1 = logsumexp(log_weights + sum(once[each] for each in counts))
    whole = log_weights + sum(twice[each] for each in counts)
    log_ppp = np.empty((len(counts), 2))
    for number, (a, b) in enumerate(counts):
        for label in (0, 1):
            own = cells(2 * a + label, 2 * b + 1 - label)
            log_ppp[number, label] = logsumexp(whole - twice[a, b] + own) - log_z1
    return Truth(float(logsumexp(whole) - log_z1), log_ppp)


def panels(first: float, last: float) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights on panels of equal length, one of whose ends is 0."""
    x, weights = leggauss(_NODES)
    edges = np.arange(round(first / _PANEL), round(last / _PANEL) + 1) * _PANEL
    middle = 0.5 * (edges[1:] + edges[:-1])
    return (middle[:, None] + 0.5 * _PANEL * x).ravel(), np.tile(0.5 * _PANEL * weights, len(middle))


def single(log_prior: Callable[[np.ndarray], np.ndarray], scale: float) -> Cells:
    """Cells with one coefficient each, whose prior changes around 0 over a scale: in b = w sinh t, w = min(scale, 1)."""
    t, weights = panels(-70, 70)
    w = min(scale, 1.0)
    b = w * np.sinh(t)
    log_p = log_prior(b) + np.log(w * np.cosh(t)) + np.log(weights)

    def cells(ones: int, zeros: int) -> np.ndarray:
        return np.array([logsumexp(log_p + ones * log_expit(b) + zeros * log_expit(-b))])

    return cells


def scaled(shift: np.ndarray, log_scale: np.ndarray) -> Cells:
    """Cells with η = shift + s z, z ~ N(0, 1), at nodes (nodes,) of both; those of z lie close around the class boundary."""
    order = np.argsort(log_scale, kind="stable")
    groups = np.array_split(order, max(1, len(order) // 200))

    def cells(ones: int, zeros: int) -> np.ndarray:
        values = np.empty(len(order))
        for some in groups:
            values[some] = _of_scaled(shift[some], log_scale[some], ones, zeros)
        return values

    return cells


def _of_scaled(shift: np.ndarray, log_scale: np.ndarray, ones: int, zeros: int) -> np.ndarray:
    s = np.exp(log_scale)[:, None]
    unit = np.minimum(1.0, 1 / s)
    centre = np.clip(-shift[:, None] / s, -_SPREADS / 2, _SPREADS / 2) * (s > 1)
    reach = np.arcsinh(_SPREADS * max(1.0, float(s.max())))
    t = np.arange(-np.ceil(reach / _STEP), np.ceil(reach / _STEP) + 1) * _STEP
    z = centre + unit * np.sinh(t)
    eta = shift[:, None] + s * z
    log_terms = -0.5 * z**2 - 0.5 * np.log(2 * np.pi) + np.log(unit * np.cosh(t) * _STEP)
    return np.asarray(logsumexp(log_terms + ones * log_expit(eta) + zeros * log_expit(-eta), axis=1))
