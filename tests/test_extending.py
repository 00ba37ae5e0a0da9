"""Rules and criteria of one's own, written as a user writes them, go everywhere where the package's own go."""

from dataclasses import dataclass

import numpy as np
import pytest
import xarray as xr
from reference import logistic

import pymc_bpls as bpls

QUIET = {"progressbar": False}
PSIS = {"method": "psis", "draws": 1000, "random_seed": 0}
N = 12


class Confident(bpls.StopRule):
    """Holds some rows out, one of each class, and stops once their labels are predicted badly."""

    def __init__(self, least, draw=True):
        self.least, self.draw = least, draw

    def held_out(self, labeled, rng):
        rows = [labeled.positions[labeled.codes == code] for code in np.unique(labeled.codes)]
        return np.array([rng.choice(some) if self.draw else some[0] for some in rows])

    def __call__(self, history):
        score = float(history["held_out_log_score"][-1])
        return None if score > self.least else f"{score:.3f} is too little"


class LeastProbable(bpls.LabelRule):
    """Each candidate with the least probable class that has a labeled row."""

    name = "least probable"

    def codes(self, log_probabilities, present):
        return np.where(present, log_probabilities, np.inf).argmin(axis=1)


class Opposite(LeastProbable):
    name = "opposite"


class Forgetful(bpls.DrawingRule):
    """Each candidate by its most probable class, and labeled by one that is wrong now and then."""

    name = "forgetful"

    def codes(self, log_probabilities, present):
        return np.where(present, log_probabilities, -np.inf).argmax(axis=1)

    def draw(self, log_probabilities, rng):
        certain = log_probabilities.argmax(axis=1)
        return np.where(rng.random(len(certain)) < 0.5, 1 - certain, certain)


