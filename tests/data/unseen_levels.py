"""Exact scores of rows in groups that no labeled row is in, by NUTS of PyMC alone.

    python tests/data/unseen_levels.py

Three models: groups with a scale, groups whose scale is known, and people crossed with items, each with a scale. p(D | θ)² π(θ)
is the posterior of D held twice. Kept values (PyMC 5.28.5) are log E[p(y | x, θ)] of both classes of every candidate under it
and under the posterior itself, with standard errors by batches. Effects of groups that are not seen are drawn by NUTS as all
others are.
"""

import json
from pathlib import Path

import numpy as np
import pymc as pm
from scipy.special import log_expit

CHAINS, DRAWS, BATCHES = 4, 4000, 25
N, N_LABELED = 54, 36
rng = np.random.default_rng(11)
X = rng.normal(size=N)
LABELED = np.arange(N) < N_LABELED
GROUP = np.where(LABELED, np.arange(N) % 6, np.arange(N) % 9)
PERSON = np.where(LABELED, np.arange(N) % 5, np.arange(N) % 7)
ITEM = np.where(LABELED, (np.arange(N) // 5) % 4, (np.arange(N) // 3) % 5)
LATENT = {
    "groups": X + 1.2 * rng.normal(size=9)[GROUP] + rng.logistic(size=N),
    "crossed": X + rng.normal(size=7)[PERSON] - rng.normal(size=5)[ITEM] + rng.logistic(size=N),
    "known": X + 1.2 * rng.normal(size=9)[GROUP] + rng.logistic(size=N),
}
LABELS = {name: (latent > 0).astype(int) for name, latent in LATENT.items()}


def declare(name):
    """What the open model has of effects."""
    pm.Normal("slope", 0, 1)
    if name == "crossed":
        for effect, size in (("person", 7), ("item", 5)):
            pm.HalfNormal(f"scale_{effect}", 1)
            pm.Normal(effect, 0, 1, shape=size)
        return
    if name == "groups":
        pm.HalfNormal("scale", 1.5)
    pm.Normal("z", 0, 1, shape=9)


def predictor(name, rows):
    """η of some rows by what the open model has."""
    model = pm.modelcontext(None)
    eta = model["slope"] * X[rows]
    if name == "crossed":
        person = model["scale_person"] * model["person"]
        return eta + person[PERSON[rows]] - (model["scale_item"] * model["item"])[ITEM[rows]]
    return eta + ((model["scale"] if name == "groups" else 1.2) * model["z"])[GROUP[rows]]


def averages(name, k):
    """log E[p(y | x, θ)] of both classes of the candidates (m, 2) given D held k times, and their errors."""
    D, candidates = np.tile(np.flatnonzero(LABELED), k), np.flatnonzero(~LABELED)
    with pm.Model():
        declare(name)
        pm.Bernoulli("label", logit_p=predictor(name, D), observed=LABELS[name][D])
        pm.Deterministic("eta", predictor(name, candidates))
        trace = pm.sample(DRAWS, tune=1500, chains=CHAINS, cores=1, target_accept=0.95, random_seed=k, progressbar=False)
    eta = trace.posterior["eta"].to_numpy().reshape(-1, len(candidates))
    p = np.exp(log_expit(eta[:, :, None] * np.array([-1, 1])))
    batches = p.reshape(CHAINS * BATCHES, -1, len(candidates), 2).mean(axis=1)
    mean = p.mean(axis=0)
    return {"log_mean": np.log(mean).tolist(), "error": (batches.std(axis=0, ddof=1) / mean / np.sqrt(len(batches))).tolist()}


if __name__ == "__main__":
    kept = {name: {str(k): averages(name, k) for k in (1, 2)} for name in LABELS}
    Path(__file__).with_suffix(".json").write_text(json.dumps(kept, indent=1) + "\n")
