"""What a pool can tell a model, before anything is trained on it.

With ℓ_u(y; θ) the log-likelihood of row u with class y, the row without its label says g_u(θ) = log Σ_y exp ℓ_u(y; θ).

- In a model of y given x, Σ_y p(y | x, θ) = 1, so that g_u ≡ 0 and p(θ | D, pool) = p(θ | D): the pool cannot inform it.
- In a class-conditional model, p(y) p(x | y), the gradients of g_u are the scores of the row's features, and with Σ_D the
  posterior covariance given D, Ī = Σ_u E[∇g_u ∇g_u'] and J̄ = Σ_u E Σ_y p(y | x_u, θ) ∇ℓ_u(y) ∇ℓ_u(y)',

      nats = ½ log det(I + Σ_D Ī),      equivalent labels = m tr(Σ_D Ī) / tr(Σ_D J̄) ≤ m,

  the information that m rows bring about θ [1]_, if the model is right, and how many labeled ones would bring as much [2]_.

References
----------
.. [1] Lindley, D. V. (1956). On a measure of the information provided by an experiment. Annals of Mathematical Statistics 27,
   986-1005. https://doi.org/10.1214/aoms/1177728069
.. [2] Castelli, V. and Cover, T. M. (1996). The relative value of labeled and unlabeled samples in pattern recognition with an
   unknown mixing parameter. IEEE Transactions on Information Theory 42, 2102-2117. https://doi.org/10.1109/18.556600
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.approximations.predictions.predictive import antithetic_draws
from pymc_bpls.engine.engine import Engine
from pymc_bpls.engine.rows.marginal_rows import Marginal, MarginalRows
from pymc_bpls.errors import ModelError
from pymc_bpls.model.data.table import Unlabeled
from pymc_bpls.model.problem import Problem
from pymc_bpls.pool.scores import row_scores, sums_of_scores
from pymc_bpls.scoring.fitted import ModelFit
from pymc_bpls.text.summary import Summary

_DRAWS = 64
_OFF = 1e-5
_NOTHING = 1e-9
CANNOT = (
    "The pool cannot inform this model: it says nothing of the features, so that the posterior given labels and pool is that "
    "given the labels alone. Pseudo-labels add no information."
)


@dataclass(frozen=True, repr=False)
class Information:
    """What the pool can tell the model about its parameters; `print` it first.

    Attributes
    ----------
    informative : bool
        Whether it can tell anything.
    nats : float
        By how much the posterior of the parameters would narrow, ½ log det(I + Σ_D Ī), if the model is right: the information
        about the parameters that the pool's features are expected to bring (Lindley's; 1 nat = 1.44 bits). One nat narrows one
        parameter's standard deviation to 1/e = .37 of what it is.
    equivalent_labels : float
        How many labeled rows would bring as much; at most the number of candidates.
    rows : xarray.Dataset
        Over `candidate`, none of a lazy pool: `nats`, what the row brings by itself to first order, ½ tr(Σ_D E[∇g ∇g']), and
        `nats_with_label`, what it would bring with its label.
    verdict : str

    See Also
    --------
    BPLS.information : makes it.
    """

    informative: bool
    nats: float
    equivalent_labels: float
    rows: xr.Dataset
    verdict: str

    @property
    def table(self) -> pd.DataFrame:
        """What the pool as a whole is worth."""
        return pd.DataFrame({"nats": [self.nats], "equivalent_labels": [self.equivalent_labels]}, index=["pool"])

    def __str__(self) -> str:
        return self.verdict

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return Summary([self.verdict], pd.DataFrame())._repr_html_()


def find_information(problem: Problem, fit: ModelFit) -> Information:
    """What the candidates can tell beyond D, by draws of the Gaussian at the `fit` on D.

    Raises
    ------
    ModelError
        Likelihoods do not add up to 1 over the classes of a model of y given x, or rows depend on each other.
    """
    candidates = problem.table.candidates
    if problem.density.joint is not None:
        if problem.class_conditional:
            raise ModelError(
                f'Rows of "{problem.name}" depend on each other, so that their labels cannot be integrated out one by one. '
                "Declare features that are independent given the labels."
            )
        nothing = np.zeros(len(candidates))
        return _told(problem, 0.0, 0.0, nothing, nothing)
    q = Gaussian.at_mode(fit.mode).in_theta
    information, of_row, with_label, largest = _scores(fit.engine, q, candidates)
    if not problem.class_conditional:
        _check_sums(problem, largest)
        return _told(problem, 0.0, 0.0, 0.0 * of_row, 0.5 * with_label)
    worth = _worth(information, of_row.sum(), with_label.sum(), len(candidates))
    return _told(problem, *worth, 0.5 * of_row, 0.5 * with_label)


def summed_information(problem: Problem, fit: ModelFit, rows: Marginal) -> Information:
    """The same of rows that are summed over wherever they are, and of which none is told by itself."""
    none = np.empty(0)
    if not problem.class_conditional:
        return _told(problem, 0.0, 0.0, none, none)
    q = Gaussian.at_mode(fit.mode).in_theta
    information, of_rows, with_labels = rows.sums(sums_of_scores, *_draws_of(q))
    worth = _worth(information, float(of_rows), float(with_labels), len(rows))
    return _told(problem, *worth, none, none, len(rows))


def _worth(information: np.ndarray, of_rows: float, with_labels: float, n: int) -> tuple[float, float]:
    """Nats and equivalent labels of n rows."""
    nats = 0.5 * float(np.linalg.slogdet(np.eye(len(information)) + information)[1])
    return nats, float(n * of_rows / with_labels) if nats > _NOTHING else 0.0


def _draws_of(q: Gaussian) -> tuple[np.ndarray, np.ndarray]:
    """Draws (S, q) of a Gaussian and its factor, as the kernels take them."""
    return q.mean + antithetic_draws(len(q.mean), _DRAWS) @ q.factor.T, q.factor


def _scores(engine: Engine, q: Gaussian, positions: np.ndarray) -> tuple[np.ndarray, ...]:
    """L'ĪL with Σ_D = LL', tr(Σ_D E[∇g_u ∇g_u']) and tr(Σ_D E Σ_y p ∇ℓ ∇ℓ') of each row, and its largest |g_u|."""
    rows = MarginalRows(engine.density, engine.compiler, Unlabeled(positions, np.ones(len(positions))))
    information, *of_rows = rows.by_block(row_scores, *_draws_of(q))
    return (information.sum(axis=0), *(values.ravel()[: len(positions)] for values in of_rows))


def _check_sums(problem: Problem, largest: np.ndarray) -> None:
    """Refuse a model of y given x whose likelihoods do not add up to 1."""
    off = np.flatnonzero(largest > _OFF)
    if off.size:
        first = problem.words.one(problem.table.candidates[off[0]])
        raise ModelError(
            f'The likelihood of "{problem.name}" does not add up to 1 over its classes (log sum {largest[off[0]]:.3g} in '
            f"{first}), so that rows without a label mean nothing. Declare probabilities of classes."
        )


def _told(
    problem: Problem, nats: float, labels: float, of_row: np.ndarray, with_label: np.ndarray, n: int | None = None
) -> Information:
    """Of the table's candidates, or of `n` rows that are elsewhere."""
    candidates = problem.table.candidates
    rows = xr.Dataset(
        {"nats": ("candidate", of_row), "nats_with_label": ("candidate", with_label)},
        coords=problem.coords(candidates, np.zeros(len(candidates), dtype=int)),
    )
    informative, m = nats > _NOTHING, len(candidates) if n is None else n
    return Information(informative, nats, labels, rows, _say(problem, m, informative, nats, labels))


def _say(problem: Problem, m: int, informative: bool, nats: float, labels: float) -> str:
    if not problem.class_conditional:
        return CANNOT
    if not informative:
        return f"The pool tells this model nothing: what it says of the features of {m} rows does not depend on its parameters."
    return (
        f"The pool of {m} rows is worth about {_two_digits(labels)} labels: it is expected to bring {_two_digits(nats)} nats "
        "of information about the parameters, if the model of the features is right. marginalize() takes it in; a wrong model "
        "of the features can lose by it, more with more rows."
    )


def _two_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"
