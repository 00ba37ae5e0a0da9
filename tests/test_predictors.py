"""What predicts by default: a hierarchy by quadrature, a probit slope by closed forms, and what an audit says of labels."""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_expit, log_softmax
from scipy.stats import halfnorm, norm

import pymc_bpls as bpls
from pymc_bpls.acceptance.predictions import leave_one_out
from pymc_bpls.approximations.by_name import APPROXIMATIONS

LABELS, ONES = np.array([6] * 6 + [2, 2, 1, 1]), np.array([4, 4, 4, 4, 4, 4, 1, 1, 0, 1])
QUIET = {"progressbar": False}


def by_quadrature(k, labels=LABELS, ones=ONES):
    """E[p(1 | group, θ)] of each group by p_k: over a and σ on a grid, over each group's own effect by Gauss and Hermite."""
    z, weights = np.polynomial.hermite_e.hermegauss(60)
    a, spread = np.linspace(-6, 6, 121), np.linspace(1e-3, 8, 121)
    eta = a[:, None, None] + spread[:, None] * z
    log_p = norm.logpdf(a, 0, 1.5)[:, None] + halfnorm.logpdf(spread, scale=2)
    means = []
    for n, n_ones in zip(labels, ones, strict=True):
        likelihood = np.exp(k * (n_ones * log_expit(eta) + (n - n_ones) * log_expit(-eta))) @ np.diag(weights)
        log_p = log_p + np.log(likelihood.sum(axis=-1))
        means.append((likelihood * expit(eta)).sum(axis=-1) / likelihood.sum(axis=-1))
    p = np.exp(log_p - log_p.max())
    return np.array([(p * mean).sum() / p.sum() for mean in means])


@pytest.fixture(scope="module")
def hierarchy():
    """Ten groups, whose labels the mode takes for ten; one candidate in each."""
    groups, labels = np.repeat(np.arange(10), LABELS), []
    for n, ones in zip(LABELS, ONES, strict=True):
        labels += [1] * ones + [0] * (n - ones)
    with pm.Model() as model:
        spread, z = pm.HalfNormal("spread", 2), pm.Normal("z", 0, 1, shape=10)
        logit = pm.Normal("a", 0, 1.5) + (spread * z)[np.r_[groups, np.arange(10)]]
        pm.Bernoulli("label", logit_p=logit, observed=np.r_[labels, np.full(10, -1)])
    return model


def of_candidates(pls, **by):
    return pls.predict_proba(pls.problem.table.candidates, **by)[:, 1].to_numpy()


def test_a_hierarchy_is_averaged_over_by_default(hierarchy):
    exact, pls = by_quadrature(1), bpls.BPLS(hierarchy)
    at_mode = of_candidates(bpls.BPLS(hierarchy, predictor="map"))
    assert np.abs(at_mode - exact).max() > 0.3
    np.testing.assert_array_equal(of_candidates(pls, by="mode"), at_mode)
    run = pls.self_train(rounds=0, **QUIET)
    candidates = pls.problem.table.candidates
    by_label = pls.labels().loc[candidates]
    assert (by_label["class"] == 1).all()
    for averaged in (
        of_candidates(pls),
        of_candidates(pls, by="gaussian"),
        of_candidates(pls, result=run),
        of_candidates(pls, result=run, by="gaussian"),
        by_label["probability"],
    ):
        np.testing.assert_allclose(averaged, exact, rtol=0, atol=0.005)


def test_labels_to_accept_of_a_hierarchy_are_averaged_over_without_a_refit(hierarchy):
    """Each labeled row predicted without its own label: by quadrature with one label less in its group."""
    pls = bpls.BPLS(hierarchy)
    found = leave_one_out(pls.scorer, pls.problem.table.candidates)
    assert found.approximation == "ep"
    np.testing.assert_allclose(found.of_candidates[:, 1], by_quadrature(1), rtol=0, atol=0.005)
    for row, group in ((0, 0), (5, 0), (36, 6), (37, 6), (40, 8), (41, 9)):
        own = np.arange(10) == group
        exact = by_quadrature(1, LABELS - own, ONES - own * found.known.codes[row])[group]
        np.testing.assert_allclose(found.of_known[row, 1], exact, rtol=0, atol=0.005)
    in_sample = pls.predict_proba(found.known.positions)[:, 1].to_numpy()
    assert np.abs(in_sample - found.of_known[:, 1]).max() > 0.04


