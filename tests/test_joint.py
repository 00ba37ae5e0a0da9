"""Rows that depend on each other given θ: against likelihoods, refits and quadrature written from scratch."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import scipy.optimize
from scipy.special import expit, logsumexp, softmax
from scipy.stats import kendalltau, multivariate_normal, norm

import pymc_bpls as bpls
from pymc_bpls.errors import ApproximationError, CriterionError, ModelError, RowError
from pymc_bpls.sklearn import BPLSClassifier

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning"),
    pytest.mark.filterwarnings("ignore:The exact reference is not reliable:pymc_bpls.BPLSWarning"),
]
rng = np.random.default_rng(3)
N, SCALE = 22, np.array([1.5, 1.5])
x = rng.normal(size=N)
TRUTH = np.zeros(N, dtype=int)
for t in range(N):
    TRUTH[t] = rng.random() < expit(x[t] - 1 + 2 * (TRUTH[t - 1] if t else 0))
LABELED = np.r_[0:6, 8:13, 15]  # with gaps, so that candidates come between labeled rows too
POOL = np.setdiff1d(np.arange(N), LABELED)
Y = np.where(np.isin(np.arange(N), LABELED), TRUTH, -1)


def lagged(x=x, y=Y):
    """Logit with the label before: offset x, intercept and the lag's coefficient."""
    with pm.Model() as model:
        labels = pm.Data("y", y)
        a, phi = pm.Normal("a", 0, SCALE[0]), pm.Normal("phi", 0, SCALE[1])
        lag = pt.concatenate([[0.0], labels[:-1]])
        pm.Bernoulli("label", logit_p=pm.Data("x", x) + a + phi * lag, observed=labels)
    return model


def L(theta, rows, labels):
    """The joint log-likelihood of `rows`, in their order; theta (..., 2)."""
    theta = np.asarray(theta)[..., None]
    eta = x[rows] + theta[..., 0, :] + theta[..., 1, :] * np.r_[0.0, labels[:-1]]
    return -np.logaddexp(0, np.where(labels == 1, -eta, eta)).sum(axis=-1)


def log_prior(theta):
    return norm.logpdf(theta, 0, SCALE).sum(axis=-1)


def with_row(row, label):
    """D and one row, in the table's order."""
    rows = np.r_[LABELED, row]
    order = np.argsort(rows)
    return rows[order], np.r_[TRUTH[LABELED], label][order]


@pytest.fixture(scope="module")
def pls():
    return bpls.BPLS(lagged())


@pytest.fixture(scope="module")
def scores(pls):
    return pls.score(labels="all", approximation="laplace")


@pytest.fixture(scope="module")
def truth():
    """log PPP and log p(D, i) of every candidate and class (10, 2), by the trapezoidal rule."""
    axes = np.linspace(-8, 8, 301)
    theta = np.stack(np.meshgrid(axes, axes, indexing="ij"), -1).reshape(-1, 2)
    of_D, prior = L(theta, LABELED, TRUTH[LABELED]), log_prior(theta)
    pairs = [[L(theta, *with_row(i, y)) + prior for y in (0, 1)] for i in POOL]
    log_ppp = logsumexp(of_D + pairs, axis=-1) - logsumexp(of_D + prior)
    return log_ppp, logsumexp(pairs, axis=-1) + 2 * np.log(axes[1] - axes[0])


def hessian(function, theta, step=1e-3):
    """−∇² by central differences."""
    q = len(theta)
    eye = step * np.eye(q)
    values = [
        [sum(s * t * function(theta + s * eye[i] + t * eye[j]) for s in (1, -1) for t in (1, -1)) for j in range(q)]
        for i in range(q)
    ]
    return -np.array(values) / (4 * step**2)


def refit(function):
    """The maximum of a function of θ and log det of minus its Hessian there."""
    found = scipy.optimize.minimize(lambda theta: -function(theta), np.zeros(2), method="BFGS", options={"gtol": 1e-7})
    return found.x, np.linalg.slogdet(hessian(function, found.x))[1]


