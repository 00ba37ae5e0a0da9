"""Sets of models: rules by hand on members' own values, exact counterparts by quadrature, and what is refused."""

import numpy as np
import pymc as pm
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import kendalltau

import pymc_bpls as bpls
from pymc_bpls.rules.model_rules import Members

QUIET = {"progressbar": False}
RULES = (bpls.GammaMaximin(), bpls.LeastFavorable(), bpls.SumRule(), bpls.Penalised(0.7))
NAMES = ("narrow", "declared", "wide")


@pytest.fixture(scope="module")
def priors(table):
    """Three priors of one logistic model, as members that are compiled once."""
    X, y, _ = table
    variants = bpls.prior_set(reference.logistic(X, y), "b", scale=[0.2, 1, 3]).values()
    return {name: bpls.BPLS(variant) for name, variant in zip(NAMES, variants, strict=True)}


@pytest.mark.parametrize("name", ["information", "marginalize", "sample", "engine"])
def test_what_is_of_one_model_is_asked_of_a_member(priors, name):
    robust = bpls.ModelSet(priors)
    with pytest.raises(
        AttributeError, match=rf'A ModelSet has no {name}, which is of one model.*members\["narrow"\].{name}\.$'
    ):
        getattr(robust, name)
    assert not hasattr(robust, name) and not hasattr(robust, "nothing_of_the_kind")


@pytest.fixture(scope="module")
def classes(table):
    """Two model classes of different dimension: a slope alone, and an intercept with a cubic."""
    X, y, _ = table
    cubic = np.column_stack([X, X[:, 1] ** 2, X[:, 1] ** 3])
    designs = {"slope": X[:, 1:], "cubic": cubic}
    return {name: bpls.BPLS(reference.logistic(design, y, scale=1.0)) for name, design in designs.items()}


def own(members, labels="predicted", pseudo=None, **settings):
    """log PPP (M, m) of the members at shared pseudo-labels, or (M, m, 2) of both classes."""
    values = np.stack(
        [pls.score(labels="all", **{"approximation": "laplace", **settings})["log_ppp"].to_numpy() for pls in members.values()]
    )
    return values if labels == "all" else values[:, np.arange(values.shape[1]), pseudo]


def by_hand(rule, values, dimension, log_prior=None):
    match rule:
        case bpls.GammaMaximin():
            return values.min(axis=0)
        case bpls.LeastFavorable():
            return values[np.argmin(log_prior)]
        case bpls.SumRule():
            return values.sum(axis=0)
        case bpls.Penalised():
            price = rule.weight * (np.array(dimension) - min(dimension))
            return (values - price.reshape(-1, *(1,) * (values.ndim - 1))).max(axis=0)


@pytest.fixture(scope="module")
def prior_at_mle(table):
    """log π of the three priors at the maximum of the likelihood, by SciPy."""
    X, y, _ = table
    rows, sign = X[:12], 2 * y[:12] - 1
    mle = minimize(lambda b: np.logaddexp(0, -sign * (rows @ b)).sum(), np.zeros(2), tol=1e-10).x
    return [-0.5 * (mle @ mle) / scale**2 - 2 * np.log(scale) for scale in (0.5, 2.5, 7.5)]


@pytest.mark.parametrize("labels", ("predicted", "all"))
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_a_rule_acts_on_the_members_own_values(priors, prior_at_mle, rule, labels):
    scores = bpls.ModelSet(priors, rule).score(labels=labels, approximation="laplace")
    values = own(priors, labels, scores["pseudo_label"].to_numpy())
    np.testing.assert_allclose(scores["log_ppp_member"], values, atol=1e-9)
    np.testing.assert_allclose(scores["score"], by_hand(rule, values, (2, 2, 2), prior_at_mle), atol=1e-9)
    if not isinstance(rule, bpls.SumRule):
        picked = scores["log_ppp_member"].sel(member=scores["decided_by"])
        np.testing.assert_allclose(picked, scores["log_ppp"], atol=1e-9)


