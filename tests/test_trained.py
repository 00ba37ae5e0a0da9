"""What was trained, in use: class probabilities, labels, and the posterior of the final model for ArviZ."""

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import reference
import xarray as xr
from scipy.special import expit
from scipy.stats import norm

import pymc_bpls as bpls
from pymc_bpls.trained.result import group

QUIET = {"progressbar": False}
TEST = np.arange(20, 26)
ONE_CORE = {"cores": 1, "chains": 2, "progressbar": False}


@pytest.fixture(scope="module")
def run(small, table):
    return small.self_train("ppp", approximation="laplace", rounds=4, test=(TEST, table[2][TEST]), **QUIET)


@pytest.fixture(scope="module")
def gaussian(small, run):
    return small.sample(run, method="gaussian", draws=500, random_seed=0, **QUIET)


def posterior_of(X, run):
    """Mode and covariance of the logistic posterior on the rows of D, by hand."""
    D = run["labeled"].to_dataset()
    A, b = X[D["row"]], run["unconstrained"]["mode"].to_numpy()
    p = expit(A @ b)
    np.testing.assert_allclose(A.T @ (D["label"] - p).to_numpy() - b / 2.5**2, 0, atol=1e-6)
    return b, np.linalg.inv((A.T * (p * (1 - p))) @ A + np.eye(2) / 2.5**2)


# class probabilities


def test_probabilities_at_the_mode_and_over_the_gaussian_are_those_by_hand(small, table, run):
    X, _, _ = table
    mode, covariance = posterior_of(X, run)
    found = small.predict_proba(result=run, by="mode")
    np.testing.assert_allclose(found[:, 1], expit(X @ mode), atol=1e-8)
    z = np.linspace(-9, 9, 4001)
    spread = np.sqrt(np.einsum("ij,jk,ik->i", X, covariance, X))
    by_hand = (expit((X @ mode)[:, None] + spread[:, None] * z) * norm.pdf(z)).sum(axis=1) * (z[1] - z[0])
    averaged = small.predict_proba(result=run)
    np.testing.assert_allclose(averaged[:, 1], by_hand, atol=1e-7)
    np.testing.assert_array_equal(small.predict_proba(result=run, by="gaussian"), averaged)


def test_the_gaussian_of_a_run_by_ep_is_ep_s(small, table):
    X, _, _ = table
    run = small.self_train("ppp", approximation="ep", rounds=4, **QUIET)
    D = run["labeled"].to_dataset()
    grid = np.stack(np.meshgrid(*[np.linspace(-12, 12, 401)] * 2, indexing="ij"), -1).reshape(-1, 2)
    log_p = -np.logaddexp(0, -(grid @ (X[D["row"]] * (2 * D["label"].to_numpy() - 1)[:, None]).T)).sum(1)
    weights = np.exp(log_p - 0.5 * (grid**2).sum(1) / 2.5**2 - log_p.max())
    exact = (expit(grid @ X.T) * weights[:, None]).sum(0) / weights.sum()
    mode, covariance = posterior_of(X, run)
    spread = np.sqrt(np.einsum("ij,jk,ik->i", X, covariance, X))
    z = np.linspace(-8, 8, 801)
    laplace = (expit((X @ mode)[:, None] + spread[:, None] * z) * norm.pdf(z)).sum(axis=1) * (z[1] - z[0])
    found = small.predict_proba(result=run, by="gaussian")[:, 1]
    assert np.abs(found - exact).max() < min(2e-3, 0.3 * np.abs(laplace - exact).max())


def test_without_a_result_it_is_the_supervised_model(small, at_mode, table):
    X, y, _ = table
    fit = small.fit().unconstrained.to_numpy()
    np.testing.assert_allclose(at_mode.predict_proba()[:, 1], expit(X @ fit), atol=1e-8)
    averaged = bpls.BPLS(reference.logistic(X, y), predictor="ep")
    np.testing.assert_allclose(averaged.predict_proba(), small.predict_proba(by="gaussian"), atol=1e-12)
    np.testing.assert_allclose(averaged.predict_proba(by="mode"), at_mode.predict_proba(), atol=1e-12)


