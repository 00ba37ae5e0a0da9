"""Criteria that were compared over splits: what each gains over the supervised model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bpls.text.summary import Summary

_SUPERVISED = "supervised"


def is_comparison(result: Any) -> bool:
    """Whether it is what `compare` returned."""
    return isinstance(result, xr.Dataset) and {"criterion", "against", "measure"} <= set(result.dims)


def summarise_comparison(compared: xr.Dataset) -> Summary:
    """The mean of the final models' accuracy, and the differences to the supervised model with 95% intervals."""
    gains = compared[["difference", "low", "high"]].sel(against=_SUPERVISED)
    final = compared["accuracy"].isel(n_pseudo=-1).mean("split").to_numpy()
    table: dict[str, Any] = {"accuracy": final}
    shown: dict[str, Any] = {"accuracy": [f"{value:.3f}" for value in final]}
    for name in gains["measure"].to_numpy().tolist():
        held, of = gains.sel(measure=name).transpose("criterion"), f"{name.replace('_', ' ')} − supervised"
        columns = [held[each].to_numpy() for each in ("difference", "low", "high")]
        table |= dict(zip((of, f"{of}, low", f"{of}, high"), columns, strict=True))
        shown[of] = [f"{d:+.3f} ({low:+.3f} to {high:+.3f})" for d, low, high in np.stack(columns, axis=1).tolist()]
    ended = compared["stop_kind"].to_numpy().ravel()
    kinds = ", ".join(f"{(ended == kind).sum()} by {kind}" for kind in sorted(set(ended.tolist())))
    sentences = [
        str(compared.attrs["verdict"]),
        f"{compared.sizes['split']} splits; intervals are those of single comparisons at 95%.",
        f"Runs ended: {kinds}.",
    ]
    index = pd.Index(compared["criterion"].to_numpy(), name="criterion")
    return Summary(sentences, pd.DataFrame(table, index=index), pd.DataFrame(shown, index=index))
