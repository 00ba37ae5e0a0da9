"""Values in which some are missing or masked, as arrays that keep that: NaN among numbers, None among labels and names."""

from __future__ import annotations

from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
import xarray as xr

_OF_PANDAS = (pd.DataFrame, pd.Series, pd.Index, pd.api.extensions.ExtensionArray)


def as_numbers(values: Any) -> np.ndarray:
    """Rows of data as an array, dense where they are sparse: floats where dtypes differ or a value is missing or masked.

    Objects that are numbers become floats, None and `pd.NA` among them NaN. What holds other values is given as it is.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from pymc_bpls.model.data.missing import as_numbers
    >>> as_numbers(np.ma.masked_array([1, 2], mask=[False, True])), as_numbers(pd.Series([1, None], dtype="Int64"))
    (array([ 1., nan]), array([ 1., nan]))
    >>> as_numbers([[1, None]]), as_numbers([[1, "two"]])
    (array([[ 1., nan]]), array([['1', 'two']], dtype='<U21'))
    """
    if scipy.sparse.issparse(values):
        return np.asarray(values.toarray())
    if isinstance(values, _OF_PANDAS):
        dtypes = set(values.dtypes) if isinstance(values, pd.DataFrame) else {values.dtype}
        plain = len(dtypes) == 1 and all(isinstance(dtype, np.dtype) for dtype in dtypes)
        if not plain and all(map(pd.api.types.is_numeric_dtype, dtypes)):
            return values.to_numpy(dtype=float, na_value=np.nan)
    array = np.asarray(nan_where_masked(values.compute().data if isinstance(values, xr.DataArray) else values))
    if array.dtype != object or not_numbers(array).any():
        return array
    held = [float("nan") if _is_missing(value) else float(value) for value in array.ravel().tolist()]
    return np.array(held, dtype=float).reshape(array.shape)


def not_numbers(values: np.ndarray) -> np.ndarray:
    """Where an array of objects, of any shape, holds what is neither a number nor a missing value."""
    strange = [not (isinstance(value, Real | Decimal) or _is_missing(value)) for value in values.ravel().tolist()]
    return np.array(strange, dtype=bool).reshape(values.shape)


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA


def nan_where_masked(values: Any) -> Any:
    """A masked array of numbers with NaN where it is masked; anything else as it is."""
    if not np.ma.isMaskedArray(values):
        return values
    return np.ma.filled(values.astype(float), np.nan) if np.ma.is_masked(values) else values.data


def none_where_masked(values: Any) -> Any:
    """A masked array of labels or names as objects, with None where it is masked; anything else as it is."""
    if not np.ma.isMaskedArray(values):
        return values
    if not np.ma.is_masked(values):
        return values.data
    held = values.data.astype(object)
    held[np.ma.getmaskarray(values)] = None
    return held
