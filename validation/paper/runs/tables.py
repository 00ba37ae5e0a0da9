"""Tables with their models: a logistic regression, or an additive model of splines, declared once for all repetitions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import pymc as pm
import xarray as xr
from sklearn.preprocessing import SplineTransformer

import pymc_bpls as bpls
from pymc_bpls.scoring.scorer import Scorer
from validation.paper.settings import CODE, CURVED, SPLINE, SUPPLEMENT, Prior, Setting
from validation.study.splines import by_roughness

POPULATION, SEED, CURVED_SEED = 4000, 1, 2
SHIFT = 1.0
WIGGLY = 0.4  # of the prior's sd, for the coefficients of what is not straight
KNOTS, AMPLITUDE = 7, 2.0


@dataclass(frozen=True)
class Table:
    """Raw features (N, p), classes (N,), and the true logit (N,) where it is known."""

    X: np.ndarray
    y: np.ndarray
    logit: np.ndarray | None = None


@dataclass(frozen=True)
class Declared:
    """A table, the columns (N, q) of its linear predictor, and the mean and standard deviation (q,) of coefficients."""

    table: Table
    design: np.ndarray
    mean: np.ndarray
    sd: np.ndarray

    @cached_property
    def scorer(self) -> Scorer:
        """Of the model, which compiles once."""
        with pm.Model() as model:
            beta = pm.Normal("beta", self.mean, self.sd, shape=self.design.shape[1])
            pm.Bernoulli("y", logit_p=self.design @ beta, observed=self.table.y)
        return bpls.BPLS(model, predictor="map").scorer


@cache
def load(source: str, features: int | None = None) -> Table:
    """The table: of simulated data a population, from which every repetition draws other rows.

    Raises
    ------
    DataUnavailableError
        The data set cannot be had.
    """
    if source == CURVED:
        return _curved(features or 1)
    if source in (CODE, SUPPLEMENT):
        data = bpls.simulate(source, n=POPULATION, q=features or 1, random_seed=SEED)
        return Table(*_arrays(data), data.attrs["intercept"] + data["X"].to_numpy() @ data.attrs["coefficients"])
    return Table(*_arrays(bpls.load_dataset(source)))


def _arrays(data: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    return data["X"].to_numpy(), data["y"].to_numpy()


def _curved(features: int) -> Table:
    """Uniform features with sinusoidal effects."""
    rng = np.random.default_rng(CURVED_SEED)
    X = rng.uniform(-2, 2, size=(POPULATION, features))
    logit = AMPLITUDE * np.sin(2 * X + np.arange(features)).sum(axis=1)
    return Table(X, (rng.logistic(size=POPULATION) < logit).astype(np.int64), logit)


def columns(X: np.ndarray, basis: str) -> tuple[np.ndarray, np.ndarray]:
    """Columns of the linear predictor, and the scale (q,) of each one's prior: the intercept, and standardised features or
    a cubic spline of each, straight and wiggly.
    """
    if basis == SPLINE:
        parts = [by_roughness(SplineTransformer(n_knots=KNOTS).fit_transform(column[:, None])) for column in X.T]
        straight, wiggly = (np.column_stack(part) for part in zip(*parts, strict=True))
    else:
        straight, wiggly = (X - X.mean(axis=0)) / X.std(axis=0), np.empty((len(X), 0))
    scale = np.repeat([1.0, WIGGLY], [1 + straight.shape[1], wiggly.shape[1]])
    return np.column_stack([np.ones(len(X)), straight, wiggly]), scale


def centre(prior: Prior, design: np.ndarray, logit: np.ndarray | None) -> np.ndarray:
    """The prior's mean (q,): 0, the coefficients nearest to the true logit, these with the other sign, or shifted."""
    if prior.centre in ("zero", "none"):
        return np.zeros(design.shape[1])
    assert logit is not None, "only simulated tables have a truth"
    truth = np.linalg.lstsq(design, logit, rcond=None)[0]
    return {"truth": truth, "flipped": -truth, "shifted": truth + SHIFT}[prior.centre]


def declare(setting: Setting) -> Declared:
    """The model of a setting."""
    return _declare(setting.source, setting.features, setting.basis, setting.prior)


@cache
def _declare(source: str, features: int | None, basis: str, prior: Prior) -> Declared:
    table = load(source, features)
    design, scale = columns(table.X, basis)
    return Declared(table, design, centre(prior, design, table.logit), prior.sd * scale)
