"""Splits of the rows whose labels are known: those that a run starts from, and those that judge it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pymc_bpls.arguments import check
from pymc_bpls.errors import CriterionError, RowError
from pymc_bpls.model.data.table import Table
from pymc_bpls.model.problem import Problem


@dataclass(frozen=True)
class Split:
    """Positions of the labeled rows, of the candidates and of the test rows of a run."""

    labeled: np.ndarray
    candidates: np.ndarray
    test: np.ndarray

    def table(self, whole: Table) -> Table:
        """The table as its runs see it: without the labels of all other rows."""
        codes = np.full(len(whole.codes), -1)
        codes[self.labeled] = whole.codes[self.labeled]
        return replace(whole, codes=codes, candidates=np.sort(self.candidates))


def read_splits(splits: Any, problem: Problem, test_share: float, rng: np.random.Generator) -> list[Split]:
    """So many random splits, or those that are given as (labeled, unlabeled, test) rows."""
    if isinstance(splits, int | np.integer):
        check(splits=splits, test_share=test_share)
        return [_draw(problem, test_share, rng) for _ in range(splits)]
    if not isinstance(splits, Iterable) or isinstance(splits, str):
        raise CriterionError(
            f"splits={splits!r} are no splits. Give a number of them, or a list of (labeled, unlabeled, test)."
        )
    given = [_read(split, number, problem) for number, split in enumerate(splits)]
    if not given:
        raise CriterionError("splits= is empty. Give a number of splits, or a list of (labeled, unlabeled, test).")
    return given


def _draw(problem: Problem, test_share: float, rng: np.random.Generator) -> Split:
    """A share of the labeled rows of each class as test rows, so that one row of each class stays; the pool as it is."""
    table, test = problem.table, []
    for code in np.unique(table.codes[table.labeled]):
        rows = rng.permutation(table.labeled[table.codes[table.labeled] == code])
        test.append(rows[: min(round(test_share * len(rows)), len(rows) - 1)])
    held = np.sort(np.concatenate(test))
    if not held.size:
        raise RowError(
            f'test_share={test_share} of the {len(table.labeled)} labeled rows of "{problem.name}" leaves none to judge by. '
            "Label more rows, or give splits."
        )
    return Split(np.setdiff1d(table.labeled, held), table.candidates, held)


def _read(split: Any, number: int, problem: Problem) -> Split:
    try:
        labeled, unlabeled, test = split
    except (TypeError, ValueError):
        raise CriterionError(
            f"splits[{number}] is no split. Give (labeled, unlabeled, test), each by position or name."
        ) from None
    read = Split(*(problem.positions(rows, f"splits[{number}]") for rows in (labeled, unlabeled, test)))
    unknown = np.setdiff1d(np.r_[read.labeled, read.test], problem.table.labeled)
    if unknown.size:
        raise RowError(
            f'splits[{number}] takes rows {unknown[:5].tolist()} for labeled or test rows, and "{problem.name}" has no label '
            "there. Declare the model with all labels that are known."
        )
    every = np.concatenate([read.labeled, read.candidates, read.test])
    if not len(read.labeled) or not len(read.test) or len(np.unique(every)) < len(every):
        raise RowError(
            f"splits[{number}] names a row twice, or has no labeled or no test row. Give three lists of distinct rows."
        )
    return read
