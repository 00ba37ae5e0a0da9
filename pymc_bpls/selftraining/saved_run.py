"""A run of self-training as a DataTree, which can be written to a file: everything of it is written and read here.

| group | what it holds |
|---|---|
| `/` | attrs: `version` of this layout, fingerprints, how it was made, `stop_kind`, `stop_rule`, `stop_reason`, `verdict` |
| `/history` | the pseudo-labels in the order in which they were added, over `step` |
| `/curve` | what is known of the model with `n_pseudo` pseudo-labels; 0 is the supervised baseline |
| `/members` | of a set: dim θ of each member, log p(D) and which one predicts along the run |
| `/final`, `/unconstrained` | the last mode, by variable and in θ |
| `/labeled` | D: rows, labels and weights, the pseudo-labeled rows last; attrs: all classes in the model's order, as text |
| `/held_out`, `/test` | labeled rows that a stop rule held out; test rows, and whether the first and the last model are right |
| `/state` | where the next round starts from: the mode that refits share, or Gaussians by `k`; attrs: the random generator |

Files without `version` have neither `stop_kind` nor `rule`, and are read as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

import numpy as np
import xarray as xr

from pymc_bpls.approximations.by_name import APPROXIMATIONS
from pymc_bpls.approximations.gaussians.gaussian import Gaussian, Sites
from pymc_bpls.errors import CriterionError
from pymc_bpls.model.data.index import RowNames, read_index
from pymc_bpls.model.data.storing import as_tree
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.model.density import Parameters
from pymc_bpls.model.problem import Problem
from pymc_bpls.scoring.fitted import Warm
from pymc_bpls.scoring.predictors import MAP
from pymc_bpls.selftraining.ending import Ending
from pymc_bpls.selftraining.held_out import HeldOut
from pymc_bpls.selftraining.history import History
from pymc_bpls.selftraining.other_table import PARTS, say_other
from pymc_bpls.selftraining.verdict import say_verdict
from pymc_bpls.text.incomplete import as_it_was_left

#: Of the layout; 1 added itself, `stop_kind`, `stop_rule` and `rule`; 2 the index of `/test` and `/held_out`, and notes that
#: say of which kind an index is; 3 gaps of batches to the best row that is left, and `predictor`, without which a run is
#: predicted at the mode. `table_parts` came between the last two.
VERSION = 3
#: The group that holds the replicates of a run whose labels are drawn.
REPLICATES = "replicates"
#: What a run keeps in place of a function that cannot be kept.
CALLABLE = "a function of the score"
#: What is known of each model along a run.
CURVE = {
    "accuracy": "share of test rows predicted right",
    "log_score": "mean log probability of the test rows' classes",
    "won": "test rows predicted right that the supervised model predicts wrong",
    "lost": "test rows predicted wrong that the supervised model predicts right",
    "log_evidence": "log p(D), by Laplace's method, or EP's log Z or the ELBO where there is no mode",
    "invented_information": "nats by which the posterior is another than that of the labels alone: KL of Laplace's Gaussians",
    "weight": "sum of the weights of D's rows",
    "held_out_log_score": "mean log probability of the labels of labeled rows that were set aside",
}
#: Those of them that test rows say, which no stop rule sees.
OF_TEST_ROWS = ("accuracy", "log_score", "won", "lost")
_STEP: dict[str, type] = {"candidate": int, "code": int, "score": float, "gap": float, "round": int, "n_labeled": int}
#: The member of a set that decided, and the approximation by which a round was scored, where that was left to the package.
_OF_SOME_RUNS = ("decided_by", "approximation")
#: Of attrs: the approximation that the run began with, where another one stood in by its end.
_BEGAN = "approximation_at_first"
_OF_THE_END = ("version", "instead_of", "stop_kind", "stop_rule", "stop_reason", "verdict", _BEGAN)


@dataclass(frozen=True)
class RunSettings:
    """How a run was made. Criteria and rules are names here: an object of one's own is given again to go on.

    `pseudo_weight` is None where a function gave it, `class_balance` where no shares were asked for, `model_rule` for a single
    model. `candidate` says what candidates of a class-conditional model bring to the density, which files before it lacked was
    their whole likelihood. `approximation` is what the run began with, `automatic` where the user named none. `notes` are attrs
    besides: what is known of other modes, and what somebody else wrote. `predictor` names what gave its pseudo-labels, at the
    mode in files without it, and `averaged_by` the approximation of the criterion, over which "auto" averages; None where the
    criterion has none, or the package took Laplace's method.
    """

    criterion: str
    approximation: str
    expansion: str
    labels: str
    batch_size: int
    pseudo_weight: float | None
    class_balance: np.ndarray | None
    model_rule: str | None = None
    candidate: str = "conditional"
    automatic: bool = False
    predictor: str = MAP
    averaged_by: str | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)

    def attrs(self) -> dict[str, Any]:
        """As attributes of a file."""
        return {
            **self.notes,
            "criterion": self.criterion,
            "approximation": self.approximation,
            "expansion": self.expansion,
            "labels": self.labels,
            "batch_size": self.batch_size,
            "pseudo_weight": CALLABLE if self.pseudo_weight is None else self.pseudo_weight,
            "class_balance": "none" if self.class_balance is None else self.class_balance.tolist(),
            "candidate": self.candidate,
            **({} if self.model_rule is None else {"rule": self.model_rule}),
            **({"approximation_by": "auto"} if self.automatic else {}),
            "predictor": self.predictor,
            **({} if self.averaged_by is None else {"averaged_by": self.averaged_by}),
        }

    @classmethod
    def read(cls, attrs: Mapping[Any, Any]) -> RunSettings:
        """Back from them."""
        weight, shares = attrs["pseudo_weight"], attrs["class_balance"]
        averaged_by = attrs.get("averaged_by", None if "predictor" in attrs else attrs["approximation"])
        read = cls(
            criterion=str(attrs["criterion"]),
            approximation=str(attrs.get(_BEGAN, attrs["approximation"])),
            expansion=str(attrs["expansion"]),
            labels=str(attrs["labels"]),
            batch_size=int(attrs["batch_size"]),
            pseudo_weight=None if isinstance(weight, str) and weight == CALLABLE else float(weight),
            class_balance=None if isinstance(shares, str) else np.asarray(shares, dtype=float),
            model_rule=str(attrs["rule"]) if "rule" in attrs else None,
            candidate=str(attrs.get("candidate", "joint")),
            automatic="approximation_by" in attrs,
            predictor=str(attrs.get("predictor", MAP)),
            averaged_by=None if averaged_by is None else str(averaged_by),
        )
        known = {*read.attrs(), "table", PARTS, *_OF_THE_END}
        notes = {str(name): value for name, value in attrs.items() if name not in known}
        return replace(read, notes=notes)


@dataclass(frozen=True)
class RunMembers:
    """The members of a set that was trained: their names and dim θ."""

    names: tuple[str, ...]
    dimension: np.ndarray


@dataclass(frozen=True)
class SavedRun:
    """A run that is over: everything that it takes to show it, to audit it, and to go on with it.

    Attributes
    ----------
    labeled : Labeled
        D with its pseudo-labels, which come last.
    theta : ndarray, shape (q,)
        The last mode.
    warm : ndarray, or dict of int to Gaussian, or None
        Where the next round's refits start from.
    random_state : mapping
        Of the generator, after the draws of the last round.
    test, held_out : HeldOut or None
        Test rows, and labeled rows that a stop rule held out.
    """

    settings: RunSettings
    history: History
    labeled: Labeled
    theta: np.ndarray
    warm: Warm
    random_state: Mapping[str, Any]
    ending: Ending
    test: HeldOut | None = None
    held_out: HeldOut | None = None
    members: RunMembers | None = None

    @property
    def n_added(self) -> int:
        """How many rows of D are pseudo-labeled."""
        return len(self.history.steps)

    def first(self, n_added: int) -> Labeled:
        """D with the first so many pseudo-labels."""
        return self.labeled.first(len(self.labeled) - self.n_added + n_added)


def is_run(value: Any) -> TypeGuard[xr.DataTree]:
    """Whether it is what `self_train` returned, or what is left of it."""
    return isinstance(value, xr.DataTree) and not {"history", "state"}.isdisjoint(value.children)


def write_run(run: SavedRun, problem: Problem, parameters: Parameters) -> xr.DataTree:
    """A run as a tree; `parameters` are those of the model whose mode its θ is."""
    names, shares = problem.classes.names, run.settings.class_balance
    verdict = say_verdict(run.history, run.first(0).codes, names, shares, problem.pool_terms_of_all)
    end = {"version": VERSION, "stop_reason": run.ending.reason, "verdict": verdict}
    end |= _say_approximations(run.history, run.settings.approximation)
    end |= {name: said for name, said in (("stop_kind", run.ending.kind), ("stop_rule", run.ending.rule)) if said is not None}
    parts = [text for named in problem.parts.items() for text in named]
    theta = xr.Dataset(
        {"mode": ("parameter", parameters.unconstrained(run.theta))}, coords={"parameter": list(parameters.labels)}
    )
    groups = {
        "/": xr.Dataset(attrs={**run.settings.attrs(), "table": problem.fingerprint, PARTS: parts, **end}),
        "/history": _described(history_dataset(run.history, problem), run.settings.approximation),
        "/curve": curve_dataset(run.history),
        "/final": parameters.named(run.theta),
        "/unconstrained": theta,
        "/labeled": _labeled_dataset(run.labeled, problem),
        "/state": _warm_dataset(run.warm).assign_attrs(random_state=_json(run.random_state)),
    }
    if run.members is not None:
        groups["/members"] = _members_dataset(run.members, run.history)
    if run.held_out is not None:
        groups["/held_out"] = _rows_dataset(run.held_out, problem)
    if run.test is not None and run.history.right:
        right = {"right_before": run.history.right[0], "right_after": run.history.right[-1]}
        groups["/test"] = _rows_dataset(run.test, problem).assign({name: ("row", rows) for name, rows in right.items()})
    return as_tree(groups)


def read_run(run: xr.DataTree, problem: Problem) -> SavedRun:
    """A run of this table and model back from its tree.

    Raises
    ------
    CriterionError
        It is a run of another table or model, of a later layout, or not as `self_train` left it.
    """
    with as_it_was_left("run=", "self_train"):
        table = run.attrs["table"] if is_run(run) else getattr(run, "attrs", {}).get("table")
        if not problem.has_fingerprint(table):
            raise CriterionError(say_other(run, problem))
        if REPLICATES in run:
            raise CriterionError(
                f'run= holds replicates, each with its own pseudo-labels. Give one of them, as run["{REPLICATES}/1"].'
            )
        if not is_run(run):
            raise CriterionError(
                "run= holds no pseudo-labels to go on from: exact, sample and marginalize add none. Give what self_train or "
                "resume returned."
            )
        if int(run.attrs.get("version", 0)) > VERSION:
            raise CriterionError("run= was written by a later version of this package. Read it with that one.")
        return _read(run, problem)


def history_dataset(history: History, problem: Problem) -> xr.Dataset:
    """The pseudo-labels in the order in which they were added, over `step`."""
    table: dict[str, np.ndarray] = {
        name: np.array([step[name] for step in history.steps], dtype=kind) for name, kind in _STEP.items()
    }
    labels = problem.classes.names[table.pop("code")]
    told = {name: [step[name] for step in history.steps if name in step] for name in _OF_SOME_RUNS}
    errors = np.array([step.get("own_error", np.nan) for step in history.steps])
    dataset = xr.Dataset(
        {
            "candidate": ("step", table.pop("candidate")),
            "pseudo_label": ("step", labels),
            **{name: ("step", values) for name, values in table.items()},
            **({"own_error": ("step", errors)} if np.isfinite(errors).any() else {}),
            **{name: ("step", np.array(values)) for name, values in told.items() if values},
        },
        coords={"step": np.arange(1, len(history.steps) + 1)},
    )
    return dataset.assign_coords(problem.table.names.coords("step", dataset["candidate"].to_numpy()))


def _described(history: xr.Dataset, began: str) -> xr.Dataset:
    """With what scores are, where they are not what `score` gives."""
    by = set(history["approximation"].to_numpy().tolist()) if "approximation" in history else {began}
    if by <= set(APPROXIMATIONS):
        said = "log E[p(ŷ | x, θ)], without the constant that the candidates of a round share"
        history["score"].attrs["description"] = said
    elif len(by) > 1:
        history["score"].attrs["description"] = "by the approximation of its round: those by laplace are on another scale"
    return history


def _say_approximations(history: History, began: str) -> dict[str, str]:
    """By which approximation a run ends and which it began with, where these differ, and how many rounds that did not score."""
    by = {step["round"]: step.get("approximation", began) for step in history.steps}
    others = list(dict.fromkeys(name for name in by.values() if name != began))
    if not others:
        return {}
    n = sum(name != began for name in by.values())
    scale = "; scores by laplace are on another scale" if "laplace" in by.values() and n < len(by) else ""
    said = f"{n} of {len(by)} rounds were scored by {' or '.join(others)}, as {began} did not settle{scale}"
    return {"instead_of": said, "approximation": others[-1], _BEGAN: began}


def curve_dataset(history: History) -> xr.Dataset:
    """What is known of the model with `n_pseudo` pseudo-labels; 0 is the supervised baseline."""
    models = history.models
    names = [name for name in CURVE if models and name in models[0]]
    return xr.Dataset(
        {name: ("n_pseudo", np.array([model[name] for model in models]), {"description": CURVE[name]}) for name in names},
        coords={"n_pseudo": [model["n_pseudo"] for model in models]},
    )


def _members_dataset(members: RunMembers, history: History) -> xr.Dataset:
    log_evidence = np.array([model["member_log_evidence"] for model in history.models])
    predicts = [members.names[model["predictor"]] for model in history.models]
    return xr.Dataset(
        {
            "dimension": ("member", members.dimension),
            "log_evidence": (("n_pseudo", "member"), log_evidence),
            "predictor": ("n_pseudo", np.array(predicts)),
        },
        coords={"n_pseudo": [model["n_pseudo"] for model in history.models], "member": list(members.names)},
    )


def _labeled_dataset(labeled: Labeled, problem: Problem) -> xr.Dataset:
    return xr.Dataset(
        {"label": ("row", problem.classes.names[labeled.codes]), "weight": ("row", labeled.weights)},
        coords={"row": labeled.positions, **problem.table.names.coords("row", labeled.positions)},
        attrs={"classes": [str(name) for name in problem.classes.names]},
    )


def _rows_dataset(rows: HeldOut, problem: Problem) -> xr.Dataset:
    coords = rows.names_in(problem).coords("row")
    return xr.Dataset({"label": ("row", problem.classes.names[rows.codes])}, coords={"row": rows.positions, **coords})


def _warm_dataset(warm: Warm) -> xr.Dataset:
    if warm is None:
        return xr.Dataset()
    if isinstance(warm, np.ndarray):
        return xr.Dataset({"shared": ("parameter", warm)})
    fits = list(warm.values())
    if not all(isinstance(q, Gaussian) for q in fits):  # mixtures of a hierarchy are found anew
        return xr.Dataset()
    moments: dict[str, Any] = {
        "mean": (("k", "parameter"), np.stack([q.mean for q in fits])),
        "covariance": (("k", "parameter", "parameter_bis"), np.stack([q.covariance for q in fits])),
    }
    in_space = any(q.rows is not None for q in fits)  # sites say all, and moments in θ would take a matrix over all parameters
    dataset = xr.Dataset({} if in_space else moments, coords={"k": list(warm)})
    sites = [q.sites for q in fits if q.sites is not None]
    if len(sites) < len(fits):
        return dataset
    return dataset.assign(
        tau=(("k", "site"), np.stack([each.tau for each in sites])),
        nu=(("k", "site"), np.stack([each.nu for each in sites])),
        rows=("k", [len(each.labeled) for each in sites]),
    )


def _json(random_state: Mapping[str, Any]) -> str:
    return json.dumps(random_state, default=lambda array: array.tolist())


def _read(run: xr.DataTree, problem: Problem) -> SavedRun:
    rows = run["labeled"].to_dataset()
    labeled = Labeled(rows["row"].to_numpy(), problem.codes(rows["label"].to_numpy()), rows["weight"].to_numpy())
    test, held_out = (_read_rows(run, group, problem) for group in ("test", "held_out"))
    history = _read_history(run, problem)
    start = problem.labeled if held_out is None else problem.labeled.without(held_out.positions)
    _check_rows(history, labeled, start)
    attrs, members, theta = run.attrs, _read_members(run), run["unconstrained"]["mode"].to_numpy()
    kind, rule = (str(attrs[name]) if name in attrs else None for name in ("stop_kind", "stop_rule"))
    return SavedRun(
        settings=RunSettings.read(attrs),
        history=history,
        labeled=labeled,
        # members of a set, one of which it is of, start from their own starts
        theta=problem.density.parameters.counted(theta) if members is None else theta,
        warm=_read_warm(run["state"].to_dataset(), labeled),
        random_state=json.loads(run["state"].attrs["random_state"]),
        ending=Ending(kind, str(attrs["stop_reason"]), rule),
        test=test,
        held_out=held_out,
        members=members,
    )


def _read_rows(run: xr.DataTree, group: str, problem: Problem) -> HeldOut | None:
    if group not in run:
        return None
    rows = run[group].to_dataset()
    names = RowNames(read_index(rows))
    return HeldOut(rows["row"].to_numpy(), problem.codes(rows["label"].to_numpy()), names)


def _read_members(run: xr.DataTree) -> RunMembers | None:
    if "members" not in run:
        return None
    return RunMembers(tuple(run["members"]["member"].to_numpy().tolist()), run["members"]["dimension"].to_numpy())


def _read_history(run: xr.DataTree, problem: Problem) -> History:
    steps, curve = run["history"].to_dataset(), run["curve"].to_dataset()
    names = [*(name for name in _STEP if name != "code"), *(n for n in ("own_error", *_OF_SOME_RUNS) if n in steps)]
    columns = {name: steps[name].to_numpy().tolist() for name in names}
    columns["code"] = problem.codes(steps["pseudo_label"].to_numpy()).tolist()
    entries = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    models: list[dict[str, Any]] = [{"n_pseudo": int(n)} for n in curve["n_pseudo"].to_numpy()]
    for name in curve.data_vars:
        for model, value in zip(models, curve[name].to_numpy().tolist(), strict=True):
            model[str(name)] = value
    if "members" in run:
        members = run["members"].to_dataset()
        order = members["member"].to_numpy().tolist()
        for model, evidence, name in zip(models, members["log_evidence"].to_numpy(), members["predictor"].values, strict=True):
            model |= {"member_log_evidence": evidence, "predictor": order.index(str(name))}
    right = [run["test"][name].to_numpy() for name in ("right_before", "right_after")] if "test" in run else []
    return History(entries, models, right)


def _check_rows(history: History, labeled: Labeled, start: Labeled) -> None:
    """D is the labeled rows that the run began with, then the pseudo-labeled ones of its history, none twice."""
    n = len(start)
    if not np.array_equal(labeled.positions[:n], start.positions) or len(labeled) != n + len(history.steps):
        raise CriterionError(
            f"run= started from other labeled rows than the {n} of this table. Resume it with the BPLS that made it."
        )
    added = [step["candidate"] for step in history.steps]
    if labeled.positions[n:].tolist() != added or len(np.unique(labeled.positions)) < len(labeled):
        raise CriterionError(
            "run= names other pseudo-labeled rows in /labeled than in /history, or a row twice. Give what self_train returned."
        )


def _read_warm(state: xr.Dataset, labeled: Labeled) -> Warm:
    if "shared" in state:
        return state["shared"].to_numpy()
    if "mean" not in state and "tau" not in state:
        return None
    return {int(k): _read_gaussian(state.sel(k=k), labeled) for k in state["k"].to_numpy()}


def _read_gaussian(state: xr.Dataset, labeled: Labeled) -> Gaussian:
    sites = None
    if "tau" in state:
        sites = Sites(labeled.first(int(state["rows"])), state["tau"].to_numpy(), state["nu"].to_numpy())
    mean, covariance = (state[name].to_numpy() if name in state else np.empty(0) for name in ("mean", "covariance"))
    return Gaussian(mean, covariance, sites=sites)


def generator_at(random_state: Mapping[str, Any]) -> np.random.Generator:
    """A generator that goes on where one was.

    Raises
    ------
    CriterionError
        It is none of NumPy's, or the state is none of its own.
    """
    with as_it_was_left("run=", "self_train"):
        name = random_state["bit_generator"]
        if not hasattr(np.random, name):
            raise CriterionError(f"The run drew random numbers by {name}, which is none of NumPy's. Give random_seed= again.")
        bits = getattr(np.random, name)()
        bits.state = random_state
        return np.random.Generator(bits)
