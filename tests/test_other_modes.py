"""The search for other modes: where there can be none, what it costs, and how it is switched off."""

import warnings

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from scipy import stats
from scipy.special import log_expit, logsumexp
from zoo import ACCEPTED

import pymc_bpls as bpls
from pymc_bpls.engine.concavity import nonconcave_parameters
from pymc_bpls.engine.engine import Engine
from pymc_bpls.montecarlo import other_modes
from pymc_bpls.montecarlo.other_modes import find_modes

rng = np.random.default_rng(0)
x = np.linspace(-2, 2, 30)
Y = np.where(np.arange(30) % 3 == 2, -1, (x + rng.logistic(size=30) > 0).astype(int))


def logistic(prior=lambda: pm.Normal("b", 0, 2, shape=2), potential=None):
    with pm.Model() as model:
        b = prior()
        pm.Bernoulli("label", logit_p=b[0] + b[1] * x, observed=Y)
        if potential is not None:
            pm.Potential("bent", potential(b))
    return bpls.BPLS(model)


def mirrored():
    """v tanh(wx), whose posterior is the same at (−v, −w): two modes of equal mass."""
    with pm.Model() as model:
        w, v = pm.Normal("w", 0, 2), pm.Normal("v", 0, 3)
        pm.Bernoulli("label", logit_p=v * pm.math.tanh(w * x), observed=np.where(Y < 0, -1, (x > 0.1).astype(int)))
    return bpls.BPLS(model, initvals={"w": 1.0, "v": 1.0})


def hierarchy():
    with pm.Model() as model:
        a, b, s = pm.Normal("a", 0, 2), pm.Normal("b", 0, 2), pm.HalfNormal("s", 1)
        z = pm.Normal("z", 0, 1, shape=6)
        pm.Bernoulli("label", logit_p=a + b * x + (s * z)[np.arange(30) % 6], observed=Y)
    return bpls.BPLS(model)


@pytest.mark.parametrize(
    ("model", "free"),
    [
        (logistic, []),
        (lambda: logistic(lambda: pm.Flat("b", shape=2)), []),
        (lambda: logistic(lambda: pm.Laplace("b", 0, 1, shape=2)), ["b[0]", "b[1]"]),
        (lambda: logistic(potential=lambda b: 0.2 * b[0] * b[1]), []),  # ¼ − .2 > 0, an eigenvalue of the prior's precision
        (lambda: logistic(potential=lambda b: 0.3 * b[0] * b[1]), ["b[0]", "b[1]"]),  # ¼ − .3 < 0
        (hierarchy, ["s_log__"]),
        (mirrored, ["w", "v"]),
    ],
)
def test_modes_are_looked_for_where_the_log_posterior_may_not_be_concave(model, free):
    pls = model()
    found = nonconcave_parameters(pls.engine, pls.labeled)
    assert [pls.engine.density.parameters.labels[i] for i in found] == free


@pytest.mark.slow
def test_a_link_that_is_not_log_concave_is_told_from_one_that_is():
    # log of a Student t's distribution function is not concave in its tail (Pregibon 1982), that of the normal's is
    free = {}
    for name in ("t_link", "probit"):
        pls = bpls.BPLS(ACCEPTED[name].table(), **ACCEPTED[name].options)
        free[name] = len(nonconcave_parameters(pls.engine, pls.labeled))
    assert free == {"t_link": 4, "probit": 0}


def test_where_the_log_posterior_is_concave_nothing_is_looked_for(monkeypatch):
    pls = logistic()
    monkeypatch.setattr(other_modes, "newton", None)
    assert pls.fit().other_modes == "none, the log-posterior is concave"
    assert "concave" in str(pls.fit())
    assert pls.score("probability").attrs["other_modes"] == "none, the log-posterior is concave"


