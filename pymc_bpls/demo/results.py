"""What came out: outcomes over prior, criterion and split, and paired differences with their standard errors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

from pymc_bpls.comparison.differences import SUPERVISED, Estimate, with_differences
from pymc_bpls.datasets import load_dataset
from pymc_bpls.demo.runs import SAFE, Setting

_OUTCOMES = ["accuracy", "seconds", "compiling", "stop_reason", "stop_kind"]


def collect(setting: Setting, found: Sequence[xr.Dataset]) -> xr.Dataset:
    """What was found under each prior as one Dataset over prior, criterion, split (and n_pseudo): the splits that all have."""
    steps, n = np.arange(setting.rounds + 1), min(each.sizes["split"] for each in found)
    held = [each[_OUTCOMES].isel(split=slice(n)).reindex(n_pseudo=steps, method="ffill") for each in found]
    outcomes = xr.concat(held, "prior")
    scales = dict(list(setting.priors.items())[: len(found)])
    safe = [each.attrs.get(SAFE, "") for each in found]
    outcomes = outcomes.assign_coords(prior=list(scales))
    outcomes = outcomes.assign({"scale": ("prior", list(scales.values())), SAFE: ("prior", safe)})
    n_rows = load_dataset(setting.dataset).sizes["row"]
    return with_differences(outcomes.drop_attrs(deep=False)).assign_attrs(
        dataset=setting.dataset,
        n_labeled=setting.n_labeled,
        n_unlabeled=setting.n_unlabeled,
        n_held_out=n_rows - setting.n_labeled - setting.n_unlabeled,
    )


def differences(results: xr.Dataset) -> dict[str, dict[tuple[str, str], Estimate]]:
    """Final accuracy against "supervised" (the same run at n_pseudo = 0) and against "random", by (prior, criterion)."""
    criteria = results["criterion"].to_numpy().tolist()
    held = results.sel(measure="accuracy")[["difference", "standard_error"]]

    def of(prior: str, criterion: str, against: str) -> Estimate:
        pair = held.sel(prior=prior, criterion=criterion, against=against)
        return Estimate(float(pair["difference"]), float(pair["standard_error"]))

    return {
        name: {
            (prior, criterion): of(prior, criterion, name)
            for prior in results["prior"].to_numpy().tolist()
            for criterion in criteria
            if criterion != name
        }
        for name in (SUPERVISED, *(["random"] if "random" in criteria else []))
    }
