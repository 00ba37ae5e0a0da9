"""The exact pseudo posterior predictive against quadrature and importance sampling that are not ours."""

import numpy as np
import pymc as pm
import pytest
import reference
import xarray as xr
from scipy.special import expit, logsumexp

import pymc_bpls as bpls
from pymc_bpls.montecarlo import nuts, references
from pymc_bpls.montecarlo.nuts import Draws, sample

# small runs are not reliable, and say so
pytestmark = pytest.mark.filterwarnings("ignore:The exact reference is not reliable:pymc_bpls.BPLSWarning")
QUADRATURE = ("sim1_q2", "banknote_q3")
SEEDS, FEWER_SEEDS = range(40), range(20)
NUTS = {"draws": 500, "tune": 500, "chains": 4, "cores": 1, "progressbar": False}


@pytest.fixture(scope="module", params=QUADRATURE)
def quadrature(request):
    """A split with exact values, and its model under Normal(0, 2.5)."""
    split = reference.read(request.param)
    return split, bpls.BPLS(reference.logistic(split.X, split.y), unlabeled=split.pool)


def at_file(run, split, name):
    """A variable of the run at the file's pseudo-labels."""
    return run["exact"][name].to_numpy()[np.arange(split.m), split.pseudo]


def compare(run, split):
    """z-scores of log PPP, and of the paired differences to the file's best candidate, at the file's pseudo-labels."""
    exact = split.candidates["grid_log_ppp"].to_numpy()
    error = at_file(run, split, "mcse")
    absolute = (at_file(run, split, "log_ppp") - exact) / error
    best = run["exact"]["log_predictive"].to_numpy()
    place = np.unravel_index(best.argmax(), best.shape)
    truth = exact - exact[place[0]]
    difference, spread = (at_file(run, split, name) for name in ("diff_to_best", "diff_to_best_mcse"))
    others = (np.arange(split.m) != place[0]) & (split.pseudo[place[0]] == place[1])
    return absolute, ((difference - truth) / np.where(others, spread, 1.0))[others]


def scatter(z):
    """Root mean square: a bias counts."""
    return float(np.sqrt(np.mean(np.square(z))))


def assert_honest(runs, split):
    """Estimates scatter around the truth as their errors say: differences, constants, both classes of each candidate."""
    assert all(run.attrs["reliable"] for run in runs)
    paired = np.concatenate([compare(run, split)[1] for run in runs])
    assert 0.7 < paired.std() < 1.4
    constant, exact = reference.exact_normalizer(split), split.candidates["grid_log_ppp"].to_numpy()
    other = np.log(-np.expm1(exact - constant)) + constant
    z = {"constant": [(run.attrs["log_normalizer"] - constant) / run.attrs["log_normalizer_error"] for run in runs]}
    for name, truth, codes in (("predicted", exact, split.pseudo), ("other", other, 1 - split.pseudo)):
        value, error = (np.stack([run["exact"][of].to_numpy() for run in runs]) for of in ("log_ppp", "mcse"))
        z[name] = ((value[:, np.arange(split.m), codes] - truth) / error[:, np.arange(split.m), codes]).ravel()
    assert all(0.6 < scatter(each) < 1.3 for each in z.values()), {name: scatter(each) for name, each in z.items()}


def test_importance_sampling_agrees_with_quadrature(quadrature):
    split, pls = quadrature
    run = pls.exact(method="psis", labels="all", random_seed=1)
    absolute, paired = compare(run, split)
    assert np.abs(absolute).max() < 4
    assert np.abs(paired).max() < 4
    assert run.attrs["reliable"] == 1
    assert run["exact"]["pareto_k"].max() < 0.7


@pytest.mark.slow
def test_errors_of_importance_sampling_are_honest(quadrature):
    split, pls = quadrature
    runs = [pls.exact(method="psis", labels="all", random_seed=seed) for seed in SEEDS]
    assert_honest(runs, split)


@pytest.mark.slow
def test_nuts_agrees_with_quadrature(quadrature):
    split, pls = quadrature
    run = pls.exact(labels="all", random_seed=1, **NUTS)
    absolute, paired = compare(run, split)
    assert np.abs(absolute).max() < 4
    assert np.abs(paired).max() < 4
    assert run.attrs["reliable"] == 1
    assert run["posterior"]["b"].dims[:2] == ("chain", "draw")
    assert (run["exact"]["prob_best"].sum() == pytest.approx(1)) and (run["exact"]["ess"] > 400).all()


@pytest.mark.slow
@pytest.mark.parametrize("quadrature", QUADRATURE[1:], indirect=True)
def test_errors_of_nuts_are_honest(quadrature, monkeypatch):
    """Each run takes 500 draws of four long chains, which are compiled and tuned once."""
    split, pls = quadrature
    problem, size = pls.scorer.problem, NUTS["draws"]
    options = {**NUTS, "draws": size * len(FEWER_SEEDS)}
    long = {k: sample(problem, problem.labeled, k, random_seed=k, **options) for k in (1, 2)}
    runs = []
    for seed in FEWER_SEEDS:
        some = slice(size * seed, size * (seed + 1))
        parts = {k: Draws(whole.theta[:, some], whole.sample_stats.isel(draw=some), []) for k, whole in long.items()}
        monkeypatch.setattr(
            references, "sample_without_divergences", lambda problem, labeled, k, parts=parts, **options: parts[k]
        )
        runs.append(pls.exact(labels="all", random_seed=seed, **NUTS))
    assert_honest(runs, split)


