"""Both criteria of the paper from one refit of each candidate: Eq. 6 (`ppp`) and Eq. 7 (`ibpls`) expand at the same mode."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pymc_bpls.engine.engine import Engine
from pymc_bpls.model.data.table import Labeled


class Laplace(NamedTuple):
    """Terms of S_i at θ̃_i, the maximum of 2ℓ_D + ℓ_i (+ log π), each (candidates,), NaN where there is no mode.

    `start` (q,) is the maximum of 2ℓ_D (+ log π), from which all candidates were refitted.
    """

    log_lik_labeled: np.ndarray
    log_lik_pseudo: np.ndarray
    log_prior: np.ndarray
    log_det: np.ndarray
    start: np.ndarray

    @property
    def ibpls(self) -> np.ndarray:
        """Eq. 7."""
        return self.log_lik_labeled + self.log_lik_pseudo + self.log_prior - 0.5 * self.log_det

    @property
    def ppp(self) -> np.ndarray:
        """Eq. 6, with the term that Eq. 7 drops."""
        return self.log_lik_labeled + self.ibpls


def expand(
    engine: Engine, D: Labeled, candidates: np.ndarray, codes: np.ndarray, start: np.ndarray, *, prior: bool = True
) -> Laplace:
    """Refit each candidate with its pseudo-label, at the MAP, or without the prior at the MLE.

    Raises
    ------
    ModeError
        2ℓ_D (+ log π), looked for from `start`, has no maximum.
    """
    shared = engine.fit(D, start, k=2, prior=prior)
    refits = engine.refit(D, candidates, codes, shared, k=2, prior=prior)
    return Laplace(refits.log_lik_labeled, refits.log_lik_pseudo, refits.log_prior, refits.log_det, shared.theta)
