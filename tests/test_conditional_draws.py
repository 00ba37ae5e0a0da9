"""Draws of groups' effects from their own conditional densities, against quadrature by SciPy and from scratch."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pymc as pm
import pytest
import zoo
from scipy.integrate import quad
from scipy.special import expit, logsumexp
from scipy.stats import halfnorm, norm
from test_sparse import many_groups

import pymc_bpls as bpls
from pymc_bpls.montecarlo.collapsed import Collapsed, independent, spread_evenly
from pymc_bpls.montecarlo.conditionals import Curves
from pymc_bpls.montecarlo.constants import log_normaliser
from pymc_bpls.montecarlo.psis import log_densities
from pymc_bpls.montecarlo.references import importance_samples, proposals

#: Rows of one group: what the effect is scaled by, predictors without it, and weights, negative where the label is 0.
GROUPS = {
    "one row": (1.0, [0.3], [1.0]),
    "two alike, counted twice": (3.0, [0.0, 0.0], [2.0, 2.0]),
    "at odds": (6.0, [-3.0, 1.0, 0.0], [2.0, -2.0, 2.0]),
    "against the fixed part": (5.0, [-10.0], [2.0]),
    "a kink": (20.0, [0.0], [2.0]),
    "many, one of them at odds": (8.0, [3.0] * 6, [2.0, 2.0, 2.0, 2.0, 2.0, -2.0]),
}


@pytest.mark.parametrize("name", GROUPS)
def test_integrals_and_draws_of_one_number_are_those_of_quadrature(name):
    scale, fixed, weights = GROUPS[name]
    fixed, weights, signs = np.array(fixed), np.abs(weights), np.sign(weights)

    def log_density(u):
        eta = signs * (fixed + scale * np.asarray(u)[..., None])
        return -(weights * np.logaddexp(0, -eta)).sum(axis=-1) - 0.5 * np.asarray(u) ** 2

    def bends(u):
        p = expit(-signs * (fixed + scale * u[..., None]))
        gradient = (weights * signs * scale * p).sum(axis=-1) - u
        return gradient, (weights * scale**2 * p * (1 - p)).sum(axis=-1) + 1

    grid = np.linspace(-8, 8, 20_001)
    peak = grid[np.argmax(log_density(grid))]
    ends = peak + np.array([-12, -4, -1, -0.2, 0, 0.2, 1, 4, 12])

    def integral(of):
        def term(u):
            return np.exp(log_density(u) - log_density(peak)) * of(u)

        return sum(quad(term, *ab, epsabs=1e-13)[0] for ab in pairwise(ends))

    constant = integral(lambda u: 1.0)
    mean = integral(lambda u: u) / constant
    sd = np.sqrt(integral(lambda u: (u - mean) ** 2) / constant)
    skewness = integral(lambda u: ((u - mean) / sd) ** 3) / constant
    one = Curves.of(bends, log_density, np.zeros((1, 1)))
    np.testing.assert_allclose(one.log_integrals, log_density(peak) + np.log(constant), rtol=0, atol=2e-5)
    count = 20_001
    quantiles = Curves(*(np.repeat(part, count, axis=1) for part in (one.mode, one.sd, one.log_values))).draws(
        (np.arange(count)[None] + 0.5) / count
    )[0]
    assert abs(quantiles.mean() - mean) < 5e-4 * sd
    assert abs(quantiles.std() / sd - 1) < 1e-3
    assert abs((((quantiles - mean) / sd) ** 3).mean() - skewness) < 1e-2


def hierarchical_centered():
    rng = np.random.default_rng(5)
    group = rng.integers(12, size=80)
    with pm.Model() as model:
        effect = pm.Normal("effect", pm.Normal("mean", 0, 1), pm.HalfNormal("scale", 1), shape=12)
        pm.Bernoulli("label", logit_p=effect[group], observed=np.where(np.arange(80) < 60, rng.integers(2, size=80), -1))
    return bpls.BPLS(model)


def of_zoo(name):
    kind = zoo.ACCEPTED[name]
    return bpls.BPLS(kind.table(), **kind.options)


SLOW = ("multilevel_regression_and_poststratification", "item_response")


@pytest.mark.parametrize(
    "name",
    ["hierarchical_centered", "hierarchical_non_centered", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)],
)
def test_what_is_left_of_the_density_is_its_integral_over_the_others_one_by_one(name):
    pls = hierarchical_centered() if name == "hierarchical_centered" else of_zoo(name)
    engine = replace(pls.engine, sparse=True)
    for k in (1, 2):
        collapsed = Collapsed.of(engine, pls.labeled, k)
        assert len(collapsed.effects) > 1
        rng, start = np.random.default_rng(0), engine.density.start
        points = start[collapsed.core] + 0.5 * rng.normal(size=(3, len(collapsed.core)))
        for point, found in zip(points, collapsed.log_density(points), strict=True):
            theta = start.copy()
            theta[collapsed.core] = point
            at_start = log_densities(engine, pls.labeled, theta[None], k)[0]
            expected, moves = at_start, np.linspace(-14, 14, 2801)
            for effect in collapsed.effects:
                line = np.repeat(theta[None], len(moves), axis=0)
                line[:, effect] += moves
                values = log_densities(engine, pls.labeled, line, k) - at_start
                assert max(values[0], values[-1]) < values.max() - 15
                expected += logsumexp(values) + np.log(moves[1] - moves[0])
            assert found == pytest.approx(expected, abs=1e-5)


N_GROUPS, SEEN, LABELED = 230, 30, 150


@pytest.fixture(scope="module")
def seen_groups():
    """Rows of 30 groups out of 230, and some candidates of a group that no labeled row is of."""
    rng = np.random.default_rng(4)
    group = rng.integers(SEEN, size=LABELED + 40)
    group[-5:] = SEEN + 3
    effect = rng.normal(size=N_GROUPS)
    label = (0.4 + effect[group] + rng.logistic(size=len(group)) > 0).astype(int)
    with pm.Model() as model:
        scale, z = pm.HalfNormal("scale", 1), pm.Normal("z", 0, 1, shape=N_GROUPS)
        eta = pm.Normal("a", 0, 2) + (scale * z)[group]
        pm.Bernoulli("label", logit_p=eta, observed=np.where(np.arange(len(group)) < LABELED, label, -1))
    return bpls.BPLS(model), group, label


def by_quadrature(group, label, k, candidates, classes):
    """log Z_k, and log E_{p_k}[p(y | x, θ)] of candidates, by sums over scale, intercept and each group's own effect."""
    log_scale, a = np.linspace(-7, 2.5, 191), np.linspace(-2, 3, 101)
    u = np.linspace(-8, 8, 161)
    eta = a[None, :, None] + np.exp(log_scale)[:, None, None] * u
    log_p, prior = {1: -np.logaddexp(0, -eta), 0: -np.logaddexp(0, eta)}, norm.logpdf(u) + np.log(u[1] - u[0])

    def of_group(number):
        labels = label[:LABELED][group[:LABELED] == number]
        return prior + k * ((labels == 1).sum() * log_p[1] + (labels == 0).sum() * log_p[0])

    groups = {number: of_group(number) for number in np.unique(group)}
    total = {number: logsumexp(values, axis=2) for number, values in groups.items()}
    cells = halfnorm.logpdf(np.exp(log_scale))[:, None] + log_scale[:, None] + norm(0, 2).logpdf(a)
    cells = cells + np.log((log_scale[1] - log_scale[0]) * (a[1] - a[0])) + sum(total.values())
    log_z = logsumexp(cells)
    means = [
        logsumexp(cells + logsumexp(groups[group[i]] + log_p[y], axis=2) - total[group[i]]) - log_z
        for i, y in zip(candidates, classes, strict=True)
    ]
    return log_z, np.array(means)


