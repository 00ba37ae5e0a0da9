"""Coordinates u of ψ in which a lattice is laid: those of ψ itself, but for covariances of two effects.

PyMC's LKJCholeskyCov has for two effects the free numbers (log L₁₁, L₂₁, log L₂₂). The width of L₂₁ is proportional to the
second sd, so that its density has a neck where that is small, which no lattice of one spacing sees. In
u = (log s₁, atanh ρ, log s₂)

    L₁₁ = s₁,   L₂₁ = s₂ ρ,   L₂₂ = s₂ √(1 − ρ²),   |∂ψ/∂u| = s₂,

it has none. Covariances of three effects have six free numbers, more than are integrated over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_PACKED = "_cholesky-cov-packed__["


@dataclass(frozen=True)
class OuterCoordinates:
    """Which entries of ψ are three numbers of a covariance, by the place of the first (C,).

    One of each entry of ψ is `units` (m,) of PyMC's numbers, in which the three are what they are.
    """

    covariances: tuple[int, ...]
    units: np.ndarray

    @classmethod
    def of(cls, labels: Sequence[str], units: np.ndarray) -> OuterCoordinates:
        """Of the entries of ψ, by their labels (m,)."""
        variables = [label.partition("[")[0] for label in labels]
        return cls(
            tuple(
                place
                for place, (label, name) in enumerate(zip(labels, variables, strict=True))
                if label.endswith(f"{_PACKED}0]") and variables.count(name) == 3
            ),
            units,
        )

    def of_psi(self, psi: np.ndarray) -> np.ndarray:
        """U (m,) of ψ (m,)."""
        u = psi.copy()
        for place in self.covariances:
            _, below, log_diagonal = (psi * self.units)[place : place + 3]
            u[place + 1] = np.arcsinh(below * np.exp(-log_diagonal))
            u[place + 2] = (log_diagonal + _log_cosh(u[place + 1])) / self.units[place + 2]
        return u

    def psi(self, u: np.ndarray) -> np.ndarray:
        """Ψ (m,) of u (m,)."""
        psi = u.copy()
        for place in self.covariances:
            turned, log_sd = u[place + 1], u[place + 2] * self.units[place + 2]
            psi[place + 1] = np.exp(log_sd) * np.tanh(turned) / self.units[place + 1]
            psi[place + 2] = (log_sd - _log_cosh(turned)) / self.units[place + 2]
        return psi

    def log_jacobian(self, u: np.ndarray) -> float:
        """log |∂ψ/∂u|."""
        own = u * self.units
        return float(sum(own[place + 2] - np.log(self.units[place + 1]) for place in self.covariances))


def _log_cosh(x: float) -> float:
    return float(np.logaddexp(x, -x) - np.log(2))
