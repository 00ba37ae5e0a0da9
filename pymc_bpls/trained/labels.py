"""The label of every row of the table: its class, its probability, and where it came from."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pymc_bpls.model.data.labels import UNLABELED
from pymc_bpls.scoring.scorer import Scorer
from pymc_bpls.trained.probabilities import class_probabilities
from pymc_bpls.trained.result import Trained


def label_table(scorer: Scorer, trained: Trained) -> pd.DataFrame:
    """A row for each row of the table, by the user's index: `class`, `probability`, `origin` and `round`."""
    problem = scorer.problem
    found = class_probabilities(scorer, [trained], None, None)
    p = found.to_numpy()
    origins, rounds = trained.origins(problem)
    known = np.isfinite(p).all(axis=1)
    codes = np.where(known, np.where(known[:, None], p, 0.0).argmax(axis=1), UNLABELED)
    codes = np.where(problem.table.codes >= 0, problem.table.codes, codes)
    codes[trained.labeled.positions] = trained.labeled.codes
    own = problem.classes.own or tuple(problem.classes.names.tolist())
    frame = pd.DataFrame(
        {
            "class": pd.Series([own[code] if code >= 0 else None for code in codes]).array,
            "probability": p[np.arange(len(codes)), codes],
            "origin": origins,
            "round": pd.arrays.IntegerArray(rounds, rounds == 0),
        },
        index=problem.table.index,
    )
    frame.attrs = dict(found.attrs)
    return frame
