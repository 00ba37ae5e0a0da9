"""The reference for a separated split: `python -m validation.separated` writes tests/data/separated.csv (some minutes).

Ionosphere, standardised: 35 labeled rows, which 34 parameters separate, and 140 candidates, under Normal(0, 2.5) priors. The
doubled posterior is sampled by PyMC itself on a model that holds each labeled row twice, without this package.
"""

from __future__ import annotations

from pathlib import Path

import arviz_stats.base as stats
import numpy as np
import pandas as pd
import pymc as pm
from scipy.special import log_expit

import pymc_bpls as bpls

OUT = Path(__file__).parents[1] / "tests" / "data" / "separated.csv"
N_LABELED, N_ROWS, CHAINS, DRAWS = 35, 175, 4, 15_000


def split(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Standardised features with an intercept (rows, 34), and classes (rows,): labeled rows first."""
    data = bpls.load_dataset("ionosphere")
    X, y = data["X"].to_numpy(), data["y"].to_numpy()
    rows = np.random.default_rng(seed).permutation(len(X))[:N_ROWS]
    X, y = X[rows], y[rows]
    X = X[:, X[:N_LABELED].std(axis=0) > 0]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return np.column_stack([np.ones(len(X)), X]).round(6), y


def main() -> None:
    """Sample, average, write."""
    X, y = split()
    labeled, pool = slice(0, N_LABELED), slice(N_LABELED, None)
    with pm.Model():
        beta = pm.Normal("beta", 0, 2.5, shape=X.shape[1])
        pm.Bernoulli("y", logit_p=np.vstack([X[labeled]] * 2) @ beta, observed=np.tile(y[labeled], 2))
        trace = pm.sample(DRAWS, tune=3000, chains=CHAINS, target_accept=0.9, random_seed=1, progressbar=False)
    draws = trace["posterior"]["beta"].to_numpy()
    eta = draws @ X[pool].T
    table = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    table["y"] = np.where(np.arange(len(y)) < N_LABELED, y, -1)
    for label, sign in ((0, -1), (1, 1)):
        p = np.exp(log_expit(sign * eta))
        mean = p.mean(axis=(0, 1))
        error = np.array(
            [stats.array_stats.mcse(p[..., i], chain_axis=0, draw_axis=1, method="mean") for i in range(p.shape[2])]
        )
        table.loc[N_LABELED:, f"log_predictive_{label}"] = np.log(mean)
        table.loc[N_LABELED:, f"mcse_{label}"] = error / mean
    rhat = np.atleast_1d(stats.array_stats.rhat(draws, chain_axis=0, draw_axis=1)).max()
    worst = table[["mcse_0", "mcse_1"]].max().max()
    divergent = int(trace["sample_stats"]["diverging"].sum())
    print(f"R-hat up to {rhat:.4f}, mcse of a log predictive up to {worst:.4f}, {divergent} divergences")
    table.to_csv(OUT, index=False, float_format="%.8g")


if __name__ == "__main__":
    main()