def test_penalised_prices_dimensions(classes):
    scores = bpls.ModelSet(classes, bpls.Penalised(0.3)).score(approximation="laplace")
    values = own(classes, pseudo=scores["pseudo_label"].to_numpy())
    np.testing.assert_allclose(scores["score"], by_hand(bpls.Penalised(0.3), values, (1, 4)), atol=1e-9)
    dear = bpls.ModelSet(classes, bpls.Penalised(1e6)).score(approximation="laplace")
    assert (dear["decided_by"] == "slope").all()


@pytest.mark.parametrize("labels", ("predicted", "all", "expected", bpls.Hurwicz(0.3)), ids=str)
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_with_one_model_every_rule_is_the_plain_score(small, rule, labels):
    alone, plain = (
        bpls.ModelSet([small], rule).score(labels=labels, approximation="laplace"),
        small.score(labels=labels, approximation="laplace"),
    )
    np.testing.assert_allclose(alone["score"], plain["log_ppp"], atol=1e-10)
    assert (alone["pseudo_label"] == plain["pseudo_label"]).all()


@given(seed=st.integers(0, 999), rule=st.sampled_from(RULES))
def test_gamma_maximin_is_never_above_a_member_and_order_changes_nothing(seed, rule):
    rng = np.random.default_rng(seed)
    values, members = rng.normal(size=(4, 7)), Members(rng.integers(1, 9, 4), rng.normal(size=4))
    assert (bpls.GammaMaximin().decide(values, members).value(values) <= values).all()
    order = rng.permutation(4)
    turned = rule.decide(values[order], Members(members.dimension[order], members.log_prior_at_mle[order]))
    np.testing.assert_allclose(turned.value(values[order]), rule.decide(values, members).value(values), rtol=1e-12)


def test_labels_combine_within_members_and_models_after(priors):
    rule = bpls.Hurwicz(0.4)
    scores = bpls.ModelSet(priors).score(labels=rule, approximation="laplace")
    of_members = np.stack([pls.score(labels=rule, approximation="laplace")["log_ppp"].to_numpy() for pls in priors.values()])
    np.testing.assert_allclose(scores["score"], of_members.min(axis=0), atol=1e-9)
    np.testing.assert_allclose(scores["log_ppp_member"], of_members, atol=1e-9)


@pytest.mark.parametrize("approximation", ("laplace", "ep", "vi"))
def test_members_are_compared_by_every_approximation(priors, approximation):
    robust = bpls.ModelSet(priors).score(approximation=approximation)
    values = own(priors, pseudo=robust["pseudo_label"].to_numpy(), approximation=approximation)
    np.testing.assert_allclose(robust["log_ppp"], values.min(axis=0), atol=1e-9)


@pytest.mark.parametrize("rule", RULES[:3], ids=repr)
def test_exact_counterparts_of_priors_rank_as_scores_do(priors, rule):
    pls = bpls.ModelSet(priors, rule)
    assert_exact_ranks_alike(pls, pls.exact(method="psis", draws=4000, random_seed=3))


@pytest.mark.slow
@pytest.mark.parametrize("rule", (*RULES[::2], bpls.Penalised(0.7)), ids=repr)
def test_exact_counterparts_of_model_classes_rank_as_scores_do(classes, rule):
    pls = bpls.ModelSet(classes, rule)
    assert_exact_ranks_alike(pls, pls.exact(method="psis", draws=4000, random_seed=3))


def assert_exact_ranks_alike(pls, run):
    assert run.attrs["reliable"] and "log_normalizer" not in run.attrs and "log_predictive" not in run["exact"]
    assert run["member_values"]["value"].dims == ("member", "candidate")
    scores, exact = pls.score(approximation="laplace"), run["exact"]
    assert kendalltau(scores["score"], exact["log_ppp"])[0] > 0.95
    np.testing.assert_allclose(scores["log_ppp"], exact["log_ppp"], atol=0.25)


