"""The benchmarks' results as tables of ratios."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from validation.benchmarks.aims import aims
from validation.study.markdown import table

Results = dict[str, Any]


IN_THE_WAY = """What stands in the way where an aim is missed:

- A round by refits is some dozens of steps of chords and Newton's method in NumPy, each over all candidates at once, with a
  factorisation of its own for each candidate at the end; and a third of it is not the pool's at all: both classes of the eight
  best rows are refitted to tell by how much Laplace's method is off (`own_error`), which a run leaves out. scikit-learn
  factorises nothing and fits once, to 1e-4.
- A round by expectation propagation is two fits (one in a run) of about ten iterations to 1e-7. Each evaluates the likelihood
  at the nodes of every labeled row, factors a matrix over the labeled rows, and takes a step of Anderson's, spread over dozens
  of calls of NumPy and LAPACK on small arrays; scikit-learn's whole fit takes three milliseconds.
- With 5,000 features predictors of rows spread far beyond the table of the likelihood that is kept, so that their nodes are
  laid by panels and evaluated by JAX; and products with all features are made at the end of every fit.
- A pool of a million rows is a product with the covariance, one with D's rows for the corrections, a sum over each, and a table
  of three averages: several passes over arrays of the pool's size, each bound by memory.
- A run of a small hierarchy compiles its functions the first time, and JAX takes a fifth of a second for each.
- Refits of groups take several passes over all labeled rows for each candidate, since a candidate moves the parameters that
  all rows share, and the likelihood of several predictors is evaluated and differentiated by JAX, row by row.
- One fit of 1,500 groups compiles fifteen functions, which is half of its time; one of 40,000 groups lays a lattice of values
  of the scale, each with a sparse factorisation in every one of its iterations."""


def write(results: Results, path: Path) -> None:
    """All tables as Markdown."""
    parts = [
        "# Benchmarks",
        f"Machine: {results['machine']}. Remade by `python -m validation.benchmarks`. Ratios are of times that were measured "
        "in turn in one process, median (smallest to largest); seconds are of this machine.",
        "## One round",
        _rounds(results),
        "## A whole run",
        _runs(results),
        "## Growth of one scoring by refits",
        _growth(results),
        "## Few labels, many features",
        _features(results),
        "## Groups of a hierarchy",
        _groups(results),
        "## Large pools by expectation propagation",
        _pools(results),
        "## Pools beyond memory",
        _lazy(results),
        "## What a refit cannot do without",
        _flops(results),
        "## The aims",
        aims(results),
        IN_THE_WAY,
    ]
    path.write_text("\n\n".join(parts) + "\n")


def _ratio(numerator: list[float], denominator: list[float]) -> str:
    """Median, smallest and largest of paired ratios."""
    ratios = np.array(numerator) / np.array(denominator)
    return f"{np.median(ratios):.3g} ({ratios.min():.3g} to {ratios.max():.3g})"


def _original(results: Results, name: str) -> dict[str, Any]:
    """What R took for a case, empty where it was not run."""
    return next((value for key, value in results.items() if key.startswith(f"original {name} ")), {})


def _rounds(results: Results) -> str:
    rows = []
    for key, found in results.items():
        if not key.startswith("round "):
            continue
        name = key.split(" ", 1)[1]
        warm = np.median(found["round"])
        original = _original(results, name)
        naive = results.get(f"naive {name}")
        rows.append(
            [
                name,
                f"{1e3 * warm:.0f} ms",
                f"{original['r_round'] / warm:.0f}" if original else "–",
                f"{naive['warm'] * naive['candidates'] / warm:.0f}" if naive else "–",
                _ratio(found["numpy_round"], found["round"]),
                _ratio(found["round"], found["sklearn_round"]),
                f"{1e3 * np.median(found['ep_round']):.0f} ms",
                _ratio(found["ep_round"], found["sklearn_round"]),
            ]
        )
    header = [
        "data",
        "a round by refits",
        "R / it",
        "PyMC's find_MAP and find_hessian / it",
        "NumPy loop / it",
        "it / scikit-learn's round",
        "a round by EP",
        "that / scikit-learn's round",
    ]
    note = (
        "A round scores every candidate by PPP: Eq. 6 with a refit of each, or by expectation propagation, with log Z_1 and "
        "log Z_2 both fitted anew; scikit-learn's refits once (a tenth of a run of ten rounds). It and the NumPy loop "
        "have one BLAS thread, which is faster for them. PyMC's own functions were timed on one candidate, once compiled, and "
        "multiplied; they and R were timed in processes of their own."
    )
    return table(header, rows) + "\n\n" + note


def _runs(results: Results) -> str:
    rows = []
    for key, cold in results.items():
        if not key.startswith("cold "):
            continue
        name = key.split(" ", 1)[1]
        original = _original(results, name)
        found = results.get(f"run {name}")
        rows.append(
            [
                name,
                f"{cold['first_scores']:.1f} s",
                f"{cold['cold_run']:.1f} s",
                f"{cold['compiling']:.1f} s ({cold['compilations']})",
                _against_r(original, cold),
                *(_warm_runs(found) if found else ["–"] * 4),
            ]
        )
    header = [
        "data",
        "process start to first scores",
        "to the end of a run by the default, EP",
        "of it compiling (how often)",
        "R / that",
        "a warm run by refits",
        "it / scikit-learn's",
        "a warm run by EP",
        "it / scikit-learn's",
    ]
    note = (
        "A run goes on until the pool is empty. R's rounds are those of the paper's algorithm restated; where R takes too long "
        "for a whole run, there is no ratio."
    )
    return table(header, rows) + "\n\n" + note


def _warm_runs(found: Results) -> list[str]:
    """Seconds of a run by refits and by EP, each with its ratio to scikit-learn's."""
    return [
        cell
        for run in ("run", "ep_run")
        for cell in (f"{np.median(found[run]):.1f} s", _ratio(found[run], found["sklearn_run"]))
    ]


