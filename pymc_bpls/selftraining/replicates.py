"""Replicates of a run whose labels are drawn, each with its own stream of random numbers, and the mixture of their posteriors.

Drawn from the posterior predictive one after the other, labels of rows that were chosen from D alone make the posterior a
martingale: over replicates its mean is the posterior given the labels alone [1]_, for a model of y given x. The mixture
(1/B) Σ_b q_b is told by its mean and covariance, which the supervised q_0 stands beside.

References
----------
.. [1] Fong, E., Holmes, C. and Walker, S. G. (2023). Martingale posterior distributions. JRSS B 85, 1357-1391.
   https://doi.org/10.1093/jrsssb/qkad005
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.arguments import check
from pymc_bpls.compute.memory import ask_memory
from pymc_bpls.errors import CriterionError
from pymc_bpls.model.data.storing import as_tree
from pymc_bpls.model.density import Parameters
from pymc_bpls.rules.label_rules import DrawingRule, LabelRule
from pymc_bpls.selftraining.ending import Ending
from pymc_bpls.selftraining.invented import kullback_leibler
from pymc_bpls.selftraining.run import Run
from pymc_bpls.selftraining.saved_run import REPLICATES
from pymc_bpls.text.incomplete import as_it_was_left

#: The group that tells the mixture of the replicates' posteriors.
MIXTURE = "mixture"
_MATRICES = 8
_MADE = ("version", "versions", "random_seed", "table")
_OF_ALL = (*_MADE, "criterion", "approximation", "expansion", "labels", "batch_size", "pseudo_weight")


def check_drawing(rule: LabelRule, replicates: int | None, batch_size: int) -> None:
    """Refuse replicates of a run that draws no labels, and labels that are drawn together.

    Raises
    ------
    CriterionError
    """
    if replicates is not None:
        check(replicates=replicates)
        if not isinstance(rule, DrawingRule):
            raise CriterionError(
                f'replicates= is for labels that are drawn, and labels="{rule.name}" draws none. Use labels="sampled".'
            )
    if isinstance(rule, DrawingRule) and batch_size != 1:
        raise CriterionError(f'labels="{rule.name}" draws one label after the other. Leave batch_size= at 1.')


def begin_replicates(run: Run, n: int) -> list[Run]:
    """So many runs that begin as `run` does, each with its own stream of its random numbers.

    Raises
    ------
    SizeError
        The covariance of the mixture would not fit, which is said before anything is trained.
    """
    q = run.scorer.problem.density.dimension
    ask_memory(f"The covariance of {q:,} parameters, with what is made of it,", _MATRICES * 8 * q * q)
    return [replace(run, settings=replace(run.settings, rng=stream)) for stream in run.settings.rng.spawn(n)]


def go_through(runs: Sequence[Run], tell: Callable[[int], None]) -> list[Ending]:
    """All of them, one after the other; where Ctrl-C ends one, the others keep the pseudo-labels that they have."""
    endings: list[Ending] = []
    interrupted = False
    for run in runs:
        if interrupted:
            run.plan = replace(run.plan, rounds=0)
        ending = run.go(tell)
        if interrupted and ending.kind == "rounds":
            ending = Ending("interrupted", "interrupted")
        interrupted = interrupted or ending.kind == "interrupted"
        endings.append(ending)
    return endings


def gather(trees: Sequence[xr.DataTree], mixture: xr.Dataset | None) -> xr.DataTree:
    """The replicates' trees as one: `/replicates/1`, …, each a run as any other, and `/mixture`."""
    verdict = _say_mixture(mixture, len(trees))
    attrs = {name: value for name, value in trees[0].attrs.items() if name in _OF_ALL}
    groups = {"/": xr.Dataset(attrs={**attrs, "replicates": len(trees), "verdict": verdict})}
    if mixture is not None:
        groups[f"/{MIXTURE}"] = mixture
    for number, tree in enumerate(trees, 1):
        for node in tree.subtree:
            groups[f"/{REPLICATES}/{number}{node.path.rstrip('/')}"] = node.to_dataset(inherit=False)
    return as_tree(groups)


def replicates_of(run: xr.DataTree) -> list[xr.DataTree]:
    """The replicates of a tree in their order, as many as its attrs say.

    Raises
    ------
    CriterionError
        Some are lost.
    """
    with as_it_was_left("run=", "self_train"):
        held = run.children[REPLICATES].children
        return [held[str(number)] for number in range(1, int(run.attrs["replicates"]) + 1)]


def mixture_of(runs: Sequence[Run], parameters: Parameters) -> xr.Dataset | None:
    """Mean and covariance of (1/B) Σ_b q_b beside the supervised q_0, by the approximation that the runs score by.

    None where not the same member of a set predicts at the end of all.
    """
    if len({run.predicts for run in runs}) > 1:
        return None
    pairs = [tuple(q.in_theta for q in run.gaussians()) for run in runs]
    ends, supervised = [end for end, _ in pairs], pairs[0][1]
    means = np.stack([q.mean for q in ends])
    mean, n = means.mean(axis=0), len(ends)
    deviations = means - mean
    covariance = sum(q.covariance for q in ends) / n + deviations.T @ deviations / n
    variances = np.stack([q.covariance.diagonal() for q in ends]) + deviations**2
    alone, units = [_divergence(q, supervised) for q in ends], parameters.units
    described: dict[str, Any] = {
        "mean": ("parameter", units * mean),
        "covariance": (("parameter", "parameter_bis"), np.outer(units, units) * covariance),
        "supervised_mean": ("parameter", units * supervised.mean),
        "supervised_covariance": (("parameter", "parameter_bis"), np.outer(units, units) * supervised.covariance),
        "invented_information": ("replicate", np.array(alone)),
    }
    if n > 1:
        described["mean_error"] = "parameter", units * means.std(axis=0, ddof=1) / np.sqrt(n)
        described["variance_error"] = "parameter", units**2 * variances.std(axis=0, ddof=1) / np.sqrt(n)
    coords = {"parameter": list(parameters.labels), "parameter_bis": list(parameters.labels), "replicate": np.arange(1, n + 1)}
    information = _divergence(Gaussian(mean, covariance), supervised)
    return xr.Dataset(described, coords, {"invented_information": information})


def _divergence(q: Gaussian, other: Gaussian) -> float:
    return kullback_leibler((q.mean, np.linalg.inv(q.covariance)), (other.mean, np.linalg.inv(other.covariance)))


def _say_mixture(mixture: xr.Dataset | None, n: int) -> str:
    """How far the mixture is from the supervised posterior, and how far a replicate alone."""
    if mixture is None:
        return f"The {n} replicates do not mix: different members of the set predict at their ends."
    text = (
        f"The mixture over {n} replicates is {mixture.attrs['invented_information']:.3g} nats from the supervised posterior "
        f"(Gaussians of their moments), a replicate alone {float(mixture['invented_information'].mean()):.3g} on average."
    )
    if "mean_error" not in mixture:
        return f"{text} One replicate has no error."
    error = mixture["mean_error"].where(mixture["mean_error"] > 0)
    furthest = float((np.abs(mixture["mean"] - mixture["supervised_mean"]) / error).max())
    return f"{text} Its means differ by at most {furthest:.1f} Monte Carlo standard errors."
