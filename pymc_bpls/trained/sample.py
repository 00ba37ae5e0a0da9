"""The posterior of the final model as ArviZ takes it, by NUTS or from the Gaussian.

D's pseudo-labeled rows shape the posterior, and are no data: `log_likelihood`, `posterior_predictive` and `observed_data` are
of the labeled rows alone, so that `loo` judges the model by labels; `labeled` and `predictions` mark each row with its origin.

| group | what it holds |
|---|---|
| `posterior` | free variables and Deterministics, with their dims and coords |
| `unconstrained_posterior` | the same draws as θ |
| `sample_stats` | NUTS's own |
| `log_likelihood`, `posterior_predictive`, `observed_data` | of the labeled rows, classes as codes |
| `predictions` | mean and standard deviation of the class probabilities of all other rows |
| `labeled` | D: labels, weights, and the round in which a row got a pseudo-label |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import softmax

from pymc_bpls.arguments import check
from pymc_bpls.compute.memory import ask_memory
from pymc_bpls.errors import CriterionError, RowError, SizeError, warn
from pymc_bpls.model.data.storing import as_tree, free_name
from pymc_bpls.model.deterministics import deterministics
from pymc_bpls.model.problem import Problem
from pymc_bpls.montecarlo.nuts import Draws, check_options, named_draws, sample
from pymc_bpls.montecarlo.other_modes import find_modes, missed_modes
from pymc_bpls.scoring.one_model import ModelScorer
from pymc_bpls.scoring.settings import LAPLACE
from pymc_bpls.trained.draws import probabilities_over_draws
from pymc_bpls.trained.result import GIVEN, PSEUDO, ROWS, THETA, Trained

_METHODS = ("nuts", "gaussian")
_BY_NUTS = "NUTS on p(D | θ) π(θ)"
_FEWER = "Take fewer draws, or leave out Deterministics over rows"


@dataclass(frozen=True)
class Sampling:
    """How to sample: the method, its size, and what `pm.sample` takes besides."""

    method: str
    draws: int
    tune: int
    chains: int
    options: dict[str, Any]

    def __post_init__(self) -> None:
        check(draws=self.draws, tune=self.tune, chains=self.chains)
        check_options(self.options)
        if self.method not in _METHODS:
            raise CriterionError(f'method="{self.method}" is unknown. Use "nuts" or "gaussian".')
        if self.options and self.method != "nuts":
            raise CriterionError(f'{", ".join(self.options)}= is for method="nuts". Leave it out.')

    def draw(self, scorer: ModelScorer, trained: Trained, rng: np.random.Generator) -> tuple[Draws, str]:
        """Draws of θ from p(θ | D), or from q ≈ p(θ | D), and in words where they are from."""
        if trained.pooled:
            raise CriterionError(
                "result= has the pool's labels integrated out, and holds the draws that there are. "
                'Use marginalize(approximation="nuts") for more of them.'
            )
        if self.method == "nuts":
            size: dict[str, Any] = {"draws": self.draws, "tune": self.tune, "chains": self.chains}
            seed = int(rng.integers(2**31))
            return sample(scorer.problem, trained.labeled, 1, random_seed=seed, **size, **self.options), _BY_NUTS
        fit = trained.fit(scorer)
        name = scorer.approximation_of(fit)
        q = fit.gaussian(name)
        said = "Laplace's method" if name == LAPLACE else name
        return Draws(q.theta_draws((self.chains, self.draws), rng), xr.Dataset(), []), f"the Gaussian by {said} at D"


def sample_final(
    scorer: ModelScorer, trained: Trained, sampling: Sampling, rng: np.random.Generator, made: Mapping[str, Any]
) -> Any:
    """The ArviZ container of this ArviZ: a DataTree, or an InferenceData before ArviZ 1. `made` are attrs that say how."""
    run, source = sampling.draw(scorer, trained, rng)
    run = replace(run, reasons=[*run.reasons, *_modes_without_draws(scorer, trained, run)])
    if run.reasons:
        warn(
            f"The sample is not reliable: {'; '.join(run.reasons)}. Take more draws, another parametrisation, or another start "
            "by initvals= of BPLS."
        )
    problem = scorer.problem
    attrs = {
        "source": source,
        "density": "p(D | θ) π(θ), D with its pseudo-labels",
        "n_labeled": int((trained.rounds == 0).sum()),
        "n_pseudo": int((trained.rounds > 0).sum()),
        "reliable": int(not run.reasons),
        "reasons": list(run.reasons),
        **made,
    }
    groups = {
        "posterior": _named(problem, run.theta).assign_attrs(attrs),
        THETA: draws_of_theta(problem, trained, run.theta),
        **({"sample_stats": run.sample_stats} if run.sample_stats.variables else {}),
        **(_of_labeled(scorer, trained, run.theta, rng) if problem.density.joint is None else {}),
        "predictions": _predictions(scorer, trained, run.flat),
        ROWS: rows_of(problem, trained),
    }
    return _container({name: held for name, held in groups.items() if held.variables})


def _modes_without_draws(scorer: ModelScorer, trained: Trained, run: Draws) -> list[str]:
    """Reasons to distrust the draws, as `missed_modes` has them; none where the model is too large, or rows too far, for it."""
    try:
        search = find_modes(scorer.engines.of(trained.labeled).engine, trained.labeled, 1, far=True)
    except (RowError, SizeError):
        return []
    return missed_modes(search, run.weighted)


def _container(groups: dict[str, xr.Dataset]) -> Any:
    tree = as_tree(groups)
    arviz = import_module("arviz")
    if not arviz.__version__.startswith("0."):
        return tree
    held: dict[str, Any] = {name: tree[name].to_dataset() for name in groups}
    return arviz.InferenceData(**held)


def _named(problem: Problem, theta: np.ndarray) -> xr.Dataset:
    derived = deterministics(problem)
    entries = sum(int(np.prod(value.shape)) for value in derived.named(theta[0, 0]).data_vars.values())
    ask_memory(f"{entries:,} entries of Deterministics for each draw", 8 * 3 * entries * theta[..., 0].size, _FEWER)
    free = named_draws(problem.density.parameters, theta)
    return xr.merge([free, named_draws(derived, theta)], compat="override") if derived.variables else free


def draws_of_theta(problem: Problem, trained: Trained, theta: np.ndarray, log_weights: np.ndarray | None = None) -> xr.Dataset:
    """Draws θ (chain, draw, q), with logarithms of weights where they do not count equally, as `read_trained` reads them."""
    parameters = problem.density.parameters
    labels, theta = list(parameters.labels), parameters.unconstrained(theta)
    coords = {"chain": np.arange(len(theta)), "draw": np.arange(theta.shape[1]), "parameter": labels}
    attrs: dict[str, Any] = {"table": problem.fingerprint, "approximation": trained.approximation}
    attrs |= {"test_rows": trained.test, "pooled": int(trained.pooled)}
    weights = {} if log_weights is None else {"log_weight": (("chain", "draw"), log_weights.reshape(theta.shape[:2]))}
    return xr.Dataset({"theta": (("chain", "draw", "parameter"), theta), **weights}, coords, attrs)


def _of_labeled(scorer: ModelScorer, trained: Trained, theta: np.ndarray, rng: np.random.Generator) -> dict[str, xr.Dataset]:
    """ℓ_j of the labeled rows' labels at each draw, a label drawn for each, and the labels."""
    problem, given = scorer.problem, trained.rounds == 0
    positions, codes = trained.labeled.positions[given], trained.labeled.codes[given]
    n, K, shape = len(positions), len(problem.classes), theta.shape[:2]
    ask_memory(f"Log-likelihoods of {n:,} labeled rows for each draw", 8 * 3 * K * n * theta[..., 0].size, _FEWER)
    engine = scorer.engines.of(trained.labeled).engine
    pairs = np.repeat(positions, K), np.tile(np.arange(K), n)
    log_lik = engine.log_lik_pairs(theta.reshape(-1, theta.shape[-1]), *pairs).reshape(n, K, *shape)
    below = softmax(log_lik, axis=1).cumsum(axis=1) < rng.random((n, 1, *shape))
    predicted = np.minimum(below.sum(axis=1), K - 1)
    coords = {"row": positions, **problem.table.names.coords("row", positions)}
    draws = {**coords, "chain": np.arange(shape[0]), "draw": np.arange(shape[1])}
    dims, name = ("chain", "draw", "row"), free_name(problem.name, draws)
    own = np.moveaxis(log_lik[np.arange(n), codes], 0, -1)
    classes = {"classes": [str(each) for each in problem.classes.names]}
    return {
        "log_likelihood": xr.Dataset({name: (dims, own)}, draws),
        "posterior_predictive": xr.Dataset({name: (dims, np.moveaxis(predicted, 0, -1))}, draws, classes),
        "observed_data": xr.Dataset({name: ("row", codes)}, coords, classes),
    }


