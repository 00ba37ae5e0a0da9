"""What a pool is worth: `python -m validation.pool`. Writes `results/pool.json` as it goes, then report and figure.

What is in the results already is not computed again: delete them to start anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from validation.pool.calibration import WAYS, ranks
from validation.pool.figure import plot_ranks
from validation.pool.report import report
from validation.pool.wrong_model import SPLITS, accuracies

HERE = Path(__file__).parents[1]
RESULTS, REPORT = HERE / "results" / "pool.json", HERE / "reports" / "pool.md"
SIMULATIONS = 200


def save(results: dict[str, Any]) -> None:
    """Write the results, an entry a line, so that an interruption leaves the old file or the new one."""
    RESULTS.parent.mkdir(exist_ok=True)
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in results.items())
    written = RESULTS.with_suffix(".part")
    written.write_text("{\n" + lines + "\n}\n")
    os.replace(written, RESULTS)


def write(results: dict[str, Any]) -> None:
    """Report and figure of what there is."""
    simulations = [results[key] for key in results if key.startswith("simulation")]
    by_way = {way: np.array([each[way] for each in simulations]) for way in WAYS}
    splits = [results[key] for key in results if key.startswith("split")]
    plot_ranks(by_way).savefig(REPORT.with_suffix(".png"), dpi=110)
    REPORT.write_text(report(by_way, np.array([each["k_hat"] for each in simulations]), splits))


def main() -> None:
    """Compute what is missing, then write figure and report."""
    console = Console()
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    work: list[tuple[str, Callable[[int], dict[str, Any]], int]] = [
        (f"split {split}", accuracies, split) for split in range(SPLITS)
    ]
    work += [(f"simulation {seed}", ranks, seed) for seed in range(SIMULATIONS)]
    for key, compute, seed in work:
        if key not in results:
            results[key] = compute(seed)
            save(results)
            console.print(key)
    write(results)


if __name__ == "__main__":
    main()