def test_probabilities_over_draws_are_pymc_s_own(small, table, run, gaussian):
    X, _, _ = table
    new = np.column_stack([np.ones(5), np.linspace(-3, 3, 5)])
    with pm.Model() as by_hand:
        b = pm.Normal("b", 0, 2.5, shape=2)
        pm.Deterministic("p", pm.math.sigmoid(np.concatenate([X, new]) @ b))
    draws = group(gaussian, "posterior")[["b"]]
    p = pm.compute_deterministics(draws, model=by_hand, var_names=["p"], progressbar=False)["p"]
    found = small.predict_proba(result=gaussian)
    np.testing.assert_allclose(found[:, 1], p.mean(("chain", "draw"))[:26], atol=1e-12)
    np.testing.assert_array_equal(found, small.predict_proba(result=gaussian, by="draws"))
    left = group(gaussian, "predictions")
    sd = p.isel(p_dim_0=left["row"].to_numpy()).std(("chain", "draw"))
    np.testing.assert_allclose(left["probability_sd"].sel({"class": 1}), sd, atol=1e-12)


@pytest.mark.parametrize("by", ["mode", "gaussian", "draws"])
def test_new_rows_are_predicted_as_rows_of_the_table_are(table, by):
    X, y, _ = table
    frame = pd.DataFrame(X[20:], columns=["one", "x"], index=pd.Index(list("abcdef"), name="case"))
    with pm.Model(coords={"feature": ["one", "x"]}) as model:
        data = pm.Data("X", X[:20], dims=(None, "feature"))
        pm.Bernoulli("label", logit_p=data @ pm.Normal("b", 0, 2.5, dims="feature"), observed=y[:20])
    pls = bpls.BPLS(model)
    result = pls.self_train(rounds=3, **QUIET)
    whole = bpls.BPLS(reference.logistic(X, y), unlabeled=np.arange(12, 20))
    other = whole.self_train(rounds=3, **QUIET)
    if by == "draws":
        result, other = (each.sample(r, method="gaussian", random_seed=2) for each, r in ((pls, result), (whole, other)))
    found = pls.predict_proba({"X": frame[["x", "one"]]}, result=result, by=by)
    np.testing.assert_allclose(found, whole.predict_proba(np.arange(20, 26), result=other, by=by), atol=1e-9)
    assert bpls.read_index(found).equals(frame.index) and found["row"].to_numpy().tolist() == list(range(6))
    classes = pls.predict({"X": frame}, result=result, by=by)
    np.testing.assert_array_equal(classes, (found[:, 1] > 0.5).astype(int))
    assert bpls.read_index(classes).equals(frame.index)


def test_a_set_predicts_by_the_member_that_its_run_ended_with(table):
    X, y, _ = table
    robust = bpls.ModelSet(bpls.prior_set(reference.logistic(X, y), "b", scale=[0.5, 1.0]))
    run = robust.self_train(rounds=3, **QUIET)
    expected = expit(X @ run["unconstrained"]["mode"].to_numpy())
    np.testing.assert_allclose(robust.predict_proba(result=run, by="mode")[:, 1], expected, atol=1e-8)
    assert (np.abs(robust.predict_proba(result=run, by="gaussian") - 0.5) <= np.abs(expected[:, None] - 0.5) + 0.02).all()
    assert (robust.labels(run)["origin"] == "pseudo-labeled").sum() == 3


def test_results_of_elsewhere_and_ways_that_do_not_exist_are_refused(small, table, run):
    X, y, _ = table
    other = bpls.BPLS(reference.logistic(X[:, :1], y))
    with pytest.raises(bpls.CriterionError, match="no run of this table and model"):
        other.predict_proba(result=run)
    with pytest.raises(bpls.CriterionError, match="no sample of this table and model"):
        other.predict_proba(result=small.sample(run, method="gaussian", draws=2, **QUIET))
    with pytest.raises(bpls.CriterionError, match="no posterior where the likelihood counts twice"):
        small.predict(result=small.exact(method="psis", draws=100, random_seed=0))
    with pytest.raises(bpls.CriterionError, match="neither a run nor a sample"):
        small.labels(small.score())
    with pytest.raises(bpls.CriterionError, match='by="draws" needs draws'):
        small.predict_proba(result=run, by="draws")
    with pytest.raises(bpls.CriterionError, match='by="median" is unknown'):
        small.predict_proba(by="median")
    with pytest.raises(bpls.CriterionError, match='method="grid" is unknown'):
        small.sample(run, method="grid")
    with pytest.raises(bpls.CriterionError, match='cores= is for method="nuts"'):
        small.sample(run, method="gaussian", cores=1)


