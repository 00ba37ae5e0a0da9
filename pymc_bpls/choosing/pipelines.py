"""Whole ways to a model: a run of self-training, the pool's labels integrated out, or a function of the user's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, Self

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bpls.errors import BPLSError, CriterionError, ModelError, RowError
from pymc_bpls.model.problem import Problem
from pymc_bpls.selftraining.pipeline import Pipeline
from pymc_bpls.selftraining.stop_rules import NoGain
from pymc_bpls.selftraining.train import Train

#: The pipeline that every choice has, and makes where nothing speaks for another one.
SUPERVISED = "supervised"
_LONGEST = 160


class PipelineFailure(BPLSError):
    """A function of the user's raised an exception, which is named."""


class Learner(Protocol):
    """What pipelines use: a declared model on its table, `BPLS` or `ModelSet`."""

    @property
    def problem(self) -> Problem: ...

    @property
    def run(self) -> Callable[..., xr.DataTree]: ...

    @property
    def predict_proba(self) -> Callable[..., xr.DataArray]: ...

    def hiding(self, rows: np.ndarray) -> Self:
        """The same where these rows have no label and are no candidates."""
        ...


class Marginalize(Pipeline):
    """The posterior with the pool's labels integrated out, as a pipeline for `choose`.

    Parameters
    ----------
    weight : float, default 1
    scorer : BPLS, optional
        Another model on the same rows.
    **how
        As in `BPLS.marginalize`.

    See Also
    --------
    Train : a run of self-training.

    Examples
    --------
    >>> import pymc_bpls as bpls
    >>> bpls.Marginalize(0.1)
    Marginalize(0.1)
    """

    def __init__(self, weight: float = 1.0, *, scorer: Any = None, **how: Any) -> None:
        wrong = [name for name in ("test", "random_seed", "progressbar") if name in how]
        if wrong:
            raise CriterionError(f"Marginalize({wrong[0]}=…) is for choose to say. Give it to choose, or leave it out.")
        self.weight, self.scorer, self.how = weight, scorer, how

    def __repr__(self) -> str:
        return f"Marginalize({self.weight!r}{''.join(f', {name}={value!r}' for name, value in self.how.items())})"

    def fit(
        self, learner: Any, random_seed: Any, *, test: Any = None, progressbar: bool = True, other_modes: bool = True
    ) -> xr.DataTree:
        """The posterior, whose other modes are looked for in any case."""
        if not hasattr(learner, "marginalize"):
            raise ModelError(f"A {type(learner).__name__} integrates no labels out. Use one BPLS, or leave Marginalize out.")
        told: dict[str, Any] = {"test": test, "random_seed": random_seed, "progressbar": progressbar}
        return learner.marginalize(self.weight, **{**self.how, **told})

    def how_it_predicts(self, learner: Any) -> str:
        """By the posterior's draws."""
        return "averaged over draws"


class ByUser(Pipeline):
    """A function of (labels, random_seed) that returns class probabilities of all rows.

    `labels` is a Series over the user's index, None where no label is told.
    """

    def __init__(self, function: Callable[[pd.Series, Any], Any]) -> None:
        self.function = function

    def fit(
        self, learner: Any, random_seed: Any, *, test: Any = None, progressbar: bool = True, other_modes: bool = True
    ) -> xr.DataArray:
        """Its class probabilities, in the order of the model's classes.

        Raises
        ------
        PipelineFailure
            The function raised something.
        CriterionError
            It returned no class probabilities of all rows.
        """
        problem = learner.problem
        table, names = problem.table, problem.classes.names
        labels = np.full(len(table.codes), None, dtype=object)
        labels[table.labeled] = names[table.codes[table.labeled]]
        try:
            given = self.function(pd.Series(labels, index=table.index, name=problem.name), random_seed)
        except Exception as error:
            what = f"{type(error).__name__}: {error}"[:_LONGEST].rstrip(".: ")
            raise PipelineFailure(f"A pipeline of your own raised {what}. Mend it, or leave it out.") from error
        if isinstance(given, xr.DataArray) and "class" in given.coords:
            given = given.transpose("row", "class").sel({"class": names})
        p = np.asarray(given, dtype=float)
        if p.shape != (len(labels), len(names)) or (p < 0).any() or (np.abs(p.sum(axis=1) - 1) > 1e-6).any():
            raise CriterionError(
                f"A pipeline of your own returned shape {p.shape}, or rows that do not add up to 1. Return class probabilities "
                f"of all {len(labels)} rows, as a DataArray (row, class)."
            )
        coords = {"row": np.arange(len(labels)), **table.names.coords("row", np.arange(len(labels))), "class": names}
        return xr.DataArray(p, dims=("row", "class"), coords=coords)

    def how_it_predicts(self, learner: Any) -> str:
        """By the function."""
        return "by a function of your own"

    def predict(self, learner: Any, result: Any, rows: np.ndarray) -> np.ndarray:
        """Of its probabilities those of some rows."""
        return result.to_numpy()[rows]


