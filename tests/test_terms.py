"""Terms of other observed variables that labels reach, whatever their shape: against PyMC's own log-density of the rows."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from refusing import refused
from scipy.special import logsumexp

import pymc_bpls as bpls
from pymc_bpls import ModelError
from pymc_bpls.model.graphs.row_axes import RowAxes

N, N_LABELED = 14, 9
rng = np.random.default_rng(1)
TRUTH = rng.integers(0, 2, N)
Y = np.where(np.arange(N) < N_LABELED, TRUTH, -1)
F = rng.normal(size=(N, 3)) + TRUTH[:, None]
GROUP = np.arange(N) % 3
ROW = rng.integers(0, N_LABELED, 20)  # which row each line of a long table is of
VOTES = rng.normal(size=20) + TRUTH[ROW]


def declare(term, rows, y):
    with pm.Model() as model:
        label = pm.Bernoulli("label", p=pm.Beta("p", 4, 2), shape=len(rows), observed=y)
        mu, spread = pt.as_tensor([-0.5, 0.8])[label], pm.HalfNormal("spread")
        for number, (mean, observed) in enumerate(term(label, mu, rows)):
            pm.Normal(f"w{number}", mean, spread, observed=observed)
    return model


#: Means and values of the other observed variables, on some rows of the table.
SUMMED = {
    "one number": lambda label, mu, rows: [(label.sum(), 6.0)],
    "shape (1,)": lambda label, mu, rows: [(label.sum() * np.ones(1), [6.0])],
    "shape (1, 1)": lambda label, mu, rows: [(label.sum() * np.ones((1, 1)), [[6.0]])],
    "(N, d)": lambda label, mu, rows: [(mu[:, None], F[rows])],
    "(N, 1)": lambda label, mu, rows: [(mu[:, None], F[rows, :1])],
    "(d, N)": lambda label, mu, rows: [(mu[None, :], F[rows].T)],
    "(1, N)": lambda label, mu, rows: [(mu[None, :], F[rows, :1].T)],
    "(2, N, d)": lambda label, mu, rows: [(mu[None, :, None], np.stack([F[rows], -F[rows]]))],
    "(N, d, 2)": lambda label, mu, rows: [(mu[:, None, None], np.stack([F[rows], -F[rows]], axis=-1))],
    "N times N": lambda label, mu, rows: [(mu, np.linspace(-1, 1, N)[:, None] * F[rows, 0])],
    "a total a group": lambda label, mu, rows: [
        (pt.stack([(label * (GROUP[rows] == group)).sum() for group in range(3)]), [2.0, 1.0, 3.0])
    ],
    "a total of a mask": lambda label, mu, rows: [((label * (GROUP[rows] == 1)).sum(), 3.0)],
    "changes": lambda label, mu, rows: [(pt.abs(label[1:] - label[:-1]).sum(), 3.0)],
    "a number and rows": lambda label, mu, rows: [(label.sum() * np.ones(1), [6.0]), (mu[:, None], F[rows])],
}


FAST = ("shape (1,)", "(d, N)", "(2, N, d)", "a total a group", "changes", "a number and rows")


@pytest.mark.parametrize("kind", [each if each in FAST else pytest.param(each, marks=pytest.mark.slow) for each in SUMMED])
def test_a_term_is_summed_over_its_own_shape(kind):
    term = SUMMED[kind]
    problem = bpls.BPLS(declare(term, np.arange(N), Y), target="label").scorer.problem
    D, density, theta = problem.labeled, problem.density, np.array([0.4, -0.3])
    if density.joint is None:
        found = density.structure.log_lik(theta, D.codes, density.take(D.positions)).sum()
    else:
        found = density.joint.plain(theta, D.codes, D.positions)
    model = declare(term, D.positions, TRUTH[:N_LABELED])
    log_lik = model.compile_logp(vars=model.observed_RVs, jacobian=False, mode=Mode("py", None))
    names = [variable.name for variable in model.value_vars]
    np.testing.assert_allclose(found, log_lik(dict(zip(names, theta, strict=True))), rtol=1e-12)


def test_one_number_for_the_table_counts_once_in_the_evidence():
    def table(y):
        with pm.Model() as model:
            label = pm.Bernoulli("label", p=pm.Beta("p", 4, 2), shape=len(y), observed=y)
            pm.Normal("total", mu=label.sum() * np.ones(1), sigma=2.0, observed=[6.0])
        return model

    found = bpls.BPLS(table(Y), target="label").fit(progressbar=False).log_evidence
    z = np.linspace(-12, 12, 801)
    log_p = table(TRUTH[:N_LABELED]).compile_logp(mode=Mode("py", None))
    expected = logsumexp([log_p({"p_logodds__": np.array(value)}) for value in z]) + np.log(z[1] - z[0])
    assert found == pytest.approx(expected, abs=0.03)  # Laplace's error of a Beta(8, 7); one count a row is off by 16


#: Means and values that name rows in another way than by an axis of them.
REFUSED = {
    "votes in a long table": (lambda label, mu, rows: [(mu[ROW], VOTES)], "shape (20,)"),
    "a long table of N lines": (lambda label, mu, rows: [(mu[ROW[:N]], VOTES[:N])], "shape (14,)"),
    "two rows exchanged": (lambda label, mu, rows: [(mu[np.r_[1, 0, 2:N]], VOTES[:N])], "shape (14,)"),
    "the first rows": (lambda label, mu, rows: [(mu[:5], VOTES[:5])], "shape (5,)"),
    "one row": (lambda label, mu, rows: [(mu[3], 0.3)], "shape ()"),
    "a total of the first rows": (lambda label, mu, rows: [(label[:5].sum(), 3.0)], "by their number"),
    "a total of the last rows": (lambda label, mu, rows: [(label[5:].sum(), 3.0)], "by their number"),
}


@pytest.mark.parametrize(("term", "words"), REFUSED.values(), ids=REFUSED)
def test_rows_that_are_named_by_their_number_are_refused(term, words):
    refused(ModelError, lambda: bpls.BPLS(declare(term, np.arange(N), Y), target="label"), '"w0"', '"label"', "14 rows", words)


def test_rows_that_depend_on_one_row_of_many_are_found():
    """Row 61 of 200 has the label of row 17: no check of a few rows sees it."""
    n = 200
    wrong = np.arange(n)
    wrong[61] = 17

    def of_labels(labels):
        return np.log1p(labels[wrong]) + labels

    rows = RowAxes(of_labels, np.zeros(n), np.ones(n))
    assert rows.axis is None and not rows.by_lines
    assert RowAxes(lambda labels: np.outer([1, 2], labels), np.zeros(n), np.ones(n)).axis == 1
    assert RowAxes(lambda labels: labels[wrong], np.zeros(n), np.ones(n)).by_lines
