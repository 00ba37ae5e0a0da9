"""What all repetitions in a file of results have in common."""

from __future__ import annotations

from typing import Any

from validation.simplified.repetition import DRAWS, EVERY
from validation.simplified.settings import FEATURES, POPULATION, PRIOR_SD, SEED, SIMULATED, Setting


def protocol(setting: Setting) -> dict[str, Any]:
    """Of a setting."""
    common = {**setting.sizes._asdict(), "prior_sd": PRIOR_SD, "every": EVERY, "draws": DRAWS}
    simulation = {"features": FEATURES, "population": POPULATION, "seed": SEED}
    chosen = {} if setting.first is None else {"first": setting.first}
    return common | chosen | (simulation if setting.source == SIMULATED else {})
