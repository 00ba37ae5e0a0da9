"""The settings of the study: tables, the model declared once on each, and the splits of the paper's protocol."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pymc as pm
import xarray as xr

import pymc_bpls as bpls
from pymc_bpls.engine.engine import Engine
from validation.study.splits import Sizes, Split, draw

SIMULATED = "simulated"
FEATURES, POPULATION, SEED = 4, 4000, 1
UNLABELED_SHARE = 0.8
PRIOR_SD = 2.5


@dataclass(frozen=True)
class Setting:
    """`n` rows of a data set, drawn anew in every repetition; with all of its features or the `first` so many."""

    source: str
    n: int
    first: int | None = None

    @property
    def key(self) -> str:
        """Names its file of results."""
        return f"{self.source}-{self.n}" if self.first is None else f"{self.source}-q{self.first}-{self.n}"

    @property
    def title(self) -> str:
        """Names it to a reader."""
        name = self.source.upper() if self.source == "eeg" else self.source
        features = "" if self.first is None else f", q = {self.first}"
        return f"{name}{features}, n = {self.n}"

    @property
    def sizes(self) -> Sizes:
        """How many rows are for testing, labeled and candidates."""
        return Sizes.of(self.n, UNLABELED_SHARE)

    @property
    def work(self) -> int:
        """What the time of a repetition is roughly proportional to."""
        return self.sizes.candidates


SETTINGS = (
    Setting(SIMULATED, 120),
    Setting("banknote", 200),
    Setting("banknote", 200, 3),
    Setting("abalone", 100),
    Setting("eeg", 182),
    Setting("abalone", 400),
    Setting("abalone", 400, 4),
    *(Setting("ionosphere", n) for n in (220, 260, 300, 350)),
)
QUICK = SETTINGS[:2]


@dataclass(frozen=True)
class Declared:
    """The engine of a table's model, which compiles once for all settings and repetitions, and the true classes of its rows."""

    engine: Engine
    y: np.ndarray

    def split(self, setting: Setting, repetition: int) -> Split:
        """A random split with the paper's shares."""
        return draw(self.y, setting.sizes, np.random.default_rng([setting.n, repetition]))


@cache
def load(source: str) -> xr.Dataset:
    """The table: of simulated data a population, from which every repetition draws other rows."""
    if source == SIMULATED:
        return bpls.simulate("supplement", n=POPULATION, q=FEATURES, random_seed=SEED)
    return bpls.load_dataset(source)


@cache
def declare(source: str, first: int | None = None) -> Declared:
    """Logistic regression with an intercept on the standardised table, its coefficients Normal(0, 2.5)."""
    data = load(source)
    X, y = data["X"].to_numpy()[:, :first], data["y"].to_numpy()
    design = np.column_stack([np.ones(len(X)), (X - X.mean(axis=0)) / X.std(axis=0)])
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, PRIOR_SD, shape=design.shape[1])
        pm.Bernoulli("y", logit_p=design @ beta, observed=y)
    return Declared(bpls.BPLS(model, predictor="map").engine, y)
