"""References and scores where modes are narrow, far away, or hold the mass of some candidates' classes only."""

from __future__ import annotations

import warnings

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats
from scipy.special import log_expit, logsumexp

import pymc_bpls as bpls
from pymc_bpls.montecarlo.other_modes import find_modes
from pymc_bpls.montecarlo.pair_modes import off_by_modes

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning")

X = np.random.default_rng(3).normal(size=(24, 2))
Y = np.where(np.arange(24) < 6, (X.sum(1) > 0).astype(int), -1)
x = np.linspace(-3, 3, 16)
FEW = np.full(16, -1)
FEW[[9, 12]] = 1
GRID = np.linspace(-40, 40, 160001)


def two_bumps():
    """Two normals in two dimensions, the narrow one on no line along a parameter through the other."""
    centres, covariances = (np.zeros(2), np.full(2, 4.0)), (0.25 * np.eye(2), 0.01 * np.eye(2))
    parts = [pm.MvNormal.dist(m, c) for m, c in zip(centres, covariances, strict=True)]
    b = pm.Mixture("b", w=[0.5, 0.5], comp_dists=parts)
    pm.Bernoulli("y", logit_p=pt.dot(X, b), observed=Y)


def three_slopes():
    """Each of two slopes is near −6, 0 or 6: nine combinations."""
    b = pm.NormalMixture("b", w=[0.2, 0.2, 0.6], mu=[-6, 6, 0], sigma=[0.1, 0.1, 0.3], shape=2)
    pm.Bernoulli("y", logit_p=X @ b, observed=Y)


def switched_labels():
    """Levels of two classes of rows whose names are exchangeable, each near −5 or 5 around a common mean."""
    middle = pm.Normal("middle", 0, 0.1)
    b = pm.NormalMixture("b", w=[0.5, 0.5], mu=pt.stack([middle - 5, middle + 5]), sigma=0.2, shape=2)
    pm.Bernoulli("y", logit_p=b[0] * X[:, 0] + b[1] * X[:, 1], observed=Y)


def skewed_scale():
    """A scale of two Gammas, whose modes are far apart on its logarithm."""
    s = pm.Mixture("s", w=[0.5, 0.5], comp_dists=[pm.Gamma.dist(200, 4000), pm.Gamma.dist(400, 40)])
    pm.Bernoulli("y", logit_p=s * X.sum(1), observed=Y)


def built(declare):
    with pm.Model() as model:
        declare()
    return bpls.BPLS(model)


@pytest.mark.parametrize(("declare", "count"), [(two_bumps, 2), (three_slopes, 9), (switched_labels, 4), (skewed_scale, 2)])
def test_the_components_of_declared_mixtures_are_starts_of_the_search(declare, count):
    pls = built(declare)
    search = find_modes(pls.engine, pls.labeled, 1)
    assert len(search.modes) == count and not search.limits


def test_a_reference_that_misses_a_component_is_not_reliable():
    """By a grid the narrow component holds most of the mass, and log Z_2/Z_1 is off by two nats or more without it."""
    pls = built(two_bumps)
    with pytest.warns(bpls.BPLSWarning, match="no draw is near"):
        run = pls.exact("ppp", method="psis", random_seed=0, progressbar=False)
    side = np.linspace(-6, 6, 1201)
    b = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    parts = ((np.zeros(2), 0.25), (np.full(2, 4.0), 0.01))
    log_prior = np.logaddexp(*(stats.multivariate_normal(m, v * np.eye(2)).logpdf(b) for m, v in parts))
    log_lik = sum(log_expit((2 * Y[i] - 1) * (b @ X[i])) for i in range(6))
    right = logsumexp(2 * log_lik + log_prior) - logsumexp(log_lik + log_prior)
    assert abs(run.attrs["log_normalizer"] - right) > 1 and not run.attrs["reliable"]


def test_combinations_that_are_no_starts_are_a_reason():
    def declare():
        b = pm.NormalMixture("b", w=[0.5, 0.5], mu=[-3, 3], sigma=0.5, shape=10)
        pm.Bernoulli("y", logit_p=np.tile(X, 5) @ b, observed=Y)

    pls = built(declare)
    search = find_modes(pls.engine, pls.labeled, 1)
    words = 'the search for modes started at 2 of 1,024 combinations of the components of "b"'
    assert search.limits == (words,) and words in str(search)


def of_slopes(log_prior):
    """log PPP of the candidates and both classes under a prior of one slope, on a grid."""
    log_lik = sum(log_expit(GRID * x[j]) for j in (9, 12))
    pairs = [
        [logsumexp(log_prior + 2 * log_lik + log_expit(s * GRID * x[j])) for s in (-1, 1)] for j in range(16) if FEW[j] < 0
    ]
    return np.array(pairs) - logsumexp(log_prior + log_lik)


@pytest.mark.filterwarnings("ignore:.*no labeled row of class:pymc_bpls.BPLSWarning")
@pytest.mark.filterwarnings("ignore:EP's constant:pymc_bpls.BPLSWarning")
@pytest.mark.parametrize(("centre", "sd"), [(3.0, 0.5), (2.5, 0.5)])
def test_another_mode_is_judged_by_the_classes_that_live_there(centre, sd):
    """It holds a thousandth of p_1. Scores by a grid pass; those with errors of .6 in the tail do not."""

    def declare():
        b = pm.NormalMixture("b", w=[0.5, 0.5], mu=[-centre, centre], sigma=sd)
        pm.Bernoulli("y", logit_p=b * x, observed=FEW)

    pls = built(declare)
    right = of_slopes(np.logaddexp(*(stats.norm.logpdf(GRID, m, sd) for m in (-centre, centre)))).ravel()
    search = find_modes(pls.engine, pls.labeled, 1)
    pairs = np.repeat(np.flatnonzero(FEW < 0), 2), np.tile([0, 1], (FEW < 0).sum())
    assert off_by_modes(pls.engine, pls.labeled, 2, search, pairs, right) is None
    wrong = np.where(right < np.sort(right)[7], right + 0.6, right)
    said = off_by_modes(pls.engine, pls.labeled, 2, search, pairs, wrong)
    assert said is not None and "around the 2 modes" in said and "nats for 7 of 28 candidates and classes" in said
    assert said.startswith("Scores, their common level left out, are off by up to 0.")
    wrong[-1] = np.inf
    said = off_by_modes(pls.engine, pls.labeled, 2, search, pairs, wrong)
    assert "of the 27 that were judged, of 28 candidates and classes, by draws" in said


@pytest.mark.filterwarnings("ignore:.*no labeled row of class:pymc_bpls.BPLSWarning")
def test_a_mode_without_mass_of_any_class_is_not_warned_of():
    def declare():
        b = pm.NormalMixture("b", w=[1e-9, 1 - 1e-9], mu=[-3, 3], sigma=0.5)
        pm.Bernoulli("y", logit_p=b * x, observed=FEW)

    pls = built(declare)
    with warnings.catch_warnings():
        warnings.simplefilter("error", bpls.BPLSWarning)
        pls.score("ppp", labels="all", approximation="laplace")
