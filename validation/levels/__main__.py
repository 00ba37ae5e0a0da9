"""Computes what is missing, then writes the report: `python -m validation.levels [--cases NAME ...]`.

Every table is kept in `validation/results/levels/` as it is finished; a rerun computes only what is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from validation.levels.cases import Case, cases
from validation.levels.measure import METHODS, measure
from validation.levels.report import write
from validation.levels.tables import MOST_LABELS
from validation.study.command import finish, make_parser
from validation.study.compute import at_hand, fill, workers
from validation.study.store import Store


def protocol(case: Case) -> dict[str, Any]:
    """What all tables of a case have in common."""
    return {"cells": case.cells, "most_labels": MOST_LABELS, "methods": list(METHODS)}


def report(known: Sequence[Case], store: Store[Case], folder: Path) -> Path | None:
    """From what is stored, if anything is."""
    found = {case.name: list(store.read(case).values()) for case in known}
    found = {name: runs for name, runs in found.items() if runs}
    return write(found, folder / "levels.md") if found else None


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study."""
    known = {case.name: case for case in cases()}
    parser = make_parser("levels", "how far levels of scores are off")
    parser.add_argument("--cases", nargs="*", default=list(known), choices=list(known), help="which cases to compute")
    given = parser.parse_args(arguments)
    store = Store(given.folder / "results" / "levels", protocol)
    with workers(given.jobs) as executor:
        finish(
            lambda: fill(
                store, [(known[name], known[name].tables) for name in given.cases], measure, at_hand, executor=executor
            ),
            lambda: report(list(known.values()), store, given.folder / "reports"),
        )


if __name__ == "__main__":
    main()
