"""Computes what is missing, then writes the report: `python -m validation.references [--cases NAME ...]`.

Every block of ten seeds is kept in `validation/results/references/` as it is finished; a rerun computes only what is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from validation.references.cases import CANDIDATES, Case, cases
from validation.references.measure import CHAINS, METHODS, SEEDS_AT_ONCE, TUNE, draws_of_chain, measure
from validation.references.report import write
from validation.references.truth import truth
from validation.study.command import finish, make_parser
from validation.study.compute import at_hand, fill, workers
from validation.study.store import Store

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

    @property
    def source(self) -> str:
        """Of its rows."""
        return self.case.name

    @property
    def title(self) -> str:
        """For readers."""
        return f"{self.case.name} by {self.method}"

    @property
    def work(self) -> int:
        """What a block's time is roughly proportional to."""
        return 1


def protocol(setting: Setting) -> dict[str, Any]:
    """What all blocks have in common."""
    draws = draws_of_chain(setting.case, setting.method)
    return {"draws": draws, "chains": CHAINS, "tune": TUNE, "seeds": SEEDS_AT_ONCE, "candidates": CANDIDATES}


def block_of_runs(setting: Setting, block: int) -> dict[str, Any]:
    """Ten seeds."""
    return {"runs": measure(setting.case, setting.method, block)}


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
    parser = make_parser("references", "errors of exact values")
    parser.add_argument("--cases", nargs="*", default=list(known), choices=list(known), help="which cases to compute")
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS, help="by which methods")
    given = parser.parse_args(arguments)
    store = Store(given.folder / "results" / "references", protocol)
    chosen = [Setting(known[name], method) for method in given.methods for name in given.cases]
    whole = [Setting(case, method) for case in known.values() for method in METHODS]
    with workers(given.jobs) as executor:
        finish(
            lambda: fill(store, [(each, BLOCKS) for each in chosen], block_of_runs, at_hand, executor=executor),
            lambda: report(whole, store, given.folder / "reports"),
        )


if __name__ == "__main__":
    main()