def _against_r(original: dict[str, Any], cold: dict[str, Any]) -> str:
    """R's whole run over ours, where more than its first round was run."""
    if original.get("rounds", 1) == 1:
        return "–"
    return f"{original['r_rounds'] / cold['cold_run']:.2g} ({original['rounds']} rounds)"


def _pools(results: Results) -> str:
    rows = []
    for key, found in results.items():
        if key.startswith("pool "):
            n, m, q = key.split()[1:]
            product = float(np.median(found["product"]))
            ratio = f"{found['seconds'] / product:.0f}"
            rows.append([n, m, q, f"{found['seconds']:.2f}", f"{found['peak_gib']:.2f}", f"{1e3 * product:.0f} ms", ratio])
    header = ["labeled n", "candidates m", "features q", "seconds", "peak GiB", "the product X S", "scoring / product"]
    return table(header, rows)


def _lazy(results: Results) -> str:
    """Pools that are generated where they are scored; two workers beside one."""
    rows = []
    for key, found in results.items():
        if key.startswith("lazy "):
            m, q = map(int, key.split()[1:])
            rate, memory = m / found["seconds"], (found["worker_gib"], found["client_gib"])
            rows.append([f"{m:,}", str(q), f"{found['seconds']:.0f}", f"{rate:,.0f}", *(f"{gib:.2f}" for gib in memory)])
    header = ["rows", "features", "seconds", "rows a second", "peak GiB of a worker", "of the client"]
    ratios = [
        f"Two workers were {_ratio(found['one'], found['two'])} times as fast as one, {int(key.split()[1]):,} rows in turn."
        for key, found in results.items()
        if key.startswith("workers ")
    ]
    text = (
        "Standard normal features that Dask generates partition by partition, 40 labeled rows, the best 1,000 by EP; a cluster "
        "of two workers of one thread and at most 700 MB each on this machine. Generating is part of the time."
    )
    return "\n\n".join([text, table(header, rows), *ratios])


