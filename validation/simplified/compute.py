"""Computes what is missing."""

from __future__ import annotations

from collections.abc import Sequence

from pymc_bpls.compute.executors import Executor
from validation.simplified.repetition import repeat
from validation.simplified.settings import Setting, load
from validation.study.compute import fill
from validation.study.store import Store


def compute(settings: Sequence[Setting], repetitions: int, store: Store[Setting], *, executor: Executor | None = None) -> None:
    """Compute and store every missing repetition of settings whose data sets can be had."""
    fill(store, [(setting, repetitions) for setting in settings], repeat, load, executor=executor)
