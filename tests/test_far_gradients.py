"""The gradient of the density that NUTS samples, where predictors are so far out that probabilities round to 0 or 1."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.special import expit, softmax

import pymc_bpls as bpls
from pymc_bpls.montecarlo.nuts import divergences, sample, weighted_model

N, N_LABELED, Q, SD = 30, 20, 3, 40.0
_rng = np.random.default_rng(0)
X = _rng.normal(size=(N, Q))
Y = np.where(np.arange(N) < N_LABELED, (X[:, 0] + 0.5 * _rng.normal(size=N) > 0).astype(int), -1)
Y3 = np.where(np.arange(N) < N_LABELED, np.digitize(X[:, 0] + 0.3 * _rng.normal(size=N), [-0.5, 0.5]), -1)
LABELED, SIGNS = X[:N_LABELED], 2 * Y[:N_LABELED] - 1
CUTS = np.array([-20.0, 20.0])

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning")


def normal(shape=Q):
    return pm.Normal("b", 0, SD, shape=shape)


def by_logit():
    pm.Bernoulli("y", logit_p=X @ normal(), observed=Y)


def by_sigmoid():
    pm.Bernoulli("y", p=pm.math.sigmoid(X @ normal()), observed=Y)


def by_hand():
    pm.Bernoulli("y", p=1 / (1 + pt.exp(-(X @ normal()))), observed=Y)


def by_mixture():
    """A mixture of one label with itself, whose weights are no parameters."""
    b = normal()
    parts = [pm.Bernoulli.dist(logit_p=X @ b), pm.Bernoulli.dist(logit_p=X @ b)]
    pm.Mixture("y", w=[0.5, 0.5], comp_dists=parts, observed=Y)


def by_softmax():
    pm.Categorical("y", p=pm.math.softmax(X @ normal((Q, 3)), axis=-1), observed=Y3)


def by_cutpoints():
    """Cutpoints so far apart that all rows are in the middle class but for the tails of a logistic distribution."""
    pm.OrderedLogistic("y", eta=X @ normal(), cutpoints=CUTS, observed=np.where(Y3 < 0, -1, 1))


def gradient_of_two(b):
    return LABELED.T @ (SIGNS * expit(-SIGNS * (LABELED @ b))) - b / SD**2


def gradient_of_softmax(b):
    b = b.reshape(Q, 3)
    shown = np.eye(3)[Y3[:N_LABELED]] - softmax(LABELED @ b, axis=1)
    return (LABELED.T @ shown - b / SD**2).ravel()


def gradient_of_cutpoints(b):
    """log{σ(c₂ − η) − σ(c₁ − η)} has the slope σ(η − c₂) + σ(η − c₁) − 1 turned around."""
    eta = LABELED @ b
    return LABELED.T @ (1 - expit(eta - CUTS[0]) - expit(eta - CUTS[1])) - b / SD**2


MODELS = {
    by_logit: (gradient_of_two, {}, 100.0),
    by_sigmoid: (gradient_of_two, {}, 100.0),
    by_hand: (gradient_of_two, {}, 100.0),
    by_mixture: (gradient_of_two, {"classes": [0, 1]}, 100.0),
    by_softmax: (gradient_of_softmax, {}, 100.0),
    by_cutpoints: (gradient_of_cutpoints, {"classes": [0, 1, 2]}, 3.0),
}


@pytest.mark.filterwarnings("ignore::pymc_bpls.BPLSWarning")
@pytest.mark.parametrize(
    "declare",
    [pytest.param(declare, marks=[pytest.mark.slow] * (declare in (by_sigmoid, by_hand))) for declare in MODELS],
    ids=lambda declare: declare.__name__,
)
def test_the_gradient_is_that_of_a_closed_form_wherever_probabilities_round(declare):
    gradient, options, far = MODELS[declare]
    with pm.Model() as model:
        declare()
    pls = bpls.BPLS(model, **options)
    weighted = weighted_model(pls.scorer.problem, pls.labeled, 1)
    found = weighted.compile_dlogp(mode="FAST_COMPILE")
    directions = np.random.default_rng(1).normal(size=(3, pls.engine.density.dimension))
    for b in (scale * direction for scale in (0.1, 1.0, far / 10, far) for direction in directions):
        np.testing.assert_allclose(found({"shift": b}), gradient(b), rtol=1e-6, atol=1e-9)


def forty_one():
    """300 rows of 41 features as ionosphere has, a fifth of them labeled, N(0, 2.5) coefficients: predictors beyond 40."""
    rng = np.random.default_rng(0)
    X = np.c_[np.ones(300), rng.normal(size=(300, 40))]
    truth = (rng.random(300) < expit(1.5 * X[:, 1] - X[:, 2])).astype(int)
    return X, np.where(rng.random(300) < 0.2, truth, -1)


@pytest.fixture(scope="module")
def wide():
    X, y = forty_one()
    with pm.Model() as model:
        pm.Bernoulli("label", logit_p=X @ pm.Normal("b", 0, 2.5, shape=41), observed=y)
    return bpls.BPLS(model)


SAMPLERS = [name for name in ("pymc", "nutpie", "numpyro") if name == "pymc" or find_spec(name)]


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("k", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_no_draw_diverges_under_wide_priors(wide, sampler, k):
    options = {"draws": 100, "tune": 200, "chains": 1, "cores": 1, "random_seed": 1}
    run = sample(wide.scorer.problem, wide.labeled, k, nuts_sampler=sampler, **options)
    assert divergences(run.sample_stats) == 0


@pytest.mark.slow
def test_draws_under_wide_priors_are_those_of_a_likelihood_by_hand(wide):
    X, y = forty_one()
    given = y >= 0
    options = {"draws": 1000, "tune": 500, "chains": 2, "cores": 1}
    run = sample(wide.scorer.problem, wide.labeled, 1, random_seed=1, **options)
    with pm.Model():
        b = pm.Normal("b", 0, 2.5, shape=41)
        pm.Potential("lik", -pm.math.log1pexp(-(2 * y[given] - 1) * (X[given] @ b)).sum())
        hand = pm.sample(random_seed=2, progressbar=False, compute_convergence_checks=False, **options)
    other = hand["posterior"]["b"].to_numpy().reshape(-1, 41)
    error = np.sqrt((run.flat.var(axis=0) + other.var(axis=0)) / 400)  # an effective sample size that R-hat's limit asks for
    assert np.abs((run.flat.mean(axis=0) - other.mean(axis=0)) / error).max() < 4
    np.testing.assert_allclose(run.flat.std(axis=0), other.std(axis=0), rtol=0.25)
