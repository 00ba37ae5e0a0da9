"""What the demo runs: each split draws labeled, unlabeled and held-out rows, and every criterion starts from the same
supervised model, so that differences are paired.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import jax
import numpy as np
import pymc as pm
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pymc_bpls.bpls import BPLS
from pymc_bpls.datasets import load_dataset


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


@dataclass(frozen=True)
class Split:
    """A data set with standardised features X (N, q) and labels y (N,), and the rows' positions by role."""

    X: np.ndarray
    y: np.ndarray
    labeled: np.ndarray
    unlabeled: np.ndarray
    held_out: np.ndarray


@dataclass(frozen=True)
class Outcome:
    """One self-training run: accuracy (rounds + 1,) on held-out rows, its seconds without compilation, and why it ended."""

    accuracy: np.ndarray
    seconds: float
    compiling: float
    stop_reason: str
    stop_kind: str


def draw_split(setting: Setting, seed: int) -> Split:
    """A random split of the data set; features are standardised over all rows, which uses no label."""
    data = load_dataset(setting.dataset)
    X, y = data["X"].to_numpy(), data["y"].to_numpy()
    rows = np.random.default_rng(seed).permutation(len(y))
    first, second = setting.n_labeled, setting.n_labeled + setting.n_unlabeled
    return Split((X - X.mean(0)) / X.std(0), y, rows[:first], rows[first:second], rows[second:])


def declare(split: Split, scale: float) -> pm.Model:
    """A logistic model of the whole table, −1 where the label is not given, under Normal(0, scale) coefficients."""
    observed = np.full(len(split.y), -1)
    observed[split.labeled] = split.y[split.labeled]
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, 2.5)
        beta = pm.Normal("beta", 0, scale, shape=split.X.shape[1])
        pm.Bernoulli("label", logit_p=intercept + pm.math.dot(split.X, beta), observed=observed)
    return model


def train(pls: BPLS, criterion: str, split: Split, rounds: int, seed: int) -> Outcome:
    """One whole run. A run that Ctrl-C ended is no outcome."""
    before, start = float(pls.compilations["seconds"].sum()), time.perf_counter()
    run = pls.self_train(
        criterion,
        rounds=rounds,
        test=(split.held_out, split.y[split.held_out]),
        random_seed=seed,
        progressbar=False,
    )
    elapsed, compiling = time.perf_counter() - start, float(pls.compilations["seconds"].sum()) - before
    if run.attrs["stop_kind"] == "interrupted":
        raise KeyboardInterrupt
    accuracy = run["curve"]["accuracy"].to_numpy()
    padded = np.pad(accuracy, (0, rounds + 1 - len(accuracy)), mode="edge")
    return Outcome(padded, elapsed - compiling, compiling, run.attrs["stop_reason"], run.attrs["stop_kind"])


def run_all(setting: Setting, console: Console) -> list[dict[tuple[str, str], Outcome]]:
    """Outcomes by (prior, criterion), for each split that was finished: Ctrl-C ends the list."""
    finished: list[dict[tuple[str, str], Outcome]] = []
    bar = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console)
    with bar:
        task = bar.add_task("runs", total=setting.seeds * len(setting.priors) * len(setting.criteria))
        try:
            for seed in range(setting.seeds):
                split, outcomes = draw_split(setting, seed), {}
                for prior, scale in setting.priors.items():
                    bar.update(task, description=f"split {seed + 1}, {prior} prior: model")
                    pls = BPLS(declare(split, scale), unlabeled=split.unlabeled)
                    for criterion in setting.criteria:
                        bar.update(task, description=f"split {seed + 1}, {prior} prior: {criterion}")
                        outcomes[prior, criterion] = train(pls, criterion, split, setting.rounds, seed)
                        bar.advance(task)
                finished.append(outcomes)
            bar.update(task, description="runs")
        except KeyboardInterrupt:
            bar.update(task, description="interrupted")
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
