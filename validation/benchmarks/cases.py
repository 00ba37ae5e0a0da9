"""The data of the benchmarks: the paper's simulation with 60 features, and ionosphere, split by its protocol."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pymc as pm
from sklearn.datasets import load_digits

import pymc_bpls as bpls


@dataclass(frozen=True)
class Case:
    """Standardised rows, −1 where unlabeled: half of the data are left for testing, 80% of the rest are unlabeled."""

    name: str
    X: np.ndarray
    y: np.ndarray

    @property
    def size(self) -> str:
        """Labeled rows, candidates, and parameters with the intercept."""
        return f"{(self.y >= 0).sum()} / {(self.y < 0).sum()} / {self.X.shape[1] + 1}"


def case(name: str) -> Case:
    """`simulation-N` with N rows in all, `gaussian-N-M-Q` as below, or `ionosphere`."""
    if name.startswith("gaussian-"):
        return gaussian(*map(int, name.split("-")[1:]))
    if name == "ionosphere":
        data = bpls.load_dataset(name)
    else:
        data = bpls.simulate("code", int(name.split("-")[1]), 60, random_seed=1)
    return split(name, data["X"].to_numpy(), data["y"].to_numpy())


def split(name: str, X: np.ndarray, y: np.ndarray) -> Case:
    """Half of the rows, shuffled, of which a fifth keep their labels."""
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(X))[: len(X) // 2]
    n = max(2, len(rows) // 5)
    X = X[rows]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return Case(name, X, np.where(np.arange(len(rows)) < n, y[rows], -1))


def digits() -> Case:
    """200 of scikit-learn's digits, 64 pixels from 0 to 1, the first 40 labeled: ten classes."""
    data = load_digits()
    rows = np.random.default_rng(0).permutation(len(data.target))[:200]
    return Case("digits", data.data[rows] / 16, np.where(np.arange(200) < 40, data.target[rows], -1))


def hierarchy(n: int, m: int, groups: int, *, pool: bool = True) -> pm.Model:
    """n labeled rows and m candidates in so many groups, whose intercepts have a free scale, with four features.

    Without the `pool` it is PyMC's model of the labeled rows.
    """
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(n + m, 4)), rng.integers(groups, size=n + m)
    latent = X[:, 0] + rng.normal(size=groups)[group] + rng.logistic(size=n + m)
    labels, kept = np.where(np.arange(n + m) < n, latent > 0, -1), slice(None if pool else n)
    with pm.Model() as model:
        scale, z = pm.HalfNormal("scale", 1), pm.Normal("z", 0, 1, shape=groups)
        eta = pm.Normal("intercept", 0, 2) + X[kept] @ pm.Normal("slopes", 0, 1, shape=4) + (scale * z)[group[kept]]
        pm.Bernoulli("y", logit_p=eta, observed=labels[kept])
    return model


def gaussian(n: int, m: int, q: int, seed: int = 0) -> Case:
    """n labeled rows and m candidates with q standard normal features that all act."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + m, q))
    y = (X @ (rng.normal(size=q) * 2 / np.sqrt(q)) + rng.logistic(size=n + m) > 0).astype(int)
    return Case(f"gaussian-{n}-{m}-{q}", X, np.where(np.arange(n + m) < n, y, -1))