@dataclass(frozen=True)
class Median(bpls.ModelRule):
    """The member in the middle decides."""

    def decide(self, values, members):
        member = np.argsort(values, axis=0, kind="stable")[len(values) // 2]
        weights = (np.arange(len(values)).reshape(-1, *(1,) * member.ndim) == member).astype(float)
        return bpls.Decision(weights, np.zeros(member.shape), member)


def margin(view):
    """How far the two most probable classes are apart."""
    p = np.sort(np.exp(view.log_probabilities), axis=1)
    return p[:, -1] - p[:, -2]


MARGIN = bpls.FitCriterion("margin", margin)


@pytest.fixture(scope="module")
def three(table):
    X, y, _ = table
    return bpls.prior_set(logistic(X, y), "b", scale=[0.5, 1.0, 4.0])


@pytest.fixture(scope="module")
def middle(three):
    return bpls.ModelSet(three, Median())


def through_a_file(run, folder):
    run.to_netcdf(folder / "tree.nc", engine="h5netcdf")
    with xr.open_datatree(folder / "tree.nc", engine="h5netcdf") as tree:
        return tree.load()


def same(resumed, whole):
    assert set(resumed.children) == set(whole.children)
    for group in set(whole.children) - {"state"}:
        xr.testing.assert_allclose(resumed[group].to_dataset(), whole[group].to_dataset(), rtol=1e-9, atol=1e-9)
    assert {name: str(value) for name, value in resumed.attrs.items()} == {n: str(value) for n, value in whole.attrs.items()}


def cut(pls, folder, *arguments, again, **settings):
    """A run cut after two rounds of four, written, read and gone on with."""
    part = pls.self_train(*arguments, **settings, rounds=2, **QUIET)
    return pls.resume(through_a_file(part, folder), stop=settings.get("stop"), rounds=2, **again, **QUIET)


# a stop rule that holds rows out


def test_a_stop_rule_keeps_its_rows_out_of_every_model(at_mode, table):
    X, y, _ = table
    run = at_mode.self_train("probability", stop=Confident(-np.inf), rounds=3, random_seed=4, **QUIET)
    rows = run["held_out"]["row"].to_numpy()
    assert len(rows) == 2 and (y[rows] == run["held_out"]["label"]).all() and set(y[rows]) == {0, 1}
    others = np.setdiff1d(np.arange(len(y)), rows)
    apart = bpls.BPLS(logistic(X[others], y[others]), predictor="map").self_train("probability", rounds=3, **QUIET)
    np.testing.assert_allclose(run["history"]["score"], apart["history"]["score"], rtol=1e-9)
    np.testing.assert_array_equal(run["history"]["candidate"], others[apart["history"]["candidate"]])
    p = np.exp(run["curve"]["held_out_log_score"].to_numpy())
    theta = apart["unconstrained"]["mode"].to_numpy()
    sides = 1 / (1 + np.exp(-(2 * y[rows] - 1) * (X[rows] @ theta)))
    np.testing.assert_allclose(p[-1], np.exp(np.log(sides).mean()), rtol=1e-7)


def test_a_stop_rule_goes_through_a_file_on_to_an_audit(small, tmp_path):
    rule = {"stop": Confident(-10.0), "random_seed": 4}
    whole = small.self_train("ppp", rounds=4, **rule, **QUIET)
    longer = cut(small, tmp_path, "ppp", **rule, again={})
    same(longer, whole)
    audit = small.audit_along(longer, every=2, criteria=["ppp"], random_seed=0, **QUIET)
    assert audit.rounds["n_labeled"].to_numpy().tolist() == [N - 2, N, N + 1]


def test_what_a_stop_rule_says_ends_the_run_by_its_name(small):
    run = small.self_train("probability", stop=[bpls.MaxRounds(3), Confident(0.0)], random_seed=4, **QUIET)
    assert (run.attrs["stop_kind"], run.attrs["stop_rule"], run["history"].sizes["step"]) == ("rule", "Confident", 0)
    assert run.attrs["stop_reason"].endswith("is too little")


def test_rows_that_are_named_have_to_be_named_again(small):
    part = small.self_train("probability", stop=Confident(-10.0, draw=False), rounds=1, **QUIET)
    assert small.resume(part, stop=Confident(-10.0, draw=False), rounds=1, **QUIET)["history"].sizes["step"] == 2
    assert small.resume(part, stop=Confident(-10.0), rounds=1, **QUIET)["history"].sizes["step"] == 2
    with pytest.raises(bpls.CriterionError, match=r"NoGain names other rows than \[.*\], which the run set aside"):
        small.resume(part, stop=bpls.NoGain([1, 2]), **QUIET)
    without = small.self_train("probability", rounds=1, **QUIET)
    with pytest.raises(bpls.CriterionError, match="stop= holds Confident, and the run set no labeled rows aside"):
        small.resume(without, stop=Confident(-10.0), **QUIET)


def test_a_run_holds_rows_out_once(small):
    with pytest.raises(bpls.CriterionError, match="stop= holds Confident and NoGain, and a run sets rows aside once"):
        small.self_train(stop=[Confident(0.0), bpls.NoGain()], **QUIET)


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([3, 14], bpls.RowError, r"Some.held_out names rows \[14\], which have no label"),
        ([3, 3], bpls.RowError, r"Some.held_out names rows \[3\] more than once"),
        ([0.5], bpls.RowError, "Some.held_out names rows by type float64"),
        (range(N), bpls.LabelError, "Some leaves no labeled row of class 0, 1"),
    ],
)
def test_rows_that_cannot_be_held_out_are_refused(small, rows, error, message):
    class Some(Confident):
        def held_out(self, labeled, rng):
            return np.array(list(rows))

    with pytest.raises(error, match=message):
        small.self_train(stop=Some(0.0), **QUIET)


# a label rule


def test_a_label_rule_scores_the_classes_that_it_says(at_mode):
    scores, p = at_mode.score(labels=LeastProbable(), approximation="laplace"), at_mode.predict_proba()
    expected = p.sel(row=scores["candidate"].to_numpy())
    np.testing.assert_array_equal(scores["pseudo_label"], p["class"].to_numpy()[expected.argmin("class")])
    every = at_mode.score(labels="all", approximation="laplace")
    chosen = every["score"].sel(label=scores["pseudo_label"])
    np.testing.assert_allclose(scores["score"], chosen, rtol=1e-9)


