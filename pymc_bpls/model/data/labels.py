"""Labels: from what users have to class codes, and the classes that a distribution knows.

A class code is its position 0 … K − 1; −1 marks an unlabeled row.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from numbers import Complex, Real
from typing import Any

import numpy as np
import pandas as pd
from pymc.distributions.custom import CustomDistRV
from pytensor.graph.basic import Variable

from pymc_bpls.errors import LabelError, ModelError, RowError
from pymc_bpls.model.data.index import as_index
from pymc_bpls.model.data.missing import none_where_masked
from pymc_bpls.model.data.storing import store

UNLABELED = -1
#: What a missing value becomes where labels are written as texts.
_MISSING_AS_TEXT = ("nan", "NaN", "NaT", "None", "<NA>")


class ClassCountError(LabelError):
    """Other classes were given than the target's distribution has, `n_declared` of them."""

    def __init__(self, message: str, n_declared: int = 0) -> None:
        super().__init__(message)
        self.n_declared = n_declared


def encode_labels(y: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Class codes for a model, from strings, categories, booleans, nullable integers or numbers.

    Parameters
    ----------
    y : array_like, shape (rows,)
        Labels; `None`, NaN, `pd.NA` mark unlabeled rows. A pandas categorical keeps the order of its categories, and its
        unused ones; other classes are sorted. −1 is a class beside 1 alone; beside other labels it may mean unlabeled, and is
        refused.

    Returns
    -------
    codes : ndarray of int64, shape (rows,)
        0 … K − 1, and −1 where unlabeled: what the model's `observed=` takes.
    classes : ndarray, shape (K,)
        What the codes stand for; pass it to `BPLS(classes=...)` to have it in every result.
    unlabeled : ndarray of bool, shape (rows,)

    Raises
    ------
    LabelError
        `y` is not one-dimensional, has non-integer numbers (soft labels), empty texts or texts that missing values become
        ("nan", "None"), or holds −1 beside other labels than 1, or both a number and its text.

    See Also
    --------
    BPLS : takes the codes in the model and the classes in `classes=`.

    Examples
    --------
    >>> from pymc_bpls import encode_labels
    >>> codes, classes, unlabeled = encode_labels(["spam", None, "ham", "spam"])
    >>> codes.tolist(), classes.tolist(), unlabeled.tolist()
    ([1, -1, 0, 1], ['ham', 'spam'], [False, True, False, False])
    """
    series = pd.Series(_one_dimensional(y))
    if isinstance(series.dtype, pd.CategoricalDtype):
        codes, classes = series.cat.codes.to_numpy(), series.cat.categories.to_numpy()
    else:
        known = series[series.notna()].infer_objects()
        _reject_no_label(known)
        _reject_soft(known)
        _reject_blank(known)
        codes, values = pd.factorize(series.where(series.notna(), None), sort=False)
        order = _sorted(values)
        rank = np.argsort(order)
        codes = np.where(codes >= 0, rank[np.maximum(codes, 0)] if len(order) else codes, UNLABELED)
        classes = _tidy(np.asarray(values, dtype=object)[order])
        _reject_alike(classes)
    if not len(classes):
        raise LabelError("No row has a label. Give at least one label of each class.")
    others = [name for name in classes.tolist() if str(name) != str(UNLABELED)]
    if len(others) < len(classes) and [str(name) for name in others] != ["1"]:
        raise LabelError(
            f"The labels hold -1 beside {others[:5]}, so -1 may be a class or mean unlabeled. "
            "Write None or NaN for unlabeled rows, or give the model the labels as they are."
        )
    return codes.astype(np.int64), classes, codes < 0


def _one_dimensional(y: Any) -> Any:
    values = none_where_masked(y if isinstance(y, pd.Series | pd.Categorical | pd.Index) else getattr(y, "values", y))
    if not isinstance(values, pd.Series | pd.Categorical | pd.Index):
        values = np.asarray(values, dtype=None if isinstance(values, np.ndarray) else object)
        if values.ndim != 1:
            raise LabelError(f"The labels have shape {values.shape}. Give one label a row.")
    reject_wrapped(values)
    return values


def reject_wrapped(values: Any) -> None:
    """Refuse labels of an unsigned type that hold what −1 becomes there: 255 of uint8.

    Raises
    ------
    LabelError
    """
    dtype: Any = getattr(values, "dtype", None)
    if getattr(dtype, "kind", "O") != "u":
        return
    largest = 2 ** (8 * dtype.itemsize) - 1
    wrapped = int(np.sum(np.asarray(values == largest, dtype=bool)))
    if wrapped:
        raise LabelError(
            f"The labels are of type {dtype} and hold {largest} in {wrapped} rows, which is what -1 becomes there. "
            "Mark unlabeled rows with -1 in a signed type, as int64; where it is a class, convert the labels to int64 too."
        )


def _reject_no_label(known: pd.Series) -> None:
    strange = np.flatnonzero([not isinstance(label, Hashable) or _is_endless(label) for label in known])
    if strange.size:
        first = f"{known.tolist()[strange[0]]!r} in row {known.index[strange[0]]}"
        raise LabelError(
            f"{strange.size} labels are no classes, the first is {first}. "
            "Give each row one number, text or boolean, or None where it has no label."
        )


def _is_endless(label: Any) -> bool:
    """Whether it is an infinite or a complex number."""
    return isinstance(label, Complex) and (not isinstance(label, Real) or abs(label) == np.inf)


def _reject_soft(known: pd.Series) -> None:
    numbers = pd.to_numeric(known, errors="coerce").to_numpy(float, na_value=np.nan)
    soft = np.flatnonzero(np.isfinite(numbers) & (numbers != np.round(numbers)))
    if soft.size and not known.map(lambda value: isinstance(value, str)).any():
        raise LabelError(
            f"{soft.size} labels are not whole numbers, the first is {known.iloc[soft[0]]}. "
            "Soft labels are not supported: give each row one class, or None."
        )


def _reject_blank(known: pd.Series) -> None:
    blank = np.flatnonzero(known.map(lambda value: isinstance(value, str) and not value.strip()))
    if blank.size:
        raise LabelError(
            f"Empty texts are unlabeled rows or a class ({blank.size} labels, the first in row {known.index[blank[0]]}). "
            "Write None for unlabeled rows, or give the class a name."
        )
    missing = np.flatnonzero(known.map(lambda value: isinstance(value, str) and value in _MISSING_AS_TEXT))
    if missing.size:
        raise LabelError(
            f'The text "{known.iloc[missing[0]]}" is an unlabeled row or a class ({missing.size} such labels, the first in row '
            f"{known.index[missing[0]]}). Write None for unlabeled rows (astype(str) makes a text of it), or rename the class."
        )


def _reject_alike(classes: np.ndarray) -> None:
    names, counts = np.unique(classes, return_counts=True)
    alike = names[counts > 1].tolist()
    if alike:
        raise LabelError(f"The labels hold {alike} both as text and as something else. Convert all labels to one type.")


def _sorted(values: Any) -> np.ndarray:
    held = list(values)
    try:
        return np.array(sorted(range(len(held)), key=held.__getitem__), dtype=int)
    except TypeError:
        return np.array(sorted(range(len(held)), key=lambda i: str(held[i])), dtype=int)


def _tidy(classes: np.ndarray) -> np.ndarray:
    """Classes in their own dtype; whole floats as integers."""
    tidy = np.array(classes.tolist())
    return tidy.astype(np.int64) if tidy.dtype.kind == "f" else tidy


@dataclass(frozen=True)
class Classes:
    """The K classes of a target.

    `names` (K,) is what results show, which a file can hold; `values` (K, ...) is what the log-likelihood takes for one row;
    `own` are the user's objects, where the names are not these.
    """

    names: np.ndarray
    values: np.ndarray
    own: tuple[Any, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    def find(self, labels: Any, *, shown: bool = False) -> np.ndarray:
        """Class codes of labels, −1 for what is no class.

        The user's own names of classes come first, or those that results show where the labels are a result's.
        """
        ways = (self.own, self.names) if shown else (self.names, self.own)
        known = {_key(name): code for names in ways for code, name in enumerate(names)}
        return np.array([known.get(key, UNLABELED) for key in map(_key, labels)], dtype=int)

    def match(self, observed: np.ndarray) -> np.ndarray:
        """Class codes (N,) of `observed` (N, ...), −1 where it is no class."""
        flat = observed.reshape(len(observed), -1)
        codes = np.full(len(observed), UNLABELED)
        for code, value in enumerate(self.values.reshape(len(self), -1)):
            codes[(flat == value).all(axis=1)] = code
        return codes

    def codes(self, observed: np.ndarray, name: str, rows: np.ndarray, unlabeled: Any) -> np.ndarray:
        """Class codes (N,) of `observed` (N, ...), −1 outside `rows` and where a label equals `unlabeled`."""
        codes = self.match(observed)
        blank = (observed.reshape(len(observed), -1) == unlabeled).all(axis=1) | ~rows
        strange = np.flatnonzero((codes < 0) & ~blank)
        if strange.size:
            reject_wrapped(observed)
            first = f"{observed[strange[0]].tolist()} in row {strange[0]}"
            if not isinstance(unlabeled, int | np.integer):
                raise LabelError(
                    f'unlabeled={np.asarray(unlabeled).tolist()!r} marks no row, and "{name}" holds {first}. '
                    "Leave unlabeled= out where -1 marks unlabeled rows, or give their positions or a mask."
                )
            raise LabelError(
                f'"{name}" has {strange.size} labels outside its classes {self.names.tolist()}, the first is {first}. '
                f"Encode labels as 0 to {len(self) - 1} (encode_labels does it) and mark unlabeled rows with {unlabeled}."
            )
        return np.where(blank, UNLABELED, codes)


def as_labels(labels: Any) -> Any:
    """Labels one by one, None where one is missing; or None where they are no list."""
    if not isinstance(labels, list | tuple | pd.Index | pd.Series | pd.api.extensions.ExtensionArray):
        labels = np.asarray(none_where_masked(labels))
        if labels.ndim != 1:
            return None
    return [None if pd.api.types.is_scalar(label) and pd.isna(label) else label for label in labels]


def _key(label: Any) -> Any:
    """By what a class is looked up: days and times of any unit are the same, and so are numbers of NumPy and of Python."""
    if isinstance(label, np.datetime64 | datetime.date) and label is not pd.NaT:
        return pd.Timestamp(label)
    if isinstance(label, np.timedelta64 | datetime.timedelta) and label is not pd.NaT:
        return pd.Timedelta(label)
    if isinstance(label, np.generic):
        return label.item()
    return label if isinstance(label, Hashable) else repr(label)


def _two(_parameters: Any, _evaluate: Any, _name: str) -> np.ndarray:
    return np.arange(2)


def _one_trial(parameters: Sequence[Variable], evaluate: Callable[[Variable], Any], name: str) -> None:
    trials = np.asarray(evaluate(parameters[0]))
    if np.any(trials != 1):
        raise LabelError(
            f'"{name}" counts up to {int(trials.max())} trials in a row, and a pseudo-label is one trial. '
            "Expand the table to one row a trial, with n=1."
        )


def _one_of_two(parameters: Sequence[Variable], evaluate: Callable[[Variable], Any], name: str) -> np.ndarray:
    _one_trial(parameters, evaluate, name)
    return np.arange(2)


def _categories(parameters: Sequence[Variable], evaluate: Callable[[Variable], Any], _name: str) -> np.ndarray:
    return np.arange(int(evaluate(parameters[0].shape[-1])))


def _one_hot(parameters: Sequence[Variable], evaluate: Callable[[Variable], Any], name: str) -> np.ndarray:
    _one_trial(parameters, evaluate, name)
    return np.eye(int(evaluate(parameters[1].shape[-1])), dtype=int)


def _flat(classes: Any) -> pd.Index:
    try:
        return as_index(classes, "classes=").to_flat_index()
    except RowError as error:
        raise LabelError(str(error)) from None


#: What one row's label can be, by the type of the target's distribution.
KNOWN: dict[str, Callable[..., np.ndarray]] = {
    "BernoulliRV": _two,
    "CategoricalRV": _categories,
    "BinomialRV": _one_of_two,
    "BetaBinomialRV": _one_of_two,
    "MultinomialRV": _one_hot,
}


def is_probability(target: Variable) -> bool:
    """Whether the likelihood of `target` is meant as a probability and might be none: not a known one, nor a density.

    A user's own is taken for one whatever its dtype.
    """
    op = target.owner.op
    discrete = np.dtype(target.dtype).kind in "biu"
    return type(op).__name__ not in KNOWN and (discrete or isinstance(op, CustomDistRV))


def find_classes(
    target: Variable, classes: Any, evaluate: Callable[[Variable], Any], label_shape: tuple[int, ...], dtype: str
) -> Classes:
    """The classes of `target`, from its distribution, or as given where the distribution does not say.

    `label_shape` is that of one row's label.
    """
    op = target.owner.op
    kind = type(op).__name__
    own = None if classes is None else _flat(classes)
    if own is not None and own.hasnans:
        raise LabelError(f'classes= lacks the name of class {int(own.isna().argmax())} of "{target.name}". Name every class.')
    given = None if own is None else store(own).values
    if kind in KNOWN:
        values = KNOWN[kind](op.dist_params(target.owner), evaluate, target.name)
        names = np.arange(len(values)) if given is None else given
        if len(names) != len(values):
            raise ClassCountError(
                f'classes= has {len(names)} entries and "{target.name}" has {len(values)} classes. Give one for each.',
                len(values),
            )
    elif given is None:
        raise ModelError(
            f'The classes of "{target.name}" cannot be read off its distribution ({kind}). '
            "If it is a classifier, list the values of its labels in classes=."
        )
    else:
        names = given
        values = given if given.dtype.kind in "biuf" else np.arange(len(given))
    if own is not None and len(set(map(_key, own))) < len(own):
        raise LabelError(f'classes= names a class of "{target.name}" twice: {names.tolist()}. Give each its own name.')
    trailing = label_shape if kind != "MultinomialRV" else values.shape[1:]
    if int(np.prod(label_shape)) != int(np.prod(values.shape[1:])):
        raise LabelError(f'"{target.name}" has {int(np.prod(label_shape))} labels in a row. Declare one label a row.')
    return Classes(names, values.reshape(len(values), *trailing).astype(dtype), () if own is None else tuple(own))
