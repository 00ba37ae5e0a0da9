"""The command line: `python -m pymc_bpls demo`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pymc_bpls.demo.command import run_demo
from pymc_bpls.demo.questions import shared_compilations
from pymc_bpls.demo.setting import Setting
from pymc_bpls.errors import BPLSError


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and run it; returns the exit code."""
    parsed = _parser().parse_args(arguments)
    try:
        with shared_compilations():
            return run_demo(Setting(seeds=parsed.seeds), parsed.output)
    except BPLSError as error:
        print(error, file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pymc-bpls", description="Bayesian pseudo-label selection for PyMC models.")
    commands = parser.add_subparsers(required=True, metavar="command")
    demo = commands.add_parser("demo", help="three questions about a real data set, a verdict and a figure")
    demo.add_argument("--output", type=Path, default=Path("bpls_demo.png"), help="where the figure goes (%(default)s)")
    demo.add_argument("--seeds", type=_positive, default=Setting().seeds, help="how many random splits (%(default)s)")
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number of splits. Give 1 or more.")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
