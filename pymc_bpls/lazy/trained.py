"""What was trained over a lazy pool, in use: rows of the pool that D has, or that are asked for, are fetched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bpls.lazy.joined import JoinedRows
from pymc_bpls.lazy.pool import LazyPool
from pymc_bpls.model.data.index import RowNames, find_rows
from pymc_bpls.model.data.labels import UNLABELED
from pymc_bpls.model.data.table import Table
from pymc_bpls.trained.labels import label_table
from pymc_bpls.trained.probabilities import coords_of_new, probabilities_at
from pymc_bpls.trained.result import Trained


def class_probabilities_over(pool: LazyPool, base: Any, trained: Trained, rows: Any, by: str | None) -> xr.DataArray:
    """p(y | x) over (row, class) of new rows, of rows by their positions in results, or of the declared ones (None)."""
    n = pool.first_candidate
    if isinstance(rows, Mapping):
        joined = _joined(pool, base, trained, np.empty(0, dtype=np.int64), rows)
        places, coords = n + np.arange(joined.n_test), coords_of_new(rows, joined.n_test)
    else:
        asked = np.arange(n) if rows is None else find_rows(rows, None, n + pool.partitions.n_rows, "rows=")
        joined = _joined(pool, base, trained, asked)
        places, coords = joined.places(asked), {"row": asked, **base.problem.table.names.coords("row", asked)}
    return probabilities_at(joined.scorer, [_by_places(joined, trained)], places, coords, by)


def label_table_over(pool: LazyPool, base: Any, trained: Trained) -> pd.DataFrame:
    """The class of every declared row, and of every row of the pool that is in D, by their positions in results."""
    joined = _joined(pool, base, trained, np.empty(0, dtype=np.int64))
    n, added = pool.first_candidate, len(joined.numbers)
    names = RowNames(pd.Index(joined.positions(np.arange(n + added))))
    codes = np.append(base.problem.table.codes, np.full(added, UNLABELED))
    scorer = joined.scorer.with_table(Table(codes, n + np.arange(added), names, named=False))
    return label_table(scorer, _by_places(joined, trained))


def _joined(pool: LazyPool, base: Any, trained: Trained, asked: np.ndarray, new: Mapping[str, Any] | None = None) -> JoinedRows:
    """The declared rows with new ones, and with those of the pool that are in D or asked for."""
    positions = np.union1d(trained.labeled.positions, asked)
    numbers = positions[positions >= pool.first_candidate] - pool.first_candidate
    joined = JoinedRows.begin(pool, base, new)
    return joined.join(numbers, pool.rows(numbers, None)) if len(numbers) else joined


def _by_places(joined: JoinedRows, trained: Trained) -> Trained:
    return replace(trained, labeled=joined.labeled(trained.labeled))
