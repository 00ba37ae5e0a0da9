"""The benchmarks' results as tables of ratios."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

Results = dict[str, Any]


def write(results: Results, path: Path) -> None:
    """All tables as Markdown."""
    parts = [
        "# Benchmarks",
        f"Machine: {results['machine']}. Remade by `python -m validation.benchmarks`. Ratios are of times that were measured "
        "in turn in one process, median (smallest to largest of five); seconds are of this machine.",
        "## One round and a whole run",
        _rounds(results),
        "## Growth of one scoring",
        _growth(results),
        "## What a refit cannot do without",
        _flops(results),
    ]
    path.write_text("\n\n".join(parts) + "\n")


def _ratio(numerator: list[float], denominator: list[float]) -> str:
    """Median, smallest and largest of paired ratios."""
    ratios = np.array(numerator) / np.array(denominator)
    return f"{np.median(ratios):.3g} ({ratios.min():.3g} to {ratios.max():.3g})"


def _table(header: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, ["---"] * len(header), *rows])


def _rounds(results: Results) -> str:
    rows = []
    for key, found in results.items():
        if not key.startswith("round "):
            continue
        name = key.split(" ", 1)[1]
        cold = results[f"cold {name}"]
        warm, run = np.median(found["round"]), np.median(found["run"])
        original = next((value for other, value in results.items() if other.startswith(f"original {name} ")), {})
        naive = results.get(f"naive {name}")
        rows.append(
            [
                name,
                f"{1e3 * warm:.0f} ms",
                f"{original['r_round'] / warm:.0f}" if original else "–",
                f"{naive['warm'] * naive['candidates'] / warm:.0f}" if naive else "–",
                _ratio(found["numpy_round"], found["round"]),
                _ratio(found["round"], found["sklearn_round"]),
                f"{run:.1f} s",
                _ratio(found["run"], found["sklearn_run"]),
                f"{cold['first_scores']:.1f} s",
                f"{cold['compiling']:.1f} s ({cold['compilations']})",
                f"{original['r_rounds'] / cold['cold_run']:.0f} ({original['rounds']} R rounds)" if original else "–",
            ]
        )
    header = [
        "data",
        "a warm round",
        "R / it",
        "PyMC's find_MAP and find_hessian / it",
        "NumPy loop / it",
        "it / scikit-learn's round",
        "a warm run",
        "it / scikit-learn's run",
        "process start to first scores",
        "of it and a run, compiling (how often)",
        "R / a cold run",
    ]
    note = (
        "A round scores every candidate by Eq. 6 with a refit of each; scikit-learn's refits once. PyMC's own functions were "
        "timed on one candidate, once compiled, and multiplied. R's rounds are those of the paper's algorithm restated; "
        "where not all rounds were run, the last column compares those that were with a whole run of ours, so that the true "
        "ratio is larger."
    )
    return _table(header, rows) + "\n\n" + note


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
    return _table(header, rows) + "\n\nFitted exponents of the seconds, " + "; ".join(slopes) + "."


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
    return _table(header, rows)
