"""Sentences and a table, as text and as HTML: how everything that has something to say shows itself."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True, repr=False)
class Summary:
    """Sentences, the most important first, and a table that may be empty; text for `print`, HTML for notebooks.

    Examples
    --------
    >>> import pandas as pd
    >>> from pymc_bpls.text.summary import Summary
    >>> print(Summary(["Two rows."], pd.DataFrame({"x": [1, 2]}, index=["a", "b"])))
    Two rows.
    <BLANKLINE>
       x
    a  1
    b  2
    """

    sentences: Sequence[str]
    table: pd.DataFrame

    def __str__(self) -> str:
        first, *others = self.sentences
        return "\n\n".join([first, *([] if self.table.empty else [self.table.to_string()]), "\n".join(others)]).rstrip()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        first, *others = self.sentences
        table = "" if self.table.empty else self.table.to_html()
        items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in others)
        return f"<div><p><b>{html.escape(first)}</b></p>{table}<ul>{items}</ul></div>"
