"""In what a run's table and model differ from those that it is given to, in words."""

from __future__ import annotations

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
    kept = strings(run.attrs.get(PARTS, []))
    parts = [name for name, own in zip(kept[::2], kept[1::2], strict=True) if problem.parts.get(name) != own]
    rows = _relabeled(run, problem)
    if rows.size:
        which = problem.words.one(rows[0])
        of = f"of {which}" if rows.size == 1 else f"of {rows.size} rows, the first: {which}"
        parts = [f"labels ({of})", *(part for part in parts if part != "labels")]
    if not parts:
        return f"{said}: its data, candidates or priors differ. Declare them as they were, or begin again by self_train."
    also = " New labels are taken in by a new self_train." if rows.size else ""
    return f"{said}: its {', '.join(parts)} differ. Declare the same data, labels and priors to go on.{also}"


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
