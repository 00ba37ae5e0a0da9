"""One repetition: both criteria self-train on the same split, and along the full one's run their choices are compared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pymc_bpls.engine.engine import Engine
from pymc_bpls.montecarlo.averages import Averages, average
from pymc_bpls.montecarlo.psis import importance_draws
from pymc_bpls.montecarlo.references import proposals
from validation.simplified.rounds import CRITERIA, FULL, SIMPLIFIED, Round, SelfTraining
from validation.simplified.settings import Setting, declare

EVERY = 10
DRAWS = 8000
DIGITS = 7


def repeat(setting: Setting, repetition: int) -> dict[str, Any]:
    """Everything that is stored of one repetition."""
    declared = declare(setting.source, setting.first)
    training = SelfTraining(declared.engine, declared.split(setting, repetition))
    runs = {criterion: list(training.run(criterion)) for criterion in CRITERIA}
    # with a single candidate there is nothing to choose
    compared = [each for each in runs[FULL] if len(each.candidates) > 1]
    return {
        "right": {criterion: [each.right for each in run] for criterion, run in runs.items()},
        "true_labels": {criterion: _true_labels(run[-1], declared.y, training) for criterion, run in runs.items()},
        "lost": sum(each.choices.lost for run in runs.values() for each in run if each.choices is not None),
        "differ": [int(each.choices.differ) for each in compared if each.choices is not None],
        "regret": [
            {"round": number, **regret(declared.engine, compared[number], np.random.default_rng([repetition, number]))}
            for number in range(0, len(compared), EVERY)
        ],
    }


def _true_labels(last: Round, y: np.ndarray, training: SelfTraining) -> int:
    """How many pseudo-labels are true."""
    added = slice(len(training.split.labeled), None)
    return int((last.labeled.codes[added] == y[last.labeled.positions[added]]).sum())


def regret(engine: Engine, at: Round, rng: np.random.Generator) -> dict[str, Any]:
    """Exact log PPP that each choice loses, and the simplified one's more than the full one's, with Monte Carlo errors."""
    assert at.choices is not None
    draws, _, proposal, _ = importance_draws(engine, at.labeled, 2, proposals(engine, at.labeled, 2), DRAWS, rng)
    averages = average(engine, draws, at.candidates, at.choices.codes)
    best = int(np.argmax(averages.log_mean))
    full, simplified = (at.choices.best[criterion] for criterion in CRITERIA)
    return {
        "pareto_k": None if draws.pareto_k is None else round(draws.pareto_k, 3),
        "proposal": proposal,
        FULL: _gap(averages, best, full),
        SIMPLIFIED: _gap(averages, best, simplified),
        "difference": _gap(averages, full, simplified),
    }


def _gap(averages: Averages, first: int, second: int) -> list[float]:
    """How much larger the first candidate's log PPP is, and the Monte Carlo error of that, both on the same draws."""
    paired = replace(averages, blocks=(averages.deviations[:, [first]] - averages.deviations[:, [second]],))
    return [round(float(value), DIGITS) for value in (averages.log_mean[first] - averages.log_mean[second], paired.error[0])]