def test_a_row_without_probabilities_has_no_class(table):
    X, y, _ = table
    far = X.copy()
    far[25, 1] = np.nan
    pls = bpls.BPLS(reference.logistic(far, y), unlabeled=np.arange(12, 20))
    refused = pytest.raises(bpls.RowError, match=r"Rows \[25\] have no class probabilities")
    with pytest.warns(bpls.BPLSWarning, match=r"not finite in rows \[25\].* Impute"), refused:
        pls.predict()
    with pytest.warns(bpls.BPLSWarning, match=r"not finite in rows \[25\]"):
        labels = pls.labels()
    assert labels["class"].isna().to_numpy().nonzero()[0].tolist() == [25] and np.isnan(labels["probability"][25])
    with pytest.raises(bpls.RowError, match=r"test= names rows \[25\], whose data is not finite"):
        pls.self_train("probability", test=([24, 25], [0, 1]), progressbar=False)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("predictor", ["map", "laplace", "ep"])
def test_rows_that_are_not_finite_are_not_computed_with(table, predictor):
    X, y, _ = table
    far = X.copy()
    far[25] = [np.inf, -np.inf]
    p, expected = (
        bpls.BPLS(reference.logistic(rows, y), unlabeled=np.arange(12, 20), predictor=predictor) for rows in (far, X)
    )
    with pytest.warns(bpls.BPLSWarning, match=r"not finite in rows \[25\]"):
        found = p.predict_proba()
    np.testing.assert_allclose(found[:25], expected.predict_proba()[:25], rtol=1e-12)
    assert found[25].isnull().all()


# where labels came from


def test_labels_say_where_each_came_from(small, table, run):
    _, y, _ = table
    labels, history = small.labels(run), run["history"]
    assert labels["origin"].tolist()[:12] == ["labeled"] * 12 and labels["class"].tolist()[:12] == y[:12].tolist()
    added = labels[labels["origin"] == "pseudo-labeled"].sort_values("round")
    assert added.index.tolist() == history["candidate"].to_numpy().tolist()
    assert added["class"].tolist() == history["pseudo_label"].to_numpy().tolist() and added["round"].tolist() == [1, 2, 3, 4]
    assert labels["origin"][TEST].tolist() == ["held out"] * 6
    assert (labels["origin"] == "unlabeled").sum() == 4 and labels["round"].isna().sum() == 22
    p = small.predict_proba(result=run).to_numpy()
    np.testing.assert_allclose(labels["probability"], p[np.arange(26), labels["class"].astype(int)])
    others = labels[labels["origin"].isin(["unlabeled", "held out"])]
    np.testing.assert_array_equal(others["class"], p[others.index].argmax(axis=1))


def test_labels_have_the_user_s_index_and_classes(table):
    X, y, _ = table
    index = pd.MultiIndex.from_product([["a", "b"], range(13)], names=["site", "visit"])
    days = pd.to_datetime(["2020-01-01", "2021-01-01"])
    pls = bpls.BPLS(reference.logistic(X, y), classes=days, index=index)
    run = pls.self_train("probability", stop=bpls.NoGain([1, 2]), rounds=2, **QUIET)
    labels = pls.labels(run)
    assert labels.index.equals(index) and set(labels["class"]) <= set(days)
    assert labels["origin"].iloc[[1, 2]].tolist() == ["set aside"] * 2
    assert labels["class"].iloc[[1, 2]].tolist() == [days[code] for code in y[[1, 2]]]
    assert pls.labels()["origin"].value_counts().to_dict() == {"labeled": 12, "unlabeled": 14}


def test_a_resumed_run_read_from_a_file_is_used_alike(small, table, run, gaussian, tmp_path):
    part = small.self_train("ppp", approximation="laplace", rounds=2, test=(TEST, table[2][TEST]), **QUIET)
    bpls.save(part, tmp_path / "part.nc")
    with xr.open_datatree(tmp_path / "part.nc", engine="h5netcdf") as tree:
        longer = small.resume(tree.load(), rounds=2, **QUIET)
    bpls.save(longer, tmp_path / "run.nc")
    with xr.open_datatree(tmp_path / "run.nc", engine="h5netcdf") as tree:
        back = tree.load()
    pd.testing.assert_frame_equal(small.labels(back), small.labels(run), rtol=1e-9)
    np.testing.assert_allclose(small.predict_proba(result=back, by="gaussian"), small.predict_proba(result=run, by="gaussian"))
    again = small.sample(back, method="gaussian", draws=500, random_seed=0, **QUIET)
    np.testing.assert_allclose(group(again, "posterior")["b"], group(gaussian, "posterior")["b"], rtol=1e-6)