@pytest.mark.slow
def test_constants_and_ppp_of_a_hierarchy_are_those_of_quadrature(seen_groups):
    pls, group, label = seen_groups
    exact = pls.exact(method="psis", random_seed=0)
    assert "conditional" in exact.attrs["proposal"]
    assert exact.attrs["reliable"]
    values = exact["exact"]
    codes = values["pseudo_label"].to_numpy()
    first, _ = by_quadrature(group, label, 1, [], [])
    second, means = by_quadrature(group, label, 2, values["candidate"].to_numpy(), codes)
    assert abs(exact.attrs["log_normalizer"] - (second - first)) < 4 * exact.attrs["log_normalizer_error"]
    z = (values["log_predictive"].to_numpy() - means) / values["log_predictive_mcse"].to_numpy()
    assert np.abs(z).max() < 4
    assert values["log_predictive_mcse"].max() < 0.02
    np.testing.assert_allclose(values["log_ppp"], second - first + means, rtol=0, atol=4 * values["mcse"].max())


@pytest.mark.slow
def test_log_evidence_of_a_hierarchy_is_that_of_quadrature(seen_groups):
    pls, group, label = seen_groups
    rng = np.random.default_rng(0)
    samples = importance_samples(pls.engine, pls.labeled, [1, 2], 4000, rng, proposals)
    for k, sample in zip((1, 2), samples, strict=True):
        expected, _ = by_quadrature(group, label, k, [], [])
        assert sample.draws.pareto_k < 0.7
        assert not sample.moved
        assert abs(sample.log_z.value - expected) < 4 * sample.log_z.error < 0.1


