"""What a self-training run did, as a DataTree, and back from it to go on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import xarray as xr

from pymc_bpls.errors import BPLSError, CriterionError
from pymc_bpls.model.problem import Problem
from pymc_bpls.model.table import Labeled


@dataclass
class History:
    """What a run did: one entry a pseudo-label, one a model."""

    steps: list[dict[str, Any]] = field(default_factory=list)
    models: list[dict[str, Any]] = field(default_factory=list)
    right: list[np.ndarray] = field(default_factory=list)

    def with_steps(self, steps: list[dict[str, Any]]) -> History:
        """It and the pseudo-labels of one more round."""
        return replace(self, steps=[*self.steps, *steps])

    def with_model(self, model: dict[str, Any], right: np.ndarray | None) -> History:
        """It and one more model, with which test rows that model predicts right."""
        return replace(self, models=[*self.models, model], right=self.right if right is None else [*self.right, right])


#: What is known of each model along a run.
CURVE = {
    "accuracy": "share of test rows predicted right",
    "log_score": "mean log probability of the test rows' classes",
    "won": "test rows predicted right that the supervised model predicts wrong",
    "lost": "test rows predicted wrong that the supervised model predicts right",
    "log_evidence": "log p(D), by Laplace's method, or EP's log Z or the ELBO where there is no mode",
    "weight": "sum of the weights of D's rows",
    "held_out_log_score": "mean log probability of the labels of labeled rows that were set aside",
}
_OF_TEST_ROWS = ("accuracy", "log_score", "won", "lost")


def history_dataset(history: History, problem: Problem) -> xr.Dataset:
    """The pseudo-labels in the order in which they were added, over `step`."""
    columns = ("candidate", "code", "score", "gap", "round", "n_labeled")
    kinds = (int, int, float, float, int, int)
    table: dict[str, np.ndarray] = {
        name: np.array([step[name] for step in history.steps], dtype=kind) for name, kind in zip(columns, kinds, strict=True)
    }
    names = problem.classes.names
    members = [step["decided_by"] for step in history.steps if "decided_by" in step]
    dataset = xr.Dataset(
        {
            "candidate": ("step", table["candidate"]),
            "pseudo_label": ("step", names[table["code"]]),
            **{name: ("step", table[name]) for name in columns[2:]},
            **({"decided_by": ("step", np.array(members))} if members else {}),
        },
        coords={"step": np.arange(1, len(history.steps) + 1)},
    )
    return dataset.assign_coords({problem.index_name: ("step", problem.table.index[table["candidate"]])})


def members_dataset(history: History, names: Sequence[str], dimension: np.ndarray) -> xr.Dataset:
    """Of each member of a set dim θ, and along the run log p(D), pseudo-labels included, and which one predicts."""
    log_evidence = np.array([model["member_log_evidence"] for model in history.models])
    predicts = [names[model["predictor"]] for model in history.models]
    return xr.Dataset(
        {
            "dimension": ("member", dimension),
            "log_evidence": (("n_pseudo", "member"), log_evidence),
            "predictor": ("n_pseudo", np.array(predicts)),
        },
        coords={"n_pseudo": [model["n_pseudo"] for model in history.models], "member": list(names)},
    )


def curve_dataset(history: History) -> xr.Dataset:
    """What is known of the model with `n_pseudo` pseudo-labels; 0 is the supervised baseline."""
    models = history.models
    names = [name for name in CURVE if models and name in models[0]]
    return xr.Dataset(
        {name: ("n_pseudo", np.array([model[name] for model in models]), {"description": CURVE[name]}) for name in names},
        coords={"n_pseudo": [model["n_pseudo"] for model in models]},
    )


def seen_by_rules(history: History, problem: Problem, criterion: str) -> xr.Dataset:
    """What stop rules see: the history, and the curve without the test rows."""
    curve = curve_dataset(history).drop_vars(_OF_TEST_ROWS, errors="ignore")
    return history_dataset(history, problem).merge(curve).assign_attrs(criterion=criterion)


def won_and_lost(before: np.ndarray, after: np.ndarray) -> tuple[int, int]:
    """How many rows only the second of two models predicts right, and how many only the first."""
    return int((after & ~before).sum()), int((before & ~after).sum())


def verdict(history: History) -> str:
    """Whether the last model predicts the test rows better than the supervised one, in one sentence.

    Both models are judged on the same rows, so that only rows that one of them predicts right count (McNemar).
    """
    if not history.right:
        return "No test rows were given, so whether self-training helped is unknown."
    before, after = history.right[0], history.right[-1]
    won, lost = won_and_lost(before, after)
    text = (
        f"Test accuracy is {after.mean():.3f} with {history.models[-1]['n_pseudo']} pseudo-labels and {before.mean():.3f} "
        f"without ({won} of {len(after)} rows won, {lost} lost)"
    )
    if abs(won - lost) <= 1.96 * np.sqrt(won + lost):
        return f"{text}: nothing was gained beyond chance."
    return f"{text}: self-training {'helped' if won > lost else 'did harm'}."


def labeled_dataset(labeled: Labeled, problem: Problem) -> xr.Dataset:
    """D: its rows, labels and weights, the pseudo-labeled rows last and in the order in which they came."""
    return xr.Dataset(
        {"label": ("row", problem.classes.names[labeled.codes]), "weight": ("row", labeled.weights)},
        coords={
            "row": labeled.positions,
            problem.index_name: ("row", problem.table.index[labeled.positions]),
        },
    )


def held_out_dataset(positions: np.ndarray, codes: np.ndarray, history: History, problem: Problem) -> xr.Dataset:
    """The test rows, their classes, and whether the supervised and the last model predict them right."""
    return xr.Dataset(
        {
            "label": ("row", problem.classes.names[codes]),
            "right_before": ("row", history.right[0]),
            "right_after": ("row", history.right[-1]),
        },
        coords={"row": positions},
    )


@contextmanager
def unedited() -> Iterator[None]:
    """Say so where a run lacks what every run has, or holds what none does."""
    try:
        yield
    except BPLSError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise CriterionError(
            f"run= is not as self_train left it ({type(error).__name__}: {error}). Give what it returned, or all of its file."
        ) from error


def check_table(run: xr.DataTree, problem: Problem) -> None:
    """Refuse a run that was made on another table or with another model."""
    if getattr(run, "attrs", {}).get("table") != problem.fingerprint:
        raise CriterionError("run= is no run of this table and model. Give what self_train returned to the BPLS that made it.")


def start_of(run: xr.DataTree, problem: Problem) -> Labeled:
    """D as the run began: the labeled rows that it did not set aside."""
    return problem.labeled.without(run["held_out"]["row"].to_numpy()) if "held_out" in run else problem.labeled


def read_history(run: xr.DataTree, problem: Problem) -> tuple[History, Labeled]:
    """The history of a run and D as it left it.

    Raises
    ------
    CriterionError
        The run is not one of this model's table.
    """
    try:
        steps, curve, rows = (run[group].to_dataset() for group in ("history", "curve", "labeled"))
        codes = problem.codes(steps["pseudo_label"].to_numpy())
        labeled = Labeled(rows["row"].to_numpy(), problem.codes(rows["label"].to_numpy()), rows["weight"].to_numpy())
    except (KeyError, TypeError) as error:
        raise CriterionError(f"run= lacks {error}, so it is no run of this model. Give what self_train returned.") from None
    start = start_of(run, problem)
    same = np.array_equal(labeled.positions[: len(start)], start.positions)
    if not same or len(labeled) != len(start) + len(codes):
        raise CriterionError(
            f"run= started from other labeled rows than the {len(start)} of this table. Resume it with the BPLS that made it."
        )
    added, candidates = labeled.positions[len(start) :], steps["candidate"].to_numpy()
    if not np.array_equal(added, candidates) or len(np.unique(labeled.positions)) < len(labeled):
        raise CriterionError(
            "run= names other pseudo-labeled rows in /labeled than in /history, or a row twice. Give what self_train returned."
        )
    kept = [name for name in ("candidate", "score", "gap", "round", "n_labeled", "decided_by") if name in steps]
    columns = {name: steps[name].to_numpy().tolist() for name in kept}
    entries = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    models = [{"n_pseudo": int(n)} for n in curve["n_pseudo"].to_numpy()]
    for name in curve.data_vars:
        for model, value in zip(models, curve[name].to_numpy().tolist(), strict=True):
            model[str(name)] = value
    if "members" in run:
        members = run["members"].to_dataset()
        order = members["member"].to_numpy().tolist()
        for model, evidence, name in zip(models, members["log_evidence"].to_numpy(), members["predictor"].values, strict=True):
            model |= {"member_log_evidence": evidence, "predictor": order.index(str(name))}
    history = History([{**entry, "code": int(code)} for entry, code in zip(entries, codes, strict=True)], models)
    if "test" in run:
        history.right.extend(run["test"][name].to_numpy() for name in ("right_before", "right_after"))
    return history, labeled