def default_pipelines(problem: Problem, *, of_one_model: bool) -> dict[str, Pipeline]:
    """PPP until nothing is gained, PPP and probability to the end, and labels integrated out where that informs."""
    found: dict[str, Pipeline] = {
        "ppp until NoGain": Train("ppp", stop=NoGain()),
        "ppp": Train("ppp"),
        "probability": Train("probability"),
    }
    if of_one_model and problem.class_conditional and problem.density.joint is None:
        found |= {f"marginalize({weight:g})": Marginalize(weight) for weight in (0.1, 1.0)}
    return found


def read_pipelines(given: Any, learner: Learner) -> dict[str, Pipeline]:
    """Pipelines by name, without the supervised one, which is always there.

    Raises
    ------
    CriterionError
        One of them is none.
    RowError
        The model of one has other rows.
    """
    problem = learner.problem
    if given is None:
        return default_pipelines(problem, of_one_model=hasattr(learner, "marginalize"))
    if not isinstance(given, Mapping) or not given:
        raise CriterionError(
            f'pipelines={given!r} are none. Give a mapping as {{"ppp": Train("ppp")}}, or None for the usual ones.'
        )
    if SUPERVISED in given:
        raise CriterionError(f'"{SUPERVISED}" is always among the pipelines. Give yours another name.')
    found = {str(name): each if isinstance(each, Pipeline) else _by_user(name, each) for name, each in given.items()}
    for name, pipeline in found.items():
        if pipeline.scorer is not None:
            _check_rows(name, problem, pipeline.scorer.problem)
    return found


def beside(run: Train, others: Any) -> dict[str, Any]:
    """A run as a pipeline by the name of its criterion, and the pipelines that compete with it; `others` may be True for none.

    Raises
    ------
    CriterionError
        They are no pipelines, or one has the run's name.
    """
    name = run.name
    if others is not True and not isinstance(others, Mapping):
        raise CriterionError(
            f"choose={others!r} names no pipelines. Give True, or a mapping of others to compete with the run."
        )
    if others is not True and name in others:
        raise CriterionError(f'choose= has a pipeline "{name}", as the run itself is called. Give it another name.')
    return {name: run, **({} if others is True else others)}


def _by_user(name: Any, given: Any) -> Pipeline:
    if not callable(given) or isinstance(given, type):
        raise CriterionError(
            f'pipelines["{name}"] is a {type(given).__name__}. Give Train(…), Marginalize(…) or a function of labels and seed.'
        )
    return ByUser(given)


def _check_rows(name: str, problem: Problem, other: Problem) -> None:
    same = (
        np.array_equal(problem.table.codes, other.table.codes)
        and np.array_equal(np.sort(problem.table.candidates), np.sort(other.table.candidates))
        and np.array_equal(problem.classes.names, other.classes.names)
    )
    if not same:
        raise RowError(
            f'scorer= of pipelines["{name}"] has other labels, candidates or classes. Declare it on the same table, row by row.'
        )
