"""Rows whose numbers are so large that products of them are no double-precision numbers: which they are, in words."""

from __future__ import annotations

import numpy as np

from pymc_bpls.engine.rows.affine_rows import AffineRows

_FAR = 1e75  # the fourth power of which is still a number


def far_rows(model: AffineRows, positions: np.ndarray) -> str | None:
    """The sentences for rows of the table with coefficients of 1e75 or more, or None where there are none.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_bpls as bpls
    >>> from pymc_bpls.engine.rows.far_rows import far_rows
    >>> with pm.Model() as model:
    ...     slope = pm.Normal("slope", 0, 1)
    ...     label = pm.Bernoulli("label", logit_p=np.array([1.0, 1e155, -1.0, 0.5]) * slope, observed=[1, 1, 0, -1])
    >>> far_rows(bpls.BPLS(model).engine.affine_rows, np.array([0, 1, 2])).split(". ")[1]
    'Rescale these columns, or leave these rows out.'
    """
    matrix, offset = model.design.take(positions)
    whole = np.abs(np.concatenate([matrix, offset[:, :, None]], axis=2)).max(axis=1)
    far = ~(whole < _FAR)
    if not far.any():
        return None
    rows = np.flatnonzero(far.any(axis=1))
    column = int(np.argmax(far[rows[0]]))
    labels = model.density.parameters.labels
    what = f'factor of "{labels[column]}"' if column < len(labels) else "constant part"
    count = "1 labeled row is" if len(rows) == 1 else f"{len(rows)} labeled rows are"
    return (
        f"{count} too far away to compute with (the first: row {positions[rows[0]]}, whose {what} is "
        f"{whole[rows[0], column]:.0e}). Rescale these columns, or leave these rows out."
    )
