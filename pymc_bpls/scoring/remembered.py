"""The last fits of a model on D, so that predictions after a score, and scores after predictions, fit nothing again."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np

from pymc_bpls.approximations.predictions.predictive import Predictive
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.scoring.fitted import ModelFit

_MOST, _BYTES = 3, 256 * 2**20


@dataclass
class Remembered:
    """The last few fits, each with what stood in where there was no mode; none in another process, and none that are large."""

    fits: deque[tuple[ModelFit, str | None]] = field(default_factory=lambda: deque(maxlen=_MOST))

    def __reduce__(self) -> tuple[type[Remembered], tuple[()]]:
        return Remembered, ()

    def of(self, predictive: Predictive, labeled: Labeled, centre_of: str | None) -> ModelFit | None:
        """The fit on D by an engine's predictions, with a mode or the centre of that approximation.

        What did not settle is tried, and told, again.
        """
        for fit, centre in tuple(self.fits):
            if fit.predictive is predictive and (fit.has_mode or centre == centre_of) and _same(fit.labeled, labeled):
                return replace(fit, refused=set())
        return None

    def keep(self, fit: ModelFit, centre_of: str | None) -> ModelFit:
        """Remember a fit, in place of older ones where these take much memory; the same fit."""
        self.fits.appendleft((fit, centre_of))
        while self.fits and sum(each.bytes for each, _ in tuple(self.fits)) > _BYTES:
            self.fits.pop()
        return fit


def _same(one: Labeled, other: Labeled) -> bool:
    """Whether these are the same D, row by row."""
    pairs = ((one.positions, other.positions), (one.codes, other.codes), (one.weights, other.weights))
    return all(np.array_equal(mine, its) for mine, its in pairs)
