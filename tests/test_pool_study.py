"""The study of what a pool is worth: its stored ranks and splits, and the test of uniformity on known ranks."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pytest

from validation.pool.__main__ import REPORT, RESULTS, SIMULATIONS
from validation.pool.bands import LEVEL, band, curves, leave
from validation.pool.calibration import KEPT, PARAMETERS, WAYS, ranks, uniformity
from validation.pool.figure import plot_ranks
from validation.pool.report import report
from validation.pool.wrong_model import MODELS, SPLITS
from validation.study.intervals import Interval


@pytest.fixture(scope="module")
def stored():
    return json.loads(RESULTS.read_text())


def of_way(stored, way):
    return np.array([stored[f"simulation {seed}"][way] for seed in range(SIMULATIONS)])


def test_uniform_ranks_pass_and_narrow_posteriors_do_not():
    rng = np.random.default_rng(0)
    uniform = rng.integers(KEPT + 1, size=(400, 3))
    narrow = np.clip(np.round(rng.normal(KEPT / 2, KEPT / 2.2, size=(400, 3))), 0, KEPT).astype(int)
    assert uniformity(uniform).min() > 0.01 and uniformity(narrow).max() < 1e-6


def test_ranks_are_uniform_with_labels_integrated_out_and_not_after_self_training(stored):
    exact, trained = (of_way(stored, way) for way in WAYS)
    assert exact.shape == trained.shape == (SIMULATIONS, len(PARAMETERS))
    assert uniformity(exact).min() > 0.01 > 1e-4 > uniformity(trained).min()
    tails = [((each < 0.1 * KEPT) | (each > 0.9 * KEPT)).mean() for each in (exact, trained)]
    assert abs(tails[0] - 0.2) < 0.04 and tails[1] > 0.28


def test_the_band_holds_curves_of_uniform_ranks_and_no_curves_of_ranks_at_both_ends(stored):
    rng = np.random.default_rng(1)
    uniform = rng.integers(KEPT + 1, size=(100, 2000))
    assert leave(uniform) / 2000 == pytest.approx(1 - LEVEL, abs=3 * np.sqrt(LEVEL * (1 - LEVEL) / 2000))
    both_ends = np.round(KEPT * rng.beta(0.5, 0.5, size=(100, 20))).astype(int)
    assert leave(both_ends) >= 15 and curves(both_ends)[:, -1] == pytest.approx(0)
    low, high = band(SIMULATIONS)
    np.testing.assert_allclose(low[:-1], -high[-2::-1], atol=1e-12)
    assert [leave(of_way(stored, way)) for way in WAYS] == [0, 4]


def test_a_wrong_model_of_the_features_does_harm(stored):
    accuracy = {name: np.array([stored[f"split {split}"]["accuracy"][name] for split in range(SPLITS)]) for name in MODELS}
    change = accuracy[MODELS[3]] - accuracy[MODELS[1]]
    assert Interval.of(change).sign < 0


def test_the_report_is_that_of_the_stored_results(stored):
    by_way = {way: of_way(stored, way) for way in WAYS}
    k_hat = np.array([stored[f"simulation {seed}"]["k_hat"] for seed in range(SIMULATIONS)])
    assert report(by_way, k_hat, [stored[f"split {split}"] for split in range(SPLITS)]) == REPORT.read_text()
    assert len(plot_ranks(by_way).axes) == 2
    plt.close("all")


@pytest.mark.slow
def test_a_simulation_is_what_is_stored(stored):
    again = ranks(0)
    for way in WAYS:
        np.testing.assert_allclose(again[way], stored["simulation 0"][way], atol=3)
