"""Bambi models: predictions against Bambi's own, scores against SciPy's refit, labels against the data frame."""

from __future__ import annotations

from functools import cache

import arviz
import bambi as bmb
import numpy as np
import pandas as pd
import pytest
import scipy.optimize
import xarray as xr

import pymc_bpls as bpls
from pymc_bpls.bambi import from_bambi

# Bambi selects columns in a way that pandas will change
pytestmark = pytest.mark.filterwarnings("ignore:For backward compatibility, 'str' dtypes")

N, N_LABELED = 60, 30
MASK = np.arange(N) >= N_LABELED
SPLINE = {"bs(x, df=5)": bmb.Prior("Normal", mu=0, sigma=2)}  # Bambi's own scaling of this prior raises a ValueError
GP = "hsgp(x, m=10, c=1.5)"


def _frame():
    rng = np.random.default_rng(0)
    x, z, g = rng.normal(1.5, 1, size=N), rng.normal(size=N), rng.integers(0, 4, N)
    eta = x - 1.5 + 0.7 * z + 0.5 * (g - 1.5)
    b = (eta + rng.logistic(size=N) > 0).astype(int)
    k = np.digitize(eta + rng.logistic(size=N), [-0.8, 0.8])
    return pd.DataFrame(
        {
            "x": x,
            "z": z,
            "g": np.array(list("abcd"))[g],
            "number": b,
            "truth": b.astype(bool),
            "mail": np.array(["spam", "ham"])[b],
            "category": pd.Categorical(np.array(["no", "yes"])[b], categories=["yes", "no"]),
            "code": pd.Categorical(np.array([10, 20])[b]),
            "kind": np.array(["zeta", "alpha", "beta"])[k],
            "grade": pd.Categorical.from_codes(k, ["low", "middle", "high"], ordered=True),
            "one": 1,
            "three": 3,
        },
        index=pd.Index(np.arange(N) + 100, name="patient"),
    )


FRAME = _frame()


def given(column, mask=MASK):
    """A column of the frame whose labels are missing in the rows of a mask."""
    return FRAME[column].astype(object).where(~mask, None)


#: formula, family, options, names of the mode's variables
KINDS = {
    "numbers": ("number ~ x + z", "bernoulli", {}, {"Intercept", "x", "z"}),
    "groups": ("mail['ham'] ~ x + (1|g)", "bernoulli", {}, {"Intercept", "x", "1|g", "1|g_sigma"}),
    "spline": ("truth ~ bs(x, df=5)", "bernoulli", {"priors": SPLINE}, {"Intercept", "bs(x, df=5)"}),
    "hsgp": (
        f"number ~ z + {GP}",
        "bernoulli",
        {},
        {"Intercept", "z", *(f"{GP}_{part}" for part in ("sigma", "ell", "weights_raw", "weights"))},
    ),
    "categorical": ("kind ~ x + g + (1|g)", "categorical", {}, {"Intercept", "x", "g", "1|g", "1|g_sigma"}),
    "cumulative": ("grade ~ 0 + x", "cumulative", {}, {"threshold", "x"}),
}


@cache
def _declared(kind):
    formula, family, options, names = KINDS[kind]
    model = bmb.Model(formula, FRAME, family=family, **options)
    column = formula.split(" ")[0].removesuffix("['ham']")
    return model, bpls.BPLS(model, observed=given(column)), names


@pytest.fixture(scope="module", params=KINDS)
def declared(request):
    """A Bambi model, BPLS of it, and the names of its parameters."""
    return _declared(request.param)


@pytest.fixture(scope="module")
def numbers():
    """BPLS of a logistic model with Bambi's default priors."""
    return _declared("numbers")[1]


def bambis_probabilities(model, posterior):
    """The likelihood's p by `model.predict`, (chain, draw, row, class)."""
    old = arviz.__version__.startswith("0.")
    idata = arviz.InferenceData(posterior=posterior) if old else xr.DataTree.from_dict({"posterior": posterior})
    p = np.asarray(model.predict(idata, kind="response_params", inplace=False)["posterior"]["p"])
    return p if p.ndim == 4 else np.stack([1 - p, p], axis=-1)