def test_likelihood_and_gradient_are_those_from_scratch(pls):
    engine = pls.engine
    theta = np.array([0.4, 0.8])
    value, gradient, curvature = engine.derivatives(pls.labeled)(theta)

    def expected(theta):
        return L(theta, LABELED, TRUTH[LABELED]) + log_prior(theta)

    np.testing.assert_allclose(value, expected(theta), rtol=1e-12)
    np.testing.assert_allclose(gradient, scipy.optimize.approx_fprime(theta, expected, 1e-7), rtol=1e-5)
    np.testing.assert_allclose(curvature, hessian(expected, theta), rtol=1e-5)


def test_refits_are_those_of_scipy_with_the_row_at_its_place(scores):
    for place in (0, 3, len(POOL) - 1):
        for y in (0, 1):

            def S(theta, row=POOL[place], y=y):
                return L(theta, LABELED, TRUTH[LABELED]) + L(theta, *with_row(row, y)) + log_prior(theta)

            theta, log_det = refit(S)
            one = scores.isel(candidate=place, label=y)
            np.testing.assert_allclose(one.score, S(theta) - 0.5 * log_det, atol=1e-5)
            np.testing.assert_allclose(one.log_lik_labeled, L(theta, LABELED, TRUTH[LABELED]), atol=1e-4)


def test_probabilities_are_those_of_the_row_with_d():
    pls = bpls.BPLS(lagged(), predictor="map")
    theta = pls.fit().unconstrained.to_numpy()
    found = pls.predict_proba()
    row = int(POOL[1])
    expected = softmax([L(theta, *with_row(row, y)) for y in (0, 1)])
    np.testing.assert_allclose(found.sel(row=row), expected, rtol=1e-9)
    inside = TRUTH[LABELED].copy()
    values = []
    for y in (0, 1):
        inside[4] = y
        values.append(L(theta, LABELED, inside))
    np.testing.assert_allclose(found.sel(row=int(LABELED[4])), softmax(values), rtol=1e-9)


@pytest.mark.slow
def test_absolute_values_are_near_quadrature_by_laplace_and_nearer_by_vi(scores, pls, truth):
    np.testing.assert_allclose(scores["log_ppp"], truth[0], atol=0.1)
    for criterion, name, exact in zip(("ppp", "marginal_likelihood"), ("log_ppp", "log_evidence"), truth, strict=True):
        vi = pls.score(criterion, approximation="vi", labels="all")[name].to_numpy()
        np.testing.assert_allclose(vi, exact, atol=0.03)
        assert vi.argmax() == exact.argmax()


@pytest.mark.parametrize("method", ["psis", "nuts"])
def test_exact_values_are_those_of_quadrature(pls, truth, method):
    nuts = {"draws": 400, "tune": 400, "chains": 2, "cores": 1, "progressbar": False, "absolute": False}
    run = pls.exact(method=method, labels="all", random_seed=1, **(nuts if method == "nuts" else {}))
    found, truth = run["exact"].to_dataset(), truth[0]
    if method == "psis":
        error = np.hypot(found["mcse"].to_numpy(), run.attrs["log_normalizer_error"])
        assert error.max() < 0.1
        assert np.abs((found["log_ppp"].to_numpy() - truth) / error).max() < 4
    best = np.unravel_index(found["log_predictive"].to_numpy().argmax(), truth.shape)
    others = np.ones(truth.shape, dtype=bool)
    others[best] = False
    paired = (found["diff_to_best"].to_numpy() - (truth - truth[best]))[others] / found["diff_to_best_mcse"].to_numpy()[others]
    assert np.abs(paired).max() < 4
    assert kendalltau(found["log_predictive"], truth).statistic > 0.95


def test_the_audit_compares_with_the_joint_values(pls, truth):
    audit = pls.audit(("ppp[vi]", "ppp[ep]"), exact=truth[0], labels="all")
    assert audit.agreement["tau"].sel(criterion="ppp[vi]") > 0.95
    assert list(audit.refused) == ["ppp[ep]"]


def test_order_matters(pls):
    order = np.random.default_rng(0).permutation(N)
    moved = bpls.BPLS(lagged(x[order], Y[order])).score("probability", labels="all")
    moved = moved.assign_coords(candidate=order[moved["candidate"]]).sortby("candidate")
    assert np.abs(moved["score"] - pls.score("probability", labels="all")["score"]).max() > 0.1
    D, row = order[np.isin(order, LABELED)], int(POOL[0])
    rows = order[np.isin(order, np.r_[D, row])]
    theta, _ = refit(lambda theta: L(theta, D, TRUTH[D]) + log_prior(theta))
    expected = softmax([L(theta, rows, np.where(rows == row, y, TRUTH[rows])) for y in (0, 1)])
    np.testing.assert_allclose(moved["score"].sel(candidate=row), expected, atol=1e-6)


