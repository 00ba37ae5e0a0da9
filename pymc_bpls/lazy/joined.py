"""The declared table with the rows that were fetched from a lazy pool: those of D, and test rows.

Results number the pool's rows as if all were in the table: that is a *position*. Engines hold the fetched ones alone, each at a
*place*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.lazy.pool import LazyPool
from pymc_bpls.model.data.table import Labeled, read_pool
from pymc_bpls.scoring.fitted import Warm
from pymc_bpls.scoring.one_model import ModelScorer


@dataclass(frozen=True)
class JoinedRows:
    """Test rows, then rows of the pool by their `numbers`, in the order in which they were joined.

    `base` is on the declared rows.
    """

    pool: LazyPool
    base: ModelScorer
    n_test: int
    numbers: np.ndarray
    rows: Mapping[str, np.ndarray]

    @classmethod
    def begin(cls, pool: LazyPool, base: ModelScorer, test: Mapping[str, Any] | None) -> JoinedRows:
        """With test rows, if there are any, and none of the pool."""
        problem, n = pool.problem, pool.first_candidate
        none = np.empty(0, dtype=np.int64)
        if test is None:
            return cls(pool, base, 0, none, {})
        read = read_pool(problem.model, test, problem.label, problem.log_lik, n, "test")
        rows = {str(data.name): values[n:] for data, values in read.givens.items() if values.ndim}
        return cls(pool, base, read.size, none, rows)

    def join(self, numbers: np.ndarray, rows: Mapping[str, np.ndarray]) -> JoinedRows:
        """With more rows of the pool."""
        held = self.rows or {name: values[:0] for name, values in rows.items()}
        joined = {name: np.concatenate([held[name], values]) for name, values in rows.items()}
        return replace(self, numbers=np.concatenate([self.numbers, numbers]), rows=joined)

    @property
    def scorer(self) -> ModelScorer:
        """On the table with these rows."""
        return self.base.with_rows(self.rows)[0] if self.rows else self.base

    @property
    def _declared(self) -> int:
        return self.pool.first_candidate

    def positions(self, places: np.ndarray) -> np.ndarray:
        """Where results put the rows at these places; test rows come after the pool."""
        n, t = self._declared, self.n_test
        tested, joined = (places >= n) & (places < n + t), places >= n + t
        positions = np.where(tested, places + self.pool.partitions.n_rows, places)
        positions[joined] = n + self.numbers[places[joined] - n - t]
        return positions

    def places(self, positions: np.ndarray) -> np.ndarray:
        """Where rows are that results put at these positions, all of them declared, joined or test rows."""
        n, t, m = self._declared, self.n_test, self.pool.partitions.n_rows
        places = np.where(positions >= n + m, positions - m, positions)
        of_pool = (positions >= n) & (positions < n + m)
        order = np.argsort(self.numbers)
        places[of_pool] = n + t + order[np.searchsorted(self.numbers[order], positions[of_pool] - n)]
        return places

    def labeled(self, labeled: Labeled) -> Labeled:
        """D by places, from positions."""
        return replace(labeled, positions=self.places(labeled.positions))

    def warm(self, warm: Warm) -> Warm:
        """What fits start from, its rows by places."""
        if not isinstance(warm, dict):
            return warm
        return {k: self._gaussian(q) for k, q in warm.items()}

    def _gaussian(self, q: Gaussian) -> Gaussian:
        return q if q.sites is None else replace(q, sites=replace(q.sites, labeled=self.labeled(q.sites.labeled)))
