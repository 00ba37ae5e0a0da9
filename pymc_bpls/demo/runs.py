"""What the demo runs: in each split every criterion starts from the same supervised model, so that differences are paired."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import jax
import numpy as np
import pymc as pm
import xarray as xr

from pymc_bpls.bpls import BPLS
from pymc_bpls.choosing.pipelines import Train
from pymc_bpls.comparison.compare import compare
from pymc_bpls.comparison.splits import Split
from pymc_bpls.datasets import load_dataset

#: The attr that holds what labeled rows say beforehand.
SAFE = "safe"
_TRIED = 2


@dataclass(frozen=True)
class Setting:
    """What the demo runs: rows of a split, rounds, number of splits, criteria, and the priors' scales by name."""

    dataset: str = "ionosphere"
    n_labeled: int = 34
    n_unlabeled: int = 100
    rounds: int = 20
    seeds: int = 3
    criteria: Sequence[str] = ("ppp", "ibpls", "marginal_likelihood", "probability", "variance", "predictive", "random")
    priors: Mapping[str, float] = field(default_factory=lambda: {"informative": 0.5, "weak": 2.5})


def draw_split(setting: Setting, seed: int) -> Split:
    """A random split of the data set's rows."""
    rows = np.random.default_rng(seed).permutation(load_dataset(setting.dataset).sizes["row"])
    first, second = setting.n_labeled, setting.n_labeled + setting.n_unlabeled
    return Split(rows[:first], rows[first:second], rows[second:])


def declare(dataset: str, scale: float, labeled: np.ndarray | None = None) -> pm.Model:
    """A logistic model of the whole table under Normal(0, scale) coefficients, with all labels or those of `labeled` rows.

    Features are standardised over all rows, which uses no label.
    """
    data = load_dataset(dataset)
    X, y = data["X"].to_numpy(), data["y"].to_numpy()
    X = (X - X.mean(0)) / X.std(0)
    if labeled is not None:
        y = np.where(np.isin(np.arange(len(y)), labeled), y, -1)
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, 2.5)
        beta = pm.Normal("beta", 0, scale, shape=X.shape[1])
        pm.Bernoulli("label", logit_p=intercept + pm.math.dot(X, beta), observed=y)
    return model


def choose_safely(setting: Setting, scale: float, split: Split) -> str:
    """What the labeled rows of a split say beforehand: a run, or the supervised model."""
    pls = BPLS(declare(setting.dataset, scale, split.labeled), unlabeled=split.candidates)
    pipelines = {name: Train(name, rounds=setting.rounds) for name in setting.criteria[:_TRIED]}
    return pls.choose(pipelines, repeats=1, random_seed=0).verdict


def run_all(setting: Setting) -> list[xr.Dataset]:
    """What `compare` found under each prior, until Ctrl-C ended it."""
    splits = [draw_split(setting, seed) for seed in range(setting.seeds)]
    given = [(split.labeled, split.candidates, split.test) for split in splits]
    finished: list[xr.Dataset] = []
    try:
        for scale in setting.priors.values():
            pls = BPLS(declare(setting.dataset, scale))
            found = compare(pls, setting.criteria, given, rounds=setting.rounds, random_seed=0)
            finished.append(found)
            if found.sizes["split"] < setting.seeds:
                break
            found.attrs[SAFE] = choose_safely(setting, scale, splits[0])
    except KeyboardInterrupt:
        pass
    return finished


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
