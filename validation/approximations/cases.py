"""Tables and models of the study: logistic regressions of many kinds, softmax, ordinal, groups, spline; the tests' zoo."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pymc as pm
from sklearn.preprocessing import SplineTransformer

from tests import zoo
from validation.separated import split
from validation.study.splines import by_roughness

CANDIDATES = 60
Declare = Callable[[np.ndarray, np.ndarray], None]


@dataclass(frozen=True)
class Case:
    """A model on a table, −1 where unlabeled, and what BPLS has to be told of it.

    The reference is by `draws` of NUTS in each of four chains after `tune`, with the acceptance rate `target_accept`; or by
    importance sampling, where `weighted` draws are asked for and k-hat says that they can be trusted.
    """

    name: str
    model: Callable[[], pm.Model]
    options: Mapping[str, Any] = field(default_factory=dict)
    draws: int = 4000
    tune: int = 1500
    weighted: int = 0
    target_accept: float = 0.8


def declared(declare: Declare, X: np.ndarray, y: np.ndarray) -> pm.Model:
    """A model on a table, labeled rows first, −1 where unlabeled."""
    with pm.Model() as model:
        declare(X, y)
    return model


def logistic(sd: float) -> Declare:
    """Coefficients Normal(0, sd)."""

    def declare(X: np.ndarray, y: np.ndarray) -> None:
        pm.Bernoulli("y", logit_p=X @ pm.Normal("b", 0, sd, shape=X.shape[1]), observed=y)

    return declare


def softmax(X: np.ndarray, y: np.ndarray) -> None:
    """Three classes."""
    pm.Categorical("y", logit_p=X @ pm.Normal("b", 0, 1, shape=(X.shape[1], 3)), observed=y)


def ordinal(X: np.ndarray, y: np.ndarray) -> None:
    """Three ordered classes with free cutpoints."""
    ordered = pm.distributions.transforms.ordered
    cut = pm.Normal("cut", [-1, 1], 1, shape=2, transform=ordered, initval=np.array([-1.0, 1.0]))
    eta = X @ pm.Normal("b", 0, 1, shape=X.shape[1])
    pm.OrderedLogistic("y", eta=eta, cutpoints=cut, observed=y, compute_p=False)


def groups(X: np.ndarray, y: np.ndarray) -> None:
    """Intercepts of eight groups around a common one, non-centered."""
    spread, z = pm.HalfNormal("spread", 1), pm.Normal("z", 0, 1, shape=8)
    eta = X @ pm.Normal("b", 0, 1, shape=X.shape[1]) + (spread * z)[np.arange(len(X)) % 8]
    pm.Bernoulli("y", logit_p=eta, observed=y)


def spline(X: np.ndarray, y: np.ndarray) -> None:
    """A cubic spline of the first feature with nine coefficients."""
    basis = SplineTransformer(n_knots=7, degree=3).fit_transform(X[:, :1])
    pm.Bernoulli("y", logit_p=basis @ pm.Normal("b", 0, 2.5, shape=basis.shape[1]), observed=y)


def penalised_spline(X: np.ndarray, y: np.ndarray) -> None:
    """A generalised additive model: a P-spline of each feature, second differences shrunk by a scale with a prior."""
    eta = pm.Normal("intercept", 0, 2.5)
    for j in range(X.shape[1]):
        basis = SplineTransformer(n_knots=7, degree=3).fit_transform(X[:, [j]])
        straight, wiggly = by_roughness(basis)
        smooth = pm.HalfNormal(f"smooth_{j}", 1)
        eta = eta + straight @ pm.Normal(f"slope_{j}", 0, 2.5, shape=1)
        eta = eta + wiggly @ (smooth * pm.Normal(f"wiggle_{j}", 0, 1, shape=wiggly.shape[1]))
    pm.Bernoulli("y", logit_p=eta, observed=y)


def hilbert_space_gp(X: np.ndarray, y: np.ndarray) -> None:
    """A Gaussian process in the first feature by twelve basis functions."""
    length = pm.LogNormal("length", 0, 0.5)
    basis, spectrum = pm.gp.HSGP(m=[12], c=1.5, cov_func=2.0**2 * pm.gp.cov.Matern52(1, ls=length)).prior_linearized(X[:, :1])
    pm.Bernoulli("y", logit_p=basis @ (pm.Normal("b", 0, 1, shape=12) * spectrum), observed=y)


def latent_gp(X: np.ndarray, y: np.ndarray) -> None:
    """A Gaussian process in the first feature over all rows of the table."""
    length = pm.LogNormal("length", 0, 0.5)
    f = pm.gp.Latent(cov_func=2.0**2 * pm.gp.cov.Matern52(1, ls=length)).prior("f", X[:, :1], jitter=1e-4)
    pm.Bernoulli("y", logit_p=f, observed=y)


def curved(name: str, n: int, q: int, declare: Declare, *, candidates: int = CANDIDATES, seed: int = 0) -> Case:
    """Uniform features with sinusoidal effects."""
    rng = np.random.default_rng(seed)
    rows = n + candidates
    X = rng.uniform(-2, 2, size=(rows, q))
    latent = 2.5 * np.sin(2 * X + np.arange(q)).sum(axis=1) + rng.logistic(size=rows)
    return Case(name, partial(declared, declare, X, np.where(np.arange(rows) < n, latent > 0, -1)))


def simulated(name: str, n: int, q: int, declare: Declare, *, degrees: float = np.inf, classes: int = 2, seed: int = 0) -> Case:
    """Standardised features, normal or t, and classes from cut logistic responses."""
    rng = np.random.default_rng(seed)
    rows = n + CANDIDATES
    X = rng.normal(size=(rows, q)) if np.isinf(degrees) else rng.standard_t(degrees, size=(rows, q))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    latent = X @ (rng.normal(size=q) * 2 / np.sqrt(q)) + rng.logistic(size=rows)
    cuts = [0.0] if classes == 2 else [-1.0, 1.0]
    y = np.where(np.arange(rows) < n, np.digitize(latent, cuts), -1)
    return Case(name, partial(declared, declare, X, y))


def separated(seed: int) -> Case:
    """Ionosphere: 35 labeled rows, 34 parameters."""
    X, y = split(seed)
    X, y = X[: 35 + CANDIDATES], y[: 35 + CANDIDATES]
    y = np.where(np.arange(len(y)) < 35, y, -1)
    return Case(f"ionosphere, separated, split {seed}", partial(declared, logistic(2.5), X, y))


#: Of the zoo's, those whose posterior has the neck of a funnel, which importance sampling misses without a word, and those
#: whose importance weights leave too much error: draws a chain of NUTS, and the acceptance rate that it needs there.
BY_NUTS = {
    "hierarchical_non_centered": (10_000, 0.95),
    "item_response": (10_000, 0.95),
    "multilevel_regression_and_poststratification": (10_000, 0.99),
    "correlated_slopes": (10_000, 0.95),
    "zero_sum_groups": (20_000, 0.8),
    "hilbert_space_gp": (20_000, 0.95),
    "latent_gp": (4000, 0.95),
    "random_walk_non_centered": (10_000, 0.95),
}
#: The same of its models of many parameters, where it is not 4,000 draws and 0.9.
BY_NUTS_OF_MANY = {"nested_groups": (10_000, 0.99), "many_cells": (10_000, 0.95)}


def of_zoo(name: str, kind: zoo.Kind) -> Case:
    """A model that people write, as the tests declare it: 30 labeled rows, 12 candidates."""
    shown = f"zoo: {name.replace('_', ' ')}"
    if name in BY_NUTS:
        draws, target_accept = BY_NUTS[name]
        return Case(shown, kind.table, kind.options, draws=draws, target_accept=target_accept)
    return Case(shown, kind.table, kind.options, draws=2000, weighted=40_000)


def of_many(name: str, declare: Callable[[], pm.Model]) -> Case:
    """A model whose rows touch few of many parameters: 60 labeled rows, 20 candidates."""
    draws, target_accept = BY_NUTS_OF_MANY.get(name, (4000, 0.9))
    return Case(f"zoo: {name.replace('_', ' ')}", declare, draws=draws, tune=1000, target_accept=target_accept)


def cases() -> list[Case]:
    """All of them."""
    ratios = [(6, 20), (20, 20), (60, 20), (200, 20), (200, 4)]
    return [
        *(simulated(f"logistic, n/q = {n / q:g}", n, q, logistic(2.5)) for n, q in ratios),
        *(simulated(f"logistic, n/q = 1, prior sd {sd:g}", 20, 20, logistic(sd)) for sd in (0.5, 1.0, 10.0)),
        *(simulated(f"logistic, n/q = {n / 20:g}, features t(2)", n, 20, logistic(2.5), degrees=2) for n in (20, 60)),
        *(separated(seed) for seed in range(5)),
        simulated("softmax, n = 40, q = 12", 40, 4, softmax, classes=3),
        simulated("ordinal, n = 40, q = 6", 40, 4, ordinal, classes=3),
        replace(simulated("groups, n = 40, q = 13", 40, 4, groups), target_accept=0.95),
        simulated("spline, n = 40, q = 9", 40, 1, spline),
        curved("GAM, two penalised splines, n = 60, q = 19", 60, 2, penalised_spline),
        curved("Gaussian process, HSGP, n = 40, q = 13", 40, 1, hilbert_space_gp),
        *(of_zoo(name, kind) for name, kind in zoo.ACCEPTED.items()),
        *(of_many(name, declare) for name, declare in zoo.MANY.items()),
        curved("Gaussian process, latent, n = 30, q = 51", 30, 1, latent_gp, candidates=20),
    ]
