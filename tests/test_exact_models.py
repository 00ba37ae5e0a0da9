"""The exact criterion of a softmax, a hierarchical and an ordinal model, against quadrature written from scratch."""

import numpy as np
import pymc as pm
import pytest
from scipy.special import expit, logsumexp
from scipy.stats import norm

import pymc_bpls as bpls

pytestmark = pytest.mark.filterwarnings("ignore:The exact reference is not reliable:pymc_bpls.BPLSWarning")
N_LABELED, N = 14, 18
rng = np.random.default_rng(11)
x = rng.normal(size=N)
GROUP = np.arange(N) % 2
THREE = np.digitize(1.2 * x + rng.logistic(size=N), [-0.7, 0.7])
TWO = (x + 0.5 * GROUP + rng.logistic(size=N) > 0).astype(int)
NUTS = {"draws": 500, "tune": 500, "chains": 4, "cores": 1, "progressbar": False}


def hidden(labels):
    return np.where(np.arange(N) < N_LABELED, labels, -1)


def softmax():
    b = pm.Normal("b", 0, 1.5, shape=2)
    pm.Categorical("label", logit_p=x[:, None] * pm.math.stack([0.0, b[0], b[1]]), observed=hidden(THREE))


def softmax_grid(theta):
    eta = np.stack([np.zeros_like(theta[:, :1] * x), theta[:, :1] * x, theta[:, 1:] * x], axis=-1)
    return eta - logsumexp(eta, axis=-1, keepdims=True), norm.logpdf(theta, 0, 1.5).sum(axis=1)


def hierarchical():
    scale, z = pm.HalfNormal("scale", 1), pm.Normal("z", 0, 1, shape=2)
    pm.Bernoulli("label", logit_p=x + scale * z[GROUP], observed=hidden(TWO))


def hierarchical_grid(theta):
    scale = np.exp(theta[:, :1])
    eta = x + scale * theta[:, 1:][:, GROUP]
    log_p = np.stack([-np.logaddexp(0, eta), -np.logaddexp(0, -eta)], axis=-1)
    log_prior = norm.logpdf(scale[:, 0]) + np.log(2) + theta[:, 0] + norm.logpdf(theta[:, 1:]).sum(axis=1)
    return log_p, log_prior


def ordinal():
    slope = pm.Normal("slope", 0, 1.5)
    cuts = pm.Normal("cuts", 0, 2, shape=2, transform=pm.distributions.transforms.ordered, initval=[-1.0, 1.0])
    pm.OrderedLogistic("label", eta=slope * x, cutpoints=cuts, observed=hidden(THREE), compute_p=False)


def ordinal_grid(theta):
    low, high = theta[:, 1:2], theta[:, 1:2] + np.exp(theta[:, 2:])
    eta = theta[:, :1] * x
    below, under = expit(low - eta), expit(high - eta)
    with np.errstate(divide="ignore"):
        log_p = np.log(np.stack([below, under - below, 1 - under], axis=-1))
    log_prior = norm.logpdf(theta[:, 0], 0, 1.5) + norm.logpdf(low[:, 0], 0, 2) + norm.logpdf(high[:, 0], 0, 2) + theta[:, 2]
    return log_p, log_prior


CASES = {
    "softmax": (softmax, softmax_grid, THREE, [(-9, 9, 241)] * 2),
    "hierarchical": (hierarchical, hierarchical_grid, TWO, [(-9, 2.5, 101), (-5.5, 5.5, 81), (-5.5, 5.5, 81)]),
    "ordinal": (ordinal, ordinal_grid, THREE, [(-4, 8, 91), (-8, 6, 91), (-6, 3, 91)]),
}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    """The model, log PPP of every candidate and class (4, K), and log Z_2 − log Z_1, by the trapezoidal rule."""
    declare, log_densities, labels, axes = CASES[request.param]
    with pm.Model() as model:
        declare()
    grid = np.stack(np.meshgrid(*(np.linspace(*axis) for axis in axes), indexing="ij"), -1).reshape(-1, len(axes))
    log_joint, log_doubled, log_pool = [], [], []
    for part in np.array_split(grid, 40):
        log_p, log_prior = log_densities(part)
        log_lik = log_p[:, np.arange(N_LABELED), labels[:N_LABELED]].sum(axis=1)
        log_joint.append(logsumexp(log_lik + log_prior))
        log_doubled.append(logsumexp(2 * log_lik + log_prior))
        log_pool.append(logsumexp((2 * log_lik + log_prior)[:, None, None] + log_p[:, N_LABELED:], axis=0))
    log_z1 = logsumexp(log_joint)
    return bpls.BPLS(model), logsumexp(np.stack(log_pool), axis=0) - log_z1, logsumexp(log_doubled) - log_z1


def z_scores(run, truth):
    """Of log PPP, and of the paired differences to the best pair, the best one excluded."""
    found = run["exact"].to_dataset()
    error = found["mcse"].to_numpy()
    best = np.unravel_index(found["log_predictive"].to_numpy().argmax(), truth.shape)
    others = np.ones(truth.shape, dtype=bool)
    others[best] = False
    paired = (found["diff_to_best"].to_numpy() - (truth - truth[best]))[others] / found["diff_to_best_mcse"].to_numpy()[others]
    return (found["log_ppp"].to_numpy() - truth) / error, paired


@pytest.mark.slow
@pytest.mark.parametrize("method", ["psis", "nuts"])
def test_log_ppp_is_that_of_quadrature(case, method):
    pls, truth, normalizer = case
    run = pls.exact(method=method, labels="all", random_seed=4, **(NUTS if method == "nuts" else {}))
    absolute, paired = z_scores(run, truth)
    assert np.abs(absolute).max() < 4
    assert np.abs(paired).max() < 4
    assert abs(run.attrs["log_normalizer"] - normalizer) < 4 * run.attrs["log_normalizer_error"]


@pytest.mark.slow
def test_errors_are_honest(case):
    pls, truth, _ = case
    paired = np.concatenate(
        [z_scores(pls.exact(method="psis", labels="all", random_seed=seed), truth)[1] for seed in range(10)]
    )
    assert 0.7 < paired.std() < 1.4


def test_classes_sum_to_the_normaliser_by_quadrature(case):
    _, truth, normalizer = case
    np.testing.assert_allclose(logsumexp(truth, axis=1), normalizer, atol=1e-10)


@pytest.mark.slow
def test_the_class_sum_error_of_laplace_is_the_distance_from_its_own_normaliser(case):
    pls, _, _ = case
    scores = pls.score(labels="all", approximation="laplace")
    labeled = pls.labeled
    first = pls.engine.fit(labeled)
    doubled = pls.engine.fit(labeled, first.theta, k=2)
    total = logsumexp(scores["log_ppp"].to_numpy(), axis=1)
    np.testing.assert_allclose(scores["class_sum_error"], total - (doubled.log_integral - first.log_integral), atol=1e-10)
