"""Accept pseudo-labels of which at most a share alpha is wrong in expectation, and rank the rows that are left for a person."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from pymc_bpls.acceptance.conformal import conformal_p_values, step_up
from pymc_bpls.acceptance.coverage import Coverage, coverage_by_both, coverage_by_distance, find_coverage
from pymc_bpls.acceptance.predictions import Predictions, by_split, leave_one_out
from pymc_bpls.acceptance.sentences import (
    Hypotheses,
    say_approximation,
    say_calibration,
    say_coverage,
    say_guarantee,
    say_verdict,
)
from pymc_bpls.errors import RowError, warn
from pymc_bpls.model.problem import Problem
from pymc_bpls.scoring.one_model import ModelScorer

LEAVE_ONE_OUT, SPLIT = "leave-one-out", "split"


def accept(scorer: ModelScorer, alpha: float, by: str, *, per_class: bool, rng: np.random.Generator) -> xr.Dataset:
    """Pseudo-labels of the candidates with p-values, and which of them are accepted; parameters are those of `BPLS.accept`.

    Raises
    ------
    RowError
        There is one labeled row.
    """
    problem = scorer.problem
    D, candidates = problem.labeled, problem.table.candidates
    if len(D) < 2:
        raise RowError(f'"{problem.name}" has one labeled row, which leaves none to predict it by. Label more rows.')
    predicted = leave_one_out(scorer, candidates) if by == LEAVE_ONE_OUT else by_split(scorer, candidates, rng)
    coverage = _coverage(problem, predicted, candidates)
    covered = np.ones(len(candidates), dtype=bool) if coverage is None else coverage.covered
    if coverage is not None and not covered.all():
        warn(f"{say_coverage(coverage)} accept() takes none of them.")
    tests = _test(predicted, covered, alpha, problem.classes.names if per_class else None)
    codes, confidence = predicted.of_candidates.argmax(axis=1), predicted.of_candidates.max(axis=1)
    of_known, right = predicted.of_known.max(axis=1), predicted.right
    by_what = say_approximation(predicted.approximation, in_hierarchy=bool(problem.hierarchy))
    counts = [each.n_calibration for each in tests.bounds]
    attrs: dict[str, Any] = {
        "alpha": float(alpha),
        "by": by,
        "per_class": int(per_class),
        "approximation": predicted.approximation,
        "verdict": f"{say_verdict(tests.bounds, len(candidates), alpha, coverage)} {by_what}",
        "guarantee": say_guarantee(by, coverage, per_class=per_class),
        "n_calibration": counts if per_class else counts[0],
        "calibration": say_calibration(of_known, right),
        "calibration_rows": predicted.known.positions,
        "calibration_confidence": of_known,
        "calibration_right": right.astype(int),
    }
    if coverage is not None:
        attrs |= {"not_covered": coverage.share, "coverage_p_value": coverage.p_value, "coverage_by": coverage.judged_by}
    return xr.Dataset(
        {
            "pseudo_label": ("candidate", problem.classes.names[codes]),
            "confidence": ("candidate", confidence),
            "p_value": ("candidate", tests.p_values),
            "accepted": ("candidate", tests.accepted),
            "covered": ("candidate", covered),
            "bald": ("candidate", predicted.information),
            "rank": ("candidate", _ranks(predicted.information, tests.accepted)),
        },
        coords=problem.coords(candidates, codes),
        attrs=attrs,
    )


class _Tests(NamedTuple):
    """Candidates' p-values (m,), which of them are accepted (m,), and what there is one bound for, all or a class each."""

    p_values: np.ndarray
    accepted: np.ndarray
    bounds: list[Hypotheses]


def _test(predicted: Predictions, covered: np.ndarray, alpha: float, classes: np.ndarray | None) -> _Tests:
    """Whether each candidate's label is wrong, tested together, or those of each of the `classes` by themselves."""
    codes, guess = predicted.of_candidates.argmax(axis=1), predicted.of_known.argmax(axis=1)
    known = np.isfinite(predicted.of_candidates).all(axis=1)
    confidence, of_known = np.where(known, predicted.of_candidates.max(axis=1), np.nan), predicted.of_known.max(axis=1)
    tests = _Tests(np.ones(len(codes)), np.zeros(len(codes), dtype=bool), [])
    for code in (None,) if classes is None else range(len(classes)):
        some = np.ones(len(codes), dtype=bool) if code is None else codes == code
        alike = np.ones(len(guess), dtype=bool) if code is None else guess == code
        p = conformal_p_values(of_known[alike], ~predicted.right[alike], confidence[some])
        tests.p_values[some] = np.where(covered[some], p, 1.0)
        tests.accepted[some] = step_up(tests.p_values[some], alpha)
        of = "" if classes is None else f"class {classes[code]}"
        n_accepted, n_alike = int(tests.accepted[some].sum()), int(alike.sum())
        tests.bounds.append(Hypotheses(tests.p_values[some & covered], n_accepted, n_alike, of))
    return tests


def _coverage(problem: Problem, predicted: Predictions, candidates: np.ndarray) -> Coverage | None:
    """By the density that the model gives features, or by nearness to labeled rows; None where neither tells.

    Rows that are left out one by one are in the densities of all others: distances have to confirm an alarm.
    """
    labeled = problem.labeled.positions
    if predicted.log_density is None:
        return coverage_by_distance(problem, labeled, candidates)
    found = find_coverage(*predicted.log_density, "the density that the model gives them")
    apart = len(predicted.known) < len(labeled)
    return found if apart else coverage_by_both(found, problem, labeled, candidates)


def _ranks(information: np.ndarray, accepted: np.ndarray) -> np.ndarray:
    """1 for the row that a person should look at first, the most informative one that is left; 0 of accepted rows."""
    ranks = np.zeros(len(accepted), dtype=int)
    left = np.flatnonzero(~accepted)
    order = left[np.argsort(-information[left], kind="stable")]
    ranks[order] = np.arange(1, len(order) + 1)
    return ranks
