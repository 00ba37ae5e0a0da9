"""Scoring where rows depend on each other given θ: the likelihoods of D and of D ∪ i are taken as a whole.

With the joint log-likelihood L of rows in the table's order (`subtables`),

    ℓ_D = L(D),      ℓ_i = L(D ∪ i) − L(D),

so that S_i = k ℓ_D + ℓ_i + log π is L(D) + L(D ∪ i) + log π for PPP and L(D ∪ i) + log π for Theorem 1, and exactly
log PPP_i = log Z_2 − log Z_1 + log E_{p_2}[exp(L(D ∪ i) − L(D))]. Rows outside D ∪ i do not enter.

Every engine works on a density that is made for one D, in which D is one row and each candidate another. What is compiled for
a D serves any D of its size.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from pymc_bpls.compute.compiler import Compiler
from pymc_bpls.compute.library import Store
from pymc_bpls.engine.batched_newton import Function
from pymc_bpls.engine.mode import Mode
from pymc_bpls.engine.refits import Engine, Rows
from pymc_bpls.errors import CriterionError
from pymc_bpls.model.density import Density
from pymc_bpls.model.table import Labeled
from pymc_bpls.rules.label_rules import LabelRule, Options
from pymc_bpls.scoring.scorer import Scorer, Settings, Warm

_REMEMBERED = 4


class Beside(NamedTuple):
    """Rows, each with D: positions and classes of both in the table's order (rows, n + 1), and the row's place (rows,) there.

    A row of D has n of them, its own class being replaced.
    """

    positions: Any
    codes: Any
    place: Any


class Whole(NamedTuple):
    """D, its positions and classes in the table's order (n,), and rows besides."""

    positions: Any
    codes: Any
    besides: Beside


@dataclass(frozen=True)
class JointDensity(Density):
    """The density for one D, in the table's order, with its rows at any place in it."""

    labeled: Labeled = field(kw_only=True)

    def take(self, positions: np.ndarray) -> Beside:
        """`positions` beside D: all of them outside D, or all of them in it."""
        D = self.labeled
        place = np.searchsorted(D.positions, positions)
        inside = len(positions) > 0 and bool(np.isin(positions[0], D.positions))
        if inside:
            shape = (len(positions), len(D))
            return Beside(np.broadcast_to(D.positions, shape), np.broadcast_to(D.codes, shape), place)
        order = np.array([np.insert(D.positions, *pair) for pair in zip(place, positions, strict=True)], dtype=int)
        codes = np.array([np.insert(D.codes, at, 0) for at in place], dtype=int)
        shape = (len(positions), len(D) + 1)
        return Beside(order.reshape(shape), codes.reshape(shape), place)

    def with_row(self, theta: jax.Array, code: jax.Array, row: Beside) -> jax.Array:
        """L(D ∪ i) for one row i of class `code`."""
        assert self.joint is not None
        return self.joint(theta, row.codes.at[row.place].set(code), row.positions)

    def log_lik_row(self, theta: jax.Array, code: jax.Array, rows: Any) -> jax.Array:
        """L(D ∪ i) − L(D) for one row i of class `code`; for one row of D, L(D) with that class."""
        assert self.joint is not None
        with_row = self.with_row(theta, code, rows)
        if rows.positions.shape[0] == len(self.labeled):
            return with_row
        others = jnp.arange(len(self.labeled))
        others = others + (others >= rows.place)
        return with_row - self.joint(theta, rows.codes[others], rows.positions[others])

    def log_lik(self, theta: jax.Array, codes: jax.Array, rows: Any) -> jax.Array:
        """ℓ of each row, D being the first where `rows` holds it; rows in turn, since each takes as much work as D."""
        assert self.joint is not None
        if isinstance(rows, Whole):
            whole = self.joint(theta, rows.codes, rows.positions)[None]
            return jnp.concatenate([whole, self.log_lik(theta, codes[1:], rows.besides)]) if len(codes) > 1 else whole
        if len(codes) == 1:
            return self.log_lik_row(theta, codes[0], jax.tree.map(lambda values: values[0], rows))[None]
        return jax.lax.map(lambda row: self.log_lik_row(theta, *row), (codes, rows))


@dataclass(frozen=True)
class JointEngine(Engine):
    """Fits and refits where D is one row."""

    def labeled_rows(self, labeled: Labeled, k: float = 1.0) -> Rows:
        """D as a whole, with weight k, and rows that were added to it."""
        density = self.density
        assert isinstance(density, JointDensity)
        n = len(density.labeled)
        whole = Whole(density.labeled.positions, density.labeled.codes, density.take(labeled.positions[n:]))
        return Rows(k * np.r_[1.0, labeled.weights[n:]], np.r_[0, labeled.codes[n:]], whole)

    def weighted(self, parts: list[tuple[float, Rows]], prior: bool) -> Function:
        """The same sum as for any rows, L(D) being taken once: of what is compiled, it is most."""
        density = self.density
        assert isinstance(density, JointDensity) and density.joint is not None
        joint = density.joint

        def value(theta: jax.Array) -> jax.Array:
            total, of_whole = density.prior(theta) if prior else jnp.zeros(()), jnp.zeros(())
            whole: Whole | None = None
            for k, rows in parts:
                weights, codes, besides = rows
                if isinstance(besides, Whole):
                    whole, of_whole = besides, of_whole + k * weights[0]
                    weights, codes, besides = weights[1:], codes[1:], whole.besides
                for i in range(len(codes)):
                    row = jax.tree.map(lambda values, i=i: values[i], besides)
                    total += k * weights[i] * density.with_row(theta, codes[i], row)
                    of_whole -= k * weights[i]
            return total if whole is None else total + of_whole * joint(theta, whole.codes, whole.positions)

        return Function(value, jax.grad(value), lambda theta: -jax.hessian(value)(theta))


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
