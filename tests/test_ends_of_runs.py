"""How runs go and end on an empty pool, by a rule, and without scores; batches, memory, and counts that are none."""

from __future__ import annotations

import numpy as np
import pytest
from refusing import N_LABELED, N, logistic, refused, table

import pymc_bpls as bpls
from pymc_bpls import BPLSWarning, CriterionError

# Runs that end


def test_an_empty_pool_returns_at_once_and_says_so():
    X, y = table()
    pls = bpls.BPLS(logistic(X[:N_LABELED], y[:N_LABELED]))
    run = pls.self_train(progressbar=False)
    assert run.attrs["stop_reason"] == "the pool is empty"
    assert run["history"].sizes["step"] == 0


def test_an_empty_pool_has_empty_scores_under_every_criterion():
    X, y = table()
    pls = bpls.BPLS(logistic(X[:N_LABELED], y[:N_LABELED]))
    for criterion in ("ppp", "reference", "probability", "variance", "predictive", "entropy", "random"):
        for labels in ("predicted", "all"):
            assert pls.score(criterion, labels=labels).sizes["candidate"] == 0


def test_a_run_until_the_end_says_that_the_pool_is_empty():
    run = bpls.BPLS(logistic(*table())).self_train(progressbar=False)
    assert run.attrs["stop_reason"] == "the pool is empty"
    assert sorted(run["history"]["candidate"].to_numpy()) == list(range(N_LABELED, N))


def test_a_stop_rule_ends_the_run_in_its_own_words():
    def three(history):
        return "three is enough" if history.sizes["step"] >= 3 else None

    run = bpls.BPLS(logistic(*table())).self_train(stop=three, progressbar=False)
    assert run.attrs["stop_reason"] == "three is enough"
    assert run["history"].sizes["step"] == 3


def test_a_run_in_which_no_candidate_has_a_score_says_so():
    never = bpls.Criterion("never", lambda terms: terms.log_det * np.nan)
    with pytest.warns(BPLSWarning, match="8 of 8 candidates have no finite score"):
        run = bpls.BPLS(logistic(*table())).self_train(never, progressbar=False)
    assert run.attrs["stop_reason"] == "no candidate has a finite score"
    assert run["history"].sizes["step"] == 0


def test_no_rounds_are_a_run_that_keeps_the_supervised_model():
    run = bpls.BPLS(logistic(*table())).self_train(rounds=0, progressbar=False)
    assert run.attrs["stop_reason"] == "0 rounds are done"


# Memory


@pytest.mark.parametrize("criterion", ["ppp", "reference"])
def test_scores_do_not_depend_on_the_memory_that_they_may_use(criterion):
    pls = bpls.BPLS(logistic(*table()))
    np.testing.assert_allclose(pls.score(criterion, chunk_bytes=1)["score"], pls.score(criterion)["score"], rtol=1e-12)


# Batches


def test_one_label_a_round_is_the_default_and_a_batch_adds_no_row_twice():
    pls = bpls.BPLS(logistic(*table()))
    assert pls.self_train(rounds=2, progressbar=False)["history"]["round"].to_numpy().tolist() == [1, 2]
    run = pls.self_train(rounds=2, batch_size=3, labels="all", progressbar=False)
    assert run["history"]["round"].to_numpy().tolist() == [1, 1, 1, 2, 2, 2]
    assert len(set(run["history"]["candidate"].to_numpy())) == 6


# Counts that are none


@pytest.mark.parametrize("options", [{"rounds": 2.5}, {"batch_size": 1.5}])
def test_a_number_of_rounds_or_rows_that_is_not_whole_is_refused(options):
    pls = bpls.BPLS(logistic(*table()))
    refused(CriterionError, lambda: pls.self_train(progressbar=False, **options), next(iter(options)))
