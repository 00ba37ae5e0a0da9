"""What a person wants to know first about a model, a fit, scores or a run: a few sentences and a small table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bpls.errors import CriterionError
from pymc_bpls.model.data.index import read_index
from pymc_bpls.model.problem import Problem
from pymc_bpls.scoring.criteria import LAPLACE
from pymc_bpls.scoring.results import own_error
from pymc_bpls.selftraining.saved_run import RunTables, is_run, read_tables
from pymc_bpls.selftraining.verdict import NO_INFORMATION
from pymc_bpls.text.numbers import percent
from pymc_bpls.text.summary import Summary

_SHOWN = 8
_CLEAR_LEAD = 0.1  # in nats: rarely is log PPP off by as much between the best candidates


def summary(result: xr.Dataset | xr.DataTree) -> Summary:
    """A run or scores on one screen.

    Parameters
    ----------
    result : xarray.DataTree or xarray.Dataset
        What `BPLS.self_train` or `resume`, or what `BPLS.score` returned.

    Returns
    -------
    Summary
        `print` it, or leave it as the last line of a notebook's cell.

    Raises
    ------
    CriterionError
        It is neither.

    See Also
    --------
    plot_self_training, plot_scores : the same in figures.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_bpls as bpls
    >>> X = np.column_stack([np.ones(24), np.linspace(-2, 2, 24)])
    >>> y = np.where(np.arange(24) % 2, -1, X[:, 1] + np.tile([0.9, -0.9], 12) > 0)
    >>> with pm.Model() as model:
    ...     label = pm.Bernoulli("label", logit_p=X @ pm.Normal("b", 0, 2.5, shape=2), observed=y)
    >>> print(bpls.summary(bpls.BPLS(model).self_train("probability", rounds=2, progressbar=False)))
    No test rows were given, so whether self-training helped is unknown. This model says nothing of x: pseudo-labels add no
    information. Invented information: pseudo-labels made the posterior another by 0.00012 nats, which no label told.
    <BLANKLINE>
                    rows in D log evidence a row
    supervised             12             -0.358
    2 pseudo-labels        14             -0.307
    <BLANKLINE>
    Ended after 2 rounds of "probability" (laplace): 2 rounds are done.
    Pseudo-labels: 2 of class 1 (100%; labeled rows 67%).
    Choices were ahead of the next best row by 0.0021 (median).
    """
    if is_run(result):
        return _summarise_run(read_tables(result))
    if isinstance(result, xr.Dataset) and "score" in result and "candidate" in result.dims:
        return _summarise_scores(result)
    raise CriterionError(f"A {type(result).__name__} is neither a run nor scores. Give what self_train or score returned.")


def summarise_problem(problem: Problem) -> Summary:
    """A declared model on its table."""
    table, names = problem.table, problem.classes.names
    counts = np.bincount(table.codes[table.labeled], minlength=len(names))
    held_out = len(table.codes) - len(table.used)
    variables = ", ".join(f"{rv.name}" for rv in problem.model.free_RVs)
    sentences = [
        f'BPLS of "{problem.name}": {len(table.labeled)} labeled rows, {len(table.candidates)} candidates, '
        f"{len(names)} classes, {problem.density.dimension} unconstrained parameters"
        f"{'' if problem.density.joint is None else ', rows that depend on each other'}",
        "The pool can inform this model of the features: information() says how much."
        if problem.says_of_features
        else NO_INFORMATION,
        f"{held_out} rows are neither labeled nor candidates." if held_out else "Every row is labeled or a candidate.",
        f"Free variables: {variables}.",
        "Priors are proper." if problem.proper else "A prior is improper, so that there are no absolute values.",
    ]
    shares = [percent(share) for share in (counts / counts.sum()).tolist()]
    return Summary(sentences, pd.DataFrame({"labeled rows": counts, "share": shares}, index=pd.Index(names, name="class")))


def _summarise_scores(scores: xr.Dataset) -> Summary:
    """Scores of all candidates: the best of them, and what is wrong with others."""
    values = scores["score"].max([dim for dim in scores["score"].dims if dim != "candidate"])
    order = np.argsort(-values.fillna(-np.inf).to_numpy(), kind="stable")
    lost, m = int(values.isnull().sum()), values.size
    order = order[: min(_SHOWN, m - lost)]
    best = scores.isel(candidate=order)
    index, rows = read_index(best), best["candidate"].to_numpy()
    table = {
        **({} if index.equals(pd.Index(rows)) else {"row": rows}),
        "pseudo-label": best["pseudo_label"].to_numpy(),
        "score": _numbers(values.to_numpy()[order]),
        "below the best": _numbers(values.to_numpy()[order] - values.max().item()),
    }
    for name in ("log_ppp", "log_evidence", "class_sum_error"):
        if name in best and best[name].dims == ("candidate",):
            table[name] = _numbers(best[name].to_numpy())
    attrs = scores.attrs
    sentences = [
        f'"{attrs["criterion"]}" ({attrs["approximation"]}, labels "{attrs["labels"]}") of {m} candidates, '
        f"the best {len(order)}:",
        *_say_set(attrs.get("rule"), scores["member"].to_numpy() if "member" in scores.coords else ()),
        *_say_ties(scores, values.to_numpy()),
        f"Pseudo-labels: {_count_classes(scores['pseudo_label'].to_numpy())}.",
        *([f"{lost} candidates have no finite score and are never selected."] if lost else []),
    ]
    return Summary(
        sentences, pd.DataFrame(table, index=index if index.nlevels > 1 or index.name is not None else index.rename("index"))
    )


def _say_set(rule: str | None, members: Any) -> list[str]:
    """The rule and the members of a set."""
    if rule is None:
        return []
    return [f"By {rule} over {len(members)} members: {', '.join(str(name) for name in members)}."]


def _say_ties(scores: xr.Dataset, values: np.ndarray) -> list[str]:
    """How many candidates are tied with the best one within the approximation's own error, as far as that is known."""
    error, finite, attrs = own_error(scores), np.sort(values[np.isfinite(values)]), scores.attrs
    if len(finite) < 2:
        return []
    lead = finite[-1] - finite[-2]
    by_sums = attrs["approximation"] == "laplace" and attrs["criterion"] in LAPLACE
    if error is not None:
        tied = int((finite[-1] - finite < error).sum())
        by = f"the error of a difference by {'class sums' if by_sums else 'its draws'} ({error:.2g})"
        if tied > 1:
            return [f"The best {tied} are tied: they are nearer to each other than {by}."]
        if by_sums or attrs["criterion"] not in LAPLACE or lead >= _CLEAR_LEAD:
            return [f"The best is ahead by more than {by}."]
    if attrs["criterion"] not in LAPLACE or lead >= _CLEAR_LEAD:
        return []
    sums = by_sums and "log_ppp" in scores and "rule" not in attrs
    ways = 'labels="all" estimates that from class sums, and audit measures it' if sums else "audit measures that"
    return [f"The best is {_numbers(np.array([lead]))[0]} ahead, which may be less than scores are off: {ways}."]


