"""Computes what is missing, then writes the report: `python -m validation.rivals [--quick | --report]`.

Every repetition is kept in `validation/results/rivals/` as it is finished; a rerun computes only what is missing. Rivals in R
are left out where there is no `Rscript` with mclust.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console

from pymc_bpls.compute.executors import Executor
from validation.rivals import in_r
from validation.rivals.methods import alone, choose, could_choose, repeat
from validation.rivals.report import write
from validation.rivals.settings import QUICK, REPETITIONS, SETTINGS, Setting
from validation.rivals.splits import load
from validation.rivals.store import ALONE, CHOOSING, PYTHON, R_ALONE, R, stores
from validation.rivals.summary import FEWEST, merged
from validation.study.command import finish, make_parser
from validation.study.compute import fill, workers
from validation.study.store import Store


def compute(
    settings: Sequence[Setting], repetitions: int, held: dict[str, Store[Setting]], executor: Executor | None = None
) -> None:
    """What is missing: the package's and scikit-learn's methods, models on the labels alone, the choice, and R's methods on the
    same splits.
    """
    choosing = [setting for setting in settings if could_choose(setting)]
    for name, compute_one, where in ((PYTHON, repeat, settings), (ALONE, alone, settings), (CHOOSING, choose, choosing)):
        fill(held[name], [(setting, repetitions) for setting in where], compute_one, load, executor=executor)
    if not in_r.available():
        Console().print("Left out: R's glm and mclust, since there is no Rscript with mclust.", markup=False)
        return
    for name, wanted_in_r in ((R, (in_r.GLM, in_r.MCLUST)), (R_ALONE, (in_r.MCLUST_ALONE,))):
        for setting in settings:
            _fill_in_r(held[name], setting, held[PYTHON].read(setting), repetitions, in_r.methods_of(setting, wanted_in_r))


def _fill_in_r(
    store: Store[Setting], setting: Setting, judged: Iterable[int], repetitions: int, methods: Sequence[str]
) -> None:
    done = store.read(setting)
    missing = [number for number in judged if number < repetitions and number not in done]
    if missing and methods:
        for number, record in in_r.compute(setting, missing, methods).items():
            store.add(setting, number, record)


def report(held: dict[str, Store[Setting]], folder: Path) -> Path | None:
    """Write the report from what is stored, if anything is."""
    summaries = [merged(each, [store.read(each) for store in held.values()]) for each in SETTINGS]
    summaries = [each for each in summaries if each.repetitions >= FEWEST]
    if not summaries:
        return None
    path = folder / "rivals.md"
    write(summaries, path)
    return path


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study."""
    parser = make_parser("rivals", "other ways to use unlabeled rows")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="two repetitions of two tables that need no download")
    size.add_argument("--report", action="store_true", help="the report alone, of what is stored")
    given = parser.parse_args(arguments)
    held = stores(given.folder)
    settings, repetitions = (QUICK, FEWEST) if given.quick else (() if given.report else SETTINGS, REPETITIONS)
    with workers(given.jobs) as executor:
        finish(
            lambda: compute(settings, repetitions, held, executor),
            lambda: report(held, given.folder / "reports"),
        )


if __name__ == "__main__":
    main()
