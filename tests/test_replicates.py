"""Labels that are drawn: on average over replicates the posterior is the supervised one; and what other runs invent."""

from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytest
import reference
import xarray as xr
from scipy.special import expit
from scipy.stats import multivariate_normal

import pymc_bpls as bpls
from pymc_bpls.rules.label_rules import Sampled
from pymc_bpls.scoring.one_model import ModelScorer
from pymc_bpls.scoring.predictors import MAP
from pymc_bpls.scoring.settings import find_settings
from pymc_bpls.selftraining.history import History
from pymc_bpls.selftraining.invented import kullback_leibler
from pymc_bpls.selftraining.planning import Plan
from pymc_bpls.selftraining.run import Run

QUIET = {"progressbar": False}
GRID = np.linspace(-12, 12, 4001)


@pytest.fixture(scope="module")
def slope():
    """One parameter, so that quadrature has every posterior: 4 labels, 12 candidates."""
    rng = np.random.default_rng(2)
    x = np.r_[[-1.0, -0.3, 0.4, 1.2], rng.normal(0, 1.5, 12)]
    y = np.r_[[0, 1, 0, 1], np.full(12, -1)]
    with pm.Model() as model:
        pm.Bernoulli("label", logit_p=pm.Normal("slope", 0, 1.5) * x, observed=y)
    return bpls.BPLS(model)


def posterior(x, codes):
    """p(θ | D) at the nodes of the grid, by hand."""
    log_p = -np.logaddexp(0, -np.outer(GRID, x) * (2 * codes - 1)).sum(axis=1) - 0.5 * (GRID / 1.5) ** 2
    p = np.exp(log_p - log_p.max())
    return p / p.sum()


@dataclass(frozen=True)
class ByQuadrature(ModelScorer):
    """The scorer of a model with one parameter, whose averages over the posterior are exact."""

    x: np.ndarray = None

    def log_probabilities(self, fit, positions):
        if self.predictor == MAP:
            return super().log_probabilities(fit, positions)
        D = fit.labeled
        p = posterior(self.x[D.positions], D.codes) @ expit(np.outer(GRID, self.x[positions]))
        return np.log(np.stack([1 - p, p], axis=1))


def ends(pls, labels, n, rounds, criterion="probability"):
    """The posteriors on the grid that so many runs end with, with exact averages over the posterior."""
    held = pls.scorer
    x = pls.engine.density.data[1].ravel()
    scorer = ByQuadrature(held.problem, held.engines, held.predictor, x)
    found = []
    for stream in np.random.default_rng(7).spawn(n):
        settings = find_settings(criterion, labels=labels, random_seed=stream)
        run = Run(scorer, settings, Plan(rounds, 1, [], None, 1.0, None), pls.labeled, held.problem.table.candidates, History())
        run.go(lambda added: None)
        found.append(posterior(x[run.labeled.positions], run.labeled.codes))
    return np.array(found), posterior(x[:4], pls.labeled.codes)


def moments(p):
    """Mean and variance of densities on the grid."""
    mean = p @ GRID
    return mean, p @ GRID**2 - mean**2


def furthest(p, supervised):
    """How many Monte Carlo standard errors the mixture is off at its worst of 20 quantiles of the supervised posterior."""
    bins = np.searchsorted(supervised.cumsum(), np.linspace(0.05, 0.95, 20))
    below = p.cumsum(axis=1)[:, bins]
    return np.abs((below.mean(axis=0) - supervised.cumsum()[bins]) / (below.std(axis=0, ddof=1) / np.sqrt(len(p)))).max()


@pytest.mark.slow
def test_the_mixture_over_drawn_labels_is_the_supervised_posterior_and_that_of_predicted_ones_shrinks(slope):
    sampled, supervised = ends(slope, "sampled", 200, 8)
    assert furthest(sampled, supervised) < 3.5
    spread = moments(sampled)[1]
    within, between = spread.mean(), moments(sampled)[0].var()
    _, variance = moments(supervised)
    error = (sampled @ (GRID - supervised @ GRID) ** 2).std() / np.sqrt(200)
    assert within + between == pytest.approx(variance, abs=4 * error) and within < 0.8 * variance
    [predicted], _ = ends(slope, "predicted", 1, 8)
    assert moments(predicted)[1] < 0.8 * variance
    apart = [np.abs((p - supervised).cumsum()).max() for p in (predicted, sampled.mean(axis=0))]
    assert apart[0] > 0.1 and apart[1] < 0.3 * apart[0]


