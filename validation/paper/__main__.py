"""Computes what is missing, then writes the report and its figures: `python -m validation.paper [--quick | --full]`.

Every repetition is kept in `validation/results/paper/` as it is finished; a rerun computes only what is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

from validation.paper.report.document import write
from validation.paper.report.figure import figures
from validation.paper.report.flat import flat
from validation.paper.runs.repetition import repeat
from validation.paper.runs.tables import load
from validation.paper.settings import QUICK, SETTINGS, Setting
from validation.paper.store import protocol
from validation.paper.summary import Summary, enough
from validation.study.command import finish, make_parser
from validation.study.compute import fill, workers
from validation.study.store import Store


def report(store: Store[Setting], folder: Path) -> Path | None:
    """Write the report, its figures and its table from what is stored, if anything is."""
    stored = {each.key: Summary(each, records) for each in SETTINGS if (records := store.read(each))}
    if not stored:
        return None
    summaries = enough(stored)
    matplotlib.use("Agg")
    path = folder / "paper.md"
    write(summaries, path, figures(summaries, folder))
    flat(list(stored.values())).to_csv(path.with_suffix(".csv"), index=False)
    return path


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study."""
    parser = make_parser("paper", "the paper's experiments, with intervals")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="two repetitions of settings that need no download")
    size.add_argument("--full", action="store_true", help="every setting and repetition that is missing; hours")
    given = parser.parse_args(arguments)
    store = Store(given.folder / "results" / "paper", protocol)
    settings = QUICK if given.quick else SETTINGS if given.full else ()
    with workers(given.jobs) as executor:
        finish(
            lambda: fill(store, [(each, each.wanted) for each in settings], repeat, load, executor=executor),
            lambda: report(store, given.folder / "reports"),
        )


if __name__ == "__main__":
    main()
