"""Every number that the package gives, by name: `python tests/house/values.py make FILE`, then `compare FILE FILE`.

For work that moves code and changes no value: made at the commit before, and at each step after it. Subjects are the kinds of
the zoo, the reference splits, a table with many parameters of which rows touch few, one with more features than rows, a set of
models and a pool by partitions; of each, scores by every approximation, predictions, runs, audits, exact values and
information. A subject that is done is stored, and is not made again. What rests on draws has "draws" in its name, and is
compared by its own error where it has one.
"""

from __future__ import annotations

import pickle
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pymc as pm
import xarray as xr

import pymc_bpls as bpls

sys.path.insert(0, str(Path(__file__).parents[1]))
import reference
import zoo

Numbers = dict[str, float]
QUIET: dict[str, Any] = {"progressbar": False}
#: Relative and absolute differences that count as none, and those that have to be explained.
_SAME, _CHANGED = 1e-9, 1e-6


# --- subjects ---------------------------------------------------------------------------------------------------------------


def of_zoo(name: str) -> bpls.BPLS:
    """A kind of the zoo."""
    kind = zoo.ACCEPTED[name]
    return bpls.BPLS(kind.table(), **kind.options)


def of_reference(name: str) -> bpls.BPLS:
    """Logistic regression on a reference split."""
    split = reference.read(name)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2.5, shape=split.X.shape[1])
        pm.Bernoulli("label", logit_p=split.X @ beta, observed=split.y)
    return bpls.BPLS(model, unlabeled=split.pool)


def of_many_groups() -> bpls.BPLS:
    """210 groups of 3 rows with a scale, of whose effects a row touches one."""
    rng = np.random.default_rng(5)
    group, x = np.repeat(np.arange(210), 3), rng.normal(size=630)
    truth = (0.8 * rng.normal(size=210)[group] + x + rng.logistic(size=630) > 0).astype(int)
    y = np.where(np.arange(630) % 3 < 2, truth, -1)
    with pm.Model() as model:
        effect = pm.HalfNormal("scale", 1.0) * pm.Normal("z", 0, 1, shape=210)
        pm.Bernoulli("label", logit_p=effect[group] + pm.Normal("slope", 0, 1) * x, observed=y)
    return bpls.BPLS(model, unlabeled=np.flatnonzero(y < 0)[:40])


def of_many_coefficients() -> bpls.BPLS:
    """300 levels with a coefficient each, of which a row touches one, with fixed scales: sparse refits."""
    rng = np.random.default_rng(6)
    group, x = np.repeat(np.arange(300), 3), rng.normal(size=900)
    y = np.where(np.arange(900) % 3 < 2, (x + rng.logistic(size=900) > 0).astype(int), -1)
    with pm.Model() as model:
        z = pm.Normal("z", 0, 0.7, shape=300)
        pm.Bernoulli("label", logit_p=z[group] + pm.Normal("slope", 0, 1) * x, observed=y)
    return bpls.BPLS(model, unlabeled=np.flatnonzero(y < 0)[:60])


def of_many_features() -> bpls.BPLS:
    """40 labels of 400 features: the span of D's rows."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(80, 400))
    y = np.where(np.arange(80) < 40, (X[:, 0] + rng.logistic(size=80) > 0).astype(int), -1)
    with pm.Model() as model:
        pm.Bernoulli("label", logit_p=X @ pm.Normal("beta", 0, 0.2, shape=400), observed=y)
    return bpls.BPLS(model)


def of_set() -> bpls.ModelSet:
    """Three priors of one regression."""
    split, members = reference.read("sim1_q2"), {}
    for name, sd in {"tight": 0.5, "usual": 2.5, "wide": 10.0}.items():
        with pm.Model() as model:
            beta = pm.Normal("beta", 0, sd, shape=split.X.shape[1])
            pm.Bernoulli("label", logit_p=split.X @ beta, observed=split.y)
        members[name] = bpls.BPLS(model, unlabeled=split.pool)
    return bpls.ModelSet(members)


def of_partitions() -> bpls.BPLS:
    """A regression whose pool is a Dask array."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(340, 3))
    y = (X[:40, 0] + rng.logistic(size=40) > 0).astype(int)
    with pm.Model() as model:
        x = pm.Data("X", X[:40], dims=("row", "feature"))
        pm.Bernoulli("label", logit_p=x @ pm.Normal("b", 0, 1, shape=3), observed=y, dims="row")
    return bpls.BPLS(model, pool={"X": da.from_array(X[40:], chunks=(100, 3))})


SUBJECTS: dict[str, Callable[[], Any]] = {
    **{f"reference {name}": partial(of_reference, name) for name in reference.NAMES},
    "groups": of_many_groups,
    "coefficients": of_many_coefficients,
    "features": of_many_features,
    "set": of_set,
    "partitions": of_partitions,
    **{f"zoo {name}": partial(of_zoo, name) for name in zoo.ACCEPTED},
}
#: Subjects of which runs and audits are made, which take long for others.
OF_ZOO = ("logistic", "softmax_of_logit_p", "item_response", "hierarchical_non_centered", "class_conditional_gaussian")
WHOLE = ("reference", "groups", "coefficients", "features", "set", *(f"zoo {name}" for name in OF_ZOO))