def test_groups_without_labels_are_drawn_from_their_prior(seen_groups):
    pls, _, _ = seen_groups
    collapsed = Collapsed.of(pls.engine, pls.labeled, 2)
    rng = np.random.default_rng(0)
    points = np.repeat([[0.3, 0.2]], 4000, axis=0)
    theta = collapsed.theta(points, 1, rng)
    np.testing.assert_array_equal(theta[:, collapsed.core], points)
    z = theta[:, [pls.engine.density.parameters.labels.index(f"z[{number}]") for number in range(SEEN, N_GROUPS)]]
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=5 / np.sqrt(4000))
    np.testing.assert_allclose(z.std(axis=0), 1, atol=5 / np.sqrt(8000))


def test_draws_are_spread_evenly_within_batches():
    numbers = spread_evenly((50, 3), 20, np.random.default_rng(0))
    for first in (0, 20):
        parts = np.sort(np.floor(20 * numbers[first : first + 20]), axis=0)
        np.testing.assert_array_equal(parts, np.repeat(np.arange(20)[:, None], 3, axis=1))
    assert ((numbers > 0) & (numbers < 1)).all()
    assert len(np.unique(np.argsort(numbers[:20], axis=0)[:, 0] - np.argsort(numbers[:20], axis=0)[:, 1])) > 1


@pytest.mark.slow
def test_bridges_to_draws_by_any_method_are_of_the_core(seen_groups):
    """Draws of the core by their weights, as NUTS has them, give log Z_1 of quadrature."""
    pls, group, label = seen_groups
    rng = np.random.default_rng(1)
    [sample] = importance_samples(pls.engine, pls.labeled, [1], 8000, rng, proposals)
    shares = np.exp(sample.draws.log_weights - logsumexp(sample.draws.log_weights))
    theta = sample.draws.theta[rng.choice(len(shares), size=4000, p=shares)]
    found = log_normaliser(pls.engine, pls.labeled, 1, theta.reshape(4, 1000, -1), rng)
    expected, _ = by_quadrature(group, label, 1, [], [])
    assert abs(found.value - expected) < 5 * found.error < 0.2


def grouped(declare, wrong=0.0):
    """250 groups, one labeled row of each, with `declare(group, x)` their predictor; this share of labels is `wrong`."""
    rng = np.random.default_rng(0)
    group, x = np.arange(300) % 250, rng.normal(size=300)
    with pm.Model() as model:
        eta = declare(group, x)
        p = wrong + (1 - 2 * wrong) * pm.math.sigmoid(eta)
        pm.Bernoulli("label", p, observed=np.where(np.arange(300) < 250, rng.integers(2, size=300), -1))
    return bpls.BPLS(model)


def slopes(group, x):
    """An intercept and a slope of each group."""
    both = pm.HalfNormal("scale", 1, shape=2) * pm.Normal("z", 0, 1, shape=(250, 2))
    return both[group, 0] + both[group, 1] * x


def heavy(group, x):
    """Effects with long tails."""
    return (pm.HalfNormal("scale", 1) * pm.StudentT("z", nu=4, shape=250))[group] + x * pm.Normal("b", 0, 1)


