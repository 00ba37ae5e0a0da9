"""All cases: `python -m validation.approximations`. Writes `results.json` as it goes, then the table and the figure.

What is in `results.json` already is not computed again: delete it, a case or one of its methods there to start anew.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
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
from pymc_bpls.montecarlo.averages import average
from pymc_bpls.montecarlo.nuts import sample
from pymc_bpls.montecarlo.pareto import GOOD_K
from pymc_bpls.montecarlo.psis import log_evidence
from pymc_bpls.montecarlo.references import Psis
from validation.approximations.cases import Case, cases
from validation.approximations.report import METHODS, draw, write
from validation.study.command import finish
from validation.study.control_variates import controlled, log_means, stein

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
REPORTS = HERE.parent / "reports"
_CHAINS, _DRAWS_AT_ONCE = 4, 4096


def measure(case: Case, found: dict[str, Any], nuts_sampler: str) -> Iterator[dict[str, Any]]:
    """The reference of one case, then with every approximation beside it, less what was `found` before."""
    pls = bpls.BPLS(case.model(), predictor="map", **case.options)
    found = found or described(pls, exact(pls, case, nuts_sampler))
    yield found
    for name, scores in methods(pls).items():
        if name in found["methods"] or (name == "PSIS" and not found["by_nuts"]):
            continue
        found["methods"][name] = measured(pls, name, scores, np.array(found["exact"]))
        yield found


def measured(pls: bpls.BPLS, name: str, scores: Callable[[], np.ndarray], exact: np.ndarray) -> dict[str, Any]:
    """One approximation beside the `exact` values, with its time once compiled and its k-hat; or why it is refused."""
    try:
        scores()
        start = time.perf_counter()
        values = scores()
        seconds = time.perf_counter() - start
    except bpls.BPLSError as error:
        return {"refused": str(error)}
    return compare(values, exact) | {"seconds": seconds, "pareto_k": pareto_k(pls, name)}


@dataclass(frozen=True)
class Reference:
    """log E[p] of every candidate (m,) with its standard error, by control variates or without; reasons to distrust it, and
    whether it is by NUTS.
    """

    log_mean: np.ndarray
    error: np.ndarray
    controlled: bool
    reasons: list[str]
    by_nuts: bool


def described(pls: bpls.BPLS, reference: Reference) -> dict[str, Any]:
    """What is kept of a case's reference, with no approximation yet."""
    return {
        "q": pls.engine.density.dimension,
        "n": len(pls.labeled),
        "range": float(np.ptp(reference.log_mean)),
        "mcse": float(reference.error.max()),
        "reasons": reference.reasons,
        "by_nuts": reference.by_nuts,
        "controlled": reference.controlled,
        "exact": reference.log_mean.tolist(),
        "methods": {},
    }


def exact(pls: bpls.BPLS, case: Case, nuts_sampler: str) -> Reference:
    """The reference of a case."""
    return (by_weights(pls, case.weighted) if case.weighted else None) or by_nuts(pls, case, nuts_sampler)


def by_weights(pls: bpls.BPLS, n: int) -> Reference | None:
    """Weighted averages over n draws by importance sampling, with control variates; None where they cannot be trusted."""
    engine, labeled = pls.engine, pls.labeled
    sampled = Psis(absolute=False, n=n, seed=0)(pls.scorer.problem, engine, labeled, 2)
    rows, codes = candidates(pls)
    if sampled.reasons or average(engine, sampled.draws, rows, codes).pareto_k.max() > GOOD_K:
        return None
    weights = np.exp(sampled.draws.log_weights - sampled.draws.log_weights.max())
    return Reference(*averages(pls, sampled.draws.theta, 1, weights), [], by_nuts=False)


def by_nuts(pls: bpls.BPLS, case: Case, nuts_sampler: str) -> Reference:
    """Averages over draws of p(D | θ)² π(θ) by one of PyMC's samplers, with control variates."""
    options: dict[str, Any] = {
        "draws": case.draws,
        "tune": case.tune,
        "chains": _CHAINS,
        "target_accept": case.target_accept,
        "nuts_sampler": nuts_sampler,
    }
    draws = sample(pls.scorer.problem, pls.labeled, 2, random_seed=0, **options)
    return Reference(*averages(pls, draws.flat, _CHAINS, None), draws.reasons, by_nuts=True)


def averages(pls: bpls.BPLS, theta: np.ndarray, chains: int, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, bool]:
    """log means (m,) of the candidates' likelihoods over draws θ (S, q), their errors, and whether control variates were taken.

    None are where gradients at some draw have left double precision.
    """
    engine, labeled = pls.engine, pls.labeled
    gradient = jax.jit(jax.vmap(partial(_gradient, engine, engine.density.labeled_rows(labeled, 2.0))))
    rows, codes = candidates(pls)
    pieces = np.array_split(theta, max(1, len(theta) // _DRAWS_AT_ONCE))
    controls = stein(theta, np.concatenate([np.asarray(gradient(piece)) for piece in pieces]))
    values = np.exp(np.concatenate([engine.log_factor_pairs(piece, rows, codes) for piece in pieces], axis=1).T)
    usable = bool(np.isfinite(controls).all())
    return (*log_means(controlled(values, controls, weights) if usable else values, chains, weights), usable)


def candidates(pls: bpls.BPLS) -> tuple[np.ndarray, np.ndarray]:
    """Rows and class codes (m,) of what is scored."""
    scores = pls.score("probability")
    return scores["candidate"].to_numpy(), pls.scorer.problem.codes(scores["pseudo_label"].to_numpy())


def _gradient(engine: Engine, rows: Any, theta: jax.Array) -> jax.Array:
    """∇[2 ℓ_D + log π] at θ (q,)."""
    return kernels.value_gradient(engine.density.structure, theta, rows, prior=True)[1]


def methods(pls: bpls.BPLS) -> dict[str, Callable[[], np.ndarray]]:
    """log PPP of each candidate up to a constant, by each approximation."""

    def predictive_laplace() -> np.ndarray:
        mode = pls.engine.fit(pls.labeled, k=2)
        return Predictive(pls.engine).log_mean_lik_of(Gaussian.at_mode(mode), *candidates(pls))

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


def compute(names: Sequence[str], nuts_sampler: str) -> None:
    """Measure what is missing of the cases that are called so, or of all."""
    for case in cases():
        found = stored().get(case.name, {})
        if (names and case.name not in names) or (found and ("exact" not in found or _complete(found))):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bpls.BPLSWarning)
            for each in measure(case, found, nuts_sampler):
                RESULTS.write_text(json.dumps(stored() | {case.name: each}, indent=1) + "\n")


def _complete(found: dict[str, Any]) -> bool:
    """Whether no approximation of a case is missing."""
    return set(METHODS) <= {*found["methods"], *(() if found["by_nuts"] else ("PSIS",))}


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
    parser.add_argument("--nuts-sampler", default="pymc", metavar="NAME", help="what pm.sample draws by, as nutpie")
    parser.add_argument("--report", action="store_true", help="only remake the report")
    chosen = parser.parse_args()
    finish(lambda: None if chosen.report else compute(chosen.cases, chosen.nuts_sampler), report)


if __name__ == "__main__":
    main()