@pytest.mark.slow
def test_an_audit_counts_the_labels_that_exact_values_contradict(hierarchy):
    p = by_quadrature(2)
    for predictor, cure in (("map", True), ("auto", False)):
        pls = bpls.BPLS(hierarchy, predictor=predictor)
        predicted = of_candidates(pls) > 0.5
        other = int((np.where(predicted, p, 1 - p) < 0.5).sum())
        assert (other > 0) == cure
        verdict = pls.audit(["ppp[ep]"], method="psis", random_seed=0, **QUIET).verdict
        said = f"Another class has a larger exact log PPP than the pseudo-label of {other} of 10 candidates (10%)"
        assert (said in verdict) == cure and ('predictor="auto" of BPLS' in verdict) == cure
    assert "Another class" not in bpls.BPLS(hierarchy).audit(["ppp[ep]"], labels="all", method="psis", **QUIET).verdict


def test_an_unknown_predictor_is_refused():
    with pytest.raises(bpls.CriterionError, match=r'predictor="EP" is unknown. Use "auto", "map", "ep", "vi", "laplace" or a'):
        bpls.BPLS(predictor="EP")


# a probit regression with one slope: averages over N(m, v) have the closed form Φ(x m/√(1 + x² v))

X = np.array([-1.4, -0.8, -0.3, 0.5, 0.9, 1.6, -2.0, -0.6, 0.2, 0.4, 1.1, 2.4])
Y = np.array([0, 1, 0, 1, 0, 1] + [-1] * 6)
SLOPES = np.linspace(-9, 9, 20001)
#: By how much EP's averages are off here; Laplace's are by 0.025, and the mode by 0.084.
OF_EP = 1.5e-3


def probit(prior, labels=Y):
    with pm.Model() as model:
        pm.Bernoulli("label", p=0.5 * pm.math.erfc(-prior() * X / np.sqrt(2)), observed=labels)
    return model


@pytest.fixture(scope="module")
def proper():
    return probit(lambda: pm.Normal("slope", 0, 2))


def log_posterior(slope, run=None, precision=1 / 4):
    """Of D, or of what a run trained on, at slopes (n,)."""
    rows, codes = (np.arange(6), Y[:6]) if run is None else (run["labeled"][name].to_numpy() for name in ("row", "label"))
    return norm.logcdf(np.outer(slope, X[rows] * (2 * codes - 1))).sum(axis=1) - 0.5 * precision * slope**2


def exactly(run=None):
    p = np.exp(log_posterior(SLOPES, run) - log_posterior(SLOPES, run).max())
    return p @ norm.cdf(np.outer(SLOPES, X)) / p.sum()


def by_laplace(run=None, precision=1 / 4):
    """Φ(x m/√(1 + x² v)), and Φ(x m): m and v by the slope's grid and a difference quotient."""
    m = minimize_scalar(lambda b: -log_posterior(np.array([b]), run, precision)[0], (-1, 1), tol=1e-12).x
    h = 1e-3
    v = -(h**2) / (log_posterior(m + h * np.array([1.0, 0.0, -1.0]), run, precision) @ [1, -2, 1])
    return norm.cdf(X * m / np.sqrt(1 + X**2 * v)), norm.cdf(X * m)


def of_all(pls, **how):
    return pls.predict_proba(**how)[:, 1].to_numpy()


def test_by_default_the_labeled_rows_alone_are_averaged_over(proper):
    pls = bpls.BPLS(proper)
    found = pls.predict_proba()
    assert found.attrs["predicted"] == 'averaged over the posterior by "ep"'
    np.testing.assert_allclose(found[:, 1], exactly(), atol=OF_EP)
    np.testing.assert_array_equal(of_all(pls, by="gaussian"), found[:, 1])
    np.testing.assert_allclose(of_all(pls, by="mode"), by_laplace()[1], atol=1e-7)
    assert pls.predict_proba(by="mode").attrs["predicted"] == "at the mode"
    assert all(np.abs(other - exactly()).max() > 10 * OF_EP for other in by_laplace())
    table = pls.labels()
    np.testing.assert_allclose(table["probability"][6:], np.maximum(found[:, 0], found[:, 1])[6:])
    assert table.attrs["predicted"] == found.attrs["predicted"]
    assert pls.score("probability").attrs["predicted"] == found.attrs["predicted"]


