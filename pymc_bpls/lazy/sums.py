"""Sums over the rows of a lazy pool, a pass each: log-likelihoods of rows without labels, their derivatives, their scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from pymc_bpls.approximations.predictions.predictive import Predictive
from pymc_bpls.compute.compiler import Kernel
from pymc_bpls.compute.executors import Executor
from pymc_bpls.engine.newton.marginals import THETAS_AT_ONCE, marginal_values
from pymc_bpls.engine.rows.marginal_rows import Marginal
from pymc_bpls.lazy.code import Code
from pymc_bpls.lazy.exporting import exported_over_rows
from pymc_bpls.lazy.part_sums import Sums, sum_part
from pymc_bpls.lazy.passes import over_parts
from pymc_bpls.lazy.pool import LazyPool
from pymc_bpls.model.density import Density
from pymc_bpls.scoring.fitted import ModelFit
from pymc_bpls.text.progress import stage


@dataclass(frozen=True)
class PoolSums(Marginal):
    """λ Σ_u g_u of all rows of a pool, λ being their `weight`; `codes` are those with the kernels that workers have got."""

    pool: LazyPool
    executor: Executor | None
    codes: dict[Any, Code]
    fit: ModelFit
    weight: float

    @property
    def apart(self) -> bool:
        """As the engine takes Hessians of D."""
        return self.fit.engine.route.apart

    def __len__(self) -> int:
        return self.pool.partitions.n_rows

    def under(self, density: Density) -> PoolSums:
        """By code of its own."""
        pool = replace(self.pool, problem=replace(self.pool.problem, density=density), codes={})
        fit = replace(self.fit, predictive=Predictive(replace(self.fit.engine, density=density)))
        return replace(self, pool=pool, codes={}, fit=fit)

    def sums(self, kernel: Kernel, *arrays: Any, **static: Any) -> Any:
        """In one pass."""
        return self._pass(kernel, [arrays], static)[0]

    def values(self, theta: np.ndarray) -> np.ndarray:
        """At all θ (S, q) in one pass."""
        padded = np.resize(np.arange(len(theta)), -(-len(theta) // THETAS_AT_ONCE) * THETAS_AT_ONCE)
        blocks = theta[padded].reshape(-1, THETAS_AT_ONCE, theta.shape[1])
        return np.concatenate(self._pass(marginal_values, [(block,) for block in blocks], {}))[: len(theta)]

    def _pass(self, kernel: Kernel, arguments: Sequence[tuple[Any, ...]], static: Mapping[str, Any]) -> list[Any]:
        """The sums of the kernel for each of some arguments, all of the same shapes."""
        code = self._code(kernel, arguments[0], static)
        wanted = Sums(code, kernel, [tuple(map(np.asarray, arrays)) for arrays in arguments], dict(static), self.weight)
        numbers = [number for number, length in enumerate(self.pool.partitions.lengths) if length]
        totals: Any = None
        with stage("a pass over the pool", len(numbers)) as tell:
            for found in over_parts(sum_part, wanted, self.pool.partitions.parts(numbers), self.executor):
                totals = found if totals is None else jax.tree.map(np.add, totals, found)
                tell(1)
        return totals

    def _code(self, kernel: Kernel, arrays: tuple[Any, ...], static: Mapping[str, Any]) -> Code:
        """That of the pool with the kernel, exported for arrays of these shapes where JAX can."""
        name = kernel, tuple(sorted(static.items()))
        key = *name, tuple(np.shape(array) for array in arrays)
        if key not in self.codes:
            code = self.pool.code(self.fit)
            made = exported_over_rows(self.fit.engine, kernel, arrays, static) if code.structure is None else None
            if made is not None:
                code = replace(code, kernels={name: made}, key=f"{code.key}-{made.digest[:16]}")
            self.codes[key] = code
        return self.codes[key]
