"""The log-density of tests/test_marginalize.py's three clusters by pymc-extras, which is no dependency of this package.

    pip install pymc-extras; python tests/data/marginal_by_pymc_extras.py

Labeled rows and pool are two blocks, and `pymc_extras.marginalize` sums the pool's labels out (kept values: version 0.10.0 with
PyMC 5.28.5).
"""

import json
from pathlib import Path

import numpy as np
import pymc as pm
import pymc_extras as pmx

CLASSES = np.array([0, 1, 2, 0, 1, 2, 0, 1])
FEATURES = np.random.default_rng(8).normal(size=(13, 2)) + np.array([[0, 0], [2, 1], [0, 2]])[np.arange(13) % 3]
SHARE = np.array([0.5, 0.3, 0.2])

with pm.Model() as model:
    mean = pm.Normal("mean", 0, 1, shape=(3, 2))
    scale = pm.math.exp(pm.Normal("log_scale", 0, 1, shape=2))
    label = pm.Categorical("label", p=SHARE, observed=CLASSES)
    pm.Normal("x", mean[label], scale, observed=FEATURES[:8])
    hidden = pm.Categorical("hidden", p=SHARE, shape=5)
    pm.Normal("x_pool", mean[hidden], scale, observed=FEATURES[8:])
log_density = pmx.marginalize(model, ["hidden"]).compile_logp()
theta = np.r_[np.zeros(6), np.zeros(2)] + 0.7 * np.random.default_rng(2).normal(size=(5, 8))
values = [float(log_density({"mean": at[:6].reshape(3, 2), "log_scale": at[6:]})) for at in theta]
kept = {"features": FEATURES.tolist(), "theta": theta.tolist(), "log_density": values}
Path(__file__).with_suffix(".json").write_text(json.dumps(kept, indent=1))
