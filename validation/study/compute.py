"""Computes what is missing, with an estimate of the time left."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from typing import Protocol, TypeVar

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from threadpoolctl import threadpool_limits

import pymc_bpls as bpls
from pymc_bpls.compute.executors import Executor
from pymc_bpls.compute.threads import IN_TURN, side_by_side
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
    store: Store[S],
    wanted: Sequence[tuple[S, int]],
    repeat: Repeat,
    load: Callable[[str], object],
    *,
    executor: Executor | None = None,
) -> None:
    """Compute and store every missing repetition of settings, with their numbers of repetitions; tables that cannot be had are
    named and left out. Repetitions run one after the other, or several at a time by any `executor` that has `submit`: one of
    `concurrent.futures`, processes by "spawn", or a Dask client.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, speed_estimate_period=HOUR) as bar:
        available = _available({setting.source for setting, _ in wanted}, load, bar)
        cells = store.missing([each for each in wanted if each[0].source in available])
        task = bar.add_task("self-training", total=sum(setting.work for setting, _ in cells))
        for setting, number, record, seconds in _computed(cells, repeat, executor):
            store.add(setting, number, record)
            bar.advance(task, setting.work)
            left = bar.tasks[task].time_remaining
            estimate = "" if left is None else f", {left / 60:.0f} min left"
            bar.console.print(f"{setting.title}, repetition {number + 1}: {seconds:.1f} s{estimate}", markup=False)


def at_hand(source: str) -> None:
    """In place of loading a table that is there without a download."""


def _available(sources: set[str], load: Callable[[str], object], bar: Progress) -> set[str]:
    found = set()
    for source in sorted(sources):
        try:
            load(source)
            found.add(source)
        except bpls.DataUnavailableError as error:
            bar.console.print(f"Left out: {error}", markup=False)
    return found


def workers(jobs: int | str) -> AbstractContextManager[Executor | None]:
    """So many processes, of which one needs no executor, or the workers of the Dask cluster at an address."""
    if isinstance(jobs, str):
        return import_module("distributed").Client(jobs)
    return nullcontext() if jobs == 1 else ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))


def _computed(
    cells: Sequence[tuple[S, int]], repeat: Repeat, executor: Executor | None
) -> Iterator[tuple[S, int, Record, float]]:
    """Repetitions in order."""
    yield from side_by_side(partial(_cell, repeat), cells, executor or IN_TURN)


def _cell(repeat: Repeat, cell: tuple[S, int]) -> tuple[S, int, Record, float]:
    (setting, number), start = cell, time.perf_counter()
    # matrices are small
    with warnings.catch_warnings(), threadpool_limits(1, user_api="blas"):
        # refits without a mode are never selected
        warnings.simplefilter("ignore", bpls.BPLSWarning)
        record = repeat(setting, number)
    return setting, number, record, time.perf_counter() - start
