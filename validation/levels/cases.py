"""Models of the study: cells with a prior of any shape each, and groups with common scales of many priors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pymc as pm
from scipy import stats
from scipy.special import log_expit, logsumexp

from validation.levels.quadrature import Truth, scaled, single, truth
from validation.levels.tables import Table

CELLS, GROUPS, SLOPES = 12, 8, 6
_TABLES_OF_SLOPES = 12  # the cases in which VI claims an error of its level
_SHIFT_SD, _SHIFTS = 2.5, np.arange(-32, 33) * 0.3  # of a common intercept: 3.8 prior sds each way
_APART = 0.2  # of log s, whose posterior's sd is above 0.3: the trapezoid rule is then exact to 1e-12


@dataclass(frozen=True)
class Case:
    """A model of so many tables of so many cells, and its quadrature."""

    name: str
    cells: int
    declare: Callable[[Table], None]
    exact: Callable[[Table], Truth]
    tables: int = 2

    @property
    def key(self) -> str:
        """The file's name."""
        return "".join(letter if letter.isalnum() else "-" for letter in self.name.lower())

    @property
    def source(self) -> str:
        """Of its tables."""
        return self.name

    @property
    def title(self) -> str:
        """For readers."""
        return self.name

    @property
    def work(self) -> int:
        """What a repetition's time is roughly proportional to."""
        return 1

    def model(self, table: Table) -> pm.Model:
        """The model of a table."""
        with pm.Model() as model:
            self.declare(table)
        return model


def _observe(table: Table, predictor: object) -> None:
    pm.Bernoulli("y", logit_p=predictor, observed=table.labels)


def _of_cells(name: str, variable: Callable[[int], Any], prior: Any, scale: float) -> Case:
    """Every cell has a coefficient of its own."""

    def declare(table: Table) -> None:
        _observe(table, variable(len(table.counts))[table.cell])

    cells = single(prior.logpdf, scale)
    return Case(f"cells, {name}", CELLS, declare, lambda table: truth(table, cells, np.zeros(1)))


def _log_scales(log_prior: Callable[[np.ndarray], np.ndarray], first: float, last: float) -> tuple[np.ndarray, np.ndarray]:
    """log s and the logs of their weights, for a density of s."""
    t = np.arange(first, last, _APART)
    with np.errstate(divide="ignore"):
        log_weights = log_prior(np.exp(t)) + t + np.log(_APART)
    near = log_weights > log_weights.max() - 40
    return t[near], log_weights[near]


def _of_groups(name: str, scale: Callable[[], object], prior: Any, first: float, last: float, *, shift: bool) -> Case:
    """Effects s z of groups, with a common intercept or without."""

    def declare(table: Table) -> None:
        centre = pm.Normal("mu", 0, _SHIFT_SD) if shift else 0.0
        effect = scale() * pm.Normal("z", 0, 1, shape=len(table.counts))
        _observe(table, centre + effect[table.cell])

    def exact(table: Table) -> Truth:
        log_s, log_weights = _log_scales(prior.logpdf, first, last)
        if not shift:
            return truth(table, scaled(np.zeros(len(log_s)), log_s), log_weights)
        of_shift = stats.norm.logpdf(_SHIFTS, 0, _SHIFT_SD) + np.log(_SHIFTS[1] - _SHIFTS[0])
        both = np.repeat(_SHIFTS, len(log_s)), np.tile(log_s, len(_SHIFTS))
        return truth(table, scaled(*both), (of_shift[:, None] + log_weights).ravel())

    return Case(f"groups{' and an intercept' if shift else ''}, {name}", GROUPS, declare, exact)


def _horseshoe() -> Case:
    """Two cells and one without labels, each with a scale of its own: b = λ z, λ ~ HalfCauchy(1)."""

    def declare(table: Table) -> None:
        n = len(table.counts)
        _observe(table, (pm.HalfCauchy("scale", 1, shape=n) * pm.Normal("z", 0, 1, shape=n))[table.cell])

    log_s, log_weights = _log_scales(partial(stats.halfcauchy.logpdf, scale=1), -30, 30)
    given = scaled(np.zeros(len(log_s)), log_s)

    def cells(ones: int, zeros: int) -> np.ndarray:
        return np.array([logsumexp(log_weights + given(ones, zeros))])

    return Case("cells, horseshoe", 2, declare, lambda table: truth(table, cells, np.zeros(1)))


