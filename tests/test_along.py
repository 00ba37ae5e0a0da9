"""The audit along a run, where exact values are known by quadrature."""

import html
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

import pymc_bpls as bpls
from pymc_bpls.audit.along_sentences import say_reliability

QUIET = {"progressbar": False}


@pytest.fixture(scope="module")
def runs(few):
    """Runs of twelve rounds by a good criterion and by a bad one."""
    split, informed = few
    return (
        split,
        informed,
        {
            name: informed.self_train(name, rounds=12, test=split.test, approximation="laplace", **QUIET)
            for name in ("ppp", "variance")
        },
    )


@pytest.fixture(scope="module")
def audits(runs):
    split, informed, both = runs
    return (
        split,
        {
            name: informed.audit_along(run, every=4, criteria=["ppp", "ibpls"], random_seed=0, **QUIET)
            for name, run in both.items()
        },
        both,
    )


@pytest.mark.slow
def test_the_regret_of_a_first_choice_is_that_of_quadrature(audits):
    split, found, runs = audits
    exact = split.candidates["grid_log_ppp"].to_numpy()
    for name, audit in found.items():
        place = int(runs[name]["history"]["candidate"][0]) - split.n
        first = audit.rounds.isel(step=0)
        assert abs(first["run_regret"] - (exact.max() - exact[place])) <= 4 * first["run_regret_mcse"] + 1e-9
    assert float(found["variance"].rounds["run_regret"].sum()) > float(found["ppp"].rounds["run_regret"].sum()) + 0.1


@pytest.mark.slow
def test_the_first_round_agrees_with_an_audit_by_quadrature(audits, few):
    split, found, _ = audits
    _, informed = few
    exact = xr.Dataset(
        {"log_ppp": ("candidate", split.candidates["grid_log_ppp"]), "pseudo_label": ("candidate", split.pseudo)},
        {"candidate": split.pool},
    )
    true = informed.audit(["ppp", "ibpls"], exact=exact).agreement
    first = found["ppp"].rounds.isel(step=0).sel(criterion=["ppp", "ibpls"])
    assert ((first["tau_low"] - 1e-9 <= true["tau"]) & (true["tau"] <= first["tau_high"] + 1e-9)).all()
    assert (np.abs(first["max_centred"] - true["max_centred"]) <= 4 * first["max_centred_mcse"]).all()


@pytest.mark.slow
def test_exact_selection_starts_with_the_best_by_quadrature(audits):
    split, found, _ = audits
    exact = split.candidates["grid_log_ppp"].to_numpy()
    chosen = int(found["ppp"].tree["exact_run"]["candidate"][0]) - split.n
    assert exact[chosen] >= exact.max() - 1e-4
    assert found["ppp"].tree["exact_run"].sizes["step"] == 12


@pytest.mark.slow
def test_rounds_hold_d_as_it_was(audits):
    split, found, _ = audits
    rounds = found["ppp"].rounds
    assert rounds["step"].to_numpy().tolist() == [0, 4, 8, 11]
    assert rounds["n_labeled"].to_numpy().tolist() == [split.n, split.n + 4, split.n + 8, split.n + 11]
    assert rounds["n_candidates"].to_numpy().tolist() == [split.m, split.m - 4, split.m - 8, split.m - 11]


@pytest.mark.slow
def test_a_person_reads_an_answer_to_each_question(audits):
    _, found, runs = audits
    audit = found["variance"]
    assert audit.reliable
    text = str(audit)
    assert "The reference is reliable in all 4 audited rounds." in audit.verdict
    assert "the largest error of Laplace's ppp" in text
    assert "In the 4 audited rounds of 12 the run's own choices lose" in text
    accuracy = float(runs["variance"]["curve"]["accuracy"][-1])
    assert f"against {accuracy:.3f})" in text
    assert html.escape(audit.verdict) in audit._repr_html_()


@pytest.mark.slow
def test_a_file_brings_everything_back(audits, tmp_path):
    _, found, _ = audits
    found["ppp"].to_netcdf(tmp_path / "along.nc")
    back = type(found["ppp"]).from_netcdf(tmp_path / "along.nc")
    assert str(back) == str(found["ppp"])
    xr.testing.assert_equal(back.rounds, found["ppp"].rounds)


