"""Logistic regressions by Newton's method for many tables and folds at once, and pipelines that are made of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.special import expit

from pymc_bpls.choosing.pipelines import SUPERVISED

_STEPS, _SMALL = 40, 1e-6
_FURTHEST = 3.0  # by which a Newton step may move a linear predictor, so that separated labels do not overshoot
_SHARPER = 1.5
#: Standard deviations of the coefficients that make the tables, which are the supervised model's prior too.
OF_TRUTH = np.array([0.5, 1.5, 1.5])
#: Of other pipelines' priors the mean, from that of the truth's on, and the standard deviations.
PRIORS = {
    "wide": (0.0, np.full(3, 10.0)),
    "low": (-2.0, OF_TRUTH),
    "share": (0.0, np.array([10.0, 1e-3, 1e-3])),
}
#: Pipelines beside the supervised model, by their number.
PIPELINES = {
    3: ("wide", "sharp", "self-trained"),
    6: ("wide", "sharp", "self-trained", "low", "at the mode", "share"),
}
IN_WORDS = (
    f"wide: coefficients of standard deviation 10; sharp: logits at the mode times {_SHARPER:g}; self-trained: the pool's "
    f"predicted labels taken for true; low: an intercept lower by {-PRIORS['low'][0]:g}; at the mode: the supervised model's; "
    "share: no slopes"
)


def fit(X: np.ndarray, y: np.ndarray, weights: np.ndarray, intercept: float, sd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Modes (T, F, q) and Hessians (T, F, q, q) of T tables X (T, n, q) in F folds, with labels y and weights (T, F, n).

    Coefficients are normal with standard deviations `sd` (q,) about 0, the first one about `intercept`.
    """
    mean, precision = np.array([intercept, 0.0, 0.0]), sd**-2.0
    T, F, n = weights.shape
    q = X.shape[2]
    products, transposed = (X[..., :, None] * X[..., None, :]).reshape(T, n, q * q), X.transpose(0, 2, 1)
    theta = np.tile(mean, (T, F, 1))
    for _ in range(_STEPS):
        p = expit(theta @ transposed)
        gradient = (weights * (y - p)) @ X - (theta - mean) * precision
        hessian = ((weights * p * (1 - p)) @ products).reshape(T, F, q, q) + np.diag(precision)
        step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        moved = np.abs(step @ transposed).max(axis=2)
        theta = theta + step * np.minimum(1, _FURTHEST / np.maximum(moved, _SMALL))[..., None]
        if moved.max() < _SMALL:
            break
    return theta, hessian


def averaged(theta: np.ndarray, hessian: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Class 1's probability (T, F, m) at X (T, m, q), or (1, m, q) for all, over Laplace's Gaussian (MacKay, 1992)."""
    covariance = np.linalg.inv(hessian)
    variance = ((X[:, None] @ covariance) * X[:, None]).sum(axis=-1)
    return expit(theta @ X.transpose(0, 2, 1) / np.sqrt(1 + np.pi * variance / 8))


def predict(
    X: np.ndarray, y: np.ndarray, weights: np.ndarray, pool: np.ndarray, at: np.ndarray, intercept: float, n_pipelines: int
) -> Mapping[str, np.ndarray]:
    """Of the supervised model and the pipelines, class 1's probability (T, F, m) at rows `at`, as in `averaged`.

    X (T, n, q) and y (T, n) are labeled rows, weights (T, F, n) say which of them train, pool (T, m', q) has no label.
    """
    labels = np.broadcast_to(y[:, None], weights.shape)
    fits = {SUPERVISED: fit(X, labels, weights, intercept, OF_TRUTH)}
    for name, (shift, sd) in PRIORS.items():
        if name in PIPELINES[n_pipelines]:
            fits[name] = fit(X, labels, weights, intercept + shift, sd)
    theta = fits[SUPERVISED][0]
    guessed = (theta @ pool.transpose(0, 2, 1) > 0).astype(float)
    fits["self-trained"] = fit(
        np.concatenate([X, pool], axis=1),
        np.concatenate([labels, guessed], axis=2),
        np.concatenate([weights, np.ones_like(guessed)], axis=2),
        intercept,
        OF_TRUTH,
    )
    logit = theta @ at.transpose(0, 2, 1)
    found = {name: averaged(*fitted, at) for name, fitted in fits.items()}
    found |= {"sharp": expit(_SHARPER * logit), "at the mode": expit(logit)}
    return {name: found[name] for name in (SUPERVISED, *PIPELINES[n_pipelines])}