def _two_scales() -> Case:
    """Even and odd groups have scales of their own, HalfNormal(1) and HalfCauchy(1)."""

    def declare(table: Table) -> None:
        n = len(table.counts)
        scales = pm.math.stack([pm.HalfNormal("even", 1), pm.HalfCauchy("odd", 1)])
        _observe(table, (scales[np.arange(n) % 2] * pm.Normal("z", 0, 1, shape=n))[table.cell])

    priors = (partial(stats.halfnorm.logpdf, scale=1), -25, 3), (partial(stats.halfcauchy.logpdf, scale=1), -25, 25)

    def exact(table: Table) -> Truth:
        halves = []
        for own, (prior, first, last) in enumerate(priors):
            log_s, log_weights = _log_scales(prior, first, last)
            halves.append(truth(Table(table.counts[own::2]), scaled(np.zeros(len(log_s)), log_s), log_weights))
        log_ppp = np.empty((len(table.counts), 2))
        for own in (0, 1):
            log_ppp[own::2] = halves[own].log_ppp + halves[1 - own].constant
        return Truth(halves[0].constant + halves[1].constant, log_ppp)

    return Case("groups, two scales", GROUPS, declare, exact)


def _zero_sum() -> Case:
    """Three effects that add up to 0, with a HalfNormal(1) scale: the two directions that are left are integrated over."""

    def declare(table: Table) -> None:
        effect = pm.ZeroSumNormal("effect", sigma=pm.HalfNormal("s", 1), shape=3)
        _observe(table, effect[table.cell])

    def exact(table: Table) -> Truth:
        log_s, log_weights = _log_scales(partial(stats.halfnorm.logpdf, scale=1), -25, 2)
        u = np.linspace(-8.5, 8.5, 171)
        basis = np.linalg.svd(np.ones((1, 3)))[2][1:]
        plane = np.stack(np.meshgrid(u, u), -1).reshape(-1, 2)
        log_plane = stats.norm.logpdf(plane).sum(axis=1) + 2 * np.log(u[1] - u[0])

        def log_z(counts: np.ndarray) -> float:
            values = np.empty(len(log_s))
            for place, scale in enumerate(np.exp(log_s)):
                eta = scale * plane @ basis
                values[place] = logsumexp(log_plane + log_expit(eta) @ counts[:, 0] + log_expit(-eta) @ counts[:, 1])
            return float(logsumexp(values + log_weights))

        log_z1, twice = log_z(table.counts), 2 * table.counts
        extra = np.eye(3, dtype=int)
        log_ppp = [[log_z(twice + extra[g][:, None] * [label, 1 - label]) - log_z1 for label in (0, 1)] for g in range(3)]
        return Truth(log_z(twice) - log_z1, np.array(log_ppp))

    return Case("groups, effects that add up to 0", 2, declare, exact)


def _of_slopes(name: str, variable: Callable[[], object], prior: Any, scale: float) -> Case:
    """Every cell is a point of two features: no two rows of different cells depend on the same number."""
    features = np.random.default_rng(0).normal(size=(SLOPES + 1, 2))

    def declare(table: Table) -> None:
        _observe(table, features[table.cell] @ variable())

    def exact(table: Table) -> Truth:
        t, w = np.arange(-25, 25.05, 0.1), min(scale, 1.0)
        b, log_p = w * np.sinh(t), prior.logpdf(w * np.sinh(t)) + np.log(w * np.cosh(t) * 0.1)
        eta = np.stack(np.meshgrid(b, b), -1).reshape(-1, 2) @ features.T
        ones, zeros, log_weights = log_expit(eta), log_expit(-eta), (log_p[:, None] + log_p).ravel()

        def log_z(counts: np.ndarray) -> float:
            return float(logsumexp(log_weights + ones @ counts[:, 0] + zeros @ counts[:, 1]))

        log_z1, twice, extra = log_z(table.counts), 2 * table.counts, np.eye(SLOPES + 1, dtype=int)
        log_ppp = [[log_z(twice + one[:, None] * [label, 1 - label]) - log_z1 for label in (0, 1)] for one in extra]
        return Truth(log_z(twice) - log_z1, np.array(log_ppp))

    return Case(f"two slopes, {name}", SLOPES, declare, exact, _TABLES_OF_SLOPES)