@pytest.mark.parametrize(
    "index",
    [
        pd.period_range("2020-01", periods=26, freq="M", name="origin"),
        pd.CategoricalIndex(list("abcdefghijklmnopqrstuvwxyz"), name="round"),
        pd.MultiIndex.from_product([["a", "b"], range(13)], names=["site", None]),
    ],
    ids=["periods", "categories", "levels"],
)
def test_every_kind_of_index_survives(table, index, tmp_path):
    X, y, _ = table
    pls = bpls.BPLS(reference.logistic(X, y), index=index)
    run = pls.self_train("probability", rounds=2, **QUIET)
    sample = pls.sample(run, method="gaussian", draws=10, random_seed=0, **QUIET)
    sample.to_netcdf(str(tmp_path / "sample.nc"))
    for held in (sample, az.from_netcdf(str(tmp_path / "sample.nc"))):
        for name in ("predictions", "labeled", "log_likelihood"):
            part = group(held, name)
            assert bpls.read_index(part).equals(index[part["row"].to_numpy()])
            assert bpls.read_index(part).names == index.names
        assert pls.labels(held).index.equals(index)


# the posterior for ArviZ


def test_draws_of_the_gaussian_are_laplace_s(table, run, gaussian):
    mode, covariance = posterior_of(table[0], run)
    draws = group(gaussian, "posterior")["b"].stack(sample=("chain", "draw")).to_numpy()
    np.testing.assert_allclose(draws.mean(axis=1), mode, atol=4 * np.sqrt(covariance.diagonal().max() / 2000))
    np.testing.assert_allclose(np.cov(draws), covariance, atol=0.12 * covariance.diagonal().max())


def test_arviz_takes_the_sample(small, table, run, gaussian, tmp_path):
    X, y, _ = table
    summary = az.summary(gaussian)
    assert summary.index.tolist() == ["b[0]", "b[1]"]
    loo = az.loo(gaussian)
    n = loo.n_data_points
    assert n == 12
    b = group(gaussian, "posterior")["b"].to_numpy()
    log_lik = -np.logaddexp(0, -np.einsum("cdk,ik->cdi", b, X[:12]) * (2 * y[:12] - 1))
    np.testing.assert_allclose(group(gaussian, "log_likelihood")["label"], log_lik, atol=1e-10)
    np.testing.assert_array_equal(group(gaussian, "observed_data")["label"], y[:12])
    drawn = group(gaussian, "posterior_predictive")["label"]
    np.testing.assert_allclose(
        drawn.mean(("chain", "draw")), expit(np.einsum("cdk,ik->cdi", b, X[:12])).mean((0, 1)), atol=0.05
    )
    gaussian.to_netcdf(str(tmp_path / "sample.nc"))
    back = az.from_netcdf(str(tmp_path / "sample.nc"))
    np.testing.assert_allclose(small.predict_proba(result=back), small.predict_proba(result=gaussian), rtol=1e-12)
    pd.testing.assert_frame_equal(small.labels(back), small.labels(gaussian))
    assert small.labels(back)["origin"].equals(small.labels(run)["origin"])


def test_pseudo_labeled_rows_are_marked_and_no_data(run, gaussian):
    D, predictions = group(gaussian, "labeled"), group(gaussian, "predictions")
    added = run["history"]["candidate"].to_numpy()
    assert D["row"][D["origin"] == "pseudo-labeled"].to_numpy().tolist() == added.tolist()
    assert D["round"].to_numpy()[-4:].tolist() == [1, 2, 3, 4]
    assert sorted(predictions["row"][predictions["origin"] == "pseudo-labeled"].to_numpy()) == sorted(added)
    assert not np.isin(added, group(gaussian, "log_likelihood")["row"]).any()
    attrs = group(gaussian, "posterior").attrs
    assert (attrs["n_labeled"], attrs["n_pseudo"]) == (12, 4)


@pytest.mark.slow
def test_deterministics_have_the_model_s_dims_and_pymc_s_values():
    rng = np.random.default_rng(0)
    x = rng.normal(size=30)
    y = np.where(np.arange(30) < 15, x + rng.logistic(size=30) > 0, -1).astype(int)
    with pm.Model(coords={"case": [f"c{i}" for i in range(30)], "ward": ["n", "s"]}) as model:
        scale = pm.HalfNormal("scale", 1)
        ward = pm.Deterministic("ward_effect", scale * pm.Normal("z", 0, 1, dims="ward"), dims="ward")
        odds = pm.Deterministic("odds", pm.math.exp(ward[0]))
        eta = pm.Deterministic("eta", ward[np.arange(30) % 2] + x * pm.math.log(odds), dims="case")
        label = pm.Bernoulli("label", logit_p=eta, observed=y, dims="case")
        pm.Deterministic("of the labels", label * 2)
    sample = bpls.BPLS(model).sample(method="gaussian", draws=20, chains=2, random_seed=0, **QUIET)
    posterior = group(sample, "posterior")
    assert set(posterior.data_vars) == {"scale", "z", "ward_effect", "odds", "eta"}
    expected = pm.compute_deterministics(
        posterior[["scale", "z"]], model=model, var_names=["ward_effect", "odds", "eta"], **QUIET
    )
    for name in ("ward_effect", "odds", "eta"):
        xr.testing.assert_allclose(posterior[name].drop_attrs(), expected[name].drop_attrs())


