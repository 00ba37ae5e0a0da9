"""Where unlabeled rows enter a model: what every verdict says of it, against finite differences of the density itself."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose

import pymc_bpls as bpls
from pymc_bpls.model.pool_terms import LIKELIHOODS

N, D = 30, 8
_rng = np.random.default_rng(0)
X = _rng.normal(1, 1, size=N)
Y = np.where(np.arange(N) < D, X + 0.5 * _rng.normal(size=N) > 1, -1).astype(int)
MODELS, QUIET = {}, {"progressbar": False}


def entering(*places, observed=()):
    """A model of `x`, and where rows of it enter besides their own likelihoods."""

    def keep(declare):
        MODELS[declare.__name__] = declare, tuple(places), tuple(observed)
        return declare

    return keep


def labels(eta):
    pm.Bernoulli("label", logit_p=eta, observed=pm.Data("y", Y))


@entering(observed=["features"])
def shared_parameters_of_features(x):
    mu = pm.Normal("mu", 0, 5)
    pm.Normal("features", mu, 1, observed=x)
    labels(pm.Normal("b", 0, 2) * (x - mu))


@entering(observed=["features"])
def factor_behind_features_and_labels(x):
    z = pm.Normal("z", 0, 1, shape=N)
    pm.Normal("features", pm.HalfNormal("load", 1) * z, 0.5, observed=x)
    labels(pm.Normal("b", 0, 2) * z)


@entering('the prior of "beta"')
def g_prior(x):
    design = pt.stack([pt.ones(N), x], axis=1)
    labels(design @ pm.MvNormal("beta", np.zeros(2), tau=pt.dot(design.T, design) / N))


@entering('the prior of "centre"')
def prior_at_the_mean_of_all_rows(x):
    labels(pm.Normal("b", 0, 2) * (x - pm.Normal("centre", x.mean(), 1)))


@entering(LIKELIHOODS)
def standardised_inside(x):
    labels(pm.Normal("a", 0, 2) + pm.Normal("b", 0, 2) * (x - x.mean()) / x.std())


@entering('the Potential "entropy"')
def entropy_of_all_rows(x):
    eta = pm.Normal("a", 0, 2) + pm.Normal("b", 0, 2) * x
    p = pm.math.sigmoid(eta)
    pm.Potential("entropy", 0.1 * (p * pt.log(p) + (1 - p) * pt.log1p(-p)).sum())
    labels(eta)


@entering('the density of "spread"')
def statistic_of_all_rows_that_is_observed(x):
    b = pm.Normal("b", 0, 2)
    pm.Normal("spread", b, x.std(), observed=0.3)
    labels(b * x)


@entering('the prior of "b"')
def hyperparameter_of_all_rows(x):
    labels(pm.Normal("b", 0, pt.max(pt.abs(x))) * x)


@entering(LIKELIHOODS)
def kernels_centred_at_all_rows(x):
    kernels = pt.exp(-0.5 * (x[:, None] - x[None, :]) ** 2)
    labels(kernels @ pm.Normal("weight", 0, 1, shape=N))


@entering()
def labels_given_features(x):
    labels(pm.Normal("a", 0, 2) + pm.Normal("b", 0, 2) * x)


@entering()
def prior_at_the_mean_of_labeled_rows(x):
    labels(pm.Normal("b", 0, 2) * (x - pm.Normal("centre", x[:D].mean(), 1)))


@entering()
def prior_of_so_many_parameters_as_rows(x):
    labels(pm.Normal("of_row", np.zeros(N), np.ones(N), shape=N) * x)


@entering()
def potential_without_parameters(x):
    pm.Potential("constant", -(x**2).sum())
    labels(pm.Normal("b", 0, 2) * x)


def declared(name, x, *, data=True):
    with pm.Model() as model:
        MODELS[name][0](pm.Data("x", x) if data else pt.as_tensor(x))
    return bpls.BPLS(model, target="label")


def log_density(model):
    """log p(labels of D | θ) + log π(θ) as a function of the value variables, by PyMC."""
    [of_labels] = model.logp(vars=[model["label"]], sum=False)
    others = [rv for rv in (*model.basic_RVs, *model.potentials) if rv.name != "label"]
    rest = model.logp(vars=others, sum=False)
    total = of_labels[:D].sum() + sum(term.sum() for term in rest)
    return pytensor.function(model.value_vars, total, mode="FAST_COMPILE", on_unused_input="ignore")


FAULTS = (
    "shared_parameters_of_features",
    "factor_behind_features_and_labels",
    "g_prior",
    "prior_at_the_mean_of_all_rows",
    "standardised_inside",
    "entropy_of_all_rows",
    "labels_given_features",
)
BY_NAME = [pytest.param(name, marks=[] if name in FAULTS else pytest.mark.slow) for name in MODELS]
FOLDED = [pytest.param(name, marks=[] if name == "standardised_inside" else pytest.mark.slow) for name in MODELS]


@pytest.mark.parametrize("name", BY_NAME)
def test_terms_are_those_that_other_values_in_unlabeled_rows_change(name):
    """PyMC's density given the labels alone, as a function of θ, with two pools."""
    pls = declared(name, X)
    found, model = pls._problem.pool_terms, pls._problem.model
    _, elsewhere, observed = MODELS[name]
    assert (found.elsewhere, found.observed, found.reached) == (elsewhere, observed, ())
    start, rng, value = model.initial_point(), np.random.default_rng(1), log_density(model)
    points = [{key: held + step * rng.normal(size=np.shape(held)) for key, held in start.items()} for step in (0, 0.2, 0.2)]
    values = []
    for pool in (X[D:], X[D:] ** 2 - 1):
        pm.set_data({"x": np.r_[X[:D], pool]}, model=model)
        values.append([float(value(**point)) for point in points])
    differences = np.array(values) - np.array(values)[:, :1]
    assert bool(elsewhere or observed) != np.allclose(*differences, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", FOLDED)
def test_constants_that_pymc_folds_are_traced(name):
    found = declared(name, X, data=False)._problem.pool_terms
    _, elsewhere, observed = MODELS[name]
    assert (found.elsewhere, found.observed, found.reached) == (elsewhere, observed, ())


@pytest.mark.parametrize("name", ["g_prior", "standardised_inside", "labels_given_features"])
def test_every_sentence_says_so(name):
    pls = declared(name, X)
    _, elsewhere, _ = MODELS[name]
    run = pls.self_train(rounds=1, **QUIET)
    told = pls.marginalize(draws=50, **QUIET)
    information = pls.information(**QUIET)
    for text in (repr(pls), pls._repr_html_(), run.attrs["verdict"], told.attrs["verdict"], str(information)):
        plain = text.replace("&quot;", '"')
        assert ("As declared" in plain or "as declared" in plain) == (not elsewhere)
        assert (f"Unlabeled rows enter {elsewhere[0]}" in plain) if elsewhere else "add no information" in plain
    assert information.nats == told.attrs["nats"] == 0 and information.informative == bool(elsewhere)
    assert not information.sources.sizes["source"]


def test_two_pools_give_two_posteriors_of_the_same_labels_where_the_sentence_says_so():
    """The input of the report: a g-prior over a narrow pool and a wide one."""
    sds = []
    for spread in (0.05, 20.0):
        pls = declared("g_prior", np.r_[X[:D], _rng.normal(1, spread, N - D)])
        assert 'enter the prior of "beta"' in str(pls.information(**QUIET))
        sds.append(pls.fit(other_modes=False, **QUIET).sd.to_numpy()[1])
    assert sds[0] > 2 * sds[1]


def test_a_pool_in_memory_enters_the_prior_and_a_lazy_one_is_refused():
    with pm.Model() as model:
        x = pm.Data("x", X[:D])
        pm.Normal("features", pm.Normal("mu", 0, 5), 1, observed=x)
        pm.Bernoulli("label", logit_p=pm.Normal("b", 0, 2) * (x - model["mu"]), observed=Y[:D])
    table = declared("shared_parameters_of_features", X)
    pooled = bpls.BPLS(model, target="label", pool={"x": X[D:]})
    assert pooled._problem.pool_terms == table._problem.pool_terms
    assert_allclose(pooled.information(**QUIET).nats, table.information(**QUIET).nats, rtol=1e-6)
    da = pytest.importorskip("dask.array")
    with pytest.raises(bpls.RowError, match=r'The density of "features" depends on the rows of "x".*Give the pool in memory'):
        bpls.BPLS(model, target="label", pool={"x": da.from_array(X[D:], chunks=11)})


def test_a_set_says_what_any_of_its_members_says():
    with pm.Model() as model:
        x = pm.Data("x", X)
        labels(x * pm.Normal("b", x.mean(), 1))
    run = bpls.ModelSet(bpls.prior_set(model, "b", scale=[1, 2])).self_train(rounds=1, **QUIET)
    assert 'Unlabeled rows enter the prior of "b"' in run.attrs["verdict"]


def test_a_bambi_model_that_standardises_outside_is_one_of_labels_given_features():
    bambi = pytest.importorskip("bambi")
    import pandas as pd

    frame = pd.DataFrame({"x": X, "label": np.where(Y < 0, 0, Y)})
    pls = bpls.BPLS(bambi.Model("label ~ x", frame, family="bernoulli"), observed=Y)
    assert "As declared, this model describes y given x only" in repr(pls)


def test_observed_variables_that_name_no_row_are_named_where_they_may_be_of_unlabeled_ones():
    """Measured in the pool alone, by constants that leave no trace: the posterior has them, and not "y given x only"."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    y, pool = np.where(np.arange(40) < 14, (x > 0).astype(int), -1), np.arange(14, 40)
    with pm.Model() as model:
        b = pm.Normal("b", 0, 1)
        pm.Bernoulli("label", logit_p=b * x, observed=y)
        pm.Normal("w", b * x[pool], 1, observed=x[pool] + rng.normal(size=len(pool)))
    pls = bpls.BPLS(model, target="label")
    for said in (str(pls), pls.information(progressbar=False).verdict):
        assert '"w" is observed too and names no row of the table' in said and "y given x only" not in said
        assert "seudo-labels add no information" in said
