"""The Gaussian approximations of p_k(θ) ∝ p(D | θ)^k π(θ), as a table: one more is one more row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pymc_bpls.approximations import vi
from pymc_bpls.approximations.ep import ep
from pymc_bpls.approximations.gaussians.gaussian import Fit, Gaussian
from pymc_bpls.approximations.hierarchies import scales
from pymc_bpls.engine.engine import Engine
from pymc_bpls.model.data.table import Labeled

#: From an engine, D, k and a Gaussian of p_k to others by draws of their own.
Again = Callable[[Engine, Labeled, int, Gaussian], list[Gaussian]]


@dataclass(frozen=True)
class Approximation:
    """How the Gaussian is fitted, and whether its `log_z` is an estimate of log Z_k or a bound of it at most.

    Scores by a fit that is only to rank candidates tell those apart that differ by `told_apart`. Where a fit is by fixed draws,
    `again` makes more by others, whose spread is twice its error.
    """

    fit: Fit
    has_log_z: bool
    told_apart: float = 0.0
    again: Again | None = None


APPROXIMATIONS: dict[str, Approximation] = {
    "ep": Approximation(scales.fit, has_log_z=True, told_apart=ep.TO_RANK),
    "vi": Approximation(vi.fit, has_log_z=False, again=vi.again),
}
