"""Scores of a whole pool from one or two Gaussian fits, without a refit for any candidate.

    log PPP_i = log Z_2 − log Z_1 + log E_{q_2}[p(ŷ_i | x_i, θ)],      log p(D ∪ i) = log Z_1 + log E_{q_1}[p(ŷ_i | x_i, θ)],

with q_k ≈ p_k ∝ p(D | θ)^k π(θ) by expectation propagation or variational inference. log Z_k is EP's own; for variational
inference, whose ELBO is only a bound, it is taken by importance sampling from q_k.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pymc_bpls.approximations.by_name import APPROXIMATIONS
from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.approximations.predictions.replicates import Averages, standard_error
from pymc_bpls.compute.threads import for_matrices_of
from pymc_bpls.engine.engine import Engine
from pymc_bpls.errors import warn
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.montecarlo.bridge import LogRatio
from pymc_bpls.montecarlo.pareto import GOOD_K, has_variance
from pymc_bpls.montecarlo.psis import CONSTANT_DRAWS, log_evidence
from pymc_bpls.rules.ranking import smallest_lead
from pymc_bpls.scoring.criteria import Criterion, FitCriterion
from pymc_bpls.scoring.fitted import ModelFit
from pymc_bpls.scoring.results import Pairs, Values, largest_error
from pymc_bpls.text.progress import stage

_LARGEST_CORRECTION = 0.15
#: Attrs of scores that say how far the level may be off, of a posterior with one mode.
ERRORS_OF_LEVEL = ("log_normalizer_correction", "log_normalizer_error")


def score_by_gaussian(
    approximation: str,
    criterion: Criterion | FitCriterion,
    fit: ModelFit,
    pairs: Pairs,
    begin: dict[int, Gaussian],
    *,
    absolute: bool,
    to_rank: bool,
) -> tuple[Values, dict[int, Gaussian]]:
    """Scores of the pairs, and the fits by k; `begin` holds those of an earlier round, which these start from.

    Without `absolute`, or where the criterion has no absolute value, the score is log E_{q_k}[p] alone. `to_rank` candidates,
    fits are as exact as that needs: where two of the best ten come out nearer to each other than that, they are done again.
    """
    k, name = criterion.k, criterion.absolute if absolute else None
    assert k is not None
    engine, predictive = fit.engine, fit.predictive
    method = APPROXIMATIONS[approximation]

    def fitted(begin: Mapping[int, Gaussian], *, to_rank: bool) -> tuple[dict[int, Gaussian], Averages]:
        fits = fit_gaussians(approximation, criterion, fit, begin, absolute=absolute, to_rank=to_rank)
        with stage("averages over the Gaussian"):
            return fits, predictive.mean_lik_of(fits[k], pairs.rows, pairs.codes)

    with for_matrices_of(engine.dimension_for(fit.labeled)):
        fits, averages = fitted(begin, to_rank=to_rank)
        if to_rank and smallest_lead(averages.log_mean) < method.told_apart:
            fits, averages = fitted(fits, to_rank=False)
        log_predictive, errors = averages.log_mean, averages.error
        if not to_rank:
            errors = np.hypot(errors, _error_of_fit(approximation, fit, k, fits[k], pairs))
    error = largest_error(errors)
    if name is None:
        return Values({"score": pairs.variable(log_predictive)}, error), fits
    log_normalizer, attrs = log_normalizer_of(approximation, criterion, fit, fits)
    value = pairs.variable(log_predictive + log_normalizer)
    return Values({"score": value, name: value}, {"log_normalizer": log_normalizer, **attrs, **error}), fits


def fit_gaussians(
    approximation: str,
    criterion: Criterion | FitCriterion,
    fit: ModelFit,
    begin: Mapping[int, Gaussian],
    *,
    absolute: bool,
    to_rank: bool,
) -> dict[int, Gaussian]:
    """The fits by k that scores of the criterion need: of an `absolute` value for k = 2 the one for k = 1 too."""
    assert criterion.k is not None
    needed = (1, 2) if absolute and criterion.absolute is not None and criterion.k == 2 else (criterion.k,)
    method, engine = APPROXIMATIONS[approximation], fit.engine

    def fitted(each: int) -> Gaussian:
        if (approximation, each) in fit.known:
            return fit.known[approximation, each]
        q = method.fit(engine, fit.labeled, each, fit.mode, begin.get(each), to_rank=to_rank)
        if not (to_rank or begin):
            fit.known[approximation, each] = q
        return q

    with stage(f'Gaussians by "{approximation}"'):
        return {each: fitted(each) for each in needed}


def log_normalizer_of(
    approximation: str, criterion: Criterion | FitCriterion, fit: ModelFit, fits: dict[int, Gaussian]
) -> tuple[float, dict[str, float]]:
    """What absolute values have beyond the log predictive, the same for all candidates, with its error where it was sampled."""
    log_z, attrs = _log_normalizers(approximation, fit.engine, fit.labeled, fits)
    return (log_z[2].value - log_z[1].value if criterion.k == 2 else log_z[1].value), attrs


def _error_of_fit(approximation: str, fit: ModelFit, k: int, q: Gaussian, pairs: Pairs) -> np.ndarray:
    """Standard errors (pairs,) of averages over q that are due to the draws by which q was fitted."""
    more = APPROXIMATIONS[approximation].again
    with stage("how far the fit by draws is off"):
        others = [] if more is None else more(fit.engine, fit.labeled, k, q)
        if not others:
            return np.zeros(len(pairs.rows))
        log_means = [fit.predictive.mean_lik_of(other, pairs.rows, pairs.codes, few=True).log_mean for other in others]
    return standard_error(np.stack(log_means))


def _log_normalizers(
    approximation: str, engine: Engine, labeled: Labeled, fits: dict[int, Gaussian]
) -> tuple[dict[int, LogRatio], dict[str, float]]:
    """log Z_k of each fit, and of what all candidates share: the size of EP's correction; where they were sampled, k-hat, and
    the error where k-hat says that the weights have a variance.

    Repeated by new draws, levels are off by 1.07 of that error, and by up to 1.8 of the one that other weights have.
    """
    if APPROXIMATIONS[approximation].has_log_z:
        largest = max(abs(q.correction) for q in fits.values())
        if largest > _LARGEST_CORRECTION:
            warn(
                f"EP corrects the constant that all scores share by {largest:.2f} nats (more than {_LARGEST_CORRECTION}), so "
                "that the level of the scores may be wrong by as much, or more. The order of one model's scores does not "
                "depend on it. Use exact() where the level matters."
            )
        return {k: LogRatio(q.log_z, 0.0) for k, q in fits.items()}, {"log_normalizer_correction": largest}
    sampled = {k: log_evidence(engine, labeled, q, k) for k, q in fits.items()}
    log_z, pareto_k = {k: ratio for k, (ratio, _) in sampled.items()}, max(pareto_k for _, pareto_k in sampled.values())
    if has_variance(pareto_k, CONSTANT_DRAWS):
        error = float(np.sqrt(sum(ratio.error**2 for ratio in log_z.values())))
        return log_z, {"log_normalizer_error": error, "pareto_k": pareto_k}
    if pareto_k > GOOD_K:
        warn(
            f"k-hat of the constant that all scores share is {pareto_k:.3f} (more than {GOOD_K}), so that the level of the "
            "scores may be wrong by an unknown amount. The order of one model's scores does not depend on it. Use exact() "
            "where the level matters."
        )
    return log_z, {"pareto_k": pareto_k}
