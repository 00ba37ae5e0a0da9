"""A run of self-training: whether it helped, its first and last model, how it ended, and what it added."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pymc_bpls.scoring.criteria import LAPLACE
from pymc_bpls.scoring.settings import source_of_error
from pymc_bpls.selftraining.run_tables import RunTables
from pymc_bpls.summaries.words import count_classes, say_set
from pymc_bpls.text.numbers import number
from pymc_bpls.text.summary import Summary


def summarise_run(run: RunTables) -> Summary:
    """A run: whether it helped, its first and last model, how it ended, and what it added."""
    ends, added = run.curve.isel(n_pseudo=[0, -1]), run.history["pseudo_label"].to_numpy()
    n_pseudo = ends["n_pseudo"].to_numpy()
    table: dict[str, Any] = {"rows in D": len(run.labels) + n_pseudo}
    named = {"accuracy": "accuracy", "log_score": "log score", "held_out_log_score": "log score of rows set aside"}
    for name, said in named.items():
        if name in ends:
            table[said] = ends[name].to_numpy()
    if "log_evidence" in ends:
        table["log evidence a row"] = (ends["log_evidence"] / ends["weight"]).to_numpy()
    done = int(run.history["round"].max()) if len(added) else 0
    rounds = f"{done} {'round' if done == 1 else 'rounds'}"
    sentences = [
        run.verdict,
        f'Ended after {rounds} of "{run.criterion}" ({run.approximation}): {run.stop_reason.rstrip(".")}.',
        *say_set(run.rule, run.members),
        *(["Log evidence is by Laplace's method, where there is a mode."] if "log_evidence" in ends else []),
        *([f"Pseudo-labels: {count_classes(added, run.labels)}."] if len(added) else []),
        *_say_leads(run),
    ]
    frame = pd.DataFrame(table, index=["supervised", f"{n_pseudo[-1]} pseudo-labels"])
    return Summary(sentences, frame if len(added) else frame.iloc[:1])


def _say_leads(run: RunTables) -> list[str]:
    """How far choices were ahead of the next best row, how many are known to be ties, and what measures the rest."""
    gap = run.history["gap"].to_numpy()
    known = np.isfinite(gap)
    if not known.any():
        return []
    said = f"Choices were ahead of the next best row by {number(np.median(gap[known]))} (median)"
    error = run.history["own_error"].to_numpy() if "own_error" in run.history else np.zeros(len(gap))
    tied = int((gap[known] < error[known]).sum())
    source = source_of_error(run.criterion, run.approximation)
    ties = f"; {tied} of {known.sum()} are ties: they were ahead by less than the error of a difference by {source}"
    also = " Only audit_along measures how far scores are off." if run.criterion in LAPLACE else ""
    return [f"{said}{ties if tied else ''}.{also}"]
