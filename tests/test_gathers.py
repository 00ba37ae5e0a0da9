"""Groups by several indices, and a column picked for each row: the same scores however they are written, or a refusal."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import zoo

import pymc_bpls as bpls
from pymc_bpls import RowError

N, N_LABELED, DISTRICTS = 120, 40, 6
_rng = np.random.default_rng(3)
DISTRICT, URBAN = np.tile(np.arange(DISTRICTS), 20), _rng.integers(0, 2, N)
TRUTH = (_rng.random(N) < 1 / (1 + np.exp(-_rng.normal(0, 1, (DISTRICTS, 2))[DISTRICT, URBAN]))).astype(int)
Y = np.where(np.arange(N) < N_LABELED, TRUTH, -1)
ROWS = np.arange(N)
SCORES = [-59.2086, -59.3230, -59.5818]

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning")


def declare(eta, district=DISTRICT, urban=URBAN, y=Y):
    """A model whose linear predictor is `eta(a, district, urban)`, with a (6, 2)."""
    with pm.Model() as model:
        a = pm.Normal("a", 0, 1, shape=(DISTRICTS, 2))
        pm.Bernoulli("label", logit_p=eta(a, pm.Data("district", district), pm.Data("urban", urban)), observed=y)
    return model


def of_rows(a, d, u):
    return a[d][ROWS, u]


def along_an_axis(a, d, u):
    return pt.take_along_axis(a[d], u[:, None], axis=1)[:, 0]


def set_to_zero(a, d, u):
    """What is not the row's column is set to 0, and the rest added up."""
    return pt.set_subtensor(a[d][ROWS, 1 - u], 0).sum(axis=1)


def increased(a, d, u):
    return pt.inc_subtensor(pt.zeros((N, 2))[ROWS, u], a[d, u]).sum(axis=1)


def of_a_column(a, d, u):
    return a[d][ROWS[:, None], u[:, None]][:, 0]


COLUMN_A_ROW = [of_rows, along_an_axis, set_to_zero, increased, of_a_column]

WRITTEN = {
    "a[d, u]": lambda a, d, u: a[d, u],
    "a.T[u, d]": lambda a, d, u: a.T[u, d],
    "(a[d, 0], a[d, 1])": lambda a, d, u: pt.switch(u, a[d, 1], a[d, 0]),
    "one index of all": lambda a, d, u: a.ravel()[2 * d + u],
    "a third axis": lambda a, d, u: pt.stack([a, -a], axis=2)[d, u, 0],
    "another axis between": lambda a, d, u: a[:, None, :][d, :, u][:, 0],
}


@pytest.mark.parametrize("eta", [*COLUMN_A_ROW, WRITTEN["a[d, u]"]], ids=lambda eta: eta.__name__)
def test_a_column_picked_for_each_row_has_the_scores_of_two_indices(eta):
    pls = bpls.BPLS(declare(eta))
    np.testing.assert_allclose(pls.score(approximation="laplace")["score"].to_numpy()[:3], SCORES, atol=5e-5)
    assert pls._problem.density.graph.sliced


@pytest.mark.parametrize("eta", [*WRITTEN.values(), of_rows, along_an_axis, set_to_zero], ids=lambda eta: eta.__name__)
@pytest.mark.parametrize("value", [-1, DISTRICTS])
def test_a_group_outside_the_levels_of_its_axis_is_refused_in_the_table(eta, value):
    district = np.where(ROWS == 70, value, DISTRICT)
    with pytest.raises(RowError, match=r'The group index "district".* in rows \[70\], outside its \d+ levels'):
        bpls.BPLS(declare(eta, district))


@pytest.mark.parametrize("eta", [*(WRITTEN[name] for name in ("a[d, u]", "a.T[u, d]", "a third axis")), of_rows, along_an_axis])
def test_the_second_index_is_held_against_its_own_axis(eta):
    with pytest.raises(RowError, match=r'The group index "urban" holds \[2\] in rows \[5\], outside its 2 levels'):
        bpls.BPLS(declare(eta, urban=np.where(ROWS == 5, 2, URBAN)))


@pytest.mark.parametrize("value", [-1, DISTRICTS, 60])
def test_a_group_outside_the_levels_is_refused_in_a_pool_and_in_test_rows(value):
    model = declare(WRITTEN["a[d, u]"], DISTRICT[:N_LABELED], URBAN[:N_LABELED], TRUTH[:N_LABELED])
    rows = {"district": np.array([1, value]), "urban": np.array([0, 0])}
    with pytest.raises(RowError, match=rf'"district" holds \[{value}\] in rows \[1\] of pool=, outside its 6 levels'):
        bpls.BPLS(model, pool=rows)
    pls = bpls.BPLS(model, pool={"district": DISTRICT[N_LABELED:], "urban": URBAN[N_LABELED:]})
    with pytest.raises(RowError, match=rf'"district" holds \[{value}\] in rows \[1\] of test=, outside its 6 levels'):
        pls.self_train(rounds=0, test=(rows, [1, 0]), progressbar=False, approximation="laplace")


