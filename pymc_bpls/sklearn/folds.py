"""Labels as scikit-learn users mark them, and folds of the labeled rows alone. It takes the extra `pymc-bpls[sklearn]`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.model_selection import BaseCrossValidator, StratifiedGroupKFold
from sklearn.utils import check_random_state, column_or_1d

from pymc_bpls.choosing.folds import read_groups
from pymc_bpls.errors import CriterionError, LabelError, RowError, warn
from pymc_bpls.model.data.labels import UNLABELED, encode_labels, reject_wrapped
from pymc_bpls.model.data.missing import none_where_masked


def read_labels(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Labels as given, shape (rows,), and which rows have one."""
    reject_wrapped(y)
    labels = column_or_1d(none_where_masked(y), warn=True)
    known = np.asarray(pd.notna(labels))
    if labels.dtype.kind == "f":
        values = labels[known]
        strange = values[~np.isfinite(values) | (values != np.round(values))]
        if strange.size:
            raise LabelError(
                f"y has {strange.size} continuous or infinite values, the first is {strange[0]}. Give each row a class, or -1."
            )
    if any(isinstance(label, str) and label == str(UNLABELED) for label in labels):
        raise LabelError(
            'y holds strings "-1", as NumPy makes of ["a", -1] and astype(str) of -1. '
            "Use dtype=object, or None for unlabeled rows."
        )
    known[known] = labels[known] != UNLABELED
    return labels, known


def encode(labels: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Class codes, −1 where unlabeled, and the classes."""
    marked = labels.astype(object)
    marked[~known] = None
    codes, classes, _ = encode_labels(marked)
    return codes, classes


def splits(cv: Any, X: Any, truth: np.ndarray, groups: np.ndarray | None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Training and test rows of each fold of `cv`, a splitter or an iterable of splits, as positions among the labeled rows.

    Raises
    ------
    CriterionError
        `cv` splits nothing, or only groups that were not given.
    LabelError, RowError
        A fold trains on no row of a class, or names rows that are none of the labeled ones.
    """
    if isinstance(cv, str) or not (hasattr(cv, "split") or isinstance(cv, Iterable)):
        raise CriterionError(f"cv={cv!r} splits nothing. Give a number of folds, a splitter, or (train, test) of each fold.")
    try:
        folds = list(cv.split(X, truth, groups) if hasattr(cv, "split") else cv)
    except ValueError as error:
        if groups is None and "groups" in str(error):
            raise CriterionError(f"cv= is a {type(cv).__name__}, which splits groups. Give groups= of all rows.") from None
        raise
    for number, (train, test) in enumerate(folds, 1):
        some = _positions(train, len(truth)), _positions(test, len(truth))
        absent = np.setdiff1d(truth, truth[some[0]])
        if absent.size:
            raise LabelError(f"Fold {number} of cv= trains on no row of class {absent[0]}. Use other folds, or label more.")
        yield some


def _positions(rows: Any, n: int) -> np.ndarray:
    """Rows of a split as positions."""
    positions = np.asarray(rows)
    positions = np.flatnonzero(positions) if positions.dtype == bool and positions.shape == (n,) else positions
    whole = positions.ndim == 1 and positions.dtype.kind in "iu" and positions.size > 0
    if not whole or np.min(positions) < 0 or np.max(positions) >= n:
        raise RowError(
            f"cv= has a split that is not of the {n} labeled rows. Split these alone, as cv.split(X[labeled], y[labeled])."
        )
    return positions


class LabeledKFold(BaseCrossValidator):
    """K folds of the labeled rows, stratified by class; every unlabeled row is in every training set and in no test fold.

    Where `split` is given groups, none is on both sides of a fold: unlabeled rows of the groups that are tested are left out of
    the training set.

    Parameters
    ----------
    n_splits : int, default 5
    shuffle : bool, default False
        Whether to shuffle rows before they are dealt into folds.
    random_state : int, RandomState or None, optional
        For `shuffle=True`.

    See Also
    --------
    cross_validate_labeled : the whole loop in each fold, beside the supervised model.

    Examples
    --------
    >>> from pymc_bpls.sklearn import LabeledKFold
    >>> y = [0, 1, -1, 0, 1, -1]
    >>> [(train.tolist(), test.tolist()) for train, test in LabeledKFold(2).split(y, y)]
    [([2, 3, 4, 5], [0, 1]), ([0, 1, 2, 5], [3, 4])]
    """

    __metadata_request__split: ClassVar[dict[str, bool]] = {"groups": True}

    def __init__(self, n_splits: int = 5, shuffle: bool = False, random_state: Any = None) -> None:
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """The number of folds.

        Parameters
        ----------
        X, y, groups
            They do not change it.

        Returns
        -------
        int
        """
        return self.n_splits

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Training and test rows of each fold.

        Parameters
        ----------
        X : array_like, shape (rows, features)
        y : array_like, shape (rows,)
            Labels, with −1, None or NaN where there is none.
        groups : array_like, shape (rows,), optional
            Rows of one group stay together.

        Yields
        ------
        train, test : ndarray of int

        Raises
        ------
        BPLSError
            The folds cannot be made of these rows.
        """
        every = np.arange(len(read_labels(y)[0]))
        groups = read_groups(groups, len(every))
        for test in self._iter_test_indices(X, y, groups):
            out = np.isin(every, test) if groups is None else np.isin(groups, groups[test])
            yield every[~out], test

    def _iter_test_indices(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[np.ndarray]:
        labels, known = read_labels(y)
        codes, classes = encode(labels, known)
        self._check(codes, classes)
        rows = np.flatnonzero(known)
        if groups is not None:
            yield from self._by_group(rows, classes[codes[rows]], np.asarray(groups)[rows])
            return
        if self.shuffle:
            rows = check_random_state(self.random_state).permutation(rows)
        rows = rows[np.argsort(codes[rows], kind="stable")]
        for fold in range(self.n_splits):
            yield rows[fold :: self.n_splits]

    def _by_group(self, rows: np.ndarray, truth: np.ndarray, groups: np.ndarray) -> Iterator[np.ndarray]:
        """Test folds of whole groups, stratified as well as these allow."""
        n = len(np.unique(groups))
        if n < self.n_splits:
            raise LabelError(f"n_splits={self.n_splits} folds cannot be made of {n} groups with labels. Give 2 to that many.")
        seed = self.random_state if self.shuffle else None
        folds = StratifiedGroupKFold(self.n_splits, shuffle=self.shuffle, random_state=seed)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
            for _, test in splits(folds, rows, truth, groups):
                yield rows[test]

    def _check(self, codes: np.ndarray, classes: np.ndarray) -> None:
        counts = np.bincount(codes[codes >= 0], minlength=len(classes))
        if not (isinstance(self.n_splits, Integral) and 2 <= self.n_splits <= counts.sum()):
            raise LabelError(
                f"n_splits={self.n_splits} folds cannot be made of {counts.sum()} labeled rows. Give 2 to that many."
            )
        if counts.min() < 2:
            raise LabelError(
                f"Class {classes[counts.argmin()]} has one labeled row, so that one fold has none to train on. "
                "Label another, or leave the class out."
            )
        if counts.min() < self.n_splits:
            warn(
                f"Class {classes[counts.argmin()]} has {counts.min()} labeled rows, fewer than n_splits={self.n_splits}. "
                "Some folds test on none of it, where measures such as roc_auc are nan: use fewer folds."
            )
