"""The study as tables: errors found beside errors claimed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pymc_bpls.montecarlo.pareto import GOOD_K
from validation.study.markdown import table

Records = Mapping[str, Sequence[dict[str, Any]]]
LEAD = """# Levels of scores against quadrature

Remade by `python -m validation.levels`. Log PPP is log Z_2 − log Z_1 plus the log of an average. The first part is the level:
all candidates share it. Each case has up to {most} random tables: 12 cells (2 for the horseshoe), 8 groups (2 where effects add
up to 0) or 6 points of two features, with one to four labels each, all of one class in half of them, and one more without a
label. The right values are quadrature in plain NumPy, which shares no code with the package. "Level" is the largest |error| of
log Z_2 − log Z_1 over the tables, in nats. "Order" is the largest error of a candidate's more probable class after the mean
error is taken away, and in brackets the largest range of the exact scores."""


def write(records: Records, path: Path) -> Path:
    """The report of what is stored, by case."""
    most = max(map(len, records.values()))
    parts = [LEAD.format(most=most), "## Expectation propagation", _of_ep(records), _ep_in_words(records)]
    parts += ["## Variational inference", _of_vi(records), _vi_in_words(records)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return path


def _scored(runs: Sequence[dict[str, Any]], method: str) -> list[dict[str, Any]]:
    return [run[method] for run in runs if "refused" not in run[method]]


def _refused(runs: Sequence[dict[str, Any]], method: str) -> str:
    return str(len(runs) - len(_scored(runs, method)))


def _order(runs: Sequence[dict[str, Any]]) -> str:
    return f"{max(run['centred'] for run in runs):.4f} ({max(run['range'] for run in runs):.2f})"


def _level(runs: Sequence[dict[str, Any]]) -> float:
    return float(max(abs(run["off"]) for run in runs))


def _of_ep(records: Records) -> str:
    rows = []
    for name, runs in records.items():
        own = _scored(runs, "ep")
        cells = ["–"] * 4
        if own:
            correction = max(run["log_normalizer_correction"] for run in own)
            cells = [f"{_level(own):.4f}", f"{correction:.3f}", str(sum(run["warned"] for run in own)), _order(own)]
        rows.append([name, str(len(runs)), _refused(runs, "ep"), *cells])
    return table(["case", "tables", "refused", "level", "largest correction", "warned", "order"], rows)


def _ep_in_words(records: Records) -> str:
    own = [run for runs in records.values() for run in _scored(runs, "ep")]
    silent = [abs(run["off"]) for run in own if not run["warned"]]
    corrected = [run for run in own if run["log_normalizer_correction"] > 0.01]
    ratios = [abs(run["off"]) / run["log_normalizer_correction"] for run in corrected]
    return (
        f"- Levels that are given without a warning ({len(silent)} of {len(own)}) are off by at most "
        f"{max(silent, default=0.0):.4f} nats.\n"
        f"- Where the correction is above 0.01 nats ({len(corrected)} tables), the error is at most "
        f"{max(ratios, default=0.0):.2f} times it."
    )


def _of_vi(records: Records) -> str:
    rows = []
    for name, runs in records.items():
        own = _scored(runs, "vi")
        trusted = [run for run in own if run["pareto_k"] <= GOOD_K]
        others = [run for run in own if run["pareto_k"] > GOOD_K]
        cells = ["–"] * 3
        if trusted:
            z = [abs(run["off"]) / run["log_normalizer_error"] for run in trusted]
            cells = [f"{_level(trusted):.4f}", f"{max(run['log_normalizer_error'] for run in trusted):.4f}", f"{max(z):.1f}"]
        above = [f"{_level(others):.4f}" if others else "–", str(sum(run["warned"] for run in others))]
        rows.append([name, _refused(runs, "vi"), str(len(trusted)), *cells, str(len(others)), *above])
    header = ["case", "refused", "k-hat to 0.7", "level", "claimed error", "largest ratio", "k-hat above", "level", "warned"]
    return table(header, rows)


def _vi_in_words(records: Records) -> str:
    own = [run for runs in records.values() for run in _scored(runs, "vi")]
    z = np.array([run["off"] / run["log_normalizer_error"] for run in own if run["pareto_k"] <= GOOD_K])
    others = [abs(run["off"]) for run in own if run["pareto_k"] > GOOD_K]
    return (
        f"- With k-hat up to {GOOD_K} ({len(z)} tables) the error over the claimed one has the root mean square "
        f"{np.sqrt((z**2).mean()):.2f}, and is above 3 in {int((np.abs(z) > 3).sum())}.\n"
        f"- Above it ({len(others)} tables) no error is claimed. Levels are off by up to {max(others, default=0.0):.2f} nats."
    )
