"""One repetition: the choice by its rules, and what each pipeline, on all labels, is worth on the rows that judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

import pymc_bpls as bpls
from pymc_bpls.choosing.losses import LOSSES
from pymc_bpls.choosing.pipelines import SUPERVISED
from pymc_bpls.selftraining.pipeline import Pipeline
from validation.choose.cases import ALPHA, FOLDS, NULL, PAPER, POOLED, POWER, REPEATS, SIZE, Case
from validation.choose.tables import PREDICTOR, class_conditional, draw, logistic
from validation.paper.runs.repetition import FRESH
from validation.paper.runs.tables import columns, load
from validation.study.splits import draw as draw_split

BOUND, BETTING = "bound", "betting"
#: The loss that each rule judges by; where a gain is to be seen, one that is bounded, whose differences scatter less.
LOSS_OF = {BOUND: "log", BETTING: "brier"}
LOSS_OF_POWER = "brier"
AT_ONCE, ROUNDS = 5, 20
#: Pipelines that compete with the supervised, logistic model.
OF_PART = {
    SIZE: ("ppp", "class-conditional"),
    POOLED: ("ppp", "integrated"),
    POWER: ("class-conditional", "integrated"),
}


def repeat(case: Case, repetition: int) -> dict[str, Any]:
    """Everything that is stored of one repetition."""
    if case.part == PAPER:
        return _of_paper(case, repetition)
    rng = np.random.default_rng([sum(map(ord, case.key)), repetition])
    drawn = draw(case.source, case.n_labeled, case.n_pool, case.features, rng)
    if case.part == NULL:
        # the supervised model predicts ½, which is the truth, so that no other predicts better, whatever rows were seen
        tied, free = logistic(drawn, 1e-4), logistic(drawn)
        pipelines: dict[str, Pipeline] = {
            "free": bpls.Train(rounds=0, scorer=free),
            "ppp": bpls.Train(batch_size=AT_ONCE, scorer=free),
        }
        return {BETTING: _choice(tied, pipelines, BETTING, case, repetition)}
    pls, other = logistic(drawn), class_conditional(drawn)
    pipelines = {
        "ppp": bpls.Train("ppp", batch_size=AT_ONCE),
        "class-conditional": bpls.Train(rounds=0, scorer=other),
        "integrated": bpls.Marginalize(1.0, scorer=other),
    }
    pipelines = {name: pipelines[name] for name in OF_PART[case.part]}
    rules = (BOUND,) if case.part == POWER else (BOUND, BETTING)
    record: dict[str, Any] = {rule: _choice(pls, pipelines, rule, case, repetition) for rule in rules}
    record["judged"] = _judged(pls, pipelines, drawn.judging, drawn.truth[drawn.judging], repetition)
    return record


def _choice(pls: bpls.BPLS, pipelines: Mapping[str, Pipeline], rule: str, case: Case, seed: int) -> dict[str, Any]:
    """Which pipeline a rule takes, and the proof of each."""
    choice = pls.choose(
        pipelines,
        loss=LOSS_OF_POWER if case.part == POWER else LOSS_OF[rule],
        folds=FOLDS[case.part],
        repeats=REPEATS[case.part] if rule == BOUND else 1,
        alpha=ALPHA,
        guarantee=rule,
        random_seed=seed,
        progressbar=False,
    )
    return {
        "chosen": choice.name,
        "proof": {name: each.proof for name, each in choice.evidence.items()},
        "difference": {name: each.difference for name, each in choice.evidence.items()},
        "in_errors": {name: _in_errors(choice.losses, name) for name in choice.evidence},
    }


def _in_errors(losses: xr.Dataset, name: str) -> float:
    """A mean difference in standard errors of so many independent rows as there are labels: what a lenient gate looks at."""
    loss = losses["loss"]
    d = (loss.sel(pipeline=SUPERVISED) - loss.sel(pipeline=name)).to_numpy()
    error = d.std() / np.sqrt(len(np.unique(losses["row"])))
    return float(d.mean() / error) if error > 0 else 0.0


def _judged(
    pls: bpls.BPLS, pipelines: Mapping[str, Pipeline], rows: np.ndarray, truth: np.ndarray, seed: int
) -> dict[str, dict[str, float]]:
    """Mean losses on rows that judge, of the supervised model and other pipelines on all labels."""
    found = {}
    for name, pipeline in {SUPERVISED: bpls.Train(rounds=0), **pipelines}.items():
        learner = pipeline.scorer or pls
        p = pipeline.predict(learner, pipeline.fit(learner, seed, progressbar=False), rows)
        found[name] = {loss: float(LOSSES[loss].of_rows(p, truth).mean()) for loss in LOSSES}
    return found


def _of_paper(case: Case, repetition: int) -> dict[str, Any]:
    """On the split of the paper's study: what is chosen of the supervised model and runs to the end of the pool."""
    assert case.setting is not None
    table = load(case.setting.source, case.setting.features)
    split = draw_split(table.y, case.setting.sizes, np.random.default_rng([case.setting.n, repetition]))
    design, scale = columns(table.X, case.setting.basis)
    y = np.full(len(table.y), -1)
    y[split.labeled.positions] = split.labeled.codes
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, case.setting.prior.sd * scale, shape=design.shape[1])
        pm.Bernoulli("y", logit_p=design @ beta, observed=y)
    pls = bpls.BPLS(model, unlabeled=split.candidates, predictor=PREDICTOR)
    at_once = max(1, len(split.candidates) // ROUNDS)
    pipelines = {name: bpls.Train(name, batch_size=at_once) for name in ("ppp", "probability")}
    record: dict[str, Any] = {BOUND: _choice(pls, pipelines, BOUND, case, repetition)}
    chosen = {name: each for name, each in pipelines.items() if name == record[BOUND]["chosen"]}
    rows = split.other[:FRESH] if case.setting.features else split.test.positions
    record["judged"] = _judged(pls, chosen, rows, table.y[rows], repetition)
    return record