def test_rows_of_a_pool_come_after_the_table(pls):
    found = bpls.BPLS(lagged(x[:16], Y[:16]), pool={"x": x[16:]}).score("probability", labels="all")
    np.testing.assert_allclose(found["score"], pls.score("probability", labels="all")["score"], atol=1e-9)


def test_a_run_adds_rows_at_their_places(pls):
    run = pls.self_train("probability", rounds=2, test=(POOL[-2:], TRUTH[POOL[-2:]]), progressbar=False)
    added = run["history"]["candidate"].to_numpy()
    rows = np.sort(np.r_[LABELED, added])
    labels = TRUTH.copy()
    labels[added] = run["history"]["pseudo_label"].to_numpy()
    theta, _ = refit(lambda theta: L(theta, rows, labels[rows]) + log_prior(theta))
    np.testing.assert_allclose(run["unconstrained"]["mode"], theta, atol=1e-5)
    assert np.isfinite(run["curve"]["log_score"]).all()
    compiled = pls.compilations.sizes["compilation"]
    again = pls.self_train("probability", rounds=2, test=(POOL[-2:], TRUTH[POOL[-2:]]), progressbar=False)
    np.testing.assert_array_equal(again["history"]["score"], run["history"]["score"])
    assert pls.compilations.sizes["compilation"] == compiled


@pytest.fixture(scope="module")
def independent():
    """One model by rows, and with its log-likelihood as one number."""

    def together(value, eta):
        return pt.sum(pt.switch(value > 0, -pt.softplus(-eta), -pt.softplus(eta)))

    found = []
    for joint in (False, True):
        with pm.Model() as model:
            eta = pm.Normal("a", 0, 2) + x * pm.Normal("b", 0, 2)
            if joint:
                pm.CustomDist("label", eta, logp=together, signature="(n)->(n)", observed=Y)
            else:
                pm.Bernoulli("label", logit_p=eta, observed=Y)
        found.append(bpls.BPLS(model, classes=[0, 1]))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("form", ["ppp", "probability"])
def test_independent_rows_score_as_they_do_one_by_one(independent, form):
    by_row, jointly = (pls.score(form, approximation="laplace") for pls in independent)
    np.testing.assert_allclose(jointly["score"], by_row["score"], atol=1e-8)


def test_a_covariance_is_cut_in_both_directions():
    distance = np.abs(x[:, None] - x)
    with pm.Model() as model:
        scale, length = pm.HalfNormal("scale", 1), pm.LogNormal("length", 0, 0.5)
        K = scale**2 * pt.exp(-distance / length) + 0.3 * pt.eye(N)
        pm.MvNormal("label", mu=0.5, cov=K, observed=Y.astype(float))
    theta, (rows, _) = np.array([-0.3, 0.2]), with_row(POOL[2], 1)
    K = np.exp(-0.6) * np.exp(-distance / np.exp(0.2)) + 0.3 * np.eye(N)
    expected = multivariate_normal(np.full(len(rows), 0.5), K[np.ix_(rows, rows)]).logpdf(TRUTH[rows])
    joint = bpls.BPLS(model, classes=[0, 1]).scorer.problem.density.joint
    np.testing.assert_allclose(joint(theta, TRUTH[rows], rows, joint.table), expected, rtol=1e-9)


def multivariate(**parameters):
    with pm.Model() as model:
        scale = pm.HalfNormal("scale")
        held = {name: scale * value for name, value in parameters.items()}
        pm.MvNormal("label", mu=np.zeros(N), **held, observed=Y.astype(float))
    return model


