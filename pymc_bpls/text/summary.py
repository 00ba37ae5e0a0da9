"""Sentences and a table, as text and as HTML: how everything that has something to say shows itself."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pymc_bpls.text.numbers import number


@dataclass(frozen=True, repr=False)
class Summary:
    """Sentences, the most important first, and a table that may be empty; text for `print`, HTML for notebooks.

    Attributes
    ----------
    sentences : sequence of str
    table : pandas.DataFrame
        Numbers, as `to_latex` and `to_csv` take them.
    shown : pandas.DataFrame, optional
        What is printed in its place, where several numbers make one cell; the rounded numbers by default.

    Examples
    --------
    >>> import pandas as pd
    >>> from pymc_bpls.text.summary import Summary
    >>> print(Summary(["Two rows."], pd.DataFrame({"x": [1, 2], "y": [0.98765, 0.000123]}, index=["a", "b"])))
    Two rows.
    <BLANKLINE>
       x       y
    a  1   0.988
    b  2 0.00012
    """

    sentences: Sequence[str]
    table: pd.DataFrame
    shown: pd.DataFrame | None = None

    def _printed(self) -> pd.DataFrame:
        return self.table.map(_cell) if self.shown is None else self.shown

    def __str__(self) -> str:
        first, *others = self.sentences
        table = [] if self.table.empty else [self._printed().to_string()]
        return "\n\n".join([first, *table, "\n".join(others)]).rstrip()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        first, *others = self.sentences
        table = "" if self.table.empty else self._printed().to_html()
        items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in others)
        return f"<div><p><b>{html.escape(first)}</b></p>{table}<ul>{items}</ul></div>"


def _cell(value: Any) -> Any:
    return number(float(value)) if isinstance(value, float | np.floating) else value