@pytest.mark.slow
def test_two_modes_of_equal_mass_are_found_and_warned_of_once():
    pls = mirrored()
    with pytest.warns(bpls.BPLSWarning, match="2 modes of the posterior were found, and the one in use holds 50%"):
        fit = pls.fit()
    search = find_modes(pls.engine, pls.labeled, 1)
    np.testing.assert_allclose(search.modes[1].theta, -search.modes[0].theta, rtol=0, atol=1e-6)
    np.testing.assert_allclose(search.mass, 0.5, rtol=0, atol=1e-8)
    assert fit.other_modes == "1 found beside one with 50% of the mass, from 6 of 6 starts"
    assert pls.score().attrs["other_modes"] == fit.other_modes  # and no second warning, which would be an error here


def test_the_search_is_switched_off_and_results_say_so(tmp_path):
    pls = mirrored()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pls.fit(other_modes=False).other_modes == "not looked for"
        assert pls.score("probability", other_modes=False).attrs["other_modes"] == "not looked for"
        run = pls.self_train("probability", rounds=1, other_modes=False, progressbar=False)
        bpls.save(run, tmp_path / "run.nc")
    with xr.open_datatree(tmp_path / "run.nc") as tree:
        longer = pls.resume(tree.load(), rounds=1, progressbar=False)
    assert run.attrs["other_modes"] == longer.attrs["other_modes"] == "not looked for"
    with pytest.raises(bpls.CriterionError, match="other_modes='no' is neither True nor False"):
        pls.fit(other_modes="no")


def test_a_set_says_it_of_each_member():
    both = bpls.ModelSet({"one": logistic(), "many": hierarchy()}, bpls.SumRule())
    off = both.score(other_modes=False).attrs["other_modes"]
    assert off == "one: not looked for; many: not looked for"
    assert both.score().attrs["other_modes"] == (
        "one: none, the log-posterior is concave; many: none found, from 6 of 6 starts"
    )


def test_a_search_among_many_parameters_takes_no_more_evaluations_than_the_fit(monkeypatch):
    monkeypatch.setattr(other_modes, "_OPERATIONS", 0)
    pls, counts = hierarchy(), []
    derivatives = Engine.derivatives

    def counted(engine, labeled, **options):
        at, place = derivatives(engine, labeled, **options), len(counts)
        counts.append(0)

        def count(theta):
            counts[place] += 1
            return at(theta)

        return count

    monkeypatch.setattr(Engine, "derivatives", counted)
    said = pls.fit().other_modes
    fit, search = counts
    assert 1 < search <= fit + 1  # one of them looks whether the first mode is one
    assert said.startswith("none found, from ") and said.endswith(" of 6 starts") and "6 of 6" not in said


def test_a_climb_into_a_known_mode_ends_early(monkeypatch):
    pls = mirrored()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bpls.BPLSWarning)
        ended, newton = [], other_modes.newton
        monkeypatch.setattr(other_modes, "newton", lambda at, start: ended.append(newton(at, start)) or ended[-1])
        pls.fit()
    assert len(ended) == 1  # the other mode, the first time; five climbs end within reach of one of the two


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:k-hat of the constant")
def test_a_kinked_posterior_has_no_mode_to_compare_with():
    pls = logistic(lambda: pm.Laplace("b", 0, 0.05, shape=2))
    scores = pls.score(approximation="vi")
    assert scores.attrs["other_modes"] == "not looked for, there is no mode"


def test_a_prior_of_one_parameter_that_bends_upwards_is_seen():
    with pm.Model() as model:
        b = pm.Flat("b")
        pm.Bernoulli("label", logit_p=b * x, observed=Y)
        pm.Potential("up", 0.01 * pt.sqr(b))
    pls = bpls.BPLS(model)
    assert len(nonconcave_parameters(pls.engine, pls.labeled)) == 1