def test_three_indices_are_each_held_against_their_axis():
    period = ROWS % 3
    with pm.Model() as model:
        th = pm.Normal("th", 0, 1, shape=(DISTRICTS, 2, 3))
        pm.Bernoulli("label", logit_p=th[DISTRICT, URBAN, np.where(ROWS == 9, -1, period)], observed=Y)
    with pytest.raises(RowError, match=r"A group index holds \[-1\] in rows \[9\], outside its 3 levels"):
        bpls.BPLS(model)


def test_an_index_that_is_no_rows_may_count_from_the_end():
    ends = np.array([-1, 0])
    with pm.Model() as model:
        a = pm.Normal("a", 0, 1, shape=(DISTRICTS, 2))
        pm.Bernoulli("label", logit_p=a[ends][URBAN, 0] + a[DISTRICT, -1], observed=Y)
    assert np.isfinite(bpls.BPLS(model).score(approximation="laplace")["score"]).all()


@pytest.mark.parametrize(
    "chosen", [1, 10, 33, [3, 71], ROWS > 115, slice(8, 10)], ids=["row 1", "row 10", "row 33", "list", "mask", "slice"]
)
def test_rows_set_by_their_numbers_are_those_rows_alone(chosen):
    """Their probability is known, whether or not they are among the rows that are tried when the graph is cut."""
    x = np.random.default_rng(1).normal(size=N)
    with pm.Model() as model:
        p = pm.math.sigmoid(pm.Normal("b", 0, 1) * x)
        pm.Bernoulli("label", p=pt.set_subtensor(p[chosen], 0.4), observed=Y)
    pls = bpls.BPLS(model, predictor="map")
    expected = 1 / (1 + np.exp(-float(pls.fit().mode["b"]) * x))
    expected[chosen] = 0.4
    np.testing.assert_allclose(pls.predict_proba()[:, 1], expected, rtol=1e-10)


def test_rows_in_another_order_are_those_rows():
    """Two rows have each other's value: a row's likelihood is not a function of its own data."""
    order, x = ROWS.copy(), np.random.default_rng(1).normal(size=N)
    order[[50, 90]] = 90, 50
    with pm.Model() as model:
        pm.Bernoulli("label", logit_p=(pm.Normal("b", 0, 1) * x)[order], observed=Y)
    pls = bpls.BPLS(model, predictor="map")
    expected = 1 / (1 + np.exp(-float(pls.fit().mode["b"]) * x[order]))
    np.testing.assert_allclose(pls.predict_proba()[:, 1], expected, rtol=1e-10)


@pytest.mark.parametrize("name", ["softmax_of_p", "softmax_of_logit_p", "ordered_logistic"])
def test_the_class_that_a_categorical_takes_of_each_row_is_no_number_of_a_row(name):
    kind = zoo.ACCEPTED[name]
    assert bpls.BPLS(kind.table(), **kind.options).scorer.problem.density.graph.sliced


@pytest.mark.parametrize(("parent", "words"), [([0, 0, 1, 1, 1, 5], r"\[5\]"), ([0, -1, 1, 1, 0, 1], r"\[-1\]")])
@pytest.mark.parametrize("where", ["prior", "likelihood"])
def test_the_groups_of_groups_are_held_against_their_levels_too(parent, words, where):
    with pm.Model() as model:
        region = pm.Normal("region", 0, 1, shape=2)
        of_district = region[np.array(parent)]
        mean = of_district if where == "prior" else 0.0
        a = pm.Normal("a", mean, 1, shape=DISTRICTS) + (of_district if where == "likelihood" else 0.0)
        pm.Bernoulli("label", logit_p=a[DISTRICT], observed=Y)
    with pytest.raises(RowError, match=rf"group index holds {words}, outside its 2 levels \(0 to 1\)"):
        bpls.BPLS(model)


def test_the_first_and_the_last_level_can_be_asked_for():
    with pm.Model() as model:
        a = pm.Normal("a", 0, 1, shape=DISTRICTS)
        pm.Bernoulli("label", logit_p=a[DISTRICT] + a[np.array([0, -1])].sum() + a[-1], observed=Y)
    assert bpls.BPLS(model).fit(other_modes=False).converged


def test_a_group_of_a_new_test_row_is_named_by_its_place_among_these():
    with pm.Model() as model:
        a, d = pm.Normal("a", 0, 1, shape=DISTRICTS), pm.Data("district", DISTRICT)
        pm.Bernoulli("label", logit_p=a[d], observed=pm.Data("y", Y))
    with pytest.raises(RowError, match=r'"district" holds \[-1, 60\] in rows \[1, 2\] of test=, outside its 6 levels'):
        bpls.BPLS(model).self_train(test=({"district": [0, 60, -1]}, [0, 1, 0]), progressbar=False)
