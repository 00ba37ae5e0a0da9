"""Coefficients that no row of D touches: under p_k each of them has its prior, exactly, and is independent of all others.

Their priors may be of any shape and need no variance (Student-t, Cauchy, Laplace). A row that touches some of them is averaged
over fixed points of their quantiles, a Sobol sequence moved so that each coefficient alone has the midpoints of equal shares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from scipy.special import logsumexp

from pymc_bpls.approximations.quadrature.panels import below_nodes, resolve
from pymc_bpls.engine.rows.separable_priors import SeparablePrior
from pymc_bpls.errors import ApproximationError

#: A power of two: averages over one coefficient come out to 1e-4 of themselves, over several to 1e-3.
_POINTS = 512
_AVERAGED_AT_ONCE = 2**14
#: The share beyond the outermost panel that a proper prior may keep: `resolve` has stopped adding panels before that.
_BEYOND = 1e-6


@dataclass(frozen=True)
class UntouchedPriors:
    """Priors of the `coordinates` (C,): the logs of their integrals (C,), and each one's quantiles by level."""

    coordinates: np.ndarray
    log_integrals: np.ndarray
    tables: tuple[scipy.interpolate.PchipInterpolator, ...]

    @classmethod
    def of(cls, prior: SeparablePrior, widths: np.ndarray, names: Sequence[str]) -> UntouchedPriors:
        """Those of all single coefficients of a prior, whose densities fall within some widths (C,) of their start.

        `names` are those of all parameters.

        Raises
        ------
        ApproximationError
            One of the priors is improper.
        """
        start = prior.quadratic.start[prior.coordinates]

        def along(owner: np.ndarray, values: np.ndarray) -> np.ndarray:
            return prior.along(values.ravel(), np.repeat(owner, values.shape[1])).reshape(values.shape)

        nodes = resolve(along, start, widths, start, widths, gaussian=0.0)
        cuts = np.searchsorted(nodes.owner, np.arange(1, len(start)))
        pieces = zip(*(np.split(each, cuts) for each in (nodes.z, nodes.log_values + nodes.log_weights)), strict=True)
        log_integrals, tables = np.empty(len(start)), []
        for place, (z, log_shares) in enumerate(pieces):
            total = logsumexp(log_shares)
            shares = np.exp(log_shares - total)
            if not np.isfinite(total) or max(shares[0], shares[-1]) > _BEYOND:
                raise ApproximationError(
                    f'The prior of "{names[prior.coordinates[place]]}" has no finite integral, and no labeled row touches it. '
                    "Give every parameter a proper prior."
                )
            log_integrals[place] = total + np.log(widths[place])
            levels = below_nodes(shares)
            rising = np.append(True, np.diff(levels) > 0)  # shares below rounding lie in the tails
            tables.append(scipy.interpolate.PchipInterpolator(levels[rising], start[place] + widths[place] * z[rising]))
        return cls(prior.coordinates, log_integrals, tuple(tables))

    def quantiles(self, levels: np.ndarray) -> np.ndarray:
        """Values (…, C) at levels between 0 and 1 (…, C)."""
        each = [table(np.clip(levels[..., c], *table.x[[0, -1]])) for c, table in enumerate(self.tables)]
        return np.stack(each, axis=-1)

    @cached_property
    def points(self) -> np.ndarray:
        """Fixed values (points, C), with equal weights."""
        levels = scipy.stats.qmc.Sobol(len(self.tables), scramble=False).random(_POINTS)
        return self.quantiles(levels + 0.5 / _POINTS)

    def average(
        self, matrix: np.ndarray, log_means: Callable[[np.ndarray, np.ndarray], np.ndarray], without: np.ndarray
    ) -> np.ndarray:
        """log averages (rows, …) over these coefficients, for rows with the design `matrix` (rows, q).

        `log_means` gives the averages over all other coefficients of rows (G,) by number, their predictors moved by some (G,),
        and `without` (rows, …) are those of rows that touch none.
        """
        own = matrix[:, self.coordinates]
        touching = np.flatnonzero((own != 0).any(axis=1))
        averages, size = without, max(1, _AVERAGED_AT_ONCE // len(self.points))
        for first in range(0, len(touching), size):
            rows = touching[first : first + size]
            moves = own[rows] @ self.points.T
            values = log_means(np.repeat(rows, len(self.points)), moves.ravel())
            shape = (*moves.shape, *values.shape[1:])
            averages[rows] = logsumexp(values.reshape(shape), axis=1) - np.log(len(self.points))
        return averages
