"""Every kind of model in the zoo: its density against PyMC's, a score against SciPy's refit, a run; or its refusal.

Every kind's density and refusal is checked in the fast suite. What is costly is checked there for one kind of each form, and
for all others in the slow checks.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pymc as pm
import pytest
import scipy.optimize
import zoo
from pytensor.compile.mode import Mode

import pymc_bpls as bpls
from pymc_bpls.scoring.scorer import score_pool
from pymc_bpls.scoring.settings import find_settings

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning"),
    # what is warned of has tests of its own below
    pytest.mark.filterwarnings("ignore:.*modes of the posterior were found:pymc_bpls.BPLSWarning"),
    pytest.mark.filterwarnings("ignore:.*is a Beta-Binomial of one trial:pymc_bpls.BPLSWarning"),
    pytest.mark.filterwarnings("ignore:The exact reference is not reliable:pymc_bpls.BPLSWarning"),
]

PYTHON = Mode(linker="py", optimizer="fast_compile")
CANDIDATE = int(zoo.CANDIDATES[4])


def kinds(names, fast=()):
    """Parameters of a test: those of `names` that are not `fast` are slow checks."""
    return [pytest.param(name, marks=[] if name in fast else pytest.mark.slow) for name in names]


EVERY_KIND = kinds(zoo.ACCEPTED, fast=zoo.ACCEPTED)
# linear, several classes, a hierarchy, ordered classes, not affine, not sliced, of local modes, generative, the user's own
REFITTED = kinds(
    zoo.ACCEPTED,
    fast=(
        "logistic",
        "softmax_of_logit_p",
        "hierarchical_non_centered",
        "ordered_logistic",
        "contamination",
        "autoregression_of_fixed_scale",
        "tanh_network",
        "class_conditional_gaussian",
        "custom_distribution",
    ),
)
STRUCTURED = kinds(("discrete_time_survival", "item_response", "contamination", "tanh_network"), fast=("item_response",))
WITHOUT_REFITS = kinds(
    (
        "cloglog",
        "softmax_of_logit_p",
        "hierarchical_non_centered",
        "item_response",
        "horseshoe",
        "ordered_logistic",
        "contamination",
        "hilbert_space_gp",
        "class_conditional_gaussian",
        "custom_distribution",
    ),
    fast=("cloglog", "softmax_of_logit_p", "hierarchical_non_centered"),
)
POOLED = kinds(zoo.POOLED, fast=("held_logistic", "held_softmax", "held_groups"))


@cache
def _declare(name):
    kind = zoo.ACCEPTED[name]
    return kind, bpls.BPLS(kind.table(), **kind.options)


@pytest.fixture(scope="module")
def declared(request):
    """A model of the zoo, and BPLS on its table, compiled once for the tests that use it."""
    return _declare(request.param)


def compiled(model):
    """PyMC's log-posterior with Jacobian, and its gradient, as functions of the unconstrained vector."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTensor's about BLAS
        point = model.initial_point()
        variables = [(v, np.shape(point[v.name])) for v in model.value_vars]
        function = model.compile_fn(
            [model.logp(), model.dlogp()],
            inputs=[v for v, _ in variables],
            mode=PYTHON,
            point_fn=False,
            on_unused_input="ignore",
        )
    stops = np.cumsum([int(np.prod(shape, dtype=int)) for _, shape in variables])

    def value_and_gradient(theta):
        parts = np.split(np.asarray(theta), stops[:-1])
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            value, gradient = function(*(p.reshape(shape) for p, (_, shape) in zip(parts, variables, strict=True)))
        return float(value), np.asarray(gradient)

    start = np.concatenate([np.ravel(point[v.name]) for v, _ in variables])
    return value_and_gradient, start


def hessian_by_differences(value_and_gradient, theta):
    """−∇² by central differences of the gradient, extrapolated once (error h⁴)."""
    columns = []
    for k in range(len(theta)):
        step = np.zeros(len(theta))
        step[k] = 1e-3 * (1 + abs(theta[k]))
        one, two = (value_and_gradient(theta + size * step)[1] - value_and_gradient(theta - size * step)[1] for size in (1, 2))
        columns.append((8 * one - two) / (12 * step[k]))
    hessian = -np.array(columns)
    return (hessian + hessian.T) / 2


def maximum(value_and_gradient, start):
    """SciPy's maximum, polished by steps with the inverse Hessian near it, and −∇² there."""

    def negative(theta):
        value, gradient = value_and_gradient(theta)
        return (-value, -gradient) if np.isfinite(value) else (np.inf, np.zeros_like(theta))

    theta = scipy.optimize.minimize(negative, start, jac=True, method="BFGS", options={"gtol": 1e-4}).x
    hessian = hessian_by_differences(value_and_gradient, theta)
    for _ in range(8):
        step = np.linalg.solve(hessian, value_and_gradient(theta)[1])
        theta = theta + step
        if np.abs(step).max() < 1e-8:
            break
    return theta, hessian_by_differences(value_and_gradient, theta)


def density_at(pls, theta):
    """Log-posterior, gradient and curvature by the derivatives that fits take."""
    return pls.engine.derivatives(pls.labeled)(theta)


