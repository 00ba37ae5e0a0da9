"""Scores of a whole pool from one or two Gaussian fits, without a refit for any candidate.

    log PPP_i = log Z_2 − log Z_1 + log E_{q_2}[p(ŷ_i | x_i, θ)],      log p(D ∪ i) = log Z_1 + log E_{q_1}[p(ŷ_i | x_i, θ)],

with q_k ≈ p_k ∝ p(D | θ)^k π(θ) by expectation propagation or variational inference. log Z_k is EP's own; for variational
inference, whose ELBO is only a bound, it is taken by importance sampling from q_k.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pymc_bpls.approximations import ep
from pymc_bpls.approximations import vi as variational
from pymc_bpls.approximations.gaussian import Fit, Gaussian
from pymc_bpls.approximations.predictive import Predictive
from pymc_bpls.compute.threads import for_matrices_of
from pymc_bpls.engine.mode import Mode
from pymc_bpls.errors import BPLSWarning
from pymc_bpls.model.table import Labeled
from pymc_bpls.montecarlo.bridge import LogRatio
from pymc_bpls.montecarlo.psis import log_evidence

_NO_MEAN_K = 1.0
FITS: dict[str, Fit] = {"ep": ep.fit, "vi": variational.fit}
#: How often D counts in the density that each criterion averages over.
MULTIPLES = {"ppp": 2, "marginal_likelihood": 1, "predictive": 1}
#: What the absolute value of a criterion is called.
ABSOLUTE = {"ppp": "log_ppp", "marginal_likelihood": "log_evidence"}


class Scored(NamedTuple):
    """log E_{q_k}[p] of each pair, the logarithm of the constant (None without a proper prior), its error and k-hat where it
    was sampled, and the fits by k.
    """

    log_predictive: np.ndarray
    log_normalizer: float | None
    sampled: tuple[float, float] | None
    fits: dict[int, Gaussian]


@dataclass(frozen=True)
class RefitFree:
    """Scores by one kind of Gaussian fit."""

    predictive: Predictive
    approximation: str

    def score(
        self,
        criterion: str,
        labeled: Labeled,
        mode: Mode | None,
        pairs: tuple[np.ndarray, np.ndarray],
        warm: dict[int, Gaussian],
        *,
        absolute: bool,
    ) -> Scored:
        """Scores of pairs (row, class); `warm` holds the fits of an earlier round, which this one starts from."""
        k = MULTIPLES[criterion]
        needed = (1, 2) if absolute and k == 2 else (k,)
        engine = self.predictive.engine
        with for_matrices_of(engine.density.dimension):
            fits = {each: FITS[self.approximation](engine, labeled, each, mode, warm.get(each)) for each in needed}
        log_predictive = self.predictive.log_mean_lik_of(fits[k], *pairs)
        if not absolute:
            return Scored(log_predictive, None, None, fits)
        if self.approximation == "ep":
            log_z = {each: LogRatio(q.log_z, 0.0) for each, q in fits.items()}
            sampled = None
        else:
            found = {each: log_evidence(engine, labeled, q, each) for each, q in fits.items()}
            log_z = {each: ratio for each, (ratio, _) in found.items()}
            error = float(np.sqrt(sum(ratio.error**2 for ratio in log_z.values())))
            sampled = error, max(pareto_k for _, pareto_k in found.values())
        return Scored(log_predictive, log_z[2].value - log_z[1].value if k == 2 else log_z[1].value, sampled, fits)


def warn_of_constant(pareto_k: float) -> None:
    """Say where weights have no mean, so that the constant that all candidates share means nothing."""
    if pareto_k > _NO_MEAN_K:
        warnings.warn(
            f"k-hat of the shared constant in the scores is {pareto_k:.3f} (more than 1): their level may be wrong, "
            "their order does not depend on it. Use exact() where the level matters.",
            BPLSWarning,
            stacklevel=6,
        )
