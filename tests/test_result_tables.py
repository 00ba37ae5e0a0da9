"""`table` is a frame of numbers on every result, which `to_latex` and `to_csv` take; what is printed is made from it."""

import io

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import pymc_bpls as bpls
from pymc_bpls.audit.along_sentences import say_growth

QUIET = {"progressbar": False}


@pytest.fixture(scope="module")
def results(small):
    audit = small.audit(["ppp", "probability"], method="psis", random_seed=0, **QUIET)
    run = small.self_train("probability", rounds=3, **QUIET)
    along = small.audit_along(run, every=2, criteria=["ppp", "probability"], random_seed=0, **QUIET)
    choice = small.choose({"run": bpls.Train("probability", rounds=2)}, repeats=1, random_seed=0, **QUIET)
    summaries = {"summary of a run": bpls.summary(run), "summary of scores": bpls.summary(small.score("probability"))}
    others = {"fit": small.fit(progressbar=False), "information": small.information(progressbar=False)}
    return {"audit": audit, "along": along, "choice": choice, **summaries, **others}


NAMES = ["audit", "along", "choice", "summary of a run", "summary of scores", "fit", "information"]


@pytest.mark.parametrize("name", NAMES)
def test_a_table_is_a_frame_of_numbers_on_every_result(results, name):
    table = results[name].table
    assert isinstance(table, pd.DataFrame) and len(table)
    assert all(pd.api.types.is_numeric_dtype(table[column]) for column in table)
    again = pd.read_csv(io.StringIO(table.to_csv()), index_col=0)
    np.testing.assert_allclose(again.to_numpy(dtype=float), table.to_numpy(dtype=float))


@pytest.mark.parametrize("name", NAMES)
def test_latex_rounds_the_numbers_themselves(results, name):
    table = results[name].table
    column = next(each for each in table if table[each].dtype.kind == "f")
    assert f"{table[column].iloc[0]:.4f}" in table.to_latex(float_format="%.4f")


def test_what_an_audit_prints_are_the_numbers_of_its_agreement(results):
    audit = results["audit"]
    for name in ("regret", "tau", "tau_low", "max_centred", "max_centred_mcse", "prob_best"):
        np.testing.assert_array_equal(audit.table[name], audit.agreement[name])
    assert f"{audit.table.loc['ppp', 'prob_best']:.2f}" in str(audit) and "P(best)" in audit._repr_html_()


def test_what_is_printed_along_a_run_are_the_numbers_of_its_rounds(results):
    along = results["along"]
    np.testing.assert_array_equal(along.table["tau_high of ppp"], along.rounds["tau_high"].sel(criterion="ppp"))
    assert along.table["n_labeled"].tolist() == [12, 14] and "regret of the run" in str(along)


def test_a_file_of_another_result_is_no_audit(results, small, tmp_path):
    results["audit"].to_netcdf(tmp_path / "audit.nc")
    pd.testing.assert_frame_equal(bpls.Audit.from_netcdf(tmp_path / "audit.nc").table, results["audit"].table)
    with pytest.raises(bpls.CriterionError, match=r"is no file of an AuditAlong\. Give one that"):
        bpls.AuditAlong.from_netcdf(tmp_path / "audit.nc")
    bpls.save(small.self_train("probability", rounds=1, **QUIET), tmp_path / "run.nc")
    with pytest.raises(bpls.CriterionError, match=r"is no file of an Audit\. Give one that"):
        bpls.Audit.from_netcdf(tmp_path / "run.nc")


def growing(n, error, spread):
    held = {"max_centred": ("step", error), "max_centred_mcse": ("step", np.full(len(n), spread)), "n_labeled": ("step", n)}
    return xr.Dataset(held).expand_dims(criterion=["ppp"]).assign(n_labeled=("step", n))


def test_a_slope_is_said_where_d_grows_enough_to_tell_it():
    n = np.array([20, 28, 40, 60, 90])
    said = say_growth(growing(n, 3 / n, 1e-4))
    assert "falls: from 0.1500" in said and "slope -1 in log-log" in said
    few = np.array([40, 41, 42, 43, 45])
    jumpy = say_growth(growing(few, np.array([0.01, 0.4, 0.02, 0.5, 0.9]), 0.3))
    assert "does not change clearly" in jumpy and "slope " not in jumpy.replace("for a slope", "")
    assert jumpy.endswith("D grows by a factor of 1.1, which is too little for a slope.")
    noisy = say_growth(growing(n, 3 / n, 0.1))
    assert "does not change clearly" in noisy
