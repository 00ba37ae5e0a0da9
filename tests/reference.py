"""The reference splits of `tests/data`, and what R's `glm` computed for them."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pymc as pm
from scipy.special import logsumexp

DATA = Path(__file__).parent / "data"
NAMES = ("sim1_q2", "banknote_q3", "sim4")


@dataclass(frozen=True)
class Split:
    """One table: labeled rows first, then the candidates, then test rows; the intercept is the first column of X."""

    name: str
    X: np.ndarray
    y: np.ndarray
    features: list[str]
    candidates: pd.DataFrame
    runs: pd.DataFrame
    meta: dict
    n: int
    m: int
    truth: np.ndarray

    @property
    def pool(self):
        return np.arange(self.n, self.n + self.m)

    @property
    def test(self):
        return np.arange(self.n + self.m, len(self.y)), self.truth

    @property
    def pseudo(self):
        return self.candidates["pseudo"].to_numpy()

    def coefficients(self, kind):
        """Coefficients (m, q) of the refits of one kind: mle, tilde, map or map1."""
        return self.candidates[[f"{kind}_coef_{name}" for name in ("intercept", *self.features)]].to_numpy()

    def run(self, method):
        return self.runs[self.runs["method"] == method].sort_values("round")


def read(name):
    """A stored split."""
    labeled, unlabeled, test, candidates, runs = (
        pd.read_csv(DATA / f"{name}_{part}.csv") for part in ("labeled", "unlabeled", "test", "candidates", "runs")
    )
    meta = json.loads((DATA / f"{name}_meta.json").read_text())
    features = np.atleast_1d(meta["features"]).tolist()
    rows = np.concatenate([part[features].to_numpy() for part in (labeled, unlabeled, test)])
    y = np.r_[labeled["target"], np.full(len(unlabeled) + len(test), -1)]
    X = np.column_stack([np.ones(len(rows)), rows])
    return Split(name, X, y, features, candidates, runs, meta, len(labeled), len(unlabeled), test["target"].to_numpy())


def logistic(X, y, *, flat=False, scale=2.5):
    """Logistic regression on the columns of X, coefficients "b"."""
    with pm.Model() as model:
        b = pm.Flat("b", shape=X.shape[1]) if flat else pm.Normal("b", 0, scale, shape=X.shape[1])
        pm.Bernoulli("label", logit_p=X @ b, observed=y)
    return model


def at_pseudo(pls, split, criterion, variable="score", **settings):
    """A variable of `score(labels="all")` at the pseudo-labels of the file."""
    scores = pls.score(criterion, labels="all", **{"approximation": "laplace", **settings})
    assert scores["candidate"].to_numpy().tolist() == split.pool.tolist()
    return scores[variable].to_numpy()[np.arange(split.m), split.pseudo]


def exact_normalizer(split):
    """log Z_2 − log Z_1 by quadrature, for q ≤ 3: what Σ_y PPP(i, y) is for every candidate i."""
    q = split.X.shape[1]
    grid = np.linspace(-25, 25, {2: 1201, 3: 141}[q])
    theta = np.stack(np.meshgrid(*[grid] * q, indexing="ij"), -1).reshape(-1, q)
    labeled = split.X[: split.n] * (2 * split.y[: split.n] - 1)[:, None]
    log_lik = sum(-np.logaddexp(0, -(theta @ row)) for row in labeled)
    log_prior = -0.5 * (theta**2).sum(axis=1) / 6.25
    return logsumexp(2 * log_lik + log_prior) - logsumexp(log_lik + log_prior)
