"""Exact values of a case by one method from many seeds, beside the truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import xarray as xr

import pymc_bpls as bpls
from pymc_bpls.engine.engine import Engine
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.model.problem import Problem
from pymc_bpls.montecarlo.nuts import SMALLER_STEPS, Draws, diagnose, divergences, sample
from pymc_bpls.montecarlo.references import Method, Psis, Reference, proposals, reference_by
from pymc_bpls.montecarlo.sparse_proposals import Approximation
from pymc_bpls.rules.label_rules import find_rule
from pymc_bpls.scoring.exact import exact_tree, find_exact
from pymc_bpls.scoring.scorer import label_options
from validation.references.cases import Case

SEEDS_AT_ONCE, CHAINS, DRAWS_BY_PSIS, TUNE = 10, 4, 400, 800
METHODS = ("nuts", "psis")
Record = dict[str, Any]


@dataclass(frozen=True)
class Parts:
    """Stretches of long chains of p_1 and p_2, each as if it were a run of its own.

    Where draws diverged in a stretch, the one of chains with smaller steps is taken, as the package draws again.
    """

    problem: Problem
    runs: dict[int, Draws]
    careful: dict[int, Draws]
    draws: int

    @classmethod
    def drawn(cls, problem: Problem, labeled: Labeled, draws: int, block: int) -> Parts:
        """Long chains, and those with smaller steps if they are needed."""
        sizes: dict[str, Any] = {"draws": draws * SEEDS_AT_ONCE, "tune": TUNE, "chains": CHAINS, "cores": 1}
        runs, careful = {}, {}
        for k in (1, 2):
            runs[k] = sample(problem, labeled, k, random_seed=10 * block + k, **sizes)
            if divergences(runs[k].sample_stats):
                careful[k] = sample(problem, labeled, k, random_seed=10 * block + k + 5, target_accept=SMALLER_STEPS, **sizes)
        return cls(problem, runs, careful, draws)

    def part(self, k: int, number: int) -> Draws:
        """One of them."""
        found = self._cut(self.runs[k], number)
        return self._cut(self.careful[k], number) if divergences(found.sample_stats) else found

    def _cut(self, run: Draws, number: int) -> Draws:
        part = slice(self.draws * number, self.draws * (number + 1))
        theta, stats = run.theta[:, part], run.sample_stats.isel(draw=part)
        return Draws(theta, stats, diagnose(theta, stats, self.problem.density.parameters.labels))


@dataclass(frozen=True)
class Part:
    """A run by a stretch of long chains."""

    parts: Parts
    number: int

    def __call__(self, problem: Problem, engine: Engine, labeled: Labeled, k: int) -> Reference:
        """The part's reference."""
        second, first = (self.parts.part(each, self.number) for each in (2, 1))
        rng = np.random.default_rng(self.number)
        return reference_by(second, first, problem, engine, labeled, k, rng, absolute=True)


def draws_of_chain(case: Case, method: str) -> int:
    """How many a run has in each of its chains."""
    return case.draws if method == "nuts" else DRAWS_BY_PSIS


@cache
def prepared(case: Case) -> tuple[bpls.BPLS, Callable[[int], list[tuple[str, Approximation]]]]:
    """The case's model, compiled once, and its Gaussians, fitted once: they do not depend on a seed."""
    pls = bpls.BPLS(case.model(), predictor="map")
    return pls, cache(lambda k: list(proposals(pls.engine, pls.labeled, k)))


def measure(case: Case, method: str, block: int) -> list[Record]:
    """The runs of one block of seeds."""
    pls, gaussians = prepared(case)
    problem, labeled = pls.scorer.problem, pls.labeled
    candidates = problem.table.candidates
    options = label_options(pls.scorer, find_rule("all"), pls.scorer.fit(labeled), candidates)
    seeds = range(SEEDS_AT_ONCE * block, SEEDS_AT_ONCE * (block + 1))
    if method == "psis":
        methods: list[Method] = [Psis(True, CHAINS * DRAWS_BY_PSIS, seed, lambda _, __, k: gaussians(k)) for seed in seeds]
    else:
        parts = Parts.drawn(problem, labeled, draws_of_chain(case, method), block)
        methods = [Part(parts, number) for number in range(SEEDS_AT_ONCE)]
    trees = [
        exact_tree(pls.scorer, labeled, find_exact("ppp"), by, options, np.random.default_rng(seed))
        for by, seed in zip(methods, seeds, strict=True)
    ]
    return [record(tree) for tree in trees]


def record(tree: xr.DataTree) -> Record:
    """What is kept of a run."""
    exact = tree["exact"].to_dataset()
    return {
        "reliable": int(tree.attrs["reliable"]),
        "reasons": list(tree.attrs["reasons"]),
        "constant": [round(float(tree.attrs[name]), 6) for name in ("log_normalizer", "log_normalizer_error")],
        "log_ppp": exact["log_ppp"].to_numpy().round(6).tolist(),
        "mcse": exact["mcse"].to_numpy().round(6).tolist(),
        "pareto_k": round(float(exact["pareto_k"].max()), 3),
    }
