"""How fast spreads over candidates fall with n: slopes of log spread in log n, with their errors over data sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from validation.remainder.cases import REPLICATES, SIZES, cases

LARGER_HALF = 200


def to_dataset(records: Mapping[str, Mapping[str, Any]]) -> xr.Dataset:
    """Spreads, and slopes with errors over the larger half of the n (`slope`) and over all of them (`slope_all`)."""
    names = [case.name for case in cases()]
    quantities = ("dropped", "ibpls_minus_exact", "ppp_minus_exact", "log_prior", "half_log_det", "log_lik_pseudo")
    spread = xr.DataArray(
        np.nan,
        coords={
            "model": names,
            "expansion": ["map", "mle"],
            "quantity": list(quantities),
            "replicate": np.arange(REPLICATES),
            "n": SIZES,
        },
        dims=("model", "expansion", "quantity", "replicate", "n"),
    )
    for key, record in records.items():
        name, _, replicate = key.rpartition(" ")
        for expansion in ("map", "mle"):
            for quantity, by_n in record[expansion].items():
                for n, value in by_n.items():
                    spread.loc[name, expansion, quantity, int(replicate), int(n)] = value
    slope, slope_error = slopes(spread.sel(n=SIZES[SIZES >= LARGER_HALF]))
    slope_all, slope_all_error = slopes(spread)
    return xr.Dataset(
        {
            "spread": spread,
            "slope": slope,
            "slope_error": slope_error,
            "slope_all": slope_all,
            "slope_all_error": slope_all_error,
        }
    )


def slopes(spread: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    """Means over replicates of the slope of log spread in log n, and their standard errors.

    A replicate's n without a value are left out; it takes part with three or more.
    """
    log_n = np.log(spread["n"].to_numpy().astype(float))

    def one(values: np.ndarray) -> float:
        some = np.isfinite(values)
        return float(np.polyfit(log_n[some], np.log(values[some]), 1)[0]) if some.sum() >= 3 else np.nan

    each = xr.apply_ufunc(one, spread, input_core_dims=[["n"]], vectorize=True)
    count = each.notnull().sum("replicate")
    enough = count > 1
    error = each.std("replicate", ddof=1) if each.sizes["replicate"] > 1 else xr.full_like(each.isel(replicate=0), np.nan)
    return each.mean("replicate"), (error / np.sqrt(count.where(enough)))
