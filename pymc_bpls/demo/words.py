"""The demo's words: what is about to be run, a table a prior, and whether anything was gained."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from scipy.stats import t as student

from pymc_bpls.comparison.differences import Estimate, bonferroni, estimate
from pymc_bpls.datasets import load_dataset
from pymc_bpls.demo.results import differences
from pymc_bpls.demo.runs import SAFE, Setting

RULE_OF_THUMB = 2.0
_FAR = 5.0  # standard errors that only very large differences reach


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


def describe_prior(prior: str, scale: float) -> str:
    """What a scale on standardised coefficients means for the odds."""
    factor = np.exp(1.96 * scale)
    return (
        f"{prior.capitalize()} prior: coefficients ~ Normal(0, {scale:g}). One standard deviation of a feature "
        f"multiplies or divides the odds by at most {factor:.3g} (with probability 95%)."
    )


def result_table(results: xr.Dataset, prior: str) -> Table:
    """Criteria under one prior: final accuracy, paired differences and seconds."""
    held = results.sel(prior=prior)
    compared = differences(results)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("criterion", no_wrap=True)
    for heading in ("accuracy", "− supervised", "− random", "s"):
        table.add_column(heading, justify="right", no_wrap=True)
    start = estimate(held["accuracy"].isel(n_pseudo=0, criterion=0).to_numpy())
    table.add_row("supervised", _with_error(start), "", "", "", style="bold")
    for criterion in held["criterion"].to_numpy().tolist():
        runs = held.sel(criterion=criterion)
        end = estimate(runs["accuracy"].isel(n_pseudo=-1).to_numpy())
        table.add_row(
            criterion,
            _with_error(end),
            *(_cell(compared.get(name, {}).get((prior, criterion))) for name in ("supervised", "random")),
            f"{float(runs['seconds'].mean()):.1f}",
        )
    return table


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
        _say_bound(bound, n_splits, len(every)),
        f"More than 2 standard errors: {loose.count(1)} differences up and {loose.count(-1)} down, where chance alone gives "
        f"about {by_chance:.0f}. Splits share rows, so that these standard errors are, if anything, too small.",
    ]
    return " ".join(filter(None, sentences))


def _say_bound(bound: float, n_splits: int, n_differences: int) -> str:
    """What is beyond chance."""
    by = f"Student's t, {n_splits} splits, Bonferroni over {n_differences} differences at 5%"
    if bound > _FAR:
        return f"So few splits tell only very large differences from chance ({by}); --seeds 20 tells smaller ones."
    return f"Beyond chance means more than {bound:.1f} standard errors ({by})."


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
    said = [(prior, str(results[SAFE].sel(prior=prior).item())) for prior in results["prior"].to_numpy().tolist()]
    if any(safe for _, safe in said):
        console.print("The safe way, choose(), asks the labeled rows of the first split before any other label is seen:")
        for prior, safe in said:
            console.print(f"- {prior} prior: {safe}", markup=False)
        console.print()


def _with_error(value: Estimate, form: str = ".3f") -> str:
    error = "n/a" if np.isnan(value.error) else f"{value.error:.3f}"
    return f"{value.mean:{form}} ± {error}"


def _cell(difference: Estimate | None) -> str:
    """A paired difference, empty where there is none."""
    return "" if difference is None else _with_error(difference, "+.3f")


def _pairs(pairs: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{criterion} ({prior} prior)" for prior, criterion in pairs)
