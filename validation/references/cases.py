"""Small tables with models whose exact values are known otherwise, each with its row probabilities in plain NumPy.

`points` are what integrals over the prior are taken by: a grid with log prior densities, draws of the prior, or draws of a
proposal with the prior's density over its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pymc as pm
from scipy.optimize import minimize
from scipy.special import log_expit, log_ndtr, log_softmax
from scipy.stats import multivariate_t, norm, t

TESTS = Path(__file__).parents[2] / "tests" / "data"
CANDIDATES, PIECE = 12, 100_000
Points = Iterator[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True, eq=False)
class Case:
    """Labels (rows,), −1 where unlabeled; how the model is declared; log p of each class (S, rows, K) at θ (S, q).

    A run of NUTS takes `draws` in each chain: as many as the model needs to be called reliable, if nothing is wrong.
    """

    name: str
    y: np.ndarray
    declare: Callable[[np.ndarray], None]
    log_p: Callable[[np.ndarray], np.ndarray]
    points: Callable[[], Points]
    draws: int = 400

    def model(self) -> pm.Model:
        """The declared model."""
        with pm.Model() as model:
            self.declare(self.y)
        return model


def grid(half_width: float, size: int, q: int, log_prior: Callable[[np.ndarray], np.ndarray]) -> Callable[[], Points]:
    """`size` points to the power q on ±half_width; log prior densities of single coefficients."""

    def points() -> Points:
        axis = np.linspace(-half_width, half_width, size)
        for start in range(0, size**q, PIECE):
            places = np.unravel_index(np.arange(start, min(start + PIECE, size**q)), (size,) * q)
            theta = np.stack([axis[place] for place in places], axis=1)
            yield theta, log_prior(theta).sum(axis=1)

    return points


def two(eta: np.ndarray, log_link: Callable[[np.ndarray], np.ndarray] = log_expit) -> np.ndarray:
    """log p of both classes from linear predictors."""
    return np.stack([log_link(-eta), log_link(eta)], axis=-1)


def only_first(labels: np.ndarray, n: int) -> np.ndarray:
    """The first n labels."""
    return np.where(np.arange(len(labels)) < n, labels, -1)


def linear(name: str, X: np.ndarray, y: np.ndarray, points: Callable[[], Points], sd: float = 2.5, link: str = "logit") -> Case:
    """Coefficients Normal(0, sd), or Cauchy(0, 2.5) for sd = 0, by a logit or probit link."""
    q = X.shape[1]

    def declare(y: np.ndarray) -> None:
        b = pm.Normal("b", 0, sd, shape=q) if sd else pm.Cauchy("b", 0, 2.5, shape=q)
        if link == "probit":
            pm.Bernoulli("y", p=pm.math.invprobit(X @ b), observed=y)
        else:
            pm.Bernoulli("y", logit_p=X @ b, observed=y)

    log_link = log_ndtr if link == "probit" else log_expit
    return Case(name, y, declare, lambda theta: two(theta @ X.T, log_link), points)


def stored(name: str, half_width: float, size: int) -> Case:
    """A reference split of the tests under Normal(0, 2.5)."""
    labeled, pool = (pd.read_csv(TESTS / f"{name}_{part}.csv") for part in ("labeled", "unlabeled"))
    features = [column for column in labeled if column in pool and column not in ("target", "pseudo")]
    pool = pool.iloc[:CANDIDATES]
    X = np.column_stack([np.ones(len(labeled) + len(pool)), np.vstack([labeled[features], pool[features]])])
    y = np.r_[labeled["target"], np.full(len(pool), -1)]
    return linear(name, X, y, grid(half_width, size, X.shape[1], lambda b: norm.logpdf(b, 0, 2.5)))


def far_rows(name: str, sd: float) -> Case:
    """A slope alone, separated labels, and candidates so far away that one class lives in the posterior's tail."""
    x = np.array([0.6, 1, 1.5, -0.5, -0.9, -1.4, 0.1, 1, -2, 50, -200, 800, 3e4])
    y = only_first((x > 0).astype(int), 6)
    points = _folded(sd)
    return linear(name, x[:, None], y, points, sd)


def _folded(sd: float) -> Callable[[], Points]:
    """The whole line through b = sinh(s), fine near 0."""

    def points() -> Points:
        s = np.linspace(-22, 22, 2_000_001)
        for part in np.array_split(s, 20):
            b = 1e-6 * np.sinh(part)
            log_prior = norm.logpdf(b, 0, sd) if sd else t.logpdf(b, 1, 0, 2.5)
            yield b[:, None], log_prior + np.log(1e-6 * np.cosh(part))

    return points


def common(n: int = 60) -> tuple[np.random.Generator, np.ndarray]:
    """A generator, and two features."""
    rng = np.random.default_rng(0)
    return rng, rng.normal(size=(n, 2))


