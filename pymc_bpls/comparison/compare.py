"""Runs of several criteria over several splits, which start from the same model in each and are judged on the same rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import xarray as xr

from pymc_bpls.arguments import check
from pymc_bpls.audit.forms import Form, read_forms
from pymc_bpls.choosing.bound import FEWEST_OF_CLASS
from pymc_bpls.comparison.differences import SUPERVISED, Estimate, bonferroni, with_differences
from pymc_bpls.comparison.splits import Split, read_splits
from pymc_bpls.compute.executors import Executor
from pymc_bpls.compute.threads import IN_TURN, side_by_side
from pymc_bpls.compute.work import working
from pymc_bpls.errors import ApproximationError, CriterionError, ModeError
from pymc_bpls.model.problem import Problem
from pymc_bpls.scoring.criteria import Criterion, FitCriterion
from pymc_bpls.scoring.engines import refuse_weight
from pymc_bpls.scoring.scorer import Scorer, settled
from pymc_bpls.scoring.settings import AUTO, find_settings
from pymc_bpls.selector import PseudoLabelSelector
from pymc_bpls.selftraining.ending import Ending
from pymc_bpls.selftraining.held_out import HeldOut
from pymc_bpls.selftraining.history import History
from pymc_bpls.selftraining.planning import read_plan
from pymc_bpls.selftraining.replicates import check_drawing
from pymc_bpls.selftraining.run import Run
from pymc_bpls.selftraining.train import Train
from pymc_bpls.selftraining.whole_runs import whole_runs
from pymc_bpls.text.progress import stage
from pymc_bpls.text.provenance import made_with

_MEASURES = ("accuracy", "log_score")
_MOST = 2**31


@dataclass(frozen=True)
class Outcome:
    """A run that is over: its measures along `n_pseudo`, how it ended, how many rows it added, and its seconds."""

    curve: dict[str, np.ndarray]
    ending: Ending
    n_added: int
    seconds: float
    compiling: float


def compare(
    pls: PseudoLabelSelector,
    criteria: Sequence[str | Criterion | FitCriterion],
    splits: Any = 10,
    *,
    test_share: float = 0.5,
    labels: Any = "predicted",
    rounds: int | None = None,
    batch_size: int = 1,
    stop: Any = None,
    class_balance: Any = None,
    pseudo_weight: float | Callable[[float], float] = 1.0,
    random_seed: int | np.random.Generator | None = None,
    executor: Executor | None = None,
    progressbar: bool = True,
) -> xr.Dataset:
    """Train by several criteria on several splits, and compare the final models in pairs.

    In each split all runs start from the same labeled rows and are judged on the same test rows. Ctrl-C returns the splits that
    were finished.

    Parameters
    ----------
    pls : BPLS or ModelSet
        Of the table, with all labels that are known.
    criteria : sequence of str, Criterion or FitCriterion
        Names as in `self_train`, with "[laplace]", "[ep]", "[vi]" or "[mle]" for another approximation or expansion.
    splits : int or list of tuple, default 10
        How many random splits of the labeled rows, each class in the same share, with the pool as it is; or a list of
        (labeled, unlabeled, test), each by position, a mask or names of the index.
    test_share : float, default 0.5
        Share of the labeled rows that random splits judge by.
    labels, rounds, batch_size, stop, class_balance, pseudo_weight
        As in `self_train`.
    random_seed : int or numpy Generator, optional
        The runs of split s take `random_seed` + s.
    executor : optional
        Anything with `submit`, as those of `concurrent.futures` (processes by "spawn") or a Dask client: splits run side by
        side there, with the same numbers. By default one after the other.
    progressbar : bool, default True

    Returns
    -------
    xarray.Dataset
        `accuracy` and `log_score` over (criterion, split, n_pseudo), runs that ended early at their last value; `stop_kind`,
        `stop_reason`, `n_added`, `seconds` and `compiling` (seconds that compilation took) over (criterion, split); and over
        (measure, criterion, against) the mean `difference` of final models, paired by split, with its `standard_error`, 95%
        interval `low` to `high`, and number `n` of splits. `against` is "supervised", which each run starts from, or another
        criterion. Random splits redraw the same rows, which the standard error takes into account [1]_; given ones count as
        independent. There is no interval where fewer than five rows of a class judge. attrs: `verdict`. A run that was
        refused from the start is NaN, and `stop_reason` says why.

    Raises
    ------
    RowError
        Splits name rows whose labels are not known, or a row twice.
    CriterionError
        A criterion is unknown or not defined for the model.

    See Also
    --------
    BPLS.self_train : one run.

    References
    ----------
    .. [1] Nadeau, C. and Bengio, Y. (2003). Inference for the generalization error. Machine Learning 52, 239-281.
       https://doi.org/10.1023/A:1024068626366

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_bpls as bpls
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2))
    >>> y = np.where(np.arange(60) < 30, X[:, 0] + rng.logistic(size=60) > 0, -1)
    >>> with pm.Model() as model:
    ...     label = pm.Bernoulli("label", logit_p=X @ pm.Normal("b", 0, 2.5, shape=2), observed=y)
    >>> found = bpls.compare(bpls.BPLS(model), ["probability", "random"], 4, rounds=5, random_seed=0, progressbar=False)
    >>> found["difference"].sel(measure="accuracy", against="supervised").sizes
    Frozen({'criterion': 2})
    """
    check(random_seed=random_seed, rounds=rounds, batch_size=batch_size, executor=executor)
    if not isinstance(pls, PseudoLabelSelector):
        raise CriterionError(f"pls= is a {type(pls).__name__}. Give the BPLS or ModelSet that is to be trained.")
    pls.needs_rows_in_memory()
    made = made_with(random_seed)
    forms = read_forms(criteria, AUTO)
    rng = np.random.default_rng(random_seed)
    scorer, problem = pls.scorer, pls.scorer.problem
    drawn = read_splits(splits, problem, test_share, rng)
    seeds = random_seed + np.arange(len(drawn)) if isinstance(random_seed, int) else rng.integers(_MOST, size=len(drawn))
    refuse_weight(problem.density, problem.name, pseudo_weight)
    train = Train(
        labels=labels,
        rounds=rounds,
        batch_size=batch_size,
        stop=stop,
        class_balance=class_balance,
        pseudo_weight=pseudo_weight,
    )
    on_split = partial(_train_each, scorer, forms, train)
    finished: list[list[Outcome]] = []
    with working(f"comparing {len(forms)} criteria in {len(drawn)} splits", progressbar, len(drawn)) as tell:
        try:
            for outcomes in side_by_side(on_split, zip(drawn, seeds.tolist(), strict=True), executor or IN_TURN):
                finished.append(outcomes)
                tell(1)
        except KeyboardInterrupt:
            if not finished:
                raise
    overlap = 0.0
    if isinstance(splits, int | np.integer):
        overlap = len(drawn[0].test) / len(drawn[0].labeled)
    found = with_differences(_gather(forms, finished), overlap)
    few = _say_few(problem, drawn)
    if few:
        found = found.assign(low=found["low"] * np.nan, high=found["high"] * np.nan)
    return found.assign_attrs(verdict=few or say_differences(found), **made)


def _train_each(scorer: Scorer, forms: Sequence[Form], train: Train, drawn: tuple[Split, int]) -> list[Outcome]:
    """A run of each criterion on a split with its seed."""
    return [_train(scorer, form, train, *drawn) for form in forms]


def _train(scorer: Scorer, form: Form, train: Train, split: Split, seed: int) -> Outcome:
    """One run on a split, as `self_train` does it; one that has no model to begin with is NaN, one that Ctrl-C ends is none."""
    test = HeldOut(split.test, scorer.problem.table.codes[split.test])
    scorer = scorer.with_table(split.table(scorer.problem.table))
    problem = scorer.problem
    asked = find_settings(form.criterion, form.approximation, form.expansion, train.labels, seed).for_run()
    check_drawing(asked.rule, None, train.batch_size)
    plan = read_plan(problem, asked.rng, train, test)
    start = problem.labeled if plan.held_out is None else problem.labeled.without(plan.held_out.positions)
    run = Run(scorer, settled(scorer, asked, start), plan, start, problem.table.candidates, History())
    before, began = _compiled(scorer), perf_counter()
    try:
        with whole_runs(), stage(f'"{form.label}", pseudo-labels') as tell:
            ending = run.go(tell)
    except (ModeError, ApproximationError) as error:
        nothing = {name: np.array([np.nan]) for name in _MEASURES}
        return Outcome({"n_pseudo": np.zeros(1, dtype=int), **nothing}, Ending("refused", str(error)), 0, np.nan, np.nan)
    if ending.kind == "interrupted":
        raise KeyboardInterrupt
    seconds, compiling = perf_counter() - began, _compiled(scorer) - before
    curve = {name: np.array([model[name] for model in run.history.models]) for name in ("n_pseudo", *_MEASURES)}
    return Outcome(curve, ending, len(run.history.steps), seconds - compiling, compiling)


def _compiled(scorer: Scorer) -> float:
    return sum(entry.seconds for compiler in scorer.compilers for entry in compiler.log)


def _gather(forms: Sequence[Form], finished: Sequence[Sequence[Outcome]]) -> xr.Dataset:
    """All outcomes over (criterion, split), and along the `n_pseudo` of the longest run."""
    runs = [[outcomes[place] for outcomes in finished] for place in range(len(forms))]
    steps = max((outcome.curve["n_pseudo"] for row in runs for outcome in row), key=len)

    def along(name: str) -> np.ndarray:
        curves = [[outcome.curve[name] for outcome in row] for row in runs]
        return np.array([[np.pad(curve, (0, len(steps) - len(curve)), mode="edge") for curve in row] for row in curves])

    def of(value: Callable[[Outcome], Any]) -> tuple[tuple[str, str], np.ndarray]:
        return ("criterion", "split"), np.array([[value(outcome) for outcome in row] for row in runs])

    return xr.Dataset(
        {
            **{name: (("criterion", "split", "n_pseudo"), along(name)) for name in _MEASURES},
            "stop_kind": of(lambda outcome: outcome.ending.kind),
            "stop_reason": of(lambda outcome: outcome.ending.reason),
            "n_added": of(lambda outcome: outcome.n_added),
            "seconds": of(lambda outcome: outcome.seconds),
            "compiling": of(lambda outcome: outcome.compiling),
        },
        coords={"criterion": [form.label for form in forms], "split": np.arange(len(finished)), "n_pseudo": steps},
    )


def _say_few(problem: Problem, drawn: Sequence[Split]) -> str:
    """Of which class too few labeled rows judge, so that differences without its losses would vary too little; else empty."""
    judging = np.unique(np.concatenate([split.test for split in drawn]))
    counts = np.bincount(problem.table.codes[judging], minlength=len(problem.classes.names))
    rarest = int(counts.argmin())
    if counts[rarest] >= FEWEST_OF_CLASS:
        return ""
    return (
        f"Whether anything was gained is unknown: {counts[rarest]} rows of class {problem.classes.names[rarest]} judge, and "
        f"an interval takes {FEWEST_OF_CLASS} of each class. Label more of them."
    )


def say_differences(found: xr.Dataset) -> str:
    """Which criteria gain over the supervised model beyond chance, and which lose, by accuracy."""
    n = int(found["n"].max())
    if n < 2:
        return "One split has no standard error, so whether anything was gained is unknown. Use more splits."
    held = found.sel(measure="accuracy", against=SUPERVISED)
    pairs = zip(held["difference"].to_numpy().tolist(), held["standard_error"].to_numpy().tolist(), strict=True)
    bound = bonferroni(n, held.sizes["criterion"])
    signs = [Estimate(*pair).beyond(bound) for pair in pairs]
    names = held["criterion"].to_numpy().tolist()
    better, worse = (", ".join(name for name, sign in zip(names, signs, strict=True) if sign == way) for way in (1, -1))
    sentences = [
        f"Better than the supervised model beyond chance: {better}." if better else "No criterion gains beyond chance.",
        f"Worse beyond chance: {worse}." if worse else "",
        f"Beyond chance is more than {bound:.1f} standard errors of accuracy (Student's t, {n} splits, Bonferroni over "
        f"{len(names)}).",
    ]
    return " ".join(filter(None, sentences))