@pytest.mark.slow
def test_exact_values_and_their_errors_are_those_of_quadrature(table, priors):
    """Γ-maximin and the sum over three priors, both classes, by a grid over (intercept, slope)."""
    X, y, _ = table
    grid = np.linspace(-40, 40, 801)
    theta = np.stack(np.meshgrid(grid, grid, indexing="ij"), -1).reshape(-1, 2)
    log_lik = -np.logaddexp(0, -(theta @ (X[:12] * (2 * y[:12] - 1)[:, None]).T)).sum(axis=1)
    rows = X[12:]
    true = np.empty((3, len(rows), 2))
    for m, scale in enumerate((0.5, 2.5, 7.5)):
        weights = log_lik - 0.5 * (theta**2).sum(axis=1) / scale**2
        level = logsumexp(weights)
        for i, row in enumerate(rows):
            for label in (0, 1):
                true[m, i, label] = logsumexp(weights + log_lik - np.logaddexp(0, -(2 * label - 1) * (theta @ row))) - level
    for rule, values in ((bpls.GammaMaximin(), true.min(axis=0)), (bpls.SumRule(), true.sum(axis=0))):
        z = []
        for seed in range(5):
            exact = bpls.ModelSet(priors, rule).exact(method="psis", labels="all", draws=1000, random_seed=seed)["exact"]
            z.append((exact["log_ppp"] - values) / exact["mcse"])
            best = np.unravel_index(int(np.argmax(exact["log_ppp"].to_numpy())), values.shape)
            z.append(
                ((exact["diff_to_best"] - (values - values[best])) / exact["diff_to_best_mcse"]).where(
                    exact["diff_to_best"] < 0
                )
            )
        z = np.array(z)
        assert np.nanmax(np.abs(z)) < 5
        assert 0.6 < np.nanstd(z[::2]) < 1.5 and 0.6 < np.nanstd(z[1::2]) < 1.5


@pytest.mark.slow
def test_a_prior_that_cancels_the_likelihood_makes_ppp_the_flat_marginal_likelihood():
    """Supplement E: with π ∝ 1/L(D) on a bounded interval, PPP is ∫ L(D ∪ i) dθ up to one shared constant."""
    x = np.array([-1.2, -0.3, 0.4, 1.1, -0.8, 0.9, 2.0, -2.0, 0.1])
    y = np.array([0, 1, 0, 1, 1, -1, -1, -1, -1])
    half = 4.0

    def declare(cancelled):
        with pm.Model() as model:
            slope = pm.Uniform("slope", -half, half)
            if cancelled:
                pm.Potential("inverse", pm.math.log1pexp(-(2 * y[:5] - 1) * slope * x[:5]).sum())
            pm.Bernoulli("label", logit_p=slope * x, observed=y)
        return bpls.BPLS(model)

    grid = np.linspace(-half, half, 4001)
    log_p = -np.logaddexp(0, -grid[:, None, None] * x[:, None] * np.array([-1.0, 1.0]))
    log_lik = log_p[:, np.arange(5), y[:5]].sum(axis=1)
    flat = np.stack([logsumexp(log_lik[:, None] + log_p[:, i], axis=0) for i in range(5, 9)])
    cancelled, plain = declare(True), declare(False)
    ppp = cancelled.exact(method="psis", labels="all", draws=8000, random_seed=1)["exact"]
    difference = (ppp["log_ppp"] - flat).to_numpy()
    assert np.ptp(difference) < 5 * float(ppp["mcse"].max())
    by_laplace = (
        cancelled.score(labels="all", approximation="laplace")["score"]
        - plain.score("marginal_likelihood", labels="all", approximation="laplace")["score"]
    )
    assert np.ptp(by_laplace.to_numpy()) < 1e-7