# --- questions --------------------------------------------------------------------------------------------------------------


def answers(subject: str, pls: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Names of numbers, and what gives them."""
    whole = subject.startswith(WHOLE)
    lazy = subject == "partitions"
    how = QUIET | ({"top": 30} if lazy else {})
    for criterion in ("ppp", "predictive", "marginal_likelihood"):
        for approximation in ("laplace", "auto"):
            yield f"score {criterion} {approximation}", partial(pls.score, criterion, approximation=approximation, **how)
    for criterion in ("probability", "entropy", "bald"):
        yield f"score {criterion}", partial(pls.score, criterion, **how)
    yield "score ppp vi", partial(pls.score, "ppp", approximation="vi", **how)
    yield "score ppp classes", partial(pls.score, "ppp", labels="all", **how)
    if not lazy:
        yield "probabilities auto", pls.predict_proba
        yield "probabilities mode", partial(pls.predict_proba, by="mode")
    if hasattr(pls, "fit"):
        yield "fit", partial(_of_fit, pls)
    if whole:
        for name in ("laplace", "auto"):
            yield f"run {name}", partial(pls.self_train, approximation=name, rounds=3, **QUIET)
        yield "audit draws", partial(pls.audit, method="psis", random_seed=1, **QUIET)
        yield "exact draws", partial(_of_exact, pls)
    if subject.startswith("zoo class"):
        yield "information", lambda: {name: getattr(pls.information(**QUIET), name) for name in ("nats", "sources", "rows")}


def _of_fit(pls: bpls.BPLS) -> Mapping[str, Any]:
    fit = pls.fit()
    held = {"unconstrained": fit.unconstrained, "sd": fit.sd, "log_evidence": fit.log_evidence, **fit.diagnostics}
    return {name: value for name, value in held.items() if name not in ("decrement", "steps")}


def _of_exact(pls: Any) -> xr.Dataset:
    return pls.exact("ppp", method="psis", random_seed=1, **QUIET)["exact"].to_dataset()


def numbers(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """All numbers that a result holds, with names."""
    if isinstance(value, Mapping | xr.Dataset | xr.DataTree):
        for key in value:
            yield from numbers(value[key], f"{name}/{key}")
        return
    if isinstance(value, xr.DataArray):
        yield from numbers(value.to_numpy(), name)
        return
    for held in ("scores", "data", "table"):
        if hasattr(value, held) and not isinstance(value, np.ndarray):
            part = getattr(value, held)
            yield from numbers(part.to_dict("list") if hasattr(part, "to_dict") and held == "table" else part, name)
            return
    array = np.asarray(value)
    if array.dtype.kind in "fiub":
        yield from ((f"{name}{list(place) if place else ''}", float(each)) for place, each in np.ndenumerate(array))


def make(path: Path) -> None:
    """Numbers of all subjects, subject by subject."""
    held: dict[str, Numbers] = pickle.loads(path.read_bytes()) if path.exists() else {}
    for subject, declare in SUBJECTS.items():
        if subject in held:
            continue
        found: Numbers = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pls = declare()
            for name, ask in answers(subject, pls):
                try:
                    found |= {f"{name}{key}": value for key, value in numbers(ask())}
                except bpls.BPLSError as error:
                    found[f"{name} {type(error).__name__}"] = 1.0
        held[subject] = found
        path.write_bytes(pickle.dumps(held))
        print(f"{subject}: {len(found)}", flush=True)


def _flat(held: dict[str, Numbers]) -> Numbers:
    return {f"{subject}: {key}": value for subject, found in held.items() for key, value in found.items()}


def compare(before: Path, after: Path) -> None:
    """How many are the same, and those that are not."""
    first, second = (
        {
            f"{subject}: {key}": value
            for subject, found in pickle.loads(path.read_bytes()).items()
            for key, value in found.items()
        }
        for path in (before, after)
    )
    away = {key: abs(first[key] - second[key]) / max(1.0, abs(first[key])) for key in first.keys() & second.keys()}
    away = {key: 0.0 if np.isnan(first[key]) and np.isnan(second[key]) else by for key, by in away.items()}
    same = sum(by <= _SAME for by in away.values())
    print(
        f"{len(first):,} keys, {len(first.keys() ^ second.keys())} only in one, {same / max(1, len(away)):.2%} within {_SAME:g}"
    )
    for key in sorted(first.keys() ^ second.keys())[:40]:
        print(f"only in one: {key}")
    for key in sorted(away, key=lambda key: -away[key]):
        if not away[key] <= _CHANGED:
            print(f"{away[key]:.2g}: {key}: {first[key]!r} -> {second[key]!r}")


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]))
    else:
        compare(Path(sys.argv[2]), Path(sys.argv[3]))
