"""Which engine serves D: one for any D where rows are independent, one made for each D where rows depend on each other.

An engine comes with its predictions (`Predictive`). What is compiled for a D of dependent rows serves any D of its size.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from pymc_bpls.approximations.predictions.predictive import Predictive
from pymc_bpls.compute.compiler import Compiler
from pymc_bpls.compute.travel import OfFields
from pymc_bpls.engine.engine import Engine
from pymc_bpls.errors import CriterionError
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.model.density import Density

_REMEMBERED = 4


class Engines(Protocol):
    """Makes the predictions, and with them the engine, for one D."""

    @property
    def compiler(self) -> Compiler:
        """What compiles for all of them."""
        ...

    def of(self, labeled: Labeled) -> Predictive:
        """The predictions of the engine for D."""
        ...

    def alike(self, labeled: Labeled, positions: np.ndarray) -> list[np.ndarray]:
        """Places in `positions` of rows that are predicted together."""
        ...

    def change(self, do: Callable[[Engine], Engine]) -> Engines:
        """The same with other engines."""
        ...


@dataclass(frozen=True)
class OneEngine(OfFields):
    """One engine for any D."""

    engine: Engine

    @property
    def compiler(self) -> Compiler:
        """Its own."""
        return self.engine.compiler

    @cached_property
    def _predictive(self) -> Predictive:
        return Predictive(self.engine)

    def of(self, labeled: Labeled) -> Predictive:
        """The same for any D."""
        return self._predictive

    def alike(self, labeled: Labeled, positions: np.ndarray) -> list[np.ndarray]:
        """All of them."""
        return [np.arange(len(positions))]

    def change(self, do: Callable[[Engine], Engine]) -> OneEngine:
        """With another engine."""
        return OneEngine(do(self.engine))


@dataclass(frozen=True)
class EngineForEachD:
    """Engines in which D is one row (`model.joint`), made from the `table`'s when they are asked for.

    `last` holds the predictions for the last few D.
    """

    table: Engine
    name: str
    last: deque[tuple[Labeled, Predictive]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))

    @property
    def compiler(self) -> Compiler:
        """The table's, which the others share."""
        return self.table.compiler

    def of(self, labeled: Labeled) -> Predictive:
        """The predictions for one D.

        Raises
        ------
        CriterionError
            A row of D has a weight, which a joint likelihood has no place for.
        """
        refuse_weight(self.table.density, self.name, labeled.weights)
        for known, predictive in self.last:
            if np.array_equal(known.positions, labeled.positions) and np.array_equal(known.codes, labeled.codes):
                return predictive
        predictive = Predictive(self.table.for_whole(labeled))
        self.last.append((labeled, predictive))
        return predictive

    def alike(self, labeled: Labeled, positions: np.ndarray) -> list[np.ndarray]:
        """Rows of D, and rows outside it."""
        inside = np.isin(positions, labeled.positions)
        return [np.flatnonzero(part) for part in (inside, ~inside) if part.any()]

    def change(self, do: Callable[[Engine], Engine]) -> EngineForEachD:
        """With another table's engine."""
        return replace(self, table=do(self.table), last=deque(maxlen=_REMEMBERED))


def refuse_weight(density: Density, name: str, weight: Any) -> None:
    """Refuse weights of rows where rows depend on each other."""
    if density.joint is not None and (callable(weight) or np.any(weight != 1)):
        raise CriterionError(
            f'The rows of "{name}" depend on each other, so that none can weigh less than another. Leave pseudo_weight= at 1.'
        )
