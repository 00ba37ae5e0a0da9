"""One split of a data set: labels that are accepted at each level, by either way, and how many of them are wrong."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pymc as pm

import pymc_bpls as bpls
from pymc_bpls.acceptance.accept import LEAVE_ONE_OUT, SPLIT, accept
from pymc_bpls.acceptance.conformal import step_up
from pymc_bpls.comparison.splits import Split
from pymc_bpls.scoring.one_model import ModelScorer

WAYS, LEVELS = (LEAVE_ONE_OUT, SPLIT), (0.05, 0.1, 0.2)


@dataclass(frozen=True)
class Setting:
    """A data set, and how many of its rows are labeled; all others are candidates."""

    name: str
    n_labeled: int

    @property
    def key(self) -> str:
        """The file's name."""
        return self.name

    @property
    def source(self) -> str:
        """The data set."""
        return self.name

    @property
    def title(self) -> str:
        """For readers."""
        return self.name

    @property
    def work(self) -> int:
        """What a split's time is roughly proportional to."""
        return self.n_labeled


SETTINGS = (Setting("banknote", 60), Setting("sonar", 80), Setting("ionosphere", 80), Setting("cars", 16))


@cache
def declared(name: str) -> tuple[ModelScorer, np.ndarray]:
    """A logistic model with coefficients ~ N(0, 1) of standardised features, on all rows, and their classes."""
    data = bpls.load_dataset(name)
    features, y = data["X"].to_numpy(), data["y"].to_numpy()
    design = np.column_stack([np.ones(len(y)), (features - features.mean(axis=0)) / features.std(axis=0)])
    with pm.Model() as model:
        pm.Bernoulli("label", logit_p=design @ pm.Normal("beta", 0, 1, shape=design.shape[1]), observed=y)
    return bpls.BPLS(model, predictor="auto").scorer, y


def accepted_labels(setting: Setting, seed: int) -> dict[str, Any]:
    """Of one random split: how many labels are wrong if all are taken, and by each way and level how many are accepted and
    wrong.
    """
    scorer, y = declared(setting.name)
    rows = np.random.default_rng(seed).permutation(len(y))
    split = Split(np.sort(rows[: setting.n_labeled]), np.sort(rows[setting.n_labeled :]), np.empty(0, dtype=int))
    drawn = scorer.with_table(split.table(scorer.problem.table))
    record: dict[str, Any] = {"candidates": len(split.candidates)}
    for way in WAYS:
        found = accept(drawn, LEVELS[0], way, per_class=False, rng=np.random.default_rng(seed))
        wrong = found["pseudo_label"].to_numpy() != y[split.candidates]
        record[f"{way} wrong"] = int(wrong.sum())
        for level in LEVELS:
            taken = step_up(found["p_value"].to_numpy(), level)
            record[f"{way} {level:g}"] = [int(taken.sum()), int((taken & wrong).sum())]
    return record
