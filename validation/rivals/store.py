"""What all repetitions in a file of results have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from validation.rivals.measures import BINS, LEAST, LEVEL
from validation.rivals.settings import Setting
from validation.study.store import Store

PYTHON, CHOOSING, R, ALONE, R_ALONE = "python", "choose", "r", "alone", "r_alone"


def protocol(setting: Setting) -> dict[str, Any]:
    """Of a setting; how many repetitions are wanted is no part of it."""
    return {**setting.sizes._asdict(), "bins": BINS, "level": LEVEL, "least": LEAST}


def stores(folder: Path) -> dict[str, Store[Setting]]:
    """A store for what is computed together: by the package and scikit-learn, the choice, in R, and what has labels alone."""
    return {name: Store(folder / "results" / "rivals" / name, protocol) for name in (PYTHON, CHOOSING, R, ALONE, R_ALONE)}
