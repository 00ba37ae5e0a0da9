"""Whether Hessians by autodiff may be trusted, and how they are compiled where they may not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_bpls.engine.modes.failures import Derivatives
from pymc_bpls.errors import ModelError


@dataclass
class Route:
    """Whether Hessians by autodiff are compiled apart from everything else, column by column.

    XLA of JAX 0.10 miscompiles the batched derivative of a Cholesky factor on the CPU, so that the first Hessian is compared
    with differences of the gradient. Where they disagree, this slower way is taken, and candidates are refitted in turn.
    """

    apart: bool = False
    checked: bool = False

    def check(self, derivatives: Derivatives, start: np.ndarray) -> None:
        """Compare once, choose the way, and compare again."""
        if self.checked:
            return
        self.checked = True
        self.apart = not _agree(derivatives, start)
        if self.apart and not _agree(derivatives, start):
            raise ModelError(
                "The Hessian of the log-density disagrees with its gradient, which is a fault of this version of JAX. "
                "Install another version of jax and jaxlib."
            )


def _agree(derivatives: Derivatives, theta: np.ndarray) -> bool:
    """Whether the Hessian along a direction is the difference of gradients along it, to 1%."""
    rng = np.random.default_rng(0)
    theta = theta + 0.1 * rng.normal(size=len(theta))
    along = rng.normal(size=len(theta))
    _, _, curvature = derivatives(theta)
    above, below = (derivatives(theta + sign * 1e-4 * along)[1] for sign in (1, -1))
    along_hessian, expected = -curvature @ along, (above - below) / 2e-4
    usable = np.isfinite(along_hessian) & np.isfinite(expected)
    return bool((np.abs(along_hessian - expected)[usable] <= 1e-2 * (1e-3 + np.abs(expected).max(initial=0.0))).all())
