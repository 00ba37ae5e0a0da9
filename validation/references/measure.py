"""Exact values of a case by one method from many seeds, beside the truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import xarray as xr

import pymc_bpls as bpls
from pymc_bpls.approximations.gaussian import Gaussian
from pymc_bpls.engine.engine import Engine
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.model.problem import Problem
from pymc_bpls.montecarlo.nuts import Draws, diagnose, sample
from pymc_bpls.montecarlo.references import Method, Psis, Reference, proposals, reference_by
from pymc_bpls.rules.label_rules import find_rule
from pymc_bpls.scoring.exact import exact_tree, find_exact
from pymc_bpls.scoring.scorer import label_options
from validation.references.cases import Case

SEEDS_AT_ONCE, CHAINS, DRAWS, TUNE = 10, 4, 400, 800
METHODS = ("nuts", "psis")
Record = dict[str, Any]


@dataclass(frozen=True)
class Slice:
    """A stretch of long chains of p_1 and p_2, as if it were a run of its own."""

    runs: dict[int, Draws]
    number: int

    def __call__(self, problem: Problem, engine: Engine, labeled: Labeled, k: int) -> Reference:
        """The part's reference."""
        part = slice(DRAWS * self.number, DRAWS * (self.number + 1))
        parts = {}
        for power, run in self.runs.items():
            theta, stats = run.theta[:, part], run.sample_stats.isel(draw=part)
            parts[power] = Draws(theta, stats, diagnose(theta, stats, problem.density.parameters.labels))
        rng = np.random.default_rng(self.number)
        return reference_by(parts[2], parts[1], problem, engine, labeled, k, rng, absolute=True)


@cache
def prepared(case: Case) -> tuple[bpls.BPLS, Callable[[int], list[tuple[str, Gaussian]]]]:
    """The case's model, compiled once, and its Gaussians, fitted once: they do not depend on a seed."""
    pls = bpls.BPLS(case.model())
    return pls, cache(lambda k: list(proposals(pls.engine, pls.labeled, k)))


def measure(case: Case, method: str, block: int) -> list[Record]:
    """The runs of one block of seeds."""
    pls, gaussians = prepared(case)
    problem, labeled = pls.scorer.problem, pls.labeled
    candidates = problem.table.candidates
    options = label_options(pls.scorer, find_rule("all"), pls.scorer.fit(labeled), candidates)
    seeds = range(SEEDS_AT_ONCE * block, SEEDS_AT_ONCE * (block + 1))
    if method == "psis":
        methods: list[Method] = [Psis(True, CHAINS * DRAWS, seed, lambda _, __, k: gaussians(k)) for seed in seeds]
    else:
        sizes: dict[str, Any] = {"draws": DRAWS * SEEDS_AT_ONCE, "tune": TUNE, "chains": CHAINS, "cores": 1}
        long = {k: sample(problem, labeled, k, random_seed=10 * block + k, **sizes) for k in (1, 2)}
        methods = [Slice(long, number) for number in range(SEEDS_AT_ONCE)]
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
