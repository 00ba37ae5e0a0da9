"""NUTS on p_k(θ) ∝ p(D | θ)^k π(θ), through `pm.sample` and so through any of its samplers.

The user's model is not touched: a fresh one holds the joined unconstrained vector as a flat variable and the log-density as a
Potential, in the graph of the rows of D alone. Sampling starts around the user's initial point.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pymc.step_methods.hmc.base_hmc import BaseHMC
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import graph_replace
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.tensor.rewriting.shape import ShapeFeature

from pymc_bpls.errors import BPLSError, CriterionError
from pymc_bpls.model.data.storing import free_name
from pymc_bpls.model.data.table import Labeled, Unlabeled
from pymc_bpls.model.density import Parameters, held_constant
from pymc_bpls.model.graphs.slicing import remake, rows_graph, table_graph
from pymc_bpls.model.problem import Problem
from pymc_bpls.montecarlo.diagnostics import effective_size, r_hat
from pymc_bpls.montecarlo.weighted import Weighted
from pymc_bpls.text.progress import is_shown, stage

MOST_RHAT, LEAST_ESS, LEAST_BFMI = 1.01, 400.0, 0.3
#: `target_accept` of a second run, where draws of the first diverged at PyMC's 0.8.
SMALLER_STEPS = 0.95
_STEPS_CHOSEN = ("target_accept", "nuts", "step")
_NAMED = 4


@dataclass(frozen=True)
class Draws:
    """Draws of θ (chain, draw, q) from p_k, the sampler's statistics, and reasons to distrust them."""

    theta: np.ndarray
    sample_stats: xr.Dataset
    reasons: list[str]

    @property
    def flat(self) -> np.ndarray:
        """θ as (draws, q), chain after chain."""
        return self.theta.reshape(-1, self.theta.shape[-1])

    @property
    def weighted(self) -> Weighted:
        """The same with weights, which are equal."""
        return Weighted(self.flat, np.zeros(len(self.flat)), len(self.theta), None)


def weighted_model(problem: Problem, labeled: Labeled, k: int, pool: Unlabeled | None = None) -> pm.Model:
    """A model of θ alone: `shift` is θ minus the user's initial point, so that every sampler starts around that.

    The labels of a `pool` are integrated out.
    """
    theta = pt.tensor("theta", dtype="float64", shape=(problem.density.dimension,))
    of_pool = 0.0 if pool is None else _log_marginal(problem, pool, theta)
    log_density = _stabilised(k * _log_lik(problem, labeled, theta) + of_pool + _log_prior(problem, theta))
    with pm.Model(model=None) as model:  # not part of a model that is open around the call
        shift = pm.Flat("shift", shape=problem.density.dimension)
        pm.Potential("log_density", graph_replace(log_density, {theta: pt.as_tensor(problem.density.start) + shift}))
    return model


def _stabilised(log_density: Variable) -> Variable:
    """The same number by PyTensor's rewrites, before a gradient is taken of it.

    PyTensor rewrites log(1 − σ(η)) into −softplus(η) only after differentiating it, and the gradient of the former is 0/0 where
    σ(η) rounds to 1 (PyTensor 2.38). "specialize" finds patterns that "canonicalize" hides.
    """
    graph = FunctionGraph(outputs=[log_density], features=[ShapeFeature()], copy_inputs=False)
    rewrite_graph(graph, include=("canonicalize", "stabilize", "specialize"))
    return graph.outputs[0]


def _log_lik(problem: Problem, labeled: Labeled, theta: Any) -> Any:
    """Σ w_j ℓ_j over D as a PyTensor graph."""
    density = problem.density
    if density.joint is not None:
        order = np.argsort(labeled.positions)
        return density.joint.log_lik_graph(theta, labeled.codes[order], labeled.positions[order])
    return (pt.constant(labeled.weights) * _log_lik_rows(problem, labeled.positions, labeled.codes, theta)).sum()


def _log_marginal(problem: Problem, pool: Unlabeled, theta: Any) -> Any:
    """Σ λ_u log Σ_y exp ℓ_u(y) over the pool as a PyTensor graph."""
    codes = [np.full(len(pool), code) for code in range(len(problem.classes))]
    of_classes = pt.stack([_log_lik_rows(problem, pool.positions, of_class, theta) for of_class in codes])
    return (pt.constant(pool.weights) * pm.math.logsumexp(of_classes, axis=0, keepdims=False)).sum()


def _log_lik_rows(problem: Problem, positions: np.ndarray, codes: np.ndarray, theta: Any) -> Any:
    """ℓ_j of rows with classes, (rows,), as a PyTensor graph."""
    density, classes = problem.density, problem.classes
    if density.graph.sliced:
        graph = rows_graph(problem.source, problem.log_lik, density.graph, len(positions))
        values = [pt.constant(data) for data in density.take(positions)]
        labels = classes.values[codes]
        [rows] = remake(
            [graph.log_lik],
            {graph.theta: theta, graph.label: pt.constant(labels), **dict(zip(graph.rows, values, strict=True))},
        )
        return rows
    graph = table_graph(problem.source, problem.log_lik)
    labels = np.repeat(classes.values[:1], problem.source.n_rows, axis=0)
    labels[positions] = classes.values[codes]
    [rows] = remake([graph.log_lik], {graph.theta: theta, graph.label: pt.constant(labels)})
    return rows[positions]


def _log_prior(problem: Problem, theta: Any) -> Any:
    whole, parts = problem.source.theta()
    terms = remake(problem.prior_terms, {**held_constant(problem.prior_terms, problem.source), **parts})
    return sum(term.sum() for term in remake(terms, {whole: theta}))


