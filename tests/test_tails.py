"""References whose draws do not reach where a class lives, or whose proposals are too narrow, against quadrature."""

import numpy as np
import pymc as pm
import pytest
import reference
import xarray as xr
from arviz_stats.base import array_stats
from scipy.special import logsumexp
from scipy.stats import norm, t

import pymc_bpls as bpls
from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.montecarlo import references, tails
from pymc_bpls.montecarlo.constants import log_normaliser
from pymc_bpls.montecarlo.nuts import Draws
from pymc_bpls.montecarlo.pareto import tail_ks, tail_size
from pymc_bpls.montecarlo.references import importance_samples, proposals

FAR = np.array([0.1, 1, -2, 50, -200, 800, 3e4])
x = np.r_[0.6, 1, 1.5, -0.5, -0.9, -1.4, FAR]
y = np.r_[1, 1, 1, 0, 0, 0, np.full(len(FAR), -1)]
GRID = 1e-6 * np.sinh(np.linspace(-22, 22, 400_001))
NUTS = {"draws": 1000, "tune": 100, "chains": 2, "cores": 1, "progressbar": False}


def declared(prior):
    with pm.Model() as model:
        b = pm.Normal("b", 0, 2.5) if prior == "normal" else pm.Cauchy("b", 0, 2.5)
        pm.Bernoulli("y", logit_p=b * x, observed=y)
    return bpls.BPLS(model)


def log_posterior(prior, k):
    """log p_k at the grid with the grid's own spacing, not normalised."""
    log_prior = norm.logpdf(GRID, 0, 2.5) if prior == "normal" else t.logpdf(GRID, 1, 0, 2.5)
    labeled = -np.logaddexp(0, -GRID[:, None] * (x * (2 * y - 1))[:6]).sum(axis=1)
    return k * labeled + log_prior + 0.5 * np.log(1e-12 + GRID**2)


def truth(prior):
    """log E_{p_2}[p(y | x)] of both classes, and log Z_2 − log Z_1."""
    weights = log_posterior(prior, 2)
    classes = [[logsumexp(weights - np.logaddexp(0, -s * far * GRID)) for s in (-1, 1)] for far in FAR]
    return np.array(classes) - logsumexp(weights), logsumexp(weights) - logsumexp(log_posterior(prior, 1))


@pytest.fixture
def drawn(monkeypatch):
    """NUTS as it would be if it drew independently: draws of p_k by the grid."""

    def sample(problem, labeled, k, random_seed, **options):
        cdf = np.exp(log_posterior("normal", k) - logsumexp(log_posterior("normal", k))).cumsum()
        shape = options["chains"], options["draws"]
        places = np.searchsorted(cdf / cdf[-1], np.random.default_rng(random_seed).uniform(size=shape))
        return Draws(problem.density.parameters.counted(GRID[places][..., None]), named(shape), [])

    def named(shape):
        return xr.Dataset({"diverging": (("chain", "draw"), np.zeros(shape, dtype=bool))})

    monkeypatch.setattr(references, "sample_without_divergences", sample)


@pytest.fixture(scope="module")
def far():
    return declared("normal")


def z_scores(run, prior):
    averages, constant = truth(prior)
    found = run["exact"]
    return (
        (found["log_predictive"] - averages) / found["log_predictive_mcse"],
        (found["log_ppp"] - averages - constant) / found["mcse"],
        (run.attrs["log_normalizer"] - constant) / run.attrs["log_normalizer_error"],
    )


def test_a_class_in_the_tail_of_the_posterior_has_its_value_by_nuts(far, drawn):
    run = far.exact(labels="all", random_seed=0, **NUTS)
    assert truth("normal")[0][5, 0] == pytest.approx(-9.731, abs=1e-3)
    assert run["exact"]["log_predictive"][5, 0].item() == pytest.approx(-9.731, abs=0.1)
    assert run.attrs["reliable"] == 1 and run["exact"]["pareto_k"].max() < 0.7
    assert max(np.abs(z).max() for z in z_scores(run, "normal")) < 4


def test_a_combination_that_rests_on_such_a_class_has_its_value(far, drawn):
    for rule in ("expected", bpls.Hurwicz(0.0)):
        run = far.exact(labels=rule, random_seed=0, **NUTS)
        averages, constant = truth("normal")
        if rule == "expected":
            p = far.predict_proba(np.arange(6, 13)).to_numpy()
            expected = np.log((p * np.exp(averages)).sum(axis=1)) + constant
        else:
            expected = averages.min(axis=1) + constant
        assert (np.abs(run["exact"]["log_ppp"] - expected) < 4 * run["exact"]["mcse"]).all()
        assert run.attrs["reliable"] == 1


def test_the_evidence_with_such_a_class_has_its_value(far, drawn):
    """log p(D ∪ i), whose constant log Z_1 is bridged with the draws that are averaged over."""
    spacing = np.log(np.gradient(np.linspace(-22, 22, len(GRID)))[0])
    log_z = logsumexp(log_posterior("normal", 1)) + spacing
    classes = [
        [logsumexp(log_posterior("normal", 1) - np.logaddexp(0, -s * each * GRID)) + spacing for s in (-1, 1)] for each in FAR
    ]
    for method in ("nuts", "psis"):
        run = far.exact("marginal_likelihood", labels="all", method=method, random_seed=0, **NUTS)
        assert run.attrs["reliable"] == 1
        assert abs(run.attrs["log_normalizer"] - log_z) < 4 * run.attrs["log_normalizer_error"] < 0.2
        assert (np.abs(run["exact"]["log_evidence"] - classes) < 4 * run["exact"]["mcse"]).all()


