"""Rows whose numbers are so large that products of them are no double-precision numbers: which they are, in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_FAR = 1e75  # the fourth power of which is still a number


def far_rows(
    positions: np.ndarray, matrix: np.ndarray, offset: np.ndarray, columns: np.ndarray, labels: Sequence[str]
) -> str | None:
    """The sentences for rows with coefficients of 1e75 or more, or None where there are none.

    `positions` (n,) name rows of the table, η = A θ + b of each by its `matrix` (n, p, W) and `offset` (n, p); `columns` (n, W)
    are the places of its W coefficients among parameters, which `labels` names.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bpls.engine.rows.far_rows import far_rows
    >>> matrix = np.array([1.0, 1e155, -1.0])[:, None, None]
    >>> far_rows(np.arange(3), matrix, np.zeros((3, 1)), np.zeros((3, 1), dtype=int), ["slope"]).split(". ")[1]
    'Rescale these columns, or leave these rows out.'
    """
    whole = np.abs(matrix).max(axis=1)
    constant = np.abs(offset).max(axis=1)
    far, far_constant = ~(whole < _FAR), ~(constant < _FAR)
    rows = np.flatnonzero(far.any(axis=1) | far_constant)
    if not len(rows):
        return None
    first = rows[0]
    what, size = "constant part", constant[first]
    if far[first].any():
        column = int(np.argmax(far[first]))
        what, size = f'factor of "{labels[columns[first, column]]}"', whole[first, column]
    count = "1 labeled row is" if len(rows) == 1 else f"{len(rows)} labeled rows are"
    return (
        f"{count} too far away to compute with (the first: row {positions[first]}, whose {what} is {size:.0e}). "
        "Rescale these columns, or leave these rows out."
    )
