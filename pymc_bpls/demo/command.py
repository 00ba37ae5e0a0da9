"""The demo from its first word to its figure."""

from __future__ import annotations

import time
from pathlib import Path

from matplotlib.figure import Figure
from rich.console import Console

from pymc_bpls.demo.figure import draw
from pymc_bpls.demo.questions import are_the_scores_right, can_the_pool_help, does_a_run_help
from pymc_bpls.demo.setting import Setting
from pymc_bpls.demo.words import (
    audit_table,
    introduction,
    pool_table,
    run_table,
    say_audit,
    say_pool,
    say_runs,
    say_verdict,
)
from pymc_bpls.errors import BPLSError

_INTERRUPTED = 130


def check_output(output: Path) -> None:
    """Refuse a figure path that cannot be written, before anything is computed."""
    kinds = Figure().canvas.get_supported_filetypes()
    if not output.parent.is_dir():
        raise BPLSError(f'The folder of "{output}" does not exist. Create it, or give another --output.')
    if output.suffix.removeprefix(".").lower() not in kinds:
        raise BPLSError(f'"{output}" has no ending of a figure. Use one of {", ".join(sorted(kinds))}.')


def run_demo(setting: Setting, output: Path, console: Console | None = None) -> int:
    """Ask the three questions, print each answer when it is there, then the verdict, and write the figure.

    Parameters
    ----------
    setting : Setting
    output : Path
        Where the figure goes; its ending says in which format.
    console : rich.console.Console, optional

    Returns
    -------
    int
        The exit code: 0, or 130 where Ctrl-C ended it; what the splits finished until then show is printed all the same.
    """
    start = time.perf_counter()
    console = console or Console(highlight=False)
    check_output(output)
    splits = [setting.split(seed) for seed in range(setting.seeds)]
    console.print(introduction(setting))
    try:
        console.print("\n1. What can the pool tell the model?")
        pool = can_the_pool_help(setting, splits[0])
        _answer(console, pool_table(pool), say_pool(pool))
        console.print("\n2. Are the scores right?")
        audit = are_the_scores_right(setting, splits[0])
        _answer(console, audit_table(audit), say_audit(audit))
    except KeyboardInterrupt:
        console.print("Interrupted before the first split was done. There is nothing to report.")
        return _INTERRUPTED
    console.print("\n3. Does a run help?")
    outcomes = does_a_run_help(setting, splits)
    n_splits = outcomes.sizes["split"]
    if not n_splits:
        console.print("Interrupted before the first split was done. There is nothing to report.")
        return _INTERRUPTED
    _answer(console, run_table(outcomes), say_runs(outcomes, setting))
    console.print(f"\n[bold]{say_verdict(pool, audit, outcomes)}[/bold]\n")
    draw(setting, pool, audit, outcomes).savefig(output, dpi=150)
    console.print(f"Figure: {output}", soft_wrap=True)
    interrupted = n_splits < setting.seeds
    done = f"Interrupted after {n_splits} of {setting.seeds} splits," if interrupted else "Done"
    console.print(f"{done} in {time.perf_counter() - start:.0f} s (imports not counted).")
    return _INTERRUPTED if interrupted else 0


def _answer(console: Console, table: object, words: str) -> None:
    console.print(table)
    console.print(words, markup=False)
