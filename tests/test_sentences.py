"""What is said of separated rows without a prior, of empty labels, of a folder that is not there, and of ties."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

import pymc_bpls as bpls
from pymc_bpls.audit.sentences import DOUBTFUL, EXACT, say_criterion

rng = np.random.default_rng(0)
x = rng.normal(size=60)
Y = np.where(np.arange(60) < 24, (x > 0).astype(int), -1)  # separated


def declared(predictor, **options):
    with pm.Model(coords=options.pop("coords", None)) as model:
        pm.Bernoulli("y", logit_p=predictor(), observed=Y, **options)
    return bpls.BPLS(model)


@pytest.mark.parametrize("how", [{}, {"approximation": "laplace"}])
def test_separated_rows_without_a_prior_are_called_so(how):
    pls = declared(lambda: pm.Normal("a", 0, 2) + x * pm.Flat("b"))
    with pytest.raises(
        bpls.ModeError, match=r'labeled rows are separated along -?"b", where the prior is flat. Give'
    ) as refusal:
        pls.score(**how)
    assert len(str(refusal.value)) < 320


def test_what_runs_away_under_a_prior_of_its_own_is_not():
    pls = declared(lambda: pm.Normal("a", 0, 2) + x * pm.HalfFlat("b"))
    with pytest.raises(bpls.ModeError, match='it grows along "b_log__"'):
        pls.score()


def test_empty_texts_are_no_class():
    with pytest.raises(bpls.LabelError, match=r"Empty texts .*\(2 labels, the first in row 1\). Write None"):
        bpls.encode_labels(["a", "", "b", None, "  "])
    assert bpls.encode_labels(["a", None, "b"])[1].tolist() == ["a", "b"]


def test_rows_that_a_dim_names_keep_its_name(tmp_path):
    names = [f"p{i}" for i in range(60)]
    pls = declared(lambda: x * pm.Normal("b", 0, 2), coords={"patient": names}, dims="patient")
    scores = pls.score()
    assert scores["patient"].to_numpy().tolist() == names[24:]
    run = pls.self_train(rounds=2, progressbar=False)
    bpls.save(run, tmp_path / "run.nc")
    with xr.open_datatree(tmp_path / "run.nc") as tree:
        index = bpls.read_index(tree.load()["history"])
    pd.testing.assert_index_equal(index, pd.Index(run["history"]["patient"].to_numpy().tolist(), name="patient"))


@pytest.mark.parametrize(
    ("lead", "others", "said"),
    [
        (
            0.25,
            1,
            "0.25 ahead, and 1 other is within 0.5 of it, as much as its differences are usually off: a tie",
        ),
        (-0.0031, 3, "its choice is 0.0031 behind the next by its own log PPP, and 3 others are within"),
        (-6.6e-11, 1, "its choice is level with the next, and 1 other is within"),
    ],
)
def test_ties_are_told_in_words(lead, others, said):
    found = {"n_tied": 1, "top_1": True, "prob_best": 1.0, "lead": lead, "own_error": 0.5, "n_within_own_error": others}
    found |= {"tau": 0.5, "tau_low": 0.4, "tau_high": 0.6}
    assert said in say_criterion("ibpls", found, "row 3")


@pytest.mark.parametrize(
    ("probability", "words", "said"),
    [
        (1.0, EXACT, "picks row 3, the exact best;"),
        (0.7, EXACT, "picks row 3, the exact best (probability 0.70);"),
        (0.12, EXACT, "picks row 3, whose exact value is the largest, but not surely (it is the best with probability 0.12);"),
        (1.0, DOUBTFUL, "picks row 3, the best by this reference;"),
        (0.12, DOUBTFUL, "picks row 3, whose value by this reference is the largest, but not surely"),
    ],
)
def test_no_more_is_claimed_of_a_best_candidate_than_the_reference_knows(probability, words, said):
    found = {"n_tied": 1, "top_1": True, "prob_best": probability, "tau": 0.5, "tau_low": 0.4, "tau_high": 0.6}
    text = say_criterion("ibpls", found, "row 3", words)
    assert said in text and (f"tau with {words.ranking} is" in text)


def test_an_error_that_is_rounding_is_none():
    found = {"n_tied": 1, "top_1": True, "prob_best": 1.0, "max_error": 3e-16, "max_centred": 3e-16}
    assert say_criterion("own", found, "row 3").endswith("its log PPP, centred, is that of the reference to rounding.")
