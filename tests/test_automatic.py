"""Which approximation is taken where none is named: by the rule, as if it had been named, and what stands in for it."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
import zoo

import pymc_bpls as bpls
from pymc_bpls.approximations import by_name
from pymc_bpls.approximations.automatic import FEW_ROWS, approximations_in_order, order_for_all
from pymc_bpls.scoring import one_model

QUIET = {"progressbar": False}
AVERAGED = ("ppp", "marginal_likelihood", "predictive")
OTHERS = ("ibpls", "ubpls", "reference", "likelihood", "probability", "variance", "entropy", "bald", "random")
#: What results call the approximation of a criterion at the mode itself, and of one that is by no fit.
CALLED = {"probability": "mode", "random": "none"}


def declare(name):
    kind = zoo.ACCEPTED[name]
    return bpls.BPLS(kind.table(), **kind.options)


@pytest.fixture(scope="module")
def logistic():
    return declare("logistic")


@pytest.fixture(scope="module")
def groups():
    return declare("hierarchical_non_centered")


@pytest.fixture(scope="module")
def softmax():
    return declare("softmax_of_logit_p")


@pytest.fixture(scope="module")
def ordered():
    return declare("ordered_logistic")


SOFTMAX = pytest.param("softmax", "vi", marks=pytest.mark.slow)
ORDERED = pytest.param("ordered", "laplace", marks=pytest.mark.slow)


def unsettled(monkeypatch, *names):
    """These approximations do not settle."""

    def fails(engine, labeled, k, mode, start, **_):
        raise bpls.ApproximationError("It did not settle for row 3. Use tighter priors.")

    for name in names:
        monkeypatch.setitem(by_name.APPROXIMATIONS, name, replace(by_name.APPROXIMATIONS[name], fit=fails))


@pytest.mark.parametrize(("model", "taken"), (("logistic", "ep"), ("groups", "ep"), SOFTMAX, ORDERED))
@pytest.mark.parametrize("criterion", AVERAGED)
def test_what_is_taken_is_named_and_scores_as_if_it_had_been_asked_for(model, taken, criterion, request):
    pls = request.getfixturevalue(model)
    scores, named = pls.score(criterion), pls.score(criterion, approximation=taken)
    assert scores.attrs["approximation"] == named.attrs["approximation"] == taken
    assert "instead_of" not in scores.attrs
    np.testing.assert_allclose(scores["score"], named["score"], rtol=0, atol=1e-12)


@pytest.mark.parametrize("criterion", (*OTHERS, bpls.Criterion("mine", lambda terms: terms.log_lik_pseudo)))
def test_other_criteria_are_by_laplace(logistic, criterion):
    scores = logistic.score(criterion, random_seed=0)
    assert scores.attrs["approximation"] == CALLED.get(criterion, "laplace")
    named = logistic.score(criterion, approximation="laplace", random_seed=0)
    np.testing.assert_array_equal(scores["score"], named["score"])


def test_an_expansion_without_the_prior_is_by_laplace(logistic):
    assert logistic.score(expansion="mle").attrs["approximation"] == "laplace"


def test_five_rows_a_parameter_are_enough_for_laplace(softmax):
    engine = softmax.engine
    enough = FEW_ROWS * engine.density.dimension
    assert approximations_in_order(engine, enough - 1) == ("vi", "laplace")
    assert approximations_in_order(engine, enough) == ("laplace", "vi")


@pytest.mark.parametrize("name", zoo.ACCEPTED)
@pytest.mark.filterwarnings("ignore:.*is a Beta-Binomial of one trial:pymc_bpls.BPLSWarning")
def test_ep_comes_first_where_it_does_not_refuse_the_model(name):
    """That it fits where it comes first, whole runs show (test_compilations)."""
    pls = declare(name)
    order = pls.scorer.approximations(pls.labeled)
    if "ep" in order:
        assert order[0] == "ep"
    else:
        with pytest.raises(bpls.ApproximationError, match='approximation="ep" needs'):
            by_name.APPROXIMATIONS["ep"].fit(pls.engine, pls.labeled, 2, None, None)


def test_a_set_takes_what_all_of_its_members_can():
    ep, vi, laplace = ("ep", "vi", "laplace"), ("vi", "laplace"), ("laplace", "vi")
    assert order_for_all([ep, ep]) == ep
    assert order_for_all([ep, laplace]) == vi
    assert order_for_all([laplace, ("ep", "laplace", "vi")]) == laplace


@pytest.mark.parametrize(("also", "stands_in"), (((), "laplace"), (("vi",), "laplace")))
def test_what_does_not_settle_is_told_and_stood_in_for(logistic, monkeypatch, nothing_remembered, also, stands_in):
    unsettled(monkeypatch, "ep", *also)
    with pytest.warns(bpls.BPLSWarning, match='by "laplace" in place of "ep". It did not settle for row 3'):
        scores = logistic.score()
    assert scores.attrs["approximation"] == stands_in
    assert scores.attrs["instead_of"] == ["ep: It did not settle for row 3. Use tighter priors."]
    np.testing.assert_array_equal(scores["score"], logistic.score(approximation="laplace")["score"])


def test_a_run_tells_in_which_rounds_another_one_stood_in(softmax, monkeypatch, nothing_remembered):
    unsettled(monkeypatch, "vi")
    with pytest.warns(bpls.BPLSWarning, match='by "laplace" in place of "vi"'):
        run = softmax.self_train(rounds=2, **QUIET)
    assert (run.attrs["approximation"], run.attrs["approximation_at_first"]) == ("laplace", "vi")
    assert run.attrs["instead_of"] == "2 of 2 rounds were scored by laplace, as vi did not settle"
    assert run["history"]["approximation"].to_numpy().tolist() == ["laplace", "laplace"]
    by_laplace = softmax.self_train(rounds=2, approximation="laplace", **QUIET)
    np.testing.assert_array_equal(run["history"]["candidate"], by_laplace["history"]["candidate"])


def test_what_was_named_is_refused_where_it_does_not_settle(logistic, monkeypatch, nothing_remembered):
    unsettled(monkeypatch, "ep")
    with pytest.raises(bpls.ApproximationError, match="row 3"):
        logistic.score(approximation="ep")


def test_predictions_that_are_stood_in_for_are_told_where_scores_are_not(logistic, monkeypatch, nothing_remembered):
    """EP settles for p_2, which scores, and not for p_1, which predicts."""
    fit = by_name.APPROXIMATIONS["ep"].fit

    def of_two(engine, labeled, k, *arguments, **options):
        if k == 1:
            raise bpls.ApproximationError("It did not settle for row 3. Use tighter priors.")
        return fit(engine, labeled, k, *arguments, **options)

    monkeypatch.setitem(by_name.APPROXIMATIONS, "ep", replace(by_name.APPROXIMATIONS["ep"], fit=of_two))
    with pytest.warns(bpls.BPLSWarning, match='not averaged by "ep", .* It did not settle') as told:
        run = logistic.self_train(rounds=1, approximation="ep", **QUIET)
    assert len(told) == 1
    assert run.attrs["approximation"] == "ep" and "instead_of" not in run.attrs


def test_a_run_that_goes_on_takes_what_it_began_with(logistic, monkeypatch):
    """Though D has as many rows by then as the rule asks for of Laplace's method; and it still knows what stands in."""
    whole = logistic.self_train(rounds=3, **QUIET)
    part = logistic.self_train(rounds=1, **QUIET)
    longer = logistic.resume(part, rounds=2, **QUIET)
    assert longer.attrs["approximation"] == "ep"
    assert longer.attrs["approximation_by"] == "auto"
    np.testing.assert_array_equal(longer["history"]["candidate"], whole["history"]["candidate"])
    unsettled(monkeypatch, "ep")
    with pytest.warns(bpls.BPLSWarning, match='by "laplace" in place of "ep"'):
        other = logistic.resume(part, rounds=2, **QUIET)
    assert other["history"]["approximation"].to_numpy().tolist() == ["ep", "laplace", "laplace"]
    said = "2 of 3 rounds were scored by laplace, as ep did not settle; scores by laplace are on another scale"
    assert other.attrs["instead_of"] == said
    assert "another scale" in other["history"]["score"].attrs["description"]


