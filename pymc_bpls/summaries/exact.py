"""Exact values of the candidates: the best of them with their errors, and whether they are to be trusted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bpls.model.data.index import read_index
from pymc_bpls.summaries.words import count_classes, say_trust
from pymc_bpls.text.summary import Summary

_SHOWN = 8


def is_exact(result: Any) -> bool:
    """Whether it is what `exact` returned."""
    return isinstance(result, xr.DataTree) and "exact" in result.children


def summarise_exact(tree: xr.DataTree) -> Summary:
    """The best candidates by their exact value, with its error and how sure it is that they are the best."""
    held, attrs = tree["exact"].to_dataset(), tree.attrs
    if "label" in held.dims:
        best_class = held["log_predictive"].argmax("label")
        held = held.isel(label=best_class)
    value = next(name for name in ("log_ppp", "log_evidence", "log_predictive") if name in held)
    order = np.argsort(-held["log_predictive"].to_numpy(), kind="stable")[:_SHOWN]
    best = held.isel(candidate=order)
    index, rows = read_index(best), best["candidate"].to_numpy()
    labels = held["pseudo_label"] if "pseudo_label" in held else held["label"]
    table = {
        **({} if index.equals(pd.Index(rows)) else {"row": rows}),
        "pseudo-label": labels.to_numpy()[order],
        value.replace("_", " "): best[value].to_numpy(),
        "its error": best["mcse"].to_numpy(),
        "P(best)": best["prob_best"].to_numpy(),
    }
    sentences = [
        f'Exact "{attrs["criterion"]}" (labels "{attrs["labels"]}") of {held.sizes["candidate"]} candidates by '
        f"{attrs['source']}, the best {len(order)}:",
        "P(best) is the probability that a candidate is the best, given the Monte Carlo errors.",
        say_trust(attrs),
        f"Pseudo-labels: {count_classes(labels.to_numpy())}.",
    ]
    return Summary(sentences, pd.DataFrame(table, index=index if index.name is not None else index.rename("index")))
