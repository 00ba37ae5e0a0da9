"""The log-density of a model as JAX functions of θ ∈ R^q: what depends on its structure alone, and not on its table.

log p(y, θ) = Σ_j w_j ℓ_j(θ) + log π(θ), with ℓ_j(θ) = log p(y_j | x_j, θ) and log π the prior density of θ *with* the
log-Jacobian of PyMC's transforms. Rows come as arguments, so that what is compiled of these functions serves any table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pymc_bpls.compute.store import Store
from pymc_bpls.compute.travel import OfFields
from pymc_bpls.model.graphs.affine_maps import AffineMap
from pymc_bpls.model.graphs.single_predictor import find_single_predictor
from pymc_bpls.model.graphs.slicing import RowGraph
from pymc_bpls.model.rejections import nothing_if_rejected


class Rows(NamedTuple):
    """Rows as JAX functions take them: weights (n,), class codes (n,) and the model's row inputs."""

    weights: Any
    codes: Any
    inputs: Any


@dataclass(frozen=True, eq=False)
class Structure(OfFields):
    """`row(theta, label, *inputs)` is ℓ of one row, its inputs with leading dimension 1; `priors(theta)` the terms of log π.

    `class_values` stand for the class codes, `affine_map` gives the rows' linear predictors where they have few, and `store`
    holds what was compiled. `graph` is that of one row, without a table; it stays in its process. `source` is what this one was
    made of, if anything.
    """

    row: Callable[..., jax.Array]
    priors: Callable[..., Any]
    class_values: np.ndarray
    affine_map: AffineMap | None
    graph: RowGraph | None = None
    store: Store = field(default_factory=Store)
    source: Structure | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "graph": None}

    @cached_property
    def by_single_predictor(self) -> Structure | None:
        """The same, with the one number through which a row depends on θ in place of linear predictors, where there is one."""
        single = None if self.graph is None else find_single_predictor(self.graph)
        return None if single is None else replace(self, affine_map=single, graph=None, store=Store(), source=self)

    @property
    def of_prior(self) -> Structure:
        """The structure for which functions of the prior alone are compiled, once for all that have this prior."""
        return self if self.source is None else self.source

    @property
    def shared(self) -> Any:
        """Arrays of the table that every row needs: none, where rows are independent."""
        return ()

    def sharing(self, shared: Any) -> Structure:
        """The same functions with these arrays."""
        return self

    def log_prior(self, theta: jax.Array) -> jax.Array:
        """log π(θ)."""
        return sum((term.sum() for term in map(jnp.asarray, self.priors(theta))), jnp.zeros(()))

    @cached_property
    def compiled_log_prior(self) -> Callable[[np.ndarray], jax.Array]:
        """log π of one θ, compiled as one function."""
        return jax.jit(self.log_prior)

    def log_lik_row(self, theta: jax.Array, code: jax.Array, row: Any) -> jax.Array:
        """ℓ(θ) of one row with class `code`."""
        label = jnp.asarray(self.class_values)[code][None]
        return self.row(theta, label, *(values[None] for values in row))

    def log_lik(self, theta: jax.Array, codes: jax.Array, rows: Any) -> jax.Array:
        """ℓ_j(θ) for each row j, shape (rows,)."""
        return jax.vmap(self.log_lik_row, in_axes=(None, 0, 0))(theta, codes, rows)

    def log_lik_classes(self, theta: jax.Array, rows: Any) -> jax.Array:
        """ℓ_j(θ) of every class y for each row j, shape (rows, K)."""
        codes = jnp.arange(len(self.class_values))
        of_row = jax.vmap(self.log_lik_row, in_axes=(None, 0, None))
        return jax.vmap(of_row, in_axes=(None, None, 0))(theta, codes, rows)

    def log_marginal_row(self, theta: jax.Array, row: Any) -> jax.Array:
        """g(θ) = log Σ_y exp ℓ(y; θ) of one row: what the model says of it while its label is not known."""
        codes = jnp.arange(len(self.class_values))
        return jax.nn.logsumexp(nothing_if_rejected(jax.vmap(self.log_lik_row, in_axes=(None, 0, None))(theta, codes, row)))

    def log_marginal(self, theta: jax.Array, rows: Any) -> jax.Array:
        """g_u(θ) for each row u, shape (rows,)."""
        return jax.vmap(self.log_marginal_row, in_axes=(None, 0))(theta, rows)

    def log_factor(self, theta: jax.Array, codes: jax.Array, rows: Any, *, conditional: bool) -> jax.Array:
        """What each candidate brings with its class, (rows,): ℓ, or ℓ − g = log p(y | x, θ) where `conditional`."""
        log_lik = self.log_lik(theta, codes, rows)
        return log_lik - self.log_marginal(theta, rows) if conditional else log_lik

    def log_lik_at(self, eta: jax.Array, code: jax.Array, *inputs: jax.Array) -> jax.Array:
        """ℓ of one row with class `code` as a function g of its linear predictors η (p,)."""
        assert self.affine_map is not None
        label = jnp.asarray(self.class_values)[code][None]
        return self.affine_map.log_lik(eta, label, *(values[None] for values in inputs))

    def log_density(self, theta: jax.Array, parts: Sequence[tuple[float, Rows]], *, prior: bool) -> jax.Array:
        """Σ k Σ_j w_j ℓ_j(θ) over groups (k, rows), plus log π(θ)."""
        total = jnp.zeros(()) if not prior else self.log_prior(theta)
        for k, rows in parts:
            total += k * (rows.weights @ self.log_lik(theta, rows.codes, rows.inputs))
        return total
