"""Results belong to one table and model: others are refused by name, and those of earlier versions are known."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import reference
import xarray as xr
from scipy.special import log_expit

import pymc_bpls as bpls
from pymc_bpls.trained.result import group

QUIET = {"progressbar": False}
#: What versions before the present form wrote for the small table: of its model, and of the set below.
EARLIER, EARLIER_OF_SET = "c949e5eb5df7f4f1", "00c9e84a01c869dd"


def regression(table, likelihood="logit", classes=None):
    X, y, _ = table
    with pm.Model() as model:
        eta = X @ pm.Normal("b", 0, 2.5, shape=2)
        if likelihood == "probit":
            pm.Bernoulli("label", p=pm.math.invprobit(eta), observed=y)
        else:
            pm.Bernoulli("label", logit_p={"logit": eta, "minus": -eta, "plus 5": eta + 5}[likelihood], observed=y)
    return bpls.BPLS(model, classes=classes)


@pytest.fixture(scope="module")
def run(table):
    return regression(table).self_train("probability", rounds=2, **QUIET)


def check_refused(pls, run, said):
    for use in (pls.resume, pls.labels, lambda run: pls.predict_proba([20], result=run)):
        with pytest.raises(bpls.CriterionError, match=said):
            use(run)


@pytest.mark.parametrize("likelihood", ["probit", "minus", "plus 5"])
def test_a_run_of_another_likelihood_is_refused(table, run, likelihood):
    check_refused(
        regression(table, likelihood), run, r"its likelihood differs\. Declare the same model, classes, data and labels"
    )


def test_a_run_of_other_classes_on_the_same_codes_is_refused(table):
    declared = regression(table, classes=["no", "yes"])
    run = declared.self_train("probability", rounds=1, **QUIET)
    turned = r"its classes \(yes, no here, no, yes there\) differ"
    check_refused(regression(table, classes=["yes", "no"]), run, turned)
    check_refused(regression(table, classes=["a", "b"]), run, r"its classes \(a, b here")
    check_refused(regression(table), run, r"its classes \(0, 1 here")
    assert regression(table, classes=["no", "yes"]).resume(run, rounds=1, **QUIET)["history"].sizes["step"] == 2


def test_scales_in_another_order_are_other_priors(table):
    X, y, _ = table
    run = bpls.BPLS(reference.logistic(X, y, scale=np.array([1.0, 2.0]))).self_train("probability", rounds=1, **QUIET)
    with pytest.raises(bpls.CriterionError, match="its priors differ"):
        bpls.BPLS(reference.logistic(X, y, scale=np.array([2.0, 1.0]))).resume(run, **QUIET)


def softmax(table, sign):
    X, _, _ = table
    y = np.where(np.arange(26) < 12, np.arange(26) % 3, -1)
    with pm.Model() as model:
        b = pm.Normal("b", 0, 1, shape=(2, 3))
        pm.Categorical("label", logit_p=sign * (X @ b), observed=y)
    return bpls.BPLS(model)


def test_classes_whose_coefficients_start_alike_are_told_apart(table):
    one, other = softmax(table, 1).problem, softmax(table, -1).problem
    assert {name for name, part in one.parts.items() if part != other.parts[name]} == {"likelihood"}


def chain(table, stay):
    """Labels that stay what the label before was: rows that depend on each other."""
    X, y, _ = table
    with pm.Model() as model:
        b = pm.Normal("b", 0, 1, shape=2)

        def logp(value, eta):
            lagged = pt.concatenate([pt.zeros(1), value[:-1]])
            p = pm.math.invlogit(eta + stay * (2 * lagged - 1))
            return pt.switch(pt.eq(value, 1), pt.log(p), pt.log1p(-p))

        pm.CustomDist("label", X @ b, logp=logp, observed=y, dtype="int64")
    return bpls.BPLS(model, classes=[0, 1])


def test_rows_that_depend_on_each_other_are_compared_together(table):
    one, same, other = (chain(table, stay).problem for stay in (1.0, 1.0, 2.0))
    assert one.density.joint is not None and one.fingerprint == same.fingerprint
    assert {name for name, part in one.parts.items() if part != other.parts[name]} == {"likelihood"}


def test_a_marginalized_pool_and_a_sample_of_another_scale_are_refused(table):
    X, y, _ = table

    def of_features(sigma):
        with pm.Model() as model:
            label = pm.Bernoulli("label", 0.5, observed=y)
            pm.Normal("x", pm.Normal("mean", 0, 2, shape=2)[label], sigma, observed=X[:, 1])
        return bpls.BPLS(model, target="label")

    declared, other = of_features(1.0), of_features(5.0)
    pooled, sample = declared.marginalize(), declared.sample(method="gaussian", draws=10, random_seed=0)
    for result in (pooled, sample):
        assert np.isfinite(declared.predict_proba([20], result=result)).all()
        with pytest.raises(bpls.CriterionError, match="is no sample of this table and model"):
            other.predict_proba([20], result=result)


def test_exact_values_of_another_likelihood_are_refused(table):
    exact = regression(table).exact(method="psis", draws=200, random_seed=0)
    with pytest.raises(bpls.CriterionError, match="exact= is a run of another table or model"):
        regression(table, "minus").audit(["ppp"], exact, **QUIET)


def in_form(result, table):
    """A result whose fingerprint is of another form; of a run without parts, which earlier versions kept none of."""
    result = result.copy()
    for node in result.subtree:
        node.attrs = {name: value for name, value in node.attrs.items() if name != "table_parts"}
        node.attrs |= {"table": table} if "table" in node.attrs else {}
    return result


def test_results_of_earlier_versions_are_those_of_their_table(small, table):
    run = small.self_train("probability", rounds=1, **QUIET)
    older = in_form(run, EARLIER)
    longer = small.resume(older, rounds=1, **QUIET)
    xr.testing.assert_identical(longer["history"].to_dataset(), small.resume(run, rounds=1, **QUIET)["history"].to_dataset())
    assert longer.attrs["table"] == small.problem.fingerprint != EARLIER
    sample = small.sample(method="gaussian", draws=10, random_seed=0)
    group(sample, "unconstrained_posterior").attrs["table"] = EARLIER
    assert small.predict_proba([20], result=sample).shape == (1, 2)
    other = bpls.BPLS(reference.logistic(*table[:2], scale=1.0))
    with pytest.raises(bpls.CriterionError, match="its data, candidates or priors differ"):
        other.resume(older, **QUIET)
    with pytest.raises(bpls.CriterionError, match="is no sample of this table and model"):
        other.predict_proba([20], result=sample)


def test_a_set_s_run_of_an_earlier_version_goes_on(small, table):
    robust = bpls.ModelSet({"wide": small, "narrow": bpls.BPLS(reference.logistic(*table[:2], scale=1.0))})
    run = robust.self_train("ppp", approximation="laplace", rounds=1, **QUIET)
    longer = robust.resume(in_form(run, EARLIER_OF_SET), rounds=1, **QUIET)
    assert longer["history"].sizes["step"] == 2
    with pytest.raises(bpls.CriterionError, match="is no run of this table"):
        robust.resume(in_form(run, EARLIER), rounds=1, **QUIET)


@pytest.mark.parametrize(("likelihood", "sign", "level"), [("logit", 1, 0), ("minus", -1, 0), ("plus 5", 1, 5)])
def test_likelihoods_are_those_of_the_formula(table, likelihood, sign, level):
    [declared] = regression(table, likelihood).problem._declared
    theta = declared.uneven
    assert len(set(theta.tolist())) == 2
    eta = level + sign * table[0][[0, 3, 6, 8, 11]] @ theta
    by_hand = np.stack([log_expit(-eta), log_expit(eta)], 1)
    np.testing.assert_allclose(declared.log_likelihoods(theta), by_hand, rtol=1e-12)
