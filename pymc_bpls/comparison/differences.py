"""Differences of final models that are paired by split, with standard errors and intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
import xarray as xr

LEVEL = 0.05
#: The model that every run starts from.
SUPERVISED = "supervised"


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


def bonferroni(n_splits: int, n_comparisons: int) -> float:
    """How many standard errors are beyond chance: Student's t with n − 1 degrees of freedom at 5% over all comparisons."""
    return float(scipy.stats.t.ppf(1 - LEVEL / (2 * n_comparisons), n_splits - 1)) if n_splits > 1 else np.inf


def with_differences(outcomes: xr.Dataset, overlap: float = 0.0) -> xr.Dataset:
    """`outcomes` with the differences of their final `accuracy` and `log_score` (…, criterion, split, n_pseudo).

    With d_s the difference in split s of J, s² the variance of d and `overlap` = n_test/n_train where splits redraw the same
    rows (0 otherwise), the standard error is √((1/J + overlap) s²) (Nadeau and Bengio [1]_) and the interval d̄ ± t_{J−1} of it.

    Returns
    -------
    xarray.Dataset
        With `difference`, `standard_error`, `low`, `high` and `n` over (…, measure, criterion, against): `against` are
        "supervised", the model that each run starts from, and every criterion.

    References
    ----------
    .. [1] Nadeau, C. and Bengio, Y. (2003). Inference for the generalization error. Machine Learning 52, 239-281.
       https://doi.org/10.1023/A:1024068626366
    """
    measures = [name for name in ("accuracy", "log_score") if name in outcomes]
    values = xr.concat([outcomes[name] for name in measures], "measure").assign_coords(measure=measures)
    final, start = values.isel(n_pseudo=-1), values.isel(n_pseudo=0)
    names = outcomes["criterion"].to_numpy().tolist()
    others = [start, *(xr.where(final["criterion"] != name, final.sel(criterion=name, drop=True), np.nan) for name in names)]
    against = xr.concat(others, "against").assign_coords(against=[SUPERVISED, *names])
    d = final - against
    n = d.count("split")
    error = np.sqrt((1 / n.where(n > 1) + overlap) * d.var("split", ddof=1))
    half = error * xr.apply_ufunc(lambda count: scipy.stats.t.ppf(1 - LEVEL / 2, np.maximum(count - 1, 1)), n)
    mean = d.mean("split")
    order = [*(dim for dim in mean.dims if dim not in ("measure", "criterion", "against")), "measure", "criterion", "against"]
    found = {"difference": mean, "standard_error": error, "low": mean - half, "high": mean + half, "n": n}
    return outcomes.assign({name: value.transpose(*order) for name, value in found.items()})
