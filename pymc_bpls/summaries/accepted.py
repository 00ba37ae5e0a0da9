"""Pseudo-labels that were accepted with a guarantee, and the rows that a person should look at first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bpls.model.data.index import read_index
from pymc_bpls.summaries.words import count_classes
from pymc_bpls.text.summary import Summary

_SHOWN = 8


def is_acceptance(result: Any) -> bool:
    """Whether it is what `accept` returned."""
    return isinstance(result, xr.Dataset) and {"accepted", "p_value", "rank"} <= set(result)


def summarise_acceptance(found: xr.Dataset) -> Summary:
    """The verdict, what it rests on, and the rows that are left, by rank."""
    rank, accepted = found["rank"].to_numpy(), found["accepted"].to_numpy()
    order = np.flatnonzero(rank > 0)
    left = found.isel(candidate=order[np.argsort(rank[order])][:_SHOWN])
    index = read_index(left)
    table = {
        "rank": left["rank"].to_numpy(),
        "pseudo-label": left["pseudo_label"].to_numpy(),
        "confidence": left["confidence"].to_numpy(),
        "p-value": left["p_value"].to_numpy(),
        "bald": left["bald"].to_numpy(),
    }
    attrs, labels = found.attrs, found["pseudo_label"].to_numpy()[accepted]
    sentences = [
        str(attrs["verdict"]),
        f"The guarantee is {attrs['guarantee']}",
        str(attrs["calibration"]),
        *([f"Accepted: {count_classes(labels)}."] if len(labels) else []),
    ]
    return Summary(sentences, pd.DataFrame(table, index=index if index.name is not None else index.rename("index")))
