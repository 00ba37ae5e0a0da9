"""Levels of one table by EP and by VI, beside what is said of them."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

import pymc_bpls as bpls
from validation.levels.cases import Case
from validation.levels.quadrature import Truth
from validation.levels.tables import Table

METHODS = ("ep", "vi")


def measure(case: Case, seed: int) -> dict[str, Any]:
    """A table's levels by every method."""
    table = Table.drawn(case.cells, seed)
    exact, pls = case.exact(table), bpls.BPLS(case.model(table))
    return {"constant": exact.constant, **{method: _scored(pls, method, exact) for method in METHODS}}


def _scored(pls: bpls.BPLS, method: str, exact: Truth) -> dict[str, Any]:
    """Errors of the constant, and of scores of the more probable class up to it; what is claimed; or why it is refused."""
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            scores = pls.score("ppp", approximation=method, other_modes=False)
        except bpls.BPLSError as error:
            return {"refused": str(error)}
    seconds = time.perf_counter() - start
    right = exact.log_ppp[np.arange(len(exact.log_ppp)), scores["pseudo_label"].to_numpy().astype(int)]
    off = scores["score"].to_numpy() - right
    claimed = {name: scores.attrs[name] for name in _CLAIMS if name in scores.attrs}
    return {
        "off": float(scores.attrs["log_normalizer"] - exact.constant),
        "centred": float(np.abs(off - off.mean()).max()),
        "range": float(np.ptp(right)),
        "warned": any(issubclass(each.category, bpls.BPLSWarning) and "level" in str(each.message) for each in said),
        "seconds": round(seconds, 2),
        **claimed,
    }


_CLAIMS = ("log_normalizer_correction", "log_normalizer_error", "pareto_k")
