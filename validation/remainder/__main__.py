"""The remainder's order: `python -m validation.remainder`. Writes `results/remainder.json` as it goes, then report and figure.

What is in the results already is not computed again: delete them to start anew.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from rich.console import Console

from validation.remainder.cases import REPLICATES, cases
from validation.remainder.check import scipy_check
from validation.remainder.figure import plot_remainder
from validation.remainder.measure import measure
from validation.remainder.report import report
from validation.remainder.slopes import to_dataset

HERE = Path(__file__).parents[1]
RESULTS = HERE / "results" / "remainder.json"
REPORT = HERE / "reports" / "remainder.md"


def save(results: dict[str, Any]) -> None:
    """Write the results, an entry a line, so that an interruption leaves the old file or the new one."""
    RESULTS.parent.mkdir(exist_ok=True)
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in results.items())
    written = RESULTS.with_suffix(".part")
    written.write_text("{\n" + lines + "\n}\n")
    os.replace(written, RESULTS)


def main() -> None:
    """Measure what is missing, then write figure and report."""
    console = Console()
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if "check" not in results:
        results["check"] = scipy_check()
        save(results)
    for case in cases():
        missing = [replicate for replicate in range(REPLICATES) if f"{case.name} {replicate}" not in results]
        if not missing:
            continue
        rows = case.rows()
        engine = case.engine(rows)
        for replicate in missing:
            key = f"{case.name} {replicate}"
            results[key] = measure(case, engine, rows, replicate)
            save(results)
            console.print(f"{key}: {results[key]['seconds']:.0f} s")
    records = {key: record for key, record in results.items() if key != "check"}
    data = to_dataset(records)
    REPORT.parent.mkdir(exist_ok=True)
    plot_remainder(data)[0].figure.savefig(REPORT.with_suffix(".png"), dpi=110)
    REPORT.write_text(report(data, records, results["check"]))


if __name__ == "__main__":
    main()
