"""What a model says of candidates and, without their own labels, of labeled rows: probabilities, densities of features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from pymc_bpls.approximations.ep.cavities import cavity_marginals
from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.approximations.gaussians.mixture import Mixture
from pymc_bpls.approximations.gaussians.sparse_part import SparsePart
from pymc_bpls.errors import CriterionError
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.scoring.criteria import mutual_information
from pymc_bpls.scoring.fitted import ModelFit
from pymc_bpls.scoring.one_model import ModelScorer
from pymc_bpls.scoring.predictors import MAP
from pymc_bpls.scoring.scorer import fit_on, settled
from pymc_bpls.scoring.settings import AUTO, LAPLACE, find_settings
from pymc_bpls.text.progress import stage


@dataclass(frozen=True)
class Predictions:
    """Of n `known` rows, without their own labels, and of m candidates.

    Attributes
    ----------
    known : Labeled
    of_known, of_candidates : ndarray, shape (n, K) and (m, K)
        Class probabilities, as the predictor gives them.
    information : ndarray, shape (m,)
        What the candidates' labels would tell of θ, in nats ("bald").
    log_density : tuple of ndarray, (n,) and (m,), or None
        log p(x | D) of the features, where the model is class-conditional.
    approximation : str
        That they are averaged over, or "map", at the mode.
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
    """Each labeled row predicted from the others: by EP's cavities, or by another approximation with a refit for each row.

    Raises
    ------
    ModeError
        D, or D without one of its rows, has no mode.
    CriterionError
        The predictor is a function.
    """
    D = scorer.problem.labeled
    by = _By.of(scorer, D)
    if by.q is not None and by.has_cavities:
        q = _as_cavities_know(by.q)
        known: dict[tuple[str, int], Any] = {(by.name, 1): q}
        by = replace(by, q=q, fit=replace(by.fit, known=known))
        return by.predictions(D, np.exp(_without_own_labels(by.fit, q)), None, candidates)
    parts = []
    with stage("each labeled row left out", len(D)) as tell:
        for row in D.positions:
            parts.append(by.again(D.without(np.array([row]))).of_rows(np.array([row])))
            tell(1)
    p, log_density = (np.concatenate(values) for values in zip(*parts, strict=True))
    return by.predictions(D, p, log_density, candidates)


def by_split(scorer: ModelScorer, candidates: np.ndarray, rng: np.random.Generator) -> Predictions:
    """A random half of the labeled rows, and the candidates, predicted from the other half.

    Raises
    ------
    ModeError
        The half has no mode.
    CriterionError
        The predictor is a function.
    """
    D = scorer.problem.labeled
    order = rng.permutation(len(D))
    held, rest = np.sort(order[: len(D) // 2]), np.sort(order[len(D) // 2 :])
    known, seen = (Labeled(D.positions[some], D.codes[some], D.weights[some]) for some in (held, rest))
    by = _By.of(scorer, seen)
    return by.predictions(known, *by.of_rows(known.positions), candidates)


@dataclass(frozen=True)
class _By:
    """What predicts: a fit, and q ≈ p(θ | D) by its name, or "map" and None at the mode."""

    scorer: ModelScorer
    fit: ModelFit
    name: str
    q: Gaussian | Mixture | None

    @classmethod
    def of(cls, scorer: ModelScorer, D: Labeled) -> _By:
        """Given D, as the scorer's predictor says."""
        if callable(scorer.predictor):
            raise CriterionError(
                "predictor= of BPLS is a function, which knows the rows' own labels. Leave it out, or name an approximation."
            )
        if scorer.predictor == MAP:
            return cls(scorer, scorer.fit(D), MAP, None)
        fit = fit_on(scorer, settled(scorer, find_settings("ppp", AUTO), D), D)
        name = scorer.approximation_of(fit) if scorer.predictor == AUTO else scorer.predictor
        return cls(scorer, fit, name, fit.gaussian(name))

    @property
    def has_cavities(self) -> bool:
        """Whether q has the sites of D's rows, as EP's has."""
        q = self.q
        sites = [part.sites for part in q.parts] if isinstance(q, Mixture) else [] if q is None else [q.sites]
        return bool(sites) and all(each is not None and each.marginals is not None for each in sites)

    def again(self, D: Labeled) -> _By:
        """Given other rows."""
        fit = self.scorer.fit(D, self.fit.mode.theta, None if self.name in (MAP, LAPLACE) else self.name)
        if self.q is None:
            return replace(self, fit=fit)
        begin: dict[int, Any] = {1: self.q}
        fit = fit.for_scores_by(None, begin)
        return replace(self, fit=fit, q=fit.gaussian(self.name))

    def of_rows(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Class probabilities (rows, K), and log p(x | D) (rows,), 0 of a model of y given x."""
        log_p = self.scorer.with_predictor(self.name).log_probabilities(self.fit, positions)
        if not self.scorer.problem.class_conditional:
            return np.exp(log_p), np.zeros(len(positions))
        log_lik = self.fit.predictive.log_mean_lik(self.q or Gaussian.at_mode(self.fit.mode), positions)
        return np.exp(log_p), np.asarray(logsumexp(log_lik, axis=1))

    def predictions(self, known: Labeled, p: np.ndarray, log_density: np.ndarray | None, candidates: np.ndarray) -> Predictions:
        """With the candidates, and what their labels would tell."""
        of_candidates, of_features = self.of_rows(candidates)
        densities = (log_density, of_features) if log_density is not None and self.scorer.problem.class_conditional else None
        q = self.q or Gaussian.at_mode(self.fit.mode)
        information = mutual_information(self.fit.predictive, q, candidates)
        return Predictions(known, p, of_candidates, information, densities, self.name)


def _as_cavities_know(q: Gaussian | Mixture) -> Gaussian | Mixture:
    """Without the shapes of densities, which cavities have none of."""
    if isinstance(q, Gaussian):
        return replace(q, shape=None)
    plain = (replace(part, c=None) if isinstance(part, SparsePart) else replace(part, shape=None) for part in q.parts)
    return replace(q, parts=tuple(plain))


def _without_own_labels(fit: ModelFit, q: Gaussian | Mixture) -> np.ndarray:
    """log p(y | x_j, D without j) of D's rows, (n, K).

    In a mixture part g has the weight w_g/p_g(y_j) without the row, p_g(y_j) being its cavity's probability of the row's label.
    """
    D = fit.labeled
    if isinstance(q, Gaussian):
        return fit.predictive.log_mean_probabilities_at(cavity_marginals(q), D.positions)
    given = fit.predictive.of_hierarchy
    log_p = np.stack([given.log_mean_probabilities_at(cavity_marginals(part), D.positions) for part in q.parts])
    own = log_p[:, np.arange(len(D)), D.codes]
    log_weights = q.log_shares[:, None] - own
    return np.asarray(logsumexp(log_p + (log_weights - logsumexp(log_weights, axis=0))[..., None], axis=0))
