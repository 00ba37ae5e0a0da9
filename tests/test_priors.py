"""Sets of priors: each member is the model that one would have declared."""

import numpy as np
import pymc as pm
import pytest
import reference

import pymc_bpls as bpls

RNG = np.random.default_rng(2)
X = np.column_stack([np.ones(24), RNG.normal(size=24)])
Y = np.where(np.arange(24) < 14, (X[:, 1] + RNG.logistic(size=24) > 0).astype(int), -1)
GROUP = np.arange(24) % 3


def normal(mu=0.0, sigma=1.5):
    with pm.Model() as model:
        beta = pm.Normal("beta", mu, sigma, shape=2)
        pm.Bernoulli("label", logit_p=X @ beta, observed=Y)
    return model


def student(mu=0.3, sigma=1.0):
    with pm.Model() as model:
        beta = pm.StudentT("beta", nu=4, mu=mu, sigma=sigma, shape=2)
        pm.Bernoulli("label", logit_p=X @ beta, observed=Y)
    return model


def correlated(mu=0.0, sigma=1.0):
    with pm.Model() as model:
        beta = pm.MvNormal("beta", mu=np.full(2, mu), cov=sigma**2 * np.array([[1.0, 0.4], [0.4, 2.0]]), initval=[0.1, 0.2])
        pm.Bernoulli("label", logit_p=X @ beta, observed=Y)
    return model


def hierarchy(tau=1.0):
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma", tau)
        z = pm.Normal("z", 0, 1, shape=3)
        pm.Bernoulli("label", logit_p=(sigma * z)[GROUP] + X[:, 1], observed=Y)
    return model


def child(scale=1.0):
    """A variable whose prior depends on another."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        beta = pm.Normal("beta", mu, 0.8 * scale, shape=2)
        pm.Bernoulli("label", logit_p=X @ beta, observed=Y)
    return model


@pytest.mark.parametrize(
    ("model", "name", "change", "declared"),
    (
        (normal(), "beta", {"scale": [3.0], "location": [-0.5]}, normal(-0.5, 4.5)),
        (student(), "beta", {"scale": [0.5], "location": [1.0]}, student(1.3, 0.5)),
        (correlated(), "beta", {"scale": [2.0], "location": [0.25]}, correlated(0.25, 2.0)),
        (hierarchy(), "sigma", {"scale": [0.4]}, hierarchy(0.4)),
        (child(), "beta", {"scale": [2.0]}, child(2.0)),
    ),
    ids=("normal", "student", "mvnormal with initval", "half-normal", "child"),
)
def test_a_member_is_the_model_with_the_other_prior(model, name, change, declared):
    [variant] = bpls.prior_set(model, name, **change).values()
    ours, theirs = bpls.BPLS(variant), bpls.BPLS(declared)
    assert ours.fit().log_evidence == pytest.approx(theirs.fit().log_evidence, abs=1e-9)
    np.testing.assert_allclose(
        ours.score(approximation="laplace")["log_ppp"], theirs.score(approximation="laplace")["log_ppp"], atol=1e-9
    )


# two short chains are not reliable, and say so
@pytest.mark.filterwarnings("ignore:The exact reference is not reliable:pymc_bpls.BPLSWarning")
def test_exact_values_are_those_under_the_other_prior():
    """NUTS takes the prior from another graph than Laplace's method does."""
    [variant] = bpls.prior_set(normal(), "beta", scale=[0.5]).values()
    run = bpls.BPLS(variant).exact(draws=500, tune=500, chains=2, random_seed=1, progressbar=False)
    true = bpls.BPLS(normal(0, 0.75)).exact(method="psis", draws=4000, random_seed=2)
    spread = np.hypot(run["exact"]["mcse"], run.attrs["log_normalizer_error"])
    assert (np.abs(run["exact"]["log_ppp"] - true["exact"]["log_ppp"]) < 5 * spread).all()


def test_every_combination_and_the_declared_prior_itself():
    found = bpls.prior_set(normal(), "beta", scale=[1, 2], location=[0, 1])
    assert list(found) == [
        "beta: scale × 1",
        "beta: scale × 1, location +1",
        "beta: scale × 2",
        "beta: scale × 2, location +1",
    ]
    np.testing.assert_allclose(
        bpls.BPLS(found["beta: scale × 1"]).score(approximation="laplace")["score"],
        bpls.BPLS(normal()).score(approximation="laplace")["score"],
        rtol=1e-12,
    )


def bounded():
    with pm.Model() as model:
        p = pm.Beta("p", 1, 1, shape=2)
        pm.Bernoulli("label", p=p[GROUP % 2], observed=Y)
    return model


def untransformed():
    with pm.Model() as model:
        v = pm.LogNormal("v", 0, 1, default_transform=None)
        pm.Bernoulli("label", logit_p=v * X[:, 1], observed=Y)
    return model


@pytest.mark.parametrize(
    ("model", "name", "change", "message"),
    (
        (normal(), "gamma", {"scale": [2]}, r'"gamma" is no free variable of the model, which has \[\'beta\'\]'),
        (normal(), "beta", {"scale": [0, 1]}, "a factor that is not positive"),
        (normal(), "beta", {"scale": []}, "no list of finite numbers"),
        (normal(), "beta", {"location": ["left"]}, "no list of finite numbers"),
        (normal(), "beta", {"scale": [1, 1.0]}, "holds a number twice"),
        (hierarchy(), "sigma", {"location": [0, 1]}, "would move it below 0"),
        (reference.logistic(X, Y, flat=True), "b", {"scale": [2]}, "improper, so that it has no scale"),
        (bounded(), "p", {"scale": [2]}, "neither unbounded nor positive"),
        ("model", "beta", {"scale": [2]}, "model= is a str"),
        (untransformed(), "v", {"scale": [2]}, "bounded and declared without its transform"),
        (normal(), "beta", {"scale": [1, 1.0000001]}, "six digits cannot tell apart"),
        (normal(), "beta", {"scale": [[1, 2], [3]]}, "no list of finite numbers"),
    ),
    ids=(
        *("unknown", "zero", "empty", "text", "twice", "positive", "flat", "bounded", "no model"),
        *("untransformed", "near", "ragged"),
    ),
)
def test_what_is_refused(model, name, change, message):
    with pytest.raises(bpls.ModelError, match=message):
        bpls.prior_set(model, name, **change)


@pytest.mark.parametrize(("q", "place"), [(3, 0), (4, 3), (8, 3), (11, 7), (12, 11)])
def test_a_kink_at_the_start_is_no_gaussian_prior(q, place):
    """Where one Laplace coefficient stands among normal ones, wherever random points may lie."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, q)), np.arange(12) % 2
    with pm.Model() as model:
        b = [pm.Laplace("b", 0, 1) if j == place else pm.Normal(f"a{j}", 0, 1) for j in range(q)]
        pm.Bernoulli("y", logit_p=sum(X[:, j] * b[j] for j in range(q)), observed=np.where(np.arange(12) < 8, y, -1))
    assert bpls.BPLS(model).engine.affine_rows.gaussian_prior is None