def hierarchy() -> Case:
    """Five groups and an interaction within bounds: eleven parameters, 24 labels."""
    rng, X = common()
    group = rng.integers(0, 5, 60)
    truth = (X @ [1.0, -0.7] + rng.normal(size=5)[group] + rng.logistic(size=60) > 0).astype(int)
    X, group, y = X[: 24 + CANDIDATES], group[: 24 + CANDIDATES], only_first(truth, 24)[: 24 + CANDIDATES]

    def declare(y: np.ndarray) -> None:
        a, s, z = pm.Normal("a", 0, 2), pm.HalfNormal("s", 1), pm.Normal("z", 0, 1, shape=5)
        b, u = pm.Normal("b", 0, 2, shape=2), pm.Uniform("u", -2, 2)
        pm.Bernoulli("y", logit_p=a + X @ b + (s * z)[group] + u * X[:, 0] * X[:, 1], observed=y)

    def log_p(theta: np.ndarray) -> np.ndarray:
        a, s, z, b, u = theta[:, :1], theta[:, 1:2], theta[:, 2:7], theta[:, 7:9], theta[:, 9:]
        return two(a + b @ X.T + s * z[:, group] + u * X[:, 0] * X[:, 1])

    def points() -> Points:
        draw = np.random.default_rng(1)
        for _ in range(200):
            normal = draw.normal(size=(PIECE, 9)) * [2, 1, 1, 1, 1, 1, 1, 2, 2]
            normal[:, 1] = np.abs(normal[:, 1])
            yield np.column_stack([normal, draw.uniform(-2, 2, PIECE)]), np.zeros(PIECE)

    return Case("hierarchy", y, declare, log_p, points, draws=1000)


def two_modes() -> Case:
    """Only the product of two parameters counts, so that their signs may change together."""
    rng, X = common(28)
    x = X[:, 0]
    y = only_first((2 * x + rng.logistic(size=28) > 0).astype(int), 16)

    def declare(y: np.ndarray) -> None:
        v, w = pm.Normal("v", 0, 1), pm.Normal("w", 0, 2)
        pm.Bernoulli("y", logit_p=v * w * x, observed=y)

    def log_prior(theta: np.ndarray) -> np.ndarray:
        return norm.logpdf(theta, 0, [1, 2])

    return Case("two modes", y, declare, lambda theta: two(theta[:, :1] * theta[:, 1:] * x), grid(12, 1201, 2, log_prior))


def softmax() -> Case:
    """Three classes, one feature."""
    rng, X = common(32)
    x = X[:, 0]
    y = only_first(np.digitize(1.2 * x + rng.logistic(size=32), [-0.7, 0.7]), 20)

    def declare(y: np.ndarray) -> None:
        b = pm.Normal("b", 0, 2.5, shape=2)
        pm.Categorical("y", logit_p=x[:, None] * pm.math.stack([0.0, b[0], b[1]]), observed=y)

    def log_p(theta: np.ndarray) -> np.ndarray:
        eta = np.stack([np.zeros_like(theta[:, :1] * x), theta[:, :1] * x, theta[:, 1:] * x], axis=-1)
        return np.asarray(log_softmax(eta, axis=-1))

    return Case("softmax", y, declare, log_p, grid(16, 801, 2, lambda b: norm.logpdf(b, 0, 2.5)))


def probit() -> Case:
    """Two features through a probit link, a wide prior, few labels."""
    rng, X = common(24)
    y = only_first((X @ [1.0, -0.7] + 0.5 * rng.normal(size=24) > 0).astype(int), 12)
    return linear("probit", X, y, grid(60, 1201, 2, lambda b: norm.logpdf(b, 0, 10)), 10.0, "probit")


def separated() -> Case:
    """Ionosphere: 34 parameters separate 35 labels (`validation.separated`)."""
    table = pd.read_csv(TESTS / "separated.csv").iloc[: 35 + CANDIDATES]
    X, y = table.filter(regex="^x").to_numpy(), table["y"].to_numpy(dtype=int)
    signed = X[:35] * (2 * y[:35] - 1)[:, None]

    def points() -> Points:
        draw, proposals = np.random.default_rng(2), [_matched(signed, k) for k in (1, 2)]
        for _ in range(80):
            theta = np.concatenate([each.rvs(PIECE // 4, random_state=draw) for each in proposals])
            log_q = np.logaddexp(*(each.logpdf(theta) for each in proposals)) - np.log(2)
            yield theta, norm.logpdf(theta, 0, 2.5).sum(axis=1) - log_q

    return linear("separated", X, y, points)


def _matched(signed: np.ndarray, k: int) -> multivariate_t:
    """A t distribution with the moments of p_k, from one around its mode that is matched a few times."""
    q, draw = signed.shape[1], np.random.default_rng(k)

    def log_density(theta: np.ndarray) -> np.ndarray:
        return k * log_expit(theta @ signed.T).sum(axis=-1) - 0.5 * (theta**2).sum(axis=-1) / 6.25

    mean = minimize(lambda theta: -log_density(theta), np.zeros(q)).x
    p = np.exp(log_expit(-signed @ mean))
    covariance = np.linalg.inv(k * (signed.T * (p * (1 - p))) @ signed + np.eye(q) / 6.25)
    for power in (0.2, 0.5, 0.8, 1.0, 1.0):
        proposal = multivariate_t(mean, covariance, df=2 * q)
        theta = proposal.rvs(40_000, random_state=draw)
        log_weights = power * (log_density(theta) - proposal.logpdf(theta))
        weights = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
        mean = weights @ theta
        covariance = ((theta - mean).T * weights) @ (theta - mean)
    return multivariate_t(mean, covariance, df=2 * q)


def cases() -> list[Case]:
    """All of them."""
    return [
        stored("sim1_q2", 25, 1201),
        stored("banknote_q3", 16, 161),
        far_rows("far rows", 2.5),
        far_rows("far rows, Cauchy prior", 0.0),
        hierarchy(),
        separated(),
        softmax(),
        probit(),
        two_modes(),
    ]
