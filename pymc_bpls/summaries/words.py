"""What several summaries say alike: numbers, classes, and the members of a set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pymc_bpls.text.attributes import strings
from pymc_bpls.text.numbers import percent


def say_set(rule: str | None, members: Any) -> list[str]:
    """The rule and the members of a set."""
    if rule is None:
        return []
    return [f"By {rule} over {len(members)} members: {', '.join(str(name) for name in members)}."]


def count_classes(labels: np.ndarray, labeled: np.ndarray | None = None) -> str:
    """How many of each class, and how many of the labeled rows."""
    beside = {
        name: "" if labeled is None else f"; labeled rows {percent((labeled == name).mean())}" for name in np.unique(labels)
    }
    return ", ".join(
        f"{(labels == name).sum()} of class {name} ({percent((labels == name).mean())}{text})" for name, text in beside.items()
    )


def say_trust(attrs: Mapping[Any, Any]) -> str:
    """Whether what was sampled is to be trusted, or why not."""
    reasons = strings(attrs.get("reasons", []))
    return f"Not to be trusted: {'; '.join(reasons)}." if reasons else "No diagnostic speaks against it."
