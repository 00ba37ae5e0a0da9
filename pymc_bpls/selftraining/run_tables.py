"""A run as figures and summaries show it, which takes no model: the one reader of runs that nobody goes on with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from pymc_bpls.text.attributes import strings
from pymc_bpls.text.incomplete import as_it_was_left

#: What every run has of each pseudo-label.
_STEP = ("candidate", "pseudo_label", "score", "gap", "round", "n_labeled")


@dataclass(frozen=True)
class RunTables:
    """A run as a figure or a summary shows it.

    `labels` are those of the labeled rows that the run started from, `classes` those of the model in its order; `theta` is the
    last mode, of `parameters`. Of a set `rule` and `members` are the names.
    """

    criterion: str
    approximation: str
    verdict: str
    stop_reason: str
    history: xr.Dataset
    curve: xr.Dataset
    labels: np.ndarray
    classes: np.ndarray
    n_test: int
    n_held_out: int
    theta: np.ndarray
    parameters: tuple[str, ...]
    rule: str | None
    members: tuple[str, ...]


def read_tables(run: xr.DataTree) -> RunTables:
    """What figures and summaries show of a run.

    Raises
    ------
    CriterionError
        It is not as `self_train` left it.
    """
    with as_it_was_left("run=", "self_train"):
        return _read(run)


def _read(run: xr.DataTree) -> RunTables:
    history, curve, labels = run["history"].to_dataset(), run["curve"].to_dataset(), run["labeled"]["label"].to_numpy()
    history[[*_STEP]], curve[["weight"]]
    # files of before version 3 hold gaps within a batch, which can be below 0 and say nothing of the choice
    history = history.assign(gap=history["gap"].where(history["gap"] >= 0))
    return RunTables(
        criterion=str(run.attrs["criterion"]),
        approximation=str(run.attrs["approximation"]),
        verdict=str(run.attrs["verdict"]),
        stop_reason=str(run.attrs["stop_reason"]),
        history=history,
        curve=curve,
        labels=labels[: len(labels) - history.sizes["step"]],
        classes=_read_classes(labels, strings(run["labeled"].attrs.get("classes", []))),
        n_test=run["test"].sizes["row"] if "test" in run else 0,
        n_held_out=run["held_out"].sizes["row"] if "held_out" in run else 0,
        theta=run["unconstrained"]["mode"].to_numpy(),
        parameters=tuple(run["unconstrained"]["parameter"].to_numpy().tolist()),
        rule=str(run.attrs["rule"]) if "rule" in run.attrs else None,
        members=tuple(run["members"]["member"].to_numpy().tolist()) if "members" in run else (),
    )


def _read_classes(labels: np.ndarray, texts: list[str]) -> np.ndarray:
    """The classes in the order of `texts`, which name them all, or else those that occur, sorted; text where none occurs."""
    occurring = np.unique(labels)
    named = {str(name): name for name in occurring}
    if not named.keys() <= set(texts):
        return occurring
    return np.array([named.get(text, text) for text in texts], dtype=object)
