"""log Z_2 − log Z_1 and log PPP of every candidate and class of a case, by its points, without this package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logsumexp

from validation.references.cases import Case

Truth = dict[str, Any]


def truth(case: Case, folder: Path) -> Truth:
    """What is known of a case, from `folder` where it was computed before."""
    path = folder / f"truth-{case.name.replace(' ', '-').replace(',', '')}.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(integrate(case)) + "\n", encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))


def integrate(case: Case) -> Truth:
    """By all points; errors of Monte Carlo points by leaving out one piece after the other, next to nothing for a grid."""
    labeled, pool = np.flatnonzero(case.y >= 0), case.y < 0
    parts = []
    for theta, log_weights in case.points():
        log_p = case.log_p(theta)
        log_lik = log_p[:, labeled, case.y[labeled]].sum(axis=1)
        doubled = log_weights + 2 * log_lik
        of_pool = logsumexp(doubled[:, None, None] + log_p[:, pool], axis=0)
        parts.append(np.r_[logsumexp(log_weights + log_lik), logsumexp(doubled), of_pool.ravel()])
    shape = of_pool.shape
    levels = logsumexp(parts, axis=0)
    values = levels[1:] - levels[0]
    return {"constant": float(values[0]), "log_ppp": values[1:].reshape(shape).tolist()}