def test_the_mode_is_in_bambis_parameters_and_bambi_predicts_the_same_from_it(declared):
    model, pls, names = declared
    mode = pls.fit().mode
    assert set(mode.data_vars) == names
    expected = bambis_probabilities(model, mode.expand_dims(chain=[0], draw=[0]))[0, 0]
    np.testing.assert_allclose(pls.predict_proba(by="mode"), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("formula", "family", "classes"),
    [
        ("number ~ x", "bernoulli", None),
        ("truth ~ x", "bernoulli", [False, True]),
        ("mail ~ x", "bernoulli", ["spam", "ham"]),
        ("mail['spam'] ~ x", "bernoulli", ["ham", "spam"]),
        ("category ~ x", "bernoulli", ["yes", "no"]),
        ("code ~ x", "bernoulli", [20, 10]),
        ("kind ~ x", "categorical", ["alpha", "beta", "zeta"]),
        ("grade ~ 0 + x", "cumulative", ["low", "middle", "high"]),
        ("grade ~ 0 + x", "sratio", ["low", "middle", "high"]),
    ],
)
def test_classes_are_the_values_in_the_data_frame(formula, family, classes):
    model = bmb.Model(formula, FRAME, family=family)
    read = from_bambi(model, given(formula.split(" ")[0].removesuffix("['spam']")))
    assert (read.classes if classes is None else read.classes.tolist()) == classes
    codes = np.asarray(read.model.rvs_to_values[read.model[read.target]].eval()).astype(int)
    names = np.arange(2) if classes is None else read.classes
    assert names[codes].tolist() == FRAME[read.target].tolist()


def test_positions_are_those_of_the_mask():
    read = from_bambi(bmb.Model("number ~ x", FRAME, family="bernoulli"), FRAME.number, np.flatnonzero(MASK))
    assert read.unlabeled.tolist() == MASK.tolist() and read.labeled.tolist() == (~MASK).tolist()


def test_one_level_against_the_rest():
    read = from_bambi(bmb.Model("kind['beta'] ~ x", FRAME, family="bernoulli"), given("kind"))
    assert read.classes.tolist() == ["not beta", "beta"]


def test_ppp_is_that_of_a_refit_by_scipy(numbers):
    scores = numbers.score("ppp", approximation="laplace")
    # what Bambi makes of the whole table: predictors are centered, and scale their priors
    own = FRAME.assign(u=FRAME.x - FRAME.x.mean(), v=FRAME.z - FRAME.z.mean()).reset_index()
    scales = {"Intercept": 1.5, "u": 1 / FRAME.x.std(ddof=0), "v": 1 / FRAME.z.std(ddof=0)}
    priors = {name: bmb.Prior("Normal", mu=0, sigma=scale) for name, scale in scales.items()}
    for candidate in (N_LABELED + 3, N_LABELED + 17):
        label = int(scores["pseudo_label"].sel(candidate=candidate))
        rows = pd.concat([own[~MASK], own[~MASK], own.iloc[[candidate]].assign(number=label)])
        model = bmb.Model("number ~ u + v", rows, family="bernoulli", priors=priors, center_predictors=False)
        model.build()
        expected = laplace_score(model.backend.model, list(scales))
        np.testing.assert_allclose(float(scores["score"].sel(candidate=candidate)), expected, atol=1e-5)


def laplace_score(model, names):
    """max log p − ½ log det H by SciPy's minimizer and second differences, for scalar parameters on the real line."""
    log_p = model.compile_logp()

    def value(theta):
        return float(log_p(dict(zip(names, np.asarray(theta), strict=True))))

    def second(i, j, h=1e-3):
        one, two = h * np.eye(len(names))[[i, j]]
        return sum(a * b * value(mode + a * one + b * two) for a in (-1, 1) for b in (-1, 1)) / (4 * h**2)

    mode = scipy.optimize.minimize(lambda t: -value(t), np.zeros(len(names)), method="BFGS", options={"gtol": 1e-6}).x
    hessian = -np.array([[second(i, j) for j in range(len(names))] for i in range(len(names))])
    return value(mode) - 0.5 * np.linalg.slogdet(hessian)[1]


def test_a_run_has_bambis_parameters_and_the_frames_index(numbers):
    run = numbers.self_train(rounds=1, progressbar=False, approximation="laplace")
    assert set(run["final"].data_vars) == {"Intercept", "x", "z"}
    scores = numbers.score("ppp", approximation="ep")
    assert scores["patient"].to_numpy().tolist() == FRAME.index[MASK].tolist()