def test_the_criterion_probability_is_at_the_mode_and_says_so(proper):
    pls = bpls.BPLS(proper)
    scores = pls.score("probability")
    p = by_laplace()[1][6:]
    np.testing.assert_allclose(scores["score"], np.where(scores["pseudo_label"] == 1, p, 1 - p), atol=1e-7)
    run = pls.self_train("probability", rounds=1, **QUIET)
    longer = pls.resume(run, rounds=1, **QUIET)
    assert {each.attrs["approximation"] for each in (scores, run, longer)} == {"mode"}
    assert pls.score("random").attrs["approximation"] == "none"


@pytest.mark.parametrize(
    ("criterion", "right"),
    [
        ("ppp", exactly),
        ("ppp[laplace]", lambda run: by_laplace(run)[0]),
        ("ibpls", lambda run: by_laplace(run)[0]),
        ("bald", lambda run: by_laplace(run)[0]),
        ("probability", exactly),
        ("random", exactly),
    ],
)
def test_a_run_is_predicted_by_the_approximation_of_its_criterion(proper, criterion, right):
    test = (np.array([10, 11]), [1, 1])
    pls = bpls.BPLS(proper)
    run = pls.self_train(criterion, rounds=2, test=test, random_seed=0, **QUIET)
    p, atol = right(run), OF_EP if right is exactly else 1e-6
    for found in (of_all(pls, result=run), of_all(pls, result=run, by="gaussian")):
        np.testing.assert_allclose(found, p, atol=atol)
    np.testing.assert_allclose(run["curve"]["log_score"][-1], np.log(p[10:]).mean(), atol=5 * atol)
    np.testing.assert_allclose(of_all(pls, result=run, by="mode"), by_laplace(run)[1], atol=1e-6)


# models that EP does not admit, with five labels a parameter: the right averages by sums over a grid


def table(n, seed, n_candidates=8):
    """One feature of n labeled rows, the candidates' on a lattice, and logistic responses of the labeled ones."""
    rng = np.random.default_rng(seed)
    x = np.r_[rng.normal(size=n), np.linspace(-2.5, 2.5, n_candidates)]
    return x, rng.normal(0, 1.5) * x[:n] + rng.logistic(size=n), rng


def hidden(x, codes):
    return np.r_[codes, np.full(len(x) - len(codes), -1)]


def averaged_over_grid(log_prior, log_p, codes):
    """E[p | D] of candidates by densities at nodes: log_p(rows) is (nodes, rows, classes)."""
    n = len(codes)
    at = log_prior + log_p(slice(n))[:, np.arange(n), codes].sum(axis=1)
    weights = np.exp(at - at.max())
    return np.einsum("g,grk->rk", weights / weights.sum(), np.exp(log_p(slice(n, None))))


def ordinal(seed):
    """Three classes of 18 labels: a slope and two cutpoints, on a grid in the first one and the log of their distance."""
    x, latent, rng = table(18, seed)
    first = rng.uniform(-2.5, 0.5)
    codes = np.digitize(latent, [first, first + rng.uniform(0.3, 3)])
    with pm.Model() as model:
        ordered = pm.distributions.transforms.ordered
        cuts = pm.Normal("cuts", 0, 2, shape=2, transform=ordered, initval=np.array([-1.0, 1.0]))
        pm.OrderedLogistic("label", eta=x * pm.Normal("slope", 0, 1.5), cutpoints=cuts, observed=hidden(x, codes))
    axes = np.linspace(-6.5, 6.5, 45), np.linspace(-8, 8, 49), np.linspace(-5, 2.8, 41)
    slope, low, log_gap = (axis.ravel() for axis in np.meshgrid(*axes))
    cut = np.stack([low, low + np.exp(log_gap)], axis=1)

    def log_p(rows):
        below = expit(cut[:, None, :] - slope[:, None, None] * x[rows, None])
        return np.log(np.maximum(np.diff(below, axis=-1, prepend=0.0, append=1.0), 1e-300))

    return model, averaged_over_grid(norm.logpdf(slope, 0, 1.5) + norm.logpdf(cut, 0, 2).sum(axis=1) + log_gap, log_p, codes)