def zero_sum(group, x):
    """Effects that add up to 0."""
    return (pm.HalfNormal("scale", 1) * pm.ZeroSumNormal("z", 1, shape=250))[group] + x * pm.Normal("b", 0, 1)


@pytest.mark.parametrize("declare", [slopes, heavy, zero_sum])
def test_other_hierarchies_are_sampled_as_before(declare):
    pls = grouped(declare)
    assert Collapsed.of(pls.engine, pls.labeled, 2) is None


def plain(group, x):
    """One effect a group."""
    return (pm.HalfNormal("scale", 1) * pm.Normal("z", 0, 1, shape=250))[group] + x * pm.Normal("b", 0, 1)


@pytest.mark.parametrize(("wrong", "alone"), [(0.0, True), (0.1, False)])
def test_effects_that_may_have_several_modes_are_not_integrated_out(wrong, alone):
    """With labels that may be wrong, a row's likelihood has a floor, and the density of an effect may have a mode beside."""
    pls = grouped(plain, wrong)
    assert (Collapsed.of(pls.engine, pls.labeled, 2) is not None) is alone


@pytest.mark.parametrize(("steepness", "seen"), [(1, True), (10, True), (20, True), (30, False), (100, False), (1000, False)])
@pytest.mark.parametrize("k", [1, 2])
def test_integrals_are_right_or_known_to_be_wrong(steepness, seen, k):
    """One row of a logistic regression on u ~ N(0, 1) with this slope."""

    def log_f(u):
        return -k * np.logaddexp(0, -steepness * u) - 0.5 * u**2

    def bends(u):
        p = expit(-steepness * u)
        return k * steepness * p - u, k * steepness**2 * p * (1 - p) + 1

    curves = Curves.of(bends, log_f, np.zeros((1, 1)))
    kink = np.linspace(-5, 5, 11) / steepness
    expected, _ = quad(lambda u: np.exp(log_f(u)), -12, 12, points=kink, limit=500, epsabs=0)
    right = abs(curves.log_integrals[0, 0] - np.log(expected)) < 2e-5
    assert right or not curves.resolved[0, 0]
    if k == 2:
        assert curves.resolved[0, 0] == seen


def wide(group, x):
    """Effects of so vague a prior that their likelihoods are steps against it."""
    return pm.Normal("z", 0, 100, shape=250)[group] + x * pm.Normal("b", 0, 1)


@pytest.mark.slow
def test_effects_whose_integrals_nodes_do_not_see_are_sampled_as_before():
    pls = grouped(wide)
    rng = np.random.default_rng(0)
    assert Collapsed.of(pls.engine, pls.labeled, 1) is not None
    [sample] = importance_samples(pls.engine, pls.labeled, [1], 1000, rng, proposals)
    assert "conditional" not in sample.proposal


def crossed(group, x):
    """Groups that are crossed with a few others, which stay in the core."""
    few = (pm.HalfNormal("few_scale", 1) * pm.Normal("few", 0, 1, shape=5))[np.arange(300) % 7 % 5]
    return few + (pm.HalfNormal("scale", 1) * pm.Normal("z", 0, 1, shape=250))[group]


def test_effects_of_few_others_are_part_of_the_core():
    pls = grouped(crossed)
    collapsed = Collapsed.of(pls.engine, pls.labeled, 2)
    assert len(collapsed.effects) == 250
    assert len(collapsed.core) == 7


def test_small_models_are_sampled_as_before():
    pls = many_groups(30)
    assert Collapsed.of(pls.engine, pls.labeled, 2) is None


def test_independent_parameters_touch_none_of_each_other():
    pairs = np.array([[0, 1], [0, 2], [0, 3], [2, 3], [0, 4]])
    np.testing.assert_array_equal(independent(pairs, 6), [1, 2, 4, 5])


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 2])
def test_k_hat_is_small_whatever_the_number_of_groups(k):
    pls = many_groups(400)
    [sample] = importance_samples(pls.engine, pls.labeled, [k], 4000, np.random.default_rng(0), proposals)
    assert sample.draws.pareto_k < 0.7
    assert sample.reasons == []
