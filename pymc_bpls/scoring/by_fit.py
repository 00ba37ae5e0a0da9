"""Scores from the fit on D alone, and the classes of a candidate combined to one value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pymc_bpls.approximations.predictions.predictive import Predictive
from pymc_bpls.engine.modes.mode import Mode
from pymc_bpls.errors import CriterionError
from pymc_bpls.rules.label_rules import Weighing
from pymc_bpls.scoring.criteria import ABSOLUTE, Criterion, FitCriterion, FittedView
from pymc_bpls.scoring.results import Pairs, Values, Variable, largest_error


def score_by_fit(criterion: FitCriterion, rng: np.random.Generator, predictive: Predictive, mode: Mode, pairs: Pairs) -> Values:
    """Scores of the pairs; a class with probability 0 has none but −∞, unless its score is a probability."""
    view = FittedView(predictive, mode, pairs.rows, pairs.codes, rng)
    score = np.asarray(criterion.score(view), dtype=float)
    if score.shape != pairs.rows.shape:
        raise CriterionError(
            f'Criterion "{criterion.name}" gives values of shape {score.shape} for {len(pairs.rows)} pairs of row and class. '
            "Return one for each of view.positions."
        )
    if criterion.log_p is None:
        score = np.where(np.isneginf(view.at_own_class(view.log_probabilities)), -np.inf, score)
    attrs = {} if criterion.error is None else largest_error(criterion.error(view))
    return Values({"score": pairs.variable(score)}, attrs)


def log_scale(criterion: Criterion | FitCriterion, *, by_laplace: bool) -> Callable[[np.ndarray], np.ndarray]:
    """From scores to logarithms of probabilities or of densities, on which classes combine."""
    if isinstance(criterion, Criterion) or not by_laplace:
        return np.asarray
    if criterion.log_p is None:
        raise CriterionError(
            f'"{criterion.name}" is no probability, so that classes cannot be combined by it. '
            'Use labels="predicted" or "all", or another criterion.'
        )
    return criterion.log_p


def combined_classes(
    result: Values, weigh: Callable[[np.ndarray], Weighing], to_log: Callable[[np.ndarray], np.ndarray]
) -> tuple[Values, Weighing]:
    """`score` and the absolute value with their classes combined, as logarithms; terms stay those of each class."""
    with np.errstate(divide="ignore"):
        log_values = to_log(result["score"])
    weighing = weigh(log_values)
    combined: dict[str, Variable] = {
        name: (("candidate",), weighing.combined(log_values if name == "score" else result[name]))
        for name in ("score", *ABSOLUTE.values())
        if name in result
    }
    return Values({**result.variables, **combined}, result.attrs), weighing