def test_a_run_records_dimensions_and_marginal_likelihoods(classes, table):
    truth = table[2]
    pls = bpls.ModelSet(classes, bpls.Penalised(0.5))
    run = pls.self_train(rounds=4, test=(np.arange(20, 26), truth[20:]), approximation="laplace", **QUIET)
    members = run["members"]
    assert members["dimension"].to_numpy().tolist() == [1, 4]
    first = [member.fit().log_evidence for member in classes.values()]
    np.testing.assert_allclose(members["log_evidence"].sel(n_pseudo=0), first, atol=1e-9)
    assert (members["predictor"] == members["member"][members["log_evidence"].argmax("member")]).all()
    assert set(run["history"]["decided_by"].to_numpy()) <= {"slope", "cubic"}
    assert run["final"]["b"].size in (1, 4) and run["curve"]["accuracy"].size == 5
    part = pls.self_train(rounds=2, test=(np.arange(20, 26), truth[20:]), approximation="laplace", **QUIET)
    on = pls.resume(part, rounds=2, **QUIET)
    assert (on["history"]["candidate"] == run["history"]["candidate"]).all()
    np.testing.assert_allclose(on["members"]["log_evidence"], members["log_evidence"], atol=1e-9)


def test_an_audit_of_a_set_compares_with_its_exact_values(priors):
    pls = bpls.ModelSet(priors)
    audit = pls.audit(["ppp", "ppp[ep]", "probability"], method="psis", draws=4000, random_seed=1)
    assert audit.reliable and "no absolute value" in audit.refused["probability"]
    assert float(audit.agreement["tau"].sel(criterion="ppp[ep]")) > 0.95
    other = bpls.ModelSet({name: priors[name] for name in NAMES[:2]})
    with pytest.raises(bpls.CriterionError, match="another table or model"):
        other.audit(["ppp"], exact=pls.exact(method="psis", random_seed=1))


def test_the_shortcut_says_how_far_it_is_from_gamma_maximin(priors):
    scores = bpls.ModelSet(priors, bpls.LeastFavorable()).score(approximation="laplace")
    np.testing.assert_allclose(
        scores["gamma_maximin"], bpls.ModelSet(priors).score(approximation="laplace")["score"], atol=1e-12
    )
    n = int((scores["score"] > scores["gamma_maximin"]).sum())
    assert scores.attrs["disagreement"].startswith(f"Another prior than the chosen one has the smallest PPP for {n} of 14 ")


def test_a_set_shows_its_members(classes):
    pls = bpls.ModelSet(classes, bpls.SumRule(), predictor="slope")
    assert repr(pls).startswith('ModelSet of "label" by SumRule(): 2 members, 12 labeled rows, 14 candidates')
    assert "cubic" in pls._repr_html_() and "Predictions are those of &quot;slope&quot;." in pls._repr_html_()
    assert "labels &quot;predicted&quot;" in bpls.summary(pls.score(approximation="laplace"))._repr_html_()


def test_predictions_are_those_of_the_member_that_is_asked_for(priors):
    by_name = bpls.ModelSet(priors, predictor="wide")
    np.testing.assert_allclose(by_name.predict_proba(), priors["wide"].predict_proba())
    best = max(priors, key=lambda name: priors[name].fit().log_evidence)
    np.testing.assert_allclose(bpls.ModelSet(priors).predict_proba(), priors[best].predict_proba())
    assert bpls.ModelSet(priors).fit().log_evidence == priors[best].fit().log_evidence
    assert bpls.ModelSet(priors).score(approximation="laplace").attrs["predictor"] == best


@pytest.mark.parametrize("criterion", ("ibpls", "likelihood", "probability", "variance"))
def test_criteria_without_an_absolute_value_are_refused(priors, criterion):
    with pytest.raises(bpls.CriterionError, match="no absolute value"):
        bpls.ModelSet(priors).score(criterion, approximation="laplace")