def cases() -> list[Case]:
    """All of them."""
    t, half_cauchy = stats.t, stats.halfcauchy
    return [
        _of_cells("Normal(0, 2.5)", lambda n: pm.Normal("b", 0, 2.5, shape=n), stats.norm(0, 2.5), 2.5),
        _of_cells("Laplace(0, 1)", lambda n: pm.Laplace("b", 0, 1, shape=n), stats.laplace(0, 1), 1.0),
        _of_cells("Laplace(0, .05)", lambda n: pm.Laplace("b", 0, 0.05, shape=n), stats.laplace(0, 0.05), 0.05),
        _of_cells("Student-t(3), 2.5", lambda n: pm.StudentT("b", nu=3, mu=0, sigma=2.5, shape=n), t(3, 0, 2.5), 2.5),
        _of_cells("Student-t(2), .1", lambda n: pm.StudentT("b", nu=2, mu=0, sigma=0.1, shape=n), t(2, 0, 0.1), 0.1),
        _of_cells("Cauchy(0, 2.5)", lambda n: pm.Cauchy("b", 0, 2.5, shape=n), stats.cauchy(0, 2.5), 2.5),
        _of_cells("Cauchy(0, .1)", lambda n: pm.Cauchy("b", 0, 0.1, shape=n), stats.cauchy(0, 0.1), 0.1),
        _of_cells("Cauchy(0, 100)", lambda n: pm.Cauchy("b", 0, 100, shape=n), stats.cauchy(0, 100), 100.0),
        _horseshoe(),
        _of_slopes("Normal(0, 10)", lambda: pm.Normal("b", 0, 10, shape=2), stats.norm(0, 10), 10.0),
        _of_slopes("Student-t(2), .1", lambda: pm.StudentT("b", nu=2, mu=0, sigma=0.1, shape=2), t(2, 0, 0.1), 0.1),
        _of_slopes("Cauchy(0, 2.5)", lambda: pm.Cauchy("b", 0, 2.5, shape=2), stats.cauchy(0, 2.5), 2.5),
        _of_groups("HalfNormal(1)", lambda: pm.HalfNormal("s", 1), stats.halfnorm(0, 1), -25, 3, shift=False),
        _of_groups("HalfNormal(1)", lambda: pm.HalfNormal("s", 1), stats.halfnorm(0, 1), -12, 3, shift=True),
        _of_groups("HalfCauchy(1)", lambda: pm.HalfCauchy("s", 1), half_cauchy(0, 1), -25, 25, shift=False),
        _of_groups("HalfCauchy(1)", lambda: pm.HalfCauchy("s", 1), half_cauchy(0, 1), -10, 12, shift=True),
        _of_groups("HalfCauchy(25)", lambda: pm.HalfCauchy("s", 25), half_cauchy(0, 25), -22, 28, shift=False),
        _of_groups("Exponential(.001)", lambda: pm.Exponential("s", 0.001), stats.expon(0, 1000), -18, 11, shift=False),
        _of_groups("Exponential(1000)", lambda: pm.Exponential("s", 1000), stats.expon(0, 0.001), -32, -2, shift=False),
        _of_groups("LogNormal(0, 5)", lambda: pm.LogNormal("s", 0, 5), stats.lognorm(5), -40, 40, shift=False),
        _of_groups("InverseGamma(1, 1)", lambda: pm.InverseGamma("s", 1, 1), stats.invgamma(1), -4, 32, shift=False),
        _two_scales(),
        _zero_sum(),
    ]
