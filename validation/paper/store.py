"""What all repetitions in a file of results have in common."""

from __future__ import annotations

from typing import Any

from validation.paper.runs.original import EVERY
from validation.paper.runs.repetition import FRESH
from validation.paper.runs.tables import AMPLITUDE, CURVED_SEED, KNOTS, POPULATION, SEED, SHIFT, WIGGLY
from validation.paper.settings import CURVED, LINEAR, Setting


def protocol(setting: Setting) -> dict[str, Any]:
    """Of a setting; how many repetitions are wanted is no part of it."""
    common = {**setting.sizes._asdict(), "methods": list(setting.methods), "points": setting.points, "every": EVERY}
    spline = {} if setting.basis == LINEAR else {"knots": KNOTS, "wiggly": WIGGLY}
    prior = {"shift": SHIFT} if setting.prior.centre == "shifted" else {}
    if setting.features is None:
        return common | spline | prior
    seeds = {"seed": CURVED_SEED, "amplitude": AMPLITUDE} if setting.source == CURVED else {"seed": SEED}
    return common | spline | prior | {"population": POPULATION, "fresh": FRESH} | seeds
