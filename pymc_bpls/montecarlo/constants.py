"""Logarithms of normalising constants Z_k of p_k from draws of p_k, by bridge sampling: of one, and of the ratio of two."""

from __future__ import annotations

import numpy as np

from pymc_bpls.engine.engine import Engine
from pymc_bpls.errors import ApproximationError
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.montecarlo.bridge import LogRatio, Proposal, bridge
from pymc_bpls.montecarlo.collapsed import PROBED, Collapsed
from pymc_bpls.montecarlo.psis import AnyProposal, Target, log_densities


def log_ratio(engine: Engine, labeled: Labeled, first: np.ndarray, second: np.ndarray) -> LogRatio:
    """log Z_2 − log Z_1 from draws (chain, draw, q) of p_1 and p_2: their density ratio is p(D | θ)."""

    def ratios(theta: np.ndarray) -> np.ndarray:
        return engine.log_lik_labeled(labeled, theta.reshape(-1, theta.shape[-1])).reshape(theta.shape[:2])

    return bridge(ratios(first), ratios(second))


def log_normaliser(
    engine: Target,
    labeled: Labeled,
    k: int,
    draws: np.ndarray,
    rng: np.random.Generator,
    proposal: AnyProposal | None = None,
) -> LogRatio:
    """log Z_k from draws (chain, draw, q) of p_k: each half of them is bridged to a t distribution that the other half fits.

    All of them are bridged to a `proposal` that does not depend on them, where there is one. Where all parameters but a few are
    integrated out one by one (`montecarlo.collapsed`), these few alone are bridged.

    Raises
    ------
    ApproximationError
        There are too few draws for their covariance.
    """
    if proposal is not None:
        return _bridged(engine, labeled, k, proposal, draws, rng)
    collapsed = Collapsed.of(engine, labeled, k) if isinstance(engine, Engine) else None
    if collapsed is not None:
        of_core = draws[..., collapsed.core]
        if collapsed.resolves(rng.choice(of_core.reshape(-1, len(collapsed.core)), PROBED)):
            return log_normaliser(collapsed, labeled, k, of_core, rng)
    half = draws.shape[1] // 2
    parts = draws[:, :half], draws[:, half : 2 * half]
    try:
        found = [_bridged_to_fitted(engine, labeled, k, *pair, rng) for pair in (parts, parts[::-1])]
    except (np.linalg.LinAlgError, ValueError) as singular:
        raise ApproximationError(
            f"{draws[..., 0].size} draws are too few for the covariance of {draws.shape[-1]} parameters. Take more draws."
        ) from singular
    influence = np.zeros(draws.shape[:2])
    for place, each in ((slice(half, 2 * half), found[0]), (slice(0, half), found[1])):
        assert each.influence is not None
        influence[:, place] = each.influence.reshape(len(draws), half)
    error, rest = (float(np.sqrt(sum(getattr(each, name) ** 2 for each in found)) / 2) for name in ("error", "rest"))
    return LogRatio(float(np.mean([each.value for each in found])), error, influence.ravel(), rest)


def _bridged_to_fitted(
    engine: Target, labeled: Labeled, k: int, fitted: np.ndarray, draws: np.ndarray, rng: np.random.Generator
) -> LogRatio:
    return _bridged(engine, labeled, k, Proposal.fitted(fitted.reshape(-1, draws.shape[-1])), draws, rng)


def _bridged(
    engine: Target, labeled: Labeled, k: int, proposal: AnyProposal, draws: np.ndarray, rng: np.random.Generator
) -> LogRatio:
    q = draws.shape[-1]
    proposed = proposal.draws(draws.shape[:2], rng)
    at = [
        log_densities(engine, labeled, theta.reshape(-1, q), k).reshape(theta.shape[:2]) - proposal.log_density(theta)
        for theta in (proposed, draws)
    ]
    return bridge(*at)
