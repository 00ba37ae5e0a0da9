"""The demo's words: what is asked, a table of each answer, and one verdict."""

from __future__ import annotations

import numpy as np
import xarray as xr
from rich.box import SIMPLE_HEAD
from rich.table import Table

from pymc_bpls.audit.report import Audit
from pymc_bpls.audit.uses import loses_much
from pymc_bpls.comparison.differences import Estimate, bonferroni, estimate
from pymc_bpls.datasets import load_dataset
from pymc_bpls.demo.questions import BY_EP, BY_LAPLACE, SAFE, TO_THE_END, PoolAnswer, changes, n_kept
from pymc_bpls.demo.setting import Setting
from pymc_bpls.text.numbers import percent, plus_minus

#: What the audited ways to score are called, in tables and in sentences.
WAYS = {BY_LAPLACE: "Laplace", BY_EP: "EP"}
_IN_WORDS = {BY_LAPLACE: "Laplace's method", BY_EP: "EP"}
_POINTS = 100.0


def introduction(setting: Setting) -> str:
    """What is about to be run."""
    data = load_dataset(setting.dataset)
    return (
        f"{data.attrs['title']}: {data.sizes['row']} rows, {data.sizes['feature']} standardised features; "
        f"{setting.n_labeled} rows labeled, {setting.n_unlabeled} in the pool, {setting.n_held_out} held out. "
        f"A logistic regression in PyMC, coefficients ~ Normal(0, {setting.scale:g})."
    )


def pool_table(answer: PoolAnswer) -> Table:
    """What the pool can tell either model."""
    table = _table("model", "nats", "as many labels as")
    table.add_row("logistic regression: labels given features", *_worth(answer.regression.nats, 0.0))
    features = answer.class_conditional
    table.add_row("class-conditional: features, too", *_worth(features.nats, features.equivalent_labels))
    return table


def _worth(nats: float, labels: float) -> tuple[str, str]:
    return f"{nats:.3g}", f"{labels:.0f}"


def say_pool(answer: PoolAnswer) -> str:
    """Why, and on what condition."""
    return (
        "A regression describes labels given features only, so rows without a label cannot inform it. A model that says how "
        f"features arise gains what {answer.class_conditional.equivalent_labels:.0f} labels would tell, if it is right; "
        "if it is wrong, the pool misleads it."
    )


def audit_table(audit: Audit) -> Table:
    """PPP by either approximation and exactly."""
    table = _table("PPP by", "its choice", "log PPP lost by it", "τ with exact ranking", "k-hat")
    for name, way in WAYS.items():
        found = audit.agreement.sel(criterion=name)
        lost = plus_minus(float(found["regret"]), float(found["regret_mcse"]))
        tau, k_hat = float(found["tau"]), plus_minus(float(found["pareto_k"]), float(found["pareto_k_mcse"]))
        table.add_row(way, f"row {int(found['choice'])}", lost, f"{tau:.3f}", k_hat)
    exact = audit.candidates["log_ppp"]
    table.add_row("exact", f"row {int(exact['candidate'][int(np.nanargmax(exact))])}", "0", "1", "")
    return table


def say_audit(audit: Audit) -> str:
    """What the columns are, and what was not reliable."""
    range_ = float(audit.agreement.attrs["range"])
    doubts = "" if audit.reliable else f" The exact values are not reliable: {'; '.join(audit.reasons)}."
    return (
        f"Exact log PPP spans {range_:.2g} nats over the pool. k-hat above 0.7: the posterior is far from the Gaussian that "
        f"was taken for it.{doubts}"
    )


def run_table(outcomes: xr.Dataset) -> Table:
    """Both ways against the supervised model."""
    table = _table("against the supervised model", "accuracy (points)", "log score (nats)")
    for way in (TO_THE_END, SAFE):
        accuracy, log_score = (_final(outcomes, way, measure) for measure in ("accuracy", "log_score"))
        table.add_row(way, _with_error(accuracy, _POINTS, 1), _with_error(log_score, 1.0, 2))
    return table


