"""The results as one flat table: a row for every method of every setting, means over repetitions in percent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from validation.paper.settings import BY_GLM, GLM_RANDOM, GLM_SUPERVISED, RANDOM, SUPERVISED
from validation.paper.summary import ALONG, FINAL, LOG_GAIN, ORACLE, STOPPED, TRUE, Summary

MEASURES = {FINAL: "final", ALONG: "along", ORACLE: "oracle", TRUE: "true_labels"}
#: Of Bayesian models only.
MORE = {STOPPED: "stopped", LOG_GAIN: "log_score_gained"}


def flat(summaries: Sequence[Summary]) -> pd.DataFrame:
    """Also final accuracies minus those of the same model supervised and of its random selection, with 95% intervals."""
    return pd.DataFrame([row for each in summaries for row in _rows(each)]).round(3)


def _rows(each: Summary) -> Iterator[dict[str, object]]:
    at = each.setting
    setting = {"source": at.source, "basis": at.basis, "n": at.n, "parameters": each.parameters, "unlabeled": at.unlabeled}
    prior = {"prior_centre": at.prior.centre, "prior_sd": at.prior.sd}
    for method in each.methods:
        measures = MEASURES if method in BY_GLM else MEASURES | MORE
        means = {name: each.mean(method, measure) for measure, name in measures.items()}
        yield setting | prior | {"method": method, "R": each.runs(method)} | means | _against(each, method)


def _against(each: Summary, method: str) -> dict[str, float]:
    supervised, random = (GLM_SUPERVISED, GLM_RANDOM) if method in BY_GLM else (SUPERVISED, RANDOM)
    found: dict[str, float] = {}
    for name, rival in (("supervised", supervised), ("random", random)):
        gap = each.difference(method, rival)
        ends = {"": gap.mean, "_low": gap.low, "_high": gap.high}
        found |= {f"minus_{name}{end}": float(value) for end, value in ends.items()}
    return found