def test_batches_and_all_classes_are_audited_where_a_round_began(table, small):
    _, _, truth = table
    run = small.self_train(
        labels="all", batch_size=3, rounds=3, test=(np.arange(20, 26), truth[20:]), approximation="laplace", **QUIET
    )
    audit = small.audit_along(run, every=1, criteria=["ppp"], random_seed=0, **QUIET)
    assert audit.rounds["step"].to_numpy().tolist() == [0, 3, 6]
    assert (audit.rounds["run_regret"] >= 0).all()


def test_new_test_rows_are_not_needed(small):
    run = small.self_train(rounds=2, approximation="laplace", **QUIET)
    audit = small.audit_along(run, every=1, criteria=["ppp[ep]"], random_seed=0, **QUIET)
    assert "rows of the pool differently." in str(audit)
    assert "was not audited" in str(audit)
    assert "rounds with a reliable reference, those where a criterion's choice and values are good: ppp[ep] in" in audit.verdict


def test_a_run_is_audited_by_the_method_that_is_asked_for(small):
    run = small.self_train(rounds=2, approximation="laplace", **QUIET)
    audit = small.audit_along(run, every=2, criteria=["ppp[laplace]"], method="psis", random_seed=0, **QUIET)
    assert "importance sampling" in str(audit.rounds["source"].values[0])
    assert "Laplace's ppp was not audited" not in str(audit)


def test_what_is_no_run_is_refused(small, few):
    _, other = few
    run = small.self_train(rounds=0, approximation="laplace", **QUIET)
    with pytest.raises(bpls.CriterionError, match="has no round with a choice"):
        small.audit_along(run, **QUIET)
    with pytest.raises(bpls.CriterionError, match="every=0 is no number of rounds"):
        small.audit_along(run, every=0, **QUIET)
    with pytest.raises(bpls.CriterionError, match="is no run of this table and model"):
        other.audit_along(small.self_train(rounds=1, approximation="laplace", **QUIET), **QUIET)


def test_interrupting_returns_what_was_audited(small, monkeypatch):
    run = small.self_train(rounds=4, approximation="laplace", **QUIET)
    import pymc_bpls.audit.along as walk

    step = walk.audit_step

    def interrupted(track, forms, method, at, seed):
        if at >= 2:
            raise KeyboardInterrupt
        return step(track, forms, method, at, seed)

    monkeypatch.setattr(walk, "audit_step", interrupted)
    audit = small.audit_along(run, every=1, criteria=["ppp"], random_seed=0, **QUIET)
    assert audit.rounds["step"].to_numpy().tolist() == [0, 1]
    assert "Interrupted" in str(audit)


@pytest.mark.slow
def test_nuts_takes_over_where_importance_sampling_is_not_to_be_trusted(small):
    from pymc_bpls.montecarlo.references import Nuts, Psis, PsisElseNuts

    where = small.scorer.problem, small.engine, small.labeled, 2
    nuts = Nuts(False, (1, 2, 3), {"draws": 50, "tune": 50, "chains": 2, "cores": 1, "progressbar": False})
    assert PsisElseNuts(Psis(False, 4000, 0), nuts)(*where).source == "4000 draws by importance sampling"

    def doubtful(*arguments):
        return replace(Psis(False, 400, 0)(*arguments), reasons=["k-hat of the importance weights is 0.9"])

    assert PsisElseNuts(doubtful, nuts)(*where).source == "100 draws of NUTS"


def test_rounds_whose_candidates_are_mostly_flagged_are_not_called_reliable():
    rounds = xr.Dataset(
        {
            "reliable": ("step", [1, 1]),
            "n_compared": (("step", "criterion"), [[151.0, 151.0], [150.0, 150.0]]),
            "n_unflagged": (("step", "criterion"), [[5.0, 5.0], [140.0, 140.0]]),
        }
    )
    text = say_reliability(rounds, [])
    assert text.startswith(
        "The reference has no fault of its own in all 2 audited rounds; in 1 of 2 most candidates are flagged, "
    )
    assert say_reliability(rounds.isel(step=[1]), []) == "The reference is reliable in the audited round."
