"""Structured refits against refits by autodiff in θ, and against scikit-learn; the chunk and the memory it needs."""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
from sklearn.preprocessing import SplineTransformer

import pymc_bpls as bpls
from pymc_bpls.engine.modes.refits import chunk_size

N, D, K = 60, 8, 3
rng = np.random.default_rng(4)
X = rng.normal(size=(N, D))
eta = X @ rng.normal(size=D)
BINARY = np.where(np.arange(N) < 30, eta + rng.logistic(size=N) > 0, -1)
ORDERED = np.where(np.arange(N) < 30, np.digitize(eta + rng.logistic(size=N), [-1.5, 1.5]), -1)
GROUP = np.arange(N) % 9
ordered = pm.distributions.transforms.ordered


def beta(size=D):
    return pm.Normal("beta", 0, 1, shape=size)


def logistic():
    pm.Bernoulli("label", logit_p=X @ beta(), observed=BINARY)


def probit():
    pm.Bernoulli("label", p=pm.math.invprobit(X @ beta()), observed=BINARY)


def cloglog():
    pm.Bernoulli("label", p=1 - pm.math.exp(-pm.math.exp(X @ beta())), observed=BINARY)


def binomial():
    pm.Binomial("label", n=1, logit_p=X @ beta(), observed=BINARY)


def ordinal_fixed():
    pm.OrderedLogistic("label", eta=X @ beta(), cutpoints=[-1.0, 1.0], observed=ORDERED, compute_p=False)


def ordinal_free():
    cutpoints = pm.Normal("c", [-1, 1], 1, shape=2, transform=ordered, initval=[-1.0, 1.0])
    pm.OrderedLogistic("label", eta=X @ beta(), cutpoints=cutpoints, observed=ORDERED, compute_p=False)


def softmax():
    pm.Categorical("label", logit_p=X @ beta((D, K)), observed=ORDERED)


def spline():
    basis = SplineTransformer(n_knots=8, degree=3).fit_transform(X[:, :1])
    pm.Bernoulli("label", logit_p=basis @ beta(basis.shape[1]), observed=BINARY)


def groups():
    spread, z = pm.HalfNormal("spread", 1), pm.Normal("z", 0, 1, shape=9)
    pm.Bernoulli("label", logit_p=X @ beta() + (spread * z)[GROUP], observed=BINARY)


def scaled():
    """η is bilinear in nine parameters: a product of a common scale and eight coefficients."""
    pm.Bernoulli("label", logit_p=X @ (pm.HalfNormal("scale", 1) * beta()), observed=BINARY)


STRUCTURED = {
    logistic: 1,
    probit: 1,
    cloglog: 1,
    binomial: 1,
    ordinal_fixed: 1,
    ordinal_free: 3,
    softmax: 3,
    spline: 1,
    groups: 3,
}


def declared(model):
    with pm.Model() as held:
        model()
    return bpls.BPLS(held)


def by_autodiff(pls):
    """The same object with the structured path switched off."""
    other = object.__new__(bpls.BPLS)
    other.__dict__.update(pls.__dict__)
    engines = pls.scorer.engines.change(lambda engine: replace(engine, affine=False))
    other._scorer = replace(pls.scorer, engines=engines)
    return other


@pytest.mark.slow
@pytest.mark.parametrize("model", STRUCTURED, ids=lambda model: model.__name__)
def test_structured_and_general_refits_agree_to_1e_8(model):
    pls = declared(model)
    assert pls.scorer.problem.density.structure.affine_map.size == STRUCTURED[model]
    structured, general = (p.score("ppp", labels="all", approximation="laplace") for p in (pls, by_autodiff(pls)))
    assert structured["converged"].all()
    assert general["converged"].all()
    for name in ("score", "log_det", "log_lik_labeled", "log_lik_pseudo", "log_prior", "log_ppp"):
        np.testing.assert_allclose(structured[name], general[name], rtol=0, atol=1e-8)


@pytest.mark.slow
def test_a_model_that_is_not_affine_takes_the_general_path():
    pls = declared(scaled)
    assert pls.scorer.problem.density.structure.affine_map is None
    assert np.isfinite(pls.score(approximation="laplace")["score"]).all()


@pytest.mark.parametrize("path", (lambda pls: pls, by_autodiff), ids=("structured", "general"))
def test_a_probability_that_rounds_to_one_leaves_the_gradient_finite(path):
    """With y = 1 and η = 8, log(1 − exp(−exp η)) is flat, so that only the prior's gradient −θ and Hessian 1 are left."""
    with pm.Model() as model:
        slope = pm.Normal("slope", 0, 1, initval=8.0)
        pm.Bernoulli("label", p=1 - pm.math.exp(-pm.math.exp(np.array([1.0, 1.0, -50.0, 1.0]) * slope)), observed=[1, 1, 0, -1])
    pls = path(bpls.BPLS(model))
    parameters = pls.engine.density.parameters
    value, gradient, hessian = pls.engine.derivatives(pls.labeled)(parameters.counted(np.array([8.0])))
    unit = parameters.units[0]
    np.testing.assert_allclose(value - np.log(unit), -32 - 0.5 * np.log(2 * np.pi), atol=1e-12)
    np.testing.assert_allclose((gradient[0] / unit, hessian[0, 0] / unit**2), (-8.0, 1.0), atol=1e-12)


def test_small_chunks_give_the_same_scores():
    pls = declared(logistic)
    whole, small = pls.score(approximation="laplace"), pls.score(approximation="laplace", chunk_bytes=2**14)
    np.testing.assert_allclose(whole["score"], small["score"], rtol=0, atol=1e-10)


def test_a_chunk_never_takes_more_memory_than_it_may():
    for megabytes in (1, 16, 256):
        size = chunk_size(D, 4096, 10**6, megabytes * 2**20)
        assert 8 * size * 6 * (D * D + 4096 * D) <= max(megabytes * 2**20, 8 * 6 * (D * D + 4096 * D))


def test_the_number_of_compilations_does_not_grow_with_the_pool_or_the_rounds():
    pls = declared(logistic)
    pls.self_train(rounds=2, progressbar=False, approximation="laplace")
    few = pls.compilations.sizes["compilation"]
    pls.self_train(progressbar=False, approximation="laplace")
    assert pls.compilations.sizes["compilation"] <= few + 4
