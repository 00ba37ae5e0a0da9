"""What an acceptance says of itself: what was accepted, what that guarantees, and how well confidences are calibrated."""

from __future__ import annotations

from math import ceil

import numpy as np

from pymc_bpls.acceptance.coverage import Coverage
from pymc_bpls.text.numbers import percent


def say_verdict(accepted: np.ndarray, p_values: np.ndarray, n: int, alpha: float, coverage: Coverage | None) -> str:
    """How many labels are accepted, or why none is; `n` is the number of calibration rows, the smallest of a class."""
    if accepted.any():
        left = "" if accepted.all() else " The others are for a person, in the order of rank."
        text = (
            f"{accepted.sum()} of {len(accepted)} pseudo-labels are accepted: at most a share of {alpha:g} of them is expected "
            f"to be wrong.{left}"
        )
    elif n < 1 / alpha - 1 - 1e-9:
        text = (
            f"Nothing is accepted: with {n} calibration labels no p-value is below 1/{n + 1}, and alpha = {alpha:g} takes "
            f"{ceil(1 / alpha - 1 - 1e-9)} or more."
        )
    else:
        text = (
            f"Nothing is accepted at alpha = {alpha:g}: the smallest p-value is {np.min(p_values, initial=1.0):.2g}, since "
            "predictions that confident were wrong too often."
        )
    return text if coverage is None or coverage.covered.all() else f"{text} {say_coverage(coverage)}"


def say_coverage(coverage: Coverage) -> str:
    """Rows that labeled rows do not cover."""
    count = int((~coverage.covered).sum())
    return (
        f"{count} of {len(coverage.covered)} candidates ({percent(coverage.share)}) have features that the labeled rows do not "
        f"cover (by {coverage.judged_by}), as rows of a class that no label has: look at them first."
    )


def say_guarantee(by: str, coverage: Coverage | None, *, per_class: bool) -> str:
    """For what, and how exactly, the bound holds."""
    within = "among the accepted labels of each class" if per_class else "among the accepted labels"
    how = (
        f"exact: the expected share of wrong labels {within} is at most alpha in finite samples, if labeled rows and "
        "candidates are exchangeable"
        if by == "split"
        else f"approximate: confidences are those without the row's own label, and the expected share of wrong labels {within} "
        "is about alpha at most, if labeled rows and candidates are exchangeable"
    )
    if coverage is None or coverage.covered.all():
        return f"{how}."
    return f"{how}. They are not: rows that the labeled rows do not cover are never accepted, and it is for the others alone."


def say_calibration(confidence: np.ndarray, right: np.ndarray) -> str:
    """Confidence beside accuracy of the calibration rows."""
    n = len(right)
    error = 1.96 * np.sqrt(max(float(np.sum(confidence * (1 - confidence))), 0.0)) / n
    off = float(right.mean() - confidence.mean())
    said = "as confidence says, to chance" if abs(off) <= error else f"{'under' if off > 0 else 'over'}confident beyond chance"
    return (
        f"Of {n} labeled rows, none predicted by its own label, {right.sum()} ({percent(float(right.mean()))}) are predicted "
        f"right, with a mean confidence of {confidence.mean():.2f}: {said}."
    )