def sample(problem: Problem, labeled: Labeled, k: int, *, pool: Unlabeled | None = None, **options: Any) -> Draws:
    """Draws from p_k by `pm.sample(**options)`, and what speaks against them; progress is told by our line.

    The labels of a `pool` are integrated out.
    """
    total = options["chains"] * (options["draws"] + options["tune"])
    named = f"sampling p(D | θ){'²' if k == 2 else ''} π(θ) by NUTS"
    with weighted_model(problem, labeled, k, pool), _quiet(), stage(named, total) as tell:
        options = {"compute_convergence_checks": False, **options, "progressbar": False}
        if is_shown() and options.get("nuts_sampler", "pymc") == "pymc":
            options.setdefault("callback", lambda **_: tell(1))
        try:
            trace = pm.sample(**options)
        except (ImportError, ValueError, RuntimeError, KeyError, TypeError) as error:
            said = str(error).splitlines()[0].rstrip(".") if str(error) else "no message"
            raise BPLSError(
                f'Sampling failed with {type(error).__name__}: {said}. Check the sampler\'s options, or use method="psis".'
            ) from error
    theta = np.asarray(trace["posterior"]["shift"].transpose("chain", "draw", ...)) + problem.density.start
    stats = trace["sample_stats"]
    stats = stats.to_dataset() if isinstance(stats, xr.DataTree) else stats
    missing = options["chains"] - len(theta), options["draws"] - theta.shape[1]
    reasons = (
        [f"sampling was interrupted: {missing[0]} chains and {missing[1]} draws a chain are missing"] if any(missing) else []
    )
    return Draws(theta, stats, reasons + diagnose(theta, stats, problem.density.parameters.labels))


def sample_without_divergences(problem: Problem, labeled: Labeled, k: int, **options: Any) -> Draws:
    """Draws as from `sample`; where some diverged, drawn again by smaller steps, unless the caller chose the steps.

    A divergence says that steps were too large for some region, which draws then miss. PyMC warns of it and leaves a higher
    `target_accept` to its user; a reference takes it by itself, and is distrusted where draws diverge even then.
    """
    run = sample(problem, labeled, k, **options)
    if not divergences(run.sample_stats) or any(name in options for name in _STEPS_CHOSEN):
        return run
    return sample(problem, labeled, k, **options, target_accept=SMALLER_STEPS)


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse names that neither `pm.sample` nor its NUTS knows: PyMC ignores them.

    Raises
    ------
    CriterionError
    """
    known = {name for function in (pm.sample, pm.NUTS, BaseHMC) for name in inspect.signature(function).parameters}
    unknown = [name for name in options if name not in known | {"nuts"}]
    if unknown:
        raise CriterionError(f"pm.sample knows no {', '.join(unknown)}=. Check the spelling, or leave it out.")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without PyMC's log lines, which are about the fresh model's variables, and without Python's warning that JAX's threads
    are not there after a fork: the chains' processes run PyTensor only.
    """
    logger = logging.getLogger("pymc")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called", category=RuntimeWarning)
            yield
    finally:
        logger.setLevel(level)


def divergences(stats: xr.Dataset) -> int:
    """How many draws diverged."""
    return int(stats["diverging"].sum()) if "diverging" in stats else 0


def diagnose(theta: np.ndarray, stats: xr.Dataset, labels: tuple[str, ...]) -> list[str]:
    """Reasons not to trust a run, in words: divergences, R-hat, effective sample sizes, BFMI."""
    reasons = []
    divergent = divergences(stats)
    if divergent:
        reasons.append(f"{divergent} of {theta[..., 0].size} draws diverged")
    if len(theta) < 2:
        return [*reasons, "there is one chain only, so that R-hat says nothing"]
    rhat = r_hat(theta)
    reasons += _bad(rhat > MOST_RHAT, rhat.max(), labels, f"R-hat is up to {{:.3f}} (more than {MOST_RHAT})")
    for method, tails in (("bulk", None), ("tail", (0.05, 0.95))):
        ess = effective_size(theta, method, tails)
        reasons += _bad(ess < LEAST_ESS, ess.min(), labels, f"the {method} ESS is down to {{:.0f}} (less than {LEAST_ESS:.0f})")
    if "energy" in stats:
        energy = np.asarray(stats["energy"].transpose("chain", "draw"))
        bfmi = float(np.min(np.square(np.diff(energy, axis=1)).mean(axis=1) / energy.var(axis=1)))
        if bfmi < LEAST_BFMI:
            reasons.append(f"BFMI is {bfmi:.2f} (less than {LEAST_BFMI}): the energy is badly explored")
    return reasons


def _bad(where: np.ndarray, worst: float, labels: tuple[str, ...], text: str) -> list[str]:
    if not where.any():
        return []
    names = [labels[i] for i in np.flatnonzero(where)]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return [f"{text.format(worst)} for {', '.join(names[:_NAMED])}{more}"]


def named_draws(parameters: Parameters, theta: np.ndarray) -> xr.Dataset:
    """Draws (chain, draw, q) as the model's variables, with their dims and coords.

    A variable that is called as one of the two dims of draws has `_2` after its name.
    """
    chains, draws, q = theta.shape
    values = jax.jit(jax.vmap(parameters.constrain))(jnp.asarray(theta.reshape(-1, q)))
    template = parameters.named(theta[0, 0])
    variables = {
        free_name(name, ("chain", "draw")): (
            ("chain", "draw", *template[name].dims),
            np.asarray(value).reshape(chains, draws, *template[name].shape),
        )
        for name, value in zip(parameters.variables, values, strict=True)
    }
    return xr.Dataset(variables, coords={**template.coords, "chain": np.arange(chains), "draw": np.arange(draws)})