def _growth(results: Results) -> str:
    found = {tuple(map(int, key.split()[1:])): value for key, value in results.items() if key.startswith("growth ")}
    rows = [
        [str(n), str(m), str(q), f"{value['seconds']:.2f}", f"{1e6 * value['seconds'] / m:.0f}", f"{value['peak_gib']:.2f}"]
        for (n, m, q), value in found.items()
    ]
    slopes = []
    for axis, name in enumerate(("n", "m", "q")):
        fixed = {"n": (1000, 20), "m": (40, 60), "q": (100, 1000)}[name]
        points = [(key[axis], value["seconds"]) for key, value in found.items() if tuple(np.delete(key, axis)) == fixed]
        if len(points) > 1:
            size, seconds = np.log(np.array(points)).T
            slopes.append(f"{name}: {np.polyfit(size, seconds, 1)[0]:.2f}")
    header = ["labeled n", "candidates m", "features q", "seconds", "µs a candidate", "peak GiB"]
    return table(header, rows) + "\n\nFitted exponents of the seconds, " + "; ".join(slopes) + "."


def _features(results: Results) -> str:
    rows = []
    for key, found in results.items():
        if key.startswith("features "):
            ratios = [_ratio(found[name], found[f"{name}_60"]) for name in ("laplace", "ep")]
            seconds = [f"{1e3 * np.median(found[name]):.0f} ms" for name in ("laplace", "ep", "sklearn_round")]
            first = [f"{found['first_scores']:.1f}", f"{found['peak_gib']:.2f}"]
            rows.append([key.split()[1], seconds[0], ratios[0], seconds[1], ratios[1], seconds[2], *first])
    header = [
        "features q",
        "refits",
        "/ at q = 60",
        "EP",
        "/ at q = 60",
        "scikit-learn's round",
        "first scores (s)",
        "peak GiB",
    ]
    text = "40 labeled rows, 160 candidates. First scores are by refits, from construction, all compiling included.\n\n"
    digits = results.get("digits")
    if digits:
        one, refits = (float(np.median(digits[name])) for name in ("one_fit", "refits"))
        after = (
            f"Digits, 10 classes, 650 parameters, the same numbers of rows: {refits:.2f} s by refits, {one:.2f} s by one fit."
        )
        return text + table(header, rows) + "\n\n" + after
    return text + table(header, rows)


def _groups(results: Results) -> str:
    rows = []
    for key, found in results.items():
        if key.startswith("groups "):
            n, m, count, by = key.split()[1:]
            seconds = [f"{found[name]:.1f}" for name in ("seconds", "cpu_seconds", "find_map")]
            memory = f"{found['peak_gib']:.2f}"
            rows.append([f"{int(n):,} / {int(m):,}", f"{int(count):,}", by, *seconds, memory, found["space"]])
    header = ["n / m", "groups", "approximation", "first scores (s)", "of the processors (s)", "find_MAP (s)"]
    text = "Intercepts of groups with a free scale, four features. First scores from the model, all compiling included.\n\n"
    return text + table([*header, "peak GiB", "space"], rows)


def _flops(results: Results) -> str:
    rows = []
    for key, found in results.items():
        if key.startswith("flops "):
            n, m, q = map(int, key.split()[1:])
            p = q + 1
            work = 2 * m * n * p * p + m * p**3 / 3
            rate = work / np.median(found["round"]) / 1e9
            rows.append(
                [
                    f"{n} / {m} / {q}",
                    _ratio(found["round"], found["cholesky"]),
                    _ratio(found["round"], found["hessians"]),
                    f"{rate:.1f}",
                ]
            )
    header = ["n / m / q", "a round / one batched Cholesky", "a round / one set of Hessians", "GFlop/s of that work alone"]
    return table(header, rows)
