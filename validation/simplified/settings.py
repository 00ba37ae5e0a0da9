"""The settings of the study: tables, the model declared once on each, and the splits of the paper's protocol."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import pymc as pm
import xarray as xr

import pymc_bpls as bpls
from pymc_bpls.rows import Labeled
from pymc_bpls.scoring import Scorer
from pymc_bpls.selftraining import HeldOut

SIMULATED = "simulated"
FEATURES, POPULATION, SEED = 4, 4000, 1
TEST_SHARE, UNLABELED_SHARE = 0.5, 0.8
PRIOR_SD = 2.5


@dataclass(frozen=True)
class Setting:
    """`n` rows of a data set, drawn anew in every repetition."""

    source: str
    n: int

    @property
    def key(self) -> str:
        """Names its file of results."""
        return f"{self.source}-{self.n}"

    @property
    def title(self) -> str:
        """Names it to a reader."""
        name = self.source.upper() if self.source == "eeg" else self.source
        return f"{name}, n = {self.n}"

    @property
    def sizes(self) -> tuple[int, int, int]:
        """How many rows are for testing, labeled and candidates."""
        test = round(TEST_SHARE * self.n)
        candidates = round(UNLABELED_SHARE * (self.n - test))
        return test, self.n - test - candidates, candidates


SETTINGS = (
    Setting(SIMULATED, 120),
    Setting("banknote", 200),
    Setting("abalone", 100),
    Setting("eeg", 182),
    Setting("abalone", 400),
    *(Setting("ionosphere", n) for n in (220, 260, 300, 350)),
)
QUICK = SETTINGS[:2]


class Split(NamedTuple):
    """D, the rows that get pseudo-labels, and those on which models are judged."""

    labeled: Labeled
    candidates: np.ndarray
    test: HeldOut


@dataclass(frozen=True)
class Declared:
    """A table's scorer, which compiles once for all settings and repetitions, and the true classes of its rows."""

    scorer: Scorer
    y: np.ndarray

    def split(self, setting: Setting, repetition: int) -> Split:
        """A random split with the paper's shares, drawn again until both classes are labeled."""
        rng = np.random.default_rng([setting.n, repetition])
        n_test, n_labeled, _ = setting.sizes
        while True:
            rows = rng.permutation(len(self.y))[: setting.n]
            test, labeled, candidates = np.split(rows, [n_test, n_test + n_labeled])
            if len(np.unique(self.y[labeled])) == 2:
                break
        d = Labeled(labeled, self.y[labeled], np.ones(n_labeled))
        return Split(d, np.sort(candidates), HeldOut(test, self.y[test]))


@cache
def load(source: str) -> xr.Dataset:
    """The table: of simulated data a population, from which every repetition draws other rows."""
    if source == SIMULATED:
        return bpls.simulate("supplement", n=POPULATION, q=FEATURES, random_seed=SEED)
    return bpls.load_dataset(source)


@cache
def declare(source: str) -> Declared:
    """Logistic regression with an intercept on the standardised table, its coefficients Normal(0, 2.5)."""
    data = load(source)
    X, y = data["X"].to_numpy(), data["y"].to_numpy()
    design = np.column_stack([np.ones(len(X)), (X - X.mean(axis=0)) / X.std(axis=0)])
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, PRIOR_SD, shape=design.shape[1])
        pm.Bernoulli("y", logit_p=design @ beta, observed=y)
    return Declared(bpls.BPLS(model)._scorer, y)