def softmax(seed):
    """Three classes of 12 labels: a slope each of the second and third."""
    x, _, rng = table(12, seed)
    slopes = rng.normal(0, 1.5, size=2)
    codes = (np.stack([0 * x, slopes[0] * x, slopes[1] * x], axis=1)[:12] + rng.gumbel(size=(12, 3))).argmax(axis=1)
    with pm.Model() as model:
        b = pm.Normal("b", 0, 2, shape=2)
        pm.Categorical("label", logit_p=pm.math.stack([0 * x, b[0] * x, b[1] * x], axis=1), observed=hidden(x, codes))
    nodes = np.stack(np.meshgrid(*[np.linspace(-12, 12, 161)] * 2), axis=-1).reshape(-1, 2)

    def log_p(rows):
        return log_softmax(np.stack([0 * nodes[:, :1] * x[rows], *(nodes.T[..., None] * x[rows])], axis=-1), axis=-1)

    return model, averaged_over_grid(norm.logpdf(nodes, 0, 2).sum(axis=1), log_p, codes)


@pytest.mark.parametrize(("declare", "seed"), [(ordinal, 0), (ordinal, 7), (softmax, 0), (softmax, 3)])
def test_where_refits_score_variational_inference_predicts(declare, seed):
    model, exact = declare(seed)
    pls = bpls.BPLS(model)
    run = pls.self_train(rounds=0, **QUIET)
    candidates = pls.problem.table.candidates
    assert run.attrs["approximation"] == "laplace" and "averaged_by" not in run.attrs
    off = {}
    for result in (None, run):
        found = pls.predict_proba(candidates, result=result)
        assert found.attrs["predicted"] == 'averaged over the posterior by "vi"'
        off["vi"] = np.abs(found - exact).max().item()
        assert off["vi"] < 0.012
    for name in ("laplace", "map"):
        off[name] = np.abs(bpls.BPLS(model, predictor=name).predict_proba(candidates) - exact).max().item()
    assert min(off["laplace"], off["map"]) > 3 * off["vi"]
    named = pls.self_train("ppp[laplace]", rounds=0, **QUIET)
    by_name = pls.predict_proba(candidates, result=named)
    assert np.abs(by_name - exact).max().item() == pytest.approx(off["laplace"], abs=1e-9)


def test_a_model_that_ep_does_not_admit_is_scored_by_its_number_of_labels():
    """Two predictors a row: VI while labels are few, Laplace's method from five a parameter on."""
    for labels, name in ((Y, "vi"), (np.tile([0, 1, 1], 4), "laplace")):
        with pm.Model() as model:
            p = pm.math.invlogit(pm.Normal("a", 0, 1) * X) * pm.math.invlogit(pm.Normal("b", 0, 1))
            pm.Bernoulli("label", p=p, observed=np.where(np.arange(12) < 11, labels, -1))
        pls = bpls.BPLS(model)
        scores, found = pls.score(), pls.predict_proba()
        assert scores.attrs["approximation"] == name
        assert scores.attrs["predicted"] == f'averaged over the posterior by "{name}"'
        assert found.attrs["predicted"] == 'averaged over the posterior by "vi"'
        np.testing.assert_allclose(found, bpls.BPLS(model, predictor="vi").predict_proba(), atol=1e-10)


def test_under_an_improper_prior_it_is_at_the_mode():
    pls = bpls.BPLS(probit(lambda: pm.Flat("slope")))
    run = pls.self_train(rounds=1, **QUIET)
    for result, mode in ((None, by_laplace(precision=0.0)[1]), (run, by_laplace(run, precision=0.0)[1])):
        found = pls.predict_proba(result=result)
        np.testing.assert_allclose(found[:, 1], mode, atol=1e-6)
        assert found.attrs["predicted"] == "at the mode"
    assert run.attrs["predictor"] == "map"


