"""Laplace's method: by hand, against exact integrals, against PyMC's own density, and where there is no mode."""

import numpy as np
import pymc as pm
import pytest
from pytensor.compile.mode import Mode
from scipy.special import betaln
from scipy.stats import multivariate_normal

import pymc_bpls as bpls
from pymc_bpls import ModeError
from pymc_bpls.engine.modes.mode import find_mode

# PyMC's own initial point compiles a Scan in C for LKJCholeskyCov, and PyTensor then looks for a BLAS
pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning")

NOBODY = np.array([], dtype=int)


def best(derivatives, start, names=("a", "b"), **settings):
    start = np.asarray(start, dtype=float)
    return find_mode(derivatives, start, names[: len(start)], **{"prior": True, "n_rows": 5, **settings})


def test_a_quadratic_has_its_mode_and_its_integral_exactly():
    H, centre = np.array([[2.0, 0.6], [0.6, 1.0]]), np.array([3.0, -1.0])

    def quadratic(theta):
        d = theta - centre
        return -0.5 * d @ H @ d, -H @ d, H

    mode = best(quadratic, [0, 0])
    np.testing.assert_allclose(mode.theta, centre, atol=1e-9)
    np.testing.assert_allclose(mode.log_det, np.log(np.linalg.det(H)), atol=1e-12)
    np.testing.assert_allclose(mode.log_integral, 0.5 * np.log(np.linalg.det(2 * np.pi * np.linalg.inv(H))), atol=1e-9)


def test_a_start_on_a_saddle_with_zero_gradient_is_left():
    def double_well(theta):
        x, z = theta
        return -((x**2 - 1) ** 2) - z**2, np.array([-4 * x * (x**2 - 1), -2 * z]), np.diag([12 * x**2 - 4, 2.0])

    np.testing.assert_allclose(np.abs(best(double_well, [0, 0]).theta), [1, 0], atol=1e-7)


def test_a_function_without_a_maximum_is_refused_and_the_direction_named():
    def flank(theta):
        a, b = theta
        p = 1 / (1 + np.exp(a))
        return -np.log1p(np.exp(-a)) - b**2, np.array([p, -2 * b]), np.diag([p * (1 - p), 2.0])

    with pytest.raises(ModeError, match=r'no finite mode: it grows along "a"\.'):
        best(flank, [0, 1])
    with pytest.raises(ModeError, match=r'likelihood grows without bound along "a": the labeled rows are separated'):
        best(flank, [0, 1], prior=False)


def test_a_flat_direction_is_refused_and_the_parameters_named_with_their_signs():
    def ridge(theta):
        d = theta[0] + theta[1] - 1
        return -(d**2), np.array([-2 * d, -2 * d]), np.full((2, 2), 2.0)

    with pytest.raises(ModeError, match=r'singular along (-"a", "b"|"a", -"b"|"b", -"a"|-"b", "a")'):
        best(ridge, [0, 0])
    with pytest.raises(ModeError, match="5 labeled rows do not identify"):
        best(ridge, [0, 0], prior=False)


def test_a_kink_at_the_mode_is_refused_and_named():
    def kinked(theta):
        a, b = theta
        return -abs(a) - b**2, np.array([-np.sign(a), -2 * b]), np.diag([1e-3, 2.0])

    with pytest.raises(ModeError, match='kink in "a"'):
        best(kinked, [0.3, 0.3])


def test_a_density_that_is_not_finite_at_the_start_asks_for_another_start():
    with pytest.raises(ModeError, match="initvals="):
        best(lambda theta: (np.nan, theta, np.eye(2)), [0, 0])


def test_six_of_nine_successes_under_a_uniform_prior_are_as_computed_by_hand():
    with pm.Model() as model:
        p = pm.Uniform("p", 0, 1)
        pm.Bernoulli("y", p=p, observed=np.r_[np.ones(6, int), np.zeros(3, int), -1])
    fit = bpls.BPLS(model).fit()
    np.testing.assert_allclose(fit.mode["p"], 7 / 11, atol=1e-9)
    np.testing.assert_allclose(fit.unconstrained, [np.log(7 / 4)], atol=1e-9)
    np.testing.assert_allclose(fit.hessian, [[28 / 11]], atol=1e-7)
    np.testing.assert_allclose(fit.log_evidence, -6.758516, atol=1e-5)
    np.testing.assert_allclose(fit.log_evidence, betaln(7, 4), atol=0.03)


