"""Computes what is missing, then writes the report: `python -m validation.references [--cases NAME ...]`.

Every block of ten seeds is kept in `validation/results/references/` as it is finished; a rerun computes only what is missing.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from threadpoolctl import threadpool_limits

import pymc_bpls as bpls
from validation.references.cases import CANDIDATES, Case, cases
from validation.references.measure import CHAINS, DRAWS, METHODS, SEEDS_AT_ONCE, TUNE, measure
from validation.references.report import write
from validation.references.truth import truth
from validation.study.command import finish
from validation.study.store import Store

HERE = Path(__file__).parents[1]
BLOCKS = 4


@dataclass(frozen=True)
class Setting:
    """A case by one method."""

    case: Case
    method: str

    @property
    def key(self) -> str:
        """The file's name."""
        return f"{self.case.name.replace(' ', '-').replace(',', '')}-{self.method}"


def protocol(setting: Setting) -> dict[str, Any]:
    """What all blocks have in common."""
    return {"draws": DRAWS, "chains": CHAINS, "tune": TUNE, "seeds": SEEDS_AT_ONCE, "candidates": CANDIDATES}


def compute(settings: Sequence[Setting], store: Store[Setting]) -> None:
    """Every missing block."""
    console = Console()
    for setting, block in store.missing([(setting, BLOCKS) for setting in settings]):
        start = time.perf_counter()
        with warnings.catch_warnings(), threadpool_limits(1, user_api="blas"):
            warnings.simplefilter("ignore", bpls.BPLSWarning)
            store.add(setting, block, {"runs": measure(setting.case, setting.method, block)})
        console.print(f"{setting.key}, block {block + 1}: {time.perf_counter() - start:.0f} s", markup=False)


def report(settings: Sequence[Setting], store: Store[Setting], folder: Path) -> Path | None:
    """From what is stored, if anything is."""
    found = {}
    for setting in settings:
        runs = [run for block in store.read(setting).values() for run in block["runs"]]
        if runs:
            found[setting.case.name, setting.method] = runs, truth(setting.case, store.folder)
    return write(found, folder / "references.md") if found else None


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study."""
    known = {case.name: case for case in cases()}
    parser = argparse.ArgumentParser(prog="python -m validation.references", description="errors of exact values")
    parser.add_argument("--cases", nargs="*", default=list(known), choices=list(known), help="which cases to compute")
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS, help="by which methods")
    parser.add_argument("--folder", type=Path, default=HERE, help="where results/ and reports/ are")
    given = parser.parse_args(arguments)
    store = Store(given.folder / "results" / "references", protocol)
    chosen = [Setting(known[name], method) for method in given.methods for name in given.cases]
    whole = [Setting(case, method) for case in known.values() for method in METHODS]
    finish(lambda: compute(chosen, store), lambda: report(whole, store, given.folder / "reports"))


if __name__ == "__main__":
    main()
