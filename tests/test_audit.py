"""The audit against quadrature, scipy and closed forms; what must fail does, and says why."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import reference
import xarray as xr
from scipy.special import logsumexp
from scipy.stats import kendalltau, spearmanr

import pymc_bpls as bpls
from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.audit.agreement import PairScores, agreement, interval
from pymc_bpls.audit.sentences import say_diagnostic, say_verdict
from pymc_bpls.audit.truth import known_values
from pymc_bpls.audit.uses import chance, say_uses
from pymc_bpls.montecarlo.psis import integrand_ks
from pymc_bpls.rules.ranking import kendall, ranks, spearman

EXPECTED_TAU = {
    "sim1_q2": {"ppp": 1.0, "ibpls": 0.993, "ubpls": 0.993, "reference": 0.993, "likelihood": 0.993},
    "banknote_q3": {"ppp": 1.0, "ibpls": 1.0, "ubpls": 0.986, "reference": 0.986, "likelihood": 0.981},
}
NUTS = {"draws": 500, "tune": 500, "chains": 4, "cores": 1, "progressbar": False}


def quadrature(split):
    """The file's exact values, at the file's pseudo-labels."""
    values = {"log_ppp": split.candidates["grid_log_ppp"].to_numpy(), "pseudo_label": split.pseudo}
    return xr.Dataset({name: ("candidate", value) for name, value in values.items()}, {"candidate": split.pool})


@pytest.fixture(scope="module")
def against_quadrature(few):
    split, informed = few
    return split, informed, informed.audit(exact=quadrature(split), random_seed=0)


def test_the_agreement_with_quadrature_is_the_stored_one(against_quadrature):
    split, _, audit = against_quadrature
    tau = audit.agreement["tau"].to_series()
    for criterion, expected in EXPECTED_TAU[split.name].items():
        assert abs(tau[criterion] - expected) <= 0.002
    regret = audit.agreement["regret"].to_series()
    assert (regret[list(EXPECTED_TAU[split.name])] == 0).all()
    assert audit.reliable
    assert not audit.refused


def test_errors_are_those_of_the_stored_laplace_values(against_quadrature):
    split, _, audit = against_quadrature
    error = split.candidates["laplace_log_ppp"].to_numpy() - split.candidates["grid_log_ppp"].to_numpy()
    found = audit.candidates["error"].sel(criterion="ppp")
    np.testing.assert_allclose(found, error, atol=2e-6)
    agreement = audit.agreement.sel(criterion="ppp")
    np.testing.assert_allclose(agreement["max_error"], np.abs(error).max(), atol=2e-6)
    np.testing.assert_allclose(agreement["max_centred"], np.abs(error - error.mean()).max(), atol=2e-6)
    np.testing.assert_allclose(agreement["mean_error"], np.abs(error).mean(), atol=2e-6)


def test_the_dropped_term_is_the_labeled_log_likelihood_at_the_refits(against_quadrature):
    split, _, audit = against_quadrature
    dropped = split.candidates["map_ltilde"] - split.candidates["map_l_DUi"]
    np.testing.assert_allclose(audit.simplified["dropped_sd"].sel(expansion="map"), dropped.std(ddof=0), atol=1e-6)
    dropped = split.candidates["tilde_l_D"]
    np.testing.assert_allclose(audit.simplified["dropped_range"].sel(expansion="mle"), np.ptp(dropped), atol=1e-6)


def test_known_values_have_no_monte_carlo_error(against_quadrature):
    _, _, audit = against_quadrature
    for name in ("regret_mcse", "top_k_mcse"):
        assert (audit.agreement[name] == 0).all()
    assert (audit.agreement["tau_low"] == audit.agreement["tau_high"]).all()
    assert (audit.candidates["flags"] == "").all()
    assert "±" not in audit.agreement["verdict"].sel(criterion="ppp").item()


@pytest.mark.slow
def test_intervals_from_importance_sampling_cover_the_values_by_quadrature(against_quadrature):
    _, informed, exact = against_quadrature
    names = ["ppp", "ibpls", "ubpls", "likelihood", "variance"]
    true, inside, close = exact.agreement.sel(criterion=names), [], []
    for seed in range(16):
        audit = informed.audit(names, method="psis", random_seed=seed)
        assert audit.reliable
        found = audit.agreement
        inside.append((found["tau_low"] - 1e-9 <= true["tau"]) & (true["tau"] <= found["tau_high"] + 1e-9))
        close.append((found["max_centred"] - true["max_centred"])[:-1] / found["max_centred_mcse"][:-1])
        assert (np.abs(found["regret"] - true["regret"]) <= 4 * found["regret_mcse"] + 1e-9).all()
    assert np.mean(inside) >= 0.9
    assert np.abs(close).max() < 4


def test_every_number_of_a_sampled_reference_has_its_error(against_quadrature):
    _, informed, _ = against_quadrature
    audit = informed.audit(["ppp", "ppp[vi]", "variance"], method="psis", random_seed=3)
    found = audit.agreement
    assert (found["regret_mcse"].sel(criterion="variance") > 0) and (found["tau_high"] > found["tau_low"]).all()
    assert (found["max_error_mcse"].sel(criterion=["ppp", "ppp[vi]"]) > 0).all()
    sampled = audit.candidates.sel(criterion=["ppp", "ppp[vi]"])
    assert (sampled["error_mcse"] > 0).all() and (sampled["mcse"] > 0).all()
    assert (sampled["error_mcse"].sel(criterion="ppp[vi]") > sampled["error_mcse"].sel(criterion="ppp")).all()
    assert "±" in found["verdict"].sel(criterion="ppp").item()


def test_what_exact_returned_is_taken_as_it_is(few):
    _, informed = few
    tree = informed.exact(method="psis", random_seed=4)
    audit = informed.audit(["ppp", "ibpls"], tree, random_seed=0)
    np.testing.assert_array_equal(audit.candidates["log_ppp"], tree["exact"]["log_ppp"])
    np.testing.assert_allclose(audit.candidates["diff_to_best_mcse"], tree["exact"]["diff_to_best_mcse"], rtol=1e-5, atol=1e-12)
    relative = informed.audit(["ppp"], informed.exact(method="psis", absolute=False, random_seed=4), random_seed=0)
    assert "log_predictive" in relative.candidates
    error = relative.candidates["error"].sel(criterion="ppp")
    np.testing.assert_allclose(error.mean(), 0, atol=1e-12)
    np.testing.assert_allclose(
        error, audit.candidates["error"].sel(criterion="ppp") - audit.candidates["error"][0].mean(), atol=1e-6
    )


def test_all_classes_are_audited_as_pairs(sim1, sim1_informed):
    tree = sim1_informed.exact(method="psis", labels="all", random_seed=5)
    audit = sim1_informed.audit(["ppp", "probability"], tree, random_seed=0)
    assert audit.candidates["score"].dims == ("criterion", "candidate", "label")
    assert audit.agreement["n_compared"].to_numpy().tolist() == [2 * sim1.m] * 2
    np.testing.assert_allclose(
        audit.candidates["score"][0], sim1_informed.score(labels="all", approximation="laplace")["score"]
    )


def test_laplace_s_ppp_is_the_same_under_both_names(few):
    split, informed = few
    audits = [informed.audit([name, "ibpls"], quadrature(split), random_seed=0) for name in ("ppp", "ppp[laplace]")]
    for group in ("simplified", "diagnostics"):
        first, second = (getattr(audit, group) for audit in audits)
        assert first.sizes and first.equals(second)


def test_candidates_have_the_approximate_value_and_every_column_is_described(few):
    split, informed = few
    found = informed.audit(["ppp", "ibpls", "variance"], quadrature(split), random_seed=0).candidates
    assert all(found[name].attrs["description"] for name in found)
    np.testing.assert_allclose(found["approximate"] - found["log_ppp"], found["error"].transpose("criterion", "candidate"))
    score = informed.score("ppp", approximation="laplace")
    np.testing.assert_allclose(found["approximate"].sel(criterion="ppp"), score["log_ppp"], atol=1e-9)


def test_a_file_brings_everything_back(tmp_path, few):
    split, informed = few
    audit = informed.audit(["ppp", "variance"], exact=quadrature(split), random_seed=0)
    audit.to_netcdf(tmp_path / "audit.nc")
    back = bpls.Audit.from_netcdf(tmp_path / "audit.nc")
    assert str(back) == str(audit)
    xr.testing.assert_equal(back.candidates, audit.candidates)
    assert back.refused == audit.refused


def test_a_frame_has_a_row_for_each_criterion_and_candidate(against_quadrature):
    split, _, audit = against_quadrature
    frame = audit.to_dataframe()
    assert len(frame) == split.m * audit.agreement.sizes["criterion"]
    assert frame["score"].xs("ppp", level="criterion").loc[split.n] == audit.candidates["score"].sel(
        criterion="ppp", candidate=split.n
    )


def test_text_and_html_say_the_verdict_and_a_sentence_for_each_criterion(against_quadrature):
    _, _, audit = against_quadrature
    for shown in (str(audit), audit._repr_html_()):
        assert audit.verdict in shown
        for sentence in audit.agreement["verdict"].to_numpy():
            assert sentence.replace("'", "&#x27;") in shown or sentence in shown
    assert re.search(
        r"^ppp picks candidate \d+, the exact best; its log PPP, centred, is off by .* at most", str(audit), re.MULTILINE
    )
    assert "% of the range over the pool" in str(audit)


def test_the_user_s_index_and_classes_come_back(table):
    X, y, _ = table
    index = [f"row {i}" for i in range(len(y))]
    pls = bpls.BPLS(reference.logistic(X, y), classes=["no", "yes"], index=index)
    audit = pls.audit(["ppp", "variance"], method="psis", random_seed=0)
    assert set(audit.candidates["pseudo_label"].to_numpy()) <= {"no", "yes"}
    assert audit.candidates["index"].to_numpy().tolist() == index[12:]
    values = pd.Series(audit.candidates["log_ppp"].to_numpy(), index=index[12:])
    shuffled = pls.audit(["ppp"], exact=values.sample(frac=1, random_state=0), random_seed=0)
    np.testing.assert_allclose(shuffled.candidates["log_ppp"], audit.candidates["log_ppp"])


def test_a_criterion_of_ones_own_is_audited(few):
    split, informed = few
    own = bpls.Criterion("own", lambda t: t.log_lik_labeled + t.log_lik_pseudo - 0.25 * t.log_det, k=1)
    audit = informed.audit([own, "ppp"], exact=quadrature(split))
    assert audit.agreement["criterion"].to_numpy().tolist() == ["own", "ppp"]


def rows(seed=0, n=40):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, (X[:, 0] + rng.logistic(size=n) > 0).astype(int)


def hidden(labels):
    return np.where(np.arange(len(labels)) < 24, labels, -1)


def funnel():
    X, y = rows()
    with pm.Model() as model:
        v = pm.Normal("v", 0, 3)
        group = pm.Normal("group", 0, pm.math.exp(v / 2), shape=8)
        pm.Bernoulli("y", logit_p=X @ pm.Normal("b", 0, 1, shape=2) + group[np.arange(40) % 8], observed=hidden(y))
    return model


def two_modes():
    X, _ = rows()
    with pm.Model() as model:
        w, v = pm.Normal("w", 0, 2, shape=2), pm.Normal("v", 0, 3)
        pm.Bernoulli("y", logit_p=v * pm.math.tanh(X @ w), observed=hidden(X[:, 0] > 0.1))
    return model


def healthy():
    X, y = rows()
    return reference.logistic(X, hidden(y))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (funnel, "R-hat is up to|ESS is down to|diverged"),
        (two_modes, "R-hat is up to"),
    ],
)
@pytest.mark.slow
def test_an_audit_that_must_fail_does_and_says_why(model, reason):
    audit = bpls.BPLS(model()).audit(["ppp", "ibpls", "ubpls"], random_seed=1, **NUTS)
    assert not audit.reliable
    assert audit.verdict.startswith("Not reliable: ")
    assert pd.Series(audit.verdict).str.contains(reason).item()
    assert "ubpls" in audit.refused


@pytest.mark.slow
def test_importance_sampling_from_what_ep_integrates_over_reaches_both_modes():
    """log Z_2 − log Z_1 of both modes by four million draws from the prior in NumPy."""
    X, _ = rows()
    run = bpls.BPLS(two_modes()).exact(method="psis", random_seed=1)
    labels = hidden(X[:, 0] > 0.1)
    known = labels >= 0
    rng, log_lik = np.random.default_rng(0), []
    for _ in range(16):
        w, v = rng.normal(0, 2, (250_000, 2)), rng.normal(0, 3, 250_000)
        eta = v[:, None] * np.tanh(w @ X[known].T)
        log_lik.append(-np.logaddexp(0, np.where(labels[known] == 1, -eta, eta)).sum(axis=1))
    log_lik = np.concatenate(log_lik)
    truth = logsumexp(2 * log_lik) - logsumexp(log_lik)
    assert run.attrs["reliable"] == 1
    assert abs(run.attrs["log_normalizer"] - truth) < 4 * run.attrs["log_normalizer_error"] < 0.3


@pytest.mark.parametrize("method", ["nuts", "psis"])
def test_a_healthy_audit_is_reliable_and_says_so(method):
    options = {**NUTS, "draws": 1000} if method == "nuts" else {"method": "psis"}
    audit = bpls.BPLS(healthy()).audit(["ppp", "variance"], random_seed=1, **options)
    assert audit.reliable
    assert audit.verdict.startswith("The exact reference is reliable (4000 draws ")
    assert "ppp can be used here" in audit.verdict
    assert "variance chooses badly here: its choice loses" in audit.verdict


@pytest.mark.slow
def test_a_separated_flat_model_has_nothing_to_compare_and_says_why():
    X, _ = rows()
    audit = bpls.BPLS(reference.logistic(X, hidden(X[:, 0] > 0), flat=True)).audit(random_seed=1)
    assert not audit.reliable
    assert "no finite mode" in audit.verdict or "separated" in audit.verdict
    assert set(audit.refused) == {*audit.refused, "ppp", "ppp[ep]", "ubpls"}
    assert audit.table.empty
    assert "Left out: ppp, ppp[ep]" in str(audit)


def test_a_reference_that_is_mostly_noise_is_not_reliable(few):
    split, informed = few
    exact = quadrature(split).assign(mcse=("candidate", np.full(split.m, 0.5)))
    audit = informed.audit(["ppp"], exact=exact, random_seed=0)
    assert not audit.reliable
    assert "the Monte Carlo error" in audit.verdict
    assert "candidates are flagged" in audit.verdict
    assert ": not separated from a neighbour by the reference's own error" in audit.verdict


def test_candidates_nearer_than_the_error_are_flagged_and_left_out_once(few):
    split, informed = few
    exact = quadrature(split)
    error = 0.002
    audit = informed.audit(["ppp"], exact=exact.assign(mcse=("candidate", np.full(split.m, error))), random_seed=0)
    value = exact["log_ppp"].to_numpy()
    near = np.array([np.sort(np.abs(value - each))[1] < error * np.sqrt(2) for each in value])
    np.testing.assert_array_equal(audit.candidates["flags"].to_numpy() != "", near)
    assert audit.agreement["n_unflagged"].item() == (~near).sum()
    assert "tau without flags" in str(audit)
    assert f"{near.sum()} of {split.m} candidates are flagged" in audit.verdict


def test_a_reference_that_flags_most_candidates_says_what_it_tells(few):
    split, informed = few
    value, error = np.linspace(-3, 0, split.m)[np.random.default_rng(0).permutation(split.m)], 0.1
    exact = quadrature(split).assign(log_ppp=("candidate", value), mcse=("candidate", np.full(split.m, error)))
    audit = informed.audit(["ppp", "variance"], exact=exact, random_seed=0)
    gaps = np.abs(value[:, None] - value)[np.triu_indices(split.m, 1)]
    told = (gaps > 2 * np.sqrt(2) * error).mean()
    assert 0.1 < told < 1
    assert audit.reliable and "reliable" not in audit.verdict
    assert f"they tell which of two candidates is the better one for {told:.0%} of all pairs; most" in audit.verdict
    text = say_verdict(audit.agreement, [], [["doubt"]] * 146 + [[]] * 5, "candidates", "4000 draws", 0.93)
    assert text.startswith(
        "The exact reference (4000 draws) tells which of two candidates is the better one for 93% of all pairs; most"
    )
    assert "146 of 151 candidates are flagged" in text and "reliable" not in text
    clean = say_verdict(audit.agreement, [], [["doubt"]] * 5 + [[]] * 146, "candidates", "4000 draws", 0.93)
    assert clean.startswith("The exact reference is reliable (4000 draws).")


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        ((0.8, 0.7, 0.9), "The class-sum error tells which"),
        ((0.5, 0.35, 0.6), "hints at which"),
        ((0.35, 0.29, 0.48), "tells little about which"),
        ((0.3, -0.1, 0.5), "does not tell which"),
        ((-0.4, -0.5, -0.3), "is smaller where Laplace's ppp misjudges more"),
    ],
)
def test_a_diagnostic_is_not_denied_what_its_interval_says(interval, words):
    assert words in say_diagnostic("class_sum_error", *interval)


def test_choices_within_a_criterion_s_own_error_are_ties(against_quadrature):
    split, _, audit = against_quadrature
    exact = split.candidates["grid_log_ppp"].to_numpy()
    for name in ("ppp", "ibpls"):
        score = audit.candidates["score"].sel(criterion=name).to_numpy()
        centred = (score - score.mean()) - (exact - exact.mean())
        error = np.sqrt(2 * np.mean(centred**2))
        best = np.sort(score)[::-1]
        found = audit.agreement.sel(criterion=name)
        assert float(found["own_error"]) == pytest.approx(error, rel=1e-6)
        assert float(found["lead"]) == pytest.approx(best[0] - best[1], abs=1e-9)
        tied = int((best[0] - best[1:] < error).sum())
        assert int(found["n_within_own_error"]) == tied
        nearer = "1 other is" if tied == 1 else f"{tied} others are"
        said = str(found["verdict"].to_numpy())
        tie = f"and {nearer} within {error:.2g} of it, as much as its differences are usually off: a tie"
        assert (tie in said) == (tied > 0)
    assert np.isnan(float(audit.agreement.sel(criterion="variance")["own_error"]))


def test_a_candidate_with_two_flags_counts_for_each_of_them(few):
    split, informed = few
    exact, few_draws = quadrature(split), np.arange(split.m) < 5
    ess, error = np.where(few_draws, 10.0, 1e4), np.full(split.m, 0.002)
    exact = exact.assign(mcse=("candidate", error), ess=("candidate", ess))
    audit = informed.audit(["ppp"], exact=exact, random_seed=0)
    value = exact["log_ppp"].to_numpy()
    near = np.array([np.sort(np.abs(value - each))[1] < 0.002 * np.sqrt(2) for each in value])
    assert (
        f"{(near | few_draws).sum()} of {split.m} candidates are flagged (5: effective sample size below 400; "
        f"{near.sum()}: not separated from a neighbour"
    ) in audit.verdict
    assert "The 5 whose exact value is doubtful count against no criterion here." in audit.verdict


def test_a_run_of_another_table_or_prior_is_refused(sim1, sim1_informed):
    order = np.r_[np.arange(sim1.n)[::-1], np.arange(sim1.n, len(sim1.y))]
    others = (reference.logistic(sim1.X[order], sim1.y[order]), reference.logistic(sim1.X, sim1.y, scale=1.0))
    for other in others:
        run = bpls.BPLS(other, unlabeled=sim1.pool).exact(method="psis", absolute=False, random_seed=0)
        with pytest.raises(bpls.CriterionError, match="exact= is a run of another table or model"):
            sim1_informed.audit(["ppp"], exact=run)
    with pytest.raises(bpls.CriterionError, match=r'exact= is a run of exact\("marginal_likelihood"\)'):
        sim1_informed.audit(["ppp"], exact=sim1_informed.exact("marginal_likelihood", method="psis", random_seed=0))


def test_a_permuted_run_is_put_in_order_with_its_errors(sim1, sim1_informed):
    tree = sim1_informed.exact(method="psis", random_seed=0)
    order = np.random.default_rng(0).permutation(sim1.m)
    groups = {name: tree[name].to_dataset().isel(candidate=order) for name in ("exact", "batches")}
    mixed = xr.DataTree.from_dict({"/": xr.Dataset(attrs=tree.attrs), **groups})
    one, other = (sim1_informed.audit(["ppp"], exact=given, random_seed=0).candidates for given in (tree, mixed))
    xr.testing.assert_allclose(one, other)
    node = sim1_informed.audit(["ppp"], exact=tree["exact"], random_seed=0)
    np.testing.assert_array_equal(node.candidates["log_ppp"], one["log_ppp"])


def test_what_cannot_be_chosen_between_is_said(table):
    X, y, _ = table
    alone = bpls.BPLS(reference.logistic(X[:13], y[:13])).audit(method="psis", random_seed=0)
    assert "nan" not in str(alone)
    assert "there is nothing to choose" in alone.verdict
    same = bpls.BPLS(reference.logistic(X[[*range(12), 13, 13, 13]], y[:15]))
    audit = same.audit(["ppp", "variance"], method="psis", random_seed=0)
    assert audit.agreement["tau"].isnull().all() and audit.agreement["tau_high"].isnull().all()
    assert "there is nothing to choose" in audit.verdict
    np.testing.assert_allclose(same.exact(method="psis", random_seed=0)["exact"]["prob_best"], 1 / 3)


def test_a_criterion_that_ties_says_so(few):
    split, informed = few
    constant = bpls.Criterion("constant", lambda t: 0 * t.log_lik_pseudo)
    audit = informed.audit([constant], exact=quadrature(split))
    assert audit.agreement["n_tied"].item() == split.m
    assert f"the first of {split.m} that it scores alike" in str(audit)


def test_criteria_without_a_score_are_left_out_in_words(few):
    split, informed = few
    formulas = {
        "nothing": lambda t: t.log_lik_pseudo * np.nan,
        "typo": lambda t: t.nope,
        "number": lambda t: 1.0,
        "array": lambda t: t.log_lik_pseudo.to_numpy(),
    }
    audit = informed.audit([bpls.Criterion(name, formula) for name, formula in formulas.items()], exact=quadrature(split))
    assert set(audit.refused) == set(formulas)
    assert audit.verdict == "Nothing is compared: none of nothing, typo, number, array is defined here."
    assert "asks for what is no term" in audit.refused["typo"]
    with pytest.raises(bpls.CriterionError, match="No criterion of this audit"):
        bpls.plot_audit(audit)


def test_criteria_that_score_classes_alike_are_left_out_of_pairs(sim1, sim1_informed):
    tree = sim1_informed.exact(method="psis", labels="all", random_seed=5)
    audit = sim1_informed.audit(["entropy", "variance", "ppp"], tree, random_seed=0)
    assert set(audit.refused) == {"entropy", "variance"}
    assert "scores all classes of a row alike" in audit.refused["entropy"]


@pytest.mark.slow
def test_a_far_away_row_does_not_stop_the_audit():
    X, y = rows()
    X[30, 1] = 1e8
    with pm.Model() as model:
        pm.Bernoulli("y", p=pm.math.invprobit(X @ pm.Normal("b", 0, 1, shape=2)), observed=hidden(y))
    audit = bpls.BPLS(model).audit(["ppp", "variance", "probability"], method="psis", random_seed=0)
    assert "variance" in audit.agreement["criterion"]


def test_k_hat_is_the_same_every_time_and_has_an_error(few):
    split, informed = few
    one, other = (informed.audit(["ppp"], exact=quadrature(split), random_seed=seed).agreement for seed in (1, 2))
    assert one["pareto_k"].item() == other["pareto_k"].item()
    assert 0 < one["pareto_k_mcse"].item() < 0.3


def test_k_hat_is_not_fooled_by_features_that_somebody_simulated_by_seed_0():
    """A nearly Gaussian posterior of 300 features: draws that are rows of X would lie far out along these rows' predictors."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 300))
    pls = bpls.BPLS(reference.logistic(X, np.r_[np.arange(20) % 2, np.full(10, -1)], scale=0.05))
    fit = pls.scorer.fit(pls.labeled)
    _, k_hat = integrand_ks(fit.engine, fit.labeled, Gaussian.at_mode(fit.mode), 1, (np.arange(20, 22), np.zeros(2, dtype=int)))
    assert k_hat.max() < 0.7


