"""The results as one flat table: a row for every method of every setting, means over repetitions in percent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from validation.paper.settings import BY_GLM, GLM_PROBABILITY, GLM_RANDOM, GLM_SUPERVISED, PROBABILITY, RANDOM, SUPERVISED
from validation.paper.summary import (
    ALIKE,
    ALONG,
    DIVERGENCE,
    FINAL,
    LOG_GAIN,
    MOVED,
    ORACLE,
    ORACLE_FRESH,
    STOPPED,
    TRUE,
    Summary,
)

COMPARED = {FINAL: "final", ALONG: "along", ORACLE: "oracle"}
#: Of runs, of runs of simulated settings, and of those of Bayesian models.
OF_RUNS = {TRUE: "true_labels", MOVED[ALONG]: "nearness_of_accuracy"}
ON_FRESH_ROWS = {ORACLE_FRESH: "oracle_on_fresh_rows"}
WITH_PRIOR = {
    STOPPED: "stopped",
    LOG_GAIN: "log_score_gained",
    ALIKE[ALONG]: "rows_predicted_alike",
    DIVERGENCE[ALONG]: "nearness_of_probabilities",
}
RIVALS = {"supervised": SUPERVISED, "random": RANDOM, "probability": PROBABILITY}
RIVALS_BY_GLM = {"supervised": GLM_SUPERVISED, "random": GLM_RANDOM, "probability": GLM_PROBABILITY}


def flat(summaries: Sequence[Summary]) -> pd.DataFrame:
    """Also accuracies minus those of the same kind of model supervised, by random selection and by the probability score, with
    95% intervals.
    """
    return pd.DataFrame([row for each in summaries for row in _rows(each)]).round(3)


def _rows(each: Summary) -> Iterator[dict[str, object]]:
    at = each.setting
    setting = {"source": at.source, "basis": at.basis, "n": at.n, "parameters": each.parameters, "unlabeled": at.unlabeled}
    prior = {"prior_centre": at.prior.centre, "prior_sd": at.prior.sd}
    for method in each.methods:
        measures = COMPARED | OF_RUNS
        measures |= ON_FRESH_ROWS if each.simulated else {}
        measures |= {} if method in BY_GLM else WITH_PRIOR
        means = {
            name: each.mean(method, measure) for measure, name in measures.items() if each.compares(method, method, measure)
        }
        yield setting | prior | {"method": method, "R": each.runs(method)} | means | _against(each, method)
    for supervised in (SUPERVISED, GLM_SUPERVISED):
        if each.has(supervised):
            means = {name: each.mean(supervised, measure) for measure, name in COMPARED.items()}
            yield setting | prior | {"method": supervised, "R": each.repetitions} | means


def _against(each: Summary, method: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, rival in (RIVALS_BY_GLM if method in BY_GLM else RIVALS).items():
        if method == rival or not each.has(rival):
            continue
        for measure, when in COMPARED.items():
            gap = each.difference(method, rival, measure)
            ends = {"": gap.mean, "_low": gap.low, "_high": gap.high}
            found |= {f"{when}_minus_{name}{end}": float(value) for end, value in ends.items()}
    return found
