"""A posterior with the pool's labels integrated out: whether it helped, what it rests on, and how sure it is of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bpls.summaries.words import count_classes, say_trust
from pymc_bpls.text.summary import Summary


def is_pooled(result: Any) -> bool:
    """Whether it is what `marginalize` returned."""
    return isinstance(result, xr.DataTree) and {"labeled", "modes"} <= set(result.children)


def summarise_pooled(tree: xr.DataTree) -> Summary:
    """The supervised model and this one by the test rows, or the pool's classes where there are none."""
    attrs = tree.attrs
    modes = f"{attrs['modes']} modes were found" if attrs["modes"] > 1 else "one mode was found"
    sentences = [
        str(attrs["verdict"]),
        f"Labels of {attrs['n_pool']} rows integrated out by {attrs['approximation']} (weight {attrs['weight']:g}); {modes}.",
        say_trust(attrs),
        *(_say_labels(tree["labels"].to_dataset()) if "labels" in tree.children else ()),
    ]
    if "curve" not in tree:
        return Summary(sentences, pd.DataFrame())
    curve = tree["curve"].to_dataset()
    table = {"accuracy": curve["accuracy"].to_numpy(), "log score": curve["log_score"].to_numpy()}
    return Summary(sentences, pd.DataFrame(table, index=["supervised", "with the pool"]))


def _say_labels(rows: xr.Dataset) -> list[str]:
    """Of a pool in memory: its classes, and how sure they are."""
    labels, p = rows["label"].to_numpy(), rows["probability"].to_numpy().max(axis=1)
    error = f", with errors up to {rows['probability_mcse'].max().item():.2g}" if "probability_mcse" in rows else ""
    return [
        f"Labels: {count_classes(labels)}.",
        f"The median row is of its class with probability {np.median(p):.3f}, the least certain one with {p.min():.3f}{error}.",
    ]
