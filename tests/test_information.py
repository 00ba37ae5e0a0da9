"""Whether a pool can inform a model, and by how much, against quadrature and the model's own simulations."""

import numpy as np
import pymc as pm
import pytest
import zoo
from scipy.special import expit, logsumexp
from scipy.stats import norm

import pymc_bpls as bpls

pytestmark = pytest.mark.filterwarnings("ignore:.*is a Beta-Binomial of one trial:pymc_bpls.BPLSWarning")

OF_LABELS = [name for name in zoo.ACCEPTED if name != "class_conditional_gaussian"]
FAST = ("logistic", "custom_distribution")
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)


def on_a_line(x, y, spread=2.0):
    """x | y ~ N(±shift, 1) with even classes and shift ~ N(0, spread²)."""
    with pm.Model() as model:
        shift = pm.Normal("shift", 0, spread)
        label = pm.Bernoulli("label", 0.5, observed=y)
        pm.Normal("x", shift * (2 * label - 1), 1, observed=x)
    return bpls.BPLS(model, target="label")


def simulate(rng, n, m, spread=2.0):
    """A shift from the prior, rows given it, and labels of the first n."""
    shift, labels = rng.normal(0, spread), rng.integers(2, size=n + m)
    labels[:2] = 0, 1
    x = rng.normal(shift * (2 * labels - 1), 1)
    return x, np.where(np.arange(n + m) < n, labels, -1)


def of_labeled(x, y, spread=2.0):
    """The conjugate posterior of the shift: mean and variance."""
    known = y >= 0
    variance = 1 / (known.sum() + spread**-2)
    return variance * ((2 * y[known] - 1) @ x[known]), variance


def scores_of(x, shift):
    """∇g and Σ_y p(y) (∇ℓ_y)² at each shift, (rows, shifts): g = log ½ Σ N(x; ±shift, 1)."""
    p = expit(2 * x[:, None] * shift)
    up, down = x[:, None] - shift, -x[:, None] - shift
    return p * up + (1 - p) * down, p * up**2 + (1 - p) * down**2


@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in FAST else pytest.mark.slow) for name in OF_LABELS])
def test_the_pool_cannot_inform_a_model_of_labels_given_features(name):
    kind = zoo.ACCEPTED[name]
    found = bpls.BPLS(kind.table(), **kind.options).information()
    assert not found.informative and found.nats == 0 and found.equivalent_labels == 0
    assert "cannot inform this model" in found.verdict and "Pseudo-labels add no information." in str(found)
    assert not found.rows.nats.any()


@pytest.mark.parametrize("m", [14, 3000])
def test_information_is_that_of_quadrature(m):
    x, y = simulate(np.random.default_rng(1), 8, m)
    found = on_a_line(x, y).information()
    mean, variance = of_labeled(x, y)
    score, with_label = scores_of(x[8:], mean + np.sqrt(variance) * NODES)
    own, labels = (values**power @ WEIGHTS / WEIGHTS.sum() for values, power in ((score, 2), (with_label, 1)))
    np.testing.assert_allclose(found.nats, 0.5 * np.log1p(variance * own.sum()), rtol=0.01)
    np.testing.assert_allclose(found.equivalent_labels, m * own.sum() / labels.sum(), rtol=0.01)
    np.testing.assert_allclose(found.rows.nats, 0.5 * variance * own, rtol=0.05, atol=1e-3)
    assert found.informative and 0 < found.equivalent_labels < m and f"{m} rows is worth about" in found.verdict
    assert (found.rows.nats <= found.rows.nats_with_label).all()


def test_a_row_far_from_the_boundary_is_worth_a_label_and_one_on_it_half_of_it():
    """With two means of equal variance, the score of a row on the boundary is that of half a row of each class."""
    y = np.where(np.arange(15) < 10, np.arange(15) % 2, -1)
    x = np.r_[np.where(y[:10] == 1, 3, -3) + np.repeat(np.linspace(-1, 1, 5), 2), 0.0, 0.3, 0.7, 2.0, 5.0]
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 10, shape=2)
        label = pm.Bernoulli("label", 0.5, observed=y)
        pm.Normal("x", mean[label], 1, observed=x)
    rows = bpls.BPLS(model, target="label").information().rows
    worth = (rows.nats / rows.nats_with_label).to_numpy()
    assert (np.diff(worth) > 0).all() and worth[-1] > 0.999 and 0.5 < worth[0] < 0.7


def test_what_reaches_no_parameter_tells_nothing():
    x, y = simulate(np.random.default_rng(3), 8, 6)
    with pm.Model() as model:
        label = pm.Bernoulli("label", logit_p=pm.Normal("intercept", 0, 1) * np.ones(14), observed=y)
        pm.Normal("x", 0 * label, 1, observed=x)
    found = bpls.BPLS(model, target="label").information()
    assert not found.informative and "tells this model nothing" in found.verdict


def test_labels_with_a_density_are_refused():
    with pm.Model() as model:
        pm.Normal("label", pm.Normal("a", 0, 1) * np.ones(8), 1, observed=np.array([0.0, 1, 0, 1, -1, -1, -1, -1]))
    with pytest.raises(bpls.ModelError, match=r'"label" does not add up to 1 over its classes.*row 4'):
        bpls.BPLS(model, classes=[0.0, 1.0]).information()


def test_a_model_without_a_pool_is_refused():
    x, y = simulate(np.random.default_rng(3), 8, 0)
    with pytest.raises(bpls.RowError, match="no candidate"):
        on_a_line(x, y).information()


def test_a_model_says_whether_the_pool_can_inform_it():
    x, y = simulate(np.random.default_rng(1), 8, 6)
    pls = on_a_line(x, y)
    assert "The pool can inform this model of the features" in repr(pls) and "can inform this model" in pls._repr_html_()
    assert "add no information" not in pls.self_train(rounds=1, progressbar=False).attrs["verdict"]
    with pm.Model() as model:
        pm.Bernoulli("label", logit_p=x * pm.Normal("slope", 0, 2), observed=y)
    logistic = bpls.BPLS(model)
    said = "This model says nothing of x: pseudo-labels add no information."
    assert said in repr(logistic) and said in logistic.self_train(rounds=1, progressbar=False).attrs["verdict"]
    assert said not in logistic.self_train(rounds=0, progressbar=False).attrs["verdict"]


@pytest.mark.slow
def test_nats_are_the_mean_divergence_under_the_models_own_simulations():
    """KL(p(θ | D, pool) ‖ p(θ | D)) by quadrature, over data sets of the model."""
    rng = np.random.default_rng(0)
    grid = np.linspace(-12, 12, 24001)
    predicted, divergence = [], []
    for _ in range(60):
        x, y = simulate(rng, 12, 20)
        mean, variance = of_labeled(x, y)
        log_first = norm.logpdf(grid, mean, np.sqrt(variance))
        g = logsumexp([norm.logpdf(x[12:, None], sign * grid) for sign in (-1, 1)], axis=0).sum(0)
        log_both = log_first + g
        log_both -= logsumexp(log_both) + np.log(grid[1] - grid[0])
        p = np.exp(log_both) * (grid[1] - grid[0])
        divergence.append(p @ (log_both - log_first))
        predicted.append(on_a_line(x, y).information().nats)
    difference = np.array(predicted) - divergence
    error = difference.std(ddof=1) / np.sqrt(len(difference))
    print(np.mean(predicted), np.mean(divergence), error)
    assert abs(difference.mean()) < 0.1 * np.mean(divergence) + 2 * error
