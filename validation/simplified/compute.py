"""Computes what is missing, with an estimate of the time left."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

import joblib
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

import pymc_bpls as bpls
from validation.simplified.repetition import repeat
from validation.simplified.settings import Setting, load
from validation.simplified.store import Record, Store

HOUR = 3600.0


def compute(settings: Sequence[Setting], repetitions: int, store: Store, *, jobs: int = 1) -> None:
    """Compute and store every repetition that is missing; data sets that cannot be had are named and left out."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, speed_estimate_period=HOUR) as bar:
        cells = store.missing(_available(settings, bar), repetitions)
        task = bar.add_task("self-training", total=sum(_rounds(setting) for setting, _ in cells))
        for setting, number, record in _computed(cells, jobs):
            store.add(setting, number, record)
            bar.advance(task, _rounds(setting))
            left = bar.tasks[task].time_remaining
            estimate = "" if left is None else f", {left / 60:.0f} min left"
            bar.console.print(f"{setting.title}, repetition {number + 1}: {record['seconds']:.1f} s{estimate}")


def _rounds(setting: Setting) -> int:
    """What the time of a repetition is roughly proportional to."""
    return setting.sizes[2]


def _available(settings: Sequence[Setting], bar: Progress) -> list[Setting]:
    reasons: dict[str, bpls.DataUnavailableError] = {}
    for source in dict.fromkeys(setting.source for setting in settings):
        try:
            load(source)
        except bpls.DataUnavailableError as error:
            reasons[source] = error
            bar.console.print(f"Left out: {error}")
    return [setting for setting in settings if setting.source not in reasons]


def _computed(cells: Sequence[tuple[Setting, int]], jobs: int) -> Iterator[tuple[Setting, int, Record]]:
    """Repetitions as they are finished."""
    run = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
    yield from run(joblib.delayed(_cell)(setting, number) for setting, number in cells)


def _cell(setting: Setting, number: int) -> tuple[Setting, int, Record]:
    with warnings.catch_warnings():
        # refits without a mode are counted in the record
        warnings.simplefilter("ignore", bpls.BPLSWarning)
        return setting, number, repeat(setting, number)
