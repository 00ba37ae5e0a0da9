"""One repetition: all methods of a setting self-train on the same split."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
from scipy.optimize import linprog

from validation.paper.runs import methods, original
from validation.paper.runs.tables import declare
from validation.paper.settings import BY_GLM, FLAT, NONE, Setting
from validation.study.splits import draw

FRESH = 1000  # rows of a simulated population on which models are judged besides the test rows


def repeat(setting: Setting, repetition: int) -> dict[str, Any]:
    """Everything that is stored of one repetition. Settings with the same table and n have the same splits."""
    declared = declare(setting)
    split = draw(declared.table.y, setting.sizes, np.random.default_rng([setting.n, repetition]))
    fresh = split.other[:FRESH] if setting.features else split.other[:0]
    record: dict[str, Any] = {"separated": separated(declared.design[split.labeled.positions], split.labeled.codes), "runs": {}}
    # the emulation of the authors' code has raw features, the models without a prior those of the models with one
    by_glm = replace(declared.table, X=declared.design[:, 1:]) if setting.prior == NONE else declared.table
    for method in setting.methods_of(repetition):
        rng = np.random.default_rng([setting.n, repetition, 1])
        if method in BY_GLM:
            curve, counts = original.self_train(method, by_glm, split, fresh, rng)
            if counts is not None:
                record["values"] = asdict(counts)
        elif method in FLAT and record["separated"]:
            continue
        else:
            curve = methods.self_train(method, declared, split, fresh, rng)
        if len(curve.order) == len(split.candidates):
            record["runs"][method] = curve.record(declared.table.y, setting.points)
    return record


def separated(design: np.ndarray, y: np.ndarray) -> bool:
    """Whether a hyperplane has the classes on either side, so that the likelihood has no maximum."""
    signed = np.where(y == 1, 1, -1)[:, None] * design
    found = linprog(np.zeros(design.shape[1]), A_ub=-signed, b_ub=-np.ones(len(y)), bounds=(None, None))
    return bool(found.status == 0)
