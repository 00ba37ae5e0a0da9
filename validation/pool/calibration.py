"""Simulation-based calibration (Talts et al. 2018): where the truth ranks among draws of a posterior.

Parameters and rows come from the model itself, so that ranks among draws of p(θ | D, pool) are uniform. Those among draws of
the posterior that self-training ends with are not: pseudo-labels made it narrower.

References
----------
.. [1] Talts, S., Betancourt, M., Simpson, D., Vehtari, A. and Gelman, A. (2018). Validating Bayesian inference algorithms with
   simulation-based calibration. https://doi.org/10.48550/arXiv.1804.06788
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
from scipy.special import expit, logsumexp
from scipy.stats import chisquare

import pymc_bpls as bpls
from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.model.data.table import Unlabeled
from pymc_bpls.montecarlo.psis import importance_draws
from pymc_bpls.pool.posterior import find_target

N_LABELED, N_POOL, FEATURES = 10, 30, 2
ROUNDS = 3
AT_ONCE = N_POOL // ROUNDS
DRAWS, KEPT, BINS = 2000, 99, 10
WAYS = ("labels integrated out", "self-training (ppp)")
PARAMETERS = ("share", *(f"mean {label}, {feature}" for label in range(2) for feature in range(FEATURES)))


def simulate(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """θ (q,) from the prior, and features and labels of D and the pool given it; D has both classes."""
    while True:
        log_odds, means = rng.normal(), rng.normal(0, 1.5, size=(2, FEATURES))
        labels = (rng.random(N_LABELED + N_POOL) < expit(log_odds)).astype(int)
        if 0 < labels[:N_LABELED].sum() < N_LABELED:
            return np.r_[log_odds, means.ravel()], rng.normal(means[labels], 1), labels


def declare(X: np.ndarray, labels: np.ndarray) -> bpls.BPLS:
    """The model that simulated them, with the labels of the first rows."""
    with pm.Model() as model:
        log_odds, mean = pm.Normal("log_odds", 0, 1), pm.Normal("mean", 0, 1.5, shape=(2, FEATURES))
        label = pm.Bernoulli(
            "label", logit_p=log_odds * np.ones(len(X)), observed=np.where(np.arange(len(X)) < N_LABELED, labels, -1)
        )
        pm.Normal("x", mean[label], 1, observed=X)
    return bpls.BPLS(model, target="label", predictor="map")


def ranks(seed: int) -> dict[str, Any]:
    """Of one simulation: the truth's rank among draws, for each parameter, either way; k-hat of importance sampling."""
    rng = np.random.default_rng(seed)
    truth, X, labels = simulate(rng)
    pls = declare(X, labels)
    pool = Unlabeled(pls.scorer.problem.table.candidates, np.ones(N_POOL))
    target = find_target(pls.scorer.problem, replace(pls.engine, pool=pool), pls.labeled, pls.engine.fit(pls.labeled))
    proposals = [("laplace", Gaussian.at_mode(mode).in_theta) for mode in target.search.modes]
    weighted = importance_draws(target.engine, pls.labeled, 1, proposals, DRAWS, rng).draws
    weights = np.exp(weighted.log_weights - logsumexp(weighted.log_weights))
    exact = weighted.theta[rng.choice(len(weights), KEPT, p=weights)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bpls.BPLSWarning)
        run = pls.self_train("ppp", approximation="laplace", batch_size=AT_ONCE, progressbar=False)
    end = pls.labeled.with_rows(
        run["history"]["candidate"].to_numpy(), pls.scorer.problem.codes(run["history"]["pseudo_label"].to_numpy()), 1.0
    )
    q = Gaussian.at_mode(pls.engine.fit(end)).in_theta
    trained = q.mean + rng.normal(size=(KEPT, len(truth))) @ q.factor.T
    k_hat = np.nan if weighted.pareto_k is None else weighted.pareto_k
    found = {way: (draws < truth).sum(axis=0).tolist() for way, draws in zip(WAYS, (exact, trained), strict=True)}
    return {**found, "k_hat": float(k_hat)}


def uniformity(of_way: np.ndarray) -> np.ndarray:
    """p-values of Pearson's test of uniform ranks (simulations, q) in ten bins, for each parameter."""
    counts = np.stack([np.bincount(column * BINS // (KEPT + 1), minlength=BINS) for column in of_way.T])
    return np.array([chisquare(row).pvalue for row in counts])
