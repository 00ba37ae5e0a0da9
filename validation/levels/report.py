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
    return float(max((abs(run["off"]) for run in runs), default=0.0))


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


def _by_claim(own: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Those with an error, those without one that are not warned of, and those that are."""
    claimed = [run for run in own if "log_normalizer_error" in run]
    silent = [run for run in own if run not in claimed and run["pareto_k"] <= GOOD_K]
    return claimed, silent, [run for run in own if run["pareto_k"] > GOOD_K]


def _ratios(claimed: Sequence[dict[str, Any]]) -> np.ndarray:
    return np.array([abs(run["off"]) / run["log_normalizer_error"] for run in claimed])


def _of_vi(records: Records) -> str:
    rows = []
    for name, runs in records.items():
        claimed, silent, warned = _by_claim(_scored(runs, "vi"))
        cells = ["–"] * 3
        if claimed:
            error = max(run["log_normalizer_error"] for run in claimed)
            cells = [f"{_level(claimed):.4f}", f"{error:.4f}", f"{_ratios(claimed).max():.1f}"]
        others = [cell for some in (silent, warned) for cell in (str(len(some)), f"{_level(some):.4f}" if some else "–")]
        rows.append([name, _refused(runs, "vi"), str(len(claimed)), *cells, *others, str(sum(run["warned"] for run in warned))])
    header = ["case", "refused", "with an error", "level", "claimed error", "largest ratio", "without one", "level"]
    return table([*header, "k-hat above 0.7", "level", "warned"], rows)


def _vi_in_words(records: Records) -> str:
    claimed, silent, warned = _by_claim([run for runs in records.values() for run in _scored(runs, "vi")])
    ratios = _ratios(claimed)
    return (
        f"- An error is claimed where k-hat says that the weights have a variance ({len(claimed)} tables). The error found is "
        f"{np.sqrt((ratios**2).mean()):.2f} times it (root mean square) and within twice it in {int((ratios < 2).sum())}.\n"
        f"- Without an error, with k-hat up to {GOOD_K} ({len(silent)} tables), levels are off by up to {_level(silent):.2f} "
        f"nats, and above it ({len(warned)} tables) by up to {_level(warned):.2f}."
    )