def test_the_users_classes_and_index_win():
    model = bmb.Model("number ~ x", FRAME, family="bernoulli")
    pls = bpls.BPLS(model, observed=given("number"), classes=["ill", "well"], index=np.arange(N) + 7)
    probabilities = pls.predict_proba([2])
    assert probabilities["class"].to_numpy().tolist() == ["ill", "well"]
    assert probabilities["index"].to_numpy().tolist() == [9]


@pytest.mark.parametrize(
    ("formula", "family", "column", "words"),
    [
        ("x ~ z", "gaussian", "x", '"x" has the family "gaussian".* Use family="bernoulli"'),
        ("number ~ z", "poisson", "number", '"number" has the family "poisson".* Use family="bernoulli"'),
        ("p(number, three) ~ x", "binomial", "number", "counts up to 3 trials.* one row a trial"),
    ],
)
def test_what_cannot_be_used_is_refused(formula, family, column, words):
    with pytest.raises(bpls.BPLSError, match=words):
        bpls.BPLS(bmb.Model(formula, FRAME, family=family), observed=given(column))


OUTSIDE = np.arange(N) >= 45
LABELS = FRAME.number.to_numpy()


def missing(labels, *, value):
    return np.where(MASK, value, labels)


@pytest.mark.parametrize(
    "observed",
    [
        missing(LABELS, value=-1),
        missing(LABELS.astype(float), value=np.nan),
        missing(LABELS.astype(object), value=None).tolist(),
        FRAME.number.astype("Int64").where(~MASK),
        pd.Series(pd.array(LABELS, dtype="Int64"), index=FRAME.index).where(~MASK).astype("category"),
        np.ma.masked_array(LABELS, MASK),
    ],
    ids=["-1", "NaN", "None", "Int64", "category", "masked"],
)
def test_labels_that_are_missing_in_any_way_are_no_labels(observed):
    stand_ins = FRAME.assign(number=np.where(MASK, 0, LABELS))
    model = bmb.Model("number ~ x", stand_ins, family="bernoulli")
    pls = bpls.BPLS(model, observed=observed)
    table = pls.scorer.problem.table
    assert table.labeled.tolist() == np.flatnonzero(~MASK).tolist()
    assert table.candidates.tolist() == np.flatnonzero(MASK).tolist()
    held_out = bpls.BPLS(model, observed=observed, unlabeled=MASK & ~OUTSIDE).scorer.problem.table
    assert held_out.labeled.tolist() == table.labeled.tolist() and held_out.candidates.tolist() == list(range(N_LABELED, 45))


def test_stand_ins_change_nothing():
    fits = []
    for stand_in in (0, 1):
        model = bmb.Model("number ~ x + z", FRAME.assign(number=np.where(MASK, stand_in, LABELS)), family="bernoulli")
        pls = bpls.BPLS(model, observed=given("number"), unlabeled=np.arange(N_LABELED, 45))
        fits.append((pls.predict_proba().to_numpy(), pls.score("probability")["score"].to_numpy()))
    for one, other in zip(*fits, strict=True):
        np.testing.assert_array_equal(one, other)
    held_back = bpls.BPLS(bmb.Model("number ~ x + z", FRAME, family="bernoulli"), observed=FRAME.number.where(~MASK))
    np.testing.assert_array_equal(held_back.predict_proba(), fits[0][0])


def test_labels_of_candidates_are_not_used_and_that_is_said():
    model = bmb.Model("number ~ x", FRAME, family="bernoulli")
    with pytest.warns(bpls.BPLSWarning, match='lists 30 rows of "number" that hold a label'):
        pls = bpls.BPLS(model, observed=FRAME.number, unlabeled=np.flatnonzero(MASK))
    assert len(pls.scorer.problem.table.labeled) == N_LABELED


