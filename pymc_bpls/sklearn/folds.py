"""Labels as scikit-learn users mark them, and folds of the labeled rows alone. It takes the extra `pymc-bpls[sklearn]`."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state, column_or_1d

from pymc_bpls.errors import LabelError
from pymc_bpls.model.labels import UNLABELED, encode_labels


def read_labels(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Labels as given, shape (rows,), and which rows have one."""
    labels = column_or_1d(y, warn=True)
    known = np.asarray(pd.notna(labels))
    if labels.dtype.kind == "f":
        values = labels[known]
        strange = values[~np.isfinite(values) | (values != np.round(values))]
        if strange.size:
            raise LabelError(
                f"y has {strange.size} continuous or infinite values, the first is {strange[0]}. Give each row a class, or -1."
            )
    if labels.dtype.kind == "U" and (labels == str(UNLABELED)).any():
        raise LabelError('y holds strings "-1", as NumPy makes of ["a", -1]. Use dtype=object, or None for unlabeled rows.')
    known[known] = labels[known] != UNLABELED
    return labels, known


def encode(labels: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Class codes, −1 where unlabeled, and the classes."""
    marked = labels.astype(object)
    marked[~known] = None
    codes, classes, _ = encode_labels(marked)
    return codes, classes


class LabeledKFold(BaseCrossValidator):
    """K folds of the labeled rows, stratified by class; every unlabeled row is in every training set and in no test fold.

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

    def __init__(self, n_splits: int = 5, shuffle: bool = False, random_state: Any = None) -> None:
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """The number of folds.

        Parameters
        ----------
        X, y, groups
            Not used.

        Returns
        -------
        int
        """
        return self.n_splits

    def _iter_test_indices(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[np.ndarray]:
        labels, known = read_labels(y)
        codes, classes = encode(labels, known)
        self._check(codes, classes)
        rows = np.flatnonzero(known)
        if self.shuffle:
            rows = check_random_state(self.random_state).permutation(rows)
        rows = rows[np.argsort(codes[rows], kind="stable")]
        for fold in range(self.n_splits):
            yield rows[fold :: self.n_splits]

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