def test_a_run_in_which_another_one_stood_in_goes_on_as_if_it_had_not_been_cut(logistic, monkeypatch, tmp_path):
    """EP fails in the second round only, and is not tried again: neither in the whole run nor after a file."""

    def fails_with_one_pseudo_label():
        with monkeypatch.context() as patch:
            fit, n = by_name.APPROXIMATIONS["ep"].fit, len(logistic.labeled)

            def sometimes(engine, labeled, *arguments, **options):
                if len(labeled) == n + 1:
                    raise bpls.ApproximationError("It did not settle for row 3. Use tighter priors.")
                return fit(engine, labeled, *arguments, **options)

            patch.setitem(by_name.APPROXIMATIONS, "ep", replace(by_name.APPROXIMATIONS["ep"], fit=sometimes))
            with pytest.warns(bpls.BPLSWarning, match='by "vi" in place of "ep"|by "laplace" in place of "ep"'):
                whole = logistic.self_train(rounds=4, **QUIET)
                cut = logistic.self_train(rounds=2, **QUIET)
            bpls.save(cut, tmp_path / "cut.nc")
            with xr.open_datatree(tmp_path / "cut.nc") as tree:
                return whole, logistic.resume(tree.load(), rounds=2, **QUIET)

    whole, resumed = fails_with_one_pseudo_label()
    by = whole["history"]["approximation"].to_numpy().tolist()
    assert by[0] == "ep" and len(set(by[1:])) == 1 and by[1] != "ep"
    assert resumed["history"]["approximation"].to_numpy().tolist() == by
    np.testing.assert_array_equal(resumed["history"]["candidate"], whole["history"]["candidate"])
    np.testing.assert_allclose(resumed["history"]["score"], whole["history"]["score"], atol=1e-6)
    assert resumed.attrs["approximation"] == by[1] == whole.attrs["approximation"]
    assert {name: resumed.attrs[name] for name in ("instead_of", "approximation_at_first")} == {
        name: whole.attrs[name] for name in ("instead_of", "approximation_at_first")
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:k-hat of the constant:pymc_bpls.BPLSWarning")
def test_where_a_mode_is_missing_vi_stands_in_for_laplace(ordered, monkeypatch):
    def fails(*_):
        raise bpls.ModeError("There is no mode. Use another prior.")

    monkeypatch.setattr(one_model, "score_by_laplace", fails)
    with pytest.warns(bpls.BPLSWarning, match='by "vi" in place of "laplace". There is no mode'):
        scores = ordered.score()
    assert scores.attrs["approximation"] == "vi"


def test_an_audit_asks_for_a_name(logistic):
    with pytest.raises(bpls.CriterionError, match=r'"ppp\[auto\]" names no approximation. Use "ppp", "ppp\[ep\]"'):
        logistic.audit(["ppp[auto]"])


def test_a_name_may_hold_the_approximation(logistic):
    named, asked = logistic.score("ppp[ep]"), logistic.score(approximation="ep")
    np.testing.assert_array_equal(named["score"], asked["score"])
    assert (named.attrs["criterion"], named.attrs["approximation"]) == ("ppp", "ep")
    np.testing.assert_array_equal(logistic.score("ppp[mle]")["score"], logistic.score(expansion="mle")["score"])
    with pytest.raises(bpls.CriterionError, match=r'"ppp.ep." asks for another way than approximation="vi"'):
        logistic.score("ppp[ep]", approximation="vi")


def test_scores_of_a_run_say_that_they_lack_the_constant(logistic):
    run = logistic.self_train("ppp[ep]", rounds=1, **QUIET)
    scores = logistic.score("ppp[ep]")
    assert "without the constant" in run["history"]["score"].attrs["description"]
    best = scores["score"].max().item() - scores.attrs["log_normalizer"]
    np.testing.assert_allclose(run["history"]["score"], [best], atol=1e-5)
    by_laplace = logistic.self_train("ppp[laplace]", rounds=1, **QUIET)
    assert "description" not in by_laplace["history"]["score"].attrs
