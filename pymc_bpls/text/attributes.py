"""Lists of strings as attributes of a result."""

from __future__ import annotations

from typing import Any

import numpy as np


def strings(value: Any) -> list[str]:
    """An attribute that was written as a list of strings, as it is in memory or as a file brings it back.

    netCDF knows no list of one or of none: one string comes back as itself, none as an array of floats without a value. Where
    sentences were one string in an older file, they count as one.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bpls.text.attributes import strings
    >>> strings(["a", "b"]), strings("a; b"), strings(np.array([])), strings("")
    (['a', 'b'], ['a; b'], [], [])
    """
    return [str(each) for each in np.atleast_1d(value).tolist() if str(each)]
