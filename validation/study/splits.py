"""The paper's split of a table: half of the rows for testing, and a share of the others unlabeled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pymc_bpls.model.data.table import Labeled
from pymc_bpls.selftraining.held_out import HeldOut

TEST_SHARE = 0.5


class Sizes(NamedTuple):
    """How many rows are for testing, labeled and candidates."""

    test: int
    labeled: int
    candidates: int

    @classmethod
    def of(cls, n: int, unlabeled_share: float) -> Sizes:
        """Of n rows."""
        test = round(TEST_SHARE * n)
        candidates = round(unlabeled_share * (n - test))
        return cls(test, n - test - candidates, candidates)


class Split(NamedTuple):
    """D, the rows that get pseudo-labels, those on which models are judged, and the table's other rows, in random order."""

    labeled: Labeled
    candidates: np.ndarray
    test: HeldOut
    other: np.ndarray


def draw(y: np.ndarray, sizes: Sizes, rng: np.random.Generator) -> Split:
    """Rows of a table with the true classes y, drawn again until both classes are labeled."""
    while True:
        test, labeled, candidates, other = np.split(rng.permutation(len(y)), np.cumsum(sizes))
        if len(np.unique(y[labeled])) == 2:
            d = Labeled(labeled, y[labeled], np.ones(len(labeled)))
            return Split(d, np.sort(candidates), HeldOut(test, y[test]), other)