def _predictions(scorer: ModelScorer, trained: Trained, theta: np.ndarray) -> xr.Dataset:
    """Of the rows that have no label: where a pseudo-label came from, mean and standard deviation of the probabilities."""
    problem = scorer.problem
    origins, rounds = trained.origins(problem)
    positions = np.flatnonzero(origins != GIVEN)
    mean, sd, _ = probabilities_over_draws(scorer, trained.labeled, theta, positions)
    return xr.Dataset(
        {"probability": (("row", "class"), mean), "probability_sd": (("row", "class"), sd)},
        coords={
            "row": positions,
            "class": problem.classes.names,
            "origin": ("row", origins[positions].astype(str)),
            "round": ("row", rounds[positions]),
            **problem.table.names.coords("row", positions),
        },
    )


def rows_of(problem: Problem, trained: Trained) -> xr.Dataset:
    """D as `read_trained` reads it."""
    D = trained.labeled
    return xr.Dataset(
        {
            "label": ("row", problem.classes.names[D.codes]),
            "weight": ("row", D.weights),
            "round": ("row", trained.rounds),
            "origin": ("row", np.where(trained.rounds > 0, PSEUDO, GIVEN)),
        },
        coords={"row": D.positions, **problem.table.names.coords("row", D.positions)},
    )
