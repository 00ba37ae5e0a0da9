"""One data set of a model: spreads over candidates of what the criteria drop and keep, and of their errors, for each n."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

import pymc_bpls as bpls
from pymc_bpls.model.table import Labeled
from pymc_bpls.rules.label_rules import LabelRule
from pymc_bpls.scoring.criteria import find_criterion
from pymc_bpls.scoring.scorer import Scorer, score_pool
from pymc_bpls.scoring.settings import Settings
from validation.remainder.cases import ROWS, SIZES, Case
from validation.remainder.quadrature import Rows, exact

TOLERATED = 0.005  # change of the quadrature, as a share of the smallest spread at the same n
Record = dict[str, Any]


@dataclass(frozen=True)
class FixedLabels(LabelRule):
    """A label rule that knows each candidate's class beforehand."""

    fixed: np.ndarray
    name: str = "fixed"

    def codes(self, log_probabilities: np.ndarray, present: np.ndarray) -> np.ndarray:
        """The classes given."""
        return self.fixed


def measure(case: Case, scorer: Scorer, rows: Rows, replicate: int) -> Record:
    """One data set: its n first rows labeled, for each n; pseudo-labels are those of the largest n throughout."""
    start = time.perf_counter()
    first = replicate * ROWS
    order, candidates = np.arange(first, first + SIZES[-1]), np.arange(first + SIZES[-1], first + ROWS)
    everything = labeled(rows, order)
    codes = scorer.log_probabilities(scorer.fit(everything), candidates).argmax(axis=1)
    pool = Rows(rows.X[candidates], codes, rows.groups[candidates])
    record: Record = {"n": SIZES.tolist(), "map": {}, "mle": {}, "left_out": {"map": {}, "mle": {}}, "quadrature": []}
    for n in SIZES.tolist():
        D = labeled(rows, order[:n])
        scored = {}
        for expansion in ("map", "mle"):
            try:
                scored[expansion] = terms(scorer, D, candidates, codes, expansion)
            except bpls.ModeError as error:
                record["left_out"][expansion][n] = str(error)
        held = Rows(rows.X[order[:n]], rows.codes[order[:n]], rows.groups[order[:n]])
        found = exact(case.exact, held, pool, partial(tolerance, scored))
        for expansion, values in scored.items():
            for quantity, spread in spreads(values, found.log_ppp).items():
                record[expansion].setdefault(quantity, {})[n] = rounded(spread)
        share = found.change / smallest(scored, found.log_ppp)
        record["quadrature"].append({"nodes": found.nodes, "change": rounded(found.change), "share": rounded(share)})
    return record | {"seconds": rounded(time.perf_counter() - start)}


def labeled(rows: Rows, positions: np.ndarray) -> Labeled:
    """D with weights 1."""
    return Labeled(positions, rows.codes[positions], np.ones(len(positions)))


def terms(scorer: Scorer, D: Labeled, candidates: np.ndarray, codes: np.ndarray, expansion: str) -> xr.Dataset:
    """Scores of both criteria and the terms of `ppp`."""
    scores = {}
    for name in ("ppp", "ibpls"):
        criterion, with_prior = find_criterion(name, expansion)
        settings = Settings(criterion, with_prior, FixedLabels(codes), np.random.default_rng(0))
        scores[name], _ = score_pool(scorer, settings, scorer.fit(D), candidates)
    return scores["ppp"].rename(score="ppp").assign(ibpls=scores["ibpls"]["score"])


def spreads(values: xr.Dataset, log_ppp: np.ndarray) -> dict[str, float]:
    """Standard deviations over candidates of each quantity."""
    quantities = {
        "dropped": values["log_lik_labeled"],
        "ppp_minus_exact": values["ppp"] - log_ppp,
        "ibpls_minus_exact": values["ibpls"] - log_ppp,
        "log_prior": values["log_prior"],
        "half_log_det": 0.5 * values["log_det"],
        "log_lik_pseudo": values["log_lik_pseudo"],
    }
    return {name: float(quantity.std(ddof=1)) for name, quantity in quantities.items()}


def smallest(scored: dict[str, xr.Dataset], log_ppp: np.ndarray) -> float:
    """The smallest spread of a difference from exact, or of the dropped term."""
    names = ("dropped", "ppp_minus_exact", "ibpls_minus_exact")
    return min(spreads(values, log_ppp)[name] for values in scored.values() for name in names)


def tolerance(scored: dict[str, xr.Dataset], log_ppp: np.ndarray) -> float:
    """How much the quadrature may change when nodes are added."""
    return TOLERATED * smallest(scored, log_ppp)


def rounded(value: float) -> float:
    """Six significant digits."""
    return float(f"{value:.6g}")
