"""Rows in messages: as the user knows them, and not by their place in the joined table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

_SHOWN = 5


@dataclass(frozen=True)
class RowWords:
    """What rows are called: by their `names`, the user's index of the table, where there is one; else by position among those
    that the model `declared`, the later ones by their place in `pool=`.

    Rows from `n_rows` on are no part of the table. They were given as `new` ("rows="), with `new_names` or without.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from pymc_bpls.model.data.row_words import RowWords
    >>> RowWords(None, declared=10, n_rows=14).some(np.array([2, 11, 13]))
    'rows [2] and rows [1, 3] of pool='
    >>> RowWords(pd.Index(list("abc")), declared=3, n_rows=3).one(1)
    "row 'b'"
    """

    names: pd.Index | None
    declared: int
    n_rows: int
    new: str = ""
    new_names: pd.Index | None = None

    def one(self, row: int) -> str:
        """One row."""
        text = self.some(np.array([row]))
        return text.replace("rows", "row", 1).replace("[", "", 1).replace("]", "", 1)

    def some(self, rows: np.ndarray) -> str:
        """Rows by their positions, five of each kind at most."""
        table, beyond = rows[rows < self.n_rows], rows[rows >= self.n_rows] - self.n_rows
        new = beyond if self.new_names is None else self.new_names[beyond]
        known = self._by_position(table) if self.names is None else [(self.names[table], "")]
        kinds = [*known, (new, f" of {self.new}" if self.new else "")]
        return " and ".join(f"rows {_some(those.tolist())}{of}" for those, of in kinds if len(those))

    def _by_position(self, rows: np.ndarray) -> list[tuple[Any, str]]:
        later = rows >= self.declared
        return [(rows[~later], ""), (rows[later] - self.declared, " of pool=")]


def _some(rows: list[object]) -> str:
    return f"{rows[:_SHOWN]}{f' and {len(rows) - _SHOWN} more' if len(rows) > _SHOWN else ''}"
