"""One measurement in a fresh process: `python -m validation.benchmarks.measure KIND ARGUMENTS`, JSON on the last line."""

from __future__ import annotations

import time

STARTED = time.perf_counter()

import json  # noqa: E402
import resource  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable  # noqa: E402
from functools import partial  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
import pymc as pm  # noqa: E402

import pymc_bpls as bpls  # noqa: E402
from validation.benchmarks import cases, rivals  # noqa: E402

REPEATS, RUN_REPEATS = 5, 3


def peak_memory() -> float:
    """Peak resident memory of this process, GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def start(name: str) -> dict[str, Any]:
    """Process start to first scores by the default approximation, beside `import pymc, jax`, each in processes of its own."""
    imports = "import time; started = time.perf_counter(); import pymc, jax; print(time.perf_counter() - started)"
    scores = ("-m", "validation.benchmarks.measure", "first", name)

    def seconds_of(*arguments: str) -> float:
        done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)
        return float(done.stdout.split()[-1])

    return in_turn({"imports": lambda: seconds_of("-c", imports), "first_scores": lambda: seconds_of(*scores)}, RUN_REPEATS)


def first(name: str) -> float:
    """Seconds from process start to first scores by the default approximation."""
    held = cases.case(name)
    bpls.BPLS(rivals.declare(held.X, held.y), predictor="map").score()
    return time.perf_counter() - STARTED


def cold(name: str) -> dict[str, Any]:
    """Process start to first scores, and then a whole run."""
    held = cases.case(name)
    pls = bpls.BPLS(rivals.declare(held.X, held.y), predictor="map")
    pls.score()
    first = time.perf_counter() - STARTED
    run = rivals.seconds(lambda: pls.self_train(progressbar=False))
    return {
        "first_scores": first,
        "cold_run": first + run,
        "compiling": float(pls.compilations["seconds"].sum()),
        "compilations": int(pls.compilations.sizes["compilation"]),
    }


def round_(name: str) -> dict[str, Any]:
    """One warm round by refits and by expectation propagation, beside scikit-learn's and a NumPy loop's, in turn."""
    held = cases.case(name)
    pls = bpls.BPLS(rivals.declare(held.X, held.y), predictor="map")
    for approximation in ("laplace", "ep"):
        pls.score(approximation=approximation)
    return in_turn(
        {
            "round": lambda: _scoring(pls, "laplace"),
            "ep_round": lambda: _scoring(pls, "ep"),
            "sklearn_round": lambda: rivals.sklearn_round(held.X, held.y),
            "numpy_round": lambda: rivals.numpy_round(held.X, held.y),
        },
        REPEATS,
    )


def run(name: str) -> dict[str, Any]:
    """A warm run by refits and by expectation propagation, beside scikit-learn's, in turn."""
    held = cases.case(name)
    pls = bpls.BPLS(rivals.declare(held.X, held.y), predictor="map")

    def of(approximation: str) -> float:
        return rivals.seconds(lambda: pls.self_train(approximation=approximation, progressbar=False))

    for approximation in ("laplace", "ep"):
        of(approximation)
    timed = {
        "run": lambda: of("laplace"),
        "ep_run": lambda: of("ep"),
        "sklearn_run": lambda: rivals.sklearn_run(held.X, held.y),
    }
    return in_turn(timed, RUN_REPEATS)


def naive(name: str) -> dict[str, Any]:
    """PyMC's own MAP and Hessian for one candidate."""
    held = cases.case(name)
    first, warm = rivals.pymc_candidate(held.X, held.y)
    return {"first": first, "warm": warm, "candidates": int((held.y < 0).sum())}


def original(name: str, rounds: str) -> dict[str, Any]:
    """The paper's algorithm in R, where there is an Rscript."""
    held = cases.case(name)
    found = rivals.r_rounds(held.X, held.y, int(rounds))
    return {} if found is None else {"r_round": found[0], "r_rounds": found[1], "rounds": int(rounds)}


def growth(n: str, m: str, q: str) -> dict[str, Any]:
    """One scoring of a pool by refits, warm, and the peak memory of the process."""
    return _pool(int(n), int(m), int(q), "laplace")


def pool(n: str, m: str, q: str) -> dict[str, Any]:
    """One scoring of a pool by expectation propagation, warm, the peak memory, and the product X S of that pool alone."""
    found = _pool(int(n), int(m), int(q), "ep")
    X, S = np.ones((int(m), int(q) + 1)), np.eye(int(q) + 1)
    return found | {"product": [rivals.seconds(lambda: X @ S) for _ in range(REPEATS)]}


def _pool(n: int, m: int, q: int, approximation: str) -> dict[str, Any]:
    held = cases.gaussian(n, m, q)
    pls = bpls.BPLS(rivals.declare(held.X, held.y), predictor="map")
    pls.score(approximation=approximation)
    return {"seconds": rivals.seconds(lambda: pls.score(approximation=approximation)), "peak_gib": peak_memory()}