def test_ranks_tie_what_is_equal_but_for_rounding():
    rng = np.random.default_rng(0)
    a, b = rng.integers(8, size=50).astype(float), rng.integers(8, size=50).astype(float)
    noisy = a + 1e-12 * rng.normal(size=50)
    assert kendall(ranks(noisy), ranks(b)) == pytest.approx(kendalltau(a, b)[0])
    assert spearman(ranks(noisy), ranks(b)) == pytest.approx(spearmanr(a, b)[0])
    assert np.isnan(kendall(ranks(a), ranks(np.zeros(50))))


def test_the_interval_of_a_rank_correlation_reaches_up_to_what_noise_took():
    """Values 0, 1, … 199 in units of 0.01 with normal noise of sd 0.02: the truth is τ = 1."""
    rng = np.random.default_rng(0)
    truth = np.arange(200) * 0.01
    covered = []
    for _ in range(40):
        noisy = truth + 0.02 * rng.normal(size=200)
        again = [kendalltau(truth, noisy + 0.02 * rng.normal(size=200))[0] for _ in range(50)]
        low, high = interval(kendalltau(truth, noisy)[0], np.array(again))
        covered.append(low <= 1 <= high)
    assert np.mean(covered) >= 0.9


def judged(off, noise, doubtful=(), seed=0):
    """The audit's numbers and sentence of scores that are the truth but for `off` (80,), by a reference with normal `noise`."""
    rng = np.random.default_rng(seed)
    value = np.linspace(0, 1, 80)
    truth = known_values(value + noise * rng.normal(size=80), np.full(80, noise))
    doubts = truth.doubts.copy()
    doubts[list(doubtful)] = "k-hat of the reference above 0.7"
    truth = replace(truth, doubts=doubts)
    found = agreement(PairScores(value + off, value + off), truth, doubts != "", 5, seed)
    held = xr.Dataset({name: ("criterion", [each]) for name, each in found.items()}, {"criterion": ["own"]})
    return found, say_uses(held, truth.range)