@pytest.mark.slow
def test_a_dim_of_rows_that_a_pool_makes_longer_has_a_name_of_its_own(table):
    X, y, _ = table
    with pm.Model(coords={"row": list("abcdefghijkl")}) as model:
        data = pm.Data("X", X[:12], dims=("row", None))
        eta = pm.Deterministic("eta", data @ pm.Normal("b", 0, 2.5, shape=2), dims="row")
        pm.Bernoulli("label", logit_p=eta, observed=y[:12], dims="row")
    sample = bpls.BPLS(model, pool={"X": X[12:]}).sample(method="gaussian", draws=20, random_seed=0, **QUIET)
    posterior = group(sample, "posterior")
    assert posterior["eta"].dims == ("chain", "draw", "eta_dim_0")
    np.testing.assert_allclose(posterior["eta"], posterior["b"].to_numpy() @ X.T)


@pytest.mark.slow
def test_draws_of_nuts_are_those_of_nuts_by_hand(small, table, run):
    X, _, _ = table
    D = run["labeled"].to_dataset()
    with reference.logistic(X[D["row"]], D["label"].to_numpy()):
        by_hand = pm.sample(1000, tune=1000, random_seed=1, compute_convergence_checks=False, **ONE_CORE)
    sample = small.sample(run, random_seed=2, **ONE_CORE)
    expected, found = (az.summary(each, var_names=["b"], round_to="none") for each in (by_hand, sample))
    error = np.hypot(expected["mcse_mean"].astype(float), found["mcse_mean"].astype(float))
    assert (np.abs(expected["mean"] - found["mean"]) < 4 * error).all()
    np.testing.assert_allclose(found["sd"].astype(float), expected["sd"].astype(float), rtol=0.1)
    assert group(sample, "posterior").attrs["reliable"] == 1 and "diverging" in group(sample, "sample_stats")
    with reference.logistic(X, np.zeros(26, int)):
        labels = pm.sample_posterior_predictive(sample, var_names=["label"], random_seed=3, progressbar=False)
    frequencies = group(labels, "posterior_predictive")["label"].mean(("chain", "draw"))
    np.testing.assert_allclose(small.predict_proba(result=sample)[:, 1], frequencies, atol=4 * np.sqrt(0.25 / 2000))


@pytest.mark.slow
def test_rows_that_depend_on_each_other_have_predictions_and_no_likelihood_of_their_own():
    import pytensor.tensor as pt

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=14), np.r_[rng.integers(0, 2, 8), np.full(6, -1)]
    with pm.Model() as model:
        seen = pm.Data("seen", y)
        eta = pm.Normal("b", 0, 1) * x + pm.Normal("phi", 0, 1) * pt.concatenate([[0.0], seen[:-1]])
        pm.Bernoulli("label", logit_p=eta, observed=seen)
    pls = bpls.BPLS(model)
    sample = pls.sample(method="gaussian", draws=400, random_seed=0, **QUIET)
    assert "log_likelihood" not in sample and group(sample, "predictions").sizes["row"] == 6
    p = pls.predict_proba(np.arange(8, 14), by="gaussian")
    np.testing.assert_allclose(group(sample, "predictions")["probability"], p, atol=0.03)


# exact values


@pytest.mark.slow
def test_draws_of_the_doubled_likelihood_say_so(sim1_informed):
    options = {"draws": 100, "tune": 100, "random_seed": 1, "absolute": False, **ONE_CORE}
    with pytest.warns(bpls.BPLSWarning, match="not reliable"):
        doubled, ordinary = (sim1_informed.exact(name, **options) for name in ("ppp", "marginal_likelihood"))
    assert [each["posterior"].attrs["likelihood_power"] for each in (doubled, ordinary)] == [2, 1]
    assert "D counts twice" in repr(doubled["posterior"]) and "D counts twice" in repr(doubled)
    assert "counts twice" not in repr(ordinary)
