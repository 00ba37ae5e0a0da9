"""Whether a pool can inform a model, and by how much, against quadrature and the model's own simulations."""

import numpy as np
import pymc as pm
import pytest
import zoo
from scipy.optimize import minimize_scalar
from scipy.special import expit, logsumexp
from scipy.stats import norm

import pymc_bpls as bpls

pytestmark = pytest.mark.filterwarnings("ignore:.*is a Beta-Binomial of one trial:pymc_bpls.BPLSWarning")

#: A latent process over all rows is declared by the features of all of them.
ENTERED = "latent_gp"
OF_LABELS = [name for name in zoo.ACCEPTED if name not in ("class_conditional_gaussian", ENTERED)]
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
    assert found.sources.nats.item() == found.nats and list(found.sources.source) == ["x"]
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


def nuisance():
    """Who was labeled does not depend on the label, but for a δ that is next to nothing: the input of the report."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 2))
    truth = (rng.random(400) < expit(X @ [1.5, -1.0] - 1)).astype(int)
    given = (rng.random(400) < 0.15).astype(int)
    with pm.Model() as model:
        b = pm.Normal("b", 0, 1.5, shape=2)
        label = pm.Bernoulli("label", logit_p=X @ b, observed=np.where(given == 1, truth, -1))
        delta = pm.Normal("delta", 0, 0.001)
        pm.Bernoulli("labeled", logit_p=pm.Normal("rate", -1.5, 1.5) + delta * label, observed=given)
    return bpls.BPLS(model, target="label"), given


def test_parameters_that_no_prediction_depends_on_are_told_by_themselves():
    pls, given = nuisance()
    found = pls.information(progressbar=False)
    assert not found.informative and abs(found.nats) < 1e-3 and found.equivalent_labels < 1
    assert 'nats about parameters that no prediction depends on ("rate")' in found.verdict
    # R ~ Bernoulli(σ(rate)): Laplace's variance of `rate` given the labeled rows' R = 1, and the expected curvature of the rest
    rate = minimize_scalar(lambda at: 0.5 * ((at + 1.5) / 1.5) ** 2 + given.sum() * np.logaddexp(0, -at), (0, 4)).x
    precision = 1.5**-2 + given.sum() * expit(rate) * expit(-rate)
    p = expit(rate + NODES / np.sqrt(precision))
    brought = 0.5 * np.log1p((given == 0).sum() * (p**2 @ WEIGHTS / WEIGHTS.sum()) / precision)
    np.testing.assert_allclose(found.sources.nuisance_nats.sel(source="labeled"), brought, rtol=0.01)


def test_features_whose_parameters_the_labels_share_bring_what_quadrature_says():
    """The input of the report: the sd of `mu` is .272 given six labeled rows, and .118 given all features."""
    x = np.random.default_rng(0).normal(3, 1, size=60)
    y = np.where(np.arange(60) < 6, (x > 3).astype(int), -1)
    with pm.Model() as model:
        mu, b = pm.Normal("mu", 0, 5), pm.HalfNormal("b", 3)
        pm.Normal("features", mu, 1, observed=x)
        pm.Bernoulli("y", logit_p=b * (x - mu), observed=y)
    found = bpls.BPLS(model, target="y").information(progressbar=False)
    at, scales = np.linspace(1, 5, 801), np.exp(np.linspace(-8, 3, 401))
    sds = []
    for seen in (x[:6], x):
        log_p = norm.logpdf(at, 0, 5) + norm.logpdf(seen[:, None], at).sum(axis=0)
        log_lik = -np.logaddexp(0, -(2 * y[:6] - 1) * scales[None, :, None] * (x[:6] - at[:, None, None])).sum(axis=-1)
        log_joint = log_p[:, None] + log_lik - scales**2 / 18 + np.log(scales)
        p = np.exp(log_joint - logsumexp(log_joint)).sum(axis=1)
        sds.append(np.sqrt(p @ at**2 - (p @ at) ** 2))
    np.testing.assert_allclose(sds, [0.272, 0.118], atol=1e-3)
    np.testing.assert_allclose(found.nats, np.log(sds[0] / sds[1]), rtol=0.05)
    assert found.informative and 0 < found.equivalent_labels < 54 and list(found.sources.source) == ["features"]
    assert found.sources.nats.item() == found.nats and (found.rows.nats <= found.rows.nats_with_label).all()
    assert "cannot inform" not in found.verdict and "Pseudo-labels add no information to that." in found.verdict


def two_sources(first, second, y):
    """Two features of one shift, with different errors."""
    with pm.Model() as model:
        shift = pm.Normal("shift", 0, 2)
        label = pm.Bernoulli("label", 0.5, observed=y)
        pm.Normal("first", shift * (2 * label - 1), 1, observed=first)
        pm.Normal("second", shift * (2 * label - 1), 2, observed=second)
    return bpls.BPLS(model, target="label").information(progressbar=False)


def test_each_source_is_told_by_itself():
    """By quadrature over the conjugate posterior of the shift, given both features of the labeled rows."""
    rng, labels = np.random.default_rng(5), np.arange(40) % 2
    first, second = rng.normal(2 * labels - 1, 1), rng.normal(2 * labels - 1, 2)
    y, sign = np.where(np.arange(40) < 8, labels, -1), 2 * labels[:8] - 1
    found = two_sources(first, second, y)
    variance = 1 / (1 / 4 + 8 + 8 / 4)
    shift = variance * (sign @ first[:8] + sign @ second[:8] / 4) + np.sqrt(variance) * NODES

    def parts(x, error):
        """The log-odds of a pool row by one feature, and the gradients of its density in either class."""
        x = x[8:, None]
        return 2 * x * shift / error, (x - shift) / error, (-x - shift) / error

    def over_shift(values):
        return (values @ WEIGHTS / WEIGHTS.sum()).sum() * variance

    of_first, of_second = parts(first, 1), parts(second, 4)
    odds, up, down = (a + b for a, b in zip(of_first, of_second, strict=True))
    with_label = over_shift(expit(odds) * up**2 + expit(-odds) * down**2)
    both = over_shift((expit(odds) * up + expit(-odds) * down) ** 2)
    np.testing.assert_allclose(found.nats, 0.5 * np.log1p(both), rtol=0.01)
    for name, (odds, up, down) in {"first": of_first, "second": of_second}.items():
        alone, source = over_shift((expit(odds) * up + expit(-odds) * down) ** 2), found.sources.sel(source=name)
        np.testing.assert_allclose(source.nats, 0.5 * np.log1p(alone), rtol=0.01)
        np.testing.assert_allclose(source.equivalent_labels, 32 * alone / with_label, rtol=0.01)
        np.testing.assert_allclose(source.nuisance_nats, 0, atol=1e-5)  # log-odds are seen to .001
    assert "By themselves they bring, in nats" in found.verdict


def test_in_a_class_conditional_model_the_range_of_the_log_odds_counts():
    """½ log(det Σ_bb / det Σ'_bb) with b = V'θ, V the range of the log-odds' gradient by finite differences."""
    rng, labels = np.random.default_rng(2), np.arange(60) % 2
    x, y = rng.normal(2.0 * labels, 1), np.where(np.arange(60) < 20, labels, -1)
    with pm.Model() as model:
        mean, scale = pm.Normal("mean", 0, 2, shape=2), pm.LogNormal("scale", 0, 0.5)
        label = pm.Bernoulli("label", pm.Beta("share", 2, 2), observed=y)
        pm.Normal("x", mean[label], scale, observed=x)
    pls = bpls.BPLS(model, target="label")
    found, fit = pls.information(progressbar=False), pls.fit(other_modes=False, progressbar=False)
    centre, covariance, engine = fit.unconstrained.to_numpy(), np.linalg.inv(fit.hessian.to_numpy()), pls.engine

    def slopes(theta, of, step=1e-5):
        return np.stack([(of(theta + step * e) - of(theta - step * e)) / (2 * step) for e in np.eye(4)], axis=-1)

    _, s, basis = np.linalg.svd(slopes(centre, lambda at: np.diff(engine.log_lik(at, np.arange(60)), axis=1)[:, 0]))
    V = basis[: (s > 1e-4 * s[0]).sum()].T
    assert V.shape[1] == 2  # a + b x, of four parameters
    draws = centre + np.random.default_rng(0).normal(size=(400, 4)) @ np.linalg.cholesky(covariance).T
    scores = [slopes(theta, lambda at: logsumexp(engine.log_lik(at, np.arange(20, 60)), axis=1)) for theta in draws]
    after = np.linalg.inv(np.linalg.inv(covariance) + np.mean([score.T @ score for score in scores], axis=0))

    def narrowed(of):
        return 0.5 * (np.linalg.slogdet(of.T @ covariance @ of)[1] - np.linalg.slogdet(of.T @ after @ of)[1])

    np.testing.assert_allclose(found.nats, narrowed(V), rtol=0.05)
    np.testing.assert_allclose(found.nats + found.sources.nuisance_nats.item(), narrowed(np.eye(4)), rtol=0.05)


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
    assert 'can inform this model through "x"' in repr(pls) and "can inform this model" in pls._repr_html_()
    assert "add no information" not in pls.self_train(rounds=1, progressbar=False).attrs["verdict"]
    with pm.Model() as model:
        pm.Bernoulli("label", logit_p=x * pm.Normal("slope", 0, 2), observed=y)
    logistic = bpls.BPLS(model)
    said = "As declared, this model describes y given x only: unlabeled rows and pseudo-labels add no information."
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
