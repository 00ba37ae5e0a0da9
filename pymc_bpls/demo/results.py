"""What came out: outcomes over prior, criterion and split, and paired differences with their standard errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr
from scipy.stats import t as student

from pymc_bpls.datasets import load_dataset
from pymc_bpls.demo.runs import Outcome, Setting

LEVEL = 0.05


@dataclass(frozen=True)
class Estimate:
    """A mean over splits and its standard error, NaN of one split."""

    mean: float
    error: float

    def beyond(self, bound: float) -> int:
        """+1 or −1 where the mean is more than `bound` standard errors above or below 0, else 0."""
        return int(np.sign(self.mean)) if self.error > 0 and abs(self.mean) > bound * self.error else 0


def estimate(values: np.ndarray) -> Estimate:
    """The mean of one value a split."""
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return Estimate(float(values.mean()), float(error))


def collect(setting: Setting, finished: Sequence[Mapping[tuple[str, str], Outcome]]) -> xr.Dataset:
    """All outcomes as one Dataset over prior, criterion, split (and n_pseudo)."""
    pairs = [[[outcomes[prior, c] for outcomes in finished] for c in setting.criteria] for prior in setting.priors]
    dims = ("prior", "criterion", "split")

    def gather(name: str) -> np.ndarray:
        return np.array([[[getattr(outcome, name) for outcome in row] for row in rows] for rows in pairs])

    n_rows = load_dataset(setting.dataset).sizes["row"]
    return xr.Dataset(
        {
            "accuracy": ((*dims, "n_pseudo"), gather("accuracy")),
            "seconds": (dims, gather("seconds")),
            "compiling": (dims, gather("compiling")),
            "stop_reason": (dims, gather("stop_reason")),
            "stop_kind": (dims, gather("stop_kind")),
            "scale": ("prior", list(setting.priors.values())),
        },
        coords={"prior": list(setting.priors), "criterion": list(setting.criteria), "split": np.arange(len(finished))},
        attrs={
            "dataset": setting.dataset,
            "n_labeled": setting.n_labeled,
            "n_unlabeled": setting.n_unlabeled,
            "n_held_out": n_rows - setting.n_labeled - setting.n_unlabeled,
        },
    )


def differences(results: xr.Dataset) -> dict[str, dict[tuple[str, str], Estimate]]:
    """Final accuracy against "supervised" (the same run at n_pseudo = 0) and against "random", by (prior, criterion)."""
    final = results["accuracy"].isel(n_pseudo=-1)
    others = {"supervised": results["accuracy"].isel(n_pseudo=0)}
    if "random" in results["criterion"].to_numpy():
        others["random"] = final.sel(criterion="random", drop=True)
    return {
        name: {
            (prior, criterion): estimate((final - other).sel(prior=prior, criterion=criterion).to_numpy())
            for prior in results["prior"].to_numpy().tolist()
            for criterion in results["criterion"].to_numpy().tolist()
            if criterion != name
        }
        for name, other in others.items()
    }


def bonferroni(n_splits: int, n_comparisons: int) -> float:
    """How many standard errors are beyond chance: Student's t with n − 1 degrees of freedom at 5% over all comparisons."""
    return float(student.ppf(1 - LEVEL / (2 * n_comparisons), n_splits - 1)) if n_splits > 1 else np.inf
