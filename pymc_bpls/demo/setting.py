"""What the demo is about: rows of a table, two models of them, and random splits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pymc as pm

from pymc_bpls.bpls import BPLS
from pymc_bpls.comparison.splits import Split
from pymc_bpls.datasets import load_dataset


@dataclass(frozen=True)
class Setting:
    """A data set, the rows of a split, the prior's scale, how many rows a round adds, and how many splits."""

    dataset: str = "ionosphere"
    n_labeled: int = 34
    n_unlabeled: int = 100
    scale: float = 2.5
    batch_size: int = 10
    seeds: int = 20

    @property
    def n_held_out(self) -> int:
        """Rows that judge."""
        return int(load_dataset(self.dataset).sizes["row"]) - self.n_labeled - self.n_unlabeled

    def split(self, seed: int) -> Split:
        """A random split of the data set's rows."""
        rows = np.random.default_rng(seed).permutation(load_dataset(self.dataset).sizes["row"])
        first, second = self.n_labeled, self.n_labeled + self.n_unlabeled
        return Split(rows[:first], rows[first:second], rows[second:])


def regression(setting: Setting, split: Split) -> BPLS:
    """p(y | x, θ): a logistic regression under Normal(0, scale) coefficients of standardised features."""
    X, y = _rows(setting, split)
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, setting.scale)
        beta = pm.Normal("beta", 0, setting.scale, shape=X.shape[1])
        pm.Bernoulli("label", logit_p=intercept + pm.math.dot(X, beta), observed=y)
    return BPLS(model, unlabeled=split.candidates)


def class_conditional(setting: Setting, split: Split) -> BPLS:
    """p(y | θ) p(x | y, θ): features of each class are independent and normal about its mean."""
    X, y = _rows(setting, split)
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1, shape=(2, X.shape[1]))
        spread = pm.LogNormal("spread", 0, 0.5, shape=X.shape[1])
        label = pm.Bernoulli("label", pm.Beta("share", 2, 2), observed=y)
        pm.Normal("features", mean[label], spread, observed=X)
    return BPLS(model, target="label", unlabeled=split.candidates)


def _rows(setting: Setting, split: Split) -> tuple[np.ndarray, np.ndarray]:
    """Features of all rows, standardised, which uses no label, and the labels of the labeled ones, −1 for others."""
    data = load_dataset(setting.dataset)
    X, truth = data["X"].to_numpy(), data["y"].to_numpy()
    return (X - X.mean(0)) / X.std(0), np.where(np.isin(np.arange(len(truth)), split.labeled), truth, -1)
