"""One split of a setting: standardised features, classes, and which rows are labeled, candidates and judged."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

import pymc_bpls as bpls
from validation.rivals.designs import DESIGNS, simulate
from validation.rivals.settings import CODE, SUPPLEMENT, Setting
from validation.study.splits import Split, draw


class Drawn(NamedTuple):
    """Features (N, q), standardised over the rows that are labeled or candidates; classes (N,); positions of rows."""

    X: np.ndarray
    y: np.ndarray
    labeled: np.ndarray
    candidates: np.ndarray
    test: np.ndarray

    @property
    def known(self) -> np.ndarray:
        """The classes, −1 where there is no label."""
        return np.where(np.isin(np.arange(len(self.y)), self.labeled), self.y, -1)


@cache
def load(source: str) -> tuple[np.ndarray, np.ndarray]:
    """The features and classes of a data set; nothing of what is simulated.

    Raises
    ------
    DataUnavailableError
        The data set cannot be had.
    """
    if source in (CODE, SUPPLEMENT, *DESIGNS):
        return np.empty((0, 0)), np.empty(0, dtype=int)
    data = bpls.load_dataset(source)
    return data["X"].to_numpy(), data["y"].to_numpy()


def draw_split(setting: Setting, repetition: int) -> Drawn:
    """A split of a data set as in the study of the paper, or new rows of a population."""
    rng = np.random.default_rng([setting.n, repetition])
    X, y = _table(setting, rng)
    split: Split = draw(y, setting.sizes, rng)
    used = np.concatenate([split.labeled.positions, split.candidates, split.test.positions])
    X, y = X[used], y[used]
    n_labeled, n_candidates = len(split.labeled.positions), len(split.candidates)
    train = np.arange(n_labeled + n_candidates)
    spread = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(spread > 0, spread, 1)
    return Drawn(X, y, train[:n_labeled], train[n_labeled:], np.arange(len(train), len(y)))


def _table(setting: Setting, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    size = sum(setting.sizes)
    if setting.source in DESIGNS:
        return simulate(setting.source, size, setting.features, rng)
    if setting.simulated:
        data = bpls.simulate(setting.source, n=size, q=setting.features, random_seed=rng)
        return data["X"].to_numpy(), data["y"].to_numpy()
    return load(setting.source)