@pytest.fixture
def _few_replicates(monkeypatch):
    """What is proven comes from the reference's errors, and none of it from replicates."""
    monkeypatch.setattr("pymc_bpls.audit.agreement._REPLICATES", 10)
    monkeypatch.setattr("pymc_bpls.audit.agreement._OF_BEST", 100)


@pytest.mark.slow
@pytest.mark.usefixtures("_few_replicates")
def test_noise_of_the_reference_is_no_error_of_a_criterion():
    """A criterion that is exact: the largest of 80 differences is above 10% of the range by noise, and hardly ever claimed."""
    claimed = []
    for seed in range(100):
        found, said = judged(0.0, 0.1, seed=seed)
        assert found["max_centred_share"] > 0.1
        claimed.append((found["max_centred_proven"] > 0) + (found["regret_proven"] > 0))
        assert claimed[-1] or said.startswith("own chooses well here. Its values, centred, differ from the reference by up to")
    assert np.mean(np.array(claimed) > 0) <= 0.1


@pytest.mark.usefixtures("_few_replicates")
def test_an_error_beyond_the_noise_is_claimed_and_not_beyond_its_size():
    off = np.zeros(80)
    off[10] = 1.0
    sizes = []
    for seed in range(20):
        found, said = judged(off, 0.1, seed=seed)
        sizes.append(found["max_centred_proven"])
        assert "its values, centred, are off by up to" in said or "chooses badly" in said
    assert 0.3 < np.mean(sizes) < np.max(sizes) < 1.0
    assert judged(off, 0.1, doubtful=[10])[0]["max_centred_proven"] == 0
    found, said = judged(off, 0.0)
    assert found["max_centred_proven"] == found["max_centred"] == pytest.approx(1 - 1 / 80)


