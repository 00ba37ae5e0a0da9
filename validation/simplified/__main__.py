"""Computes what is missing, then writes the report and the figure: `python -m validation.simplified [--quick | --report]`.

Every repetition is kept in `validation/results/simplified/` as it is finished; a rerun computes only what is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

from validation.simplified.compute import compute
from validation.simplified.figure import draw
from validation.simplified.report import write
from validation.simplified.settings import QUICK, SETTINGS, Setting
from validation.simplified.store import protocol
from validation.simplified.summary import Summary
from validation.study.command import finish, make_parser
from validation.study.compute import workers
from validation.study.store import Store

REPETITIONS, QUICK_REPETITIONS = 40, 2


def report(store: Store[Setting], folder: Path) -> Path | None:
    """Write report and figure from what is stored, if anything is."""
    summaries = [Summary(setting, records) for setting in SETTINGS if (records := store.read(setting))]
    if not summaries:
        return None
    matplotlib.use("Agg")
    path = folder / "simplified.md"
    draw(summaries, path.with_suffix(".png"))
    write(summaries, path, path.with_suffix(".png").name)
    return path


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study."""
    parser = make_parser("simplified", "ppp against ibpls (Supplement F)")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="two repetitions of two settings that need no download")
    size.add_argument("--report", action="store_true", help="the report alone, of what is stored")
    given = parser.parse_args(arguments)
    store = Store(given.folder / "results" / "simplified", protocol)
    settings, repetitions = (QUICK, QUICK_REPETITIONS) if given.quick else (() if given.report else SETTINGS, REPETITIONS)
    with workers(given.jobs) as executor:
        finish(
            lambda: compute(settings, repetitions, store, executor=executor),
            lambda: report(store, given.folder / "reports"),
        )


if __name__ == "__main__":
    main()