@pytest.fixture(scope="module")
def gaussian():
    """A model that is Gaussian in θ, where Laplace is exact: y ~ N(Xb, 0.5²), b ~ N(0, 2²), its classes 0 and 1."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(12, 2))
    y = np.r_[rng.integers(0, 2, 8), np.full(4, -1)].astype(float)
    with pm.Model() as model:
        b = pm.Normal("b", 0, 2, shape=2)
        pm.Normal("y", X @ b, 0.5, observed=y)
    return bpls.BPLS(model, classes=[0, 1]), X, y


def log_marginal(X, y):
    """Exact log p(y) of the Gaussian model."""
    return multivariate_normal.logpdf(y, np.zeros(len(y)), 4 * X @ X.T + 0.25 * np.eye(len(y)))


def test_the_evidence_of_a_gaussian_model_is_exact(gaussian):
    pls, X, y = gaussian
    fit = pls.fit()
    np.testing.assert_allclose(fit.log_evidence, log_marginal(X[:8], y[:8]), atol=1e-9)
    precision = X[:8].T @ X[:8] / 0.25 + np.eye(2) / 4
    np.testing.assert_allclose(fit.hessian, precision, rtol=1e-9)
    np.testing.assert_allclose(fit.mode["b"], np.linalg.solve(precision, X[:8].T @ y[:8] / 0.25), rtol=1e-8)


def test_ppp_and_evidence_of_every_candidate_and_class_are_exact_where_the_model_is_gaussian(gaussian):
    pls, X, y = gaussian
    ppp, evidence = (
        pls.score("ppp", labels="all", approximation="laplace"),
        pls.score("marginal_likelihood", labels="all", approximation="laplace"),
    )
    once, twice = np.arange(8), np.r_[np.arange(8), np.arange(8)]
    for i in ppp["candidate"].to_numpy():
        for label in (0, 1):
            joint = log_marginal(X[np.r_[once, i]], np.r_[y[once], label])
            doubled = log_marginal(X[np.r_[twice, i]], np.r_[y[twice], label])
            at = {"candidate": i, "label": label}
            np.testing.assert_allclose(evidence["log_evidence"].sel(at), joint, atol=1e-8)
            np.testing.assert_allclose(ppp["log_ppp"].sel(at), doubled - log_marginal(X[:8], y[:8]), atol=1e-8)


def test_the_fit_prints_its_evidence_and_carries_names(gaussian):
    fit = gaussian[0].fit()
    assert fit.converged
    assert fit.unconstrained["parameter"].to_numpy().tolist() == ["b[0]", "b[1]"]
    assert f"log evidence {fit.log_evidence:.3f} by Laplace's method" in str(fit)
    hessian = fit.hessian.to_numpy()
    scale = 1 / np.sqrt(np.diag(hessian))
    np.testing.assert_allclose(fit.diagnostics["condition"], np.linalg.cond(hessian * np.outer(scale, scale)), rtol=1e-9)


X3 = np.random.default_rng(3).normal(size=(30, 2))
GROUP = np.arange(30) % 5
BINARY = (X3[:, 0] + 0.8 * (GROUP == 1) + np.random.default_rng(4).logistic(size=30) > 0).astype(int)
THREE = np.digitize(X3[:, 0] + np.random.default_rng(6).logistic(size=30), [-1, 1])


def network():
    with pm.Model() as model:
        inner = pm.Normal("inner", 0, 2, shape=(2, 2))
        outer = pm.Normal("outer", 0, 2, shape=2)
        pm.Bernoulli("label", logit_p=pm.math.tanh(X3 @ inner) @ outer, observed=BINARY)
    return model


def half_normal():
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        effect = pm.Normal("effect", shape=5)
        pm.Bernoulli("label", logit_p=(scale * effect)[GROUP] + X3[:, 0], observed=BINARY)
    return model


def dirichlet():
    with pm.Model() as model:
        p = pm.Dirichlet("p", np.array([2.0, 1.0, 3.0]))
        pm.Categorical("label", p=p, observed=THREE)
    return model


def ordered():
    with pm.Model() as model:
        cuts = pm.Normal("cuts", 0, 3, shape=2, transform=pm.distributions.transforms.ordered, initval=[-1, 1])
        b = pm.Normal("b", 0, 2)
        pm.OrderedLogistic("label", eta=b * X3[:, 0], cutpoints=cuts, observed=THREE)
    return model


def zero_sum():
    with pm.Model(coords={"group": list("abcde")}) as model:
        effect = pm.ZeroSumNormal("effect", 1, dims="group")
        pm.Bernoulli("label", logit_p=effect[GROUP], observed=BINARY)
    return model


def lkj():
    with pm.Model() as model:
        chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=pm.Exponential.dist(1), compute_corr=True)
        raw = pm.Normal("raw", shape=(5, 2))
        effect = raw @ chol.T
        pm.Bernoulli("label", logit_p=effect[GROUP, 0] + effect[GROUP, 1] * X3[:, 0], observed=BINARY)
    return model


CONSTRAINED = {
    "p": (dirichlet, lambda mode: float(mode["p"].sum()) == pytest.approx(1)),
    "cuts": (ordered, lambda mode: bool((np.diff(mode["cuts"]) > 0).all())),
    "scale": (half_normal, lambda mode: float(mode["scale"]) > 0),
    "effect": (zero_sum, lambda mode: abs(float(mode["effect"].sum())) < 1e-9),
    "chol": (lkj, lambda mode: mode["chol"].size == 3),
    "inner": (network, lambda mode: np.abs(mode["inner"]).max() > 0.1),
}


def log_density(model):
    """PyMC's own log-density with Jacobian, as a function of the joined unconstrained vector."""
    function = model.compile_logp(jacobian=True, mode=Mode(linker="py", optimizer=None))
    point = model.initial_point()
    shapes = {value.name: np.shape(point[value.name]) for value in model.value_vars}
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])

    def joined(theta):
        parts = np.split(theta, ends[:-1])
        return float(function({name: part.reshape(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}))

    return joined


def differences(f, x, h=1e-4):
    """Gradient and Hessian of f at x by central differences."""
    steps = h * np.eye(len(x))
    gradient = np.array([(f(x + e) - f(x - e)) / (2 * h) for e in steps])
    hessian = [[(f(x + e + d) - f(x + e - d) - f(x - e + d) + f(x - e - d)) / (4 * h * h) for d in steps] for e in steps]
    return gradient, np.array(hessian)


# a network has modes beside the one in use
@pytest.mark.filterwarnings("ignore:.*modes of the posterior were found:pymc_bpls.BPLSWarning")
@pytest.mark.parametrize("name", CONSTRAINED)
def test_mode_and_hessian_are_those_of_pymcs_density_with_jacobian(name):
    declare, holds = CONSTRAINED[name]
    model = declare()
    fit = bpls.BPLS(model, unlabeled=NOBODY).fit()
    theta = fit.unconstrained.to_numpy()
    f = log_density(model)
    gradient, hessian = differences(f, theta)
    np.testing.assert_allclose(gradient, 0, atol=2e-6)
    np.testing.assert_allclose(fit.hessian, -hessian, rtol=1e-4, atol=1e-4)
    assert np.linalg.eigvalsh(fit.hessian).min() > 0
    log_evidence = f(theta) + 0.5 * len(theta) * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(-hessian)[1]
    np.testing.assert_allclose(fit.log_evidence, log_evidence, atol=1e-4)
    assert holds(fit.mode)


def test_named_parameters_have_the_models_dims_and_coords():
    fit = bpls.BPLS(zero_sum(), unlabeled=NOBODY).fit()
    assert fit.mode["effect"].dims == ("group",)
    assert fit.mode["group"].to_numpy().tolist() == list("abcde")
