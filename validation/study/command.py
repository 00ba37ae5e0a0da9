"""What the studies' commands share: computing, an end by Ctrl-C, results that cannot be read, and the report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from validation.study.store import ResultsError

INTERRUPTED, FAILED = 130, 1
#: Where results/ and reports/ are.
VALIDATION = Path(__file__).parents[1]


def jobs(text: str) -> int | str:
    """A number of processes, or the address of a Dask cluster, from the command line."""
    if "://" in text:
        return text
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of processes. Give 1 or more, or a Dask cluster's address.")
    return int(text)


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """The option by which repetitions are done side by side."""
    parser.add_argument("--jobs", type=jobs, default=1, help="processes, or the address of a Dask cluster (tcp://…)")


def make_parser(study: str, description: str) -> argparse.ArgumentParser:
    """The parser of a study's command, with the options that all have."""
    parser = argparse.ArgumentParser(prog=f"python -m validation.{study}", description=description)
    add_jobs(parser)
    parser.add_argument("--folder", type=Path, default=VALIDATION, help="where results/ and reports/ are")
    return parser


def finish(compute: Callable[[], None], report: Callable[[], Path | None]) -> None:
    """Compute, then write the report from whatever is finished; the exit status says whether all went through."""
    console, status = Console(), 0
    try:
        try:
            compute()
        except KeyboardInterrupt:
            console.print("Interrupted. What is finished is kept; the same command goes on from here.")
            status = INTERRUPTED
        written = report()
    except ResultsError as error:
        console.print(str(error), markup=False)
        sys.exit(FAILED)
    console.print(f"Report: {written}" if written else "There are no results yet to report on.", markup=False)
    if status:
        sys.exit(status)
