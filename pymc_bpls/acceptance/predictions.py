"""What a model says of candidates and, without their own labels, of labeled rows: probabilities, densities of features."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from pymc_bpls.approximations.automatic import EP, LAPLACE
from pymc_bpls.approximations.ep.cavities import cavity_marginals
from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.approximations.hierarchies.scales import admits_plain
from pymc_bpls.errors import ApproximationError
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.scoring.criteria import mutual_information
from pymc_bpls.scoring.fitted import ModelFit
from pymc_bpls.scoring.one_model import ModelScorer
from pymc_bpls.text.progress import stage


@dataclass(frozen=True)
class Predictions:
    """Of n `known` rows, without their own labels, and of m candidates.

    Attributes
    ----------
    known : Labeled
    of_known, of_candidates : ndarray, shape (n, K) and (m, K)
        Class probabilities, averaged over the posterior's approximation.
    information : ndarray, shape (m,)
        What the candidates' labels would tell of θ, in nats ("bald").
    log_density : tuple of ndarray, (n,) and (m,), or None
        log p(x | D) of the features, where the model is class-conditional.
    approximation : str
    """

    known: Labeled
    of_known: np.ndarray
    of_candidates: np.ndarray
    information: np.ndarray
    log_density: tuple[np.ndarray, np.ndarray] | None
    approximation: str

    @property
    def right(self) -> np.ndarray:
        """Which known rows are predicted right (n,)."""
        return self.of_known.argmax(axis=1) == self.known.codes


def leave_one_out(scorer: ModelScorer, candidates: np.ndarray) -> Predictions:
    """Each labeled row predicted from the others: by EP's cavities, or by Laplace's method with a refit for each row.

    Raises
    ------
    ModeError
        D, or D without one of its rows, has no mode.
    """
    D = scorer.problem.labeled
    fit = scorer.fit(D)
    q = _by_ep(fit)
    if q is not None:
        log_p = fit.predictive.log_mean_probabilities_at(cavity_marginals(q), D.positions)
        return _with_candidates_by_ep(fit, q, D, log_p, candidates)
    parts = []
    with stage("each labeled row left out", len(D)) as tell:
        for row in D.positions:
            refit = scorer.fit(D.without(np.array([row])), fit.mode.theta)
            parts.append(_of_fit(scorer, refit, np.array([row])))
            tell(1)
    p, log_density = (np.concatenate(values) for values in zip(*parts, strict=True))
    return _with_candidates(scorer, fit, D, p, log_density, candidates)


def by_split(scorer: ModelScorer, candidates: np.ndarray, rng: np.random.Generator) -> Predictions:
    """A random half of the labeled rows, and the candidates, predicted from the other half.

    Raises
    ------
    ModeError
        The half has no mode.
    """
    D = scorer.problem.labeled
    order = rng.permutation(len(D))
    held, rest = np.sort(order[: len(D) // 2]), np.sort(order[len(D) // 2 :])
    known, seen = (Labeled(D.positions[some], D.codes[some], D.weights[some]) for some in (held, rest))
    fit = scorer.fit(seen)
    q = _by_ep(fit)
    if q is not None:
        log_p = fit.predictive.log_mean_lik(q, known.positions, normalised=True)
        return _with_candidates_by_ep(fit, q, known, log_p, candidates)
    return _with_candidates(scorer, fit, known, *_of_fit(scorer, fit, known.positions), candidates)


def _by_ep(fit: ModelFit) -> Gaussian | None:
    """EP's Gaussian, as cavities know it, or None where the model has none."""
    if not admits_plain(fit.engine):
        return None
    try:
        return replace(fit.gaussian(EP), shape=None)
    except ApproximationError:
        return None


def _with_candidates_by_ep(
    fit: ModelFit, q: Gaussian, known: Labeled, log_p: np.ndarray, candidates: np.ndarray
) -> Predictions:
    of_candidates = np.exp(fit.predictive.log_mean_lik(q, candidates, normalised=True))
    return Predictions(known, np.exp(log_p), of_candidates, mutual_information(fit.predictive, q, candidates), None, EP)


def _with_candidates(
    scorer: ModelScorer, fit: ModelFit, known: Labeled, p: np.ndarray, log_density: np.ndarray, candidates: np.ndarray
) -> Predictions:
    """By Laplace's method at `fit`."""
    of_candidates, of_features = _of_fit(scorer, fit, candidates)
    information = mutual_information(fit.predictive, Gaussian.at_mode(fit.mode), candidates)
    densities = (log_density, of_features) if scorer.problem.class_conditional else None
    return Predictions(known, p, of_candidates, information, densities, LAPLACE)


def _of_fit(scorer: ModelScorer, fit: ModelFit, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Class probabilities (rows, K) averaged over Laplace's Gaussian, and log p(x | D) (rows,), 0 of a model of y given x."""
    log_p = scorer.with_predictor(LAPLACE).log_probabilities(fit, positions)
    if not scorer.problem.class_conditional:
        return np.exp(log_p), np.zeros(len(positions))
    log_lik = fit.predictive.log_mean_lik(Gaussian.at_mode(fit.mode), positions)
    return np.exp(log_p), np.asarray(logsumexp(log_lik, axis=1))
