"""A model of the features that is wrong: ionosphere, whose features given the class are no independent normals.

With 35 labels of 351 rows (10%), test rows a half of the others: the logistic model, the class-conditional one on D, and the
same with the pool's labels integrated out.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pymc as pm

import pymc_bpls as bpls

SPLITS, LABELED, FEATURES = 12, 35, 12
MODELS = ("logistic", "class-conditional, D alone", "labels integrated out, λ = 0.1", "labels integrated out, λ = 1")


def accuracies(split: int) -> dict[str, Any]:
    """Test accuracies and mean log scores of one split by model, and what information() promised."""
    rng = np.random.default_rng(split)
    data = bpls.load_dataset("ionosphere")
    X, truth = data.X.values, data.y.values
    X = X[:, X.std(axis=0) > 0][:, :FEATURES]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    order = rng.permutation(len(X))
    labeled, rest = order[:LABELED], order[LABELED:]
    test = np.sort(rest[: len(rest) // 2])
    y = np.where(np.isin(np.arange(len(X)), labeled), truth, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bpls.BPLSWarning)
        with pm.Model() as logistic:
            pm.Bernoulli("label", logit_p=pm.Normal("a", 0, 2.5) + X @ pm.Normal("b", 0, 2.5, shape=FEATURES), observed=y)
        by_logistic = bpls.BPLS(logistic, predictor="map").marginalize(test=(test, truth[test]), progressbar=False)
        with pm.Model() as generative:
            share = pm.Beta("share", 2, 2)
            mean = pm.Normal("mean", 0, 2, shape=(2, FEATURES))
            scale = pm.LogNormal("scale", 0, 0.5, shape=(2, FEATURES))
            label = pm.Bernoulli("label", share * np.ones(len(X)), observed=y)
            pm.Normal("x", mean[label], scale[label], observed=X)
        pls = bpls.BPLS(generative, target="label", predictor="map")
        pooled = {weight: pls.marginalize(weight, test=(test, truth[test]), progressbar=False) for weight in (0.1, 1.0)}
    ends = [(by_logistic, 1), (pooled[1.0], 0), (pooled[0.1], 1), (pooled[1.0], 1)]
    return {
        "accuracy": {name: float(tree["curve"].accuracy[end]) for name, (tree, end) in zip(MODELS, ends, strict=True)},
        "log_score": {name: float(tree["curve"].log_score[end]) for name, (tree, end) in zip(MODELS, ends, strict=True)},
        "equivalent_labels": float(pooled[1.0].attrs["equivalent_labels"]),
        "modes": int(pooled[1.0].attrs["modes"]),
    }
