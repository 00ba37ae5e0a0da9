"""Tables of the study: rows with labels, a pool, rows that judge, and models of both kinds on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pymc as pm
from scipy.special import expit

import pymc_bpls as bpls

FRESH = 10_000
FEATURES, OF_REAL = 5, 12
DISTANCE = 2.2  # of the Gaussian classes' means, in standard deviations
#: Of every model: the default while the repetitions that are stored were made. "auto" is the default now.
PREDICTOR = "map"
NOISE, LOGISTIC, GAUSSIAN = "noise", "logistic", "gaussian"


@dataclass(frozen=True)
class Drawn:
    """Features (N, q) and true classes (N,): first the labeled rows, then the pool, then those that judge."""

    X: np.ndarray
    truth: np.ndarray
    n_labeled: int
    n_pool: int

    @property
    def pool(self) -> np.ndarray:
        """Positions of the candidates."""
        return np.arange(self.n_labeled, self.n_labeled + self.n_pool)

    @property
    def judging(self) -> np.ndarray:
        """Positions of the rows that judge."""
        return np.arange(self.n_labeled + self.n_pool, len(self.X))

    @property
    def labels(self) -> np.ndarray:
        """−1 from the pool on."""
        return np.where(np.arange(len(self.X)) < self.n_labeled, self.truth, -1)


def draw(source: str, n_labeled: int, n_pool: int, features: int, rng: np.random.Generator) -> Drawn:
    """Of a simulation, with `FRESH` rows that judge, or of a bundled data set, with all of its other rows; two of each class at
    least are labeled.
    """
    while True:
        X, truth = _rows(source, n_labeled + n_pool + FRESH, features, rng)
        if np.bincount(truth[:n_labeled], minlength=2).min() > 1:
            return Drawn(X, truth, n_labeled, n_pool)


def _rows(source: str, n: int, features: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    if source == GAUSSIAN:
        truth = rng.integers(2, size=n)
        shift = rng.normal(size=features)
        return rng.normal(size=(n, features)) + np.outer(truth - 0.5, DISTANCE * shift / np.linalg.norm(shift)), truth
    if source in (NOISE, LOGISTIC):
        X = rng.normal(size=(n, features))
        logit = X @ rng.normal(size=features) if source == LOGISTIC else np.zeros(n)
        return X, (rng.random(n) < expit(logit)).astype(int)
    data = bpls.load_dataset(source)
    X, truth = data.X.values, data.y.values
    X = X[:, X.std(axis=0) > 0][:, :features]
    order = rng.permutation(len(X))
    return ((X - X.mean(axis=0)) / X.std(axis=0))[order], truth[order].astype(int)


def logistic(drawn: Drawn, scale: float = 2.5) -> bpls.BPLS:
    """A logistic regression."""
    with pm.Model() as model:
        slopes = pm.Normal("slopes", 0, scale, shape=drawn.X.shape[1])
        pm.Bernoulli("y", logit_p=pm.Normal("intercept", 0, scale) + drawn.X @ slopes, observed=drawn.labels)
    return bpls.BPLS(model, unlabeled=drawn.pool, predictor=PREDICTOR)


def class_conditional(drawn: Drawn) -> bpls.BPLS:
    """Independent normal features within a class, with scales that both share."""
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 2, shape=(2, drawn.X.shape[1]))
        scale = pm.LogNormal("scale", 0, 0.5, shape=drawn.X.shape[1])
        y = pm.Bernoulli("y", pm.Beta("share", 2, 2) * np.ones(len(drawn.X)), observed=drawn.labels)
        pm.Normal("x", mean[y], scale, observed=drawn.X)
    return bpls.BPLS(model, target="y", unlabeled=drawn.pool, predictor=PREDICTOR)