@pytest.mark.slow
def test_a_rule_that_lets_the_drawn_label_choose_the_row_is_seen(slope):
    """The same machinery with labels drawn before the choice, which the choice then sees: no martingale."""

    class Before(bpls.LabelRule):
        name = "before"
        rng = np.random.default_rng(3)

        def codes(self, log_probabilities, present):
            return Sampled().draw(log_probabilities, self.rng)

    chosen_by_label, supervised = ends(slope, Before(), 200, 8)
    assert furthest(chosen_by_label, supervised) > 5


def test_labels_are_drawn_from_the_posterior_predictive():
    p = np.log([[0.2, 0.5, 0.3], [1.0, 1e-300, 1e-300], [1e-300, 0.4, 0.6]])
    drawn = np.array([Sampled().draw(p, rng) for rng in np.random.default_rng(0).spawn(4000)])
    shares = np.stack([(drawn == code).mean(axis=0) for code in range(3)], axis=1)
    np.testing.assert_allclose(shares, np.exp(p), atol=4 * np.sqrt(0.25 / 4000))


def test_the_row_is_chosen_as_with_its_predicted_class(small):
    sampled = small.self_train("probability", labels="sampled", rounds=1, random_seed=0, **QUIET)
    predicted = small.self_train("probability", rounds=1, **QUIET)
    assert sampled["history"]["candidate"].item() == predicted["history"]["candidate"].item()
    assert small.score("probability", labels="sampled")["score"].equals(small.score("probability")["score"])


@pytest.fixture(scope="module")
def replicated(small):
    return small.self_train("probability", labels="sampled", rounds=4, replicates=24, random_seed=4, **QUIET)


def test_the_mixture_is_that_of_the_replicates(small, replicated):
    runs = replicated["replicates"].children
    assert list(runs) == [str(number) for number in range(1, 25)]
    means = np.stack([run["unconstrained"]["mode"].to_numpy() for run in runs.values()])
    mixture = replicated["mixture"]
    np.testing.assert_allclose(mixture["mean"], means.mean(axis=0))
    np.testing.assert_allclose(mixture["mean_error"], means.std(axis=0, ddof=1) / np.sqrt(24))
    fit = small.fit()
    np.testing.assert_allclose(mixture["supervised_mean"], fit.unconstrained)
    np.testing.assert_allclose(mixture["supervised_covariance"], np.linalg.inv(fit.hessian), rtol=1e-8)
    alone = [run["curve"]["invented_information"].to_numpy()[-1] for run in runs.values()]
    np.testing.assert_allclose(mixture["invented_information"], alone, rtol=1e-6)
    assert mixture.attrs["invented_information"] < 0.5 * np.mean(alone)
    assert (
        "24 replicates" in replicated.attrs["verdict"] and "nats from the supervised posterior" in replicated.attrs["verdict"]
    )


def test_replicates_have_streams_of_their_own_and_the_same_seed_gives_the_same(small, replicated):
    labels = [run["history"]["pseudo_label"].to_numpy().tolist() for run in replicated["replicates"].children.values()]
    assert len({tuple(each) for each in labels}) > 5
    again = small.self_train("probability", labels="sampled", rounds=4, replicates=3, random_seed=4, **QUIET)
    for number in ("1", "2", "3"):
        xr.testing.assert_identical(
            again[f"replicates/{number}/history"].to_dataset(), replicated[f"replicates/{number}/history"].to_dataset()
        )


@pytest.mark.slow
def test_replicates_go_on_from_a_file(small, replicated, tmp_path):
    part = small.self_train("probability", labels="sampled", rounds=2, replicates=12, random_seed=4, **QUIET)
    bpls.save(part, tmp_path / "part.nc")
    with xr.open_datatree(tmp_path / "part.nc", engine="h5netcdf") as tree:
        longer = small.resume(tree.load(), rounds=2, **QUIET)
    for number in range(1, 13):
        for group in ("history", "curve", "final", "labeled"):
            path = f"replicates/{number}/{group}"
            xr.testing.assert_allclose(longer[path].to_dataset(), replicated[path].to_dataset(), rtol=1e-9)
    one = longer["replicates/11"]
    assert (small.labels(one)["origin"] == "pseudo-labeled").sum() == 4
    each = [small.predict_proba(result=longer[f"replicates/{number}"], by="gaussian") for number in range(1, 13)]
    np.testing.assert_allclose(small.predict_proba(result=longer, by="gaussian"), sum(each) / 12, rtol=1e-12)
    with pytest.raises(bpls.CriterionError, match=r"holds replicates, each with its own pseudo-labels. Give one of them"):
        small.labels(longer)


