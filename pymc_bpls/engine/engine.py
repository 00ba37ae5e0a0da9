"""The engine: verified modes, refits, log-likelihoods and derivatives of one model on one table."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from pymc_bpls.compute.chunks import map_rows
from pymc_bpls.compute.compiler import Kernel
from pymc_bpls.compute.executors import Executor
from pymc_bpls.compute.memory import ask_memory
from pymc_bpls.compute.threads import IN_TURN, for_matrices_of
from pymc_bpls.engine.modes.failures import Derivatives, unidentified
from pymc_bpls.engine.modes.hessian_check import Route
from pymc_bpls.engine.modes.mode import Mode, find_mode, newton
from pymc_bpls.engine.modes.refits import Refits, Shared, refit_affine, refit_by_autodiff, refit_sparse_rows
from pymc_bpls.engine.newton import kernels
from pymc_bpls.engine.row_engine import RowEngine
from pymc_bpls.engine.rows.conditional_rows import ConditionalRows
from pymc_bpls.engine.rows.far_rows import far_rows
from pymc_bpls.engine.rows.marginal_rows import Marginal, MarginalRows
from pymc_bpls.engine.rows.objective import DenseObjective, derivatives
from pymc_bpls.engine.rows.reduced_rows import Coordinates, ReducedRows, RowSpaces
from pymc_bpls.engine.rows.separable_priors import SeparablePrior, find_separable
from pymc_bpls.engine.sparse.curvature import SparseCurvature
from pymc_bpls.engine.sparse.elimination import Elimination
from pymc_bpls.engine.sparse.objective import SparseObjective
from pymc_bpls.engine.sparse.rows import SparseRows, find_sparse_prior
from pymc_bpls.errors import ModeError, RowError
from pymc_bpls.model.data.table import Labeled, Unlabeled
from pymc_bpls.model.joint import joint_density
from pymc_bpls.text.progress import stage

CHUNK_BYTES = 256 * 2**20
_PAIRS_AT_ONCE = 64
_PROBES = 3
_FEW_PARAMETERS = 500
_MANY_PARAMETERS, _WORTH, _EXPLAINED = 200, 8, 2000
_HESSIANS, _MATRICES = 10, 4
_FEWER_ROWS = "Label fewer rows, or leave out what makes rows depend on each other"


@dataclass(frozen=True)
class Engine(RowEngine):
    """Everything numerical about one model on one table, in its unconstrained parameters θ ∈ R^q.

    With row log-likelihoods ℓ_j(θ) = log p(y_j | x_j, θ), ℓ_D = Σ w_j ℓ_j over the rows of D, and the prior density π of θ with
    the log-Jacobian of PyMC's transforms, all objectives are S(θ) = k ℓ_D(θ) [+ ℓ_i(θ)] [+ log π(θ)]. D is given as a
    `Labeled`: row positions in the table, class codes and weights. Code is compiled once for the model's structure and each
    padded size of D, and serves other tables of the same structure.

    Parameters
    ----------
    density, compiler, affine, conditional
        As in `RowEngine`.
    chunk_bytes : int, default 256 MiB
        Memory for the candidates that are refitted together.
    executor : optional
        Runs chunks of refits, and of averages over draws; by default one after the other. It stays in its process.
    route : Route
        Whether Hessians by autodiff can be trusted, found at the first one.
    pool : Unlabeled or Marginal, optional
        Rows whose labels are integrated out, of the table or elsewhere: they add Σ_u λ_u g_u to every density.
    sparse : bool, optional
        Whether curvatures are kept by what is not zero of them; by default where there are many parameters, of which rows
        touch few.
    """

    chunk_bytes: int = CHUNK_BYTES
    executor: Executor | None = None
    route: Route = field(default_factory=Route)
    pool: Unlabeled | Marginal | None = None
    sparse: bool | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "executor": None}

    @cached_property
    def _row_spaces(self) -> RowSpaces | None:
        return None if self.affine_rows is None else RowSpaces(self.affine_rows)

    def coordinates(self, labeled: Labeled) -> Coordinates | None:
        """What D is worked on in, where rows have linear predictors: its rows, where they are fewer than parameters, else θ."""
        return self._reduced(labeled) or self.affine_rows

    def dimension_for(self, labeled: Labeled) -> int:
        """Of the matrices that D is worked on with: as many as its rows have predictors, if these are fewer than parameters."""
        q = self.density.dimension
        return q if self.affine_rows is None else min(q, self.affine_rows.map.size * (len(labeled) + 1))

    @cached_property
    def sparse_rows(self) -> SparseRows | None:
        """The density in what rows touch of its parameters, where there are many, or `sparse` says so."""
        many = self.sparse or (self.sparse is None and self.density.dimension >= _MANY_PARAMETERS)
        if not many or self.affine_rows is None or self.pool is not None:
            return None
        prior = find_sparse_prior(self.affine_rows)
        return None if prior is None else SparseRows(self.affine_rows, prior)

    def sparse_objective(self, labeled: Labeled, k: int) -> SparseObjective | None:
        """k ℓ_D + log π by what is not zero of its curvature, where rows touch so few parameters that this is worth while."""
        rows, q = self.sparse_rows, self.density.dimension
        if rows is None or not rows.has(labeled.positions):
            return None
        order = rows.order(labeled.positions)
        if self.sparse is None and _WORTH * order.operations > q**3 / 3:
            return None
        block = rows.block(labeled.positions, labeled.codes, k * labeled.weights)
        return SparseObjective(model=rows, labeled=block, order=order)

    def conditionally_sparse(
        self, model: ConditionalRows, labeled: Labeled, orders: deque[tuple[np.ndarray, Elimination]]
    ) -> SparseRows | None:
        """Rows of a hierarchy with its scales fixed by what they touch, where that is worth while; `orders` are shared."""
        many = self.sparse or (self.sparse is None and model.dimension >= _MANY_PARAMETERS)
        prior = find_sparse_prior(model) if many else None
        if prior is None:
            return None
        rows = SparseRows(model, prior, orders)
        if not rows.has(labeled.positions):
            return None
        smaller = min(len(labeled), model.dimension)
        worth = self.sparse or _WORTH * rows.order(labeled.positions).operations <= smaller**3
        return rows if worth else None

    def _reduced(self, labeled: Labeled, *, remember: bool = True) -> ReducedRows | None:
        if self._row_spaces is None or self.pool is not None:
            return None
        return self._row_spaces.of(labeled, remember=remember)

    @cached_property
    def separable_prior(self) -> SeparablePrior | None:
        """The prior as a quadratic plus functions of single coefficients, where rows have linear predictors and it is that."""
        return None if self.affine_rows is None else find_separable(self.affine_rows)

    def for_whole(self, labeled: Labeled) -> Engine:
        """Where rows depend on each other: an engine whose density takes D as a whole, and the other rows beside it.

        Raises
        ------
        SizeError
            A matrix over D's rows would not fit.
        """
        joint, n = self.density.joint, len(labeled)
        if joint is not None and 2 in joint.axes.values():
            ask_memory(f"A matrix over {n:,} rows of D, with what is made of it,", _MATRICES * 8 * (n + 1) ** 2, _FEWER_ROWS)
        return replace(self, density=joint_density(self.density, labeled), route=Route())

    def fit(
        self,
        labeled: Labeled,
        start: np.ndarray | None = None,
        *,
        k: int = 1,
        prior: bool = True,
        extra: tuple[int, int] | None = None,
    ) -> Mode:
        """The verified mode of S = k ℓ_D [+ ℓ_i] [+ log π].

        Parameters
        ----------
        labeled : Labeled
            D.
        start : array_like, shape (q,), optional
            Where to start; the model's own start by default.
        k : int, default 1
            How often D counts: 1 for the posterior, 2 for the pseudo posterior predictive.
        prior : bool, default True
            Whether log π is part of S.
        extra : tuple of int, optional
            (row, class) of a candidate i.

        Returns
        -------
        Mode
            `theta` (q,), S there, the `hessian` −∇²S (q, q) and its `log_det`, and Laplace's `log_integral` of exp S. Where
            rows are fewer than parameters it is found in the coordinates of the rows, and the Hessian made if it is asked for.

        Raises
        ------
        ModeError
            There is no trustworthy mode: the parameters to blame are named.
        RowError
            Rows of D are so far away that numbers leave double precision.

        Examples
        --------
        >>> import numpy as np, pymc as pm, pymc_bpls as bpls
        >>> with pm.Model() as model:
        ...     beta = pm.Normal("beta", 0, 1)
        ...     label = pm.Bernoulli("label", logit_p=np.array([1.0, 2.0, -1.0, 0.5]) * beta, observed=[1, 1, 0, -1])
        >>> pls = bpls.BPLS(model)
        >>> engine, labeled = pls.engine, pls.labeled
        >>> mode = engine.fit(labeled, k=2)
        >>> value, gradient, curvature = engine.derivatives(labeled, k=2)(mode.theta)
        >>> bool(np.abs(gradient).max() < 1e-8), bool(np.isclose(value, mode.value))
        (True, True)
        >>> engine.log_lik(mode.theta, np.array([3])).shape
        (1, 2)
        """
        if not prior:
            self._refuse_many_parameters(labeled)
        held = labeled if extra is None else labeled.with_rows(np.array([extra[0]]), np.array([extra[1]]), 1.0 / k)
        self._refuse_far_rows(held)
        divided = None if extra is None or not self.conditional else Unlabeled(np.array([extra[0]]), np.array([-1.0]))
        rows = self._reduced(held, remember=extra is None) if prior and divided is None else None
        start = self.density.start if start is None else start
        sparse = self.sparse_objective(held, k) if rows is None and prior and divided is None else None
        if sparse is not None and (mode := self._sparse_mode(sparse, start)) is not None:
            return mode
        with for_matrices_of(self.density.dimension if rows is None else rows.dimension):
            return find_mode(
                self.derivatives(held, k=k, prior=prior, without_label=divided, rows=rows),
                start if rows is None else rows.space.points(start[None])[0],
                self.density.parameters.labels,
                prior=prior,
                n_rows=len(held),
                rows=rows,
                not_finite=self.density.not_finite,
                rejection=lambda theta, where: self._rejection(held, theta, where),
                flat=self._prior_is_flat,
            )

    def _prior_is_flat(self, theta: np.ndarray, direction: np.ndarray) -> bool:
        """Whether log π is the same at θ (q,) and one, and ten, further in a direction (q,)."""
        unit = direction / max(float(np.linalg.norm(direction)), 1e-300)
        values = [float(self.log_prior(at[None])[0]) for at in (theta, theta + unit, theta + 10 * unit)]
        return bool(np.isfinite(values).all() and np.ptp(values) <= 1e-9 * (1 + abs(values[0])))

    def _refuse_far_rows(self, labeled: Labeled) -> None:
        """Say so where numbers in D are so large that their powers are none."""
        model, positions = self.affine_rows, labeled.positions
        if model is None:
            return
        sparse = self.sparse_rows
        if sparse is not None and sparse.has(positions):
            block = sparse.block(positions, labeled.codes, labeled.weights)
            own = (block.matrix, block.offset, np.minimum(block.columns, model.dimension - 1))
        else:
            matrix, offset = model.design.take(positions)
            own = (matrix, offset, np.broadcast_to(np.arange(matrix.shape[2]), (len(matrix), matrix.shape[2])))
        said = far_rows(positions, *own, self.density.parameters.labels)
        if said is not None:
            raise RowError(said)

    def _sparse_mode(self, objective: SparseObjective, start: np.ndarray) -> Mode | None:
        """Its mode from a start (q,), or None where a smaller model is to find out what is wrong with its own means."""
        with for_matrices_of(len(objective.order.core)):
            found = newton(objective, start)
        if isinstance(found, Mode):
            return found
        if self.density.dimension <= _EXPLAINED:
            return None
        raise ModeError(
            "No mode of the log-posterior was found from the model's start. Give a better start with initvals=, proper priors, "
            "or a simpler model; for the scale of a hierarchy use a non-centered form."
        )

    def _refuse_many_parameters(self, labeled: Labeled) -> None:
        """Say at once that D does not identify many parameters without their prior, before their Hessian is made."""
        model, q = self.affine_rows, self.density.dimension
        if model is None or q <= _FEW_PARAMETERS or len(labeled) * model.map.size >= q:
            return
        matrix = model.labeled_block(labeled).flat
        raise ModeError(unidentified(matrix, self.density.parameters.labels, len(labeled)))

    def derivatives(
        self,
        labeled: Labeled,
        *,
        k: float = 1,
        prior: bool = True,
        without_label: Unlabeled | None = None,
        rows: ReducedRows | None = None,
    ) -> Derivatives:
        """S = k ℓ_D [+ log π] with its derivatives: a function of θ (q,) that returns S(θ), ∇S (q,) and −∇²S (q, q).

        The engine's pool and rows `without_label` add Σ_u w_u g_u. In the coordinates of `rows` it is S alone, with log π.
        """
        if rows is not None:
            return derivatives(rows, rows.labeled_block(labeled, k), prior=True)
        at = self._of_labeled(labeled, k, prior)
        marginals = [self._marginal(rows) for rows in (self.pool, without_label) if rows is not None]
        if not marginals:
            return at
        terms = [at, *(rows.derivatives for rows in marginals)]

        def together(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
            values, gradients, curvatures = zip(*(term(theta) for term in terms), strict=True)
            return sum(values), np.sum(gradients, axis=0), np.sum(curvatures, axis=0)

        return together

    def _marginal(self, rows: Unlabeled | Marginal) -> Marginal:
        return rows if isinstance(rows, Marginal) else MarginalRows(self.density, self.compiler, rows, self.route.apart)

    @property
    def marginal(self) -> Marginal | None:
        """Σ_u λ_u g_u of the pool, where there is one."""
        return None if self.pool is None else self._marginal(self.pool)

    def _of_labeled(self, labeled: Labeled, k: float, prior: bool) -> Derivatives:
        """Those of k ℓ_D [+ log π]."""
        q = self.density.dimension
        ask_memory(f"The Hessian of {q:,} parameters, with what is made of it,", _HESSIANS * 8 * q * q)
        if self.affine_rows is not None:
            return derivatives(self.affine_rows, self.affine_rows.labeled_block(labeled, k), prior)
        rows = self.density.labeled_rows(labeled, k)

        def at(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
            if self.route.apart:
                value, gradient = self._run(kernels.value_gradient, theta, rows, prior=prior)
                return float(value), gradient, self._run(kernels.curvature_by_columns, theta, rows, prior=prior)
            value, gradient, curvature = self._run(kernels.value_gradient_curvature, theta, rows, prior=prior)
            return float(value), gradient, curvature

        self.route.check(at, self.density.start)
        return at

    def log_lik_pairs(self, theta: np.ndarray, positions: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """ℓ_j(θ) of pairs (row, class), at each θ of (S, q): shape (pairs, S)."""
        return self._over_pairs(kernels.log_lik_pairs, theta, positions, codes)

    def _over_pairs(self, kernel: Kernel, theta: np.ndarray, positions: np.ndarray, codes: np.ndarray) -> np.ndarray:
        def some(pairs: np.ndarray) -> np.ndarray:
            return self._run(kernel, theta, codes[pairs], self.density.take(positions[pairs]))

        return map_rows(some, len(positions), (_PAIRS_AT_ONCE, _PAIRS_AT_ONCE), IN_TURN)

    def log_factor_pairs(self, theta: np.ndarray, positions: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """The logarithm of what pairs (row, class) bring to the density as candidates, at each θ of (S, q): (pairs, S)."""
        kernel = kernels.log_factor_pairs if self.conditional else kernels.log_lik_pairs
        return self._over_pairs(kernel, theta, positions, codes)

    def log_lik_labeled(self, labeled: Labeled, theta: np.ndarray) -> np.ndarray:
        """ℓ_D at each θ of (S, q): shape (S,)."""
        return self._run(kernels.log_lik_labeled, theta, self.density.labeled_rows(labeled))

    def log_prior(self, theta: np.ndarray) -> np.ndarray:
        """log π at each θ of (S, q): shape (S,)."""
        return self._run(kernels.log_prior, theta)

    def refit(
        self, labeled: Labeled, positions: np.ndarray, codes: np.ndarray, start: Mode, *, k: int = 1, prior: bool = True
    ) -> Refits:
        """The modes of S_i = k ℓ_D + ℓ_i [+ log π] for many candidates i, and the terms of S_i there.

        Parameters
        ----------
        labeled : Labeled
            D.
        positions, codes : ndarray of int, shape (pairs,)
            Row and class of each candidate.
        start : Mode
            The mode of k ℓ_D [+ log π], which all of them start from.
        k, prior
            As in `fit`.

        Returns
        -------
        Refits
            Terms of shape (pairs,): `log_lik_labeled` ℓ_D, `log_lik_pseudo` ℓ_i, `log_prior`, `log_det` of −∇²S_i, `converged`.
            A candidate that is lost in the batch is tried again by itself; where that has no mode either, its terms are NaN. A
            class that cannot be has ℓ_i = −∞ wherever it is expanded: here at the mode without it.
        """
        shared = Shared(labeled, k, prior, start, self.chunk_bytes, self.executor)
        if self.route.apart:
            m = len(positions)
            a, b, c, d = np.full((4, m), np.nan)
            refits = Refits(a, b, c, d, np.zeros(m, dtype=bool), np.tile(start.point, (m, 1)))
            return self._retry(refits, shared, positions, codes)
        with for_matrices_of(len(start.point)):
            if (
                isinstance(start.curvature, SparseCurvature)
                and self.sparse_rows is not None
                and self.sparse_rows.has(positions)
            ):
                refits = refit_sparse_rows(self.sparse_rows, shared, positions, codes)
            elif self.affine_rows is not None and not self.conditional:
                refits = refit_affine(self.affine_rows, shared, positions, codes)
            else:
                how = {"conditional": self.conditional}
                refits = refit_by_autodiff(self.density, self.compiler, shared, positions, codes, **how)
        return self._retry(refits, shared, positions, codes)

    def _retry(self, refits: Refits, shared: Shared, positions: np.ndarray, codes: np.ndarray) -> Refits:
        """Candidates that the batch lost, one by one; those without a mode have NaN terms and `converged` False.

        A likelihood that is 0 for every θ adds nothing to move the mode of k ℓ_D [+ log π].
        """
        lost = np.flatnonzero(~refits.converged)
        if not lost.size:
            return refits
        refits = Refits(*(np.array(values) for values in vars(refits).values()))
        never = self.impossible(shared.start.theta, positions[lost], codes[lost])
        for i in lost[never]:
            log_lik, _, log_prior = self.terms(shared.start.theta, shared.labeled, int(positions[i]), int(codes[i]))
            refits.points[i], refits.converged[i] = self._point(shared, shared.start.theta, int(positions[i])), True
            refits.log_lik_labeled[i], refits.log_lik_pseudo[i] = log_lik, -np.inf
            refits.log_prior[i], refits.log_det[i] = log_prior, shared.start.log_det
        lost = lost[~never]
        with stage("refits one by one", len(lost)) as tell:
            for i in lost:
                self._refit_alone(refits, shared, int(i), (int(positions[i]), int(codes[i])))
                tell(1)
        return refits

    def _refit_alone(self, refits: Refits, shared: Shared, i: int, pair: tuple[int, int]) -> None:
        """The entries of one candidate, which stay NaN where it has no mode."""
        values = np.full(4, np.nan)
        try:
            mode = self.fit(shared.labeled, shared.start.theta, k=shared.k, prior=shared.prior, extra=pair)
        except (ModeError, RowError):
            pass
        else:
            values = np.array([*self.terms(mode.theta, shared.labeled, *pair), mode.log_det])
            refits.points[i], refits.converged[i] = self._point(shared, mode.theta, pair[0]), True
        refits.log_lik_labeled[i], refits.log_lik_pseudo[i], refits.log_prior[i], refits.log_det[i] = values

    def _point(self, shared: Shared, theta: np.ndarray, position: int) -> np.ndarray:
        """θ (q,) in the coordinates of the refits of a candidate in row `position`, which sparse ones leave out."""
        rows = shared.start.rows
        if isinstance(shared.start.curvature, SparseCurvature):
            return theta[:0]
        return theta if rows is None or self.conditional else rows.point_beside(theta, position)

    def _rejection(self, labeled: Labeled, theta: np.ndarray, where: str) -> str | None:
        """What PyMC rejects at θ of the parameters of D, or else which of its labels cannot be."""
        rejected = self.density.checks.sentence(theta, labeled.positions, where)
        if rejected is not None or self.density.joint is not None:
            return rejected
        never = np.flatnonzero(self.impossible(theta, labeled.positions, labeled.codes))
        if not never.size:
            return None
        label = self.density.class_values[labeled.codes[never[0]]]
        return (
            f"{never.size} labels of D have probability 0 under the model whatever its parameters (the first: {label} in row "
            f"{labeled.positions[never[0]]}). Correct these labels, or what makes their classes impossible."
        )

    def impossible(self, theta: np.ndarray, positions: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Pairs (row, class) whose likelihood is 0 at θ (q,), at the model's start and around θ: a class that cannot be."""
        around = theta + 0.5 * np.random.default_rng(0).normal(size=(_PROBES, len(theta)))
        probes = np.vstack([theta, self.density.start, around])
        return np.asarray(np.isneginf(self.log_lik_pairs(probes, positions, codes)).all(axis=1))

    def terms(self, theta: np.ndarray, labeled: Labeled, position: int, code: int) -> tuple[float, float, float]:
        """ℓ_D, ℓ_i (or ℓ_i − g_i) and log π at θ (q,) of a candidate i with a class."""
        positions, codes = np.array([position]), np.array([code])
        if self.affine_rows is not None and not self.conditional:
            rows = self.affine_rows
            block, pairs = rows.labeled_block(labeled), rows.block(positions, codes, np.ones(1))
            point = DenseObjective(model=rows, labeled=block, pairs=pairs).at(theta[None])
            assert point.pseudo is not None
            return float(point.log_lik[0]), float(point.pseudo.value[0]), float(point.log_prior[0])
        pair = self.density.rows(positions, codes, np.ones(1))
        values = self._run(kernels.terms, theta, self.density.labeled_rows(labeled), pair, conditional=self.conditional)
        return float(values[0]), float(values[1]), float(values[2])
