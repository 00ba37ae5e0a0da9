"""A run that ended anywhere goes on, through a file as well, as if it had not ended."""

import importlib.util
import json
import signal
import sys

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from reference import logistic

import pymc_bpls as bpls
from pymc_bpls import CriterionError, EvidenceDrop, MaxRounds, NoGain, Threshold
from pymc_bpls.compute.compiler import Compiler
from pymc_bpls.compute.library import LIBRARY
from pymc_bpls.engine.rows.affine_rows import AffineRows
from pymc_bpls.selftraining.run import Run
from pymc_bpls.selftraining.saved_run import generator_at

ENGINES = [name for name, module in (("h5netcdf", "h5netcdf"), ("netcdf4", "netCDF4")) if importlib.util.find_spec(module)]
N, TEST = 12, np.arange(20, 26)
QUIET = {"progressbar": False}


@pytest.fixture(autouse=True)
def _ctrl_c_interrupts():
    """Also where the suite itself was started with SIGINT ignored, as shells do in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


RUNS = {
    "ppp": {},
    "ppp by EP": {"approximation": "ep"},
    "ppp by VI": {"approximation": "vi"},
    "marginal likelihood by EP": {"criterion": "marginal_likelihood", "approximation": "ep"},
    "batches": {"criterion": "probability", "batch_size": 2, "class_balance": "labeled", "labels": "all"},
    "weights": {"criterion": "predictive", "pseudo_weight": 0.4, "class_balance": {0: 0.75, 1: 0.25}},
    "random": {"criterion": "random", "random_seed": 7},
    "random, a generator": {"criterion": "random", "random_seed": np.random.Generator(np.random.MT19937(3))},
    "rows set aside": {"criterion": "ibpls", "random_seed": 1, "stop": [NoGain(0.3, 20), MaxRounds(6)]},
    "rules": {"criterion": "variance", "stop": [MaxRounds(5), EvidenceDrop(5.0), Threshold(-1e9), lambda history: None]},
}


def same(resumed, whole):
    """Identical choices, equal numbers, and the same end."""
    assert resumed.attrs["stop_reason"] == whole.attrs["stop_reason"]
    assert resumed.attrs["verdict"] == whole.attrs["verdict"]
    assert set(resumed.children) == set(whole.children)
    for name in ("candidate", "pseudo_label", "round", "n_labeled"):
        np.testing.assert_array_equal(resumed["history"][name], whole["history"][name])
    for group in ("history", "curve", "final", "unconstrained", "test", "labeled", "held_out"):
        if group in whole:
            xr.testing.assert_allclose(resumed[group].to_dataset(), whole[group].to_dataset(), rtol=1e-9, atol=1e-9)


def through_a_file(run, folder, engine="h5netcdf"):
    run.to_netcdf(folder / "run.nc", engine=engine)
    with xr.open_datatree(folder / "run.nc", engine=engine) as tree:
        return tree.load()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("settings", RUNS.values(), ids=RUNS)
def test_a_run_cut_into_three_through_files_is_the_whole_run(small, test_rows, tmp_path, settings, engine):
    if isinstance(settings.get("random_seed"), np.random.Generator):
        settings["random_seed"] = np.random.Generator(np.random.MT19937(3))
    whole = small.self_train(test=test_rows, **settings, **QUIET)
    if isinstance(settings.get("random_seed"), np.random.Generator):
        settings["random_seed"] = np.random.Generator(np.random.MT19937(3))
    part = small.self_train(test=test_rows, **settings, rounds=0, **QUIET)
    stop = settings.get("stop")
    for rounds in (2, None):
        part = small.resume(through_a_file(part, tmp_path, engine), stop=stop, rounds=rounds, **QUIET)
    same(part, whole)


def test_new_test_rows_and_names_of_classes_survive_a_file(table, tmp_path):
    X, y, truth = table
    names = np.array(["no", "yes"], dtype=object)
    with pm.Model(coords={"row": [f"r{i}" for i in range(20)]}) as model:
        data = pm.Data("X", X[:20], dims=("row", None))
        pm.Bernoulli("label", logit_p=data @ pm.Normal("b", 0, 2.5, shape=2), observed=y[:20], dims="row")
    pls = bpls.BPLS(model, classes=names)
    test = ({"X": X[TEST]}, names[truth[TEST]])
    whole = pls.self_train(test=test, **QUIET)
    part = through_a_file(pls.self_train(test=test, rounds=3, **QUIET), tmp_path)
    same(pls.resume(part, test=test, **QUIET), whole)
    with pytest.raises(CriterionError, match="The run had new rows as test rows, which are not kept"):
        pls.resume(part, **QUIET)
    with pytest.raises(CriterionError, match="test= has other labels than the 6 test rows of the run"):
        pls.resume(part, test=({"X": X[TEST[:5]]}, names[truth[TEST[:5]]]), **QUIET)


def test_a_weight_by_a_function_goes_on_where_it_is_given_again(small, tmp_path):
    settings = {"criterion": "probability", "pseudo_weight": lambda score: 0.5 * score}
    whole = small.self_train(**settings, **QUIET)
    part = through_a_file(small.self_train(**settings, rounds=3, **QUIET), tmp_path)
    same(small.resume(part, pseudo_weight=settings["pseudo_weight"], **QUIET), whole)


@pytest.mark.parametrize("bits", [np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64])
def test_every_generator_of_numpy_goes_on_where_it_was(bits):
    rng = np.random.Generator(bits(5))
    rng.random(3)
    state = json.dumps(rng.bit_generator.state, default=lambda array: array.tolist())
    again = generator_at(json.loads(state))
    np.testing.assert_array_equal(again.random(5), rng.random(5))


def test_another_generator_has_to_be_given_again(small):
    run = small.self_train("random", rounds=1, random_seed=1, **QUIET)
    state = json.loads(run["state"].attrs["random_state"]) | {"bit_generator": "Dice"}
    run["state"].attrs["random_state"] = json.dumps(state)
    with pytest.raises(CriterionError, match="drew random numbers by Dice"):
        small.resume(run, **QUIET)
    assert small.resume(run, rounds=1, random_seed=2, **QUIET)["history"].sizes["step"] == 2


def test_what_a_run_did_not_begin_with_is_refused(small, test_rows):
    run = small.self_train("probability", rounds=1, **QUIET)
    with pytest.raises(CriterionError, match="the run began without test rows"):
        small.resume(run, test=test_rows, **QUIET)
    with pytest.raises(CriterionError, match="the run set no labeled rows aside"):
        small.resume(run, stop=NoGain(), **QUIET)
    aside = small.self_train("probability", rounds=1, stop=NoGain([1, 2]), **QUIET)
    with pytest.raises(CriterionError, match=r"names other rows than \[1, 2\]"):
        small.resume(aside, stop=NoGain([1, 3]), **QUIET)
    assert small.resume(aside, rounds=1, stop=NoGain([2, 1]), **QUIET)["held_out"]["row"].to_numpy().tolist() == [1, 2]


def press(monkeypatch, owner, name, at):
    """Press Ctrl-C in the call number `at` (0, 1, …) of a method, after it has worked."""
    original, calls = getattr(owner, name), [0]

    def called(*arguments, **options):
        result = original(*arguments, **options)
        calls[0] += 1
        if calls[0] == at + 1:
            signal.raise_signal(signal.SIGINT)
        return result

    monkeypatch.setattr(owner, name, called)


@pytest.mark.parametrize("approximation", ["laplace", "ep"])
def test_ctrl_c_in_any_computation_loses_nothing(small, test_rows, approximation):
    settings = {"approximation": approximation, "stop": MaxRounds(3)}
    whole = small.self_train(test=test_rows, **settings, **QUIET)
    interrupted = 0
    for at in range(0, 200, 7):
        with pytest.MonkeyPatch.context() as patch:
            press(patch, AffineRows, "_table_for", at)
            try:
                part = small.self_train(test=test_rows, **settings, **QUIET)
            except KeyboardInterrupt:
                continue
        if part.attrs["stop_reason"] != "interrupted":
            break
        interrupted += 1
        same(small.resume(part, stop=settings["stop"], **QUIET), whole)
    assert interrupted > 3


def test_ctrl_c_while_a_function_is_compiled_loses_nothing(table, test_rows, monkeypatch):
    X, y, _ = table
    LIBRARY.shelf.clear()
    compiling = bpls.BPLS(logistic(X, y), predictor="map")
    monkeypatch.setattr(AffineRows, "row_table", None)
    with pytest.MonkeyPatch.context() as patch:
        press(patch, Compiler, "_first", 5)
        part = compiling.self_train(test=test_rows, stop=MaxRounds(2), other_modes=False, **QUIET)
    assert part.attrs["stop_reason"] == "interrupted"
    whole = compiling.self_train(test=test_rows, stop=MaxRounds(2), **QUIET)
    same(compiling.resume(part, stop=MaxRounds(2), **QUIET), whole)


def test_ctrl_c_before_there_is_a_model_is_passed_on(small, monkeypatch, nothing_remembered):
    press(monkeypatch, AffineRows, "_table_for", 0)
    with pytest.raises(KeyboardInterrupt):
        small.self_train("probability", **QUIET)


def test_ctrl_c_at_any_line_of_a_round_loses_nothing(small, test_rows):
    settings = {"criterion": "random", "labels": "all", "batch_size": 2, "random_seed": 7, "test": test_rows}
    whole = small.self_train(**settings, stop=MaxRounds(2), **QUIET)
    codes = {getattr(Run, name).__code__ for name in ("_refit", "_judge", "_round", "_steps", "_choose")}
    for at in range(1, 400, 7):
        lines = [0]

        def in_a_round(frame, event, argument, lines=lines, at=at):
            if event == "line":
                lines[0] += 1
                if lines[0] == at:
                    raise KeyboardInterrupt
            return in_a_round

        before = sys.gettrace()
        sys.settrace(lambda frame, event, argument: in_a_round if frame.f_code in codes else None)
        try:
            part = small.self_train(**settings, stop=MaxRounds(2), **QUIET)
        except KeyboardInterrupt:
            continue
        finally:
            sys.settrace(before)
        if part.attrs["stop_reason"] != "interrupted":
            break
        same(small.resume(part, stop=MaxRounds(2), **QUIET), whole)
    assert at > 60


def test_a_resumed_run_that_is_interrupted_at_once_is_the_run_as_it_was(small, test_rows, monkeypatch):
    part = small.self_train(test=test_rows, rounds=2, **QUIET)
    press(monkeypatch, AffineRows, "_table_for", 0)
    again = small.resume(part, **QUIET)
    assert again.attrs["stop_reason"] == "interrupted"
    again.attrs["stop_reason"] = part.attrs["stop_reason"]
    same(again, part)


def test_what_a_failing_function_of_the_user_had_before_is_kept(small):
    def fails(history):
        return {}["reason"] if history.sizes["step"] == 2 else None

    with pytest.warns(bpls.BPLSWarning, match="round 3 failed with KeyError: 'reason'"):
        run = small.self_train(stop=fails, progressbar=False)
    assert run["history"].sizes["step"] == 2 and "failed with KeyError" in run.attrs["stop_reason"]


@pytest.mark.parametrize("group", ("state", "unconstrained"))
def test_an_edited_run_is_refused_in_words(small, group):
    run = small.self_train(rounds=1, progressbar=False)
    del run[group]
    with pytest.raises(CriterionError, match="not as self_train left it"):
        small.resume(run, rounds=1, **QUIET)


def test_a_result_without_pseudo_labels_is_no_run(small):
    for result in (small.marginalize(progressbar=False), small.exact(method="psis", random_seed=0, progressbar=False)):
        with pytest.raises(CriterionError, match=r"holds no pseudo-labels to go on from.*Give what self_train or resume"):
            small.resume(result, **QUIET)


@pytest.mark.parametrize(("group", "row"), [("history", "candidate"), ("labeled", "row")])
def test_a_run_with_a_row_that_was_exchanged_is_refused(small, group, row):
    run = small.self_train(rounds=2, progressbar=False)
    rows = run[group][row].to_numpy().copy()
    # the last row is another one now, which is in D already
    rows[-1] = rows[-2]
    dataset = run[group].to_dataset()
    run[group] = xr.DataTree(dataset.assign({row: (dataset[row].dims, rows)}))
    with pytest.raises(CriterionError, match=r"other pseudo-labeled rows in /labeled than in /history, or a row twice"):
        small.resume(run, rounds=1, **QUIET)


def test_a_run_of_another_table_or_model_says_what_differs(small, table):
    X, y, truth = table
    run = small.self_train("probability", rounds=1, progressbar=False)
    labeled = np.where(np.arange(26) == 15, truth, y)
    moved = X + 0.1 * (np.arange(26) == 20)[:, None]
    others = {
        r"its labels \(of row 15\), candidates differ.*New labels are taken in": logistic(X, labeled),
        r"its priors differ\.": logistic(X, y, scale=1.0),
        r"its data differ\.": logistic(moved, y),
    }
    for said, model in others.items():
        with pytest.raises(CriterionError, match=said):
            bpls.BPLS(model).resume(run, progressbar=False)
    with pytest.raises(CriterionError, match=r"is no run of this table and model\. Give what self_train"):
        small.resume(xr.DataTree())
