"""All benchmarks: `python -m validation.benchmarks`. Writes `results.json` as it goes and `reports/benchmarks.md` at the end.

What is in `results.json` already is not measured again: delete it to start anew. A measurement that fails is said and left
out, and the others go on. What is named is measured alone, and kept: `python -m validation.benchmarks lazy 100000000 20`.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from validation.benchmarks.report import write

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
REPORTS = HERE.parent / "reports"
CASES = ("simulation-100", "simulation-400", "simulation-1000", "ionosphere")
SMALL = "gaussian-20-80-20"
RUNS = ("simulation-100", "simulation-400", "ionosphere")
R_ROUNDS = {"simulation-100": "40", "simulation-400": "160", "simulation-1000": "1", "ionosphere": "1"}
GROWTH = (
    *((("40", str(m), "60")) for m in (100, 1000, 10_000, 100_000)),
    *(("100", "1000", str(q)) for q in (5, 20, 60, 200)),
    *((str(n), "1000", "20") for n in (50, 500, 5000)),
)
FEATURES = ("60", "500", "2000", "5000", "20000")
GROUPS = (
    *(("1000", "5000", str(count), by) for count in (500, 1500, 5000) for by in ("laplace", "ep")),
    ("20000", "40000", "40000", "ep"),
)
CLUSTERED = ("lazy", "workers")
POOLS = (("100", "10000", "60"), ("100", "100000", "60"), ("100", "1000000", "60"))


def tasks() -> list[tuple[str, ...]]:
    """Every measurement, each in a process of its own."""
    by_case = [("start", SMALL), ("cold", SMALL), *((kind, name) for name in CASES for kind in ("cold", "round"))]
    naive = [("naive", "simulation-400")]
    original = [("original", name, R_ROUNDS[name]) for name in CASES]
    flops = [("flops", "40", "160", "60"), ("flops", "200", "160", "60")]
    runs = [("run", name) for name in RUNS]
    wide = [*(("features", q) for q in FEATURES), ("digits",), ("small_hierarchy",), *(("groups", *sizes) for sizes in GROUPS)]
    lazy = [("lazy", "2000000", "20"), ("workers", "2000000", "20")]
    sizes = [*(("growth", *sizes) for sizes in GROWTH), *(("pool", *sizes) for sizes in POOLS)]
    return [*by_case, *runs, *wide, *naive, *flops, *sizes, *lazy, *original]


def measure(task: tuple[str, ...]) -> dict[str, Any]:
    """Run one measurement."""
    module = "on_cluster" if task[0] in CLUSTERED else "measure"
    command = [sys.executable, "-m", f"validation.benchmarks.{module}", *task]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def machine() -> str:
    """What the timings were taken on."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text().splitlines()
        models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
        cpu = f"{len(models)} × {models[0]}" if models else cpu
    return f"{cpu}, {platform.system()}, Python {platform.python_version()}"


def main() -> None:
    """Measure what is missing, or what is asked for, then write the report."""
    console = Console()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    asked = tuple(sys.argv[1:])
    for task in [asked] if asked else tasks():
        key = " ".join(task)
        if asked or key not in results:
            try:
                results[key] = measure(task)
            except subprocess.CalledProcessError as failure:
                console.print(f"{key} failed: {failure.stderr.strip().splitlines()[-1]}", style="red")
                continue
            results["machine"] = machine()
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")
            console.print(key, results[key])
    write(results, REPORTS / "benchmarks.md")


if __name__ == "__main__":
    main()