def assert_errors_are_those_of_laplace(audit, far, some):
    """The errors that an audit finds are those beside quadrature, of `some` of the pairs."""
    averages, constant = truth("normal")
    off = (far.score(approximation="laplace", labels="all")["log_ppp"] - averages - constant).to_numpy()
    found = audit.candidates.sel(criterion="ppp")
    wrong = np.abs(found["error"].to_numpy() - off) > 4 * found["error_mcse"].to_numpy()
    assert not wrong[some].any()
    assert float(audit.agreement["max_error"][0]) == pytest.approx(np.abs(off[some]).max(), abs=0.2)


def test_an_audit_measures_laplace_against_a_reference_that_is_right(far, drawn):
    audit = far.audit(["ppp"], labels="all", random_seed=0, **NUTS)
    assert audit.reliable
    assert_errors_are_those_of_laplace(audit, far, np.full((7, 2), True))


def test_an_audit_does_not_hold_a_wrong_reference_against_a_criterion(far, drawn, monkeypatch):
    monkeypatch.setattr(tails, "_MOST", 0)
    with pytest.warns(bpls.BPLSWarning, match="k-hat is up to"):
        run = far.exact(labels="all", random_seed=0, **NUTS)
    assert run.attrs["reliable"] == 0
    assert run["exact"]["log_predictive"][5, 0] < -30
    audit = far.audit(["ppp"], exact=run)
    assert not audit.reliable and "k-hat" in audit.verdict
    reached = run["exact"]["pareto_k"].to_numpy() <= 0.7
    assert 0 < reached.sum() < 14 and int(audit.agreement["n_compared"][0]) == reached.sum()
    assert_errors_are_those_of_laplace(audit, far, reached)


def test_importance_sampling_is_right_there(far):
    run = far.exact(method="psis", labels="all", random_seed=0, draws=1000, progressbar=False)
    assert run.attrs["reliable"] == 1
    assert max(np.abs(z).max() for z in z_scores(run, "normal")) < 4


@pytest.mark.slow
def test_tails_that_are_heavier_than_any_proposal_are_named():
    """Separated rows under a Cauchy prior: p_k falls as 1/b², and few draws see nothing of it (six errors off, k-hat 0.4)."""
    with pytest.warns(bpls.BPLSWarning, match=r"tails of the posterior along b are heavier"):
        run = declared("cauchy").exact(method="psis", labels="all", draws=100, random_seed=2, progressbar=False)
    assert run.attrs["reliable"] == 0


@pytest.mark.slow
def test_constants_are_right_where_proposals_are_too_narrow(sim1, sim1_informed):
    """A proposal with half the standard deviations hides the tails from k-hat; draws that were moved find them again."""
    engine, labeled = sim1_informed.engine, sim1_informed.labeled

    narrow = {}
    for k in (1, 2):
        q = next(iter(proposals(engine, labeled, k)))[1]
        narrow[k] = [("narrow", Gaussian(q.mean + 0.3 * np.sqrt(np.diag(q.covariance)), 0.25 * q.covariance))]
    z, moved = [], 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        second, first = importance_samples(engine, labeled, [2, 1], 1000, rng, lambda engine, labeled, k: narrow[k])
        ratio = second.over(first, engine, labeled)
        moved += second.moved
        assert ratio.error < 0.1
        z.append((ratio.value - reference.exact_normalizer(sim1)) / ratio.error)
    assert np.abs(z).max() < 4 and moved >= 3


def test_a_constant_by_bridges_is_that_of_importance_sampling(sim1_informed):
    engine, labeled = sim1_informed.engine, sim1_informed.labeled
    [sample] = importance_samples(engine, labeled, [1], 4000, np.random.default_rng(0), proposals)
    assert not sample.moved
    rng = np.random.default_rng(1)
    theta = sample.draws.theta[rng.choice(4000, 4000, p=np.exp(sample.draws.log_weights - logsumexp(sample.draws.log_weights)))]
    bridged = log_normaliser(engine, labeled, 1, theta[None], rng)
    assert abs(bridged.value - sample.log_z.value) < 4 * np.hypot(bridged.error, sample.log_z.error) < 0.2
    assert abs(bridged.influence.mean()) < 1e-12


def test_k_hats_are_those_of_arviz():
    rng = np.random.default_rng(0)
    log_terms = rng.normal(size=(5, 1000)) * np.array([0.2, 0.8, 1.5, 3, 6])[:, None]
    largest = -np.sort(-log_terms, axis=1)[:, : tail_size(1000) + 1]
    np.testing.assert_allclose(tail_ks(largest), [array_stats.psislw(-terms)[1] for terms in log_terms], atol=1e-3)
    assert tail_ks(np.zeros((1, 50))) == 0 and tail_ks(np.full((1, 50), -np.inf)) == 0