def test_a_label_rule_goes_through_a_file_on_to_an_audit(small, tmp_path):
    rule = LeastProbable()
    whole = small.self_train("ppp", labels=rule, rounds=4, **QUIET)
    longer = cut(small, tmp_path, "ppp", labels=rule, again={"labels": rule})
    same(longer, whole)
    with pytest.raises(bpls.CriterionError, match=r'run= holds labels="least probable", a rule of your own\. Give it again'):
        small.resume(longer, **QUIET)
    with pytest.raises(bpls.CriterionError, match='labels= is "opposite", and run= holds "least probable"'):
        small.resume(longer, labels=Opposite(), **QUIET)
    with pytest.raises(bpls.CriterionError, match="Give it again in labels="):
        small.audit_along(longer, **QUIET)
    audit = small.audit_along(longer, every=3, criteria=["ppp"], labels=rule, random_seed=0, **QUIET)
    assert audit.rounds["step"].to_numpy().tolist() == [0, 3]
    assert (audit.rounds["run_regret"] >= 0).all()


def test_a_label_rule_is_that_of_exact_values_and_of_their_audit(at_mode, tmp_path):
    rule = LeastProbable()
    exact = through_a_file(at_mode.exact("ppp", labels=rule, **PSIS), tmp_path)
    np.testing.assert_array_equal(
        exact["exact"]["pseudo_label"], at_mode.score(labels=rule, approximation="laplace")["pseudo_label"]
    )
    for audit in (at_mode.audit(["ppp"], exact, labels=rule), at_mode.audit(["ppp"], labels=rule, **PSIS)):
        np.testing.assert_array_equal(audit.candidates["pseudo_label"], exact["exact"]["pseudo_label"])
    with pytest.raises(bpls.CriterionError, match='exact= holds labels="least probable", a rule of your own'):
        at_mode.audit(["ppp"], exact)
    with pytest.raises(bpls.CriterionError, match='labels= is "opposite", and exact= holds "least probable"'):
        at_mode.audit(["ppp"], exact, labels=Opposite())


# a label rule that draws


@pytest.mark.parametrize("rule", [Forgetful(), "sampled"])
def test_a_rule_that_draws_goes_through_a_file_on_to_an_audit(small, rule, tmp_path):
    again = {"labels": rule} if isinstance(rule, Forgetful) else {}
    whole = small.self_train("ppp", labels=rule, rounds=4, random_seed=2, **QUIET)
    longer = cut(small, tmp_path, "ppp", labels=rule, random_seed=2, again=again)
    same(longer, whole)
    predicted = small.self_train("ppp", rounds=4, **QUIET)["history"]["pseudo_label"]
    assert (longer["history"]["pseudo_label"].to_numpy() != predicted.to_numpy()).any()
    if again:
        with pytest.raises(bpls.CriterionError, match=r'run= holds labels="forgetful", a rule of your own\. Give it again'):
            small.resume(longer, **QUIET)
    one, two = (small.audit_along(longer, every=3, criteria=["ppp"], random_seed=0, **again, **QUIET) for _ in range(2))
    xr.testing.assert_identical(one.final, two.final)
    assert (one.rounds["run_regret"] >= 0).all()


def test_a_rule_that_draws_scores_and_is_exact_by_the_class_that_it_chooses_by(at_mode, tmp_path):
    exact = through_a_file(at_mode.exact("ppp", labels=Forgetful(), **PSIS), tmp_path)
    np.testing.assert_array_equal(exact["exact"]["pseudo_label"], at_mode.score(approximation="laplace")["pseudo_label"])
    audit = at_mode.audit(["ppp"], exact, labels=Forgetful())
    np.testing.assert_array_equal(audit.candidates["pseudo_label"], exact["exact"]["pseudo_label"])


# a criterion by the fit on D


def test_a_criterion_by_the_fit_scores_what_it_computes(at_mode):
    scores = at_mode.score(MARGIN, approximation="laplace")
    p = np.sort(at_mode.predict_proba(scores["candidate"].to_numpy()).to_numpy(), axis=1)
    np.testing.assert_allclose(scores["score"], p[:, 1] - p[:, 0], rtol=1e-9)