def test_ctrl_c_ends_all_replicates_and_they_go_on(small):
    class Impatient:
        left = 4

        def __call__(self, history):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt

    part = small.self_train("probability", labels="sampled", rounds=2, replicates=3, stop=Impatient(), random_seed=1, **QUIET)
    runs = part["replicates"].children
    assert [run.attrs["stop_kind"] for run in runs.values()] == ["rounds", "interrupted", "interrupted"]
    assert [run["history"].sizes["step"] for run in runs.values()] == [2, 1, 0]
    longer = small.resume(part, rounds=2, **QUIET)
    assert [run["history"].sizes["step"] for run in longer["replicates"].children.values()] == [4, 3, 2]


def test_what_draws_no_labels_has_no_replicates(small):
    with pytest.raises(bpls.CriterionError, match='labels="predicted" draws none'):
        small.self_train(replicates=3, **QUIET)
    with pytest.raises(bpls.CriterionError, match="draws one label after the other"):
        small.self_train(labels="sampled", batch_size=2, **QUIET)
    with pytest.raises(bpls.CriterionError, match="replicates=0 is no number of runs"):
        small.self_train(labels="sampled", replicates=0, **QUIET)


@pytest.mark.slow
def test_a_set_draws_labels_too(table):
    X, y, _ = table
    robust = bpls.ModelSet(bpls.prior_set(reference.logistic(X, y), "b", scale=[0.5, 1.0]), predictor="b: scale × 0.5")
    how = {"labels": "sampled", "approximation": "laplace", "rounds": 2, "replicates": 3}
    runs = robust.self_train(**how, random_seed=0, **QUIET)
    member = robust.members["b: scale × 0.5"].fit()
    np.testing.assert_allclose(runs["mixture"]["supervised_mean"], member.unconstrained, atol=1e-7)


# what runs invent


def test_the_divergence_of_gaussians_is_that_of_their_densities():
    rng = np.random.default_rng(0)
    (A, B), (m, n) = rng.normal(size=(2, 3, 5)), rng.normal(size=(2, 3))
    P, Q = A @ A.T, B @ B.T
    draws = rng.multivariate_normal(m, np.linalg.inv(P), 200_000)
    ratios = multivariate_normal(m, np.linalg.inv(P)).logpdf(draws) - multivariate_normal(n, np.linalg.inv(Q)).logpdf(draws)
    error = ratios.std() / np.sqrt(len(ratios))
    assert kullback_leibler((m, P), (n, Q)) == pytest.approx(ratios.mean(), abs=4 * error)
    assert kullback_leibler((m, P), (m, P)) == pytest.approx(0, abs=1e-12)


def test_a_run_says_what_it_invented(small, table):
    X, _, _ = table
    run = small.self_train("ppp", rounds=5, **QUIET)
    invented = run["curve"]["invented_information"].to_numpy()
    D = run["labeled"].to_dataset()

    def precision(n, mode):
        p = expit(X[D["row"][:n]] @ mode)
        return (X[D["row"][:n]].T * (p * (1 - p))) @ X[D["row"][:n]] + np.eye(2) / 2.5**2

    start, end = small.fit().unconstrained.to_numpy(), run["unconstrained"]["mode"].to_numpy()
    expected = kullback_leibler((end, precision(17, end)), (start, precision(12, start)))
    assert invented[0] == 0 and invented[-1] == pytest.approx(expected, rel=1e-6) and (np.diff(invented) > 0).all()
    assert f"{expected:.2g} nats (Kullback-Leibler divergence from that of the labels alone)" in run.attrs["verdict"]
    part = small.self_train("ppp", rounds=2, **QUIET)
    np.testing.assert_allclose(small.resume(part, rounds=3, **QUIET)["curve"]["invented_information"], invented, rtol=1e-9)
