"""Computes what is missing, then writes the report: `python -m validation.accept [--jobs N]`.

Every split is kept in `validation/results/accept/` as it is finished; a rerun computes only what is missing.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from validation.accept.report import report
from validation.accept.splits import LEVELS, SETTINGS, WAYS, Setting, accepted_labels
from validation.study.command import add_jobs, finish
from validation.study.compute import at_hand, fill, workers
from validation.study.store import Store

HERE = Path(__file__).parents[1]
RESULTS, REPORT = HERE / "results" / "accept", HERE / "reports" / "accept.md"
SPLITS = 500


def protocol(setting: Setting) -> dict[str, Any]:
    """What all splits have in common."""
    return {"labeled": setting.n_labeled, "ways": list(WAYS), "levels": list(LEVELS)}


STORE: Store[Setting] = Store(RESULTS, protocol)


def write() -> Path | None:
    """From what is stored, if anything is."""
    found = {setting: records for setting in SETTINGS if (records := STORE.read(setting))}
    if not found:
        return None
    REPORT.write_text(report(found), encoding="utf-8")
    return REPORT


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.accept", description="shares of wrong labels among accepted ones"
    )
    add_jobs(parser)
    given, wanted = parser.parse_args(arguments), [(setting, SPLITS) for setting in SETTINGS]
    with workers(given.jobs) as executor:
        finish(lambda: fill(STORE, wanted, accepted_labels, at_hand, executor=executor), write)


if __name__ == "__main__":
    main()