@pytest.mark.parametrize(("weights", "centres", "sds"), [([0.5, 0.5], [0, 9], [0.5, 0.5]), ([0.9, 0.1], [0, 40], [1, 2])])
def test_a_mode_that_is_far_away_is_no_part_of_a_reliable_constant(weights, centres, sds):
    """A prior of two parts, of which draws around the first mode see one, whatever k-hat says."""
    x, y = np.append(np.linspace(0.1, 0.6, 30)[:10], [0.2, 0.3]), np.r_[0, np.ones(9), -1, -1].astype(int)
    x[0] = -0.1
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 1), pm.NormalMixture("b", w=weights, mu=centres, sigma=sds)
        pm.Bernoulli("y", logit_p=a + b * x, observed=y)
    with pytest.warns(bpls.BPLSWarning, match="no draw is near"):
        run = bpls.BPLS(model).exact(method="psis", draws=250, random_seed=0, progressbar=False)
    b, a = (grid.ravel() for grid in np.meshgrid(np.linspace(-6, 60, 2001), np.linspace(-6, 6, 121)))
    log_prior = logsumexp(
        [np.log(w) + stats.norm(m, s).logpdf(b) for w, m, s in zip(weights, centres, sds, strict=True)], axis=0
    )
    log_prior = log_prior + stats.norm(0, 1).logpdf(a)
    log_lik = sum(log_expit((2 * y[i] - 1) * (a + b * x[i])) for i in range(10))
    exact = logsumexp(log_prior + 2 * log_lik) - logsumexp(log_prior + log_lik)
    assert abs(run.attrs["log_normalizer"] - exact) > 3 * run.attrs["log_normalizer_error"]
    assert run.attrs["reliable"] == 0


SLOPES = np.linspace(-20, 20, 80001)
FEW = np.array([-2.0, -1.0, -0.3, 0.5, 1.0, 1.6, 0.2, 3.0, -1.5, 10.0])
LABELS = np.array([0, 0, 1, 0, 1, 1, -1, -1, -1, -1])


def one_slope(declare):
    with pm.Model() as model:
        pm.Bernoulli("label", logit_p=declare() * FEW, observed=LABELS)
    return bpls.BPLS(model)


def two_slopes():
    """The fit finds the component that holds next to nothing of the posterior."""
    return pm.NormalMixture("b", w=[0.9, 0.1], mu=[-3.0, 3.0], sigma=[0.3, 0.3])


def by_quadrature(log_prior, slope=SLOPES):
    """Probabilities of class 1 of the candidates, and log PPP's log Z_2 − log Z_1."""
    log_lik = np.array([log_expit((2 * np.maximum(LABELS, 0) - 1)[i] * slope * FEW[i]) for i in range(6)]).sum(0)
    log_p = log_prior + log_lik
    p = np.exp(log_p - logsumexp(log_p))
    return np.array([p @ np.exp(log_expit(slope * x)) for x in FEW[6:]]), logsumexp(log_p + log_lik) - logsumexp(log_p)


LOG_TWO_SLOPES = np.logaddexp(np.log(0.9) + stats.norm.logpdf(SLOPES, -3, 0.3), np.log(0.1) + stats.norm.logpdf(SLOPES, 3, 0.3))
LOCAL = "the one in use holds 0% of their mass.*predictions are local to it"


@pytest.mark.parametrize(
    "predict",
    [
        pytest.param(lambda pls: pls.predict_proba([6, 7, 8, 9]).sel({"class": 1}).to_numpy(), id="predict_proba"),
        pytest.param(lambda pls: pls.predict_proba([6, 7, 8, 9], by="mode").sel({"class": 1}).to_numpy(), id="by the mode"),
        pytest.param(lambda pls: pls.labels().assign(p=lambda t: abs(1 - t["class"] - t["probability"])).p[6:], id="labels"),
        pytest.param(
            lambda pls: np.abs(1 - (found := pls.accept(0.5, progressbar=False)).pseudo_label - found.confidence), id="accept"
        ),
        pytest.param(
            lambda pls: np.abs(
                1 - (found := pls.accept(0.5, by="split", random_seed=1, progressbar=False)).pseudo_label - found.confidence
            ),
            id="accept by split",
        ),
    ],
)
def test_predictions_at_a_mode_without_mass_say_so_once(predict):
    """They are up to .99 off the probabilities by quadrature."""
    pls = one_slope(two_slopes)
    right, _ = by_quadrature(LOG_TWO_SLOPES)
    with pytest.warns(bpls.BPLSWarning, match=LOCAL) as seen:
        assert np.abs(predict(pls) - right).max() > 0.9
    assert len(seen) == 1
    predict(pls)  # a second warning would be an error here