def test_a_factor_is_cut_by_rows_and_a_precision_matrix_is_refused():
    K = np.exp(-np.abs(x[:, None] - x)) + 0.3 * np.eye(N)
    pls = bpls.BPLS(multivariate(chol=np.linalg.cholesky(K)), classes=[0, 1])
    expected = multivariate_normal(np.zeros(4), K[np.ix_(POOL[:4], POOL[:4])]).logpdf([0, 1, 1, 0])
    joint = pls.scorer.problem.density.joint
    found = joint(np.zeros(1), np.array([0, 1, 1, 0]), POOL[:4], joint.table)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    with pytest.raises(ModelError, match="not the marginal of that of all rows, as where a precision matrix is cut"):
        bpls.BPLS(multivariate(tau=np.linalg.inv(K)), classes=[0, 1])


def test_lags_of_data_in_autoregressive_errors():
    with pm.Model() as model:
        X, y = pm.Data("X", x[:, None]), pm.Data("y", Y.astype(float))
        b, phi = pm.Normal("b", shape=1), pm.Normal("phi", 0, 0.5)
        lag = pt.concatenate([[0.0], y[:-1] - X[:-1] @ b])
        pm.Normal("label", X @ b + phi * lag, 0.5, observed=y)
    joint = bpls.BPLS(model, classes=[0, 1]).scorer.problem.density.joint
    rows, labels = with_row(POOL[0], 1)
    residual = labels - 0.7 * x[rows]
    expected = norm.logpdf(residual, 0.4 * np.r_[0.0, residual[:-1]], 0.5).sum()
    np.testing.assert_allclose(joint(np.array([0.7, 0.4]), labels, rows, joint.table), expected, rtol=1e-9)


def refused(kind):
    y = np.where(Y < 0, -1, Y)
    with pm.Model() as model:
        labels = pm.Data("y", y)
        lag, phi = pt.concatenate([[0.0], labels[:-1]]), pm.Normal("phi")
        if kind == "latent":
            f = pm.AR("f", rho=np.array([0.7]), sigma=0.8, init_dist=pm.Normal.dist(0, 1, shape=1), shape=N)
            eta = f + phi * lag
        elif kind == "baked":
            eta = phi * lag * pt.concatenate([[0.0], np.diff(x)])[::-1] + pt.concatenate([[0.0], phi * np.diff(x)])
        pm.Bernoulli("label", logit_p=eta, observed=labels)
    return model


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("latent", r'dependent given the parameters, and "f" has a value for each of them. Declare'),
        ("baked", r"data of shape \(21,\) has no entry for some of them"),
    ],
)
def test_what_cannot_be_made_for_fewer_rows_is_refused(kind, message):
    with pytest.raises(ModelError, match=message):
        bpls.BPLS(refused(kind))


def test_a_matrix_that_can_be_cut_in_two_ways_is_refused():
    factor = pt.as_tensor(np.linalg.cholesky(np.exp(-np.abs(x[:, None] - x)) + np.eye(N)))

    def logp(value, scale):
        return -0.5 * pt.sum(((scale[0] * factor.T) @ value) ** 2)

    with pm.Model() as model:
        pm.CustomDist("label", pm.HalfNormal("scale") * np.ones(N), logp=logp, signature="(n)->(n)", observed=Y)
    with pytest.raises(ModelError, match=r"data of shape \(22, 22\) can be cut to fewer of them in ways that differ"):
        bpls.BPLS(model, classes=[0, 1])


def test_what_needs_single_rows_is_refused(pls):
    with pytest.raises(ApproximationError, match="rows with one predictor"):
        pls.score(approximation="ep")
    with pytest.raises(CriterionError, match="depend on each other, so that none can weigh less than another"):
        pls.self_train(pseudo_weight=0.5, progressbar=False, approximation="laplace")
    with pytest.raises(ModelError, match="none has a log-likelihood of its own"):
        BPLSClassifier(lambda X, y: lagged(X[:, 0], y)).fit(x[:, None], Y)
    with pytest.raises(RowError, match="cannot be evaluated apart from its table"):
        pls.self_train(test=({"x": x[:2]}, [0, 1]), progressbar=False, approximation="laplace")


def test_a_lag_made_outside_the_model_is_warned_of():
    y = np.array([0, 1, 1, 0, 1, 0, -1, -1, -1])
    with pm.Model() as model:
        pm.Bernoulli("label", logit_p=pm.Normal("phi", 0, 1) * np.r_[0.0, y[:-1]], observed=y)
    with pytest.warns(bpls.BPLSWarning, match="one row later, with -1 where there is none"):
        bpls.BPLS(model)
