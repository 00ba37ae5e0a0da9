"""The factors of p_k(θ) that are not Gaussian, each of one linear function of θ: D's rows, and single coefficients' priors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pymc_bpls.approximations.gaussians.untouched import UntouchedPriors
from pymc_bpls.approximations.predictions.predictive import Predictive
from pymc_bpls.engine.engine import Engine
from pymc_bpls.engine.priors.gaussian_priors import GaussianPrior
from pymc_bpls.engine.priors.precisions import Precision
from pymc_bpls.engine.rows.affine_rows import AffineRows, Block
from pymc_bpls.engine.rows.reduced_rows import Coordinates, ReducedRows
from pymc_bpls.engine.rows.separable_priors import SeparablePrior
from pymc_bpls.errors import ApproximationError
from pymc_bpls.model.data.table import Labeled

# where averages that are exact to 1e-9 ask for nodes 1.07 apart: those of tilted densities, which are narrower than q, do not
_APART = 1.4


def nodes_apart(engine: Engine) -> float:
    """How far apart nodes may be to see the likelihood of an engine whose rows have one predictor; 0 where none will do."""
    refinement = Predictive(engine).refinement
    return _APART / refinement if refinement else 0.0


@dataclass(frozen=True)
class Factors:
    """The factors of p_k: J = n + C, D's rows and then `singles`, coefficients with a prior of another kind, and the rest.

    They are functions of coordinates (d,), in which `prior` is the Gaussian rest: those of D's rows where these are fewer than
    parameters and all priors are Gaussian, else θ. `apart` is how far apart nodes may be to see the likelihood, or 0.
    Coefficients with such a prior that no row touches are not among `singles` but `untouched`.
    """

    rows: Coordinates
    prior: GaussianPrior
    singles: SeparablePrior | None
    labeled: Labeled
    k: int
    apart: float
    untouched: UntouchedPriors | None = None

    @classmethod
    def of(cls, engine: Engine, labeled: Labeled, k: int) -> Factors:
        """Those of an engine's density.

        Raises
        ------
        ApproximationError
            Rows have more than one linear predictor, or priors of coefficients depend on each other.
        """
        model = engine.affine_rows
        if model is None or model.map.size != 1:
            raise ApproximationError(
                'approximation="ep" needs rows with one predictor that is linear in the unconstrained parameters, at least '
                'once five of them or fewer are fixed (scales of a hierarchy), and these have none. Use approximation="vi".'
            )
        prior = engine.separable_prior
        if prior is None:
            raise ApproximationError(
                'approximation="ep" needs Gaussian priors, at least given five scales or fewer, or independent ones of single '
                'coefficients, and these depend on each other or are 0 somewhere. Use approximation="vi".'
            )
        apart = nodes_apart(engine)
        if prior.coordinates.size:
            return cls._with_singles(model, prior, labeled, k, apart)
        rows = engine.coordinates(labeled) or model
        assert rows.gaussian_prior is not None
        return cls(rows, rows.gaussian_prior, None, labeled, k, apart)

    @classmethod
    def _with_singles(cls, model: AffineRows, prior: SeparablePrior, labeled: Labeled, k: int, apart: float) -> Factors:
        """With a Gaussian of the same integral in place of every prior that stands alone."""
        design = model.labeled_block(labeled, k).matrix[:, 0, prior.coordinates]
        touched = (design != 0).any(axis=0)
        singles = prior.of(touched) if touched.any() else None
        if touched.all():
            return cls(model, prior.quadratic, singles, labeled, k, apart)
        alone = prior.of(~touched)
        widths = alone.scales()
        untouched = UntouchedPriors.of(alone, widths, model.density.parameters.labels)
        precision = prior.quadratic.precision.copy()
        precision[alone.coordinates, alone.coordinates] = 1 / widths**2
        value = prior.quadratic.value + float((untouched.log_integrals - np.log(np.sqrt(2 * np.pi) * widths)).sum())
        rest = replace(prior.quadratic, value=value, structure=Precision.of_matrix(precision))
        return cls(model, rest, singles, labeled, k, apart, untouched)

    @property
    def n(self) -> int:
        """How many of them are rows."""
        return len(self.labeled)

    @cached_property
    def directions(self) -> np.ndarray:
        """a_j of every factor (J, d)."""
        rows = self.block.matrix[:, 0, :]
        return rows if self.singles is None else np.vstack([rows, np.eye(rows.shape[1])[self.singles.coordinates]])

    @cached_property
    def block(self) -> Block:
        """The rows of D, their weights times k."""
        return self.rows.labeled_block(self.labeled, self.k)

    @cached_property
    def offset(self) -> np.ndarray:
        """b_j of every factor (J,)."""
        offset = self.block.offset[:, 0]
        return offset if self.singles is None else np.append(offset, np.zeros(len(self.singles.coordinates)))

    def log_values(self, f: np.ndarray, owner: np.ndarray) -> np.ndarray:
        """Logs of the factors `owner` (G,), in ascending order, at values f (G,) of their a_j'θ + b_j: shape (G,)."""
        block = self.block
        split = np.searchsorted(owner, self.n)
        rows, single = owner[:split], owner[split:] - self.n
        inputs = tuple(values[rows] for values in block.inputs)
        log_lik = block.weights[rows] * self.rows.log_lik_at(f[:split, None], block.codes[rows], inputs)
        if self.singles is None or not len(single):
            return log_lik
        return np.concatenate([log_lik, self.singles.along(f[split:], single)])

    def places(self, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Around which values of their a_j'θ + b_j some factors change, and over which distance (B,).

        A row's likelihood around 0 over one unit, a coefficient's prior around its start over its width.
        """
        centre, width = np.zeros(self.n), np.ones(self.n)
        if self.singles is not None:
            centre, width = np.append(centre, self.prior.start[self.singles.coordinates]), np.append(width, self._widths)
        return centre[which], width[which]

    @cached_property
    def _widths(self) -> np.ndarray:
        assert self.singles is not None
        return self.singles.scales()

    def point(self, theta: np.ndarray) -> np.ndarray:
        """The coordinates (d,) of θ (q,)."""
        return self.rows.space.points(theta[None])[0] if isinstance(self.rows, ReducedRows) else theta

    def laplace_sites(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """τ and ν (J,) of Laplace's kind at a point (d,), and of the width of each single coefficient's prior."""
        block = self.block
        f = block.matrix[:, 0, :] @ point + block.offset[:, 0]
        at = self.rows.derivatives_at(f[:, None], block.codes, block.inputs)
        tau = np.maximum(-block.weights * at.hessian[:, 0, 0], 0.0)
        nu = tau * f + block.weights * at.gradient[:, 0]
        if self.singles is None:
            return tau, nu
        widths, centre = self._widths, self.prior.start[self.singles.coordinates]
        return np.append(tau, 1 / widths**2), np.append(nu, centre / widths**2)

    def names(self, which: np.ndarray, labels: Sequence[str]) -> str:
        """Some of them, in words."""
        singles = np.empty(0, dtype=int) if self.singles is None else self.singles.coordinates
        return ", ".join(
            f"row {self.labeled.positions[j]}" if j < self.n else f'"{labels[singles[j - self.n]]}"' for j in which
        )
