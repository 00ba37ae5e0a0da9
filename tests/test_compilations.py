"""How many functions JAX compiles for a run: few, and none for a number of candidates or of labeled rows alone."""

from collections import deque

import jax.monitoring
import numpy as np
import pytest
import zoo

import pymc_bpls as bpls
from pymc_bpls.compute import library

MOST = 12
#: EP integrates over a length-scale of the first, whose covariance takes one function more; pseudo-labels of the others are
#: averages over draws of θ, which take one for the whole pool and one for what is left of it.
ONE_MORE = ("latent_gp", "contamination", "misclassification")
#: How many rows a round adds: EP integrates over three scales of two models there, which takes ten seconds a round.
BATCHES = {"hierarchical_non_centered": 1, "item_response": 10, "multilevel_regression_and_poststratification": 10}
ONE_BY_ONE = "hierarchical_non_centered"
#: Kinds whose densities have little in common; by EP or what stands in for it, all kinds are run.
BY_LAPLACE = (ONE_BY_ONE, "ordered_probit", "item_response", "class_conditional_gaussian", "random_walk_non_centered")
ROWS = np.r_[np.arange(zoo.N), zoo.CANDIDATES]  # 24 candidates, twelve of them twice
LABELS = np.arange(len(ROWS)) >= zoo.N_LABELED
COMPILED = "/jax/core/compile/backend_compile_duration"

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*modes of the posterior were found:pymc_bpls.BPLSWarning"),
    pytest.mark.filterwarnings("ignore:.*is a Beta-Binomial of one trial:pymc_bpls.BPLSWarning"),
]


@pytest.fixture
def compilations(monkeypatch):
    """JAX's own events of compilation, by kind, of models that nothing was compiled for."""
    for each in (library.ROWS, library.LIBRARY, library.CONSTRAINTS):
        monkeypatch.setattr(each, "shelf", deque(maxlen=each.shelf.maxlen))
    seen = []

    def listen(event, duration, **_):
        if event == COMPILED:
            seen.append(duration)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield seen
    jax.monitoring.unregister_event_duration_listener(listen)


def declare(kind):
    labels = np.where(LABELS, -1, kind.labels[ROWS])
    options = {**kind.options, "unlabeled": LABELS} if "unlabeled" in kind.options else kind.options
    return bpls.BPLS(kind.declare(ROWS, labels), **options)


@pytest.mark.filterwarnings("ignore:Scores are by:pymc_bpls.BPLSWarning")
@pytest.mark.parametrize(
    ("name", "approximation"),
    [
        pytest.param(name, approximation, marks=[] if name == ONE_BY_ONE else pytest.mark.slow)
        for approximation, names in (("auto", zoo.ACCEPTED), ("laplace", BY_LAPLACE))
        for name in names
    ],
)
def test_a_first_run_compiles_at_most_a_dozen_functions(name, approximation, compilations):
    """In a run that adds twenty rows: of one model a row a round, of the others in five rounds, or in two."""
    pls, at_once = declare(zoo.ACCEPTED[name]), BATCHES.get(name, 4)
    taken = pls.scorer.approximations(pls.labeled)[0] if approximation == "auto" else approximation
    run = pls.self_train("ppp", approximation=approximation, rounds=20 // at_once, batch_size=at_once, progressbar=False)
    assert run.attrs["approximation"] == taken
    assert 5 <= len(compilations) <= MOST + (name in ONE_MORE and approximation == "auto")


def test_a_fingerprint_takes_the_prior_that_is_compiled():
    problem = declare(zoo.ACCEPTED["multilevel_regression_and_poststratification"]).problem
    theta = problem.density.start + 0.1
    compiled = problem.density.structure.compiled_log_prior(theta)
    np.testing.assert_allclose(problem._declared[0].log_prior(theta), compiled, rtol=1e-13)


def test_a_longer_run_on_another_table_compiles_nothing_more(compilations):
    """The candidates that are left, and the rows of D, then have other numbers."""
    kind = zoo.ACCEPTED["hierarchical_non_centered"]
    declare(kind).self_train("ppp", approximation="laplace", rounds=2, progressbar=False)
    first = len(compilations)
    fewer = zoo.LABELED[::2]
    rows = np.r_[fewer, zoo.CANDIDATES, zoo.CANDIDATES[:7]]
    labels = np.where(np.arange(len(rows)) < len(fewer), kind.labels[rows], -1)
    bpls.BPLS(kind.declare(rows, labels)).self_train("ppp", approximation="laplace", progressbar=False)
    assert len(compilations) == first
