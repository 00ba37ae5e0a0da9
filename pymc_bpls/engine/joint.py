"""Rows that depend on each other given θ: the likelihoods of D and of D ∪ i are taken as a whole.

With the joint log-likelihood L of rows in the table's order (`model.subtables`),

    ℓ_D = L(D),      ℓ_i = L(D ∪ i) − L(D),

so that S_i = k ℓ_D + ℓ_i + log π is L(D) + L(D ∪ i) + log π for PPP and L(D ∪ i) + log π for Theorem 1, and exactly
log PPP_i = log Z_2 − log Z_1 + log E_{p_2}[exp(L(D ∪ i) − L(D))]. Rows outside D ∪ i do not enter.

An engine works on a density that is made for one D, in which D is one row and each candidate another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pymc_bpls.engine.batched_newton import Function
from pymc_bpls.engine.refits import Engine, Rows
from pymc_bpls.model.density import Density
from pymc_bpls.model.table import Labeled


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
