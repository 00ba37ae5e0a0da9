"""In what a run's table and model differ from those that it is given to, in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import xarray as xr

from pymc_bpls.model.problem import Problem
from pymc_bpls.text.attributes import strings

#: The attribute of a run that holds the fingerprint of each part.
PARTS = "table_parts"


def say_other(run: Any, problem: Problem) -> str:
    """Which parts differ, as far as the run keeps them, of how many rows the labels do, and what to do."""
    said = "run= is no run of this table and model"
    if not isinstance(run, xr.DataTree) or "table" not in run.attrs:
        return f"{said}. Give what self_train returned to the BPLS that made it."
    table = run.attrs["table"]
    kept, own = strings(run.attrs.get(PARTS, [])), problem.parts_as_in(table)
    parts = [name for name, value in zip(kept[::2], kept[1::2], strict=True) if own.get(name) != value]
    if not {"data", "labels"}.isdisjoint(parts):  # of other rows the likelihood has other values, whatever the model is
        parts = [name for name in parts if name != "likelihood"]
    rows = _relabeled(run, problem) if "classes" not in parts else np.empty(0, dtype=int)
    if rows.size:
        which = problem.words.one(rows[0])
        of = f"of {which}" if rows.size == 1 else f"of {rows.size} rows, the first: {which}"
        parts = [f"labels ({of})", *(part for part in parts if part != "labels")]
    if "classes" in parts:
        parts[parts.index("classes")] = f"classes ({_in_words(problem.classes.names)} here{_classes_of(run)})"
    if not parts:
        return f"{said}: its data, candidates or priors differ. Declare them as they were, or begin again by self_train."
    also = " New labels are taken in by a new self_train." if rows.size else ""
    verb = "differs" if parts == ["likelihood"] else "differ"
    return f"{said}: its {', '.join(parts)} {verb}. Declare the same model, classes, data and labels to go on.{also}"


def _classes_of(run: xr.DataTree) -> str:
    if "labeled" not in run.children or "classes" not in run["labeled"].attrs:
        return ""
    return f", {_in_words(strings(run['labeled'].attrs['classes']))} there"


def _in_words(names: Iterable[Any]) -> str:
    return ", ".join(str(name) for name in names)


def _relabeled(run: xr.DataTree, problem: Problem) -> np.ndarray:
    """Positions of rows, in both tables, whose labels differ."""
    if not {"labeled", "history"} <= set(run.children):
        return np.empty(0, dtype=int)
    own = dict(zip(problem.labeled.positions.tolist(), problem.classes.names[problem.labeled.codes].tolist(), strict=True))
    labeled, n_added = run["labeled"], run["history"].sizes["step"]
    first = labeled.to_dataset().isel(row=slice(labeled.sizes["row"] - n_added))
    groups = [first, *([run["held_out"].to_dataset()] if "held_out" in run.children else [])]
    its = {row: name for group in groups for row, name in _pairs(group)}
    differ = [row for row in own.keys() | its.keys() if str(own.get(row)) != str(its.get(row))]
    return np.sort(np.array([row for row in differ if row < problem.source.n_rows], dtype=int))


def _pairs(rows: xr.Dataset) -> list[tuple[int, Any]]:
    return list(zip(rows["row"].to_numpy().tolist(), rows["label"].to_numpy().tolist(), strict=True))
