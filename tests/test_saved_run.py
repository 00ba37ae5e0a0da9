"""A run as a tree: its version, files of before there was one, why it ended as a code, and reasons as lists."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import pymc_bpls as bpls
from pymc_bpls.errors import ModeError
from pymc_bpls.scoring.criteria import FitCriterion
from pymc_bpls.selftraining.ending import KINDS
from pymc_bpls.selftraining.saved_run import VERSION, read_run, write_run

QUIET = {"progressbar": False}
TEST = np.arange(20, 26)


def read(path):
    with xr.open_datatree(path, engine="h5netcdf") as tree:
        return tree.load()


def with_attrs(tree, **attrs):
    tree = tree.copy()
    tree.attrs = {**tree.attrs, **attrs}
    return tree


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """As it was written before there was a version: ppp by EP, rows 0 and 3 held out, rows 20 to 25 tested on, 3 rounds."""
    path = tmp_path_factory.mktemp("old") / "run.nc"
    path.write_bytes(gzip.decompress((Path(__file__).parent / "data" / "run_without_version.nc.gz").read_bytes()))
    return read(path)


#: How exactly a run by EP repeats an earlier one: its fits are as exact as the ranking of candidates needs.
OFF = {"history": 1e-6, "state": 2e-5}
#: What differs by more, since the file's version has EP to the first order only: scores of 10 to 12 labeled rows by 0.001 nats,
#: and the moments that a round starts from, which its sites say again.
FIRST_ORDER = {"score": 2e-3, "gap": 2e-3, "mean": 0.1, "covariance": 0.1}


def check_as_before(now, earlier, group):
    """A group of a run is that of the earlier version."""
    assert set(now.variables) == set(earlier.variables)
    for name in now.variables:
        off = FIRST_ORDER.get(name, OFF.get(group, 1e-9))
        xr.testing.assert_allclose(now[name].variable, earlier[name].variable, rtol=off, atol=off)


@pytest.fixture(scope="module")
def settings(table):
    return {"approximation": "ep", "test": (TEST, table[2][TEST]), "stop": bpls.NoGain([0, 3], 20), "random_seed": 1}


def test_a_file_without_a_version_goes_on_as_one_run_at_the_mode(small, at_mode, old, settings):
    assert "version" not in old.attrs and "stop_kind" not in old.attrs
    whole = at_mode.self_train(**settings, rounds=5, **QUIET)
    longer = small.resume(old, stop=settings["stop"], rounds=2, **QUIET)
    assert longer.attrs["version"] == VERSION and longer.attrs["stop_kind"] == "rounds"
    assert set(longer.children) == set(whole.children)
    for group in set(whole.children) - {"state"}:
        known = whole[group].to_dataset().drop_vars("invented_information", errors="ignore")  # older runs do not know it
        check_as_before(longer[group].to_dataset(), known, group)
    assert whole.attrs["verdict"].startswith(longer.attrs["verdict"])


def test_a_file_without_a_version_is_the_run_that_is_written_today(small, at_mode, old, settings):
    today = at_mode.self_train(**settings, rounds=3, **QUIET)
    assert {*today.attrs} - {*old.attrs} == {
        *("version", "versions", "random_seed", "stop_kind", "candidate", "other_modes", "table_parts"),
        *("predictor", "averaged_by"),
    }
    assert {*today.children} == {*old.children}
    again = write_run(read_run(old, small.scorer.problem), small.scorer.problem, small.scorer.problem.density.parameters)
    for group in old.children:
        added = ["index"] if group in ("test", "held_out") else []  # version 2 has the index there too
        written, now = (tree[group].to_dataset().drop_vars(added) for tree in (again, today))
        if group == "history":  # older files do not say what scores lack
            assert "without the constant" in written["score"].attrs.pop("description")
        xr.testing.assert_identical(written, old[group].to_dataset().assign_attrs(again[group].attrs))
        now = now.drop_vars("invented_information", errors="ignore")
        check_as_before(now, old[group].to_dataset(), group)
    assert again["state"].attrs == old["state"].attrs


def test_a_file_without_a_version_is_shown_and_audited(small, old, no_style_is_changed):
    text = str(bpls.summary(old))
    assert text.startswith(old.attrs["verdict"]) and "3 rounds are done." in text
    assert len(bpls.plot_self_training(old)) == 5
    X = small.scorer.problem.density.data[1]
    assert bpls.plot_decision(small, X[:, 0], X[:, 1], run=old).get_legend_handles_labels()[1]
    audit = small.audit_along(old, every=2, criteria=["ppp[ep]"], random_seed=0, **QUIET)
    assert audit.rounds["n_labeled"].to_numpy().tolist() == [10, 12]


def test_a_later_version_is_refused(small):
    run = small.self_train("probability", rounds=1, **QUIET)
    assert run.attrs["version"] == VERSION
    with pytest.raises(bpls.CriterionError, match="was written by a later version of this package"):
        small.resume(with_attrs(run, version=VERSION + 1), **QUIET)


def test_a_note_of_the_user_s_in_attrs_is_kept(small, tmp_path):
    run = with_attrs(small.self_train("probability", rounds=1, **QUIET), note="Monday's")
    run.to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    longer = small.resume(read(tmp_path / "run.nc"), rounds=1, **QUIET)
    assert longer.attrs["note"] == "Monday's"
    assert {*longer.attrs} == {*run.attrs}


def at_round(number, error):
    """A criterion that fails in a round, and is the probability before."""
    calls = []

    def score(view):
        calls.append(1)
        if len(calls) == number:
            raise error
        return np.exp(view.at_own_class(view.log_probabilities))

    return FitCriterion("mine", score)


NOTHING = FitCriterion("nothing", lambda view: np.full(len(view.codes), np.nan))
ENDS = {
    "pool": ({}, None),
    "rounds": ({"rounds": 2}, None),
    "rule": ({"stop": bpls.MaxRounds(2)}, None),
    "scores": ({"criterion": NOTHING}, "have no finite score"),
    "refused": ({"criterion": at_round(3, ModeError("lost. Look."))}, None),
    "interrupted": ({"criterion": at_round(2, KeyboardInterrupt())}, None),
    "failed": ({"criterion": at_round(3, ZeroDivisionError("by me"))}, "round 3 failed with ZeroDivisionError"),
}


@pytest.mark.parametrize(("kind", "how"), ENDS.items(), ids=ENDS)
def test_why_a_run_ended_is_a_code_beside_the_words(small, tmp_path, kind, how):
    settings, warning = how
    if warning is None:
        run = small.self_train(**{"criterion": "probability", **settings}, **QUIET)
    else:
        with pytest.warns(bpls.BPLSWarning, match=warning):
            run = small.self_train(**settings, **QUIET)
    run.to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    for tree in (run, read(tmp_path / "run.nc")):
        assert tree.attrs["stop_kind"] == kind and isinstance(tree.attrs["stop_reason"], str)
        assert tree.attrs.get("stop_rule") == ("MaxRounds" if kind == "rule" else None)
        saved = read_run(tree, small.scorer.problem)
        assert (saved.ending.kind, saved.ending.reason) == (kind, run.attrs["stop_reason"])


def test_every_way_to_end_has_its_code():
    assert set(ENDS) == set(KINDS)


def test_a_function_that_ends_a_run_is_named(small):
    def enough(history):
        return "enough" if history.sizes["step"] == 1 else None

    run = small.self_train("probability", stop=enough, **QUIET)
    assert (run.attrs["stop_kind"], run.attrs["stop_rule"], run.attrs["stop_reason"]) == ("rule", "enough", "enough")
    assert "stop_rule" not in small.resume(run, rounds=1, **QUIET).attrs


REASONS = {
    "none": [],
    "one": ["R-hat is 1.02; ESS is 12"],
    "two": ["R-hat is 1.02; ESS is 12", "k-hat is 0.9"],
}


@pytest.mark.parametrize("reasons", REASONS.values(), ids=REASONS)
def test_reasons_are_a_list_through_files(small, tmp_path, reasons):
    """Of exact values, of their audit, and of the audit's file; a semicolon within one is no end of it."""
    exact = small.exact(method="psis", draws=500, random_seed=0)
    assert exact.attrs["reasons"] == [] and exact.attrs["reliable"] == 1
    exact = with_attrs(exact, reasons=reasons, reliable=int(not reasons))
    exact.to_netcdf(tmp_path / "exact.nc", engine="h5netcdf")
    for tree in (exact, read(tmp_path / "exact.nc")):
        audit = small.audit(["ppp"], tree)
        assert audit.reasons == audit.tree.attrs["reasons"] == reasons
        audit.to_netcdf(tmp_path / "audit.nc")
        back = bpls.Audit.from_netcdf(tmp_path / "audit.nc")
        assert back.reasons == reasons and back.reliable == (not reasons) and str(back) == str(audit)


def test_reasons_of_an_older_file_count_as_one(small):
    exact = with_attrs(small.exact(method="psis", random_seed=0), reasons="R-hat is 1.02; ESS is 12", reliable=0)
    assert small.audit(["ppp"], exact).reasons == ["R-hat is 1.02; ESS is 12"]
    assert small.audit(["ppp"], with_attrs(exact, reasons="", reliable=1)).reasons == []
