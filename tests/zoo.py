"""The models that people write, each declared once on any rows of one small table.

`Kind.declare(rows, labels)` declares the model on `rows` (positions in the table, repeats allowed) with their `labels`, so
that a weight of 2 is a row that is there twice. The table of the package is all rows, −1 where unlabeled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

N, N_LABELED, FEATURES, GROUPS = 42, 30, 3, 4
_rng = np.random.default_rng(20230801)
X = _rng.normal(size=(N, FEATURES))
#: What one of each predictor's unit is in those that it is declared in: priors of coefficients are over it.
UNITS = np.ones(FEATURES)
GROUP = np.arange(N) % GROUPS
PERSON, ITEM, PERIOD, REGION = np.arange(N) % 6, np.arange(N) % 5, np.arange(N) % 3, np.arange(N) % 2
_eta = X @ [1.0, -0.8, 0.3] + 0.5 * (GROUP == 1)
BINARY = (_eta + _rng.logistic(size=N) > 0).astype(int)
ORDERED = np.digitize(_eta + _rng.logistic(size=N), [-0.8, 0.9])
LABELED, CANDIDATES = np.arange(N_LABELED), np.arange(N_LABELED, N)


@dataclass(frozen=True)
class Kind:
    """One model: how to declare it, the true labels of the table, and what BPLS has to be told."""

    declare: Callable[[np.ndarray, np.ndarray], pm.Model]
    labels: np.ndarray = field(default_factory=lambda: BINARY)
    options: Mapping[str, Any] = field(default_factory=dict)
    local: bool = False

    def table(self) -> pm.Model:
        """The model on the whole table, −1 where unlabeled."""
        return self.declare(np.arange(N), np.where(np.arange(N) < N_LABELED, self.labels, -1))


ACCEPTED: dict[str, Kind] = {}
REFUSED: dict[str, tuple[Callable[[], pm.Model], tuple[str, ...]]] = {}


def _accepted(labels: np.ndarray = BINARY, *, local: bool = False, **options: Any) -> Callable[..., Any]:
    def register(declare: Callable[..., pm.Model]) -> Callable[..., pm.Model]:
        ACCEPTED[declare.__name__] = Kind(declare, labels, options, local)
        return declare

    return register


def _refused(*words: str) -> Callable[..., Any]:
    """The words (a regular expression each) that the error must hold: the variable and the way out."""

    def register(declare: Callable[[], pm.Model]) -> Callable[[], pm.Model]:
        REFUSED[declare.__name__] = declare, words
        return declare

    return register


@contextmanager
def in_units(units: np.ndarray) -> Iterator[None]:
    """The same models with predictors in other units (FEATURES,)."""
    global UNITS
    before, UNITS = UNITS, units
    try:
        yield
    finally:
        UNITS = before


def x(rows: np.ndarray) -> np.ndarray:
    """The predictors of some rows in their units."""
    return X[rows] * UNITS


def _slopes(sigma: float, *columns: int, name: str = "beta") -> Any:
    return pm.Normal(name, 0, sigma / (UNITS[:, None] if columns else UNITS), shape=(FEATURES, *columns))


def _linear(rows: np.ndarray) -> Any:
    return pm.Normal("alpha", 0, 2) + x(rows) @ _slopes(1.5)


def _three_predictors(rows: np.ndarray) -> Any:
    return pm.Normal("alpha", 0, 2, shape=3) + x(rows) @ _slopes(1.5, 3)


def _cloglog(eta: Any) -> Any:
    return 1 - pt.exp(-pt.exp(eta))


# Two classes, one linear predictor


@_accepted()
def logistic(rows, labels):
    with pm.Model() as model:
        pm.Bernoulli("label", logit_p=_linear(rows), observed=labels)
    return model


@_accepted()
def logistic_with_interaction(rows, labels):
    every, sd = x(np.arange(N)), 1 / np.array([UNITS[0] * UNITS[1], UNITS[1] * UNITS[2]])
    products = np.column_stack([every[:, 0] * every[:, 1], every[:, 1] * every[:, 2]])
    with pm.Model() as model:
        gamma = pm.Normal("gamma", 0, sd, shape=2)
        pm.Bernoulli("label", p=pm.math.sigmoid(_linear(rows) + products[rows] @ gamma), observed=labels)
    return model


@_accepted()
def binomial_of_one_trial(rows, labels):
    with pm.Model() as model:
        pm.Binomial("label", n=1, logit_p=_linear(rows), observed=labels)
    return model


@_accepted()
def probit(rows, labels):
    with pm.Model() as model:
        pm.Bernoulli("label", p=pm.math.invprobit(_linear(rows)), observed=labels)
    return model


@_accepted()
def cloglog(rows, labels):
    with pm.Model() as model:
        pm.Bernoulli("label", p=_cloglog(_linear(rows)), observed=labels)
    return model


@_accepted()
def discrete_time_survival(rows, labels):
    with pm.Model() as model:
        baseline = pm.Normal("baseline", -1, 1, shape=3)
        beta = _slopes(1)
        pm.Bernoulli("label", p=_cloglog(baseline[PERIOD[rows]] + x(rows) @ beta), observed=labels)
    return model


# Several classes


@_accepted(ORDERED)
def softmax_of_p(rows, labels):
    with pm.Model() as model:
        pm.Categorical("label", p=pm.math.softmax(_three_predictors(rows), axis=-1), observed=labels)
    return model


@_accepted(ORDERED)
def softmax_of_logit_p(rows, labels):
    with pm.Model() as model:
        pm.Categorical("label", logit_p=_three_predictors(rows), observed=labels)
    return model


@_accepted(ORDERED, unlabeled=np.arange(N) >= N_LABELED)
def multinomial_of_one_trial(rows, labels):
    with pm.Model() as model:
        p = pm.math.softmax(_three_predictors(rows), axis=-1)
        pm.Multinomial("label", n=1, p=p, observed=np.eye(3, dtype=int)[np.maximum(labels, 0)])
    return model


@_accepted(ORDERED)
def zero_sum_softmax(rows, labels):
    with pm.Model() as model:
        alpha = pm.ZeroSumNormal("alpha", sigma=2, shape=3)
        beta = pm.ZeroSumNormal("beta", sigma=1.5 / UNITS[:, None], shape=(FEATURES, 3))
        pm.Categorical("label", logit_p=alpha + x(rows) @ beta, observed=labels)
    return model


# Groups


@_accepted()
def hierarchical_non_centered(rows, labels):
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1)
        z = pm.Normal("z", 0, 1, shape=GROUPS)
        pm.Bernoulli("label", logit_p=_linear(rows) + (tau * z)[GROUP[rows]], observed=labels)
    return model


@_accepted()
def zero_sum_groups(rows, labels):
    with pm.Model(coords={"group": list("abcd")}) as model:
        effect = pm.ZeroSumNormal("effect", sigma=1, dims="group")
        pm.Bernoulli("label", logit_p=_linear(rows) + effect[GROUP[rows]], observed=labels)
    return model


@_accepted()
def item_response(rows, labels):
    with pm.Model() as model:
        ability = pm.Normal("ability", 0, 1, shape=6)
        difficulty = pm.Normal("difficulty", 0, 1, shape=5)
        discrimination = pm.LogNormal("discrimination", 0, 0.5, shape=5)
        item = ITEM[rows]
        eta = discrimination[item] * (ability[PERSON[rows]] - difficulty[item])
        pm.Bernoulli("label", logit_p=eta, observed=labels)
    return model


@_accepted()
def multilevel_regression_and_poststratification(rows, labels):
    with pm.Model() as model:
        eta = _linear(rows)
        for name, index, size in (("age", PERIOD, 3), ("state", ITEM, 5), ("sex", REGION, 2)):
            scale = pm.Exponential(f"scale_{name}", 1)
            eta = eta + (scale * pm.Normal(f"z_{name}", 0, 1, shape=size))[index[rows]]
        pm.Bernoulli("label", logit_p=eta, observed=labels)
    return model


@_accepted()
def correlated_slopes(rows, labels):
    with pm.Model() as model:
        sd = pm.Gamma.dist(2, 2 * np.array([1, UNITS[0]]), shape=2)
        chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=sd)
        z = pm.Normal("z", 0, 1, shape=(GROUPS, 2))
        of_group = (z @ chol.T)[GROUP[rows]]
        eta = _linear(rows) + of_group[:, 0] + of_group[:, 1] * x(rows)[:, 0]
        pm.Bernoulli("label", logit_p=eta, observed=labels)
    return model


# Shrinkage


@_accepted()
def horseshoe(rows, labels):
    with pm.Model() as model:
        tau = pm.HalfCauchy("tau", 0.5)
        local = pm.HalfCauchy("local", 1, shape=FEATURES)
        z = pm.Normal("z", 0, 1, shape=FEATURES)
        pm.Bernoulli("label", logit_p=x(rows) @ (z * local * tau / UNITS), observed=labels)
    return model


@_accepted()
def r2d2(rows, labels):
    with pm.Model() as model:
        share = pm.Dirichlet("share", np.full(FEATURES, 2.0))
        r2 = pm.Beta("r2", 2, 2)
        z = pm.Normal("z", 0, 1, shape=FEATURES)
        beta = z * pt.sqrt(share * r2 / (1 - r2)) / UNITS
        pm.Bernoulli("label", logit_p=x(rows) @ beta, observed=labels)
    return model


# Ordered classes


def _cutpoints() -> Any:
    ordered = pm.distributions.transforms.ordered
    return pm.Normal("cutpoints", 0, 2, shape=2, transform=ordered, initval=np.array([-1.0, 1.0]))


@_accepted(ORDERED)
def ordered_logistic(rows, labels):
    with pm.Model() as model:
        beta = _slopes(1.5)
        pm.OrderedLogistic("label", eta=x(rows) @ beta, cutpoints=_cutpoints(), observed=labels)
    return model


@_accepted(ORDERED)
def ordered_probit(rows, labels):
    with pm.Model() as model:
        beta = _slopes(1.5)
        pm.OrderedProbit("label", eta=x(rows) @ beta, cutpoints=_cutpoints(), observed=labels)
    return model


@_accepted(ORDERED)
def dirichlet_cutpoints(rows, labels):
    with pm.Model() as model:
        beta = _slopes(1.5)
        below = pt.cumsum(pm.Dirichlet("share", np.full(3, 2.0)))[:-1]
        pm.OrderedLogistic("label", eta=x(rows) @ beta, cutpoints=pm.math.logit(below), observed=labels)
    return model


# Robust


@_accepted()
def contamination(rows, labels):
    with pm.Model() as model:
        guess = pm.Beta("guess", 1, 10)
        pm.Bernoulli("label", p=guess / 2 + (1 - guess) * pm.math.sigmoid(_linear(rows)), observed=labels)
    return model


@_accepted()
def t_link(rows, labels):
    with pm.Model() as model:
        eta = _linear(rows)
        p = pt.exp(pm.logcdf(pm.StudentT.dist(nu=4, mu=0, sigma=1), eta))
        pm.Bernoulli("label", p=p, observed=labels)
    return model


@_accepted()
def misclassification(rows, labels):
    with pm.Model() as model:
        wrong = pm.Beta("wrong", 2, 20, shape=2)
        p = pm.math.sigmoid(_linear(rows))
        pm.Bernoulli("label", p=(1 - wrong[1]) * p + wrong[0] * (1 - p), observed=labels)
    return model


@_accepted()
def beta_binomial_of_one_trial(rows, labels):
    with pm.Model() as model:
        kappa = pm.Gamma("kappa", 4, 0.5)
        p = pm.math.sigmoid(_linear(rows))
        pm.BetaBinomial("label", n=1, alpha=p * kappa, beta=(1 - p) * kappa, observed=labels)
    return model


# Smooth functions


@_accepted()
def spline(rows, labels):
    knots = np.array([-1.0, 0.0, 1.0]) * UNITS[0]
    hinges = np.maximum(x(np.arange(N))[:, :1] - knots, 0) ** 3
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1 / UNITS[0] ** 3)
        weights = pm.Normal("weights", 0, 1, shape=3)
        pm.Bernoulli("label", logit_p=_linear(rows) + hinges[rows] @ (scale * weights), observed=labels)
    return model


@_accepted()
def hilbert_space_gp(rows, labels):
    with pm.Model() as model:
        length = pm.LogNormal("length", np.log(UNITS[0]), 0.5)
        gp = pm.gp.HSGP(m=[5], L=[4.0 * UNITS[0]], cov_func=pm.gp.cov.ExpQuad(1, ls=length))
        basis, spectrum = gp.prior_linearized(x(np.arange(N))[:, :1])
        weights = pm.Normal("weights", 0, 1, shape=5)
        pm.Bernoulli("label", logit_p=basis[rows] @ (weights * spectrum), observed=labels)
    return model


@_accepted()
def latent_gp(rows, labels):
    with pm.Model() as model:
        length = pm.LogNormal("length", np.log(UNITS[0]), 0.5)
        gp = pm.gp.Latent(cov_func=pm.gp.cov.Matern52(1, ls=length))
        f = gp.prior("f", X=x(np.arange(N))[:, :1], jitter=1e-4)
        pm.Bernoulli("label", logit_p=f if len(rows) == N else f[rows], observed=labels)
    return model


@_accepted()
def random_walk_non_centered(rows, labels):
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 0.5)
        f = pt.cumsum(scale * pm.Normal("step", 0, 1, shape=N))
        pm.Bernoulli("label", logit_p=f if len(rows) == N else f[rows], observed=labels)
    return model


@_accepted()
def autoregression_of_fixed_scale(rows, labels):
    with pm.Model() as model:
        start = pm.Normal.dist(0, 1)
        f = pm.AR("f", rho=np.array([0.7]), sigma=0.8, init_dist=start, shape=N)
        pm.Bernoulli("label", logit_p=f if len(rows) == N else f[rows], observed=labels)
    return model


# Local modes


@_accepted(local=True)
def tanh_network(rows, labels):
    with pm.Model() as model:
        first = _slopes(1, 2, name="first")
        second = pm.Normal("second", 0, 1, shape=2)
        pm.Bernoulli("label", logit_p=pt.tanh(x(rows) @ first) @ second, observed=labels)
    return model


@_accepted(local=True)
def mixture_of_logistics(rows, labels):
    with pm.Model() as model:
        share = pm.Beta("share", 3, 3)
        beta = _slopes(2, 2)
        p = pm.math.sigmoid(x(rows) @ beta)
        pm.Bernoulli("label", p=share * p[:, 0] + (1 - share) * p[:, 1], observed=labels)
    return model


# Likelihoods of another form


@_accepted(target="label")
def class_conditional_gaussian(rows, labels):
    with pm.Model() as model:
        share = pm.Beta("share", 2, 2)
        mean = pm.Normal("mean", 0, 2 * UNITS, shape=(2, FEATURES))
        scale = pm.LogNormal("scale", np.log(UNITS), 0.5, shape=FEATURES)
        label = pm.Bernoulli("label", p=share, observed=labels)
        pm.Normal("x", mean[label], scale, observed=x(rows))
    return model


@_accepted(classes=[0, 1])
def custom_distribution(rows, labels):
    def logp(value, eta):
        return pt.switch(pt.eq(value, 1), -pt.softplus(-eta), -pt.softplus(eta))

    with pm.Model() as model:
        pm.CustomDist("label", _linear(rows), logp=logp, dtype="int64", observed=labels)
    return model


# Rows that touch few of many parameters: 60 labeled rows, 20 candidates

MANY: dict[str, Callable[[], pm.Model]] = {}
_many = np.random.default_rng(7)
M, M_LABELED, CLASSES, SCHOOLS, PEOPLE, ITEMS, TIMES = 80, 60, 30, 6, 25, 12, 40
x_many, IN_CLASS = _many.normal(size=M), _many.integers(CLASSES, size=M)
WHO, WHAT, WHEN = _many.integers(PEOPLE, size=M), _many.integers(ITEMS, size=M), _many.integers(TIMES, size=M)
TRUE_MANY = (x_many + 0.8 * np.sin(IN_CLASS) + _many.logistic(size=M) > 0).astype(int)


def _of_many(predictor: Callable[[], Any]) -> Callable[[], Any]:
    def declare() -> pm.Model:
        with pm.Model() as model:
            labels = np.where(np.arange(M) < M_LABELED, TRUE_MANY, -1)
            pm.Bernoulli("label", logit_p=pm.Normal("slope", 0, 1) * x_many + predictor(), observed=labels)
        return model

    MANY[predictor.__name__] = declare
    return predictor


@_of_many
def nested_groups():
    """Classes in schools, each with a scale."""
    school = pm.HalfNormal("between", 1) * pm.Normal("school", 0, 1, shape=SCHOOLS)
    return (pm.HalfNormal("within", 1) * pm.Normal("class", 0, 1, shape=CLASSES))[IN_CLASS] + school[IN_CLASS % SCHOOLS]


@_of_many
def crossed_groups():
    """People and items with their scales, as in item response."""
    person = pm.HalfNormal("scale_person", 1) * pm.Normal("person", 0, 1, shape=PEOPLE)
    return person[WHO] - (pm.HalfNormal("scale_item", 1) * pm.Normal("item", 0, 1, shape=ITEMS))[WHAT]


@_of_many
def many_cells():
    """Regression with poststratification: three factors and what two of them do together."""
    eta = pm.Normal("intercept", 0, 2)
    for name, index, size in (
        ("age", WHAT, ITEMS),
        ("state", IN_CLASS, CLASSES),
        ("both", IN_CLASS * 2 + WHAT % 2, 2 * CLASSES),
    ):
        eta = eta + (pm.Exponential(f"scale_{name}", 1) * pm.Normal(name, 0, 1, shape=size))[index]
    return eta


@_of_many
def random_slopes():
    """An intercept and a slope of every group."""
    scale, z = pm.HalfNormal("scale", 1, shape=2), pm.Normal("z", 0, 1, shape=(CLASSES, 2))
    return scale[0] * z[IN_CLASS, 0] + scale[1] * z[IN_CLASS, 1] * x_many


@_of_many
def random_walk_over_time():
    """A level at each time, which walks by steps of a fixed scale: a band."""
    return pm.GaussianRandomWalk("level", sigma=0.4, init_dist=pm.Normal.dist(0, 1), steps=TIMES - 1)[WHEN]


# Declared with containers, so that rows can be appended by pool=

CONTAINERS = {"X": X, "group": GROUP}
POOLED: dict[str, tuple[Callable[[np.ndarray, np.ndarray], pm.Model], np.ndarray]] = {}


def _pooled(labels: np.ndarray = BINARY) -> Callable[..., Any]:
    def register(declare: Callable[..., pm.Model]) -> Callable[..., pm.Model]:
        POOLED[declare.__name__] = declare, labels
        return declare

    return register


def _held_linear(rows: np.ndarray) -> Any:
    return pm.Normal("alpha", 0, 2) + pm.Data("X", X[rows]) @ pm.Normal("beta", 0, 1.5, shape=FEATURES)


@_pooled()
def held_logistic(rows, labels):
    with pm.Model() as model:
        pm.Bernoulli("label", logit_p=_held_linear(rows), observed=labels)
    return model


@_pooled()
def held_cloglog(rows, labels):
    with pm.Model() as model:
        pm.Bernoulli("label", p=_cloglog(_held_linear(rows)), observed=labels)
    return model


@_pooled(ORDERED)
def held_softmax(rows, labels):
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1.5, shape=(FEATURES, 3))
        pm.Categorical("label", logit_p=pm.Data("X", X[rows]) @ beta, observed=labels)
    return model


@_pooled(ORDERED)
def held_ordinal(rows, labels):
    with pm.Model() as model:
        pm.OrderedLogistic("label", eta=_held_linear(rows), cutpoints=[-1.0, 1.0], observed=labels)
    return model


@_pooled()
def held_groups(rows, labels):
    with pm.Model() as model:
        group = pm.Data("group", GROUP[rows])
        tau, z = pm.HalfNormal("tau", 1), pm.Normal("z", 0, 1, shape=GROUPS)
        pm.Bernoulli("label", logit_p=_held_linear(rows) + (tau * z)[group], observed=labels)
    return model


@_pooled()
def held_contamination(rows, labels):
    with pm.Model() as model:
        guess = pm.Beta("guess", 1, 10)
        pm.Bernoulli("label", p=guess / 2 + (1 - guess) * pm.math.sigmoid(_held_linear(rows)), observed=labels)
    return model


@_pooled()
def held_network(rows, labels):
    with pm.Model() as model:
        first = pm.Normal("first", 0, 1, shape=(FEATURES, 2))
        hidden = pt.tanh(pm.Data("X", X[rows]) @ first)
        pm.Bernoulli("label", logit_p=hidden @ pm.Normal("second", 0, 1, shape=2), observed=labels)
    return model


# Refused, each with the words that the error must hold


def _labels() -> np.ndarray:
    return np.where(np.arange(N) < N_LABELED, BINARY, -1)


@_refused(r'"tau', "non-centered")
def hierarchical_centered():
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1)
        effect = pm.Normal("effect", 0, tau, shape=GROUPS)
        pm.Bernoulli("label", logit_p=effect[GROUP], observed=_labels())
    return model


@_refused(r'"scale', "non-centered")
def random_walk_centered():
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 0.5)
        f = pm.GaussianRandomWalk("f", sigma=scale, init_dist=pm.Normal.dist(0, 1), shape=N)
        pm.Bernoulli("label", logit_p=f, observed=_labels())
    return model


@_refused(r'"beta\[', "proper prior")
def softmax_over_parametrised_and_flat():
    with pm.Model() as model:
        beta = pm.Flat("beta", shape=(FEATURES, 3))
        pm.Categorical("label", logit_p=X @ beta, observed=np.where(_labels() < 0, -1, ORDERED))
    return model


@_refused(r'"(first|second)\[', "relu")
def relu_network():
    with pm.Model() as model:
        first = pm.Normal("first", 0, 1, shape=(FEATURES, 4))
        second = pm.Normal("second", 0, 1, shape=4)
        pm.Bernoulli("label", logit_p=pt.maximum(X @ first, 0) @ second, observed=_labels())
    return model


@_refused('"component"', "[Mm]arginalise")
def discrete_latent_labels():
    with pm.Model() as model:
        component = pm.Bernoulli("component", 0.5, shape=N)
        beta = pm.Normal("beta", 0, 1, shape=(FEATURES, 2))
        eta = X @ beta
        pm.Bernoulli("label", logit_p=pt.switch(component, eta[:, 0], eta[:, 1]), observed=_labels())
    return model


@_refused('"x"', "missing values")
def imputed_covariate():
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, observed=np.ma.masked_array(X[:, 0], mask=np.arange(N) < 3))
        beta = pm.Normal("beta", 0, 1)
        pm.Bernoulli("label", logit_p=beta * x, observed=_labels())
    return model


@_refused('"label"', "one row a trial")
def binomial_of_many_trials():
    with pm.Model() as model:
        pm.Binomial("label", n=5, logit_p=_linear(np.arange(N)), observed=_labels())
    return model