def test_the_larger_split_agrees_with_its_stored_importance_sampling():
    split = reference.read("sim4")
    pls = bpls.BPLS(reference.logistic(split.X, split.y), unlabeled=split.pool)
    run = pls.exact(method="psis", labels="all", random_seed=1)
    stored, error = (split.candidates[name].to_numpy() for name in ("is_log_ppp", "is_log_ppp_se"))
    spread = np.hypot(at_file(run, split, "mcse"), error)
    assert (np.abs(at_file(run, split, "log_ppp") - stored) < 4 * spread).all()
    best = int(split.candidates["is_diff_to_best"].argmax())
    ours = at_file(run, split, "log_predictive") - at_file(run, split, "log_predictive")[best]
    paired, error = (split.candidates[name].to_numpy() for name in ("is_diff_to_best", "is_diff_to_best_se"))
    spread = np.hypot(at_file(run, split, "diff_to_best_mcse"), error) + 1e-12
    assert (np.abs(ours - paired) < 4 * spread).all()


def test_classes_sum_to_the_same_for_every_candidate(quadrature):
    _, pls = quadrature
    run = pls.exact(method="psis", labels="all", random_seed=2)
    total = logsumexp(run["exact"]["log_ppp"].to_numpy(), axis=1)
    np.testing.assert_allclose(total, run.attrs["log_normalizer"], atol=1e-10)


def test_marginal_likelihood_is_that_of_quadrature():
    """p successes with a logit-normal prior, q = 1: Theorem 1 by the trapezoidal rule."""
    y = np.array([1, 1, 0, 1, 0, 1, -1])
    with pm.Model() as model:
        a = pm.Normal("a", 0, 1.5)
        pm.Bernoulli("label", logit_p=a * np.ones(7), observed=y)
    grid = np.linspace(-15, 15, 20001)
    log_prior = -0.5 * (grid / 1.5) ** 2 - np.log(1.5) - 0.5 * np.log(2 * np.pi)
    log_joint = 4 * np.log(expit(grid)) + 2 * np.log(expit(-grid)) + log_prior
    truth = [logsumexp(log_joint + np.log(expit(sign * grid))) + np.log(grid[1] - grid[0]) for sign in (-1, 1)]
    run = bpls.BPLS(model).exact("marginal_likelihood", method="psis", labels="all", random_seed=3)
    error = run["exact"]["mcse"].to_numpy()[0]
    assert (np.abs(run["exact"]["log_evidence"].to_numpy()[0] - truth) < 4 * error + 1e-12).all()


def test_the_same_seed_gives_the_same_numbers_for_any_number_of_cores(sim1_informed):
    options = {**NUTS, "draws": 100, "tune": 100, "absolute": False}
    one, two = (sim1_informed.exact(random_seed=7, **{**options, "cores": cores}) for cores in (1, 2))
    np.testing.assert_array_equal(one["exact"]["log_predictive"], two["exact"]["log_predictive"])


def test_an_unreliable_run_says_why(sim1_informed):
    with pytest.warns(bpls.BPLSWarning, match="not reliable"):
        run = sim1_informed.exact(random_seed=1, **{**NUTS, "draws": 20, "tune": 5, "absolute": False})
    assert run.attrs["reliable"] == 0
    assert any("ESS" in reason or "diverged" in reason for reason in run.attrs["reasons"])


@pytest.mark.parametrize(
    ("options", "diverges", "tried"),
    [
        ({}, [3, 0], [None, 0.95]),
        ({}, [0], [None]),
        ({"target_accept": 0.9}, [1], [0.9]),
        ({"nuts": {"target_accept": 0.9}}, [1], [None]),
    ],
)
def test_draws_that_diverged_are_drawn_again_by_smaller_steps(options, diverges, tried, monkeypatch):
    found, left = [], iter(diverges)

    def sample(problem, labeled, k, **options):
        found.append(options.get("target_accept"))
        stats = xr.Dataset({"diverging": (("chain", "draw"), np.arange(100).reshape(2, 50) < next(left))})
        return Draws(np.zeros((2, 50, 1)), stats, [])

    monkeypatch.setattr(nuts, "sample", sample)
    run = nuts.sample_without_divergences(None, None, 2, random_seed=1, **options)
    assert found == tried
    assert nuts.divergences(run.sample_stats) == diverges[-1]


def test_named_draws_have_the_model_s_dims():
    X = np.random.default_rng(0).normal(size=(30, 2))
    y = np.where(np.arange(30) < 20, X[:, 0] > 0, -1)
    with pm.Model(coords={"feature": ["a", "b"]}) as model:
        scale = pm.HalfNormal("scale", 1)
        beta = pm.Normal("beta", 0, 1, dims="feature")
        pm.Bernoulli("label", logit_p=X @ (scale * beta), observed=y)
    run = bpls.BPLS(model).exact(random_seed=1, absolute=False, **{**NUTS, "draws": 50, "tune": 100})
    assert run["posterior"]["beta"].dims == ("chain", "draw", "feature")
    assert run["posterior"]["feature"].to_numpy().tolist() == ["a", "b"]
    assert (run["posterior"]["scale"] > 0).all()


def test_sampling_inside_the_user_s_model_leaves_it_as_it_is():
    X = np.random.default_rng(0).normal(size=(30, 2))
    y = np.where(np.arange(30) < 20, X[:, 0] > 0, -1)
    with reference.logistic(X, y) as model:
        bpls.BPLS().exact(random_seed=1, absolute=False, **{**NUTS, "draws": 50, "tune": 50})
    assert [rv.name for rv in model.free_RVs] == ["b"]
    assert not model.potentials


def test_unknown_criteria_and_methods_are_refused(sim1_informed):
    with pytest.raises(bpls.CriterionError, match=r'criterion="variance" has no exact value'):
        sim1_informed.exact("variance")
    with pytest.raises(bpls.CriterionError, match=r'method="grid" is unknown'):
        sim1_informed.exact(method="grid")
