"""Scoring where rows depend on each other given θ: a scorer for each D, whose engine takes D as a whole (`engine.joint`).

What is compiled for a D serves any D of its size.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import xarray as xr

from pymc_bpls.compute.compiler import Compiler
from pymc_bpls.compute.library import Store
from pymc_bpls.engine.joint import JointDensity, JointEngine
from pymc_bpls.engine.mode import Mode
from pymc_bpls.errors import CriterionError
from pymc_bpls.model.density import Density
from pymc_bpls.model.table import Labeled
from pymc_bpls.rules.label_rules import LabelRule, Options
from pymc_bpls.scoring.scorer import Scorer, Settings, Warm

_REMEMBERED = 4


@dataclass(frozen=True)
class JointMode(Mode):
    """A mode that knows of which D it is."""

    labeled: Labeled = field(kw_only=True)


@dataclass(frozen=True)
class JointScorer(Scorer):
    """Scores candidates by a scorer for the D that is asked for: `change` of one whose engine takes D as a whole.

    `stores` holds what was compiled for each size of D, `last` the scorers of the last few D.
    """

    change: Callable[[Scorer], Scorer] = lambda scorer: scorer
    stores: dict[int, Store] = field(default_factory=dict)
    last: deque[tuple[Labeled, Scorer]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))

    def given(self, labeled: Labeled) -> Scorer:
        """The scorer for one D.

        Raises
        ------
        CriterionError
            A row of D has a weight, which a joint likelihood has no place for.
        """
        refuse_weight(self.engine.density, self.problem.name, labeled.weights)
        for known, scorer in self.last:
            same = np.array_equal(known.positions, labeled.positions) and np.array_equal(known.codes, labeled.codes)
            if same and scorer.engine.chunk_bytes == self.engine.chunk_bytes:
                return scorer
        order = np.argsort(labeled.positions)
        D = Labeled(labeled.positions[order], labeled.codes[order], labeled.weights)
        table = self.engine.density
        outside = np.setdiff1d(table.data[0], D.positions)
        held = {item.name: getattr(table, item.name) for item in fields(Density)}
        density = JointDensity(**{**held, "data": (outside,)}, labeled=D)
        store = self.stores.setdefault(len(D), Store())
        compiler = Compiler(store, self._announce, self.engine.compiler.log)
        made = Scorer(self.problem, JointEngine(density, compiler, self.engine.chunk_bytes), self.predictor)
        self.last.append((labeled, self.change(made)))
        return self.last[-1][1]

    def _announce(self, text: str) -> None:
        if self.engine.compiler.announce is not None:
            self.engine.compiler.announce(text)

    def through(self, change: Callable[[Scorer], Scorer]) -> Scorer:
        """Scores by `change` of the scorer for each D."""
        return replace(self, change=change, last=deque(maxlen=_REMEMBERED))

    def with_rows(self, rows: Mapping[str, Any]) -> tuple[Scorer, np.ndarray]:
        """On the longer table; what was made for the old one is dropped."""
        density, positions = self.problem.with_rows(rows)
        engine = replace(self.engine, density=density)
        return replace(self, engine=engine, stores={}, last=deque(maxlen=_REMEMBERED)), positions

    def fit(self, labeled: Labeled, start: np.ndarray | None = None) -> Mode:
        """The mode of L(D) + log π."""
        return _of(self.given(labeled).fit(labeled, start), labeled)

    def base(self, settings: Settings, labeled: Labeled, start: np.ndarray | None = None) -> Mode:
        """The mode, or the centre of the approximation."""
        return _of(self.given(labeled).base(settings, labeled, start), labeled)

    def log_probabilities(self, mode: Mode, positions: np.ndarray) -> np.ndarray:
        """Softmax over classes of L(D ∪ i), and of L(D) with the class of that row for a row of D; shape (rows, K)."""
        if callable(self.predictor):
            return super().log_probabilities(mode, positions)
        assert isinstance(mode, JointMode)
        inside = np.isin(positions, mode.labeled.positions)
        found = np.empty((len(positions), len(self.problem.classes)))
        for part in (inside, ~inside):
            if part.any():
                found[part] = self.given(mode.labeled).log_probabilities(mode, positions[part])
        return found

    def options(self, rule: LabelRule, labeled: Labeled, mode: Mode, candidates: np.ndarray) -> Options:
        """The classes to score for each candidate, and how they combine."""
        return self.given(labeled).options(rule, labeled, mode, candidates)

    def score(
        self, settings: Settings, labeled: Labeled, mode: Mode, candidates: np.ndarray, warm: Warm = None
    ) -> tuple[xr.Dataset, Warm]:
        """Scores of `candidates` under D."""
        return self.given(labeled).score(settings, labeled, mode, candidates, warm)

    def score_options(
        self, settings: Settings, labeled: Labeled, mode: Mode, options: Options, warm: Warm = None
    ) -> tuple[xr.Dataset, Warm]:
        """The same for given options."""
        return self.given(labeled).score_options(settings, labeled, mode, options, warm)


def _of(mode: Mode, labeled: Labeled) -> JointMode:
    return JointMode(**{item.name: getattr(mode, item.name) for item in fields(Mode)}, labeled=labeled)


def refuse_weight(density: Density, name: str, weight: Any) -> None:
    """Refuse weights of rows where rows depend on each other."""
    if density.joint is not None and (callable(weight) or np.any(weight != 1)):
        raise CriterionError(
            f'The rows of "{name}" depend on each other, so that none can weigh less than another. Leave pseudo_weight= at 1.'
        )