def test_a_criterion_by_the_fit_goes_through_a_file_on_to_an_audit(small, tmp_path):
    whole = small.self_train(MARGIN, rounds=4, **QUIET)
    longer = cut(small, tmp_path, MARGIN, again={"criterion": MARGIN})
    same(longer, whole)
    with pytest.raises(bpls.CriterionError, match=r'run= holds criterion="margin", one of your own\. Give it again'):
        small.resume(longer, **QUIET)
    other = bpls.FitCriterion("another margin", margin)
    with pytest.raises(bpls.CriterionError, match='criterion= is "another margin", and run= holds "margin"'):
        small.resume(longer, criterion=other, **QUIET)
    along = small.audit_along(longer, every=3, criteria=["ppp", MARGIN], random_seed=0, **QUIET)
    assert along.rounds["criterion"].to_numpy().tolist() == ["ppp", "margin"]
    audit = small.audit(["ppp", MARGIN, "probability"], **PSIS)
    np.testing.assert_allclose(
        audit.candidates["score"].sel(criterion="margin"), small.score(MARGIN, approximation="laplace")["score"], rtol=1e-9
    )
    # with two classes the margin is the probability's order
    np.testing.assert_allclose(audit.agreement["tau"][1], audit.agreement["tau"][2])


# a model rule


def test_a_model_rule_scores_by_what_it_decides(middle):
    scores = middle.score(approximation="laplace")
    np.testing.assert_allclose(scores["score"], np.median(scores["log_ppp_member"], axis=0), rtol=1e-12)


@pytest.mark.slow
def test_a_model_rule_goes_through_a_file_and_no_other_goes_on(middle, three, tmp_path):
    whole = middle.self_train(rounds=4, **QUIET)
    longer = cut(middle, tmp_path, again={})
    same(longer, whole)
    assert longer.attrs["rule"] == "Median()"
    for rule in (bpls.SumRule(), bpls.GammaMaximin()):
        with pytest.raises(bpls.CriterionError, match=r"The run selected by Median\(\), and this set selects by"):
            bpls.ModelSet(three, rule).resume(longer, **QUIET)
    along = middle.audit_along(longer, every=3, criteria=["ppp"], draws=500, random_seed=0, **QUIET)
    assert along.rounds["step"].to_numpy().tolist() == [0, 3]
    assert (along.rounds["run_regret"] >= 0).all() and along.tree["exact_run"].sizes["step"] == 4


def test_a_model_rule_is_that_of_exact_values_and_of_their_audit(middle, three, tmp_path):
    exact = through_a_file(middle.exact(**PSIS), tmp_path)
    members = exact["member_values"]["value"].to_numpy()
    np.testing.assert_allclose(exact["exact"]["log_ppp"], np.median(members, axis=0), rtol=1e-12)
    audit = middle.audit(["ppp"], exact)
    np.testing.assert_allclose(audit.candidates["log_ppp"], exact["exact"]["log_ppp"])
    assert np.abs(audit.candidates["error"]).max() < 0.5


def test_a_model_rule_without_a_text_of_its_own_is_called_by_its_class(three):
    class Unnamed(bpls.ModelRule):
        def decide(self, values, members):
            return Median().decide(values, members)

    assert Unnamed().name == "Unnamed()"
    assert bpls.ModelSet(three, Unnamed()).score(approximation="laplace").attrs["rule"] == "Unnamed()"


# errors of the user's own objects


@pytest.mark.parametrize("error", [TypeError, KeyError, ValueError, AttributeError, IndexError])
def test_an_error_of_one_s_own_object_comes_out_of_resume_as_it_is(small, error):
    class Broken(Confident):
        def held_out(self, labeled, rng):
            raise error("of the rule itself")

    class BrokenName(LeastProbable):
        @property
        def name(self):
            raise error("of the rule itself")

    run = small.self_train("probability", rounds=1, **QUIET)
    for own in ({"stop": Broken(0.0)}, {"labels": BrokenName()}):
        with pytest.raises(error, match="of the rule itself") as caught:
            small.resume(run, **own, **QUIET)
        assert not isinstance(caught.value, bpls.BPLSError)