def test_what_is_refused(priors, small, table, sim1_informed):
    X, y, _ = table
    with pytest.raises(bpls.CriterionError, match="no absolute value without the prior"):
        bpls.ModelSet(priors).score(expansion="mle", approximation="laplace")
    for models, message in (
        ({"flat": reference.logistic(X, y, flat=True)}, 'Member "flat" has an improper prior'),
        ({"one": small, "other": sim1_informed}, 'Members "one" and "other" have different number of rows'),
        ({"one": small, "other": reference.logistic(X, np.r_[1 - y[:12], y[12:]])}, "have different labels"),
        ({}, "models= is empty"),
        ("model", "models= is a str"),
        ({"a/b": small}, "cannot be called"),
        ({1: small, "1": small}, "names that are the same as text"),
        ({"set": bpls.ModelSet([small])}, "is a set itself"),
        ({"one": small, "other": bpls.BPLS(reference.logistic(X, y), index=np.arange(26)[::-1])}, "have different indices"),
        ({"one": 3}, 'Member "one": model= is a int'),
    ):
        with pytest.raises(bpls.ModelError, match=message):
            bpls.ModelSet(models)
    with pytest.raises(bpls.CriterionError, match="is no rule"):
        bpls.ModelSet([small], "maximin")
    with pytest.raises(bpls.ModelError, match="all members are BPLS objects"):
        bpls.ModelSet([small], unlabeled=[20])
    with pytest.raises(bpls.CriterionError, match="is no member"):
        bpls.ModelSet([small], predictor="best one")
    with pytest.raises(bpls.CriterionError, match="no price"):
        bpls.Penalised(-1)
    with pytest.raises(bpls.CriterionError, match="Use absolute=True"):
        bpls.ModelSet([small]).exact(method="psis", absolute=False)


def test_a_set_of_one_model_is_audited_along_its_run_as_that_model_is(small):
    """The same draws of the same posteriors, but for the constant that a set adds."""
    quiet = {"progressbar": False}
    one, alone = bpls.ModelSet({"only": small}), small
    audits = [
        pls.audit_along(
            pls.self_train(rounds=2, approximation="laplace", **quiet), every=1, criteria=["ppp"], random_seed=0, **quiet
        )
        for pls in (one, alone)
    ]
    for name in ("regret", "run_regret", "tau", "n_labeled", "reliable"):
        np.testing.assert_allclose(audits[0].rounds[name], audits[1].rounds[name], atol=1e-9)
    for name in audits[1].final:
        np.testing.assert_array_equal(audits[0].final[name], audits[1].final[name])


def test_the_shortcut_needs_an_estimate_and_one_set_of_parameters(classes):
    x = np.array([-2.0, -1.0, 1.0, 2.0, 0.5])
    separated = reference.logistic(x[:, None], np.array([0, 0, 1, 1, -1]))
    with pytest.raises(bpls.CriterionError, match="needs a maximum likelihood estimate"):
        bpls.ModelSet([separated], bpls.LeastFavorable()).score(approximation="laplace")
    with pytest.raises(bpls.ModelError, match="different parameters"):
        bpls.ModelSet(classes, bpls.LeastFavorable())


def test_what_a_member_refuses_is_refused_in_its_name(small, table):
    X, y, _ = table
    with pm.Model() as centered:
        spread = pm.HalfNormal("spread", 1)
        effect = pm.Normal("effect", 0, spread, shape=3)
        pm.Bernoulli("label", logit_p=effect[np.arange(26) % 3] + X[:, 1], observed=y)
    with pytest.raises(bpls.ModeError, match='Member "centered": The log-posterior has no finite mode'):
        bpls.ModelSet({"plain": small, "centered": centered}).score(approximation="laplace")


def test_the_prior_of_two_ordered_cutpoints_has_a_mass_of_a_half():
    """1/K!, by which the guide says that p(D) is too small: PyMC does not normalise it."""
    with pm.Model() as model:
        cuts = pm.Normal("cuts", 0, 1, shape=2, transform=pm.distributions.transforms.ordered, initval=np.arange(2))
        pm.OrderedLogistic("label", eta=0.0 * np.arange(6), cutpoints=cuts, observed=np.arange(6) % 3)
    density = bpls.BPLS(model).problem.density
    first, log_gap = np.linspace(-8, 8, 161), np.linspace(-12, 3, 151)
    grid = np.stack(np.meshgrid(first, log_gap, indexing="ij"), -1).reshape(-1, 2)
    log_prior = [float(density.structure.compiled_log_prior(density.parameters.counted(theta))) for theta in grid]
    cell = (first[1] - first[0]) * (log_gap[1] - log_gap[0])
    np.testing.assert_allclose(np.exp(log_prior).sum() * cell, 0.5, rtol=1e-5)
