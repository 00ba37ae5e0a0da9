"""The demo: does self-training help on a real data set? Every criterion, two priors, several splits, the same held-out rows.

Each split draws labeled, unlabeled and held-out rows; every criterion starts from the same supervised model, so that
differences are paired.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import jax
import numpy as np
import pymc as pm
import xarray as xr
from matplotlib.figure import Figure
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from scipy.stats import t as student

from pymc_bpls.bpls import BPLS
from pymc_bpls.datasets import load_dataset
from pymc_bpls.errors import BPLSError
from pymc_bpls.plots.accuracy import plot_accuracy

LEVEL = 0.05
RULE_OF_THUMB = 2.0
_INTERRUPTED = 130


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


@dataclass(frozen=True)
class Difference:
    """The mean (over splits) of paired differences in final accuracy, and its standard error."""

    mean: float
    error: float

    def beyond(self, bound: float) -> int:
        """+1 or −1 where the mean is more than `bound` standard errors above or below 0, else 0."""
        return int(np.sign(self.mean)) if self.error > 0 and abs(self.mean) > bound * self.error else 0

    def __str__(self) -> str:
        return f"{self.mean:+.3f} ± {_number(self.error)}"


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


def collect(setting: Setting, finished: Sequence[Mapping[tuple[str, str], Outcome]]) -> xr.Dataset:
    """All outcomes as one Dataset over prior, criterion, split (and n_pseudo)."""
    pairs = [[[outcomes[prior, c] for outcomes in finished] for c in setting.criteria] for prior in setting.priors]
    dims = ("prior", "criterion", "split")

    def of(name: str) -> np.ndarray:
        return np.array([[[getattr(outcome, name) for outcome in row] for row in rows] for rows in pairs])

    n_rows = load_dataset(setting.dataset).sizes["row"]
    return xr.Dataset(
        {
            "accuracy": ((*dims, "n_pseudo"), of("accuracy")),
            "seconds": (dims, of("seconds")),
            "compiling": (dims, of("compiling")),
            "stop_reason": (dims, of("stop_reason")),
            "stop_kind": (dims, of("stop_kind")),
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


def differences(results: xr.Dataset) -> dict[str, dict[tuple[str, str], Difference]]:
    """Final accuracy against "supervised" (the same run at n_pseudo = 0) and against "random", by (prior, criterion)."""
    final = results["accuracy"].isel(n_pseudo=-1)
    others = {"supervised": results["accuracy"].isel(n_pseudo=0)}
    if "random" in results["criterion"].to_numpy():
        others["random"] = final.sel(criterion="random", drop=True)
    return {
        name: {
            (prior, criterion): _mean_and_error((final - other).sel(prior=prior, criterion=criterion).to_numpy())
            for prior in results["prior"].to_numpy().tolist()
            for criterion in results["criterion"].to_numpy().tolist()
            if criterion != name
        }
        for name, other in others.items()
    }


def bonferroni(n_splits: int, n_comparisons: int) -> float:
    """How many standard errors are beyond chance: Student's t with n − 1 degrees of freedom at 5% over all comparisons."""
    return float(student.ppf(1 - LEVEL / (2 * n_comparisons), n_splits - 1)) if n_splits > 1 else np.inf


def verdict(results: xr.Dataset) -> str:
    """Whether anything was gained over the supervised baseline and over random selection, in plain sentences."""
    n_splits = results.sizes["split"]
    if n_splits < 2:
        return "One split has no standard error, so whether anything was gained is unknown. Use --seeds 3 or more."
    compared = differences(results)
    every = [difference for table in compared.values() for difference in table.values()]
    bound = bonferroni(n_splits, len(every))
    ahead = {name: {pair for pair, d in table.items() if d.beyond(bound) > 0} for name, table in compared.items()}
    behind = [pair for pair, d in compared["supervised"].items() if d.beyond(bound) < 0]
    gained = [pair for pair in compared["supervised"] if all(pair in pairs for pairs in ahead.values())]
    both = " and over ".join(f"{name} selection" if name == "random" else "the supervised model" for name in compared)
    loose = [d.beyond(RULE_OF_THUMB) for d in every]
    by_chance = 2 * student.sf(RULE_OF_THUMB, n_splits - 1) * len(every)
    sentences = [
        f"Gained beyond chance over {both}: {_pairs(gained)}." if gained else f"Nothing was gained beyond chance over {both}.",
        f"Worse than the supervised model beyond chance: {_pairs(behind)}." if behind else "",
        f"Beyond chance means more than {bound:.1f} standard errors (Student's t, {n_splits} splits, Bonferroni over "
        f"{len(every)} differences at 5%), which only large differences reach with so few splits.",
        f"More than 2 standard errors: {loose.count(1)} differences up and {loose.count(-1)} down, where chance alone gives "
        f"about {by_chance:.0f}. Splits share rows, so that these standard errors are, if anything, too small.",
    ]
    return " ".join(filter(None, sentences))


