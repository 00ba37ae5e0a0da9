"""Rows that depend on each other given θ: the likelihoods of D and of D ∪ i are taken as a whole.

With the joint log-likelihood L of rows in the table's order (`subtables`),

    ℓ_D = L(D),      ℓ_i = L(D ∪ i) − L(D),

so that S_i = k ℓ_D + ℓ_i + log π is L(D) + L(D ∪ i) + log π for PPP and L(D ∪ i) + log π for Theorem 1, and exactly
log PPP_i = log Z_2 − log Z_1 + log E_{p_2}[exp(L(D ∪ i) − L(D))]. Rows outside D ∪ i do not enter.

A density is made for one D, in which D is one row and each candidate another. What is compiled for it serves any D of its size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pymc_bpls.compute.store import Store
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.model.density import Density
from pymc_bpls.model.graphs.subtables import SubTables
from pymc_bpls.model.structure import Rows, Structure


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


@dataclass(frozen=True, eq=False)
class JointStructure(Structure):
    """The functions for any D of `size` rows, with its rows at any place in the `table`."""

    joint: SubTables = field(kw_only=True)
    size: int = field(kw_only=True)
    table: Any = field(kw_only=True)

    @property
    def shared(self) -> Any:
        """The values of the whole table, of which rows are taken."""
        return self.table

    def sharing(self, shared: Any) -> JointStructure:
        """The same functions of another table."""
        return replace(self, table=shared)

    def with_row(self, theta: jax.Array, code: jax.Array, row: Beside) -> jax.Array:
        """L(D ∪ i) for one row i of class `code`."""
        return self.joint(theta, row.codes.at[row.place].set(code), row.positions, self.table)

    def log_lik_row(self, theta: jax.Array, code: jax.Array, row: Any) -> jax.Array:
        """L(D ∪ i) − L(D) for one row i of class `code`; for one row of D, L(D) with that class."""
        with_row = self.with_row(theta, code, row)
        if row.positions.shape[0] == self.size:
            return with_row
        others = jnp.arange(self.size)
        others = others + (others >= row.place)
        return with_row - self.joint(theta, row.codes[others], row.positions[others], self.table)

    def log_lik(self, theta: jax.Array, codes: jax.Array, rows: Any) -> jax.Array:
        """ℓ of each row, D being the first where `rows` holds it; rows in turn, since each takes as much work as D."""
        if isinstance(rows, Whole):
            whole = self.joint(theta, rows.codes, rows.positions, self.table)[None]
            return jnp.concatenate([whole, self.log_lik(theta, codes[1:], rows.besides)]) if len(codes) > 1 else whole
        if len(codes) == 1:
            return self.log_lik_row(theta, codes[0], jax.tree.map(lambda values: values[0], rows))[None]
        return jax.lax.map(lambda row: self.log_lik_row(theta, *row), (codes, rows))

    def log_density(self, theta: jax.Array, parts: Sequence[tuple[float, Rows]], *, prior: bool) -> jax.Array:
        """The same sum as for any rows, L(D) being taken once: of what is compiled, it is most."""
        total, of_whole = self.log_prior(theta) if prior else jnp.zeros(()), jnp.zeros(())
        whole: Whole | None = None
        for k, rows in parts:
            weights, codes, besides = rows
            if isinstance(besides, Whole):
                whole, of_whole = besides, of_whole + k * weights[0]
                weights, codes, besides = weights[1:], codes[1:], whole.besides
            for i in range(len(codes)):
                row = jax.tree.map(lambda values, i=i: values[i], besides)
                total += k * weights[i] * self.with_row(theta, codes[i], row)
                of_whole -= k * weights[i]
        return total if whole is None else total + of_whole * self.joint(theta, whole.codes, whole.positions, self.table)


@dataclass(frozen=True)
class JointDensity(Density):
    """The density for one D, in the table's order."""

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

    def labeled_rows(self, labeled: Labeled, k: float = 1.0) -> Rows:
        """D as a whole, with weight k, and rows that were added to it."""
        n = len(self.labeled)
        whole = Whole(self.labeled.positions, self.labeled.codes, self.take(labeled.positions[n:]))
        return Rows(k * np.r_[1.0, labeled.weights[n:]], np.r_[0, labeled.codes[n:]], whole)


def joint_density(density: Density, labeled: Labeled) -> JointDensity:
    """The density of a table whose rows depend on each other, for one D."""
    joint = density.joint
    assert joint is not None
    order = np.argsort(labeled.positions)
    D = Labeled(labeled.positions[order], labeled.codes[order], labeled.weights)
    store = joint.stores.setdefault(len(D), Store())
    functions = {**_fields(density.structure, Structure), "store": store}
    structure = JointStructure(**functions, joint=joint, size=len(D), table=joint.table)
    outside = np.setdiff1d(density.data[0], D.positions)
    return JointDensity(**{**_fields(density, Density), "structure": structure, "data": (outside,)}, labeled=D)


def _fields(instance: Any, of: type[Any]) -> dict[str, Any]:
    return {item.name: getattr(instance, item.name) for item in fields(of)}