def test_every_audited_criterion_is_judged_in_the_verdict():
    names, nan = ["a", "b", "c", "d", "e", "f", "g", "h"], np.nan
    columns = {
        "regret": [0.0, 0.001, 0.0, 0.5, 0.3, 0.0, 0.0, 0.0],
        "regret_proven": [0.0, 0.0005, 0.0, 0.4, 0.2, 0.0, 0.0, 0.0],
        "max_centred": [0.02, 0.05, 0.4, 0.3, nan, nan, 0.11, nan],
        "max_centred_proven": [0.01, 0.02, 0.3, 0.2, nan, nan, 0.08, nan],
        "tau_low": [0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.007],
        "n_compared": [40] * 8,
    }
    held = xr.Dataset({name: ("criterion", values) for name, values in columns.items()}, {"criterion": names})
    said = say_uses(held, 1.0)
    assert said == (
        "a and b can be used here: their choices are the exact best or lose next to nothing, and their values, centred, are "
        "within 5% of the range of log PPP over the pool. c chooses well here, but its values, centred, are off by up to 40% "
        "of the range of log PPP over the pool. g chooses well here. Its values, centred, differ from the reference by up to "
        "11% of the range of log PPP over the pool, beyond its own error by 8% at least. Whether they are off by more than 10% "
        "cannot be told: take more draws. f chooses well here: its choice is the exact best or loses next to nothing. Only the "
        "order of its scores was compared. The choice of h loses little here, maybe by luck: its ranking is not told from a "
        "random one. d and e choose badly here: their choices lose 30% to 50% of the range of log PPP over the pool, that of d "
        "most."
    )