@pytest.mark.parametrize("declared", EVERY_KIND, indirect=True)
def test_density_gradient_and_hessian_are_those_of_pymc(declared):
    kind, pls = declared
    value_and_gradient, start = compiled(kind.declare(zoo.LABELED, kind.labels[zoo.LABELED]))
    theta = start + 0.3 * np.random.default_rng(1).normal(size=len(start))
    value, gradient, curvature = density_at(pls, theta)
    expected, expected_gradient = value_and_gradient(theta)
    np.testing.assert_allclose(value, expected, rtol=1e-8)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(curvature, hessian_by_differences(value_and_gradient, theta), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("declared", REFITTED, indirect=True)
def test_ppp_of_each_class_is_that_of_a_refit_by_scipy(declared):
    kind, pls = declared
    # at one mode, as SciPy's refit is: the network has three
    by_refits = {"approximation": "laplace", "other_modes": False}
    scores = pls.score("ppp", labels="all", candidate="joint", **by_refits).sel(candidate=CANDIDATE)
    rows = np.r_[zoo.LABELED, zoo.LABELED, CANDIDATE]
    label = int(scores["pseudo_label"]) if kind.local else 1
    value_and_gradient, start = compiled(kind.declare(rows, np.r_[np.tile(kind.labels[zoo.LABELED], 2), label]))
    theta, hessian = maximum(value_and_gradient, pls.fit().unconstrained.to_numpy() if kind.local else start)
    expected = value_and_gradient(theta)[0] - 0.5 * np.linalg.slogdet(hessian)[1]
    assert np.linalg.eigvalsh(hessian)[0] > 0
    np.testing.assert_allclose(float(scores["score"].sel(label=label)), expected, atol=1e-5)


@pytest.mark.parametrize("declared", STRUCTURED, indirect=True)
def test_structured_refits_are_those_of_the_general_path(declared):
    """Of kinds that tests/test_refit.py does not have."""
    _, pls = declared
    assert pls.engine.affine_rows is not None
    scorer = pls.scorer
    general = replace(scorer, engines=scorer.engines.change(lambda engine: replace(engine, affine=False)))
    labeled, rows = pls.labeled, zoo.CANDIDATES[:3]
    results = (score_pool(each, find_settings("ppp"), each.fit(labeled), rows)[0] for each in (scorer, general))
    one, other = (result["score"] for result in results)
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-8)


@pytest.mark.parametrize("declared", WITHOUT_REFITS, indirect=True)
def test_approximations_without_refits_are_near_the_exact_values(declared):
    """Within 5% of the range and four Monte Carlo errors of importance sampling that k-hat trusts."""
    kind, pls = declared
    tree = pls.exact(method="psis", draws=2000, random_seed=0, absolute=False)
    exact, error = tree["exact"]["log_predictive"].to_numpy(), float(tree["exact"]["mcse"].max())
    if not kind.local:
        assert tree.attrs["reliable"] == 1
    labeled = pls.labeled
    takes_ep = pls.engine.separable_prior is not None and pls.scorer.problem.density.structure.affine_map.size == 1
    for approximation in ("ep", "vi") if takes_ep else ("vi",):
        settings = replace(find_settings("ppp", approximation), absolute=False)
        try:
            fit = pls.scorer.fit(labeled, centre_of=approximation)
            scores, _ = score_pool(pls.scorer, settings, fit, zoo.CANDIDATES)
        except bpls.ApproximationError as refusal:
            # PyMC 5.28 rounds 1 - exp(-exp(f)) to 1, so that the expected log-likelihood is minus infinity
            assert takes_ep and approximation == "vi" and 'Use approximation="ep"' in str(refusal)
            continue
        found = scores["score"]
        difference = (found - found.mean()) - (exact - exact.mean())
        assert np.abs(difference).max() <= 0.05 * np.ptp(exact) + 4 * error


def test_a_network_is_warned_of_as_local():
    kind = zoo.ACCEPTED["tanh_network"]
    with pytest.warns(
        bpls.BPLSWarning, match=r"modes of the posterior were found, and the one in use holds 3\d% of their mass"
    ):
        bpls.BPLS(kind.table(), **kind.options).fit()


def test_a_beta_binomial_of_one_trial_is_warned_of():
    kind = zoo.ACCEPTED["beta_binomial_of_one_trial"]
    with pytest.warns(bpls.BPLSWarning, match='"label" is a Beta-Binomial of one trial a row, which says nothing about its'):
        bpls.BPLS(kind.table(), **kind.options)


@pytest.mark.parametrize("name", POOLED)
def test_one_table_and_a_pool_have_the_same_scores(name):
    declare, labels = zoo.POOLED[name]
    known = np.where(np.arange(zoo.N) < zoo.N_LABELED, labels, -1)
    one = bpls.BPLS(declare(np.arange(zoo.N), known)).score(approximation="laplace")
    model = declare(zoo.LABELED, labels[zoo.LABELED])
    rows = {data: zoo.CONTAINERS[data][zoo.CANDIDATES] for data in zoo.CONTAINERS if data in model.named_vars}
    pooled = bpls.BPLS(model, pool=rows).score(approximation="laplace")
    np.testing.assert_allclose(one["score"], pooled["score"], rtol=0, atol=1e-10)
    np.testing.assert_array_equal(one["pseudo_label"], pooled["pseudo_label"])


@pytest.mark.parametrize("declared", kinds(zoo.ACCEPTED), indirect=True)
def test_two_rounds_of_self_training_add_two_rows(declared):
    kind, pls = declared
    known = zoo.CANDIDATES[:2]
    run = pls.self_train(rounds=2, test=(known, kind.labels[known]), progressbar=False, approximation="laplace")
    assert run.attrs["stop_reason"] == "2 rounds are done"
    assert run["history"].sizes["step"] == 2
    assert set(run["history"]["candidate"].to_numpy()) <= set(zoo.CANDIDATES[2:])
    assert np.isfinite(run["curve"]["log_score"]).all()


@pytest.mark.parametrize("name", zoo.REFUSED)
def test_a_refused_model_is_told_which_variable_and_the_way_out(name):
    declare, words = zoo.REFUSED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pm.exceptions.ImputationWarning)
        model = declare()
    with pytest.raises(bpls.BPLSError) as caught:
        bpls.BPLS(model).score(approximation="laplace")
    for word in words:
        caught.match(word)
