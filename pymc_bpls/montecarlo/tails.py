"""Averages of classes that live in the tail of p_k, where draws of p_k do not come.

    E_{p_k}[p(y | x_i, θ)] = Z_{k,i} / Z_k,      Z_{k,i} = ∫ p(y | x_i, θ) p(D | θ)^k π(θ) dθ,

is an average over draws of p_k, and its terms have a k-hat. Where this is too large, Z_{k,i} is a constant of its own: that of
p_k for D with the pair as one more row, of weight 1/k, sampled from proposals for that density.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pymc_bpls.engine.engine import Engine
from pymc_bpls.errors import ApproximationError, BPLSError
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.montecarlo.averages import Averages, apart, average, mirrored, unseen
from pymc_bpls.montecarlo.bridge import LogRatio
from pymc_bpls.montecarlo.pareto import GOOD_K
from pymc_bpls.montecarlo.references import Reference, importance_samples, proposals
from pymc_bpls.rules.label_rules import Options
from pymc_bpls.text.progress import stage

_HEAVY, _MOST = 0.5, 64
_DRAWS = 2000


@dataclass(frozen=True)
class Constant:
    """log Z_{k,i} of one pair by draws of its own, their effective sample size, and their k-hat."""

    log_z: LogRatio
    ess: float
    pareto_k: float


def pair_averages(
    engine: Engine, labeled: Labeled, k: int, reference: Reference, positions: np.ndarray, codes: np.ndarray
) -> Averages:
    """log E_{p_k}[p(y | x, θ)] of each pair (row, class), those in the tail by draws of their own, the worst first."""
    draws = reference.draws
    averages = average(engine, draws, positions, codes)
    averages = unseen(engine, draws, averages, positions, codes)
    heavy = np.flatnonzero(averages.pareto_k > _HEAVY)
    heavy = heavy[np.argsort(-averages.pareto_k[heavy], kind="stable")][:_MOST]
    constants: dict[int, Constant] = {}
    with stage("classes in the tail of the posterior", len(heavy)) as tell:
        for pair in heavy:
            constant = _constant(engine, labeled, k, int(positions[pair]), int(codes[pair]), reference.rng)
            if constant is not None and constant.pareto_k < averages.pareto_k[pair]:
                constants[int(pair)] = constant
            tell(1)
    with contextlib.suppress(ApproximationError):
        averages = _replaced(averages, constants, reference) if constants else averages
    worst = -np.inf if draws.pareto_k is None else draws.pareto_k
    return replace(averages, pareto_k=np.maximum(averages.pareto_k, worst))


def _constant(engine: Engine, labeled: Labeled, k: int, position: int, code: int, rng: np.random.Generator) -> Constant | None:
    """By importance sampling around EP's or Laplace's Gaussian of the pair's own density; None where it has none, and where the
    pair brings its label alone to a density of rows with their labels.
    """
    if engine.conditional:
        return None
    held = labeled.with_rows(np.array([position]), np.array([code]), 1.0 / k)
    try:
        [sample] = importance_samples(engine, held, [k], _DRAWS, rng, partial(proposals, names=("ep",)))
    except BPLSError:
        return None
    k_hat = np.inf if sample.draws.pareto_k is None or (sample.reasons and sample.moved) else sample.draws.pareto_k
    return Constant(sample.log_z, 1 / max(sample.log_z.error**2, 1 / _DRAWS), float(k_hat))


def _replaced(averages: Averages, constants: dict[int, Constant], reference: Reference) -> Averages:
    """With log Z_{k,i} − log Z_k for these pairs."""
    pairs = np.array(list(constants))
    level = reference.log_z()
    own, rest = level.deviations(reference.draws.batches)
    log_mean, ess, pareto_k = averages.log_mean.copy(), averages.ess.copy(), averages.pareto_k.copy()
    first = averages.blocks[0].copy()
    first[:, pairs] = -own[:, None]
    error = np.zeros(len(log_mean))
    for pair, constant in constants.items():
        log_mean[pair] = constant.log_z.value - level.value
        ess[pair], pareto_k[pair] = constant.ess, constant.pareto_k
        error[pair] = constant.log_z.error
    shared = mirrored(np.where(error > 0, -rest, 0.0))
    blocks = (first, *averages.blocks[1:], shared, apart(error))
    return replace(averages, log_mean=log_mean, blocks=blocks, ess=ess, pareto_k=pareto_k)


def average_options(
    engine: Engine, labeled: Labeled, k: int, reference: Reference, options: Options
) -> tuple[Averages, np.ndarray]:
    """log E[p(y | x, θ)] of the candidates' classes, or of their combination, and the classes, codes (m,) or (m, K)."""
    codes = options.codes
    averages = pair_averages(engine, labeled, k, reference, *options.pairs)
    if options.weigh is None:
        return averages, codes
    weighing = options.weigh(averages.log_mean.reshape(codes.shape))
    return averages.combined(weighing), weighing.codes


def bad_averages(averages: Averages, *references: Reference) -> list[str]:
    """Reasons to distrust averages: values that are no number, and terms with tails beyond those of importance weights."""
    nowhere = np.isnan(averages.log_mean)
    reasons = (
        [f"PyMC rejects the parameters of {nowhere.sum()} of {len(nowhere)} values in every draw"] if nowhere.any() else []
    )
    of_weights = [reference.draws.pareto_k for reference in references if reference.draws.pareto_k is not None]
    bad = averages.pareto_k > max([GOOD_K, *of_weights])
    if not bad.any():
        return reasons
    worst = averages.pareto_k.max()
    return [
        *reasons,
        f"k-hat is up to {worst:.3g} (more than {GOOD_K}) for {bad.sum()} of {len(bad)} values, which draws do not reach",
    ]
