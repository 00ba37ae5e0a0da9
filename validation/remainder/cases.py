"""The models whose remainders are measured: how their rows are drawn, how PyMC declares them, and what integrates them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

import pymc_bpls as bpls
from pymc_bpls.engine.engine import Engine
from validation.remainder.quadrature import Hierarchy, Model, Rows, Softmax

SIZES = 25 * 2 ** np.arange(7)
REPLICATES, CANDIDATES = 12, 40
ROWS = int(SIZES[-1]) + CANDIDATES
SCALE = 2.5
EFFECTS = np.array([-1.0, -0.3, 0.4, 1.1])
LOGISTIC = np.array([[0.3, 1.2]])
THREE = np.array([[0.3, 1.0], [-0.2, -1.0]])


@dataclass(frozen=True)
class Case:
    """How rows are drawn, how PyMC declares the model on them (−1 where unlabeled), and what integrates it."""

    name: str
    simulate: Callable[[np.random.Generator], Rows]
    declare: Callable[[Rows], None]
    exact: Model

    def rows(self) -> Rows:
        """All replicates' rows, one after the other: 1,600 to label, then the candidates."""
        drawn = [self.simulate(np.random.default_rng([7, replicate])) for replicate in range(REPLICATES)]
        return Rows(*(np.concatenate(parts) for parts in zip(*drawn, strict=True)))

    def engine(self, rows: Rows) -> Engine:
        """The package's fits of one table that holds all rows."""
        few = np.arange(len(rows.codes)) < SIZES[0]
        with pm.Model() as model:
            self.declare(rows._replace(codes=np.where(few, rows.codes, -1)))
        return bpls.BPLS(model, predictor="map").engine


def draw_classes(coefficients: np.ndarray) -> Callable[[np.random.Generator], Rows]:
    """An intercept, a normal feature, and classes of a softmax whose class 0 has logit 0."""

    def simulate(rng: np.random.Generator) -> Rows:
        X = np.column_stack([np.ones(ROWS), rng.normal(size=ROWS)])
        logits = np.column_stack([np.zeros(ROWS), X @ coefficients.T])
        codes = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
        return Rows(X, codes, np.zeros(ROWS, dtype=int))

    return simulate


def draw_groups(rng: np.random.Generator) -> Rows:
    """One normal feature, four groups of equal size."""
    x, groups = rng.normal(size=ROWS), np.arange(ROWS) % len(EFFECTS)
    codes = (x + EFFECTS[groups] + rng.logistic(size=ROWS) > 0).astype(int)
    return Rows(x[:, None], codes, groups)


def logistic(rows: Rows) -> None:
    """Intercept and slope."""
    pm.Bernoulli("y", logit_p=rows.X @ pm.Normal("beta", 0, SCALE, shape=2), observed=rows.codes)


def softmax(rows: Rows) -> None:
    """Three classes, the first as the baseline."""
    logits = rows.X @ pm.Normal("beta", 0, SCALE, shape=(2, 2))
    logits = pt.concatenate([pt.zeros((len(rows.codes), 1)), logits], axis=1)
    pm.Categorical("y", logit_p=logits, observed=rows.codes)


def hierarchical(rows: Rows) -> None:
    """Non-centered group effects."""
    groups(rows, pm.HalfNormal("spread", 1))


def known_spread(rows: Rows) -> None:
    """The control: the same where the effects' standard deviation is known."""
    groups(rows, 1.0)


def groups(rows: Rows, spread: Any) -> None:
    """A slope, and effects of groups around 0."""
    effects = spread * pm.Normal("z", 0, 1, shape=len(EFFECTS))
    eta = rows.X[:, 0] * pm.Normal("beta", 0, SCALE) + effects[rows.groups]
    pm.Bernoulli("y", logit_p=eta, observed=rows.codes)


def cases() -> list[Case]:
    """The three models, and the hierarchy's control."""
    fine, coarse = (12, 18, 27, 40, 60), (10, 13, 16, 20, 25, 31, 38)
    return [
        Case("logistic", draw_classes(LOGISTIC), logistic, Softmax(2, SCALE, fine)),
        Case("softmax", draw_classes(THREE), softmax, Softmax(3, SCALE, coarse)),
        Case("hierarchical logistic", draw_groups, hierarchical, Hierarchy(4, SCALE, coarse)),
        Case("groups, spread known", draw_groups, known_spread, Hierarchy(4, SCALE, coarse, spread=1.0)),
    ]
