"""A lazy pool of a model: its partitions, its rows by their numbers, and the model's code for the workers that read them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from pymc_bpls.approximations.predictions.predictive import FEWEST_BY_TABLE
from pymc_bpls.compute.executors import Executor
from pymc_bpls.errors import RowError
from pymc_bpls.lazy.code import Code
from pymc_bpls.lazy.containers import Partitions, names_in, read_partitions
from pymc_bpls.lazy.exporting import code_of
from pymc_bpls.lazy.part_scorer import Chosen, read_chosen
from pymc_bpls.lazy.passes import over_parts
from pymc_bpls.lazy.row_graph import containers_of
from pymc_bpls.lazy.rows import Container
from pymc_bpls.model.data.index import RowNames
from pymc_bpls.model.data.table import Table, check_pool_names
from pymc_bpls.model.pool_terms import values_below
from pymc_bpls.model.problem import Problem
from pymc_bpls.scoring.fitted import ModelFit


class NumberedRows(RowNames):
    """Rows that are named by their numbers, however many there are."""

    def coords(self, dim: str, rows: np.ndarray | None = None) -> dict[str, Any]:
        """Of rows at some positions."""
        return RowNames(self.index if rows is None else pd.Index(rows)).coords(dim)


@dataclass(frozen=True)
class LazyPool:
    """A pool of partitions, and the model on its declared rows whose data containers these have.

    Rows are numbered as if they were appended to the declared ones: a candidate is the same row however a pool is given.
    """

    partitions: Partitions
    problem: Problem
    containers: tuple[Container, ...]
    codes: dict[Any, Code] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, pool: Any, problem: Problem) -> LazyPool:
        """Of what a user gives.

        Raises
        ------
        RowError
            Its containers are not the model's, a term besides the rows' own likelihoods depends on one of them, or the declared
            table has candidates of its own.
        """
        if len(problem.table.candidates):
            raise RowError(
                f'"{problem.name}" has {len(problem.table.candidates)} unlabeled rows besides the lazy pool. Declare labeled '
                "rows alone, and give all others in pool=."
            )
        containers = containers_of(problem)
        names = names_in(pool, containers)
        check_pool_names(problem.model, names, problem.label, problem.log_lik, problem.source.n_rows)
        _check_other_terms(problem, names)
        return cls(read_partitions(pool, containers), problem, containers)

    @property
    def table(self) -> Table:
        """The declared table, in which rows of the pool have numbers for names."""
        index = pd.RangeIndex(self.first_candidate + self.partitions.n_rows)
        return replace(self.problem.table, names=NumberedRows(index), named=False)

    @property
    def first_candidate(self) -> int:
        """The position of its first row."""
        return self.problem.source.n_rows

    def code(self, fit: ModelFit, *, averages: bool = False) -> Code:
        """The model's code for workers; where they take `averages` of many rows, with the table of these."""
        conditional, predictive = fit.engine.conditional, fit.predictive
        if conditional not in self.codes:
            self.codes[conditional] = code_of(self.problem, fit.engine)
        tables = fit.engine.density.structure.store.tables
        if predictive.by_one_predictor is not None:
            made = [predictive.by_one_predictor.row_table, predictive.pool_table if averages and self.are_many else None]
            tables = {name: tables[name] for name, table in zip(("row", "pool"), made, strict=True) if table is not None}
            key = conditional, tuple(tables)
            if key not in self.codes:
                self.codes[key] = self.codes[conditional].with_tables(tables)
            return self.codes[key]
        return self.codes[conditional]

    @property
    def are_many(self) -> bool:
        """Whether its rows are worth a table of averages."""
        return self.partitions.n_rows >= FEWEST_BY_TABLE

    def rows(self, numbers: np.ndarray, executor: Executor | None) -> dict[str, np.ndarray]:
        """Some rows by their numbers, in that order, read by the workers."""
        unique, places = np.unique(numbers, return_inverse=True)
        wanted = self.partitions.of_rows(unique)
        some = Chosen(self.containers, wanted)
        read = list(over_parts(read_chosen, some, self.partitions.parts(list(wanted)), executor))
        return {
            each.name: np.concatenate([np.empty((0, *each.shape), each.dtype), *(rows[each.name] for rows in read)])[places]
            for each in self.containers
        }


def _check_other_terms(problem: Problem, names: Iterable[str]) -> None:
    """Refuse rows that would enter log π, where a pool in memory has them and a lazy one does not."""
    model = problem.model
    held = {model[name]: name for name in names}
    rest = [rv for rv in model.observed_RVs if rv.name not in problem.reached]
    for variable, term in zip((*model.free_RVs, *model.potentials, *rest), problem.prior_terms, strict=True):
        below = [held[data] for data in values_below([term]) if data in held]
        if below:
            raise RowError(
                f'The density of "{variable.name}" depends on the rows of "{below[0]}", and a lazy pool adds rows to the '
                "likelihood of the labels alone. Give the pool in memory, or declare that density by constants."
            )
