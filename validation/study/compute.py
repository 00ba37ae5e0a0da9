"""Computes what is missing, with an estimate of the time left."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

import joblib
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from threadpoolctl import threadpool_limits

import pymc_bpls as bpls
from validation.study.store import Keyed, Record, Store

HOUR = 3600.0


class Drawn(Keyed, Protocol):
    """A setting on a table of a name, with a title for readers, and what a repetition's time is roughly proportional to."""

    @property
    def source(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def work(self) -> int: ...


S = TypeVar("S", bound=Drawn)
Repeat = Callable[[S, int], Record]


def fill(
    store: Store[S], wanted: Sequence[tuple[S, int]], repeat: Repeat, load: Callable[[str], object], *, jobs: int = 1
) -> None:
    """Compute and store every missing repetition of settings, with their numbers of repetitions; tables that cannot be had are
    named and left out.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, speed_estimate_period=HOUR) as bar:
        available = _available({setting.source for setting, _ in wanted}, load, bar)
        cells = store.missing([each for each in wanted if each[0].source in available])
        task = bar.add_task("self-training", total=sum(setting.work for setting, _ in cells))
        for setting, number, record, seconds in _computed(cells, repeat, jobs):
            store.add(setting, number, record)
            bar.advance(task, setting.work)
            left = bar.tasks[task].time_remaining
            estimate = "" if left is None else f", {left / 60:.0f} min left"
            bar.console.print(f"{setting.title}, repetition {number + 1}: {seconds:.1f} s{estimate}", markup=False)


def _available(sources: set[str], load: Callable[[str], object], bar: Progress) -> set[str]:
    found = set()
    for source in sorted(sources):
        try:
            load(source)
            found.add(source)
        except bpls.DataUnavailableError as error:
            bar.console.print(f"Left out: {error}", markup=False)
    return found


def _computed(cells: Sequence[tuple[S, int]], repeat: Repeat, jobs: int) -> Iterator[tuple[S, int, Record, float]]:
    """Repetitions as they are finished."""
    run = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
    yield from run(joblib.delayed(_cell)(repeat, setting, number) for setting, number in cells)


def _cell(repeat: Repeat, setting: S, number: int) -> tuple[S, int, Record, float]:
    start = time.perf_counter()
    # matrices are small
    with warnings.catch_warnings(), threadpool_limits(1, user_api="blas"):
        # refits without a mode are never selected
        warnings.simplefilter("ignore", bpls.BPLSWarning)
        record = repeat(setting, number)
    return setting, number, record, time.perf_counter() - start