def test_a_run_keeps_its_predictor_and_goes_on_by_it(proper, tmp_path):
    of_paper, pls = bpls.BPLS(proper, predictor="map"), bpls.BPLS(proper)
    test = (np.array([10, 11]), [1, 1])
    for made_by, other, predictor in ((pls, of_paper, "auto"), (of_paper, pls, "map")):
        run = made_by.self_train(rounds=1, test=test, **QUIET)
        bpls.save(run, tmp_path / "run.nc")
        run = xr.open_datatree(tmp_path / "run.nc")
        assert run.attrs["predictor"] == predictor
        longer, whole = other.resume(run, rounds=2, **QUIET), made_by.self_train(rounds=3, test=test, **QUIET)
        xr.testing.assert_allclose(longer["curve"].to_dataset(), whole["curve"].to_dataset(), atol=1e-9)
        np.testing.assert_allclose(other.predict_proba(result=longer), made_by.predict_proba(result=whole), atol=1e-9)
        run.close()


def test_a_run_without_a_predictor_goes_on_at_the_mode(proper):
    pls = bpls.BPLS(proper)
    old = bpls.BPLS(proper, predictor="map").self_train(rounds=1, **QUIET)
    del old.attrs["predictor"], old.attrs["averaged_by"]
    longer = pls.resume(old, rounds=1, **QUIET)
    assert longer.attrs["predictor"] == "map"
    for run in (old, longer):
        np.testing.assert_allclose(of_all(pls, result=run), by_laplace(run)[1], atol=1e-6)
        np.testing.assert_allclose(of_all(pls, result=run, by="gaussian"), exactly(run), atol=OF_EP)


def test_a_run_by_a_function_is_predicted_by_it_alone(proper):
    own = bpls.BPLS(proper, predictor=lambda rows: np.tile([0.25, 0.75], (len(rows), 1)))
    run = own.self_train(rounds=1, **QUIET)
    assert (own.predict_proba(result=run)[:, 1] == 0.75).all() and run.attrs["predictor"] == "a function"
    assert own.predict_proba(result=run).attrs["predicted"] == "by a function of your own"
    pls = bpls.BPLS(proper)
    for use in (lambda: pls.predict_proba(result=run), lambda: pls.resume(run)):
        with pytest.raises(bpls.CriterionError, match="by a function of your own, which is not kept"):
            use()
    np.testing.assert_allclose(of_all(pls, result=run, by="gaussian"), exactly(run), atol=OF_EP)


def test_members_of_a_set_are_averaged_over_each_as_it_predicts(proper):
    narrow = probit(lambda: pm.Normal("slope", 0, 0.1))
    for predicts, p in (("wide", exactly()), ("narrow", by_laplace(precision=100)[1])):
        members = {"wide": proper, "narrow": bpls.BPLS(narrow, predictor="map")}
        robust = bpls.ModelSet(members, predictor=predicts)
        np.testing.assert_allclose(of_all(robust), p, atol=OF_EP)
        run = robust.self_train(rounds=1, **QUIET)
        assert run.attrs["predictor"] == "auto, map"
        again = of_all(bpls.ModelSet({"wide": proper, "narrow": narrow}, predictor=predicts), result=run)
        np.testing.assert_allclose(again, of_all(robust, result=run), atol=1e-9)


def test_a_round_that_scores_and_predicts_by_ep_fits_once(proper, monkeypatch):
    fits = []
    known = APPROXIMATIONS["ep"]
    counted = replace(known, fit=lambda *some, **how: fits.append(some[2]) or known.fit(*some, **how))
    monkeypatch.setitem(APPROXIMATIONS, "ep", counted)
    pls = bpls.BPLS(proper)
    pls.self_train("predictive", approximation="ep", rounds=2, test=(np.array([10, 11]), [1, 1]), **QUIET)
    assert fits == [1, 1, 1]
    fits.clear()
    pls.score("ppp")
    assert fits == [2]  # p_1 is known from the run's beginning
