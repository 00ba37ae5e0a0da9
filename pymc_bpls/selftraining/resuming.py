"""What a run keeps so that it can go on as if it had never ended: where its fits start from, its random numbers, its rows."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import xarray as xr

from pymc_bpls.approximations.gaussian import Gaussian, Sites
from pymc_bpls.errors import CriterionError
from pymc_bpls.model.table import Labeled
from pymc_bpls.scoring.scorer import Warm
from pymc_bpls.selftraining.run import Run
from pymc_bpls.selftraining.stop_rules import NoGain, Stop


def state_dataset(run: Run) -> xr.Dataset:
    """Where the next round starts from: the mode that refits share, or the Gaussians by `k`; attrs: the generator's state."""
    state = json.dumps(run.random_state, default=lambda array: array.tolist())
    return _warm_dataset(run.warm).assign_attrs(random_state=state)


def _warm_dataset(warm: Warm) -> xr.Dataset:
    if warm is None:
        return xr.Dataset()
    if isinstance(warm, np.ndarray):
        return xr.Dataset({"shared": ("parameter", warm)})
    fits = list(warm.values())
    found = xr.Dataset(
        {
            "mean": (("k", "parameter"), np.stack([q.mean for q in fits])),
            "covariance": (("k", "parameter", "parameter_bis"), np.stack([q.covariance for q in fits])),
        },
        coords={"k": list(warm)},
    )
    sites = [q.sites for q in fits if q.sites is not None]
    if not sites:
        return found
    return found.assign(
        tau=(("k", "site"), np.stack([each.tau for each in sites])),
        nu=(("k", "site"), np.stack([each.nu for each in sites])),
        rows=("k", [len(each.labeled) for each in sites]),
    )


def read_warm(run: xr.DataTree, labeled: Labeled) -> Warm:
    """Where the next round of a run starts from, D being `labeled`."""
    state = run["state"].to_dataset()
    if "shared" in state:
        return state["shared"].to_numpy()
    if "mean" not in state:
        return None
    return {int(k): _gaussian(state.sel(k=k), labeled) for k in state["k"].to_numpy()}


def _gaussian(state: xr.Dataset, labeled: Labeled) -> Gaussian:
    sites = None
    if "tau" in state:
        n = int(state["rows"])
        D = Labeled(labeled.positions[:n], labeled.codes[:n], labeled.weights[:n])
        sites = Sites(D, state["tau"].to_numpy(), state["nu"].to_numpy())
    return Gaussian(state["mean"].to_numpy(), state["covariance"].to_numpy(), sites=sites)


def read_generator(run: xr.DataTree) -> np.random.Generator:
    """The generator of a run, after the draws of its last round.

    Raises
    ------
    CriterionError
        It is none of NumPy's.
    """
    state = json.loads(run["state"].attrs["random_state"])
    name = state["bit_generator"]
    if not hasattr(np.random, name):
        raise CriterionError(f"The run drew random numbers by {name}, which is none of NumPy's. Give random_seed= again.")
    bits = getattr(np.random, name)()
    bits.state = state
    return np.random.Generator(bits)


def kept_test(run: xr.DataTree, test: Any, n_rows: int) -> Any:
    """The test set of a run that goes on: rows of the table as they were, new rows as they are given again.

    Raises
    ------
    CriterionError
        New rows are not given, or others than the run had.
    """
    had = run["test"].to_dataset() if "test" in run else None
    if had is None and test is not None:
        raise CriterionError("test= is given, and the run began without test rows. Leave it out, or start again with it.")
    if had is None:
        return None
    rows, labels = had["row"].to_numpy(), had["label"].to_numpy()
    if test is None and rows.max() >= n_rows:
        raise CriterionError("The run had new rows as test rows, which are not kept. Give them again in test=.")
    if test is None:
        return rows, labels
    if list(np.asarray(test[1]).tolist()) != labels.tolist():
        raise CriterionError(f"test= has other labels than the {len(labels)} test rows of the run. Give the same rows again.")
    return test


def kept_aside(run: xr.DataTree, rules: list[Stop]) -> np.ndarray:
    """Positions of the labeled rows that a run set aside, whatever share its `NoGain` names now.

    Raises
    ------
    CriterionError
        `NoGain` is new to the run, or names other rows.
    """
    rule = next((rule for rule in rules if isinstance(rule, NoGain)), None)
    if "held_out" not in run:
        if rule is not None:
            raise CriterionError("stop= holds NoGain, and the run set no labeled rows aside. Start it again with NoGain.")
        return np.empty(0, dtype=int)
    rows = run["held_out"]["row"].to_numpy()
    if rule is not None and isinstance(rule.rows, tuple) and sorted(rule.rows) != rows.tolist():
        raise CriterionError(f"NoGain(rows=) names other rows than {rows.tolist()}, which the run set aside. Name the same.")
    return rows
