"""The pipeline to use, with what speaks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import xarray as xr

from pymc_bpls.choosing.evidence import Evidence
from pymc_bpls.choosing.pipelines import SUPERVISED
from pymc_bpls.choosing.sentences import say_columns
from pymc_bpls.text.summary import Summary


@dataclass(frozen=True, repr=False)
class Choice:
    """Which pipeline to use, and why; `print` it for the verdict and the table.

    Attributes
    ----------
    name : str
        "supervised", or the name of a pipeline that labeled rows proved better.
    result : xarray.DataTree or xarray.DataArray
        The chosen pipeline on all labels, as its method returns it: `predict_proba`, `labels`, `sample` and `summary` take it.
        Of a function of one's own its probabilities (row, class).
    table : pandas.DataFrame
        By pipeline: mean `loss` on rows that were set aside and `accuracy` there; against the supervised model the
        `difference` (positive where the pipeline loses less), its `standard_error`, and `bound` (what the difference is above)
        or `e_value`. NaN for a pipeline that was refused.
    verdict : str
        What to use, in sentences; without evidence how many labels would bring it.
    losses : xarray.Dataset
        Over `prediction`: `loss` of each pipeline, the `row` that was predicted, and the `fold` and the `repeat` in which.
    evidence : dict of str to Evidence
        By pipeline, for figures: also the logarithm of the wealth along each order of rows.
    guarantee, alpha, loss
        As they were asked for; `threshold` is what the proof has to pass: 0 for a bound, the number of pipelines over α for an
        e-value.
    predicted : str
        How class probabilities of each pipeline come about.

    See Also
    --------
    BPLS.choose : makes it.
    plot_choice : draws it.
    """

    name: str
    result: Any
    table: pd.DataFrame
    verdict: str
    losses: xr.Dataset
    evidence: Mapping[str, Evidence]
    loss: str
    guarantee: str
    alpha: float
    threshold: float
    notes: Sequence[str] = ()
    predicted: str = ""

    @property
    def noted(self) -> Any:
        """The result, with attrs that say what it is and why: `choice`, `choice_verdict`, and `verdict` of no run."""
        why = " ".join([self.verdict, *self.notes])
        self.result.attrs.update(choice=self.name, choice_verdict=why)
        if self.name == SUPERVISED:
            self.result.attrs.update(verdict=why)
        return self.result

    @property
    def _summary(self) -> Summary:
        columns = [say_columns(self.guarantee, self.threshold, self.alpha)] if len(self.table) > 1 else []
        told = [self.predicted] if self.predicted else []
        return Summary([self.verdict, *columns, *told, *self.notes], self.table.map(_number))

    def __str__(self) -> str:
        return str(self._summary)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self._summary._repr_html_()


def _number(value: float) -> str:
    return "" if pd.isna(value) else f"{value:.3g}"
