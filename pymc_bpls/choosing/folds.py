"""Which labeled rows a pipeline is told and which judge it: folds, or rows in random order, with groups kept whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pymc_bpls.errors import RowError
from pymc_bpls.model.data.missing import none_where_masked


class NoFolds(Exception):
    """Labeled rows are too few to set any aside; the message says why, as a part of a sentence."""


@dataclass(frozen=True)
class Fold:
    """Positions of the rows that judge, in their order, and of all rows whose labels are hidden; `repeat` is the deal's number.

    Hidden rows are no candidates either, and neither are unlabeled rows of their groups.
    """

    test: np.ndarray
    hidden: np.ndarray
    repeat: int


@dataclass(frozen=True)
class Units:
    """What is dealt as a whole: each labeled row, or all labeled rows of a group.

    `rows` and `codes` are those of the labeled rows (n,), `names` those of the classes, and `unit` (n,) says which unit each
    row belongs to.
    """

    rows: np.ndarray
    codes: np.ndarray
    names: np.ndarray
    unit: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, codes: np.ndarray, names: np.ndarray, groups: np.ndarray | None) -> Units:
        """Of labeled rows, with the groups of all rows of the table."""
        return cls(rows, codes, names, np.arange(len(rows)) if groups is None else pd.factorize(groups[rows])[0])

    def __len__(self) -> int:
        return int(self.unit.max()) + 1

    @property
    def by_class(self) -> np.ndarray:
        """How many units have a row of each class (K,)."""
        return units_by_class(self.unit, self.codes, len(self.names))

    def lacks(self, rows: np.ndarray) -> np.ndarray:
        """Codes of the classes that none of the labeled `rows` has."""
        return np.setdiff1d(np.arange(len(self.names)), self.codes[np.isin(self.rows, rows)])

    def first_with_all_classes(self, order: np.ndarray) -> int:
        """How many units, taken in an order, have a row of each class."""
        place = np.argsort(order)[self.unit]
        return 1 + max(int(place[self.codes == code].min()) for code in range(len(self.names)))

    def refuse_unlabeled_class(self) -> None:
        """Rows of a class that no label has judge no pipeline, and the others say nothing of it.

        Raises
        ------
        NoFolds
            A class of the model has no labeled row.
        """
        for code in self.lacks(self.rows):
            raise NoFolds(f"class {self.names[code]} has no label")

    def in_order(self, units: np.ndarray) -> np.ndarray:
        """The rows of some units, in the order of these."""
        return np.concatenate([self.rows[self.unit == unit] for unit in units])


def units_by_class(unit: np.ndarray, codes: np.ndarray, n_classes: int) -> np.ndarray:
    """How many units have a row of each class (K,), from the unit and the class of each row."""
    pairs = np.unique(np.stack([codes, unit]), axis=1)
    return np.bincount(pairs[0], minlength=n_classes)


def read_groups(groups: Any, n: int) -> np.ndarray | None:
    """Groups as given, shape (rows,), or None.

    Raises
    ------
    RowError
        They are not one a row.
    """
    if groups is None:
        return None
    found = np.asarray(none_where_masked(groups))
    found = found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found
    if found.ndim != 1 or len(found) != n:
        entries = len(found) if found.ndim else "no"
        raise RowError(f"groups= has {entries} entries, and there are {n} rows. Give the group of each row.")
    if pd.isna(found).any():
        raise RowError(f"groups= lacks a value in {pd.isna(found).sum()} rows. Give each row a group.")
    return found


def deal_rows(codes: np.ndarray, n_folds: int) -> np.ndarray:
    """The fold of each row (n,), so that classes are spread as evenly as can be: in turn, class after class."""
    folds = np.empty(len(codes), dtype=int)
    folds[np.argsort(codes, kind="stable")] = np.arange(len(codes)) % n_folds
    return folds


def deal_groups(codes: np.ndarray, groups: np.ndarray, n_folds: int) -> np.ndarray:
    """The fold of each row (n,) where groups (n,), numbered, stay whole, and each fold has its share of each class if it can.

    The groups whose classes differ the most are dealt first, each to the fold where the classes' shares then differ the least
    between folds, the smallest fold among equals (as scikit-learn's StratifiedGroupKFold).
    """
    counts = np.zeros((groups.max() + 1, codes.max() + 1))
    np.add.at(counts, (groups, codes), 1)
    counts = counts[:, counts.sum(axis=0) > 0]
    totals, held = counts.sum(axis=0), np.zeros((n_folds, counts.shape[1]))
    fold_of = np.empty(len(counts), dtype=int)
    for group in np.argsort(-counts.std(axis=1), kind="stable"):
        after = held + np.eye(n_folds)[:, :, None] * counts[group]
        uneven = (after / totals).std(axis=1).mean(axis=1)
        best = np.isclose(uneven, uneven.min())
        fold_of[group] = min(np.flatnonzero(best), key=lambda fold: held[fold].sum())
        held[fold_of[group]] += counts[group]
    return fold_of[groups]


def cross_fitting(units: Units, n_folds: int, repeats: int, rng: np.random.Generator) -> list[Fold]:
    """Repeated, stratified folds; no more than there are units.

    Raises
    ------
    NoFolds
        A class has no label, or a fold would train on no row of it.
    """
    units.refuse_unlabeled_class()
    n_folds, n = min(n_folds, len(units)), len(units.rows)
    folds: list[Fold] = []
    for repeat in range(repeats):
        order = rng.permutation(n)
        if len(units) == n:
            fold_of = deal_rows(units.codes[order], n_folds)
        else:
            fold_of = deal_groups(units.codes[order], pd.factorize(units.unit[order])[0], n_folds)
        tests = [np.sort(units.rows[order[fold_of == number]]) for number in range(n_folds)]
        folds += [Fold(test, test, repeat) for test in tests if len(test)]
    if len(folds) < 2:
        raise NoFolds("all labeled rows belong together")
    for fold in folds:
        _refuse_lacking(units, np.setdiff1d(units.rows, fold.test))
    return folds


def one_after_the_other(units: Units, n_folds: int, repeats: int, rng: np.random.Generator) -> list[Fold]:
    """Units in random orders, in so many blocks, each predicted from the units before it.

    The first part, one of n_folds + 1 or as much as has every class of the model, is not predicted. That it ends is known from
    its own rows, as a stopping time: were it as much as has every class that any label has, bets would begin early just where
    a class has no label, and their e-values would have means above 1.

    Raises
    ------
    NoFolds
        A class has no label, or nothing is left to predict.
    """
    units.refuse_unlabeled_class()
    folds: list[Fold] = []
    for repeat in range(repeats):
        order = rng.permutation(len(units))
        first = max(1, len(units) // (n_folds + 1), units.first_with_all_classes(order))
        if first >= len(units):
            continue
        later = order[first:]
        blocks: Sequence[np.ndarray] = [block for block in np.array_split(later, n_folds) if len(block)]
        starts = np.cumsum([0, *map(len, blocks)])
        folds += [
            Fold(units.in_order(block), units.in_order(later[start:]), repeat)
            for block, start in zip(blocks, starts, strict=False)
        ]
    if not folds:
        raise NoFolds("no labeled row is left once each class has one to train on")
    return folds


def _refuse_lacking(units: Units, trained_on: np.ndarray) -> None:
    lacking = units.lacks(trained_on)
    if lacking.size:
        raise NoFolds(f"class {units.names[lacking[0]]} has all of its labeled rows in one fold")