def judged_by(value, **scores):
    """What the verdict says of `scores`, of which only the order counts, where log PPP is known to be `value`."""
    truth = known_values(np.asarray(value))
    found = {
        name: agreement(PairScores(score, None), truth, np.zeros(len(value), bool), 5, 0) for name, score in scores.items()
    }
    columns = {key: ("criterion", [each[key] for each in found.values()]) for key in next(iter(found.values()))}
    held = xr.Dataset(columns, {"criterion": list(found)}, {"range": truth.range, "scale": truth.scale})
    return say_verdict(held, [], [[]] * len(value), "candidates", "n draws", 1.0)


def test_an_outlier_buys_no_criterion_a_good_verdict():
    """40 candidates over 4 nats: one more that is far below makes no loss small, and no lucky choice a good criterion."""
    value = np.linspace(-4, 0, 40)
    middle, lucky = np.eye(40)[20], np.random.default_rng(0).random(40)
    lucky[38] = 1.0
    for outlier in (0.0, 60.0, 6000.0):
        far = np.r_[value[0] - outlier, value[1:]]
        said = judged_by(far, order=value, middle=middle)
        assert "order chooses well here" in said and "middle chooses badly here" in said
        assert ("most of it by a few candidates" in said) == (outlier > 0)
    assert " of 11 nats." in said
    assert "The choice of lucky loses little here, maybe by luck" in judged_by(far, lucky=lucky)


