"""Computes what is missing, then writes the report: `python -m validation.accept`.

Every split is kept in `validation/results/accept/` as it is finished; a rerun computes only what is missing.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

import pymc_bpls as bpls
from validation.accept.report import report
from validation.accept.splits import LEVELS, SETTINGS, WAYS, Setting, accepted_labels
from validation.study.command import finish
from validation.study.store import Store

HERE = Path(__file__).parents[1]
RESULTS, REPORT = HERE / "results" / "accept", HERE / "reports" / "accept.md"
SPLITS = 500


def protocol(setting: Setting) -> dict[str, Any]:
    """What all splits have in common."""
    return {"labeled": setting.n_labeled, "ways": list(WAYS), "levels": list(LEVELS)}


STORE: Store[Setting] = Store(RESULTS, protocol)


def compute() -> None:
    """Every missing split."""
    with warnings.catch_warnings(), threadpool_limits(1, user_api="blas"):
        warnings.simplefilter("ignore", bpls.BPLSWarning)
        for setting, seed in STORE.missing([(setting, SPLITS) for setting in SETTINGS]):
            STORE.add(setting, seed, accepted_labels(setting, seed))


def write() -> Path | None:
    """From what is stored, if anything is."""
    found = {setting: records for setting in SETTINGS if (records := STORE.read(setting))}
    if not found:
        return None
    REPORT.write_text(report(found), encoding="utf-8")
    return REPORT


if __name__ == "__main__":
    finish(compute, write)
