"""A declared model on its table."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pymc_bpls.model.data.table import HOW_TO_MARK
from pymc_bpls.model.problem import Problem
from pymc_bpls.selftraining.verdict import say_pool
from pymc_bpls.text.numbers import percent
from pymc_bpls.text.summary import Summary

_TOLD = 4


def summarise_problem(problem: Problem, n_lazy: int = 0) -> Summary:
    """A declared model on its table, with so many rows of a lazy pool."""
    table, names = problem.table, problem.classes.names
    counts = np.bincount(table.codes[table.labeled], minlength=len(names))
    held_out = len(table.codes) - len(table.used)
    variables = ", ".join(f"{rv.name}" for rv in problem.model.free_RVs)
    sentences = [
        f'BPLS of "{problem.name}": {len(table.labeled)} labeled rows, {len(table.candidates) + n_lazy:,} candidates, '
        f"{_say_classes(names)}, {problem.density.dimension} unconstrained parameters"
        f"{'' if problem.density.joint is None else ', rows that depend on each other'}",
        *([] if len(table.candidates) or n_lazy else [f"No row is a candidate. {HOW_TO_MARK}"]),
        say_pool(problem.pool_terms_of_all),
        f"{held_out} rows are neither labeled nor candidates." if held_out else "Every row is labeled or a candidate.",
        f"Free variables: {variables}.",
        "Priors are proper." if problem.proper else "A prior is improper, so that there are no absolute values.",
    ]
    frame = pd.DataFrame({"labeled rows": counts, "share": counts / counts.sum()}, index=pd.Index(names, name="class"))
    return Summary(sentences, frame, frame.assign(share=frame["share"].map(percent)))


def _say_classes(names: np.ndarray) -> str:
    """How many classes there are, and which codes stand for the first of them where names are no codes."""
    if names.tolist() == list(range(len(names))):
        return f"{len(names)} classes"
    told = ", ".join(f"{code} = {name}" for code, name in enumerate(names[:_TOLD].tolist()))
    return f"{len(names)} classes ({told}{', …' if len(names) > _TOLD else ''})"
