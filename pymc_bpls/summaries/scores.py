"""Scores of all candidates: the best of them, ties, and what is wrong with others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bpls.model.data.index import read_index
from pymc_bpls.scoring.criteria import LAPLACE
from pymc_bpls.scoring.results import own_error
from pymc_bpls.scoring.settings import source_of_error
from pymc_bpls.summaries.words import count_classes, say_set
from pymc_bpls.text.numbers import number
from pymc_bpls.text.summary import Summary

_SHOWN = 8


def are_scores(result: Any) -> bool:
    """Whether it is what `score` returned."""
    return isinstance(result, xr.Dataset) and "score" in result and "candidate" in result.dims


def summarise_scores(scores: xr.Dataset) -> Summary:
    """Scores of all candidates: the best of them, and what is wrong with others."""
    values = scores["score"].max([dim for dim in scores["score"].dims if dim != "candidate"])
    order = np.argsort(-values.fillna(-np.inf).to_numpy(), kind="stable")
    lost, m = int(values.isnull().sum()), values.size
    order = order[: min(_SHOWN, m - lost)]
    best = scores.isel(candidate=order)
    index, rows = read_index(best), best["candidate"].to_numpy()
    table = {
        **({} if index.equals(pd.Index(rows)) else {"row": rows}),
        "pseudo-label": best["pseudo_label"].to_numpy(),
        "score": values.to_numpy()[order],
        "below the best": values.to_numpy()[order] - values.max().item(),
    }
    for name in ("log_ppp", "log_evidence", "class_sum_error"):
        if name in best and best[name].dims == ("candidate",):
            table[name] = best[name].to_numpy()
    attrs = scores.attrs
    sentences = [
        f'"{attrs["criterion"]}" ({attrs["approximation"]}, labels "{attrs["labels"]}") of {m} candidates, '
        f"the best {len(order)}:",
        *say_set(attrs.get("rule"), scores["member"].to_numpy() if "member" in scores.coords else ()),
        *_say_ties(scores, values.to_numpy()),
        f"Pseudo-labels: {count_classes(scores['pseudo_label'].to_numpy())}.",
        *([f"{lost} candidates have no finite score and are never selected."] if lost else []),
    ]
    return Summary(
        sentences, pd.DataFrame(table, index=index if index.nlevels > 1 or index.name is not None else index.rename("index"))
    )


def _say_ties(scores: xr.Dataset, values: np.ndarray) -> list[str]:
    """How many candidates are known to be tied with the best one, or its lead. No lead is called safe: class sums prove little,
    and the error of draws leaves out that of the approximation.
    """
    error, finite, attrs = own_error(scores), np.sort(values[np.isfinite(values)]), scores.attrs
    if len(finite) < 2 or (error is None and attrs["criterion"] not in LAPLACE):
        return []
    source = source_of_error(attrs["criterion"], attrs["approximation"])
    tied = 0 if error is None else int((finite[-1] - finite < error).sum())
    if tied > 1:
        return [
            f"The best {tied} are tied: they are nearer to each other than the error of a difference by {source} ({error:.2g})."
        ]
    lead = number(finite[-1] - finite[-2])
    known = "" if error is None else f", and by {source} alone a difference is off by {error:.2g}"
    return [f"The best is {lead} ahead{known}. Only audit measures how far scores are off."]