def features(q: str) -> dict[str, Any]:
    """40 labeled rows and 160 candidates with many features: a scoring beside one with 60, and beside scikit-learn's round.

    Before, in the same process: construction to first scores by refits, and the peak memory then.
    """
    wide, narrow = cases.gaussian(40, 160, int(q)), cases.gaussian(40, 160, 60)
    start = time.perf_counter()
    pls = bpls.BPLS(rivals.declare(wide.X, wide.y), predictor="map")
    pls.score(approximation="laplace")
    found = {"first_scores": time.perf_counter() - start, "peak_gib": peak_memory()}
    small = bpls.BPLS(rivals.declare(narrow.X, narrow.y), predictor="map")
    timed: dict[str, Callable[[], float]] = {"sklearn_round": lambda: rivals.sklearn_round(wide.X, wide.y)}
    for approximation in ("laplace", "ep"):
        for name, each in ((approximation, pls), (f"{approximation}_60", small)):
            each.score(approximation=approximation)
            timed[name] = partial(_scoring, each, approximation)
    return found | in_turn(timed, REPEATS)


def _scoring(pls: bpls.BPLS, approximation: str) -> float:
    return rivals.seconds(lambda: pls.score(approximation=approximation))


def digits() -> dict[str, Any]:
    """A scoring of 160 digits of ten classes by refits and by one fit, 40 labeled, 650 parameters."""
    held = cases.digits()
    with pm.Model() as model:
        coefficients = pm.Normal("coefficients", 0, 1, shape=(64, 10))
        intercepts = pm.Normal("intercepts", 0, 1, shape=10)
        pm.Categorical("label", logit_p=intercepts + held.X @ coefficients, observed=held.y)
    pls = bpls.BPLS(model, predictor="map")
    for criterion in ("ppp", "probability"):
        pls.score(criterion, approximation="laplace")
    return in_turn(
        {
            "refits": lambda: rivals.seconds(lambda: pls.score("ppp", approximation="laplace")),
            "one_fit": lambda: rivals.seconds(lambda: pls.score("probability", approximation="laplace")),
        },
        REPEATS,
    )


def groups(n: str, m: str, count: str, approximation: str) -> dict[str, Any]:
    """First scores of a hierarchy, from the declared model, all compiling included, beside PyMC's own maximum."""
    model = cases.hierarchy(int(n), int(m), int(count))
    start, worked = time.perf_counter(), time.process_time()
    pls = bpls.BPLS(model, predictor="map")
    scores = pls.score(approximation=approximation)
    found = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - worked, "peak_gib": peak_memory()}
    found["space"] = scores.attrs["space"]
    with cases.hierarchy(int(n), int(m), int(count), pool=False):
        found["find_map"] = rivals.seconds(lambda: pm.find_MAP(progressbar=False))
    return found


def small_hierarchy() -> dict[str, Any]:
    """20 rounds with 40 labeled rows in 8 groups from the declared model, all compiling included, and once more, warm."""
    pls = bpls.BPLS(cases.hierarchy(40, 80, 8), predictor="map")

    def rounds() -> float:
        return rivals.seconds(lambda: pls.self_train(rounds=20, progressbar=False))

    return {"first": [rounds()], "warm": [rounds()], "compilations": int(pls.compilations.sizes["compilation"])}


def flops(n: str, m: str, q: str) -> dict[str, Any]:
    """A refit beside the matrix product and the Cholesky factorisation that it cannot do without."""
    held = cases.gaussian(int(n), int(m), int(q))
    pls = bpls.BPLS(rivals.declare(held.X, held.y), predictor="map")
    pls.score(approximation="laplace")
    A = np.column_stack([np.ones(int(n)), held.X[: int(n)]])
    weights = np.random.default_rng(0).random((int(m), int(n)))

    def hessians() -> np.ndarray:
        p = A.shape[1]
        return ((A.T * weights[:, None]).reshape(-1, int(n)) @ A).reshape(-1, p, p) + np.eye(p)

    curvature = hessians()
    return in_turn(
        {
            "round": lambda: _scoring(pls, "laplace"),
            "hessians": lambda: rivals.seconds(hessians),
            "cholesky": lambda: rivals.seconds(lambda: np.linalg.cholesky(curvature)),
        },
        REPEATS,
    )


def in_turn(timed: dict[str, Callable[[], float]], repeats: int) -> dict[str, Any]:
    """Seconds of each function in each repeat, one after the other, so that all see the same machine."""
    found: dict[str, Any] = {name: [] for name in timed}
    for _ in range(repeats):
        for name, function in timed.items():
            found[name].append(function())
    return found


KINDS: dict[str, Callable[..., Any]] = {
    "start": start,
    "first": first,
    "cold": cold,
    "round": round_,
    "run": run,
    "naive": naive,
    "original": original,
    "growth": growth,
    "pool": pool,
    "features": features,
    "digits": digits,
    "groups": groups,
    "small_hierarchy": small_hierarchy,
    "flops": flops,
}

if __name__ == "__main__":
    print(json.dumps(KINDS[sys.argv[1]](*sys.argv[2:])))
