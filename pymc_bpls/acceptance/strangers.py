"""A look at the pool before anything is labeled: whether there are candidates that no labeled row covers."""

from __future__ import annotations

import numpy as np

from pymc_bpls.acceptance.coverage import Coverage, coverage_by_distance
from pymc_bpls.acceptance.sentences import say_strangers
from pymc_bpls.errors import warn
from pymc_bpls.model.problem import Problem

#: Where nobody asked: probability of an alarm on exchangeable rows, and how many products of numbers may be spent on it.
_UNASKED, _GLANCE = 0.001, 50_000_000


def warn_of_strangers(problem: Problem, candidates: np.ndarray) -> None:
    """Warn where candidates have features that the labeled rows do not cover."""
    found = glance(problem, problem.labeled.positions, candidates)
    if found is not None and not found[0].covered.all():
        coverage, judged = found
        first = problem.words.one(int(judged[~coverage.covered][0]))
        warn(say_strangers(coverage, first, len(candidates)))


def glance(problem: Problem, labeled: np.ndarray, candidates: np.ndarray) -> tuple[Coverage, np.ndarray] | None:
    """Coverage by distances, in a moment: of as many candidates, taken at random, as that admits, and which they are.

    It is judged by nearness whatever the model is, since its density would take a refit for each labeled row. None where
    nothing tells.
    """
    width = sum(int(np.prod(values.shape[1:])) for values in problem.density.data if values.dtype.kind == "f")
    if width == 0 or len(labeled) < 2 or not len(candidates):
        return None
    rng = np.random.default_rng(0)
    labeled = _some(labeled, int((_GLANCE / width) ** 0.5), rng)
    candidates = _some(candidates, _GLANCE // (width * len(labeled)), rng)
    coverage = coverage_by_distance(problem, labeled, candidates, _UNASKED)
    return None if coverage is None else (coverage, candidates)


def _some(rows: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """At most so many of the rows, two at least, at random and in their order."""
    return np.sort(rng.choice(rows, min(len(rows), max(2, most)), replace=False))