def say_runs(outcomes: xr.Dataset, setting: Setting) -> str:
    """Over how many splits, and what a run invents."""
    n, invented = outcomes.sizes["split"], _final(outcomes, TO_THE_END, "invented_information")
    return (
        f"Means {'± standard errors ' if n > 1 else ''}over {n} random split{'s' if n > 1 else ''}, which share rows. "
        f"The run labels all {setting.n_unlabeled} rows of the pool by itself, {setting.batch_size} a round, and is surer in "
        f"the end by {invented.mean:.1f} nats that no label told. The safe choice kept the supervised model in "
        f"{n_kept(outcomes)}."
    )


def say_verdict(answer: PoolAnswer, audit: Audit, outcomes: xr.Dataset) -> str:
    """All three answers in plain sentences."""
    nothing = "the pool can tell this model nothing" if not answer.regression.informative else "the pool can inform this model"
    return f"Here {nothing}. {_use(audit)} {_gain(outcomes)}"


def _use(audit: Audit) -> str:
    """Which approximation to score by."""
    if not audit.reliable:
        return "How good the scores are is not known, since the exact values are not reliable."
    range_ = float(audit.agreement.attrs["range"])
    lost, proven = (audit.agreement[name].to_series() for name in ("regret", "regret_proven"))
    bad = [name for name in WAYS if loses_much(lost[name], proven[name], range_)]
    if not bad:
        return "Scores by Laplace's method and by EP choose well."
    how = " and ".join(f"by {_IN_WORDS[name]} loses {percent(lost[name] / range_)}" for name in bad)
    rest = [_IN_WORDS[name] for name in WAYS if name not in bad]
    instead = f"score by {rest[0]}, whose choice loses next to nothing" if rest else "only exact values will do"
    return f"The choice {how} of the range of log PPP: {instead}."


def _gain(outcomes: xr.Dataset) -> str:
    """Whether to run to the end."""
    n, kept = outcomes.sizes["split"], n_kept(outcomes)
    if n < 2:
        return "One split has no standard error, so whether a run helps is unknown. Use --seeds 3 or more."
    bound = bonferroni(n, 2)
    accuracy, log_score = (_final(outcomes, TO_THE_END, measure) for measure in ("accuracy", "log_score"))
    signs = accuracy.beyond(bound), log_score.beyond(bound)
    what = (
        "helps"
        if min(signs) >= 0 < max(signs)
        else "does harm"
        if max(signs) <= 0 > min(signs)
        else "gains nothing beyond chance"
    )
    in_points = f"accuracy {_with_error(accuracy, _POINTS, 1)} points"
    in_nats = f"log score {_with_error(log_score, 1.0, 2)} nats"
    if any(signs):
        in_points, in_nats = (
            said if sign else f"{said} (within chance)" for said, sign in zip((in_points, in_nats), signs, strict=True)
        )
    safe = _final(outcomes, SAFE, "accuracy")
    saved = "loses nothing" if kept == n else f"changes accuracy by {_with_error(safe, _POINTS, 1)} points"
    return (
        f"A run to the end {what}: {in_points}, {in_nats}. "
        f"choose() {saved}: it keeps the supervised model in {kept} of {n} splits."
    )


def _final(outcomes: xr.Dataset, way: str, measure: str) -> Estimate:
    return estimate(changes(outcomes, way, measure)[:, -1])


def _with_error(value: Estimate, factor: float, digits: int) -> str:
    """With its sign, and its standard error where there is one."""
    mean = round(factor * value.mean, digits) + 0.0
    shown = f"{mean:+.{digits}f}".replace("-", "−") if mean else "0"
    return shown if np.isnan(value.error) or value.error == 0 else f"{shown} ± {factor * value.error:.{digits}f}"


def _table(first: str, *others: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(first)
    for heading in others:
        table.add_column(heading, justify="right")
    return table