@pytest.mark.parametrize(
    ("observed", "unlabeled", "words"),
    [
        (None, MASK, r'in each of the 60 rows of "number", and cannot say which were made up.* observed=, with None'),
        (given("number"), MASK[:5], "a mask of 5 rows and the table has 60"),
        (LABELS[:7], -1, r'"number" has 60 rows and observed= the shape \(7,\)'),
        (1 - LABELS, -1, r'other labels than the frame of "number" in 60 rows, the first is .* in row 100'),
        (given("number")[::-1], -1, "observed= is a Series whose index is not that of its rows"),
        (missing(LABELS, value=9), -1, "other labels than the frame .* in 30 rows, the first is 9"),
    ],
)
def test_labels_that_are_not_those_of_the_frame_are_refused(observed, unlabeled, words):
    with pytest.raises(bpls.BPLSError, match=words):
        bpls.BPLS(bmb.Model("number ~ x", FRAME, family="bernoulli"), observed=observed, unlabeled=unlabeled)


def test_rows_that_bambi_drops_are_refused_with_the_cure_of_what_is_missing():
    holed = FRAME.assign(x=FRAME.x.where(FRAME.index != 103))
    model = bmb.Model("number ~ x", holed, family="bernoulli", dropna=True)
    with pytest.raises(bpls.RowError, match=r'"number" has 59 rows and its data frame 60.* before giving the frame to Bambi'):
        bpls.BPLS(model, observed=given("number"))
    model = bmb.Model("number ~ x", FRAME.assign(number=given("number").astype(float)), family="bernoulli", dropna=True)
    with pytest.raises(bpls.RowError, match=r'"number" has 30 rows .* Fill missing labels, as .* in observed='):
        bpls.BPLS(model)


def test_observed_goes_with_bambi_alone():
    with pytest.raises(bpls.LabelError, match=r"observed= goes with a bambi.Model"):
        bpls.BPLS(from_bambi(bmb.Model("number ~ x", FRAME, family="bernoulli"), FRAME.number).model, observed=LABELS)


def test_what_bambi_cannot_build_is_passed_on():
    effects = bmb.Prior("Laplace", mu=0, b=bmb.Prior("HalfNormal", sigma=1))
    model = bmb.Model("number ~ x + (1|g)", FRAME, family="bernoulli", priors={"1|g": effects}, auto_scale=False)
    with pytest.raises(bpls.ModelError, match=r"Bambi 0.* with PyMC .*only supported for Normal.*pymc-bpls\[bambi\]"):
        bpls.BPLS(model, observed=given("number"))


def test_a_sparse_design_is_refused():
    model = bmb.Model("number ~ x + (1|g)", FRAME, family="bernoulli")
    bmb.config["SPARSE_DOT"] = True
    try:
        with pytest.raises(bpls.ModelError, match=r'"number" takes .* sparse .*"SPARSE_DOT"\] = False'):
            bpls.BPLS(model, observed=given("number"))
    finally:
        bmb.config["SPARSE_DOT"] = False


def test_one_trial_a_row_is_a_classifier():
    read = from_bambi(bmb.Model("p(number, one) ~ x", FRAME, family="binomial"), given("number"))
    assert read.target == "p(number, one)" and read.classes is None


# New rows


def test_new_rows_are_referred_to_bambi_whose_predictions_are_the_same():
    """What the message says: Bambi's predictions by the draws are the averages over them."""
    model = bmb.Model("number ~ x + g", FRAME, family="bernoulli")
    pls = bpls.BPLS(model, observed=given("number"))
    new = FRAME[["x", "g"]].iloc[:5]
    for rows in (new, dict(new), {"x": [0.5]}):
        with pytest.raises(bpls.RowError, match=r"Predict them by Bambi: model\.predict\(pls\.sample\(\), kind="):
            pls.predict_proba(rows)
    for called, call in (
        ("test", lambda: pls.self_train(test=(new, [0] * 5), progressbar=False)),
        ("pool", lambda: bpls.BPLS(model, observed=given("number"), pool=new)),
        ("grid", lambda: bpls.plot_decision(pls, FRAME["x"], FRAME["z"], grid=([0, 1], [0], new))),
    ):
        with pytest.raises(bpls.RowError, match=f"^{called}= holds new rows, .* Put these rows into the frame of the model"):
            call()
    sample = pls.sample(method="gaussian", draws=200, chains=2, random_seed=0, progressbar=False)
    told = model.predict(sample, kind="response_params", data=new, inplace=False)["posterior"]["p"]
    mean = np.asarray(told.mean(("chain", "draw")))
    np.testing.assert_allclose(mean, pls.predict_proba(np.arange(5), result=sample).sel({"class": 1}), rtol=1e-8)