@pytest.mark.parametrize("method", ["gaussian", pytest.param("nuts", marks=pytest.mark.slow)])
def test_a_sample_around_a_mode_without_mass_is_not_reliable(method):
    with pytest.warns(bpls.BPLSWarning, match="sample is not reliable: 2 modes were found, and no draw is near 1 of them"):
        sample = one_slope(two_slopes).sample(method=method, random_seed=0, progressbar=False)
    right, _ = by_quadrature(LOG_TWO_SLOPES)
    p = sample["predictions"].probability.sel({"class": 1}).to_numpy()[-4:]
    assert np.abs(p - right).max() > 0.9 and sample["posterior"].attrs["reliable"] == 0


def test_predictions_by_a_run_look_for_no_modes_that_its_own_search_would_have_found():
    pls = one_slope(two_slopes)
    run = pls.self_train("probability", rounds=1, other_modes=False, progressbar=False)
    pls.predict_proba(result=run)
    pls.labels(run)
    with pytest.warns(bpls.BPLSWarning, match=LOCAL):
        pls.predict_proba()


def test_predictions_of_a_concave_model_look_nowhere(monkeypatch):
    monkeypatch.setattr(other_modes, "newton", None)
    pls = logistic()
    pls.predict_proba()
    pls.labels()
    pls.accept(progressbar=False)
    assert pls.fit().other_modes == "none, the log-posterior is concave"


@pytest.mark.filterwarnings("ignore:.*modes of the posterior were found:pymc_bpls.BPLSWarning")
@pytest.mark.filterwarnings("ignore:Scores, their common level left out:pymc_bpls.BPLSWarning")
@pytest.mark.parametrize(
    ("approximation", "declare", "right", "off"),
    [
        ("vi", two_slopes, by_quadrature(LOG_TWO_SLOPES)[1], 10),
        (
            "ep",
            lambda: 4 * pt.sin(pm.Normal("b", 0, 3)),
            by_quadrature(stats.norm.logpdf(SLOPES, 0, 3), 4 * np.sin(SLOPES))[1],
            0.2,
        ),
    ],
)
def test_a_level_that_belongs_to_one_of_several_modes_has_no_error(approximation, declare, right, off):
    """By quadrature it is off by `off` nats or more, where the error or correction came out below a thousandth."""
    attrs = one_slope(declare).score("ppp", approximation=approximation, progressbar=False).attrs
    assert abs(attrs["log_normalizer"] - right) > off
    assert "log_normalizer_error" not in attrs and "log_normalizer_correction" not in attrs


@pytest.mark.parametrize(("approximation", "name"), [("vi", "log_normalizer_error"), ("ep", "log_normalizer_correction")])
def test_a_level_of_one_mode_keeps_its_error(approximation, name):
    attrs = one_slope(lambda: pm.Normal("b", 0, 1)).score("ppp", approximation=approximation, progressbar=False).attrs
    right = by_quadrature(stats.norm.logpdf(SLOPES, 0, 1))[1]
    assert abs(attrs["log_normalizer"] - right) < 0.05 and attrs[name] < 0.05


def test_a_declared_mixture_is_not_left_to_the_one_gaussian_of_ep():
    """EP's Gaussian would cover both modes, and its averages be off by nats; what is local to one mode says so."""
    x, y = np.linspace(-1, 1, 12), np.r_[0, 0, 1, 0, 1, 0, 1, 1, -1, -1, -1, -1]
    with pm.Model() as model:
        b = pm.NormalMixture("b", w=[0.5, 0.5], mu=[-1.5, 1.5], sigma=[0.5, 0.5])
        pm.Bernoulli("y", logit_p=b * x, observed=y)
    with pytest.warns(bpls.BPLSWarning, match="2 modes of the posterior were found"):
        scores = bpls.BPLS(model).score(progressbar=False)
    assert scores.attrs["approximation"] == "laplace" and "instead_of" not in scores.attrs
