"""One data set of a model: spreads over candidates of what the criteria drop and keep, and of their errors, for each n."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

import pymc_bpls as bpls
from pymc_bpls.approximations.predictions.predictive import Predictive
from pymc_bpls.engine.engine import Engine
from pymc_bpls.model.data.table import Labeled
from validation.remainder.cases import ROWS, SIZES, Case
from validation.remainder.quadrature import Rows, exact
from validation.study.laplace import Laplace, expand

TOLERATED = 0.005  # change of the quadrature, as a share of the smallest spread at the same n
Record = dict[str, Any]


def measure(case: Case, engine: Engine, rows: Rows, replicate: int) -> Record:
    """One data set: its n first rows labeled, for each n; pseudo-labels are those of the largest n throughout."""
    start = time.perf_counter()
    first = replicate * ROWS
    order, candidates = np.arange(first, first + SIZES[-1]), np.arange(first + SIZES[-1], first + ROWS)
    everything = engine.fit(labeled(rows, order))
    codes = Predictive(engine).log_probabilities(everything.theta, candidates).argmax(axis=1)
    pool = Rows(rows.X[candidates], codes, rows.groups[candidates])
    record: Record = {"n": SIZES.tolist(), "map": {}, "mle": {}, "left_out": {"map": {}, "mle": {}}, "quadrature": []}
    for n in SIZES.tolist():
        D = labeled(rows, order[:n])
        scored = {}
        for expansion in ("map", "mle"):
            try:
                scored[expansion] = terms(engine, D, candidates, codes, expansion)
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


def terms(engine: Engine, D: Labeled, candidates: np.ndarray, codes: np.ndarray, expansion: str) -> Laplace:
    """Of all candidates.

    Raises
    ------
    ModeError
        There is no mode for D or for a candidate.
    """
    found = expand(engine, D, candidates, codes, engine.fit(D).theta, prior=expansion == "map")
    lost = candidates[np.isnan(found.ppp)]
    if len(lost):
        raise bpls.ModeError(f"{len(lost)} candidates have no mode (the first: row {lost[0]}). Leave this expansion out.")
    return found


def spreads(values: Laplace, log_ppp: np.ndarray) -> dict[str, float]:
    """Standard deviations over candidates of each quantity."""
    quantities = {
        "dropped": values.log_lik_labeled,
        "ppp_minus_exact": values.ppp - log_ppp,
        "ibpls_minus_exact": values.ibpls - log_ppp,
        "log_prior": values.log_prior,
        "half_log_det": 0.5 * values.log_det,
        "log_lik_pseudo": values.log_lik_pseudo,
    }
    return {name: float(quantity.std(ddof=1)) for name, quantity in quantities.items()}


def smallest(scored: dict[str, Laplace], log_ppp: np.ndarray) -> float:
    """The smallest spread of a difference from exact, or of the dropped term."""
    names = ("dropped", "ppp_minus_exact", "ibpls_minus_exact")
    return min(spreads(values, log_ppp)[name] for values in scored.values() for name in names)


def tolerance(scored: dict[str, Laplace], log_ppp: np.ndarray) -> float:
    """How much the quadrature may change when nodes are added."""
    return TOLERATED * smallest(scored, log_ppp)


def rounded(value: float) -> float:
    """Six significant digits."""
    return float(f"{value:.6g}")
