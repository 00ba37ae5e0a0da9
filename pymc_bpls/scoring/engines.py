"""Which engine serves D: one for any D where rows are independent, one made for each D where rows depend on each other.

An engine comes with its predictions (`Predictive`). What is compiled for a D of dependent rows serves any D of its size.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from pymc_bpls.approximations.predictive import Predictive
from pymc_bpls.compute.compiler import Compiler
from pymc_bpls.compute.library import Store
from pymc_bpls.engine.joint import JointDensity, JointEngine
from pymc_bpls.engine.refits import Engine
from pymc_bpls.errors import CriterionError
from pymc_bpls.model.density import Density
from pymc_bpls.model.table import Labeled

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
class OneEngine:
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
    """Engines in which D is one row (`engine.joint`), made from the `table`'s when they are asked for.

    `stores` holds what was compiled for each size of D, `last` the predictions for the last few D.
    """

    table: Engine
    name: str
    stores: dict[int, Store] = field(default_factory=dict)
    last: deque[tuple[Labeled, Predictive]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))

    @property
    def compiler(self) -> Compiler:
        """The table's, whose log and announcements the others share."""
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
        order = np.argsort(labeled.positions)
        D = Labeled(labeled.positions[order], labeled.codes[order], labeled.weights)
        density = self.table.density
        outside = np.setdiff1d(density.data[0], D.positions)
        held = {item.name: getattr(density, item.name) for item in fields(Density)}
        joint = JointDensity(**{**held, "data": (outside,)}, labeled=D)
        compiler = Compiler(self.stores.setdefault(len(D), Store()), self._announce, self.compiler.log)
        predictive = Predictive(JointEngine(joint, compiler, self.table.chunk_bytes))
        self.last.append((labeled, predictive))
        return predictive

    def _announce(self, text: str) -> None:
        if self.compiler.announce is not None:
            self.compiler.announce(text)

    def alike(self, labeled: Labeled, positions: np.ndarray) -> list[np.ndarray]:
        """Rows of D, and rows outside it."""
        inside = np.isin(positions, labeled.positions)
        return [np.flatnonzero(part) for part in (inside, ~inside) if part.any()]

    def change(self, do: Callable[[Engine], Engine]) -> EngineForEachD:
        """With another table's engine; what was made for another table is dropped."""
        table = do(self.table)
        same = table.density is self.table.density
        return replace(self, table=table, stores=self.stores if same else {}, last=deque(maxlen=_REMEMBERED))


def refuse_weight(density: Density, name: str, weight: Any) -> None:
    """Refuse weights of rows where rows depend on each other."""
    if density.joint is not None and (callable(weight) or np.any(weight != 1)):
        raise CriterionError(
            f'The rows of "{name}" depend on each other, so that none can weigh less than another. Leave pseudo_weight= at 1.'
        )
