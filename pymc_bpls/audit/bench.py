"""What criteria are scored on for an audit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from pymc_bpls.audit.agreement import PairScores
from pymc_bpls.audit.forms import Form
from pymc_bpls.audit.truth import Truth
from pymc_bpls.errors import CriterionError, ModeError
from pymc_bpls.montecarlo.psis import integrand_ks
from pymc_bpls.montecarlo.sparse_proposals import Approximation, local_gaussian
from pymc_bpls.rules.label_rules import Options
from pymc_bpls.rules.ranking import TIED
from pymc_bpls.scoring.criteria import Criterion, FitCriterion
from pymc_bpls.scoring.fitted import Fitted, ModelFit
from pymc_bpls.scoring.results import Pairs, Scores
from pymc_bpls.scoring.scorer import Scorer, score_pool
from pymc_bpls.scoring.settings import LAPLACE, find_settings


@dataclass(frozen=True)
class Bench:
    """Everything that criteria are scored on: the fit on D, the candidates' options, and the exact values.

    `codes` are the classes that the exact values are of. Where D has no mode, `lost` says why, and the fit is at the centre of
    the variational approximation.
    """

    scorer: Scorer
    fit: Fitted
    lost: ModeError | None
    options: Options
    codes: np.ndarray
    truth: Truth
    top: int
    seed: int

    @property
    def pairs(self) -> Pairs:
        """The pairs (candidate, class), flat."""
        return Pairs.of(self.options.candidates, self.codes)

    def scored(self, form: Form) -> PairScores:
        """The pairs' scores in one form.

        Raises
        ------
        BPLSError
            The form is not defined for this model.
        """
        if self.lost is not None and form.approximation == LAPLACE:
            raise self.lost
        settings = form.settings(np.random.default_rng(self.seed))
        result, warm = self.scorer.score(settings, self.fit, self.options)
        score = result["score"].ravel()
        if not np.isfinite(score).any():
            raise CriterionError(f'"{form.label}" has no finite score. Look for far-away values in the rows.')
        if self.codes.ndim == 2 and np.nanmax(np.ptp(result["score"], axis=1)) <= TIED:
            raise CriterionError(
                f'"{form.label}" scores all classes of a row alike, so that it chooses none of them. '
                'Audit it with labels="predicted".'
            )
        combined = self.options.weigh is not None
        found = PairScores(score, *_log_p(settings.criterion, score, result, form, combined))
        unknown = "pareto_k" in result.attrs and "log_normalizer_error" not in result.attrs  # VI's level
        error = float(result.attrs.get("log_normalizer_error", 0.0))
        found = replace(found, constant_error=error, absolute=found.absolute and not unknown)
        if not isinstance(self.fit, ModelFit):
            return found
        q = _gaussian(form, settings.criterion, self.fit, warm)
        if q is None or settings.criterion.k is None:
            return found
        pairs = self.pairs.rows, self.pairs.codes
        ks, k_hat = integrand_ks(self.fit.engine, self.fit.labeled, q, settings.criterion.k, pairs)
        return replace(found, pareto_k=ks, gaussian_k=k_hat)

    def class_sum_error(self) -> np.ndarray | None:
        """Of each pair's candidate; None under improper priors."""
        settings = find_settings("ppp", labels="all")
        result, _ = score_pool(self.scorer, settings, self.fit, self.options.candidates)
        if "class_sum_error" not in result:
            return None
        return np.repeat(result["class_sum_error"], self.codes.size // len(self.options.candidates))


def _gaussian(form: Form, criterion: Criterion | FitCriterion, fit: ModelFit, warm: Any) -> Approximation | None:
    """The Gaussian that a form approximates p_k by, where it has one with the prior in it."""
    if form.approximation != LAPLACE:
        return cast(Approximation, warm[criterion.k])
    if not isinstance(criterion, Criterion) or not criterion.prior or form.expansion == "mle":
        return None
    mode = fit.mode if criterion.k == 1 else fit.engine.fit(fit.labeled, fit.mode.theta, k=criterion.k)
    return local_gaussian(mode)


def _log_p(
    criterion: Criterion | FitCriterion, score: np.ndarray, result: Scores, form: Form, combined: bool
) -> tuple[Any, bool]:
    """The score as a log probability, which it is where classes were combined, and whether it is log PPP itself."""
    if isinstance(criterion, FitCriterion) and form.approximation == LAPLACE and not combined:
        with np.errstate(divide="ignore"):
            return (None if criterion.log_p is None else criterion.log_p(score)), False
    if form.criterion == "ppp" and criterion.absolute is not None and criterion.absolute in result:
        return result[criterion.absolute].ravel(), True
    return (score if isinstance(form.criterion, str) else None), False