def _say_leads(run: RunTables) -> list[str]:
    """How far choices were ahead of the next best row, and how many are, or may be, ties within the scores' own error."""
    history = run.history
    gap = history["gap"].to_numpy()
    known = np.isfinite(gap)
    if not known.any():
        return []
    lead = f"Choices were ahead of the next best row by {_numbers(np.array([np.median(gap[known])]))[0]} (median)"
    if "own_error" in history:
        tied = int((gap[known] < history["own_error"].to_numpy()[known]).sum())
        lead += f"; {tied} of {known.sum()} by less than the error of a difference, which makes them ties"
    if run.criterion not in LAPLACE or ("own_error" in history and run.approximation == "laplace"):
        return [f"{lead}."]
    close = int((gap[known] < _CLEAR_LEAD).sum())
    also = f"{close} of {known.sum()} choices were less than {_CLEAR_LEAD} ahead, which may be less than scores are off"
    return [f"{lead}.", *([f"{also}: audit_along measures that."] if close else [])]


def _summarise_run(run: RunTables) -> Summary:
    """A run: whether it helped, its first and last model, how it ended, and what it added."""
    ends, added = run.curve.isel(n_pseudo=[0, -1]), run.history["pseudo_label"].to_numpy()
    n_pseudo = ends["n_pseudo"].to_numpy()
    table: dict[str, Any] = {"rows in D": len(run.labels) + n_pseudo}
    named = {"accuracy": "accuracy", "log_score": "log score", "held_out_log_score": "log score of rows set aside"}
    for name, said in named.items():
        if name in ends:
            table[said] = _numbers(ends[name].to_numpy())
    if "log_evidence" in ends:
        table["log evidence a row"] = _numbers((ends["log_evidence"] / ends["weight"]).to_numpy())
    rounds = int(run.history["round"].max()) if len(added) else 0
    sentences = [
        run.verdict,
        f'Ended after {rounds} rounds of "{run.criterion}" ({run.approximation}): {run.stop_reason.rstrip(".")}.',
        *_say_set(run.rule, run.members),
        *([f"Pseudo-labels: {_count_classes(added, run.labels)}."] if len(added) else []),
        *_say_leads(run),
    ]
    frame = pd.DataFrame(table, index=["supervised", f"{n_pseudo[-1]} pseudo-labels"])
    return Summary(sentences, frame if len(added) else frame.iloc[:1])


def _count_classes(labels: np.ndarray, labeled: np.ndarray | None = None) -> str:
    """How many of each class, and how many of the labeled rows."""
    beside = {
        name: "" if labeled is None else f"; labeled rows {percent((labeled == name).mean())}" for name in np.unique(labels)
    }
    return ", ".join(
        f"{(labels == name).sum()} of class {name} ({percent((labels == name).mean())}{text})" for name, text in beside.items()
    )


def _numbers(values: np.ndarray) -> list[str]:
    return [f"{value:.3f}" if abs(value) >= 0.1 or value == 0 else f"{value:.2g}" for value in values]