def result_table(results: xr.Dataset, prior: str) -> Table:
    """Criteria under one prior: final accuracy, paired differences and seconds."""
    held = results.sel(prior=prior)
    compared = differences(results)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("criterion", no_wrap=True)
    for heading in ("accuracy", "− supervised", "− random", "s"):
        table.add_column(heading, justify="right", no_wrap=True)
    start = _mean_and_error(held["accuracy"].isel(n_pseudo=0, criterion=0).to_numpy())
    table.add_row("supervised", f"{start.mean:.3f} ± {_number(start.error)}", "", "", "", style="bold")
    for criterion in held["criterion"].to_numpy().tolist():
        of = held.sel(criterion=criterion)
        end = _mean_and_error(of["accuracy"].isel(n_pseudo=-1).to_numpy())
        table.add_row(
            criterion,
            f"{end.mean:.3f} ± {_number(end.error)}",
            *(str(compared.get(name, {}).get((prior, criterion), "")) for name in ("supervised", "random")),
            f"{float(of['seconds'].mean()):.1f}",
        )
    return table


def describe_prior(prior: str, scale: float) -> str:
    """What a scale on standardised coefficients means for the odds."""
    factor = np.exp(1.96 * scale)
    return (
        f"{prior.capitalize()} prior: coefficients ~ Normal(0, {scale:g}). One standard deviation of a feature "
        f"multiplies or divides the odds by at most {factor:.3g} (with probability 95%)."
    )


def introduction(setting: Setting) -> str:
    """What is about to be run."""
    data = load_dataset(setting.dataset)
    held_out = data.sizes["row"] - setting.n_labeled - setting.n_unlabeled
    return (
        f"{data.attrs['title']}: {data.sizes['row']} rows, {data.sizes['feature']} standardised features; a logistic model "
        f"in PyMC. {setting.seeds} random split{'s' if setting.seeds > 1 else ''} into {setting.n_labeled} labeled, "
        f"{setting.n_unlabeled} unlabeled and {held_out} held-out rows. Each run adds {setting.rounds} pseudo-labels, "
        "one a round, and is judged on the held-out rows."
    )


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


def check_output(output: Path) -> None:
    """Refuse a figure path that cannot be written, before anything is computed."""
    kinds = Figure().canvas.get_supported_filetypes()
    if not output.parent.is_dir():
        raise BPLSError(f'The folder of "{output}" does not exist. Create it, or give another --output.')
    if output.suffix.removeprefix(".").lower() not in kinds:
        raise BPLSError(f'"{output}" has no ending of a figure. Use one of {", ".join(sorted(kinds))}.')


def run_demo(setting: Setting, output: Path, console: Console | None = None) -> int:
    """Run everything, print the tables and the verdict, write the figure. Returns the exit code.

    Parameters
    ----------
    setting : Setting
    output : Path
        Where the figure goes; its ending says in which format.
    console : rich.console.Console, optional

    Returns
    -------
    int
        0, or 130 where Ctrl-C ended it; what the splits finished until then show is printed all the same.
    """
    start = time.perf_counter()
    console = console or Console(highlight=False)
    check_output(output)
    console.print(introduction(setting) + "\n")
    finished = run_all(setting, console)
    interrupted = len(finished) < setting.seeds
    if not finished:
        console.print("Interrupted before the first split was done. There is nothing to report.")
        return _INTERRUPTED
    results = collect(setting, finished)
    report(results, console)
    plot_accuracy(results).savefig(output, dpi=200)
    console.print(f"Figure: {output}", soft_wrap=True)
    console.print(
        f"{'Interrupted after' if interrupted else 'Done:'} {len(finished)} of {setting.seeds} splits in "
        f"{time.perf_counter() - start:.0f} s (imports not counted), {float(results['compiling'].sum()):.0f} s of them "
        "compiling, which the column s leaves out."
    )
    return _INTERRUPTED if interrupted else 0


def report(results: xr.Dataset, console: Console) -> None:
    """Print a table a prior, then the verdict."""
    for prior in results["prior"].to_numpy().tolist():
        console.print(describe_prior(prior, float(results["scale"].sel(prior=prior))))
        console.print(result_table(results, prior))
    console.print("± is one standard error over the splits; differences are paired by split; s is seconds a run.")
    early = results["stop_kind"].to_numpy() != "rounds"
    for reason in np.unique(results["stop_reason"].to_numpy()[early]):
        console.print(f"Some runs ended early and keep their last accuracy: {reason}")
    console.print(f"\n[bold]{verdict(results)}[/bold]\n")


def _mean_and_error(values: np.ndarray) -> Difference:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return Difference(float(values.mean()), float(error))


def _number(error: float) -> str:
    return "n/a" if np.isnan(error) else f"{error:.3f}"


def _pairs(pairs: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{criterion} ({prior} prior)" for prior, criterion in pairs)
