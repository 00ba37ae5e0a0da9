"""All cases: `python -m validation.approximations`. Writes `results.json` as it goes, then the table and the figure.

What is in `results.json` already is not computed again: delete it to start anew.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from scipy.stats import kendalltau

import pymc_bpls as bpls
from pymc_bpls.approximations.by_name import APPROXIMATIONS
from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.approximations.predictions.predictive import Predictive
from pymc_bpls.engine.engine import Engine
from pymc_bpls.engine.newton import kernels
from pymc_bpls.montecarlo.nuts import sample
from pymc_bpls.montecarlo.psis import log_evidence
from validation.approximations.cases import Case, cases
from validation.approximations.report import draw, write
from validation.study.command import finish
from validation.study.control_variates import controlled, log_means, stein

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
REPORTS = HERE.parent / "reports"
_CHAINS, _DRAWS_AT_ONCE = 4, 4096


def measure(case: Case) -> dict[str, Any]:
    """Every approximation of one case beside the reference."""
    pls = bpls.BPLS(case.model(), **case.options)
    reference = exact(pls, case)
    found: dict[str, Any] = {
        "q": pls.engine.density.dimension,
        "n": len(pls.labeled),
        "range": float(np.ptp(reference.log_mean)),
        "mcse": float(reference.error.max()),
        "reasons": reference.reasons,
        "by_nuts": reference.by_nuts,
        "controlled": reference.by_nuts,
        "exact": reference.log_mean.tolist(),
        "methods": {},
    }
    for name, scores in methods(pls).items():
        if name == "PSIS" and not found["by_nuts"]:
            continue
        try:
            scores()
            start = time.perf_counter()
            values = scores()
            seconds = time.perf_counter() - start
        except bpls.BPLSError as error:
            found["methods"][name] = {"refused": str(error)}
        else:
            found["methods"][name] = compare(values, reference.log_mean) | {"seconds": seconds, "pareto_k": pareto_k(pls, name)}
    return found


@dataclass(frozen=True)
class Reference:
    """log E[p] of every candidate (m,), its standard error, reasons to distrust it, and whether it is by NUTS."""

    log_mean: np.ndarray
    error: np.ndarray
    reasons: list[str]
    by_nuts: bool


def exact(pls: bpls.BPLS, case: Case) -> Reference:
    """The reference of a case."""
    if case.weighted:
        tree = pls.exact(method="psis", draws=case.weighted, chains=1, random_seed=0, absolute=False, progressbar=False)
        if tree.attrs["reliable"]:
            found = tree["exact"].to_dataset()
            return Reference(found["log_predictive"].to_numpy(), found["mcse"].to_numpy(), [], by_nuts=False)
    return by_nuts(pls, case)


def by_nuts(pls: bpls.BPLS, case: Case) -> Reference:
    """Averages over draws of p(D | θ)² π(θ), with control variates."""
    engine, labeled, problem = pls.engine, pls.labeled, pls.scorer.problem
    options: dict[str, Any] = {
        "draws": case.draws,
        "tune": case.tune,
        "chains": _CHAINS,
        "target_accept": case.target_accept,
    }
    draws = sample(problem, labeled, 2, random_seed=0, **options)
    gradient = jax.jit(jax.vmap(partial(_gradient, engine, engine.density.labeled_rows(labeled, 2.0))))
    scores = pls.score("probability")
    rows, codes = scores["candidate"].to_numpy(), problem.codes(scores["pseudo_label"].to_numpy())
    pieces = np.array_split(draws.flat, max(1, len(draws.flat) // _DRAWS_AT_ONCE))
    controls = stein(draws.flat, np.concatenate([np.asarray(gradient(piece)) for piece in pieces]))
    values = np.exp(np.concatenate([engine.log_factor_pairs(piece, rows, codes) for piece in pieces], axis=1).T)
    return Reference(*log_means(controlled(values, controls), _CHAINS), draws.reasons, by_nuts=True)


def _gradient(engine: Engine, rows: Any, theta: jax.Array) -> jax.Array:
    """∇[2 ℓ_D + log π] at θ (q,)."""
    return kernels.value_gradient(engine.density.structure, theta, rows, prior=True)[1]


def methods(pls: bpls.BPLS) -> dict[str, Callable[[], np.ndarray]]:
    """log PPP of each candidate up to a constant, by each approximation."""

    def predictive_laplace() -> np.ndarray:
        labeled, codes = pls.labeled, pls.scorer.problem.codes
        mode = pls.engine.fit(labeled, k=2)
        scores = pls.score("probability")
        rows = scores["candidate"].to_numpy()
        predictive = Predictive(pls.engine)
        return predictive.log_mean_lik_of(Gaussian.at_mode(mode), rows, codes(scores["pseudo_label"].to_numpy()))

    return {
        "Laplace, refits": lambda: pls.score(approximation="laplace")["score"].to_numpy(),
        "Laplace, predictive": predictive_laplace,
        "VI": lambda: pls.score(approximation="vi")["score"].to_numpy(),
        "EP": lambda: pls.score(approximation="ep")["score"].to_numpy(),
        "PSIS": lambda: pls.exact(method="psis", random_seed=0, absolute=False)["exact"]["log_predictive"].to_numpy(),
    }


def compare(values: np.ndarray, exact: np.ndarray) -> dict[str, float]:
    """Kendall's τ, the largest centred error, and the exact log PPP lost by the choice."""
    error = (values - values.mean()) - (exact - exact.mean())
    return {
        "tau": float(kendalltau(values, exact)[0]),
        "error": float(np.abs(error).max()),
        "regret": float(exact.max() - exact[np.nanargmax(values)]),
    }


def pareto_k(pls: bpls.BPLS, name: str) -> float | None:
    """k-hat of importance sampling of p_2 from that approximation's own Gaussian."""
    engine, labeled, kinds = pls.engine, pls.labeled, {"VI": "vi", "EP": "ep"}
    if name == "PSIS":
        return float(pls.exact(method="psis", random_seed=0, absolute=False)["exact"]["pareto_k"].max())
    if name in kinds:
        mode = pls.scorer.fit(labeled, centre_of=kinds[name]).mode
        q = APPROXIMATIONS[kinds[name]].fit(engine, labeled, 2, mode, None)
    else:
        q = Gaussian.at_mode(engine.fit(labeled, k=2))
    return log_evidence(engine, labeled, q, 2)[1]


def compute(names: Sequence[str]) -> None:
    """Measure what is missing of the cases that are called so, or of all."""
    for case in cases():
        results = stored()
        if case.name in results or (names and case.name not in names):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bpls.BPLSWarning)
            results[case.name] = measure(case)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def stored() -> dict[str, Any]:
    """What is measured, by case."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def report() -> Path:
    """The table and the figure of what is measured."""
    results, names = stored(), [case.name for case in cases()]
    in_order = {name: results[name] for name in names if name in results}
    write(in_order, [name for name in names if name not in results], REPORTS / "approximations.md")
    draw(in_order, REPORTS / "approximations.png")
    return REPORTS / "approximations.md"


def main() -> None:
    """Measure what is missing, then write the report."""
    parser = argparse.ArgumentParser(prog="python -m validation.approximations", description=main.__doc__)
    parser.add_argument("--cases", nargs="*", default=[], metavar="NAME", help="these cases alone, as the report calls them")
    parser.add_argument("--report", action="store_true", help="only remake the report")
    chosen = parser.parse_args()
    finish(lambda: None if chosen.report else compute(chosen.cases), report)


if __name__ == "__main__":
    main()
