"""The study as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from validation.study.markdown import table

Found = dict[tuple[str, str], tuple[list[dict[str, Any]], dict[str, Any]]]
LEAD = """# Exact values and their errors against repetition

Remade by `python -m validation.references`: exact values of up to twelve candidates and all their classes from as many seeds
as the third column says (40 once the study is whole), beside quadrature in plain NumPy (hierarchy: 20,000,000 draws of the
prior; separated: 8,000,000 draws by importance sampling).
z is an estimate minus the truth, divided by its reported error. Its root mean square should be 1, and not above 1.3, among the
runs that are called reliable: of log Z_2 − log Z_1, of log PPP of each candidate's most probable class, and of that of its
least probable one. A run has 1,600 draws, of the hierarchy by NUTS 4,000, as is the default there; runs of NUTS are stretches
of long chains, each judged by itself, and drawn again by smaller steps where draws diverged, as `exact` does."""


def z_scores(runs: list[dict[str, Any]], truth: dict[str, Any]) -> dict[str, np.ndarray]:
    """Of constants (runs,), and of most and least probable classes (runs, candidates)."""
    exact = np.array(truth["log_ppp"])
    z = np.array([(np.array(run["log_ppp"]) - exact) / np.array(run["mcse"]) for run in runs]).reshape(-1, *exact.shape)
    rows = np.arange(len(exact))
    constants = np.array([(run["constant"][0] - truth["constant"]) / run["constant"][1] for run in runs])
    return {
        "constant": constants,
        "predicted": z[:, rows, exact.argmax(axis=1)],
        "unlikeliest": z[:, rows, exact.argmin(axis=1)],
    }


def spread(z: np.ndarray) -> float:
    """Root mean square around 0: a bias counts as scatter."""
    return float(np.sqrt(np.mean(z**2))) if z.size else np.nan


def write(found: Found, path: Path) -> Path:
    """The report."""
    rows = []
    for (name, method), (runs, truth) in found.items():
        reliable = [run for run in runs if run["reliable"]]
        z = z_scores(reliable, truth)
        error = np.median([run["constant"][1] for run in runs])
        cells = [f"{spread(values):.2f} ({np.abs(values).max():.1f})" if values.size else "–" for values in z.values()]
        rows.append(
            [name, method.upper(), f"{len(reliable)} of {len(runs)}", f"{truth['constant']:.3f}", f"{error:.3f}", *cells]
        )
    header = ["case", "by", "reliable", "log Z_2 − log Z_1", "its error", "z of it", "z, most probable", "z, least probable"]
    note = "Each z: root mean square over runs and candidates (largest size). Reasons of runs that are not called reliable:"
    path.write_text("\n\n".join([LEAD, table(header, rows), note, _reasons(found)]) + "\n", encoding="utf-8")
    return path


def _reasons(found: Found) -> str:
    """Why runs are not called reliable, by case and method, an example each."""
    lines = []
    for (name, method), (runs, _) in found.items():
        doubted = [run for run in runs if not run["reliable"]]
        if doubted:
            lines.append(f"- {name}, {method.upper()}: {len(doubted)} runs, such as: {'; '.join(doubted[0]['reasons'])}.")
    return "\n".join(lines) if lines else "None."
