"""The report on what a pool is worth."""

from __future__ import annotations

from typing import Any

import numpy as np

from validation.pool.calibration import FEATURES, KEPT, N_LABELED, N_POOL, WAYS, uniformity
from validation.pool.wrong_model import FEATURES as OF_IONOSPHERE
from validation.pool.wrong_model import LABELED, MODELS


def _interval(values: np.ndarray) -> str:
    return f"{values.mean():+.3f} ± {1.96 * values.std(ddof=1) / np.sqrt(len(values)):.3f}"


def report(ranks: dict[str, np.ndarray], k_hat: np.ndarray, splits: list[dict[str, Any]]) -> str:
    """Calibration of either way to use a pool, and a data set on which integrating labels out does harm."""
    lines = [
        "# What a pool is worth",
        "",
        "`python -m validation.pool` computes what is missing in `validation/results/pool.json`, and writes this.",
        "",
        *_calibration(ranks, k_hat),
        "",
        *_wrong_model(splits),
        "",
    ]
    return "\n".join(lines)


def _calibration(ranks: dict[str, np.ndarray], k_hat: np.ndarray) -> list[str]:
    p_values = {way: uniformity(values) for way, values in ranks.items()}
    lines = [
        "## Calibration",
        "",
        f"{len(k_hat)} data sets from a model of two classes with {FEATURES} normal features, {N_LABELED} labels and a pool of "
        f"{N_POOL}: where the true parameters rank among {KEPT} draws of each posterior (simulation-based calibration). The "
        "first posterior has the pool's labels integrated out, by importance sampling from Laplace's Gaussians (k-hat above "
        f"0.7 in {(k_hat > 0.7).sum()} of {len(k_hat)}); the second is that with which self-training by PPP ends, all of the "
        "pool added.",
        "",
        "![ranks](pool.png)",
        "",
        "| posterior | smallest p-value of uniform ranks over five parameters | truths outside the central 80% of draws |",
        "|---|---|---|",
    ]
    for way in WAYS:
        share = ranks[way] / KEPT
        outside = float(((share < 0.1) | (share > 0.9)).mean())
        lines.append(f"| {way} | {p_values[way].min():.2g} | {outside:.0%} |")
    return [*lines, "", "Of a calibrated posterior 20% of the truths lie outside."]


def _wrong_model(splits: list[dict[str, Any]]) -> list[str]:
    accuracy = {name: np.array([split["accuracy"][name] for split in splits]) for name in MODELS}
    score = {name: np.array([split["log_score"][name] for split in splits]) for name in MODELS}
    promised = np.array([split["equivalent_labels"] for split in splits])
    lines = [
        "## A model of the features that is wrong",
        "",
        f"Ionosphere, {LABELED} of 351 rows labeled, {OF_IONOSPHERE} features, half of the others test rows, {len(splits)} "
        "splits. The class-conditional model takes features for independent normals within a class, which they are not. "
        f"`information` promised {promised.mean():.0f} labels, if the model is right. Differences with ± 1.96 standard errors.",
        "",
        "| model | accuracy | − logistic | − same model on D | log score |",
        "|---|---|---|---|---|",
    ]
    for name in MODELS:
        base, own = accuracy[MODELS[0]], accuracy[MODELS[1]]
        against = "–" if name == MODELS[0] else _interval(accuracy[name] - base)
        gained = _interval(accuracy[name] - own) if name in MODELS[2:] else "–"
        lines.append(f"| {name} | {accuracy[name].mean():.3f} | {against} | {gained} | {score[name].mean():.3f} |")
    return [*lines, "", _say(accuracy)]


def _say(accuracy: dict[str, np.ndarray]) -> str:
    """Whether integrating the labels out cost anything."""
    change = accuracy[MODELS[3]] - accuracy[MODELS[1]]
    error = 1.96 * change.std(ddof=1) / np.sqrt(len(change))
    if change.mean() < -error:
        said = "Integrating the labels out does harm here, in spite of what was promised"
    elif change.mean() > error:
        said = "Integrating the labels out helps even so"
    else:
        said = "Integrating the labels out gains nothing beyond chance, in spite of what was promised"
    return f"{said}: only labels that were set aside can tell."