def test_candidates_that_differ_by_next_to_nothing_are_alike():
    value = np.linspace(0, 2e-4, 40)
    said = judged_by(value, worst=-value)
    assert "spans 0.0002 nats over the pool, less than the 0.001 that matter: any choice is as good as another." in said
    assert "worst" not in said
    said = judged_by(20 * value, fourth=-np.abs(value - value[-5]), worst=-value)
    assert "fourth chooses well" in said and "worst chooses badly" in said and "spans 0.004 nats" in said


def test_chance_is_the_upper_tail_of_tau_under_independence():
    rng = np.random.default_rng(0)
    taus = [kendalltau(np.arange(20), rng.permutation(20))[0] for _ in range(4000)]
    assert np.mean(np.array(taus) > chance(20)) == pytest.approx(0.05, abs=0.012)


@pytest.mark.parametrize(("n", "stretched"), [(3, False), (40, True)])
def test_the_scale_is_the_range_but_for_outliers(n, stretched):
    value = np.r_[-1000.0, np.linspace(-1, 0, n - 1)]
    truth = known_values(value)
    assert truth.range == 1000 and (truth.scale < 3.1) == stretched
    assert known_values(np.linspace(-1, 0, n)).scale == 1
    assert known_values(np.r_[-1000.0, np.zeros(n - 1)]).scale > 0


