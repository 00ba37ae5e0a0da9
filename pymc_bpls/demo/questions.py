"""The demo's three questions, and what the package answers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import jax
import numpy as np
import xarray as xr

from pymc_bpls.audit.report import Audit
from pymc_bpls.choosing.pipelines import SUPERVISED
from pymc_bpls.comparison.splits import Split
from pymc_bpls.datasets import load_dataset
from pymc_bpls.demo.setting import Setting, class_conditional, regression
from pymc_bpls.pool.information import Information
from pymc_bpls.selftraining.train import Train

#: Two ways to end, in the order in which they are told.
TO_THE_END, SAFE = "run to the end", "safe choice"
#: What the audit compares.
BY_LAPLACE, BY_EP = "ppp[laplace]", "ppp[ep]"
_MEASURES = ["accuracy", "log_score", "invented_information"]


@dataclass(frozen=True)
class PoolAnswer:
    """What the pool can tell the regression, and a model that says how features arise."""

    regression: Information
    class_conditional: Information


def can_the_pool_help(setting: Setting, split: Split) -> PoolAnswer:
    """Ask both models before anything is trained."""
    models = regression(setting, split), class_conditional(setting, split)
    return PoolAnswer(*(model.information() for model in models))


def are_the_scores_right(setting: Setting, split: Split) -> Audit:
    """PPP by Laplace's method and by EP beside exact values from 10,000 draws."""
    return regression(setting, split).audit([BY_LAPLACE, BY_EP], method="psis", draws=2500, random_seed=0)


def does_a_run_help(setting: Setting, splits: Sequence[Split]) -> xr.Dataset:
    """A run to the end of the pool and the safe choice in each split, until Ctrl-C.

    Returns
    -------
    xarray.Dataset
        Measures over (way, split, n_pseudo), a shorter way at its last value, and `chosen` over `split`.
    """
    ends: list[xr.Dataset] = []
    with suppress(KeyboardInterrupt):
        for split in splits:
            ends.append(_two_ways(setting, split))
    return xr.concat(ends, "split") if ends else xr.Dataset(coords={"split": np.arange(0)})


def _two_ways(setting: Setting, split: Split) -> xr.Dataset:
    """Both ways in one split, over (way, n_pseudo)."""
    pls, truth = regression(setting, split), load_dataset(setting.dataset)["y"].to_numpy()
    test, batch_size = (split.test, truth[split.test]), setting.batch_size
    run = pls.self_train("ppp", batch_size=batch_size, test=test, random_seed=0, progressbar=False)
    trains = {TO_THE_END: Train("ppp", batch_size=batch_size)}
    choice = pls.choose(trains, repeats=1, test=test, random_seed=0, progressbar=False)
    curves = [tree["curve"].to_dataset()[_MEASURES] for tree in (run, choice.result)]
    ways = xr.concat([curve.reindex(n_pseudo=curves[0]["n_pseudo"], method="ffill") for curve in curves], "way")
    return ways.drop_attrs().assign_coords(way=[TO_THE_END, SAFE]).assign(chosen=choice.name)


def n_kept(outcomes: xr.Dataset) -> int:
    """In how many splits the safe choice kept the supervised model."""
    return int((outcomes["chosen"] == SUPERVISED).sum())


def changes(outcomes: xr.Dataset, way: str, measure: str) -> np.ndarray:
    """A measure against the supervised model, that of no pseudo-labels (split, n_pseudo)."""
    values = outcomes[measure].sel(way=way).transpose("split", "n_pseudo").to_numpy()
    return values - values[:, :1]


@contextmanager
def shared_compilations() -> Iterator[None]:
    """Let JAX find in a temporary folder what an earlier split compiled: splits differ in their labels only."""
    wanted = {"jax_persistent_cache_min_compile_time_secs": 0.0, "jax_persistent_cache_min_entry_size_bytes": -1}
    with tempfile.TemporaryDirectory() as folder:
        settings = {"jax_compilation_cache_dir": folder, **wanted}
        before = {name: getattr(jax.config, name) for name in settings}
        try:
            for name, value in settings.items():
                jax.config.update(name, value)
            yield
        finally:
            for name, value in before.items():
                jax.config.update(name, value)
