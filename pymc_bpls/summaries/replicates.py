"""Replicates of a run whose labels are drawn: what their mixture is, and how each ended."""

from __future__ import annotations

from typing import Any

import pandas as pd
import xarray as xr

from pymc_bpls.selftraining.replicates import replicates_of
from pymc_bpls.selftraining.saved_run import REPLICATES
from pymc_bpls.text.summary import Summary


def are_replicates(result: Any) -> bool:
    """Whether it is what `self_train(replicates=…)` returned."""
    return isinstance(result, xr.DataTree) and REPLICATES in result


def summarise_replicates(run: xr.DataTree) -> Summary:
    """The verdict, and how many replicates ended for which reason."""
    reasons = pd.Series([str(part.attrs["stop_reason"]) for part in replicates_of(run)], name="ended").value_counts()
    return Summary([str(run.attrs["verdict"])], reasons.to_frame("replicates"))