def test_the_regret_of_a_best_candidate_that_is_not_sure_has_an_error():
    """Two candidates alike but for noise of sd 0.1: the other one is ahead by max(0, 0.1 √2 z), root mean square 0.1."""
    truth = known_values(np.array([0.0, -1e-6]), np.full(2, 0.1))
    found = agreement(PairScores(truth.value, truth.value), truth, np.zeros(2, bool), 1, 0)
    assert found["regret"] == 0 and found["regret_mcse"] == pytest.approx(0.1, rel=0.25)
    sure = known_values(np.array([0.0, -9.0]), np.full(2, 0.1))
    assert agreement(PairScores(sure.value, sure.value), sure, np.zeros(2, bool), 1, 0)["regret_mcse"] == 0


def labelled(label, **others):
    """Values of 25 candidates, all with one class."""
    values = {"log_ppp": np.zeros(25), "pseudo_label": np.full(25, label), **{k: np.full(25, v) for k, v in others.items()}}
    return xr.Dataset({name: ("candidate", value) for name, value in values.items()})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"criteria": ["nonsense"]}, 'criterion="nonsense" is unknown'),
        ({"criteria": ["variance[ep]"]}, 'needs approximation="laplace"'),
        ({"criteria": ["ppp[xyz]"]}, 'approximation="xyz" is unknown'),
        ({"criteria": []}, "criteria= is empty"),
        ({"top": 0}, "top=0 is no number"),
        ({"exact": np.zeros(3)}, "Give one value for each of the 25 candidates, in their order."),
        ({"labels": np.zeros(25)}, "labels= is a ndarray, and not a rule by which candidates get their classes."),
        ({"criteria": xr.DataTree()}, "Audit a run by audit_along(run)"),
        ({"exact": np.full(25, np.nan)}, "exact= is not finite for 25"),
        ({"exact": np.zeros(25), "method": "psis"}, "exact= is given, and so is method="),
        ({"exact": xr.Dataset({"log_ppp": ("candidate", np.zeros(25))})}, 'exact= holds no "pseudo_label"'),
        ({"exact": xr.Dataset({"x": ("candidate", np.zeros(25))})}, 'holds neither "log_ppp"'),
        ({"exact": xr.DataTree()}, "exact= is no run of exact()"),
        ({"exact": np.r_[np.inf, np.zeros(24)]}, "exact= is not finite for 1"),
        ({"exact": "nothing"}, "exact= is a str and no numbers"),
        ({"exact": {"log_ppp": np.zeros(25)}}, "exact= is a dict and no numbers"),
        ({"exact": labelled(7)}, "exact= holds the class 7"),
        ({"exact": labelled(0, mcse=-1.0)}, "standard errors that are negative"),
        ({"criteria": [3]}, "criteria= holds a int"),
        ({"criteria": [bpls.Criterion("ppp", lambda t: -t.log_lik_pseudo)]}, 'is named "ppp", as a built-in one'),
        ({"draws": 2, "chains": 1, "method": "psis"}, "is too few to say anything about errors"),
        ({"draws": 0, "method": "psis"}, "draws=0 is no number of draws"),
        ({"exact": pd.Series(np.zeros(25), index=range(100, 125))}, "exact= has another index"),
        ({"method": "grid"}, 'method="grid" is unknown'),
    ],
)
def test_what_cannot_be_audited_is_refused(sim1, sim1_informed, arguments, message):
    assert sim1.m == 25
    with pytest.raises(bpls.CriterionError) as refusal:
        sim1_informed.audit(**arguments)
    assert message in str(refusal.value)
