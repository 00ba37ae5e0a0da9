"""The report on what a pool is worth."""

from __future__ import annotations

from typing import Any

import numpy as np

from validation.pool.bands import LEVEL, leave
from validation.pool.calibration import AT_ONCE, BINS, FEATURES, KEPT, N_LABELED, N_POOL, PARAMETERS, ROUNDS, WAYS, uniformity
from validation.pool.wrong_model import FEATURES as OF_IONOSPHERE
from validation.pool.wrong_model import LABELED, MODELS
from validation.rivals.measures import LEAST
from validation.study.intervals import Interval


def _interval(values: np.ndarray) -> str:
    found = Interval.of(values)
    return f"{found.mean:+.3f} ± {found.half:.3f}"


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
        f"0.7 in {(k_hat > 0.7).sum()} of {len(k_hat)}); the second is Laplace's Gaussian at the "
        f"end of self-training by PPP, which scored by Laplace's method and added all of the pool in {ROUNDS} rounds, "
        f"{AT_ONCE} rows a round.",
        "",
        "![ranks](pool.png)",
        "",
        "Lines: for each parameter (the share of a class, in log odds, and the mean of each class and feature), the share of "
        "data sets in which the truth's rank is this one or a lower one, less what it is where ranks are uniform. Of uniform "
        f"ranks {LEVEL:.0%} of the curves stay within the grey band everywhere (Säilynoja et al., 2022). Where draws are too "
        "narrow, truths lie at both ends, and curves rise at first and end below.",
        "",
        f"| posterior | smallest p-value of uniform ranks, times {len(PARAMETERS)} | curves that leave the band "
        "| truths outside the central 80% of draws |",
        "|---|---|---|---|",
    ]
    for way in WAYS:
        share = ranks[way] / KEPT
        outside = float(((share < 0.1) | (share > 0.9)).mean())
        smallest = min(1.0, len(PARAMETERS) * p_values[way].min())
        lines.append(f"| {way} | {smallest:.2g} | {leave(ranks[way])} of {len(PARAMETERS)} | {outside:.0%} |")
    return [
        *lines,
        "",
        f"The p-values are those of Pearson's test in {BINS} bins; the smallest of {len(PARAMETERS)} is multiplied by their "
        "number (Bonferroni). Of a calibrated posterior 20% of the truths lie outside.",
    ]


def _wrong_model(splits: list[dict[str, Any]]) -> list[str]:
    accuracy = {name: np.array([split["accuracy"][name] for split in splits]) for name in MODELS}
    score = {name: np.array([split["log_score"][name] for split in splits]) for name in MODELS}
    promised = np.array([split["equivalent_labels"] for split in splits])
    lines = [
        "## A model of the features that is wrong",
        "",
        f"Ionosphere, {LABELED} of 351 rows labeled, {OF_IONOSPHERE} features, half of the others test rows, {len(splits)} "
        "splits. The class-conditional model takes features for independent normals within a class, which they are not. "
        f"`information` promised {promised.mean():.0f} labels, if the model is right. Differences with 95% t intervals over "
        "splits, which share rows of the one table: they speak of splits of it, not of other tables. Log scores have no least "
        f"value here; in the study of rivals a probability counts as {LEAST:g} at least, so that scores of the two studies "
        "cannot be compared.",
        "",
        "| model | accuracy | − logistic | − same model on D | log score | its difference from the same model on D |",
        "|---|---|---|---|---|---|",
    ]
    for name in MODELS:
        base, own = accuracy[MODELS[0]], accuracy[MODELS[1]]
        against = "–" if name == MODELS[0] else _interval(accuracy[name] - base)
        integrated = name in MODELS[2:]
        gained = _interval(accuracy[name] - own) if integrated else "–"
        nats = _interval(score[name] - score[MODELS[1]]) if integrated else "–"
        lines.append(f"| {name} | {accuracy[name].mean():.3f} | {against} | {gained} | {score[name].mean():.3f} | {nats} |")
    return [*lines, "", _say(accuracy, score)]


def _say(accuracy: dict[str, np.ndarray], score: dict[str, np.ndarray]) -> str:
    """Whether integrating the labels out cost anything, and whether it did with a small weight."""
    _, alone, small, whole = MODELS
    sign = Interval.of(accuracy[whole] - accuracy[alone]).sign
    said = {
        -1: "Integrating the labels out does harm here, in spite of what was promised.",
        0: "Integrating the labels out gains nothing beyond chance, in spite of what was promised.",
        1: "Integrating the labels out helps even so.",
    }[sign]
    loses = all(Interval.of(each[small] - each[alone]).sign < 0 for each in (accuracy, score))
    less = all(Interval.of(each[small] - each[whole]).sign > 0 for each in (accuracy, score))
    return said + (" A weight of 0.1 lost less, but lost." if loses and less else "")
