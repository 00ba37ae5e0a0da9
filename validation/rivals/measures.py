"""How good class probabilities are on rows whose classes are known."""

from __future__ import annotations

import numpy as np

ACCURACY, LOG_SCORE, ECE, COVERAGE, SIZE, SURENESS, SECONDS = (
    "accuracy",
    "log score",
    "calibration error",
    "coverage",
    "set size",
    "sureness",
    "seconds",
)
BINS, LEVEL = 10, 0.9
#: What a probability of 0 counts as in the log score, which would be infinite.
LEAST = 1e-6


def measure(p: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Of class probabilities (t, K) of rows with classes y (t,)."""
    sets = class_sets(p)
    of_truth = p[np.arange(len(y)), y]
    return {
        ACCURACY: float((p.argmax(axis=1) == y).mean()),
        LOG_SCORE: float(np.log(np.maximum(of_truth, LEAST)).mean()),
        ECE: calibration_error(p, y),
        COVERAGE: float(sets[np.arange(len(y)), y].mean()),
        SIZE: float(sets.sum(axis=1).mean()),
        SURENESS: float(p.max(axis=1).mean()),
    }


def class_sets(p: np.ndarray) -> np.ndarray:
    """Which classes (t, K) are in the smallest set whose probability is 90% or more."""
    order = np.argsort(-p, axis=1, kind="stable")
    before = np.cumsum(np.take_along_axis(p, order, axis=1), axis=1) - np.take_along_axis(p, order, axis=1)
    sets = np.zeros(p.shape, dtype=bool)
    np.put_along_axis(sets, order, before < LEVEL, axis=1)
    return sets


def calibration_error(p: np.ndarray, y: np.ndarray) -> float:
    """Expected calibration error: |share right − mean probability of the predicted class|, over ten bins of the latter."""
    confidence, right = p.max(axis=1), p.argmax(axis=1) == y
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, right - confidence, minlength=BINS)
    return float(np.abs(gaps).sum() / len(y))
