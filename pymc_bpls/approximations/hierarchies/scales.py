"""Expectation propagation for hierarchies: scales are integrated out on a lattice, as INLA does (Rue, Martino and Chopin 2009).

With θ = (ψ, x), ψ the few parameters that do not enter linearly (`engine.hierarchy`), EP at a fixed ψ gives a Gaussian of x and

    log ∫ p(D | ψ, x)^k π(ψ, x) dx,

which is the log density of ψ under p_k but for log Z_k. Averages over p_k are those over the Gaussians of x at the points of a
lattice of ψ, weighted by it. A new group has its prior given ψ in each of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.special import logsumexp

from pymc_bpls.approximations.ep import ep, sparse_ep
from pymc_bpls.approximations.ep.factors import Factors, nodes_apart
from pymc_bpls.approximations.gaussians.gaussian import Gaussian, Sites
from pymc_bpls.approximations.gaussians.mixture import Mixture, Part
from pymc_bpls.approximations.hierarchies import lattice
from pymc_bpls.approximations.hierarchies.outer_coordinates import OuterCoordinates
from pymc_bpls.compute.threads import for_matrices_of
from pymc_bpls.engine.engine import Engine
from pymc_bpls.engine.modes.mode import Mode
from pymc_bpls.engine.rows.hierarchy import Hierarchy
from pymc_bpls.engine.rows.reduced_rows import ReducedRows
from pymc_bpls.engine.sparse.elimination import Elimination
from pymc_bpls.engine.sparse.rows import SparseRows
from pymc_bpls.errors import ApproximationError
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.text.progress import Tell, stage

_ROUGHLY, _ORDERS = 1e-3, 4


def fit(
    engine: Engine,
    labeled: Labeled,
    k: int,
    mode: Mode | None,
    start: Gaussian | Mixture | None,
    *,
    to_rank: bool = False,
) -> Gaussian | Mixture:
    """EP's Gaussian for p_k, or, of a hierarchy, the mixture of those at several ψ.

    Raises
    ------
    ApproximationError
        The model is neither, or EP does not converge.
    """
    if admits_plain(engine) or engine.hierarchy is None:
        return ep.fit(engine, labeled, k, mode, start if isinstance(start, Gaussian) else None, to_rank=to_rank)
    fits = _Fits(engine.hierarchy, engine, labeled, k, start if isinstance(start, Mixture) else None)
    first = engine.density.start if mode is None else mode.theta
    tolerance = ep.TO_RANK if to_rank else ep.TOLERANCE
    parameters, outer = engine.density.parameters, engine.hierarchy.outer
    labels = [parameters.labels[i] for i in outer]
    coordinates = OuterCoordinates.of(labels, parameters.units[outer])

    def log_density(log_z: Callable[[np.ndarray], float]) -> lattice.LogDensity:
        return lambda u: log_z(coordinates.psi(u)) + coordinates.log_jacobian(u)

    with (
        np.errstate(over="ignore", invalid="ignore"),  # at scales that the search for the lattice's place runs to
        stage("expectation propagation given values of scales") as fits.tell,
        for_matrices_of(min(len(labeled), len(engine.hierarchy.inner))),
    ):
        centre, axes = lattice.climb(log_density(fits.roughly), coordinates.of_psi(first[engine.hierarchy.outer]))
        try:
            laid = lattice.lay(log_density(lambda psi: fits.at(psi, tolerance).log_z), centre, axes)
        except ApproximationError as error:
            raise ApproximationError(_fails_within_reach(labels, error)) from error
    if laid is None:
        raise ApproximationError(_too_many_points(labels))
    total, psi = float(logsumexp(laid.log_values)), np.stack([coordinates.psi(u) for u in laid.points])
    parts = tuple(fits.at(each, tolerance) for each in psi)
    return Mixture(engine.hierarchy, psi, laid.log_values - total, parts, total + laid.log_volume)


def _which(labels: list[str]) -> str:
    return f'"{labels[0]}"' if len(labels) == 1 else f'the {len(labels)} parameters "{labels[0]}" to "{labels[-1]}" together'


def _too_many_points(labels: list[str]) -> str:
    return (
        f'approximation="ep" integrates over {_which(labels)} at {lattice.MOST_POINTS:,} points at most, and labels and priors '
        'leave a wider range than these cover. Use approximation="vi", tighter priors, or fewer scales.'
    )


def _fails_within_reach(labels: list[str], error: ApproximationError) -> str:
    return (
        f'approximation="ep" integrates over {_which(labels)}, and fails at values that labels and priors leave open '
        f'({str(error).rstrip(".")}). Use approximation="vi", or tighter priors of these parameters.'
    )


def admits_plain(engine: Engine) -> bool:
    """Whether rows have one linear predictor, and priors are Gaussian or those of single coefficients."""
    rows = engine.affine_rows
    return rows is not None and rows.map.size == 1 and engine.separable_prior is not None


class _Fits:
    """EP at many ψ, each from the sites of the nearest ψ before, or of an earlier fit of rows that D begins with."""

    def __init__(self, hierarchy: Hierarchy, engine: Engine, labeled: Labeled, k: int, before: Mixture | None) -> None:
        self.hierarchy, self.engine, self.labeled, self.k, self.before = hierarchy, engine, labeled, k, before
        self.apart = nodes_apart(replace(engine, density=hierarchy.density))
        self.known: dict[bytes, tuple[float, Part]] = {}
        self.places: list[np.ndarray] = []
        self.orders: deque[tuple[np.ndarray, Elimination]] = deque(maxlen=_ORDERS)
        self.tell: Tell = lambda _: None
        self.names = [engine.density.parameters.labels[i] for i in hierarchy.inner]

    def roughly(self, psi: np.ndarray) -> float:
        """log ∫ p(D | ψ, x)^k π(ψ, x) dx, well enough to look for its maximum; −∞ where EP fails."""
        try:
            return self.at(psi, _ROUGHLY).log_z
        except ApproximationError:
            return -np.inf

    def at(self, psi: np.ndarray, tolerance: float) -> Part:
        """EP given ψ, its log Z that of the rows together with π(ψ)."""
        reached, fitted = self.known.get(psi.tobytes(), (np.inf, None))
        if fitted is not None and reached <= tolerance:
            return fitted
        near = self._nearest(psi)
        q = self._settled(psi, None if near is None else near.sites, tolerance)
        if not np.isfinite(q.log_z):
            raise ApproximationError(f"numbers leave double precision where these are {', '.join(f'{at:.3g}' for at in psi)}")
        if fitted is None:
            self.places.append(psi)
            self.tell(1)
        self.known[psi.tobytes()] = tolerance, q
        return q

    def _settled(self, psi: np.ndarray, sites: Sites | None, tolerance: float) -> Part:
        """From sites of a ψ that is near, or from none where these lead nowhere."""
        try:
            return self._settled_from(psi, sites, tolerance)
        except ApproximationError:
            if sites is None:
                raise
            return self._settled_from(psi, None, tolerance)

    def _settled_from(self, psi: np.ndarray, sites: Sites | None, tolerance: float) -> Part:
        sparse, corrected = self._sparse_rows(psi), tolerance < _ROUGHLY
        if sparse is not None:
            return sparse_ep.settle(sparse, self.labeled, self.k, sites, self.names, tolerance, self.apart, corrected=corrected)
        rows = self._rows(psi)
        factors = Factors(rows, rows.gaussian_prior, None, self.labeled, self.k, self.apart)
        start, options = factors.prior.start, {"log_z": True, "corrected": corrected}
        return ep.settle(factors, start, sites, self.names, tolerance=tolerance, **options)

    def _sparse_rows(self, psi: np.ndarray) -> SparseRows | None:
        """Where rows touch few of many parameters; the order of elimination is the same at every ψ."""
        return self.engine.conditionally_sparse(self.hierarchy.at(psi), self.labeled, self.orders)

    def _rows(self, psi: np.ndarray) -> ReducedRows:
        """In the coordinates of D's rows, as many as there are parameters at most."""
        given = self.hierarchy.at(psi)
        if given.gaussian_prior is None:
            raise ApproximationError(
                'approximation="ep" finds no Gaussian prior where the parameters that are integrated over have run to. '
                'Use approximation="vi", or proper priors.'
            )
        try:
            return ReducedRows.spanned_by(given, self.labeled)
        except ValueError as error:  # no positive definite matrix, or no finite one
            raise ApproximationError(
                f'approximation="ep" needs proper priors of what a hierarchy scales ({error}). Use approximation="vi".'
            ) from error

    def _nearest(self, psi: np.ndarray) -> Part | None:
        if not self.known:
            return None if self.before is None else self.before.nearest(psi)
        nearest = self.places[int(np.argmin(((np.stack(self.places) - psi) ** 2).sum(axis=1)))]
        return self.known[nearest.tobytes()][1]
