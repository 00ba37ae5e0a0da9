"""The demo from its first word to its figure."""

from __future__ import annotations

import time
from pathlib import Path

from matplotlib.figure import Figure
from rich.console import Console

from pymc_bpls.demo.results import collect
from pymc_bpls.demo.runs import Setting, run_all
from pymc_bpls.demo.words import introduction, report
from pymc_bpls.errors import BPLSError
from pymc_bpls.plots.accuracy import plot_accuracy

_INTERRUPTED = 130


def check_output(output: Path) -> None:
    """Refuse a figure path that cannot be written, before anything is computed."""
    kinds = Figure().canvas.get_supported_filetypes()
    if not output.parent.is_dir():
        raise BPLSError(f'The folder of "{output}" does not exist. Create it, or give another --output.')
    if output.suffix.removeprefix(".").lower() not in kinds:
        raise BPLSError(f'"{output}" has no ending of a figure. Use one of {", ".join(sorted(kinds))}.')


def run_demo(setting: Setting, output: Path, console: Console | None = None) -> int:
    """Run everything, print the tables and the verdict, write the figure. Returns the exit code.

    Parameters
    ----------
    setting : Setting
    output : Path
        Where the figure goes; its ending says in which format.
    console : rich.console.Console, optional

    Returns
    -------
    int
        0, or 130 where Ctrl-C ended it; what the splits finished until then show is printed all the same.
    """
    start = time.perf_counter()
    console = console or Console(highlight=False)
    check_output(output)
    console.print(introduction(setting) + "\n")
    found = run_all(setting)
    if not found:
        console.print("Interrupted before the first split was done. There is nothing to report.")
        return _INTERRUPTED
    results = collect(setting, found)
    n_splits = results.sizes["split"]
    interrupted = len(found) < len(setting.priors) or n_splits < setting.seeds
    report(results, console)
    plot_accuracy(results).savefig(output, dpi=200)
    console.print(f"Figure: {output}", soft_wrap=True)
    console.print(
        f"{'Interrupted after' if interrupted else 'Done:'} {n_splits} of {setting.seeds} splits in "
        f"{time.perf_counter() - start:.0f} s (imports not counted), {float(results['compiling'].sum()):.0f} s of them "
        "compiling, which the column s leaves out."
    )
    return _INTERRUPTED if interrupted else 0
